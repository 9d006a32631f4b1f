/* moves.c - nodes that only move elements: copies of copies, views of views. */
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

/* A function of each element that is the element, such as x * 1. */
struct gt_value *gt_pattern_same(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer;
	struct gt_expr e;
	struct gt_value *x;

	if (n->attrs.map.program->outputs != 1)
		return NULL;
	gt_expr_of_program(&e, n->attrs.map.program);
	if (e.value[e.out[0]].function != GT_EXPR_INPUT)
		return NULL;
	x = n->in[e.value[e.out[0]].arg[0]];
	return gt_value_changes(x) ? NULL : x;
}

/* A copy of a copy reads the first one's input, if that became possible. */
struct gt_value *gt_pattern_copy(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer;
	struct gt_value *y;
	int inputs = 0;

	while (inputs < n->inputs && n->in[inputs])
		inputs++;
	y = gt_arrange(m->g, inputs, n->in, n->attrs.arrange.arrangement);
	return y && gt_match_same(gt_value_viewed(y), m->root) ? NULL : y;
}

/* Return the product whose rows y views in other dimensions, if no other node reads it; or NULL. */
static const struct gt_node *find_viewed_product(const struct gt_match *m, struct gt_value *y)
{
	const struct gt_node *n = y->producer;

	if (!n || n->op != &gt_op_matmul || n->attrs.matmul.trans_a || m->uses[y->id] != 1 ||
	    gt_value_last(y) != gt_value_last(m->root) || m->root->ndim < 2)
		return NULL;
	return n;
}

/* A view of a view, or of the rows of a product, which then has the shape of the view. */
struct gt_value *gt_pattern_view(const struct gt_match *m)
{
	const struct gt_value *y = m->root;
	struct gt_value *x = gt_value_viewed(m->root);
	const struct gt_node *n = find_viewed_product(m, y->producer->in[0]);
	int64_t shape[GT_MAX_DIMS];

	if (gt_value_same_shape(x, y))
		return x;
	if (x != y->producer->in[0])
		return gt_reshape(m->g, x, y->ndim, y->shape);
	if (!n)
		return NULL;
	memcpy(shape, y->shape, sizeof(shape));
	shape[y->ndim - 1] = gt_value_last(n->in[0]);
	return gt_matmul(m->g, gt_reshape(m->g, n->in[0], y->ndim, shape), n->in[1], n->in[2],
	    false, n->attrs.matmul.trans_b);
}
