/* select.h - select a part of a checkpoint: by path in its tree, or by names in its state_dict. */
#ifndef GT_CKPT_TOOLS_SELECT_H
#define GT_CKPT_TOOLS_SELECT_H

#include "lib/ckpt/tools/convert.h"

/*
 * Find the value at a path. The steps of a path are keys of dicts, indices of lists and attributes
 * of pickled objects, joined by dots. Keys may contain dots themselves: "model.layer1.0.weight" is
 * found both if `model` has the key "layer1.0.weight" and if it has nested dicts. *out is borrowed.
 * Errors: GT_EFORMAT if there is no value at the path; the hint lists keys of the root.
 */
int gt_select_path(
    struct gt_tree **out, struct gt_tree *root, const char *path, struct gt_err *err);

/*
 * Find the state_dict of a tree and build a dict of some of its tensors: a tensor is selected if
 * its name matches one of `count` patterns. fnmatch(3) defines the patterns; '*' also matches dots.
 * Tensors that gtrain does not interpret are selected, too; only formats of PyTorch can hold them.
 * *out is in the arena; tensors are borrowed. Lines about the selection are appended to `note`.
 * Errors: GT_EFORMAT if a pattern matches no name; the hint contains a few names.
 */
int gt_select_keys(struct gt_tree **out, const struct gt_tree *root, const char *const *patterns,
    size_t count, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

#endif
