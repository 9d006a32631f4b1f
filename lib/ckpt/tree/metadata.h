/* metadata.h - private: copy the attributes of a state_dict to a new dict of its tensors. */
#ifndef GT_CKPT_TREE_METADATA_H
#define GT_CKPT_TREE_METADATA_H

#include "lib/ckpt/ckpt.h"

/*
 * nn.Module.state_dict() adds an attribute, `_metadata`, to the dict that it returns. `_metadata`
 * maps the path of each module ("" for the whole model, "layer1.0") to {"version": N}.
 * load_state_dict() passes these versions to the modules.
 * Source: torch/nn/modules/module.py, Module.state_dict().
 */

/* Return the `_metadata` of a dict, or NULL. */
const struct gt_tree *gt_metadata_of(const struct gt_tree *dict);

/*
 * Set the attributes of `dict`, which contains the entries of `sd`. If `sd` has all tensors of the
 * state_dict in the file, `_metadata` is copied completely. If `sd` has only some of them, the path
 * "" is copied, and the paths of all modules to which a tensor in `dict` belongs. For example,
 * "layer1.0" is copied if the name of a tensor begins with "layer1.0.". If `sd` comes from a
 * pickled model, `_metadata` is built from the versions in the module objects of the model.
 * `__metadata__` (gt_state_dict_metadata()) is copied unchanged. Errors: GT_ENOMEM.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err);

/*
 * Add the entries of `_metadata` and `__metadata__` of the dict `from` to those of `dict`. Before
 * the first call for `dict`, it has no such entries. An entry that `dict` already has is kept; if
 * its value differs from that in `from`, *differ is increased by 1. Errors: GT_ENOMEM.
 */
int gt_metadata_merge(struct gt_tree *dict, const struct gt_tree *from, size_t *differ,
    struct gt_arena *arena, struct gt_err *err);

#endif
