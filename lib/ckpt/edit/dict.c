/* dict.c - which dicts of a checkpoint hold names of tensors. */
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/tree/tree.h"

bool gt_edit_is_plain(const struct gt_tree *key)
{
	return key->kind == GT_TREE_STRING && strlen(key->string.bytes) == key->string.length;
}

bool gt_edit_is_entry(const struct gt_tree_item *item)
{
	const struct gt_tree *value = item->value;

	if (!gt_edit_is_plain(item->key))
		return false;
	if (value->kind == GT_TREE_OPAQUE && value->opaque.args)
		return !strncmp(value->opaque.class_name, "torch._", 7);
	return value->kind == GT_TREE_TENSOR || value->kind == GT_TREE_NONE ||
	       gt_text_ends_with(item->key->string.bytes, "_extra_state");
}

const struct gt_tree *gt_edit_metadata(const struct gt_tree *dict)
{
	const struct gt_tree *m = gt_tree_get(dict->seq.attributes, "_metadata");

	return m && m->kind == GT_TREE_DICT ? m : NULL;
}

/* What scripts write beside tensors. */
static bool is_simple(const struct gt_tree *value)
{
	return value->kind == GT_TREE_BOOL || value->kind == GT_TREE_INT ||
	       value->kind == GT_TREE_FLOAT || value->kind == GT_TREE_STRING;
}

struct gt_edit_content gt_edit_look_at(const struct gt_tree *dict)
{
	struct gt_edit_content c = { 0 };

	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];
		const char *name = gt_edit_is_plain(item->key) ? item->key->string.bytes : NULL;

		if (!gt_edit_is_entry(item)) {
			bool simple = is_simple(item->value);

			if (!c.others++ || (!simple && c.simple + 1 == c.others))
				c.other = name;
			c.simple += simple;
		}
		if (item->value->kind != GT_TREE_TENSOR || !name)
			continue;
		c.tensors++;
		c.dotted += strchr(name, '.') != NULL;
		c.weight |= !strcmp(name, "weight");
	}
	return c;
}

bool gt_edit_is_state_dict(const struct gt_tree *dict, const struct gt_edit_content *c, bool root)
{
	if (!c->tensors)
		return false;
	if (gt_edit_metadata(dict))
		return true;
	if (!c->others)
		return c->dotted || c->weight || root;
	return (c->dotted && c->tensors > c->others) ||
	       (root && c->simple == c->others && 2 * c->dotted > c->tensors);
}

bool gt_edit_is_optimizer(const struct gt_tree *dict)
{
	const struct gt_tree *state = gt_tree_get(dict, "state");
	const struct gt_tree *groups = gt_tree_get(dict, "param_groups");

	return state && state->kind == GT_TREE_DICT && groups && groups->kind == GT_TREE_LIST;
}
