/* metadata.h - inside ckpt: attributes of a state_dict, kept where its dict is made anew. */
#ifndef GT_CKPT_TREE_METADATA_H
#define GT_CKPT_TREE_METADATA_H

#include "lib/ckpt/ckpt.h"

/*
 * nn.Module.state_dict() gives its dict an attribute, `_metadata`: paths of modules ("" for the
 * whole, "layer1.0") to {"version": N}, which load_state_dict() hands to each module.
 * Source: torch/nn/modules/module.py, Module.state_dict().
 */

/* The `_metadata` of a dict, or NULL. */
const struct gt_tree *gt_metadata_of(const struct gt_tree *dict);

/*
 * Give `dict`, which holds the entries of `sd`, the attributes that belong to them. `_metadata` is
 * kept in full if `dict` has all tensors of the state_dict; otherwise only paths with names under
 * them are kept. For a pickled model it has the versions that are set in its module objects.
 * `__metadata__` (gt_state_dict_metadata()) is kept unchanged.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err);

#endif
