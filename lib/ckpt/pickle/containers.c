/* containers.c - the opcodes of lists, tuples, dicts and sets. */
#include "lib/ckpt/pickle/machine.h"

int gt_op_empty(struct gt_machine *m)
{
	enum gt_tree_kind kind = m->op == GT_PICKLE_EMPTY_DICT   ? GT_TREE_DICT
	                         : m->op == GT_PICKLE_EMPTY_LIST ? GT_TREE_LIST
	                                                         : GT_TREE_TUPLE;

	return gt_machine_push(m, gt_tree_new(m->arena, kind, m->err));
}

int gt_op_seq(struct gt_machine *m)
{
	return gt_machine_push_seq(
	    m, m->op == GT_PICKLE_LIST ? GT_TREE_LIST : GT_TREE_TUPLE, m->args, m->count);
}

/* Room for n more items at once: picklers write up to a thousand together. */
static int reserve(struct gt_machine *m, struct gt_tree *seq, size_t n)
{
	size_t count = seq->seq.count, capacity = count + n;
	struct gt_tree_item *items;

	if (capacity <= seq->seq.capacity)
		return 0;
	if (count && capacity < 2 * count)
		capacity = 2 * count;
	items = gt_arena_alloc(m->arena, capacity * sizeof(*items), m->err);
	if (!items)
		return GT_ENOMEM;
	if (count)
		memcpy(items, seq->seq.items, count * sizeof(*items));
	seq->seq.items = items;
	seq->seq.capacity = capacity;
	return 0;
}

/*
 * The node that receives items at the top of the stack: the container itself, or an opaque one's
 * `items`.
 */
static int container(struct gt_machine *m, enum gt_tree_kind kind, struct gt_tree **out)
{
	struct gt_tree *node;
	int rc = gt_machine_need(m, 1);

	if (rc)
		return rc;
	node = gt_machine_top(m);
	if (node->kind == GT_TREE_OPAQUE && node->opaque.args) {
		if (!node->opaque.items)
			node->opaque.items = gt_tree_new(m->arena, kind, m->err);
		node = node->opaque.items;
		if (!node)
			return GT_ENOMEM;
	}
	if (node->kind != kind)
		return gt_machine_fail(m, kind == GT_TREE_DICT
		                              ? "a key set in a value that is not a dict"
		                              : "an item appended to a value that is not a list");
	*out = node;
	return 0;
}

int gt_op_appends(struct gt_machine *m)
{
	struct gt_tree *list;
	int rc = container(m, GT_TREE_LIST, &list);

	if (!rc)
		rc = reserve(m, list, m->count);
	for (size_t i = 0; !rc && i < m->count; i++)
		rc = gt_machine_keep_item(m, list, NULL, m->args + i);
	return rc;
}

static int set_pairs(struct gt_machine *m, struct gt_tree *dict)
{
	int rc = m->count % 2 ? gt_machine_fail(m, "a key without a value")
	                      : reserve(m, dict, m->count / 2);

	for (size_t i = 0; !rc && i < m->count; i += 2)
		rc = gt_machine_keep_item(m, dict, m->args + i, m->args + i + 1);
	return rc;
}

int gt_op_setitems(struct gt_machine *m)
{
	struct gt_tree *dict;
	int rc = container(m, GT_TREE_DICT, &dict);

	return rc ? rc : set_pairs(m, dict);
}

int gt_op_dict(struct gt_machine *m)
{
	struct gt_tree *dict = gt_tree_dict(m->arena, m->err);
	int rc = dict ? set_pairs(m, dict) : GT_ENOMEM;

	return rc ? rc : gt_machine_push(m, dict);
}

/* A set is an opaque node whose items are a list. */
static int push_set(struct gt_machine *m, const char *class_name)
{
	struct gt_tree *node = gt_tree_opaque(m->arena, class_name, m->err);

	if (!node || gt_machine_push_seq(m, GT_TREE_LIST, m->args, m->count))
		return GT_ENOMEM;
	node->opaque.items = gt_machine_top(m);
	node->opaque.args = gt_tree_tuple(m->arena, m->err);
	m->depth--;
	return node->opaque.args ? gt_machine_push(m, node) : GT_ENOMEM;
}

int gt_op_set(struct gt_machine *m)
{
	if (m->op == GT_PICKLE_FROZENSET)
		return push_set(m, "builtins.frozenset");
	m->count = 0;
	return push_set(m, "builtins.set");
}
