/* rewrite.c - the steps that passes share. */
#include <string.h>

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

void gt_make_instead(struct gt_value *v, const struct gt_value *made)
{
	v->producer = made->producer;
	v->producer->out[0] = v;
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

size_t gt_node_index(const struct gt_graph *g, const struct gt_node *n)
{
	size_t i = 0;

	while (i < g->node_count && g->nodes[i] != n)
		i++;
	return i;
}
