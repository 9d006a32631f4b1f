/* module.h - inside ckpt: pickled nn.Modules, whose state_dict is made without their classes. */
#ifndef GT_CKPT_TORCH_MODULE_H
#define GT_CKPT_TORCH_MODULE_H

#include "lib/ckpt/ckpt.h"

/*
 * The state_dict consists of these attributes of a module, in this order:
 *     _parameters    names to tensors or None
 *     _buffers       the same, without the names in _non_persistent_buffers_set
 *     _modules       names to modules or None, whose entries get "NAME." in front
 * They stand in the object's state: a dict; a tuple of that and the slots; or, of torch.fx's
 * GraphModule, the first argument of the call that makes it.
 * Source: torch/nn/modules/module.py, Module.state_dict(); torch/fx/graph_module.py.
 */

/* Whether an object is a module. All other code calls this function to decide it. */
bool gt_model_is(const struct gt_tree *node);

enum gt_model_part { GT_MODEL_PARAMETERS, GT_MODEL_BUFFERS, GT_MODEL_MODULES, GT_MODEL_PART_COUNT };

/* "_parameters". */
const char *gt_model_part_name(enum gt_model_part which);

/* A part of an object, which is a dict; NULL if the object has no such part. */
struct gt_tree *gt_model_part(const struct gt_tree *object, enum gt_model_part which);

/* Dict i of those that hold an object's attributes, or NULL. There is one; an object with slots has
 * two. */
enum { GT_MODEL_MAX_ATTRIBUTES = 2 };
struct gt_tree *gt_model_attributes(const struct gt_tree *object, size_t i);

/* The buffers of a module that are not persistent: state_dict() leaves them out. Names are the
 * tree's; call gt_index_release() in every case. */
int gt_model_hidden(struct gt_index *out, const struct gt_tree *module, struct gt_err *err);
bool gt_model_hides(const struct gt_index *hidden, const struct gt_tree *name);

struct gt_model_list {
	struct gt_state_dict *sd; /* entries and arena grow */
	size_t capacity;
	size_t left_out;            /* number of tensors of kinds that gtrain does not interpret */
	const char *left_out_class; /* the function that would rebuild the first of these */
};

/* Add the tensors of a module or of a state_dict; `prefix` is put before their names. */
int gt_model_add(struct gt_model_list *list, const char *prefix, const struct gt_tree *module,
    struct gt_err *err);
int gt_model_add_dict(
    struct gt_model_list *list, const char *prefix, const struct gt_tree *dict, struct gt_err *err);

/* Add {PATH: {"version": N}} to a dict for `module` and each module inside it that has an attribute
 * `_version`. `path` is the path of `module` itself. */
int gt_model_versions(struct gt_tree *paths, const char *path, const struct gt_tree *module,
    struct gt_arena *arena, struct gt_err *err);

#endif
