/* snapshot_layout.h - private: the order of parameters in a training checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_LAYOUT_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_LAYOUT_H

#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/snapshot.h"

/* A group of parameters that are updated with the same options. In a checkpoint, it is an element
 * of param_groups, as in torch.optim. */
struct gt_snapshot_group {
	const struct gt_optim_rule *rule; /* the optimizer that updates the group */
	bool decay;                       /* the parameters have weight decay */
	double lr_scale;                  /* factor of the learning rate */
	size_t count;                     /* number of parameters */
};

/*
 * The parameters, divided into groups as for torch.optim. `groups` describes the groups. `slots`
 * has the parameters of the first group, then those of the second group, and so on. The groups are
 * sorted
 *
 *   1. by optimizer: first the parameters that the run's optimizer updates, then the parameters
 *      that it leaves to a second optimizer (`fallback` of struct gt_optim_rule)
 *   2. by weight decay: first the parameters with weight decay, then the parameters without
 *   3. by lr_scale: one group for each value, in the order in which the values first occur in the
 *      declarations
 *
 * In a group, parameters are in the order of declaration. No group is empty.
 */
struct gt_snapshot_groups {
	const struct gt_slot **slots; /* [count] the parameters, borrowed from the store */
	size_t count;
	struct gt_snapshot_group *groups; /* [group_count] */
	size_t group_count;
};

/* Divide the parameters of a store (lib/store/store.h) into groups for the optimizer `kind`.
 * Release *out even after an error. Errors: GT_ENOMEM. */
int gt_snapshot_groups_of(struct gt_snapshot_groups *out, const struct gt_store *store,
    enum gt_optim_kind kind, struct gt_err *err);
void gt_snapshot_groups_release(struct gt_snapshot_groups *g);

enum { GT_SNAPSHOT_KEY = 64 }; /* bytes */

/* snapshot_load.c: write the key under which a checkpoint has the state_dict with a running mean of
 * the parameters, "model_ema", to `out`, and return `out`. */
const char *gt_snapshot_mean_key(char out[GT_SNAPSHOT_KEY], const struct gt_plane *plane);

/* snapshot_load.c: set s->step, and the fields of *s about evaluations, from the tree `root` of a
 * checkpoint. Errors: GT_EFORMAT. */
int gt_snapshot_load_position(
    struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err);

#endif
