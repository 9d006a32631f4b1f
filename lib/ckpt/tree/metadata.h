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
 * Set the attributes of `dict`, which contains the entries of `sd`. `sd` may contain only some of
 * the tensors that the state_dict has in the file. If it contains all of them, `_metadata` is
 * copied completely. Otherwise only two kinds of entries are copied: the entry of the path "", and
 * the entries of modules to which a tensor in `dict` belongs. For example, the entry of "layer1.0"
 * is copied if the name of a tensor begins with "layer1.0.". If `sd` comes from a pickled model,
 * `_metadata` is built from the versions in the module objects of the model.
 *
 * The attribute `__metadata__`, texts that a file stores together with its weights
 * (gt_state_dict_metadata()), is copied unchanged. Errors: GT_ENOMEM.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err);

/*
 * Set `_metadata` and `__metadata__` of `dict`, which has neither, to the union of the entries of
 * the dicts from[i], i < count. An entry has the value of the first dict that has it. Set *differ
 * to the number of entries that have different values in these dicts. Errors: GT_ENOMEM.
 */
int gt_metadata_merge(struct gt_tree *dict, struct gt_tree *const *from, size_t count,
    size_t *differ, struct gt_arena *arena, struct gt_err *err);

#endif
