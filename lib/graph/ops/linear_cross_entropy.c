/* linear_cross_entropy.c - the head of a model and its loss, without a tensor of logits. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/*
 * linear_cross_entropy: compute the logits x * w^T, and a result from them. A node with the input
 * weight computes the loss as cross_entropy does; if the node also has the input dloss, it computes
 * the gradients dx and dw, too. A node without the input weight computes classify_stats. The kernel
 * computes the logits of attrs.head.rows rows at a time, so no tensor holds all logits.
 *   in   x F [..., C];  w F [V, C];  target I32 [...];  weight W [], optional;  dloss W [],
 *        optional; requires weight
 *   out  loss W [] (missing without weight);  stats F64 [4], as classify_stats (missing with
 *        weight);  dx like x and dw W [V, C] (both missing without dloss)
 * If F is a 16-bit type, logits and their gradients are rounded to F, as if they were stored in
 * tensors. The sums over rows for dw are computed in W. The op has no gradient, because the pass
 * fuse_head replaces both the forward and the backward nodes by one node of this op.
 */

static int check_scalar(
    const struct gt_value *v, const char *what, enum gt_dtype dtype, struct gt_err *err)
{
	if (v && (v->dtype != dtype || v->ndim))
		return gt_err_set(
		    err, GT_EINVAL, "%s is not a scalar in %s", what, gt_dtype_name(dtype));
	return 0;
}

static int check_inputs(const struct gt_node *n, enum gt_dtype wide, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *w = n->in[1], *target = n->in[2];

	if (gt_infer_float(x, "the input", -1, err) || gt_infer_float(w, "the weights", 2, err))
		return err->code;
	if (x->dtype != w->dtype || gt_value_last(x) != w->shape[1])
		return gt_err_set(err, GT_EINVAL, "%s and %s transposed do not multiply",
		    gt_shape_text(x).s, gt_shape_text(w).s);
	if (target->dtype != GT_I32 || gt_value_elements(target) != gt_value_rows(x))
		return gt_err_set(err, GT_EINVAL, "targets %s %s for rows of %s",
		    gt_dtype_name(target->dtype), gt_shape_text(target).s, gt_shape_text(x).s);
	if (n->attrs.head.rows < GT_HEAD_ROWS || n->attrs.head.rows % GT_HEAD_ROWS)
		return gt_err_set(err, GT_EINVAL, "chunks of %lld rows, not of a multiple of %d",
		    (long long)n->attrs.head.rows, GT_HEAD_ROWS);
	if (n->in[4] && !n->in[3])
		return gt_err_set(err, GT_EINVAL, "dloss is given without the weight");
	return check_scalar(n->in[3], "the weight", wide, err)
	           ? err->code
	           : check_scalar(n->in[4], "the gradient", wide, err);
}

static int linear_cross_entropy_infer(struct gt_node *n, struct gt_err *err)
{
	static const int64_t four = 4;
	const struct gt_value *x = n->in[0], *w = n->in[1];
	enum gt_dtype wide = gt_dtype_wide(x->dtype);

	if (check_inputs(n, wide, err))
		return err->code;
	if (n->in[3]) {
		gt_infer_shape(n->out[0], wide, 0, NULL);
		n->out[1] = NULL;
	} else {
		n->out[0] = NULL;
		gt_infer_shape(n->out[1], GT_F64, 1, &four);
	}
	if (n->in[4]) {
		gt_infer_like(n->out[2], x);
		gt_infer_shape(n->out[3], wide, 2, w->shape);
	} else {
		n->out[2] = n->out[3] = NULL;
	}
	return 0;
}

static void linear_cross_entropy_print(const struct gt_node *n, FILE *f)
{
	fprintf(
	    f, " rows=%lld%s", (long long)n->attrs.head.rows, n->attrs.head.tf32 ? " tf32" : "");
}

/* The logits and each gradient are products with the same number of terms. The loss adds a few
 * FLOPs per logit, as the separate ops count them. */
static double linear_cross_entropy_flops(const struct gt_node *n)
{
	double rows = (double)gt_value_rows(n->in[0]), width = (double)gt_value_last(n->in[0]);
	double logits = rows * (double)n->in[1]->shape[0];

	return logits * (n->in[4] ? 3 * 2 * width + 6 : 2 * width + (n->in[3] ? 3 : 4));
}

/* Each chunk reads the weights, writes and reads its logits, and writes their gradients, which two
 * products read. Every chunk but the first also reads the gradient by the weights. */
static void linear_cross_entropy_add_bytes(const struct gt_node *n, struct gt_cost *cost)
{
	int64_t rows = gt_value_rows(n->in[0]), max = n->attrs.head.rows;
	double chunks = (double)((rows + max - 1) / max), w = (double)gt_value_bytes(n->in[1]);
	double logits = (double)rows * w / (double)n->in[1]->shape[1];

	cost->bytes_written += logits;
	cost->bytes_read += logits + (chunks - 1) * w;
	if (!n->in[4])
		return;
	cost->bytes_written += logits + (chunks - 1) * (double)gt_value_bytes(n->out[3]);
	cost->bytes_read += 2 * logits + chunks * w + (double)gt_value_bytes(n->in[0]) +
	                    (chunks - 1) * (double)gt_value_bytes(n->out[3]);
}

const struct gt_op gt_op_linear_cross_entropy = {
	.name = "linear_cross_entropy",
	.min_inputs = 3,
	.max_inputs = 5,
	.outputs = 4,
	.infer = linear_cross_entropy_infer,
	.print = linear_cross_entropy_print,
	.flops = linear_cross_entropy_flops,
	.product = true,
	.add_bytes = linear_cross_entropy_add_bytes,
	.autocast = GT_AUTOCAST_KEEP,
};
