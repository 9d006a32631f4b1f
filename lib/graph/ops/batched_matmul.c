/* batched_matmul.c - products of the matrices in two tensors of several dimensions. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int64_t matrix_rows(const struct gt_value *v, bool transposed)
{
	return v->shape[v->ndim - (transposed ? 1 : 2)];
}

static int64_t matrix_columns(const struct gt_value *v, bool transposed)
{
	return matrix_rows(v, !transposed);
}

/* Return the size of dimension d of y for an operand, which is broadcast to y. */
static int64_t batch_size(const struct gt_value *v, const struct gt_value *y, int d)
{
	int own = d - (y->ndim - v->ndim);

	return own < 0 ? 1 : v->shape[own];
}

static int infer_matrix(const struct gt_value *v, const char *what, struct gt_err *err)
{
	if (gt_infer_float(v, what, -1, err))
		return err->code;
	if (v->ndim < 2)
		return gt_err_set(err, GT_EINVAL, "%s has shape %s, at least 2 dimensions wanted",
		    what, gt_shape_text(v).s);
	return 0;
}

static int batched_matmul_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0], *b = n->in[1];
	bool ta = n->attrs.matmul.trans_a, tb = n->attrs.matmul.trans_b;
	struct gt_value *y = n->out[0];
	bool fit;

	if (infer_matrix(a, "the left side", err) || infer_matrix(b, "the right side", err))
		return err->code;
	fit = a->dtype == b->dtype && matrix_columns(a, ta) == matrix_rows(b, tb);
	gt_infer_like(y, a->ndim >= b->ndim ? a : b);
	for (int d = 0; d < y->ndim - 2; d++) {
		int64_t of_a = batch_size(a, y, d), of_b = batch_size(b, y, d);

		fit = fit && (of_a == of_b || of_a == 1 || of_b == 1);
		y->shape[d] = of_a == 1 ? of_b : of_a;
	}
	if (!fit)
		return gt_err_set(err, GT_EINVAL, "%s%s and %s%s do not multiply",
		    gt_shape_text(a).s, ta ? " transposed" : "", gt_shape_text(b).s,
		    tb ? " transposed" : "");
	y->shape[y->ndim - 2] = matrix_rows(a, ta);
	y->shape[y->ndim - 1] = matrix_columns(b, tb);
	return 0;
}

/* Sum a gradient over the dimensions along which `like` was broadcast. */
static struct gt_value *sum_to_shape(
    struct gt_graph *g, struct gt_value *v, const struct gt_value *like)
{
	struct gt_err ignored;
	unsigned dims = 0;

	for (int d = 0; v && d < v->ndim - 2; d++)
		if (batch_size(like, v, d) != v->shape[d])
			dims |= 1u << d;
	if (dims)
		v = gt_sum(g, v, dims, true);
	if (!v || !gt_infer_same(like, v, "", &ignored))
		return v;
	return gt_reshape(g, v, like->ndim, like->shape);
}

static void batched_matmul_grad(struct gt_graph *g, struct gt_node *n,
    struct gt_value *const *d_out, const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *a = n->in[0], *b = n->in[1], *dy = d_out[0];
	bool ta = n->attrs.matmul.trans_a, tb = n->attrs.matmul.trans_b;

	if (wanted[0])
		d_in[0] = sum_to_shape(g,
		    ta ? gt_batched_matmul(g, b, dy, tb, true)
		       : gt_batched_matmul(g, dy, b, false, !tb),
		    a);
	if (wanted[1])
		d_in[1] = sum_to_shape(g,
		    tb ? gt_batched_matmul(g, dy, a, true, ta)
		       : gt_batched_matmul(g, a, dy, !ta, false),
		    b);
}

static double batched_matmul_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->out[0]) *
	       (double)matrix_columns(n->in[0], n->attrs.matmul.trans_a);
}

static void batched_matmul_print(const struct gt_node *n, FILE *f)
{
	gt_op_matmul.print(n, f);
}

/*
 * batched_matmul: the matrix products y = op(a) * op(b) of the last two dimensions. The dimensions
 * before them are broadcast as in NumPy: a size of 1, or a missing one, stands for any number of
 * equal matrices, which are not copied.
 *   in   a F [..., M, K], or [..., K, M] with trans_a
 *        b F [..., K, N], or [..., N, K] with trans_b
 *   out  y F [..., M, N]
 * op transposes the last two dimensions with trans_a or trans_b. Both may be set.
 */
const struct gt_op gt_op_batched_matmul = {
	.name = "batched_matmul",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = batched_matmul_infer,
	.print = batched_matmul_print,
	.grad = batched_matmul_grad,
	.flops = batched_matmul_flops,
	.product = true,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_LOW,
};

/* Whether the value is a single matrix. */
static bool is_matrix(const struct gt_value *v)
{
	return v->ndim >= 2 &&
	       v->shape[v->ndim - 2] * v->shape[v->ndim - 1] == gt_value_elements(v);
}

static struct gt_value *without_batch(struct gt_graph *g, struct gt_value *v)
{
	return v->ndim == 2 ? v : gt_reshape(g, v, 2, v->shape + v->ndim - 2);
}

/* One product of all rows of a, if b is one matrix. y has at least as many dimensions as b. */
static struct gt_value *multiply_rows(
    struct gt_graph *g, struct gt_value *a, struct gt_value *b, bool trans_a, bool trans_b)
{
	int64_t shape[GT_MAX_DIMS];
	struct gt_value *y = gt_matmul(
	    g, trans_a ? without_batch(g, a) : a, without_batch(g, b), NULL, trans_a, trans_b);
	int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;

	if (!y || y->ndim == ndim)
		return y;
	for (int d = 0; d < ndim; d++)
		shape[d] = d < ndim - y->ndim ? 1 : y->shape[d - (ndim - y->ndim)];
	return gt_reshape(g, y, ndim, shape);
}

struct gt_value *gt_batched_matmul(
    struct gt_graph *g, struct gt_value *a, struct gt_value *b, bool trans_a, bool trans_b)
{
	union gt_attrs attrs = { 0 };

	if (a && b && is_matrix(b) && a->ndim >= 2 && (!trans_a || (is_matrix(a) && !trans_b)))
		return multiply_rows(g, a, b, trans_a, trans_b);
	attrs.matmul.trans_a = trans_a;
	attrs.matmul.trans_b = trans_b;
	return gt_emit1(g, &gt_op_batched_matmul, &attrs, 2, (struct gt_value *[]){ a, b });
}
