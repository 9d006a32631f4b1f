/* model.h - inside ckpt: pickled nn.Modules, whose state_dict is made without their classes. */
#ifndef GT_CKPT_MODEL_H
#define GT_CKPT_MODEL_H

#include "lib/ckpt/ckpt.h"

/*
 * Of a module's attributes these make the state_dict, in this order:
 *     _parameters    names to tensors or None
 *     _buffers       the same, without the names in _non_persistent_buffers_set
 *     _modules       names to modules or None, whose entries get "NAME." in front
 * They stand in the object's state: a dict; a tuple of that and the slots; or, of torch.fx's
 * GraphModule, the first argument of the call that makes it.
 * Source: torch/nn/modules/module.py, Module.state_dict(); torch/fx/graph_module.py.
 */

/* Whether an object is a module. */
bool gt_model_is(const struct gt_tree *node);

struct gt_model_list {
	struct gt_state_dict *sd; /* entries and arena grow */
	size_t capacity;
	size_t left_out; /* entries that are tensors of a kind that is not interpreted, */
	const char *left_out_class; /* and how the first is rebuilt */
};

/* Add a module's tensors, or those of a state_dict, their names after `prefix`. */
int gt_model_add(struct gt_model_list *list, const char *prefix, const struct gt_tree *module,
    struct gt_err *err);
int gt_model_add_dict(
    struct gt_model_list *list, const char *prefix, const struct gt_tree *dict, struct gt_err *err);

#endif
