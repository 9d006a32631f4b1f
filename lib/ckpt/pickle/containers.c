/* containers.c - the opcodes of lists, tuples, dicts and sets. */
#include "lib/ckpt/pickle/machine.h"

int gt_op_empty(struct gt_machine *m, unsigned char op)
{
	enum gt_tree_kind kind = op == GT_PICKLE_EMPTY_DICT   ? GT_TREE_DICT
	                         : op == GT_PICKLE_EMPTY_LIST ? GT_TREE_LIST
	                                                      : GT_TREE_TUPLE;

	return gt_machine_push(m, gt_tree_new(m->arena, kind, m->err));
}

int gt_op_tuple_n(struct gt_machine *m, unsigned char op)
{
	size_t n = (size_t)op - GT_PICKLE_TUPLE1 + 1;
	int rc = gt_machine_need(m, n);

	if (rc)
		return rc;
	m->depth -= n;
	return gt_machine_push_seq(m, GT_TREE_TUPLE, m->stack + m->depth, n);
}

int gt_op_marked_seq(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **values;
	size_t n;
	int rc = gt_machine_pop_mark(m, &values, &n);

	return rc ? rc
	          : gt_machine_push_seq(
	                m, op == GT_PICKLE_TUPLE ? GT_TREE_TUPLE : GT_TREE_LIST, values, n);
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

int gt_op_append(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *list;
	int rc = gt_machine_need(m, 2);

	(void)op;
	if (rc)
		return rc;
	m->depth--;
	rc = container(m, GT_TREE_LIST, &list);
	return rc ? rc : gt_machine_keep_item(m, list, NULL, m->stack + m->depth);
}

int gt_op_appends(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **values, *list;
	size_t n;
	int rc = gt_machine_pop_mark(m, &values, &n);

	(void)op;
	if (!rc)
		rc = container(m, GT_TREE_LIST, &list);
	if (!rc)
		rc = reserve(m, list, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = gt_machine_keep_item(m, list, NULL, values + i);
	return rc;
}

static int set_pairs(struct gt_machine *m, struct gt_tree *dict, struct gt_tree **pairs, size_t n)
{
	int rc = n % 2 ? gt_machine_fail(m, "a key without a value") : reserve(m, dict, n / 2);

	for (size_t i = 0; !rc && i < n; i += 2)
		rc = gt_machine_keep_item(m, dict, pairs + i, pairs + i + 1);
	return rc;
}

int gt_op_setitem(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *dict;
	int rc = gt_machine_need(m, 3);

	(void)op;
	if (rc)
		return rc;
	m->depth -= 2;
	rc = container(m, GT_TREE_DICT, &dict);
	return rc ? rc : set_pairs(m, dict, m->stack + m->depth, 2);
}

int gt_op_setitems(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **pairs, *dict;
	size_t n;
	int rc = gt_machine_pop_mark(m, &pairs, &n);

	(void)op;
	if (!rc)
		rc = container(m, GT_TREE_DICT, &dict);
	return rc ? rc : set_pairs(m, dict, pairs, n);
}

int gt_op_dict(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **pairs, *dict = gt_tree_dict(m->arena, m->err);
	size_t n;
	int rc = dict ? gt_machine_pop_mark(m, &pairs, &n) : GT_ENOMEM;

	(void)op;
	if (!rc)
		rc = set_pairs(m, dict, pairs, n);
	return rc ? rc : gt_machine_push(m, dict);
}

/* A set is an opaque node whose items are a list. */
static int push_set(struct gt_machine *m, const char *class_name, struct gt_tree **values, size_t n)
{
	struct gt_tree *node = gt_tree_opaque(m->arena, class_name, m->err);

	if (!node || gt_machine_push_seq(m, GT_TREE_LIST, values, n))
		return GT_ENOMEM;
	node->opaque.items = gt_machine_top(m);
	node->opaque.args = gt_tree_tuple(m->arena, m->err);
	m->depth--;
	return node->opaque.args ? gt_machine_push(m, node) : GT_ENOMEM;
}

int gt_op_set(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **values = NULL;
	size_t n = 0;
	int rc = op == GT_PICKLE_FROZENSET ? gt_machine_pop_mark(m, &values, &n) : 0;

	if (rc)
		return rc;
	return push_set(
	    m, op == GT_PICKLE_FROZENSET ? "builtins.frozenset" : "builtins.set", values, n);
}
