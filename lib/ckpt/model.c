/* model.c - the state_dict of a pickled nn.Module: a walk through its attributes. */
#include "lib/ckpt/model.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/args.h"

/* ---- attributes ---- */

/* An attribute of a pickled object, or NULL. */
static const struct gt_tree *attribute(const struct gt_tree *object, const char *name)
{
	const struct gt_tree *state, *found;

	if (!is_kind(object, GT_TREE_OPAQUE) || !object->opaque.args)
		return NULL;
	state = object->opaque.state ? object->opaque.state : arg(object->opaque.args, 0);
	if (!is_kind(state, GT_TREE_TUPLE))
		return gt_tree_get(state, name);
	found = gt_tree_get(arg(state, 0), name);
	return found ? found : gt_tree_get(arg(state, 1), name);
}

/* A dict of it, which may be of a class made from dict; or NULL. */
static const struct gt_tree *part(const struct gt_tree *object, const char *name)
{
	const struct gt_tree *found = attribute(object, name);

	if (is_kind(found, GT_TREE_OPAQUE))
		found = found->opaque.items;
	return is_kind(found, GT_TREE_DICT) ? found : NULL;
}

bool gt_model_is(const struct gt_tree *node)
{
	return part(node, "_modules") && (part(node, "_parameters") || part(node, "_buffers"));
}

/* ---- entries ---- */

/* Whether an object stands for a tensor: torch rebuilds such by these functions. */
static bool is_rebuilt(const struct gt_tree *value)
{
	return value->kind == GT_TREE_OPAQUE && value->opaque.args &&
	       strstr(value->opaque.class_name, "._rebuild_");
}

static int add(struct gt_model_list *list, const char *prefix, const struct gt_tree_item *item,
    struct gt_err *err)
{
	struct gt_state_dict *sd = list->sd;
	size_t length = strlen(prefix);
	char *name;

	if (!is_text(item->key))
		return 0;
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

static bool holds(const struct gt_tree *names, const struct gt_tree *name)
{
	for (size_t i = 0; names && is_text(name) && i < names->seq.count; i++)
		if (gt_tree_is_string(names->seq.items[i].value, name->string.bytes))
			return true;
	return false;
}

static int add_all(struct gt_model_list *list, const char *prefix, const struct gt_tree *dict,
    const struct gt_tree *except, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; dict && !rc && i < dict->seq.count; i++)
		if (!holds(except, dict->seq.items[i].key))
			rc = add(list, prefix, &dict->seq.items[i], err);
	return rc;
}

/* Buffers that the module keeps out of its state_dict: a list of names, or NULL. */
static const struct gt_tree *hidden_buffers(const struct gt_tree *module)
{
	const struct gt_tree *set = attribute(module, "_non_persistent_buffers_set");

	return is_object_of(set, "builtins.set") && is_kind(set->opaque.items, GT_TREE_LIST)
	           ? set->opaque.items
	           : NULL;
}

int gt_model_add_dict(
    struct gt_model_list *list, const char *prefix, const struct gt_tree *dict, struct gt_err *err)
{
	return add_all(list, prefix, dict, NULL, err);
}

/* The tree's depth is limited, so is ours. */
int gt_model_add(struct gt_model_list *list, const char *prefix, const struct gt_tree *module,
    struct gt_err *err)
{
	const struct gt_tree *children = part(module, "_modules");
	int rc = add_all(list, prefix, part(module, "_parameters"), NULL, err);

	if (!rc)
		rc = add_all(list, prefix, part(module, "_buffers"), hidden_buffers(module), err);
	for (size_t i = 0; children && !rc && i < children->seq.count; i++) {
		const struct gt_tree_item *child = &children->seq.items[i];
		char *name;

		if (!is_text(child->key))
			continue;
		name = gt_asprintf(err, "%s%s.", prefix, child->key->string.bytes);
		if (!name)
			return GT_ENOMEM;
		rc = gt_model_add(list, name, child->value, err);
		free(name);
	}
	return rc;
}
