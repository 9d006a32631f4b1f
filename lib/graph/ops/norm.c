/* norm.c - layer and batch normalisation. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* ---- layer norm ---- */

static int layer_norm_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	enum gt_dtype wide = gt_dtype_wide(x->dtype);
	int64_t rows, width;

	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	rows = gt_value_rows(x);
	width = gt_value_last(x);
	gt_infer_like(n->out[0], x);
	if (n->attrs.norm.low != GT_F32)
		n->out[0]->dtype = n->attrs.norm.low;
	gt_infer_shape(n->out[1], wide, 1, &rows);
	gt_infer_shape(n->out[2], wide, 1, &rows);
	if (gt_infer_vector(n->in[1], "the weight", wide, width, err))
		return err->code;
	return gt_infer_vector(n->in[2], "the bias", wide, width, err);
}

static void layer_norm_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->out[1], n->out[2], NULL,
		n->in[2] };
	struct gt_node *grad = gt_emit(g, &gt_op_layer_norm_grad, &n->attrs, 7, in);

	for (int i = 0; grad && i < 3; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
}

static double norm_flops(const struct gt_node *n)
{
	return 8.0 * (double)gt_value_elements(n->out[0]);
}

/*
 * layer_norm: normalize each row over the last dimension C.
 *   in   x F [..., C];  weight W [C];  bias W [C], optional
 *   out  y [..., C] of the type F, or of the type attrs.norm.low if attrs.norm.low is a 16-bit
 *        type;  mean W [rows];  rstd W [rows] = 1 / sqrt(biased variance + eps)
 *   y = (x - mean) * rstd * weight + bias
 * layer_norm_grad:
 *   in   dy like y;  x, weight, mean, rstd;  acc like x, optional (0);  bias, optional: its values
 *        are not read, but without bias there is no dbias
 *   out  dx = acc + the gradient, may overwrite acc;  dweight W [C];  dbias W [C] (missing without
 *        bias)
 */
const struct gt_op gt_op_layer_norm = {
	.name = "layer_norm",
	.min_inputs = 2,
	.max_inputs = 3,
	.outputs = 3,
	.infer = layer_norm_infer,
	.grad = layer_norm_grad,
	.flops = norm_flops,
	.row_inputs = 1,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_layer_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, double eps)
{
	union gt_attrs attrs = { 0 };

	attrs.norm.eps = eps;
	return gt_emit1(g, &gt_op_layer_norm, &attrs, 3, (struct gt_value *[]){ x, weight, bias });
}

/* Infer outputs 0 to 2 of layer_norm_grad and add_layer_norm_grad. `what` is the normalized value:
 * x, or a sum. */
static int infer_norm_grad(struct gt_node *n, const char *to_add, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0], *what = n->in[1], *weight = n->in[2];
	struct gt_value like = *what;

	if (gt_dtype_wide(dy->dtype) == what->dtype)
		like.dtype = dy->dtype;
	if (gt_infer_same(&like, dy, "the gradient", err) ||
	    (n->in[5] && gt_infer_same(what, n->in[5], to_add, err)))
		return err->code;
	gt_infer_like(n->out[0], what);
	gt_infer_like(n->out[1], weight);
	if (n->in[6])
		gt_infer_like(n->out[2], weight);
	else
		n->out[2] = NULL;
	return 0;
}

static int layer_norm_grad_infer(struct gt_node *n, struct gt_err *err)
{
	return infer_norm_grad(n, "the gradient to add", err);
}

const struct gt_op gt_op_layer_norm_grad = {
	.name = "layer_norm_grad",
	.min_inputs = 5,
	.max_inputs = 7,
	.outputs = 3,
	.infer = layer_norm_grad_infer,
	.flops = norm_flops,
	.inplace = 1u << 5,
	.autocast = GT_AUTOCAST_KEEP,
};

/* ---- layer norm of a sum ---- */

static int add_layer_norm_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *residual = n->in[1];
	enum gt_dtype wide = gt_dtype_wide(x->dtype);
	struct gt_value like = *x;
	int64_t rows, width;

	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	like.dtype = residual->dtype == wide ? wide : x->dtype;
	if (gt_infer_same(&like, residual, "the residual", err))
		return err->code;
	rows = gt_value_rows(x);
	width = gt_value_last(x);
	gt_infer_like(n->out[0], x);
	gt_infer_like(n->out[1], residual);
	gt_infer_shape(n->out[2], wide, 1, &rows);
	gt_infer_shape(n->out[3], wide, 1, &rows);
	if (gt_infer_vector(n->in[2], "the weight", wide, width, err))
		return err->code;
	return gt_infer_vector(n->in[3], "the bias", wide, width, err);
}

/* If no node reads y, the gradient of the sum is the gradient of both addends. */
static void pass_sum_gradient(struct gt_graph *g, struct gt_node *n, struct gt_value *d_sum,
    const bool *wanted, struct gt_value **d_in)
{
	d_in[0] = wanted[0] ? gt_cast_to(g, d_sum, n->in[0]->dtype) : NULL;
	d_in[1] = wanted[1] ? d_sum : NULL;
	for (int i = 2; i < 4; i++)
		if (wanted[i])
			d_in[i] = gt_fill(g, n->in[i]->dtype, 1, n->in[i]->shape, 0);
}

static void add_layer_norm_grad(struct gt_graph *g, struct gt_node *n,
    struct gt_value *const *d_out, const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->out[1], n->in[2], n->out[2], n->out[3], d_out[1],
		n->in[3] };
	struct gt_node *grad;

	if (!d_out[0]) {
		pass_sum_gradient(g, n, d_out[1], wanted, d_in);
		return;
	}
	grad = gt_emit(g, &gt_op_add_layer_norm_grad, &n->attrs, 7, in);
	if (!grad)
		return;
	d_in[0] = wanted[0] ? grad->out[grad->out[3] ? 3 : 0] : NULL;
	for (int i = 1; i < 4; i++)
		d_in[i] = wanted[i] ? grad->out[i - 1] : NULL;
}

static double add_norm_flops(const struct gt_node *n)
{
	return 9.0 * (double)gt_value_elements(n->out[0]);
}

/*
 * add_layer_norm: add, then layer_norm, in one pass over memory. A fusion pass emits this op.
 *   in   x F [..., C];  residual F or W, with the shape of x;  weight W [C];  bias W [C], optional
 *   out  y F like x;  sum like residual = x + residual;  mean, rstd W [rows], of the sum
 *   y = (sum - mean) * rstd * weight + bias; may overwrite x
 * add_layer_norm_grad:
 *   in   dy, sum, weight, mean, rstd;  dsum like sum, optional (0);  bias, optional: its values are
 *        not read
 *   out  d like sum, the gradient of x and of residual, may overwrite dsum;  dweight W [C];
 *        dbias W [C] (missing without bias);  a copy of d in the type of dy (missing if sum has
 *        this type)
 */
const struct gt_op gt_op_add_layer_norm = {
	.name = "add_layer_norm",
	.min_inputs = 3,
	.max_inputs = 4,
	.outputs = 4,
	.infer = add_layer_norm_infer,
	.grad = add_layer_norm_grad,
	.flops = add_norm_flops,
	.inplace = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};

static int add_layer_norm_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (infer_norm_grad(n, "the gradient of the sum", err))
		return err->code;
	if (n->in[0]->dtype != n->in[1]->dtype)
		gt_infer_like(n->out[3], n->in[0]);
	else
		n->out[3] = NULL;
	return 0;
}

const struct gt_op gt_op_add_layer_norm_grad = {
	.name = "add_layer_norm_grad",
	.min_inputs = 5,
	.max_inputs = 7,
	.outputs = 4,
	.infer = add_layer_norm_grad_infer,
	.flops = add_norm_flops,
	.inplace = 1u << 5,
	.autocast = GT_AUTOCAST_KEEP,
};

/* ---- batch norm ---- */

/* Check that inputs 1 to `last` are vectors of the input's channels. */
static int channel_vectors(
    const struct gt_node *n, const struct gt_value *x, int last, struct gt_err *err)
{
	for (int i = 1; i <= last; i++)
		if (gt_infer_vector(n->in[i], "a vector of channels", gt_dtype_wide(x->dtype),
		        x->shape[1], err))
			return err->code;
	return 0;
}

static int batch_norm_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err) || channel_vectors(n, x, 4, err) ||
	    (n->in[6] && gt_infer_same(x, n->in[6], "the residual", err)))
		return err->code;
	if (n->in[5]->dtype != GT_I64 || n->in[5]->ndim != 0)
		return gt_err_set(err, GT_EINVAL, "num_batches_tracked is not an int64 scalar");
	gt_infer_like(n->out[0], x);
	gt_infer_shape(n->out[1], gt_dtype_wide(x->dtype), 1, &x->shape[1]);
	gt_infer_shape(n->out[2], gt_dtype_wide(x->dtype), 1, &x->shape[1]);
	return 0;
}

static void batch_norm_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->out[1], n->out[2],
		n->attrs.norm.relu ? n->out[0] : NULL };
	struct gt_node *grad = gt_emit(g, &gt_op_batch_norm_grad, &n->attrs, 6, in);

	if (!grad)
		return;
	for (int i = 0; i < 3; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
	/* The gradient of the residual is that of the sum. Without relu it is dy. */
	if (wanted[6])
		d_in[6] = grad->out[3] ? grad->out[3] : d_out[0];
	else
		grad->out[3] = NULL;
}

/* Repeat the node with the statistics that it has computed, which are not updated again. */
static struct gt_node *batch_norm_repeat(struct gt_graph *g, const struct gt_node *n)
{
	struct gt_value *in[] = { n->in[0], n->in[1], n->in[2], n->out[1], n->out[2], n->in[6] };

	return gt_emit(g, &gt_op_batch_norm_apply, &n->attrs, 6, in);
}

/* Input 6 is an addend: the residual of batch_norm, or `more` of batch_norm_grad. */
static double batch_norm_flops(const struct gt_node *n)
{
	return n->in[6] ? add_norm_flops(n) : norm_flops(n);
}

static void norm_print(const struct gt_node *n, FILE *f)
{
	fputs(n->attrs.norm.relu ? " relu" : "", f);
}

/*
 * batch_norm: normalize each channel over B, H and W with the statistics of this batch, and update
 * the running statistics.
 *   in   x F [B, C, H, W];  weight, bias W [C];  running_mean, running_var W [C];
 *        num_batches_tracked I64 [];  residual like x, optional (0)
 *   out  y like x, may overwrite residual;  mean W [C];
 *        rstd W [C] = 1 / sqrt(biased variance + eps)
 *   y = (x - mean) * rstd * weight + bias + residual. After that, max(0, .) is applied if
 *   attrs.norm.relu is set. A fusion pass sets this attribute and the residual.
 *   running = (1 - momentum) * running + momentum * batch, for the mean and for the variance. Here
 *   the variance of the batch is unbiased: divided by n - 1, with n = B * H * W.
 *   num_batches_tracked += 1
 * batch_norm_grad:
 *   in   dy, x, weight, mean, rstd;
 *        y, optional, present if attrs.norm.relu is set: where y <= 0, dy counts as 0;
 *        more like dy, optional, allowed only if the node has the output dresidual: a second
 *        gradient of y; wherever the formulas have dy, the op uses dy + more, rounded to F
 *   out  dx, may overwrite dy, x or more;  dweight W [C];  dbias W [C];
 *        dresidual like x, optional: dy where y > 0, else 0 (missing without y); may overwrite dy
 *        or more
 * Source: Ioffe and Szegedy, ICML 2015; torch.nn.BatchNorm2d for the running statistics.
 */
const struct gt_op gt_op_batch_norm = {
	.name = "batch_norm",
	.min_inputs = 6,
	.max_inputs = 7,
	.outputs = 3,
	.infer = batch_norm_infer,
	.print = norm_print,
	.grad = batch_norm_grad,
	.flops = batch_norm_flops,
	.inplace = 1u << 6,
	.writes = 1u << 3 | 1u << 4 | 1u << 5,
	.repeat = batch_norm_repeat,
	.image_in = 1u << 0 | 1u << 6,
	.image_out = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_batch_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var,
    struct gt_value *num_batches_tracked, double eps, double momentum)
{
	struct gt_value *in[] = { x, weight, bias, running_mean, running_var, num_batches_tracked };
	union gt_attrs attrs = { 0 };

	attrs.norm.eps = eps;
	attrs.norm.momentum = momentum;
	return gt_emit1(g, &gt_op_batch_norm, &attrs, 6, in);
}

static int batch_norm_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_same(n->in[1], n->in[0], "the gradient", err) ||
	    (n->in[6] && gt_infer_same(n->in[0], n->in[6], "the gradient to add", err)))
		return err->code;
	if (n->in[6] && !n->in[5])
		return gt_err_set(err, GT_EINVAL, "a gradient to add, and no result of relu");
	gt_infer_like(n->out[0], n->in[1]);
	gt_infer_like(n->out[1], n->in[2]);
	gt_infer_like(n->out[2], n->in[2]);
	if (n->in[5])
		gt_infer_like(n->out[3], n->in[0]);
	else
		n->out[3] = NULL;
	return 0;
}

const struct gt_op gt_op_batch_norm_grad = {
	.name = "batch_norm_grad",
	.min_inputs = 5,
	.max_inputs = 7,
	.outputs = 4,
	.infer = batch_norm_grad_infer,
	.print = norm_print,
	.flops = batch_norm_flops,
	.inplace = 1u << 0 | 1u << 1 | 1u << 6,
	.inplace_last = 1u << 0 | 1u << 6,
	.image_in = 1u << 0 | 1u << 1 | 1u << 5 | 1u << 6,
	.image_out = 1u << 0 | 1u << 3,
	.autocast = GT_AUTOCAST_KEEP,
};

static int batch_norm_eval_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err) || channel_vectors(n, x, 4, err))
		return err->code;
	gt_infer_like(n->out[0], x);
	return 0;
}

/* batch_norm_eval: batch_norm with the running statistics instead of the statistics of the batch;
 * no gradient.
 *   in   x, weight, bias, running_mean, running_var
 *   out  y, with attrs.norm.relu as in batch_norm; may overwrite x
 * batch_norm_fold: the weight and bias of one convolution that replaces a convolution and a
 * batch_norm_eval. A fusion pass of forward-only graphs emits this op.
 *   in   w F [O, C, k, k]; weight, bias, running_mean, running_var F [O]; conv_bias F [O], optional
 *   out  the new w: w * weight / sqrt(running_var + eps);  the new bias:
 *        bias + (conv_bias - running_mean) * weight / sqrt(running_var + eps) */
const struct gt_op gt_op_batch_norm_eval = {
	.name = "batch_norm_eval",
	.min_inputs = 5,
	.max_inputs = 5,
	.outputs = 1,
	.infer = batch_norm_eval_infer,
	.print = norm_print,
	.inplace = 1u << 0,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_batch_norm_eval(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var, double eps)
{
	struct gt_value *in[] = { x, weight, bias, running_mean, running_var };
	union gt_attrs attrs = { 0 };

	attrs.norm.eps = eps;
	return gt_emit1(g, &gt_op_batch_norm_eval, &attrs, 5, in);
}

static int batch_norm_fold_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *w = n->in[0];

	if (gt_infer_float(w, "the weight", 4, err))
		return err->code;
	for (int i = 1; i <= 5; i++)
		if (gt_infer_vector(n->in[i], "a vector of channels", w->dtype, w->shape[0], err))
			return err->code;
	gt_infer_like(n->out[0], w);
	gt_infer_shape(n->out[1], w->dtype, 1, w->shape);
	return 0;
}

const struct gt_op gt_op_batch_norm_fold = {
	.name = "batch_norm_fold",
	.min_inputs = 5,
	.max_inputs = 6,
	.outputs = 2,
	.infer = batch_norm_fold_infer,
};
