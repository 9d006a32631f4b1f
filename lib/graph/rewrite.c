/* rewrite.c - the steps that passes share. */
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

int *gt_count_uses(const struct gt_graph *g, struct gt_err *err)
{
	int *uses = gt_calloc(g->value_count, sizeof(*uses), err);

	if (!uses)
		return NULL;
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k])
				uses[g->nodes[i]->in[k]->id]++;
	for (size_t i = 0; i < g->value_count; i++)
		if (g->values[i]->role == GT_OUTPUT || g->values[i]->role == GT_GRADIENT)
			uses[i]++;
	return uses;
}

struct gt_node *gt_sole_maker(const struct gt_value *v, const struct gt_op *op, const int *uses)
{
	if (!v || !v->producer || v->producer->op != op || v->role != GT_TEMPORARY ||
	    uses[v->id] != 1)
		return NULL;
	return v->producer;
}

struct gt_node *gt_sole_cast(
    const struct gt_graph *g, const struct gt_value *v, enum gt_dtype to, const int *uses)
{
	if (v->role != GT_TEMPORARY || uses[v->id] != 1)
		return NULL;
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];

		if (n->op == &gt_op_cast && n->in[0] == v && n->out[0]->dtype == to)
			return n;
	}
	return NULL;
}

bool gt_has_kernel(
    const struct gt_kernel *const *tables, const struct gt_op *op, enum gt_dtype dtype)
{
	for (; tables && *tables; tables++)
		for (const struct gt_kernel *k = *tables; k->op; k++)
			if (k->dtype == dtype && !strcmp(k->op, op->name))
				return true;
	return false;
}

void gt_replace_uses(
    struct gt_graph *g, size_t first, const struct gt_value *from, struct gt_value *to)
{
	for (size_t i = first; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == from)
				g->nodes[i]->in[k] = to;
}

void gt_make_output(struct gt_node *n, int output, struct gt_value *v)
{
	n->out[output] = v;
	if (v)
		v->producer = n;
}

void gt_remove_node(struct gt_graph *g, size_t index)
{
	g->node_count--;
	memmove(
	    g->nodes + index, g->nodes + index + 1, (g->node_count - index) * sizeof(*g->nodes));
}

void gt_place_last(struct gt_graph *g, size_t index)
{
	struct gt_node *n = g->nodes[g->node_count - 1];

	memmove(g->nodes + index + 1, g->nodes + index,
	    (g->node_count - 1 - index) * sizeof(*g->nodes));
	g->nodes[index] = n;
}

void gt_drop_node(struct gt_graph *g, const struct gt_node *n)
{
	if (n)
		gt_remove_node(g, gt_node_index(g, n));
}

size_t gt_node_index(const struct gt_graph *g, const struct gt_node *n)
{
	size_t i = 0;

	while (i < g->node_count && g->nodes[i] != n)
		i++;
	return i;
}
