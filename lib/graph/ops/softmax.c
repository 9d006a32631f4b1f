/* softmax.c - softmax and its logarithm. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int softmax_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_float(n->in[0], "the input", -1, err))
		return err->code;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static void softmax_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { n->out[0], d_out[0] };

	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_softmax_grad, &n->attrs, 2, in);
}

static double softmax_flops(const struct gt_node *n)
{
	return 5.0 * (double)gt_value_elements(n->out[0]);
}

static double softmax_grad_flops(const struct gt_node *n)
{
	return 4.0 * (double)gt_value_elements(n->out[0]);
}

static void softmax_print(const struct gt_node *n, FILE *f)
{
	fputs(n->attrs.softmax.log ? " log" : "", f);
}

/*
 * softmax: the exponentials of each row, divided by their sum; with attrs.softmax.log, the
 * logarithms of these. A row is the C elements of the last dimension. May overwrite x.
 *   in   x F [..., C]     out  y F like x
 *   y = exp(x) / sum(exp(x))       log: y = x - log(sum(exp(x)))
 * Kernels subtract the largest element of the row from x first. A row that has a NaN, or infinity,
 * or in which all elements are -infinity, is NaN.
 * softmax_grad, which may overwrite y or dy:
 *   in   y, dy like y              out  dx like y
 *   dx = y * (dy - sum(y * dy))    log: dx = dy - exp(y) * sum(dy)
 */
const struct gt_op gt_op_softmax = {
	.name = "softmax",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = softmax_infer,
	.grad = softmax_grad,
	.print = softmax_print,
	.flops = softmax_flops,
	.inplace = 1u << 0,
	.row_inputs = 1,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_HIGH,
};

static int softmax_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_same(n->in[0], n->in[1], "the gradient", err))
		return err->code;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

const struct gt_op gt_op_softmax_grad = {
	.name = "softmax_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = softmax_grad_infer,
	.print = softmax_print,
	.flops = softmax_grad_flops,
	.inplace = 1u << 0 | 1u << 1,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_softmax(struct gt_graph *g, struct gt_value *x, int dim, bool log)
{
	union gt_attrs attrs = { 0 };
	int order[GT_MAX_DIMS];

	attrs.softmax.log = log;
	if (!x || dim == x->ndim - 1)
		return gt_emit1(g, &gt_op_softmax, &attrs, 1, &x);
	if (dim < 0 || dim >= x->ndim) {
		gt_graph_fail(
		    g, GT_EINVAL, "softmax: %s has no dimension %d", gt_shape_text(x).s, dim);
		return NULL;
	}
	for (int i = 0; i < x->ndim; i++)
		order[i] = i;
	order[dim] = x->ndim - 1; /* an exchange of two, so the same order leads back */
	order[x->ndim - 1] = dim;
	x = gt_permute_dims(g, x, order);
	return gt_permute_dims(g, gt_emit1(g, &gt_op_softmax, &attrs, 1, &x), order);
}
