/* select.h - select a part of a checkpoint: by path in its tree, or by names in its state_dict. */
#ifndef GT_CKPT_TOOLS_SELECT_H
#define GT_CKPT_TOOLS_SELECT_H

#include "lib/ckpt/tools/convert.h"

/* Find the value at a path such as "model.layer1"; it is borrowed. GT_EFORMAT: there is none. */
int gt_select_path(
    struct gt_tree **out, struct gt_tree *root, const char *path, struct gt_err *err);

/*
 * Build a dict of the tensors whose names match a pattern (fnmatch(3)), in the arena; tensors are
 * borrowed. Append lines about the result to `note`. GT_EFORMAT: a pattern matches no name.
 */
int gt_select_keys(struct gt_tree **out, const struct gt_tree *root, const char *const *patterns,
    size_t count, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

#endif
