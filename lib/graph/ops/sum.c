/* sum.c - sums over dimensions. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int sum_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	unsigned dims = n->attrs.sum.dims;
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	if (gt_infer_float(x, "the input", x->ndim, err))
		return err->code;
	if (dims >> x->ndim)
		return gt_err_set(err, GT_EINVAL, "a sum over dimensions that %s does not have",
		    gt_shape_text(x).s);
	for (int d = 0; d < x->ndim; d++)
		if (!(dims >> d & 1))
			shape[ndim++] = x->shape[d];
		else if (n->attrs.sum.keep)
			shape[ndim++] = 1;
	gt_infer_shape(n->out[0], x->dtype, ndim, shape);
	return 0;
}

static void sum_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	const struct gt_value *x = n->in[0];
	int64_t shape[GT_MAX_DIMS];

	for (int d = 0; d < x->ndim; d++)
		shape[d] = n->attrs.sum.dims >> d & 1 ? 1 : x->shape[d];
	if (wanted[0])
		d_in[0] = gt_expand(g, gt_reshape(g, d_out[0], x->ndim, shape), x->ndim, x->shape);
}

static double sum_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

static void sum_print(const struct gt_node *n, FILE *f)
{
	for (int d = 0, shown = 0; d < n->in[0]->ndim; d++)
		if (n->attrs.sum.dims >> d & 1)
			fprintf(f, "%s%d", shown++ ? "," : " dims=", d);
	fputs(n->attrs.sum.keep ? " keep" : "", f);
}

/*
 * sum: the sum over the dimensions whose bit of attrs.sum.dims is set. With attrs.sum.keep, they
 * remain in the result with size 1. Kernels add in an order that the shape alone determines.
 *   in   x F [...]     out  y F
 */
const struct gt_op gt_op_sum = {
	.name = "sum",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = sum_infer,
	.print = sum_print,
	.grad = sum_grad,
	.flops = sum_flops,
	.elementwise = true,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_sum(struct gt_graph *g, struct gt_value *x, unsigned dims, bool keep)
{
	union gt_attrs attrs = { 0 };

	attrs.sum.dims = dims;
	attrs.sum.keep = keep;
	return gt_emit1(g, &gt_op_sum, &attrs, 1, &x);
}
