/* metadata.h - inside ckpt: keep the attributes of a state_dict in a new dict with its entries. */
#ifndef GT_CKPT_TREE_METADATA_H
#define GT_CKPT_TREE_METADATA_H

#include "lib/ckpt/ckpt.h"

/*
 * nn.Module.state_dict() gives its dict an attribute, `_metadata`. It maps the path of each module
 * ("" for the whole model, "layer1.0") to {"version": N}. load_state_dict() hands these versions to
 * the modules.
 * Source: torch/nn/modules/module.py, Module.state_dict().
 */

/* The `_metadata` of a dict, or NULL. */
const struct gt_tree *gt_metadata_of(const struct gt_tree *dict);

/*
 * Give `dict`, which holds the entries of `sd`, the attributes that belong to them. `_metadata` is
 * kept in full if `dict` has all tensors of the state_dict; otherwise only paths with names under
 * them are kept. For a pickled model, `_metadata` has the versions that are set in the model's
 * module objects. `__metadata__` (gt_state_dict_metadata()) is kept unchanged.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err);

#endif
