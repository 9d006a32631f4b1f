/* convert.h - convert checkpoints from one format to another. */
#ifndef GT_CKPT_TOOLS_CONVERT_H
#define GT_CKPT_TOOLS_CONVERT_H

#include "lib/base/buf.h"
#include "lib/ckpt/write.h"

/*
 * Set *format to the format for the word `to`. If `to` is NULL, the ending of `path` decides; upper
 * and lower case of the ending do not matter.
 *
 *   word          endings                            format
 *   pth           .pth .pt .th .bin .ckpt .tar       torch-zip
 *   legacy        none                               torch-legacy
 *   safetensors   .safetensors                       safetensors
 *                 .safetensors.index.json
 *   npz           .npz                               npz
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
 * Build the tree that is to be written in `format`. The tree is in the arena; its tensors are
 * borrowed from `root`. Lines about parts that are converted or left out are appended to `note`.
 *
 * torch-zip and torch-legacy: the tree contains all of `root`; the call may change `root`. Each
 * pickled module becomes the OrderedDict that its state_dict() would return, so that the file can
 * be loaded without the source code of the module. The note names other objects that
 * torch.load(weights_only=True) refuses. With `weights_only`, these objects are left out: a dict
 * loses the key, a list gets None in their place, and a defaultdict becomes a plain dict.
 *
 * safetensors and npz: the tree is the state_dict that gt_state_dict_find_as_is() finds, with
 * unchanged names. The note lists the other values of `root`.
 *
 * Errors: GT_EFORMAT if there is no state_dict; GT_ENOTSUP if nothing is left to write; GT_ENOMEM.
 */
int gt_convert_tree(struct gt_tree **out, struct gt_tree *root, const char *format,
    bool weights_only, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/*
 * Return a state_dict as a tree: a dict of all its tensors. In the tree, the fields requires_grad,
 * parameter and attributes of the tensors are zero. The dict is an OrderedDict if the original was
 * an OrderedDict or a module. gt_metadata_keep() sets the attributes of the dict
 * (lib/ckpt/tree/metadata.h). NULL with err set if memory runs out.
 */
struct gt_tree *gt_convert_state_dict(
    const struct gt_state_dict *sd, struct gt_arena *arena, struct gt_err *err);

/*
 * Append up to two lines to `note`. The first line is sd->note, which says where the state_dict was
 * found. The second line, "left behind: ...", lists the parts of `root` that are not tensors of
 * `sd`: all values outside of the state_dict, and other values in it. A line without content is
 * left out. If `path` is not NULL, each line begins with "PATH: ".
 */
void gt_convert_note(struct gt_buf *note, const char *path, const struct gt_tree *root,
    const struct gt_state_dict *sd);

#endif
