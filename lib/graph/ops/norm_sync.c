/* norm_sync.c - batch normalisation in parts, between which ranks combine their statistics. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/*
 * Ops that replace batch_norm and batch_norm_grad if ranks combine their statistics of the batch
 * (lib/parallel/data/sync_bn.h). n is the number of values of a channel, B * H * W. In the outputs
 * of batch_norm_moments and batch_norm_grad_sums, n is that of one rank. In the formula of
 * batch_norm_grad_apply, n is the sum over all ranks. C is the number of channels, R the number of
 * ranks.
 *
 * batch_norm_moments:     in x
 *   out  F64 [1 + 2 * C]: n, the means [C], the sums of squared deviations from the mean [C]
 * batch_norm_combine:     in running_mean, running_var, num_batches_tracked (all three updated, as
 *                            batch_norm does), moments F64 [R, 1 + 2 * C], one row for each rank
 *   out  mean W [C];  rstd W [C];  both for the samples of all ranks
 * batch_norm_apply:       in x, weight, bias, mean, rstd, residual (optional, as in batch_norm)
 *   out  y, with attrs.norm.relu as in batch_norm; may overwrite residual
 * batch_norm_grad_sums:   in dy, x, mean, rstd;  y, more (these two optional, as in
 *                            batch_norm_grad)
 *   out  sums F64 [1 + 2 * C]: n, sums of dy [C], sums of dy * (x - mean) [C];
 *        dweight, dbias W [C];  all of them for the samples of this rank;  dresidual (optional, as
 *        in batch_norm_grad)
 * batch_norm_grad_apply:  in dy, x, weight, mean, rstd, sums F64 [1 + 2 * C] over all ranks,
 *                            y (optional, as in batch_norm_grad). If batch_norm_grad_sums has
 *                            the output dresidual, dresidual is the input dy here, and y is
 *                            missing.
 *   out  dx = weight * rstd * (dy - sum(dy) / n - (x - mean) * rstd^2 * sum(dy * (x - mean)) / n);
 *        may overwrite dy or x
 * These ops have no gradient, because they are inserted after the backward part was added.
 * Sources: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979, for the sums; torch.nn.SyncBatchNorm.
 */

/* Check that v has the count and two vectors of c channels, after `ndim` - 1 leading dimensions. */
static int check_sums(const struct gt_value *v, int ndim, int64_t c, struct gt_err *err)
{
	if (v->dtype != GT_F64 || v->ndim != ndim || v->shape[ndim - 1] != 1 + 2 * c)
		return gt_err_set(err, GT_EINVAL, "the sums are %s %s, float64 [%s%lld] wanted",
		    gt_dtype_name(v->dtype), gt_shape_text(v).s, ndim > 1 ? "R, " : "",
		    (long long)(1 + 2 * c));
	return 0;
}

/* Check that inputs `first` to `last` are vectors of the channels of x. */
static int check_channels(
    const struct gt_node *n, const struct gt_value *x, int first, int last, struct gt_err *err)
{
	for (int i = first; i <= last; i++)
		if (gt_infer_vector(n->in[i], "a vector of channels", gt_dtype_wide(x->dtype),
		        x->shape[1], err))
			return err->code;
	return 0;
}

static void print_relu(const struct gt_node *n, FILE *f)
{
	fputs(n->attrs.norm.relu ? " relu" : "", f);
}

static double four_flops(const struct gt_node *n)
{
	return 4.0 * (double)gt_value_elements(n->in[0]);
}

/* Return 4 operations per element, or 5 if the node adds input 5: a residual or a part of dy. */
static double four_or_five_flops(const struct gt_node *n)
{
	return (n->in[5] ? 5.0 : 4.0) * (double)gt_value_elements(n->in[0]);
}

static int moments_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, (int64_t[]){ 1 + 2 * x->shape[1] });
	return 0;
}

const struct gt_op gt_op_batch_norm_moments = {
	.name = "batch_norm_moments",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = moments_infer,
	.flops = four_flops,
	.image_in = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};

static int combine_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *mean = n->in[0];

	if (gt_infer_float(mean, "the running mean", 1, err) ||
	    gt_infer_vector(n->in[1], "the running variance", mean->dtype, mean->shape[0], err))
		return err->code;
	if (n->in[2]->dtype != GT_I64 || n->in[2]->ndim != 0)
		return gt_err_set(err, GT_EINVAL, "num_batches_tracked is not an int64 scalar");
	gt_infer_like(n->out[0], mean);
	gt_infer_like(n->out[1], mean);
	return check_sums(n->in[3], 2, mean->shape[0], err);
}

const struct gt_op gt_op_batch_norm_combine = {
	.name = "batch_norm_combine",
	.min_inputs = 4,
	.max_inputs = 4,
	.outputs = 2,
	.infer = combine_infer,
	.writes = 1u << 0 | 1u << 1 | 1u << 2,
};

static int apply_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err) || check_channels(n, x, 1, 4, err) ||
	    (n->in[5] && gt_infer_same(x, n->in[5], "the residual", err)))
		return err->code;
	gt_infer_like(n->out[0], x);
	return 0;
}

const struct gt_op gt_op_batch_norm_apply = {
	.name = "batch_norm_apply",
	.min_inputs = 5,
	.max_inputs = 6,
	.outputs = 1,
	.infer = apply_infer,
	.print = print_relu,
	.flops = four_or_five_flops,
	.inplace = 1u << 5,
	.image_in = 1u << 0 | 1u << 5,
	.image_out = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};

static int grad_sums_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[1];

	if (gt_infer_same(x, n->in[0], "the gradient", err) || check_channels(n, x, 2, 3, err) ||
	    (n->in[5] && gt_infer_same(x, n->in[5], "the gradient to add", err)))
		return err->code;
	if (n->in[5] && !n->in[4])
		return gt_err_set(err, GT_EINVAL, "a gradient to add, and no result of relu");
	gt_infer_shape(n->out[0], GT_F64, 1, (int64_t[]){ 1 + 2 * x->shape[1] });
	gt_infer_like(n->out[1], n->in[2]);
	gt_infer_like(n->out[2], n->in[2]);
	if (n->in[4])
		gt_infer_like(n->out[3], n->in[0]);
	else
		n->out[3] = NULL;
	return 0;
}

const struct gt_op gt_op_batch_norm_grad_sums = {
	.name = "batch_norm_grad_sums",
	.min_inputs = 4,
	.max_inputs = 6,
	.outputs = 4,
	.infer = grad_sums_infer,
	.print = print_relu,
	.flops = four_or_five_flops,
	.inplace_last = 1u << 0 | 1u << 5,
	.image_in = 1u << 0 | 1u << 1 | 1u << 4 | 1u << 5,
	.image_out = 1u << 3,
	.autocast = GT_AUTOCAST_KEEP,
};

static int grad_apply_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[1];

	if (gt_infer_same(x, n->in[0], "the gradient", err) || check_channels(n, x, 2, 4, err))
		return err->code;
	gt_infer_like(n->out[0], x);
	return check_sums(n->in[5], 1, x->shape[1], err);
}

const struct gt_op gt_op_batch_norm_grad_apply = {
	.name = "batch_norm_grad_apply",
	.min_inputs = 6,
	.max_inputs = 7,
	.outputs = 1,
	.infer = grad_apply_infer,
	.print = print_relu,
	.flops = four_flops,
	.inplace = 1u << 0 | 1u << 1,
	.image_in = 1u << 0 | 1u << 1 | 1u << 6,
	.image_out = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};
