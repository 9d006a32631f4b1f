/* module.h - private: get the state_dict of a pickled nn.Module without its class. */
#ifndef GT_CKPT_TORCH_MODULE_H
#define GT_CKPT_TORCH_MODULE_H

#include "lib/base/buf.h"
#include "lib/ckpt/ckpt.h"

/* Modules are recognized, and their tensors named, by three attributes (torch/module.c). */

/* Return whether a node is a pickled nn.Module: it has `_modules`, and `_parameters` or `_buffers`.
 * All code that has to recognize modules calls this function. */
bool gt_module_is(const struct gt_tree *node);

/* The attributes _parameters, _buffers and _modules of a module. */
enum gt_module_part {
	GT_MODULE_PARAMETERS,
	GT_MODULE_BUFFERS,
	GT_MODULE_MODULES,
	GT_MODULE_PART_COUNT
};

/* Return the name of an attribute, such as "_parameters". */
const char *gt_module_part_name(enum gt_module_part which);

/* Return one of the three attributes of an object, a dict; NULL if the object does not have it. */
struct gt_tree *gt_module_part(const struct gt_tree *object, enum gt_module_part which);

enum { GT_MODULE_MAX_ATTRIBUTES = 2 }; /* maximum number of dicts for gt_module_attributes() */
/* Return dict i of an object's attributes, or NULL. With __slots__ there are two. */
struct gt_tree *gt_module_attributes(const struct gt_tree *object, size_t i);

/*
 * List the non-persistent buffers of a module; names are borrowed. Call gt_index_release() in
 * every case.
 */
int gt_module_hidden(struct gt_index *out, const struct gt_tree *module, struct gt_err *err);
/* Return whether `name` is in the list of gt_module_hidden(). */
bool gt_module_hides(const struct gt_index *hidden, const struct gt_tree *name);

/* The tensors found so far. */
struct gt_module_list {
	/* the tensors are added to sd->entries; their names are allocated in the arena of sd */
	struct gt_state_dict *sd;
	size_t capacity; /* number of elements allocated for sd->entries */
	/* number of tensors that are not listed, because gtrain does not interpret their kind */
	size_t left_out;
	/* the name of the function with which PyTorch rebuilds the first tensor that is left out */
	const char *left_out_class;
	/* keys of tensors that are not listed: the key is not a string or has a zero byte */
	struct gt_name_list unnamed;
};

/*
 * Add the tensors of a module and the modules inside it, or of a dict, with `prefix` before their
 * names.
 */
int gt_module_add(struct gt_module_list *list, const char *prefix, const struct gt_tree *module,
    struct gt_err *err);
int gt_module_add_dict(struct gt_module_list *list, const char *prefix, const struct gt_tree *dict,
    struct gt_err *err);

/*
 * Add {PATH: {"version": N}} to `paths` for each module with a version. `path` is the PATH of
 * `module`.
 */
int gt_module_versions(struct gt_tree *paths, const char *path, const struct gt_tree *module,
    struct gt_arena *arena, struct gt_err *err);

#endif
