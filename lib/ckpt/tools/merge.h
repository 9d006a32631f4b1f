/* merge.h - merge checkpoints: the union of their names, or the mean of their values. */
#ifndef GT_CKPT_TOOLS_MERGE_H
#define GT_CKPT_TOOLS_MERGE_H

#include "lib/ckpt/tools/convert.h"

struct gt_merge_input {
	struct gt_tree *root;
	const char *path; /* for messages */
};

/*
 * The union of the state_dicts of `count` trees, in their order, names as they are; in the arena,
 * tensors borrowed. The note lists the parts of each file that are left out. If two trees have the
 * same name, the tensors must have the same type, shape and bytes; otherwise this fails with
 * GT_EFORMAT, the first few names and their number.
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
 * The mean of the state_dicts of `count` trees, tensor by tensor: all trees must have the same
 * names, with the same types and shapes (GT_EFORMAT names the one that differs). Floats and complex
 * numbers are summed in float64, in the order of the trees, divided, and rounded once to their
 * type. Integers and bools (num_batches_tracked) are the first tree's; the note counts those that
 * differ in other trees. Tied tensors stay tied if they are tied in all files.
 * torch.optim.swa_utils averages in the same way, and copies integers too.
 *
 * The sums go to an unnamed file in `folder`, of the size of one checkpoint. Memory: a few MiB per
 * thread. Errors: GT_EFORMAT, also for a damaged source, GT_EIO. Release in every case.
 */
int gt_merge_average(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const char *folder, struct gt_buf *note, struct gt_err *err);
void gt_merge_release(struct gt_merge_mean *mean);

#endif
