/* snapshot_layout.h - inside train: the layout of a snapshot, for writing and reading. */
#ifndef GT_TRAIN_RUN_SNAPSHOT_LAYOUT_H
#define GT_TRAIN_RUN_SNAPSHOT_LAYOUT_H

#include "lib/ckpt/ckpt.h"
#include "lib/train/run/snapshot.h"

/* A group of torch.optim: parameters that one rule updates with the same options. */
struct gt_snapshot_group {
	const struct gt_optim_rule *rule;
	bool decay;
	double lr_scale;
	size_t count;
};

/* Parameters in the order of torch.optim's groups. Parameters of the optimizer's own rule come
 * first, then those of the other optimizer. Within each of these, parameters with weight decay come
 * first. Within each of these, parameters are grouped by lr_scale, in the order of declaration. No
 * group is empty. */
struct gt_snapshot_groups {
	const struct gt_slot **slots; /* [count] */
	size_t count;
	struct gt_snapshot_group *groups; /* [group_count] */
	size_t group_count;
};

/* Release it in any case. Errors: GT_ENOMEM. */
int gt_snapshot_groups_of(struct gt_snapshot_groups *out, const struct gt_store *store,
    enum gt_optim_kind kind, struct gt_err *err);
void gt_snapshot_groups_release(struct gt_snapshot_groups *g);

/* snapshot_load.c: read step, best_step, best_score and best_epoch. Errors: GT_EFORMAT. */
int gt_snapshot_load_position(
    struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err);

#endif
