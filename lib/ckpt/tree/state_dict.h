/* state_dict.h - inside ckpt: where a checkpoint keeps the model's tensors. */
#ifndef GT_CKPT_TREE_STATE_DICT_H
#define GT_CKPT_TREE_STATE_DICT_H

#include "lib/ckpt/ckpt.h"

/* The dict or the module that gt_state_dict_find() takes, or NULL. */
const struct gt_tree *gt_state_dict_node(const struct gt_tree *root);

#endif
