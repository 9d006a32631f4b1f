/* convert.h - convert checkpoints from one format to another. */
#ifndef GT_CKPT_TOOLS_CONVERT_H
#define GT_CKPT_TOOLS_CONVERT_H

#include "lib/base/buf.h"
#include "lib/ckpt/write.h"

/*
 * Set *format to the name of an output format. `to` is a word that names the format. If `to` is
 * NULL, the ending of `path` decides; upper and lower case of the ending do not matter.
 *
 *   word `to`     endings of `path`                  *format
 *   pth           .pth .pt .th .bin .ckpt .tar       torch-zip
 *   legacy        none                               torch-legacy
 *   safetensors   .safetensors                       safetensors
 *                 .safetensors.index.json
 *   npz           .npz                               npz
 *   dcp           none                               dcp
 *
 * Errors: GT_EINVAL for another word or ending.
 */
int gt_convert_format(const char **format, const char *to, const char *path, struct gt_err *err);

/*
 * The words that `to` accepts. They are also the values of the option --to. The list ends with
 * NULL.
 */
extern const char *const gt_convert_words[];

/*
 * Build the tree that is to be written in `format`. *out is `root` itself, or a new tree in the
 * arena, which borrows the tensors of `root`. The function appends lines to `note` about the parts
 * that it converts or leaves out.
 *
 * torch-zip, torch-legacy and dcp: the function may change `root`. Each pickled module becomes the
 * OrderedDict that its state_dict() would return, so that the file can be loaded without the source
 * code of the module. All other values of `root` stay in the tree, also objects that
 * torch.load(weights_only=True) refuses; the note names these objects. But if the argument
 * `weights_only` is true, these objects are left out: a dict loses the key, a list gets None in
 * their place, and a defaultdict becomes a plain dict.
 *
 * safetensors and npz: the tree is the state_dict that gt_state_dict_find_as_is() finds, with
 * unchanged names. The note lists the other values of `root`.
 *
 * Errors: GT_EFORMAT if safetensors or npz needs a state_dict and there is none; GT_ENOTSUP if
 * nothing is left to write, or if the format cannot hold a tensor of a dtype that gtrain does not
 * know (gt_convert_check_types()); GT_ENOMEM.
 */
int gt_convert_tree(struct gt_tree **out, struct gt_tree *root, const char *format,
    bool weights_only, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/*
 * Return a state_dict as a tree: a dict of all its tensors. In the tree, the fields requires_grad,
 * parameter and attributes of the tensors are zero. The new dict is an OrderedDict if `sd` was
 * found in an OrderedDict or in a module. The dict gets the attributes of the state_dict, such as
 * the versions of modules (gt_metadata_keep(), lib/ckpt/tree/metadata.h). Return NULL with err set
 * if memory runs out.
 */
struct gt_tree *gt_convert_state_dict(
    const struct gt_state_dict *sd, struct gt_arena *arena, struct gt_err *err);

/*
 * Check that a state_dict has no tensor of a dtype that gtrain does not know, such as
 * torch.complex32: gt_convert_state_dict() would leave it out. Errors: GT_ENOTSUP, with its name.
 */
int gt_convert_check_types(const struct gt_state_dict *sd, struct gt_err *err);

/*
 * Append up to two lines to `note`. The first line is sd->note, which says where the state_dict was
 * found. The second line, "left behind: ...", lists the parts of `root` that are not tensors of
 * `sd`: all values outside of the state_dict, and the values in the state_dict that are not
 * tensors. A line without content is left out. If `path` is not NULL, each line begins with it and
 * a colon.
 */
void gt_convert_note(struct gt_buf *note, const char *path, const struct gt_tree *root,
    const struct gt_state_dict *sd);

#endif
