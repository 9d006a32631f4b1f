/* snapshot_match.h - private: find the model's parameters in the optimizer of a checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_MATCH_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_MATCH_H

#include "lib/train/checkpoint/snapshot_layout.h"

struct gt_naming; /* lib/train/checkpoint/naming.h */

/* The order that the search assumed for the parameters. For a file of another program, the
 * assumption may be wrong, except for GT_ORDER_CERTAIN. */
enum gt_snapshot_order {
	GT_ORDER_CERTAIN,    /* gtrain wrote the file, or the place was found by name */
	GT_ORDER_MODEL,      /* the order of declaration in the model */
	GT_ORDER_STATE_DICT, /* the order of the state_dict in the file */
};

/* The place of a parameter in the file's "optimizer". */
struct gt_snapshot_place {
	int64_t number; /* the parameter's number, which is its key in "state" */
	size_t group;   /* index of its group in "param_groups" */
	bool decay;     /* the group has a weight decay above 0 */
};

/* The parameters that the optimizer updates, and their places in a file. */
struct gt_snapshot_match {
	struct gt_snapshot_groups groups;
	struct gt_snapshot_place *places; /* [groups.count] places[i] is for groups.slots[i] */
	enum gt_snapshot_order order;
	bool decays; /* at least one group has a weight decay above 0 */
	/* The next two fields are set for another program's file. */
	double base_lr; /* learning rate in the file for parameters whose lr_scale is 1 */
	/* The shapes of the states do not tell the groups of the parameters apart. The groups with
	 * weight decay hold the parameters that have weight decay in a new run, too. */
	bool assumed;
};

/*
 * Find the parameters of s->store in the optimizer of the file `saved`. `options` are the options
 * of the run's optimizer.
 *
 * A file of gtrain must have the groups of snapshot_layout.h.
 *
 * If another program wrote the file and its groups have "param_names", as PyTorch writes them since
 * version 2.6, parameters are found by name. In this case the file may have any groups, and any
 * order of parameters in them. Prefixes and s->maps apply to these names as they apply to the names
 * of weights. The file may have or lack parameters that this run has frozen.
 *
 * If another program wrote the file without names, each group must have its parameters in the order
 * of declaration in the model. But for a file that another program wrote with torch.save, this is
 * the order of the state_dict `sd`, if `sd` has all parameters. If there are several groups,
 * gt_snapshot_match_shapes() finds the group of each parameter.
 *
 * The groups of another program's file may have their own learning rates and may lack weight decay.
 * If the file has several groups, the learning rates of two parameters must have the same ratio as
 * their lr_scale. If no group has a weight decay, and options->weight_decay is above 0, the run
 * must have no parameter with weight decay.
 *
 * `naming` is used only for files of other programs. Release *out even after an error. Errors:
 * GT_EFORMAT if the file has other parameters or is damaged; GT_EINVAL if learning rates or weight
 * decays break the rules above; GT_ENOMEM.
 */
int gt_snapshot_match(struct gt_snapshot_match *out, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err);
void gt_snapshot_match_release(struct gt_snapshot_match *match);

/*
 * Find the group of each parameter by the shapes of its states (snapshot_shapes.c). m->groups.slots
 * has all parameters, in the order that each group of the file has, too. m->places has the places
 * in the file, group after group. Sort m->places so that places[i] is the place of slots[i]. Set
 * m->assumed.
 *
 * Errors: GT_EFORMAT if the states fit the parameters in no way, or in several ways; GT_ENOMEM.
 */
int gt_snapshot_match_shapes(struct gt_snapshot_match *m, const struct gt_optim_options *options,
    const struct gt_tree *optimizer, struct gt_err *err);

/* ---- the file's list "param_groups", `groups` ---- */

/* Return the list of parameters of group i; NULL: there is no group i. */
const struct gt_tree *gt_snapshot_group_params(const struct gt_tree *groups, size_t i);

/* Return the number of parameters in all groups. */
size_t gt_snapshot_count_params(const struct gt_tree *groups);

/* Write the numbers of parameters of the groups, as in "3, 4 and 1". */
void gt_snapshot_list_counts(char *out, size_t size, const struct gt_tree *groups);

/* Set place->number to element i of a list of parameters. Errors: GT_EFORMAT. */
int gt_snapshot_read_number(
    struct gt_snapshot_place *place, const struct gt_tree *params, size_t i, struct gt_err *err);

/* Read the learning rate, as it was before a scheduler changed it, and the weight decay of group i.
 * A number that is missing is 0. */
void gt_snapshot_read_group(const struct gt_tree *groups, size_t i, double *lr, double *decay);

/* Return whether a tensor of the file has the shape of a parameter. */
bool gt_snapshot_fits(const struct gt_slot *slot, const struct gt_tree *tensor);

#endif
