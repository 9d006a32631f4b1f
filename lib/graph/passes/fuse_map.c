/* fuse_map.c - one map in place of two nodes, where one reads the other's result. */
#include <stdlib.h>

#include "lib/graph/expr.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/* Return the program of a map, or of an op that a map can compute; NULL for other nodes. */
static const struct gt_map_program *program_of(const struct gt_node *n)
{
	static const struct gt_map_program sum = { 2, 1, 0, 0, 1, 1, { 0 },
		{ { GT_F_ADD, 2, { 0, 1, 0 } } } };

	if (n->op == &gt_op_map)
		return n->attrs.map.program;
	return n->op == &gt_op_add ? &sum : NULL;
}

/* The inputs of a node that takes the place of two. */
struct joined {
	struct gt_expr e;
	struct gt_value *in[2 * GT_MAX_INPUTS];
	struct gt_value *shared[GT_MAX_INPUTS]; /* inputs of both nodes */
	int inputs, shares;
};

/* Return the value in the expression of v as an input, which is added unless it is there. */
static int joined_input(struct joined *j, struct gt_value *v)
{
	for (int i = 0; i < j->inputs; i++)
		if (j->in[i] == v) {
			j->shared[j->shares++] = v;
			return gt_expr_input(&j->e, i);
		}
	j->in[j->inputs] = v;
	return gt_expr_input(&j->e, j->inputs++);
}

/* Return the node that writes input k of n and can be joined with n: n alone reads the result, for
 * each element once, no node may change its inputs before n runs, and one of both is a map. NULL:
 * there is none. */
static const struct gt_node *find_joined_maker(const struct gt_node *n, int k, const int *uses)
{
	const struct gt_node *maker = gt_sole_maker(n->in[k], &gt_op_map, uses);

	if (!maker && n->op == &gt_op_map)
		maker = gt_sole_maker(n->in[k], &gt_op_add, uses);
	if (!maker || program_of(maker)->outputs != 1 || maker->is_repeat != n->is_repeat ||
	    gt_value_elements(n->in[k]) != gt_value_elements(n->out[0]))
		return NULL;
	for (int i = 0; i < maker->inputs; i++)
		if (maker->in[i] && gt_value_changes(maker->in[i]))
			return NULL;
	return maker;
}

/* Set j to the expression of n in which input k is the expression of `maker`. */
static void join_exprs(
    struct joined *j, const struct gt_node *n, int k, const struct gt_node *maker)
{
	int in[GT_EXPR_INPUTS], out[GT_EXPR_INPUTS], made;
	struct gt_expr e;

	*j = (struct joined){ .inputs = 0 };
	gt_expr_of_program(&e, program_of(maker));
	for (int i = 0; i < e.inputs; i++)
		in[i] = joined_input(j, maker->in[i]);
	gt_expr_inline(&j->e, &e, in, out);
	made = out[0];
	gt_expr_of_program(&e, program_of(n));
	for (int i = 0; i < e.inputs; i++)
		in[i] = i == k ? made : joined_input(j, n->in[i]);
	gt_expr_inline(&j->e, &e, in, out);
	for (int i = 0; i < e.outputs; i++)
		gt_expr_output(&j->e, out[i]);
}

/* Let n compute its input k itself. Return whether that was possible. */
static bool join_map(struct gt_graph *g, struct gt_node *n, int k, int *uses)
{
	const struct gt_node *maker = find_joined_maker(n, k, uses);
	const struct gt_value *y = n->out[0];
	struct gt_map_program p;
	struct joined j;

	if (!maker)
		return false;
	join_exprs(&j, n, k, maker);
	if (gt_expr_compile(&p, &j.e, GT_ERR_IGNORED))
		return false;
	n->op = &gt_op_map;
	n->inputs = gt_op_map.max_inputs;
	n->outputs = gt_op_map.outputs;
	n->attrs.map.program = gt_graph_intern(g, &p, sizeof(p));
	/* The inputs alone may have a smaller shape, if `maker` expands them. */
	n->attrs.map.ndim = maker->attrs.map.ndim ? y->ndim : n->attrs.map.ndim;
	for (int d = 0; maker->attrs.map.ndim && d < y->ndim; d++)
		n->attrs.map.shape[d] = y->shape[d];
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		n->in[i] = i < j.inputs ? j.in[i] : NULL;
	for (int i = 0; i < j.shares; i++)
		uses[j.shared[i]->id]--;
	gt_drop_node(g, maker);
	return true;
}

static int run_fuse_map(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int *uses = gt_count_uses(g, err);

	(void)options;
	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->node_count && !g->err.code; i++) {
		struct gt_node *n = g->nodes[i];

		for (int k = 0; program_of(n) && k < n->inputs; k++)
			if (n->in[k] && join_map(g, n, k, uses)) {
				i--; /* the maker was before n */
				k = -1;
			}
	}
	free(uses);
	return gt_graph_status(g, err);
}

const struct gt_pass gt_pass_fuse_map = {
	.name = "fuse-map",
	.purpose = "compute functions of functions of each element at once",
	.run = run_fuse_map,
};
