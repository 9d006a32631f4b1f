/* select.h - a part of a checkpoint: by path in its tree, by names of its state_dict. */
#ifndef GT_CKPT_TOOLS_SELECT_H
#define GT_CKPT_TOOLS_SELECT_H

#include "lib/ckpt/tools/convert.h"

/*
 * The value that a path leads to, borrowed: keys of dicts, numbers of lists, attributes of pickled
 * objects, joined by dots. Keys may hold dots themselves: "model.layer1.0.weight" is found whether
 * the dict has "layer1.0.weight" or is nested. GT_EFORMAT, with the existing keys, if the path
 * leads to no value.
 */
int gt_select_path(
    struct gt_tree **out, struct gt_tree *root, const char *path, struct gt_err *err);

/*
 * The state_dict of a tree, reduced to the names that match one of the patterns (ended by NULL), as
 * in fnmatch(3). '*' also matches dots. In the arena; tensors are borrowed. A pattern that matches
 * nothing is an error: GT_EFORMAT with a few names.
 */
int gt_select_keys(struct gt_tree **out, const struct gt_tree *root, const char *const *patterns,
    size_t count, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

#endif
