/* merge.h - merge checkpoints: the union of their tensors, or the mean of equally named tensors. */
#ifndef GT_CKPT_TOOLS_MERGE_H
#define GT_CKPT_TOOLS_MERGE_H

#include "lib/ckpt/tools/convert.h"

struct gt_merge_input {
	struct gt_tree *root;
	const char *path; /* for messages */
};

/*
 * Build a dict with the tensors of the state_dicts of `count` trees, in the order of the trees.
 * Names do not change. The dict also gets the metadata of the state_dicts: the versions of modules,
 * and texts (gt_metadata_merge()). *out is in `arena`, and borrows the tensors of the trees. The
 * function appends lines to `note`:
 *   - for each tree, the place of its state_dict, and the parts that are left out;
 *   - the number of metadata entries that differ between trees, if it is not 0;
 *   - the number of tensors in the result.
 * If a name occurs in several trees, its tensors must have the same type, shape and bytes.
 * Otherwise the function fails with GT_EFORMAT; the message contains the number of names whose
 * tensors differ, and the first few of these names.
 */
int gt_merge_union(struct gt_tree **out, const struct gt_merge_input *inputs, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/*
 * The mean of checkpoints. Its tensors are in an unnamed temporary file, which gt_merge_release()
 * deletes.
 */
struct gt_merge_mean {
	struct gt_tree *root;  /* a dict of tensors, in the arena */
	struct gt_mapping map; /* the memory mapping of the file */
	struct gt_arena arena;
};

/*
 * Compute the mean of the state_dicts of `count` trees, tensor by tensor. All trees must have the
 * same names, with the same types and shapes; otherwise the function fails with GT_EFORMAT, and the
 * message names a tensor that differs, or gives the numbers of tensors. Floats and complex numbers
 * are summed in float64, in the order of the trees, and divided by `count`. The mean is rounded
 * once, to the type of the tensor. If `as` is not NULL, floats are rounded to the type *as instead.
 * Integers and bools, such as num_batches_tracked, are taken from the first tree. The function
 * appends lines to `note` with the numbers of checkpoints and tensors, of integer and bool tensors
 * that differ between trees, of means that contain NaN or Inf, and of metadata entries that differ.
 * Tied tensors (several names for one tensor) stay tied if they are tied in all trees. For
 * comparison: AveragedModel of torch.optim.swa_utils computes a running mean during the training,
 * and copies buffers such as num_batches_tracked by default.
 *
 * The results are written to an unnamed file in `folder`. This file has the size of one checkpoint.
 * Call gt_merge_release() in every case.
 *
 * Memory: a few MiB per thread. Errors: GT_EFORMAT, also for a damaged input; GT_ENOTSUP if strides
 * repeat the same elements too often (gt_repeats_end(), tree/tree.h); GT_EIO; GT_ENOMEM.
 */
int gt_merge_average(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const enum gt_dtype *as, const char *folder, struct gt_buf *note, struct gt_err *err);
void gt_merge_release(struct gt_merge_mean *mean);

#endif
