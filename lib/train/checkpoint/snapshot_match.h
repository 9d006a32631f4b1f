/* snapshot_match.h - private: find the model's parameters in the optimizer of a checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_MATCH_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_MATCH_H

#include "lib/train/checkpoint/snapshot_layout.h"

struct gt_naming; /* lib/train/checkpoint/naming.h */

/* The order that the search assumed for the parameters. Only GT_ORDER_CERTAIN is never wrong. */
enum gt_snapshot_order {
	GT_ORDER_CERTAIN,    /* gtrain wrote it, or parameters were found by name */
	GT_ORDER_MODEL,      /* the order of declaration */
	GT_ORDER_STATE_DICT, /* the order of the state_dict */
};

/* The place of a parameter in "optimizer". */
struct gt_snapshot_place {
	int64_t number; /* its key in "state" */
	size_t group;   /* index in "param_groups" */
	bool decay;     /* the group has a weight decay above 0 */
};

/* The parameters that the optimizer updates, and their places in a checkpoint. */
struct gt_snapshot_match {
	struct gt_snapshot_groups groups;
	struct gt_snapshot_place *places; /* [groups.count] places[i] is for groups.slots[i] */
	enum gt_snapshot_order order;
	bool decays; /* a group has a weight decay above 0 */
	/* Set only for another program's checkpoint. */
	double base_lr; /* learning rate of parameters whose lr_scale is 1 */
	/* shapes do not tell the groups apart: the parameters with weight decay are those of a new
	 * run */
	bool assumed;
};

/* Find the parameters of s->store in the optimizer of the training checkpoint `saved`. `options`
 * are those of the run's optimizer; `sd` and `naming` are used only for checkpoints of other
 * programs. Release *out even after an error. Errors: GT_EFORMAT (other parameters, damage),
 * GT_EINVAL (learning rates or weight decays that this run cannot have), GT_ENOMEM. */
int gt_snapshot_match(struct gt_snapshot_match *out, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err);
void gt_snapshot_match_release(struct gt_snapshot_match *match);

/* Find the group of each parameter by the shapes of its states, sort m->places to match
 * m->groups.slots, and set m->assumed. Errors: GT_EFORMAT if the states fit in no way, or in
 * several ways; GT_ENOMEM. */
int gt_snapshot_match_shapes(struct gt_snapshot_match *m, const struct gt_optim_options *options,
    const struct gt_tree *optimizer, struct gt_err *err);

/* ---- the file's list "param_groups", `groups` ---- */

/* Return the list of parameters of group i; NULL: there is no group i. */
const struct gt_tree *gt_snapshot_group_params(const struct gt_tree *groups, size_t i);

/* Return the number of parameters in all groups. */
size_t gt_snapshot_count_params(const struct gt_tree *groups);

/* Write the sizes of the groups, as "3, 4 and 1". */
void gt_snapshot_list_counts(char *out, size_t size, const struct gt_tree *groups);

/* Set place->number to element i of a list of parameters. Errors: GT_EFORMAT. */
int gt_snapshot_read_number(
    struct gt_snapshot_place *place, const struct gt_tree *params, size_t i, struct gt_err *err);

/* Read the weight decay of group i, and its learning rate before a scheduler changed it. A missing
 * number is 0. */
void gt_snapshot_read_group(const struct gt_tree *groups, size_t i, double *lr, double *decay);

/* Return whether a tensor has the parameter's shape. */
bool gt_snapshot_fits(const struct gt_slot *slot, const struct gt_tree *tensor);

#endif
