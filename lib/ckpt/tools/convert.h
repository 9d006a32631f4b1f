/* convert.h - convert checkpoints from one format to another. */
#ifndef GT_CKPT_TOOLS_CONVERT_H
#define GT_CKPT_TOOLS_CONVERT_H

#include "lib/base/buf.h"
#include "lib/ckpt/write.h"

/* The format that --to or the ending of a path names: pth (.pth .pt .th .bin .ckpt .tar), which is
 * torch-zip, legacy (torch-legacy), safetensors, npz. Upper and lower case are the same. GT_EINVAL
 * with a list of the endings. */
int gt_convert_format(const char **format, const char *to, const char *path, struct gt_err *err);

/* The words of --to, ended by NULL. */
extern const char *const gt_convert_words[];

/*
 * Build the tree to write in `format`. It is in the arena; tensors are borrowed from `root`. Lines
 * are added to the note about parts that are converted or left out.
 *   torch-zip, torch-legacy   the whole tree; pickled modules, wherever they are, become the
 *                             OrderedDict that their state_dict() would give, so that the file can
 *                             be loaded without their source. The note names other objects that
 *                             torch.load(weights_only=True) refuses; with `weights_only` they are
 *                             left out: dicts lose their keys, lists get None in their place, and
 *                             dicts with defaults become plain dicts
 *   safetensors, npz          the state_dict that gt_state_dict_find() finds, names as they are;
 *                             the note lists the other values of the tree
 * Errors: GT_EFORMAT if there is no state_dict; GT_ENOTSUP if nothing is left to write; GT_ENOMEM.
 */
int gt_convert_tree(struct gt_tree **out, struct gt_tree *root, const char *format,
    bool weights_only, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/* Return a state_dict as a tree: a dict of tensors that are not marked as parameters. It is an
 * OrderedDict if it was one or came from a module. It has the `_metadata` that belongs to them
 * (metadata.h). */
struct gt_tree *gt_convert_state_dict(
    const struct gt_state_dict *sd, struct gt_arena *arena, struct gt_err *err);

/*
 * List the parts of a tree that are not in its state_dict: values beside it, and values in it that
 * are not tensors. "FILE: left behind: ..."; without the file's name where `path` is NULL.
 */
void gt_convert_say_left(struct gt_buf *note, const char *path, const struct gt_tree *root,
    const struct gt_state_dict *sd);

#endif
