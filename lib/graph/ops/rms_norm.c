/* rms_norm.c - normalisation by the root of the mean square. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int rms_norm_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	enum gt_dtype wide = gt_dtype_wide(x->dtype);
	int64_t rows;

	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	rows = gt_value_rows(x);
	gt_infer_like(n->out[0], x);
	gt_infer_shape(n->out[1], wide, 1, &rows);
	return gt_infer_vector(n->in[1], "the weight", wide, gt_value_last(x), err);
}

static void rms_norm_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->out[1] };
	struct gt_node *grad = gt_emit(g, &gt_op_rms_norm_grad, &n->attrs, 4, in);

	for (int i = 0; grad && i < 2; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
}

static double rms_norm_flops(const struct gt_node *n)
{
	return 5.0 * (double)gt_value_elements(n->out[0]);
}

static double rms_norm_grad_flops(const struct gt_node *n)
{
	return 9.0 * (double)gt_value_elements(n->out[0]);
}

/*
 * rms_norm: divide each row, the C elements of the last dimension, by its root mean square.
 *   in   x F [..., C];  weight W [C]
 *   out  y F like x;  rstd W [rows] = 1 / sqrt(mean of x^2 + eps)
 *   y = x * rstd * weight
 * rms_norm_grad:  in dy like x, x, weight, rstd
 *   out  dx = rstd * (dy * weight - x * rstd^2 * mean(dy * weight * x));  dweight W [C]
 * Source: Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
 */
const struct gt_op gt_op_rms_norm = {
	.name = "rms_norm",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 2,
	.infer = rms_norm_infer,
	.grad = rms_norm_grad,
	.flops = rms_norm_flops,
	.row_inputs = 1,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_rms_norm(
    struct gt_graph *g, struct gt_value *x, struct gt_value *weight, double eps)
{
	union gt_attrs attrs = { 0 };

	attrs.norm.eps = eps;
	return gt_emit1(g, &gt_op_rms_norm, &attrs, 2, (struct gt_value *[]){ x, weight });
}

static int rms_norm_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_same(n->in[1], n->in[0], "the gradient", err))
		return err->code;
	gt_infer_like(n->out[0], n->in[1]);
	gt_infer_like(n->out[1], n->in[2]);
	return 0;
}

const struct gt_op gt_op_rms_norm_grad = {
	.name = "rms_norm_grad",
	.min_inputs = 4,
	.max_inputs = 4,
	.outputs = 2,
	.infer = rms_norm_grad_infer,
	.flops = rms_norm_grad_flops,
	.autocast = GT_AUTOCAST_KEEP,
};
