/* snapshot_inside.h - inside train: what writing and reading of a snapshot share. */
#ifndef GT_TRAIN_SNAPSHOT_INSIDE_H
#define GT_TRAIN_SNAPSHOT_INSIDE_H

#include "lib/train/snapshot.h"

/* A group of torch.optim: parameters that one rule updates with the same options. */
struct gt_snapshot_group {
	const struct gt_optim_rule *rule;
	bool decay;
	size_t count;
};

/* Parameters in the order of torch.optim's groups: those of the optimizer's own rule, then those
 * that it leaves to another; of each, first those that decay. No group is empty. */
enum { GT_SNAPSHOT_GROUPS = 4 };

struct gt_snapshot_groups {
	const struct gt_slot **slots; /* [count], the list yours to free() in any case */
	size_t count;
	struct gt_snapshot_group groups[GT_SNAPSHOT_GROUPS];
	size_t group_count;
};

/* Errors: GT_ENOMEM. */
int gt_snapshot_groups_of(struct gt_snapshot_groups *out, const struct gt_store *store,
    enum gt_optim_kind kind, struct gt_err *err);

#endif
