/* conv.c - two-dimensional convolution and its gradients. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* Check that the groups of x and of w have the same channels. */
static int check_groups(
    const struct gt_value *x, const struct gt_value *w, int groups, struct gt_err *err)
{
	char in_groups[32] = "";

	if (groups < 1 || w->shape[0] % groups != 0)
		return gt_err_set(
		    err, GT_EINVAL, "%d groups of %lld outputs", groups, (long long)w->shape[0]);
	if (w->shape[1] * groups == x->shape[1] && w->dtype == x->dtype)
		return 0;
	if (groups > 1)
		snprintf(in_groups, sizeof(in_groups), " in %d groups", groups);
	return gt_err_set(err, GT_EINVAL, "weight %s %s does not fit input %s %s%s",
	    gt_dtype_name(w->dtype), gt_shape_text(w).s, gt_dtype_name(x->dtype),
	    gt_shape_text(x).s, in_groups);
}

/* Take the kernel from the weight, and check the window. */
static int infer_kernel(struct gt_node *n, const struct gt_value *w, struct gt_err *err)
{
	if (gt_infer_float(w, "the weight", 4, err))
		return err->code;
	for (int i = 0; i < 2; i++)
		n->attrs.conv.window.kernel[i] = (int)w->shape[2 + i];
	return gt_infer_window(&n->attrs.conv.window, err);
}

static int conv2d_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *w = n->in[1];
	struct gt_value *y = n->out[0];

	if (gt_infer_float(x, "the input", 4, err) || infer_kernel(n, w, err) ||
	    check_groups(x, w, n->attrs.conv.groups, err))
		return err->code;
	n->attrs.conv.in_height = x->shape[2];
	n->attrs.conv.in_width = x->shape[3];
	gt_infer_like(y, x);
	y->shape[1] = w->shape[0];
	for (int i = 0; i < 2; i++)
		y->shape[2 + i] = gt_window_count(&n->attrs.conv.window, i, x->shape[2 + i]);
	if (gt_infer_vector(n->in[2], "the bias", x->dtype, w->shape[0], err))
		return err->code;
	return n->in[3] ? gt_infer_same(y, n->in[3], "the residual", err) : 0;
}

/* Each element of y takes C / groups * kh * kw multiply-adds, in all three ops. */
static double conv_flops(const struct gt_value *w, const struct gt_value *y)
{
	return 2.0 * (double)gt_value_elements(y) * (double)gt_value_elements(w) /
	       (double)w->shape[0];
}

static double conv2d_flops(const struct gt_node *n)
{
	return conv_flops(n->in[1], n->out[0]);
}

static void conv2d_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *x = n->in[0], *w = n->in[1], *dy = d_out[0];

	if (n->attrs.conv.relu || n->in[3]) {
		gt_graph_fail(g, GT_ENOTSUP, "a fused convolution has no gradient");
		return;
	}
	if (wanted[0])
		d_in[0] = gt_emit1(
		    g, &gt_op_conv2d_input_grad, &n->attrs, 2, (struct gt_value *[]){ dy, w });
	if (wanted[1])
		d_in[1] = gt_emit1(
		    g, &gt_op_conv2d_weight_grad, &n->attrs, 2, (struct gt_value *[]){ x, dy });
	if (wanted[2])
		d_in[2] = gt_bias_grad(g, dy);
}

static void conv_print(const struct gt_node *n, FILE *f)
{
	gt_infer_print_window(&n->attrs.conv.window, f);
	if (n->attrs.conv.groups > 1)
		fprintf(f, " groups=%d", n->attrs.conv.groups);
	fprintf(f, "%s%s%s", n->attrs.conv.relu ? " relu" : "",
	    n->attrs.conv.relaxed ? " relaxed" : "", n->attrs.conv.tf32 ? " tf32" : "");
}

/*
 * conv2d: cross-correlation, as torch.nn.functional.conv2d. Then bias and residual are added. After
 * that, max(0, .) is applied if attrs.conv.relu is set.
 *   in   x F [B, C, H, W];  w F [O, C / groups, kh, kw];  bias F [O], optional;
 *        residual F [B, O, H', W'], optional
 *   out  y F [B, O, H', W'], may overwrite residual;
 *        H' = (H + 2 * pad - dilation * (kh - 1) - 1) / stride + 1, rounded down, W' likewise;
 *        y[b, o, i, j] = sum over c < C / groups, u < kh, v < kw of w[o, c, u, v] times
 *        x[b, o / (O / groups) * (C / groups) + c, i * stride - pad + u * dilation, likewise j, v]
 * Only fusion passes of forward-only graphs set residual, attrs.conv.relu and attrs.conv.relaxed. A
 * node with a residual or with attrs.conv.relu has no gradient. If attrs.conv.relaxed is set, the
 * kernel may use an algorithm that rounds more often than a plain sum.
 * conv2d_input_grad:   in dy, w          out dx F [B, C, in_height, in_width]
 * conv2d_weight_grad:  in x, dy          out dw F [O, C / groups, kh, kw]
 * conv2d_input_grad is a transposed convolution of dy as well, and has a gradient for that.
 */
const struct gt_op gt_op_conv2d = {
	.name = "conv2d",
	.min_inputs = 2,
	.max_inputs = 4,
	.outputs = 1,
	.infer = conv2d_infer,
	.print = conv_print,
	.grad = conv2d_grad,
	.flops = conv2d_flops,
	.product = true,
	.inplace = 1u << 3,
	.image_in = 1u << 0 | 1u << 3,
	.image_out = 1u << 0,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_LOW,
};

struct gt_conv_form gt_conv_square(int stride, int pad)
{
	return (struct gt_conv_form){ .stride = { stride, stride }, .pad = { pad, pad } };
}

/* The attributes of a form. Inference adds the kernel. */
static union gt_attrs attrs_of_form(const struct gt_conv_form *form)
{
	union gt_attrs attrs = { 0 };
	struct gt_window *w = &attrs.conv.window;

	for (int i = 0; i < 2; i++) {
		w->stride[i] = form->stride[i] ? form->stride[i] : 1;
		w->pad[i] = form->pad[i];
		w->dilation[i] = form->dilation[i] ? form->dilation[i] : 1;
	}
	attrs.conv.groups = form->groups ? form->groups : 1;
	return attrs;
}

struct gt_value *gt_conv2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form)
{
	const union gt_attrs attrs = attrs_of_form(&form);

	return gt_emit1(g, &gt_op_conv2d, &attrs, 3, (struct gt_value *[]){ x, w, bias });
}

/* Check that dy is what the windows of such an input make. */
static int conv2d_input_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0], *w = n->in[1];
	const struct gt_window *f = &n->attrs.conv.window;
	int64_t height = n->attrs.conv.in_height, width = n->attrs.conv.in_width;
	int groups = n->attrs.conv.groups;

	if (gt_infer_float(dy, "the gradient", 4, err) || infer_kernel(n, w, err))
		return err->code;
	if (groups < 1 || w->shape[0] % groups != 0 || w->shape[0] != dy->shape[1] ||
	    w->dtype != dy->dtype)
		return gt_err_set(err, GT_EINVAL, "weight %s %s does not fit %s %s of %d groups",
		    gt_dtype_name(w->dtype), gt_shape_text(w).s, gt_dtype_name(dy->dtype),
		    gt_shape_text(dy).s, groups);
	if (gt_window_count(f, 0, height) != dy->shape[2] ||
	    gt_window_count(f, 1, width) != dy->shape[3])
		return gt_err_set(err, GT_EINVAL, "windows over %lld x %lld do not make %s",
		    (long long)height, (long long)width, gt_shape_text(dy).s);
	gt_infer_shape(n->out[0], dy->dtype, 4,
	    (int64_t[]){ dy->shape[0], w->shape[1] * groups, height, width });
	return 0;
}

/* Both tensors change their roles: the gradient of dx is the input of a convolution. */
static void conv2d_input_grad_grad(struct gt_graph *g, struct gt_node *n,
    struct gt_value *const *d_out, const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *dy = n->in[0], *w = n->in[1];

	if (wanted[0])
		d_in[0] =
		    gt_emit1(g, &gt_op_conv2d, &n->attrs, 2, (struct gt_value *[]){ d_out[0], w });
	if (wanted[1])
		d_in[1] = gt_emit1(g, &gt_op_conv2d_weight_grad, &n->attrs, 2,
		    (struct gt_value *[]){ d_out[0], dy });
}

static double conv2d_input_grad_flops(const struct gt_node *n)
{
	return conv_flops(n->in[1], n->in[0]);
}

const struct gt_op gt_op_conv2d_input_grad = {
	.name = "conv2d_input_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = conv2d_input_grad_infer,
	.print = conv_print,
	.grad = conv2d_input_grad_grad,
	.flops = conv2d_input_grad_flops,
	.product = true,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_LOW,
};

/* A depthwise convolution with kernels of a single 1 adds a number to each channel. */
static struct gt_value *add_to_channels(
    struct gt_graph *g, struct gt_value *y, struct gt_value *bias)
{
	int64_t channels = y->shape[1];
	struct gt_value *one = gt_fill(g, y->dtype, 4, (int64_t[]){ channels, 1, 1, 1 }, 1);

	return gt_conv2d(g, y, one, bias, (struct gt_conv_form){ .groups = (int)channels });
}

struct gt_value *gt_conv_transpose2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form)
{
	union gt_attrs attrs = attrs_of_form(&form);
	const struct gt_window *f = &attrs.conv.window;
	int64_t size[2] = { 0 };
	struct gt_value *y;

	for (int i = 0; i < 2 && x && w && x->ndim == 4 && w->ndim == 4; i++) {
		if (form.out_pad[i] < 0 || form.out_pad[i] >= f->stride[i])
			return gt_graph_fail(g, GT_ENOTSUP,
			    "an output padding of %d, not less than a stride of %d",
			    form.out_pad[i], f->stride[i]);
		size[i] = (x->shape[2 + i] - 1) * f->stride[i] - 2 * (int64_t)f->pad[i] +
		          (w->shape[2 + i] - 1) * f->dilation[i] + 1 + form.out_pad[i];
	}
	attrs.conv.in_height = size[0];
	attrs.conv.in_width = size[1];
	y = gt_emit1(g, &gt_op_conv2d_input_grad, &attrs, 2, (struct gt_value *[]){ x, w });
	return y && bias ? add_to_channels(g, y, bias) : y;
}

static int conv2d_weight_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *dy = n->in[1];
	const int *k = n->attrs.conv.window.kernel;

	if (gt_infer_float(x, "the input", 4, err) || gt_infer_float(dy, "the gradient", 4, err))
		return err->code;
	gt_infer_shape(n->out[0], x->dtype, 4,
	    (int64_t[]){ dy->shape[1], x->shape[1] / n->attrs.conv.groups, k[0], k[1] });
	return 0;
}

static double conv2d_weight_grad_flops(const struct gt_node *n)
{
	return conv_flops(n->out[0], n->in[1]);
}

const struct gt_op gt_op_conv2d_weight_grad = {
	.name = "conv2d_weight_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = conv2d_weight_grad_infer,
	.print = conv_print,
	.flops = conv2d_weight_grad_flops,
	.product = true,
	.image_in = 1u << 0 | 1u << 1,
};
