/* merge_mean.h - inside ckpt: what the two ways of merging share. */
#ifndef GT_CKPT_TOOLS_MERGE_MEAN_H
#define GT_CKPT_TOOLS_MERGE_MEAN_H

#include "lib/ckpt/tools/merge.h"

/* The state_dict of a file, as a tree in the arena. */
int gt_merge_part(struct gt_tree **out, const struct gt_merge_input *input, struct gt_arena *arena,
    struct gt_buf *note, struct gt_err *err);

/* Elements [first, first + n) as they are, in the host's byte order; their pages are given back. */
int gt_merge_take(
    const struct gt_tree_tensor *t, int64_t first, size_t n, void *out, struct gt_err *err);

#endif
