/* reread.c - the backward part widens frozen weights again instead of keeping the copies. */
#include <stdlib.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * A frozen weight w that is stored in blocks, before and after:
 *
 *   W = decode(w)   y = matmul(x, W)   ...   dx = matmul(dy, W)
 *   W = decode(w)   y = matmul(x, W)   ...   W' = decode(w)   dx = matmul(dy, W')
 *
 * So the copies of two weights are hardly ever in memory at the same time.
 */

static bool applies_reread(const struct gt_pass_options *options)
{
	return options->loss != NULL;
}

/* Return whether a value is a copy of a frozen weight: what its blocks hold, its elements in a
 * larger type, or such a copy in another type. */
static bool is_copy(const struct gt_value *v)
{
	const struct gt_node *n = v ? v->producer : NULL;

	if (!n || v->role != GT_TEMPORARY || n->is_repeat)
		return false;
	if (n->op == &gt_op_decode)
		return true;
	return n->op == &gt_op_cast &&
	       (is_copy(n->in[0]) ||
	           (n->in[0]->frozen && gt_value_bytes(v) > gt_value_bytes(n->in[0])));
}

/* Make a copy of a frozen weight again before the node at *at, which moves up by one for each node
 * that this takes. */
static struct gt_value *copy_again(struct gt_graph *g, size_t *at, const struct gt_value *copy)
{
	const struct gt_node *maker = copy->producer;
	struct gt_value *in =
	    is_copy(maker->in[0]) ? copy_again(g, at, maker->in[0]) : maker->in[0];
	struct gt_node *again = in ? gt_node_copy(g, maker) : NULL;

	if (!again)
		return NULL;
	again->is_repeat = true;
	again->in[0] = in;
	again->out[0]->layout = copy->layout;
	gt_place_last(g, (*at)++);
	return again->out[0];
}

static void read_again(struct gt_graph *g, size_t *at)
{
	struct gt_node *n = g->nodes[*at];

	for (int k = 0; k < n->inputs; k++) {
		struct gt_value *again;

		if (!is_copy(n->in[k]))
			continue;
		g->scope = n->scope;
		again = copy_again(g, at, n->in[k]);
		if (again)
			n->in[k] = again;
	}
}

static int run_reread(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	for (size_t i = gt_node_index(g, options->loss->producer) + 1;
	     i < g->node_count && !g->err.code; i++)
		read_again(g, &i);
	return gt_graph_status(g, err);
}

const struct gt_pass gt_pass_reread = {
	.name = "reread",
	.purpose = "widen frozen weights again in the backward part",
	.applies = applies_reread,
	.run = run_reread,
};
