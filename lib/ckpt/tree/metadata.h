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
 * Copy `_metadata` and `__metadata__` of `sd` to `dict`, without modules that have no tensor in
 * `dict`.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err);

/*
 * Set both attributes of `dict` to the union of those of from[count]; the first value counts. Set
 * *differ to the number of entries with different values.
 */
int gt_metadata_merge(struct gt_tree *dict, struct gt_tree *const *from, size_t count,
    size_t *differ, struct gt_arena *arena, struct gt_err *err);

#endif
