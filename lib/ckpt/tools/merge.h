/* merge.h - several checkpoints made one: the union of their names, or the mean of their values. */
#ifndef GT_CKPT_TOOLS_MERGE_H
#define GT_CKPT_TOOLS_MERGE_H

#include "lib/ckpt/tools/convert.h"

struct gt_merge_input {
	struct gt_tree *root;
	const char *path; /* for messages */
};

/*
 * The union of the state_dicts of `count` trees, in their order, names as they are; in the arena,
 * tensors borrowed. The note says what is left of each file. A name that two of them have is taken
 * once if the tensors are the same in type, shape and every byte; else it is an error: GT_EFORMAT
 * with the first few and their number.
 */
int gt_merge_union(struct gt_tree **out, const struct gt_merge_input *inputs, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/* The mean of checkpoints, kept in a file without a name until it is released. */
struct gt_merge_mean {
	struct gt_tree *root; /* a dict of tensors, in the arena */
	struct gt_mapping map;
	struct gt_arena arena;
};

/*
 * The mean of the state_dicts of `count` trees, tensor by tensor: all must have the same names, and
 * under each the same type and shape (GT_EFORMAT says which has not). Floats and complex numbers
 * are summed in float64, in the order of the trees, divided, and rounded once to their type.
 * Integers and bools (num_batches_tracked) are the first tree's; the note says of how many the
 * others differ. Tensors that are one under two names in all files are so in the result. As
 * torch.optim.swa_utils averages, which copies integers too.
 *
 * The sums go to an unnamed file in `folder`, of the size of one checkpoint. Memory: a few MiB per
 * thread. Errors: GT_EFORMAT, also for a damaged source, GT_EIO. Release in every case.
 */
int gt_merge_average(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const char *folder, struct gt_buf *note, struct gt_err *err);
void gt_merge_release(struct gt_merge_mean *mean);

#endif
