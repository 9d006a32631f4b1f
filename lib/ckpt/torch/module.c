/* module.c - the state_dict of a pickled nn.Module: a walk through its attributes. */
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/tree.h"

#include <stdlib.h>
#include <string.h>

/*
 * The state_dict of a module consists of the tensors in three attributes, in this order:
 *
 *   _parameters    dict from names to tensors or None
 *   _buffers       dict from names to tensors or None; without the names in a fourth
 *                  attribute, _non_persistent_buffers_set
 *   _modules       dict from names to modules or None; "NAME." is put before the names of their
 *                  tensors
 *
 * The attributes of an object are in its state. Usually the state is a dict. If the class has
 * __slots__, the state is a tuple of this dict and a second dict, which contains the slots. A
 * GraphModule of torch.fx has no state; its attributes are the first argument of the call that
 * creates it.
 *
 * Source: torch/nn/modules/module.py, Module.state_dict(); torch/fx/graph_module.py.
 */

/* ---- attributes ---- */

struct gt_tree *gt_module_attributes(const struct gt_tree *object, size_t i)
{
	struct gt_tree *state;

	if (!gt_tree_is(object, GT_TREE_OPAQUE) || !object->opaque.args)
		return NULL;
	state = object->opaque.state ? object->opaque.state : gt_tree_value(object->opaque.args, 0);
	if (gt_tree_is(state, GT_TREE_TUPLE))
		state = gt_tree_value(state, i);
	else if (i)
		return NULL;
	return gt_tree_is(state, GT_TREE_DICT) ? state : NULL;
}

/* An attribute of a pickled object, or NULL. */
static const struct gt_tree *attribute(const struct gt_tree *object, const char *name)
{
	const struct gt_tree *found = NULL;

	for (size_t i = 0; !found && i < GT_MODULE_MAX_ATTRIBUTES; i++)
		found = gt_tree_get(gt_module_attributes(object, i), name);
	return found;
}

const char *gt_module_part_name(enum gt_module_part which)
{
	static const char *const names[] = {
		[GT_MODULE_PARAMETERS] = "_parameters",
		[GT_MODULE_BUFFERS] = "_buffers",
		[GT_MODULE_MODULES] = "_modules",
	};

	return names[which];
}

/* The dict may be the entries of an object whose class derives from dict. */
struct gt_tree *gt_module_part(const struct gt_tree *object, enum gt_module_part which)
{
	const struct gt_tree *found = attribute(object, gt_module_part_name(which));

	if (gt_tree_is(found, GT_TREE_OPAQUE))
		found = found->opaque.items;
	return gt_tree_is(found, GT_TREE_DICT) ? (struct gt_tree *)found : NULL;
}

bool gt_module_is(const struct gt_tree *node)
{
	return gt_module_part(node, GT_MODULE_MODULES) &&
	       (gt_module_part(node, GT_MODULE_PARAMETERS) ||
	           gt_module_part(node, GT_MODULE_BUFFERS));
}

/* ---- entries ---- */

/* Whether an object stands for a tensor: torch rebuilds such by these functions. */
static bool is_rebuilt(const struct gt_tree *value)
{
	return value->kind == GT_TREE_OPAQUE && value->opaque.args &&
	       strstr(value->opaque.class_name, "._rebuild_");
}

static int add_module_item(struct gt_module_list *list, const char *prefix,
    const struct gt_tree_item *item, struct gt_err *err)
{
	struct gt_state_dict *sd = list->sd;
	size_t length = strlen(prefix);
	char *name;

	if (!gt_tree_is_text(item->key)) {
		if (item->value->kind == GT_TREE_TENSOR)
			gt_tree_list_key(&list->unnamed, item->key);
		return 0;
	}
	if (is_rebuilt(item->value) && !list->left_out++)
		list->left_out_class = item->value->opaque.class_name;
	if (item->value->kind != GT_TREE_TENSOR)
		return 0;
	if (gt_grow(&sd->entries, sd->count, &list->capacity, sizeof(*sd->entries), err))
		return GT_ENOMEM;
	name = gt_arena_alloc(&sd->arena, length + item->key->string.length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, prefix, length);
	memcpy(name + length, item->key->string.bytes, item->key->string.length);
	sd->entries[sd->count++] = (struct gt_state_entry){ name, &item->value->tensor };
	return 0;
}

/* The set is an object that holds a list. */
int gt_module_hidden(struct gt_index *out, const struct gt_tree *module, struct gt_err *err)
{
	const struct gt_tree *set = attribute(module, "_non_persistent_buffers_set"), *names;

	*out = (struct gt_index){ .compare = gt_index_by_name };
	names = gt_tree_is_object_of(set, "builtins.set") ? set->opaque.items : NULL;
	for (size_t i = 0; gt_tree_is(names, GT_TREE_LIST) && i < names->seq.count; i++) {
		const struct gt_tree *name = names->seq.items[i].value;

		if (gt_tree_is_text(name) && !gt_index_add(out, &name->string.bytes, err))
			return GT_ENOMEM;
	}
	return 0;
}

bool gt_module_hides(const struct gt_index *hidden, const struct gt_tree *name)
{
	return gt_tree_is_text(name) && gt_index_find(hidden, &name->string.bytes);
}

static const struct gt_index nothing = { .compare = gt_index_by_name };

static int add_all(struct gt_module_list *list, const char *prefix, const struct gt_tree *dict,
    const struct gt_index *hidden, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; dict && !rc && i < dict->seq.count; i++)
		if (!gt_module_hides(hidden, dict->seq.items[i].key))
			rc = add_module_item(list, prefix, &dict->seq.items[i], err);
	return rc;
}

int gt_module_add_dict(
    struct gt_module_list *list, const char *prefix, const struct gt_tree *dict, struct gt_err *err)
{
	return add_all(list, prefix, dict, &nothing, err);
}

/* The tree's depth is limited, so is ours. */
int gt_module_add(struct gt_module_list *list, const char *prefix, const struct gt_tree *module,
    struct gt_err *err)
{
	const struct gt_tree *children = gt_module_part(module, GT_MODULE_MODULES);
	struct gt_index hidden;
	int rc = gt_module_hidden(&hidden, module, err);

	if (!rc)
		rc = add_all(
		    list, prefix, gt_module_part(module, GT_MODULE_PARAMETERS), &nothing, err);
	if (!rc)
		rc = add_all(list, prefix, gt_module_part(module, GT_MODULE_BUFFERS), &hidden, err);
	gt_index_release(&hidden);
	for (size_t i = 0; children && !rc && i < children->seq.count; i++) {
		const struct gt_tree_item *child = &children->seq.items[i];
		char *name;

		if (!gt_tree_is_text(child->key))
			continue;
		name = gt_asprintf(err, "%s%s.", prefix, child->key->string.bytes);
		if (!name)
			return GT_ENOMEM;
		rc = gt_module_add(list, name, child->value, err);
		free(name);
	}
	return rc;
}

/*
 * Collect the versions of `module` and of all modules inside it, as nn.Module.state_dict() does for
 * its attribute `_metadata`. For each of them that has the attribute `_version` with the value N,
 * add an item {PATH: {"version": N}} to the dict `paths`. `path` is the PATH of `module`.
 */
int gt_module_versions(struct gt_tree *paths, const char *path, const struct gt_tree *module,
    struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_tree *children = gt_module_part(module, GT_MODULE_MODULES);
	const struct gt_tree *version = attribute(module, "_version");
	int rc = 0;

	if (gt_tree_is(version, GT_TREE_INT)) {
		struct gt_tree *about = gt_tree_dict(arena, err);

		rc = about ? gt_tree_set(about, "version", (struct gt_tree *)version, arena, err)
		           : GT_ENOMEM;
		if (!rc)
			rc = gt_tree_set(paths, path, about, arena, err);
	}
	for (size_t i = 0; children && !rc && i < children->seq.count; i++) {
		const struct gt_tree_item *child = &children->seq.items[i];
		char *name;

		if (!gt_tree_is_text(child->key))
			continue;
		name = gt_asprintf(err, "%s%s%s", path, *path ? "." : "", child->key->string.bytes);
		rc = name ? gt_module_versions(paths, name, child->value, arena, err) : GT_ENOMEM;
		free(name);
	}
	return rc;
}
