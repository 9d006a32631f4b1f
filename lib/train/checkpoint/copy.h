/* copy.h - private: copy the tensors of a snapshot to host memory, so that a thread can write. */
#ifndef GT_TRAIN_CHECKPOINT_COPY_H
#define GT_TRAIN_CHECKPOINT_COPY_H

#include "lib/ckpt/dcp_set.h"
#include "lib/parallel/parallel.h"

/* The memory of copies, which is kept for the next one. It is pinned where the device has memory of
 * its own, so that the device copies at full speed. */
struct gt_copy {
	const struct gt_device *device;
	int ranks; /* of this host, which copy at the same time */
	void *memory;
	size_t bytes;
};

/* Copies are aligned to this many bytes. */
enum { GT_COPY_ALIGN = 64 };

void gt_copy_init(struct gt_copy *copy, const struct gt_device *device, int ranks);
void gt_copy_release(struct gt_copy *copy);

/* Make the memory ready for a copy of so many bytes, so that the first copy takes no longer than
 * others. Errors: GT_ENOMEM. */
int gt_copy_reserve(struct gt_copy *copy, uint64_t bytes, struct gt_err *err);

/* Copy the tensors of a snapshot's tree, or of the parts of this rank in a set, and let their
 * storages have the copies. The copies are valid until the next call. On several ranks, the ranks
 * other than 0 are in gt_parallel_serve() during gt_copy_tree(). Errors: GT_ENOMEM, and those of
 * reading a device. */
int gt_copy_tree(struct gt_copy *copy, struct gt_tree *tree, struct gt_err *err);
int gt_copy_parts(struct gt_copy *copy, const struct gt_dcp_set *set, struct gt_err *err);

#endif
