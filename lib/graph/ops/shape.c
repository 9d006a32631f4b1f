/* shape.c - the same numbers elsewhere: views, layouts, subsampling, images to floats. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int reshape_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	struct gt_value *y = n->out[0];

	gt_infer_shape(y, x->dtype, n->attrs.reshape.ndim, n->attrs.reshape.shape);
	if (gt_value_elements(y) != gt_value_elements(x))
		return gt_err_set(err, GT_EINVAL, "%s does not become %s", gt_shape_text(x).s,
		    gt_shape_text(y).s);
	return 0;
}

static void reshape_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_reshape(g, d_out[0], n->in[0]->ndim, n->in[0]->shape);
}

/* reshape: a view (gt_op.view) of x: the same elements in row-major order, with another shape.
 * reorder: copy x to the layout `to` (lib/device/layout.h); the shape does not change. */
const struct gt_op gt_op_reshape = {
	.name = "reshape",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = reshape_infer,
	.grad = reshape_grad,
	.view = true,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_reshape(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape)
{
	union gt_attrs attrs = { 0 };

	if (ndim > GT_MAX_DIMS)
		return gt_graph_fail(g, GT_ENOTSUP, "a view of %d dimensions", ndim);
	attrs.reshape.ndim = ndim;
	for (int i = 0; i < ndim; i++)
		attrs.reshape.shape[i] = shape[i];
	return gt_emit1(g, &gt_op_reshape, &attrs, 1, &x);
}

struct gt_value *gt_value_viewed(struct gt_value *v)
{
	while (v->producer && v->producer->op == &gt_op_reshape && v->role == GT_TEMPORARY)
		v = v->producer->in[0];
	return v;
}

static int view_bytes_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	struct gt_value *y = n->out[0];

	gt_infer_shape(y, n->attrs.reshape.dtype, n->attrs.reshape.ndim, n->attrs.reshape.shape);
	if (gt_value_bytes(y) != gt_value_bytes(x))
		return gt_err_set(err, GT_EINVAL, "%s %s does not become %s %s",
		    gt_dtype_name(x->dtype), gt_shape_text(x).s, gt_dtype_name(y->dtype),
		    gt_shape_text(y).s);
	return 0;
}

/* view_bytes: a view (gt_op.view) of x: the same bytes as elements of the type attrs.reshape.dtype,
 * with another shape. It has no gradient. */
const struct gt_op gt_op_view_bytes = {
	.name = "view_bytes",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = view_bytes_infer,
	.view = true,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_view_bytes(
    struct gt_graph *g, struct gt_value *x, enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	union gt_attrs attrs = { 0 };

	if (ndim > GT_MAX_DIMS)
		return gt_graph_fail(g, GT_ENOTSUP, "a view of %d dimensions", ndim);
	attrs.reshape.dtype = dtype;
	attrs.reshape.ndim = ndim;
	for (int i = 0; i < ndim; i++)
		attrs.reshape.shape[i] = shape[i];
	return gt_emit1(g, &gt_op_view_bytes, &attrs, 1, &x);
}

static int reorder_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_float(n->in[0], "the input", 4, err))
		return err->code;
	gt_infer_like(n->out[0], n->in[0]);
	n->out[0]->layout = n->attrs.reorder.to;
	return 0;
}

static void reorder_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_reorder(g, d_out[0], n->in[0]->layout);
}

const struct gt_op gt_op_reorder = {
	.name = "reorder",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = reorder_infer,
	.grad = reorder_grad,
};

struct gt_value *gt_reorder(struct gt_graph *g, struct gt_value *x, enum gt_layout to)
{
	union gt_attrs attrs = { 0 };

	attrs.reorder.to = to;
	return gt_emit1(g, &gt_op_reorder, &attrs, 1, &x);
}

static int subsample_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	int stride = n->attrs.subsample.stride;
	struct gt_value *y = n->out[0];

	if (gt_infer_float(x, "the input", 4, err))
		return err->code;
	if (stride < 1)
		return gt_err_set(err, GT_EINVAL, "stride %d", stride);
	n->attrs.subsample.in_height = x->shape[2];
	n->attrs.subsample.in_width = x->shape[3];
	gt_infer_like(y, x);
	y->shape[1] += n->attrs.subsample.front + n->attrs.subsample.back;
	y->shape[2] = (x->shape[2] + stride - 1) / stride;
	y->shape[3] = (x->shape[3] + stride - 1) / stride;
	return 0;
}

static void subsample_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_subsample_grad, &n->attrs, 1, d_out);
}

static void subsample_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " stride=%d front=%lld back=%lld", n->attrs.subsample.stride,
	    (long long)n->attrs.subsample.front, (long long)n->attrs.subsample.back);
}

/*
 * subsample: keep every stride-th row and column of the image. Then add channels of zeros: `front`
 * channels before those of x, and `back` channels after them. This is the parameter-free "option A"
 * shortcut of He et al., CVPR 2016.
 *   in   x F [B, C, H, W]     out  y F [B, front + C + back, ceil(H / stride), ceil(W / stride)]
 * subsample_grad:  in dy     out  dx F [B, C, in_height, in_width], zero for pixels that were not
 * kept
 */
const struct gt_op gt_op_subsample = {
	.name = "subsample",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = subsample_infer,
	.print = subsample_print,
	.grad = subsample_grad,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
};

struct gt_value *gt_subsample(
    struct gt_graph *g, struct gt_value *x, int stride, int64_t front, int64_t back)
{
	union gt_attrs attrs = { 0 };

	attrs.subsample.stride = stride;
	attrs.subsample.front = front;
	attrs.subsample.back = back;
	return gt_emit1(g, &gt_op_subsample, &attrs, 1, &x);
}

static int subsample_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];
	struct gt_value *dx = n->out[0];

	if (gt_infer_float(dy, "the gradient", 4, err))
		return err->code;
	gt_infer_like(dx, dy);
	dx->shape[1] -= n->attrs.subsample.front + n->attrs.subsample.back;
	dx->shape[2] = n->attrs.subsample.in_height;
	dx->shape[3] = n->attrs.subsample.in_width;
	return 0;
}

const struct gt_op gt_op_subsample_grad = {
	.name = "subsample_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = subsample_grad_infer,
	.print = subsample_print,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
};

static int last_position_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *at = n->in[1];

	if (gt_infer_float(x, "the input", 3, err))
		return err->code;
	if (at && (at->dtype != GT_I32 || at->ndim != 1 || at->shape[0] != x->shape[0]))
		return gt_err_set(err, GT_EINVAL,
		    "positions are int32 [%lld], one for each sequence", (long long)x->shape[0]);
	gt_infer_shape(n->out[0], x->dtype, 2, (int64_t[]){ x->shape[0], x->shape[2] });
	return 0;
}

/* last_position: y[b] = x[b, at[b]], or x[b, T - 1] without `at`. at[b] is the index of the last
 * token of sequence b. An index below 0 counts as 0, an index above T - 1 as T - 1. The op has no
 * gradient.
 *   in   x F [B, T, C];  at I32 [B], optional     out  y F [B, C] */
const struct gt_op gt_op_last_position = {
	.name = "last_position",
	.min_inputs = 1,
	.max_inputs = 2,
	.outputs = 1,
	.infer = last_position_infer,
};

struct gt_value *gt_last_position(struct gt_graph *g, struct gt_value *x, struct gt_value *at)
{
	return gt_emit1(g, &gt_op_last_position, NULL, 2, (struct gt_value *[]){ x, at });
}

static int image_normalize_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if ((x->dtype != GT_U8 && x->dtype != GT_F32) || x->ndim != 4 ||
	    x->shape[3] > GT_MAX_CHANNELS)
		return gt_err_set(err, GT_EINVAL,
		    "images are uint8 or float32 [B, H, W, C] of at most %d channels",
		    GT_MAX_CHANNELS);
	gt_infer_shape(n->out[0], GT_F32, 4,
	    (int64_t[]){ x->shape[0], x->shape[3], x->shape[1], x->shape[2] });
	return 0;
}

/* image_normalize: y = (x / 255 - mean[c]) / std[c] for channel c.
 *   in   x U8 or F32 [B, H, W, C] (always row-major)     out  y F32 [B, C, H, W] */
const struct gt_op gt_op_image_normalize = {
	.name = "image_normalize",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = image_normalize_infer,
	.image_out = 1u << 0,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_image_normalize(
    struct gt_graph *g, struct gt_value *x, const float *mean, const float *std)
{
	union gt_attrs attrs = { 0 };

	for (int64_t i = 0; x && i < x->shape[3] && i < GT_MAX_CHANNELS; i++) {
		attrs.normalize.mean[i] = mean[i];
		attrs.normalize.std[i] = std[i];
	}
	return gt_emit1(g, &gt_op_image_normalize, &attrs, 1, &x);
}
