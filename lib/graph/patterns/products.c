/* products.c - matrix products with transposed weights, with biases, and of permuted rows. */
#include <string.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

/* Return the node that makes v, or the tensor that it views, of pieces of one tensor; or NULL. */
static const struct gt_node *find_copy(struct gt_value *v)
{
	v = gt_value_viewed(v);
	if (!v->producer || v->producer->op != &gt_op_arrange || v->role != GT_TEMPORARY ||
	    v->producer->in[1] || gt_value_changes(v->producer->in[0]))
		return NULL;
	return v->producer;
}

/* x @ w.T reads w itself. */
struct gt_value *gt_pattern_transposed_weight(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer, *copy = find_copy(n->in[1]);
	const int order[] = { 1, 0 };

	if (!copy || copy->in[0]->ndim != 2 || n->in[1]->ndim != 2 ||
	    !gt_match_same(n->in[1], gt_permute_dims(m->g, copy->in[0], order)))
		return NULL;
	return gt_matmul(m->g, n->in[0], copy->in[0], n->in[2], n->attrs.matmul.trans_a,
	    !n->attrs.matmul.trans_b);
}

/* The same for the matrices of groups of rows. */
struct gt_value *gt_pattern_transposed_weights(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer, *copy = find_copy(n->in[1]);
	const int order[] = { 0, 2, 1 };

	if (!copy || copy->in[0]->ndim != 3 || n->in[1]->ndim != 3 ||
	    !gt_match_same(n->in[1], gt_permute_dims(m->g, copy->in[0], order)))
		return NULL;
	return gt_grouped_matmul(m->g, n->in[0], copy->in[0], n->in[2], !n->attrs.matmul.trans_b);
}

/* x @ w + b, where b has a number for each column. */
struct gt_value *gt_pattern_bias(const struct gt_match *m)
{
	const struct gt_node *n = gt_match_node(m, &gt_op_matmul);
	struct gt_value *bias = gt_match_tensor(m, 'b');
	int64_t columns = gt_value_last(m->root);

	if (!n || gt_value_elements(bias) != columns || gt_value_last(bias) != columns ||
	    gt_value_last(n->out[0]) != columns)
		return NULL;
	if (bias->ndim != 1)
		bias = gt_reshape(m->g, bias, 1, &columns);
	return gt_matmul(
	    m->g, n->in[0], n->in[1], bias, n->attrs.matmul.trans_a, n->attrs.matmul.trans_b);
}

/* ---- permuted rows ---- */

/* Set p to a permutation of rows of `to` elements that permutes rows of `from` elements as `piece`
 * does. Returns false if the piece is no permutation of whole rows. */
static bool scale_rows(
    struct gt_arrange_piece *p, const struct gt_arrange_piece *piece, int64_t from, int64_t to)
{
	const int64_t last = piece->ndim - 1;

	*p = *piece;
	if (last < 0 || p->from.first || p->to.first || p->from.strides[last] != 1 ||
	    p->to.strides[last] != 1 || p->shape[last] % from)
		return false;
	p->shape[last] = p->shape[last] / from * to;
	for (int64_t i = 0; i < last; i++) {
		if (p->from.strides[i] % from || p->to.strides[i] % from)
			return false;
		p->from.strides[i] = p->from.strides[i] / from * to;
		p->to.strides[i] = p->to.strides[i] / from * to;
	}
	return true;
}

/* Return whether each piece of n that reads v can read the input of `maker`, which makes v. */
static bool reads_around(
    const struct gt_node *n, const struct gt_value *v, const struct gt_arrangement *maker)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;

	for (int64_t i = 0; i < a->count; i++) {
		struct gt_arrange_piece p = a->pieces[i];

		if (gt_value_viewed(n->in[p.input]) == v && !gt_arrange_piece_pass(&p, maker))
			return false;
	}
	return true;
}

/* Return whether all nodes that read v, or a view of it, are copies that can read the input of
 * `maker` in its place. */
static bool is_copied_again(
    const struct gt_graph *g, const struct gt_value *v, const struct gt_arrangement *maker)
{
	bool read = false;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->inputs; k++) {
			if (!n->in[k] || n->op == &gt_op_reshape || gt_value_viewed(n->in[k]) != v)
				continue;
			if (n->op != &gt_op_arrange || !reads_around(n, v, maker))
				return false;
			read = true;
		}
	}
	return read;
}

/* The rows of a product may be permuted after it instead of before, and a second permutation behind
 * it then undoes the first: torch.nn.MultiheadAttention has tokens before samples, and most
 * networks samples before tokens. */
struct gt_value *gt_pattern_moved_rows(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer, *copy = find_copy(n->in[0]);
	const struct gt_arrangement *a = copy ? copy->attrs.arrange.arrangement : NULL;
	int64_t columns = gt_value_last(m->root), width = gt_value_last(n->in[0]);
	struct gt_arrangement moved = { .ndim = m->root->ndim, .count = 1 };
	int64_t rows[2];
	struct gt_value *y;

	if (!a || n->attrs.matmul.trans_a || a->count != 1 ||
	    gt_arrange_piece_elements(&a->pieces[0]) != gt_value_elements(copy->in[0]) ||
	    gt_value_elements(copy->in[0]) != gt_value_elements(n->in[0]) ||
	    !scale_rows(&moved.pieces[0], &a->pieces[0], width, columns))
		return NULL;
	memcpy(moved.shape, m->root->shape, sizeof(moved.shape));
	gt_arrange_piece_simplify(&moved.pieces[0]);
	if (!is_copied_again(m->g, m->root, &moved))
		return NULL;
	rows[0] = gt_value_elements(n->in[0]) / width;
	rows[1] = width;
	y = gt_matmul(m->g, gt_reshape(m->g, copy->in[0], 2, rows), n->in[1], n->in[2], false,
	    n->attrs.matmul.trans_b);
	return gt_arrange(m->g, 1, &y, &moved);
}
