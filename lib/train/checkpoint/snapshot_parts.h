/* snapshot_parts.h - private: the parts of a snapshot's tensors that each rank writes to a set. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_PARTS_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_PARTS_H

#include "lib/ckpt/dcp_set.h"
#include "lib/comm/world/world.h"
#include "lib/train/checkpoint/weights.h"

/* Divides the tensors that all ranks hold among the ranks; zeroed at first. */
struct gt_snapshot_loads {
	int64_t bytes[GT_WORLD_MAX_RANKS]; /* that a seat of the data axis writes */
};

/* Return the data seat that writes a tensor, and count its bytes. All ranks call this for the same
 * tensors in the same order. */
int gt_snapshot_choose_writer(struct gt_snapshot_loads *loads, struct gt_parallel *parallel,
    const struct gt_plane *plane, const struct gt_slot *slot);

/* A part of a tensor, which a storage reads. */
struct gt_snapshot_part {
	struct gt_weights_source source;
	int64_t first; /* of the elements that this rank writes */
};

/* Add to the set what this rank writes of a snapshot's tree (gt_snapshot_tree()), in `a`. Parts are
 * read from the store when the set is written. */
int gt_snapshot_add_parts(struct gt_dcp_set *set, const struct gt_store *store,
    struct gt_parallel *parallel, struct gt_arena *a, struct gt_err *err);

#endif
