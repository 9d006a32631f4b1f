/* classify.c - the classes of the parts of a checkpoint. */
#include "lib/ckpt/tree/classify.h"

#include "lib/base/text.h"
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/metadata.h"
#include "lib/ckpt/tree/tree.h"

/*
 * Counts of the values of a dict. A value is an entry if a state_dict may contain it, and if its
 * key is a string without zero bytes. A state_dict may contain:
 *   - tensors, also those that gtrain does not interpret;
 *   - None;
 *   - the `_extra_state` of a module, a value that the module saves besides its tensors;
 *   - any value with a dot in its key, if the dict has the attribute `_metadata`, which
 *     nn.Module.state_dict() adds.
 */

const struct gt_tree *gt_class_dict(const struct gt_tree *node)
{
	if (node->kind == GT_TREE_OPAQUE)
		node = node->opaque.items;
	return gt_tree_is(node, GT_TREE_DICT) ? node : NULL;
}

/* A module can save any value under its path: a quantized Linear saves a dtype and a tuple. */
bool gt_class_is_entry(const struct gt_tree_item *item, bool by_modules)
{
	const struct gt_tree *value = item->value;

	if (!gt_tree_is_text(item->key))
		return false;
	if (gt_text_ends_with(item->key->string.bytes, "_extra_state") ||
	    (by_modules && strchr(item->key->string.bytes, '.')))
		return true;
	if (value->kind == GT_TREE_OPAQUE && value->opaque.args)
		return !strncmp(value->opaque.class_name, "torch._", 7);
	return value->kind == GT_TREE_TENSOR || value->kind == GT_TREE_NONE;
}

/* Keys that training scripts write beside tensors. */
static bool is_simple(const struct gt_tree *value)
{
	return value->kind == GT_TREE_BOOL || value->kind == GT_TREE_INT ||
	       value->kind == GT_TREE_FLOAT || value->kind == GT_TREE_STRING;
}

static void add_other(struct gt_content *c, const struct gt_tree_item *item)
{
	bool simple = is_simple(item->value);

	if (!c->others++ || (!simple && c->simple + 1 == c->others))
		c->other = gt_tree_is_text(item->key) ? item->key->string.bytes : NULL;
	c->simple += simple;
}

static void look_at(struct gt_content *c, const struct gt_tree *node)
{
	*c = (struct gt_content){ .dict = gt_class_dict(node) };
	c->by_modules = c->dict && gt_metadata_of(c->dict);
	for (size_t i = 0; c->dict && i < c->dict->seq.count; i++) {
		const struct gt_tree_item *item = &c->dict->seq.items[i];

		if (!gt_class_is_entry(item, c->by_modules))
			add_other(c, item);
		if (item->value->kind != GT_TREE_TENSOR || !gt_tree_is_text(item->key))
			continue;
		c->tensors++;
		c->dotted += strchr(item->key->string.bytes, '.') != NULL;
		c->weight |= !strcmp(item->key->string.bytes, "weight");
	}
}

/* ---- the rules ---- */

/* A part of a checkpoint, as the rules see it. */
struct subject {
	const struct gt_tree *node;
	struct gt_content c;
	bool root;
};

static bool is_model(const struct subject *s)
{
	return gt_module_is(s->node);
}

/* {"state": {0: {"exp_avg": ...}}, "param_groups": [{"lr": 0.1, "params": [0]}]}. A model may have
 * modules or parameters of these names: its values are tensors. */
static bool is_optimizer(const struct subject *s)
{
	const struct gt_tree *groups = gt_tree_get(s->c.dict, "param_groups");

	return gt_tree_is(gt_tree_get(s->c.dict, "state"), GT_TREE_DICT) &&
	       (gt_tree_is(groups, GT_TREE_LIST) || gt_tree_is(groups, GT_TREE_TUPLE));
}

static bool has_metadata(const struct subject *s)
{
	return s->c.tensors && s->c.by_modules;
}

/* {"conv1.weight": ..., "conv1.bias": ...}; {"weight": ...} of a single module. */
static bool has_plain_names(const struct subject *s)
{
	return s->c.tensors && !s->c.others && (s->c.dotted || s->c.weight);
}

/* {"conv1.weight": ..., "conv1.bias": ..., "config": {...}} */
static bool is_mostly_names(const struct subject *s)
{
	return s->c.dotted && s->c.tensors > s->c.others;
}

/* A file {"fc.weight": ..., "epoch": 3, "arch": "mlp", "lr": 0.1}; not {"rng": ..., "epoch": 3}. */
static bool is_file_of_names(const struct subject *s)
{
	return s->root && s->c.simple == s->c.others && 2 * s->c.dotted > s->c.tensors;
}

/* {"w": ..., "b": ...} may be a model, {"cpu": ..., "cuda": ...} states of random numbers. */
static bool is_tensors(const struct subject *s)
{
	return s->c.tensors && !s->c.others;
}

static bool has_tensors(const struct subject *s)
{
	return s->c.tensors > 0;
}

static const struct {
	enum gt_class class;
	bool (*holds)(const struct subject *s);
} rules[] = {
	{ GT_CLASS_MODEL, is_model },
	{ GT_CLASS_OPTIMIZER, is_optimizer },
	{ GT_CLASS_STATE_DICT, has_metadata },
	{ GT_CLASS_STATE_DICT, has_plain_names },
	{ GT_CLASS_STATE_DICT, is_mostly_names },
	{ GT_CLASS_STATE_DICT, is_file_of_names },
	{ GT_CLASS_TENSORS, is_tensors },
	{ GT_CLASS_MIXED, has_tensors },
};

enum gt_class gt_classify(const struct gt_tree *node, bool root, struct gt_content *content)
{
	struct subject s = { .node = node, .root = root };

	look_at(&s.c, node);
	if (content)
		*content = s.c;
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (rules[i].holds(&s))
			return rules[i].class;
	return GT_CLASS_OTHER;
}
