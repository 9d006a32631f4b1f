/* snapshot_layout.h - private: the order of parameters in a training checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_LAYOUT_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_LAYOUT_H

#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/snapshot.h"

/* Parameters that are updated with the same options: an element of "param_groups". */
struct gt_snapshot_group {
	const struct gt_optim_rule *rule; /* the optimizer that updates the group */
	bool decay;                       /* the parameters have weight decay */
	double lr_scale;                  /* factor of the learning rate */
	size_t count;                     /* number of parameters */
};

/* The parameters, divided into groups as for torch.optim: `slots` has the parameters of the first
 * group, then those of the second, and so on (gt_snapshot_groups_of()). No group is empty. */
struct gt_snapshot_groups {
	const struct gt_slot **slots; /* [count] the parameters, borrowed from the store */
	size_t count;
	struct gt_snapshot_group *groups; /* [group_count] */
	size_t group_count;
};

/* Divide a store's parameters into groups for an optimizer. Release *out even after an error. */
int gt_snapshot_groups_of(struct gt_snapshot_groups *out, const struct gt_store *store,
    enum gt_optim_kind kind, struct gt_err *err);
void gt_snapshot_groups_release(struct gt_snapshot_groups *g);

enum { GT_SNAPSHOT_KEY = 64 }; /* bytes */

/* snapshot_load.c: write the key of a running mean of the parameters, "model_" and the name of its
 * plane, to `out`, and return `out`. */
const char *gt_snapshot_mean_key(char out[GT_SNAPSHOT_KEY], const struct gt_plane *plane);

/* snapshot_load.c: set s->step, and the fields about evaluations, from the tree of a snapshot. */
int gt_snapshot_load_position(
    struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err);

#endif
