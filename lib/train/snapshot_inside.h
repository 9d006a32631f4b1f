/* snapshot_inside.h - inside train: what writing and reading of a snapshot share. */
#ifndef GT_TRAIN_SNAPSHOT_INSIDE_H
#define GT_TRAIN_SNAPSHOT_INSIDE_H

#include "lib/train/snapshot.h"

/* Parameters in the order of torch.optim's groups. Of two, the first holds the first `first_count`
 * slots, those that decay. */
struct gt_snapshot_groups {
	const struct gt_slot **slots; /* [count], the list yours to free() in any case */
	size_t count, first_count;
};

/* Errors: GT_ENOMEM. */
int gt_snapshot_groups_of(
    struct gt_snapshot_groups *out, const struct gt_store *store, struct gt_err *err);

#endif
