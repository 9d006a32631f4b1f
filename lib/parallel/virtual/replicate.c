/* replicate.c - replicate a graph for the parts of a batch. */
#include "lib/parallel/virtual/replicate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/graph/pass.h"

enum { NAME_BYTES = 192 };

/* Nodes of the graph as it was, and of one copy after the other. */
struct copies {
	struct gt_graph *g;
	struct gt_node **nodes; /* [copies * node_count] */
	size_t node_count;
	struct gt_value **values; /* [value_count] of the copy being made, by the original's id */
	size_t value_count;
};

static void name_copy(char name[NAME_BYTES], const char *original, int copy)
{
	snprintf(name, NAME_BYTES, "%s.%d", original, copy);
}

struct gt_value *gt_replica_of(const struct gt_graph *g, const struct gt_value *v, int copy)
{
	char name[NAME_BYTES];

	/* Copy 0 keeps the values of the original graph, so pointers that callers hold to them stay
	 * valid. */
	if (!v || !copy)
		return (struct gt_value *)v;
	name_copy(name, v->name, copy);
	return gt_graph_find(g, name);
}

/* Values that outlive the run exist once: all copies read the same parameters and add to the same
 * gradients. */
static bool is_shared(const struct gt_value *v)
{
	return v->role == GT_PARAMETER || v->role == GT_BUFFER || v->role == GT_GRADIENT ||
	       v->role == GT_WORKING_COPY;
}

struct gt_value *gt_replica_new(struct gt_graph *g, const struct gt_value *v, int copy)
{
	struct gt_value *r;
	char name[NAME_BYTES];

	if (g->err.code)
		return NULL;
	if (gt_grow(&g->values, g->value_count, &g->value_capacity, sizeof(*g->values), &g->err))
		return NULL;
	r = gt_arena_alloc(&g->arena, sizeof(*r), &g->err);
	if (!r)
		return NULL;
	*r = *v;
	r->id = (int)g->value_count;
	r->name = NULL;
	if (v->name) {
		name_copy(name, v->name, copy);
		gt_value_set_name(g, r, name);
	}
	g->values[g->value_count++] = r;
	return r;
}

struct gt_value *gt_replica_of_gradient(struct gt_graph *g, const struct gt_value *v)
{
	struct gt_value *own = gt_replica_new(g, v, 0);

	if (own) {
		own->role = GT_TEMPORARY;
		own->parameter = NULL;
		gt_value_set_name(g, own, NULL);
	}
	return own;
}

/* The value of the copy at hand that stands for v, made when it is first met. */
static struct gt_value *value_of(struct copies *c, struct gt_value *v, int copy)
{
	if (!v || is_shared(v))
		return v;
	if (!c->values[v->id])
		c->values[v->id] = gt_replica_new(c->g, v, copy);
	return c->values[v->id];
}

static struct gt_node *copy_node(struct copies *c, const struct gt_node *n, int copy)
{
	struct gt_node *r = gt_arena_alloc(&c->g->arena, sizeof(*r), &c->g->err);

	if (!r)
		return NULL;
	*r = *n;
	for (int k = 0; k < n->inputs; k++)
		r->in[k] = value_of(c, n->in[k], copy);
	for (int k = 0; k < n->outputs; k++)
		gt_make_output(r, k, value_of(c, n->out[k], copy));
	return r;
}

/* An output with the role of a gradient overwrites the store's gradient, so the second copy would
 * erase the result of the first. Graphs for several copies add to gradients instead (accumulate).
 */
static int check_gradient_outputs(const struct gt_graph *g, int copies, struct gt_err *err)
{
	for (size_t i = 0; copies > 1 && i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->outputs; k++)
			if (g->nodes[i]->out[k] && g->nodes[i]->out[k]->role == GT_GRADIENT)
				return gt_err_set(err, GT_EINVAL,
				    "copies of a graph whose gradients do not add up");
	return 0;
}

/* Every copy, inputs that no node reads included: the host writes them all. */
static int make_copies(struct copies *c, int copies, struct gt_err *err)
{
	size_t n = c->node_count;

	/* The nodes of copy 0 are the original ones. The graph's list is rebuilt by arrange() only
	 * after all copies exist, because making them appends values but no nodes. */
	memcpy(c->nodes, c->g->nodes, n * sizeof(*c->nodes));
	for (int copy = 1; copy < copies && !c->g->err.code; copy++) {
		/* The table maps values of the original to values of one copy, so it is cleared for
		 * the next copy. */
		memset(c->values, 0, c->value_count * sizeof(*c->values));
		for (size_t i = 0; i < c->value_count; i++)
			if (c->g->values[i]->role == GT_INPUT)
				value_of(c, c->g->values[i], copy);
		for (size_t i = 0; i < n && !c->g->err.code; i++)
			c->nodes[(size_t)copy * n + i] = copy_node(c, c->nodes[i], copy);
	}
	return gt_graph_status(c->g, err);
}

static int arrange(struct copies *c, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err)
{
	struct gt_graph *g = c->g;
	size_t total = (size_t)copies * c->node_count;

	g->node_count = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = blocks[i].first; k < blocks[i].last; k++) {
			if (gt_grow(&g->nodes, g->node_count, &g->node_capacity, sizeof(*g->nodes),
			        err))
				return GT_ENOMEM;
			g->nodes[g->node_count++] =
			    c->nodes[(size_t)blocks[i].copy * c->node_count + k];
		}
	}
	if (g->node_count == total)
		return 0;
	return gt_err_set(
	    err, GT_EINVAL, "an order of %zu nodes where there are %zu", g->node_count, total);
}

/*
 * Replace the nodes of a graph by `copies` copies of all nodes. Each copy has separate inputs,
 * temporaries and outputs. The copies share parameters, their 16-bit working copies, buffers and
 * gradients. So the nodes must add to the gradients (gt_pass_options.accumulate) instead of
 * overwriting them. Copy 0 keeps the original values. In copy i > 0, the value NAME is called
 * NAME.i.
 *
 * blocks[count] gives the new order of the nodes: one block after the other. The blocks must
 * contain every node of every copy once. Each node must come after the nodes that compute its
 * inputs.
 *
 * Errors: GT_EINVAL for a graph that overwrites gradients instead of adding to them; GT_ENOMEM.
 */
int gt_replicate(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err)
{
	struct copies c = { .g = g, .node_count = g->node_count, .value_count = g->value_count };
	int rc = check_gradient_outputs(g, copies, err);

	if (rc)
		return rc;
	c.nodes = gt_calloc((size_t)copies * c.node_count, sizeof(struct gt_node *), err);
	c.values = gt_calloc(c.value_count, sizeof(struct gt_value *), err);
	rc = c.nodes && c.values ? make_copies(&c, copies, err) : GT_ENOMEM;
	if (!rc)
		rc = arrange(&c, copies, blocks, count, err);
	free(c.nodes);
	free(c.values);
	return rc;
}
