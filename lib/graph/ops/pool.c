/* pool.c - maximum and mean over windows. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/* Largest number of taps of a window of max_pool2d: the index of one is a byte. */
enum { MAX_POOL_TAPS = 256 };

/* Return the number of windows in dimension `dim`. The last window starts inside the image or the
 * padding before it. */
static int64_t pool_count(const struct gt_node *n, int dim, int64_t in)
{
	const struct gt_window *w = &n->attrs.pool.window;
	int64_t count;

	if (n->attrs.pool.parts[dim])
		return n->attrs.pool.parts[dim];
	if (!n->attrs.pool.ceil_mode)
		return gt_window_count(w, dim, in);
	count = gt_window_count(w, dim, in + w->stride[dim] - 1);
	return (count - 1) * w->stride[dim] >= in + w->pad[dim] ? count - 1 : count;
}

static int check_pool_window(const struct gt_node *n, struct gt_err *err)
{
	const struct gt_window *w = &n->attrs.pool.window;
	bool max = n->outputs > 1;

	if (gt_infer_window(w, err))
		return err->code;
	for (int i = 0; i < 2; i++) {
		int64_t span = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;

		if (w->pad[i] > span / 2)
			return gt_err_set(err, GT_EINVAL,
			    "a padding of %d is more than half of a window of %lld", w->pad[i],
			    (long long)span);
		if (!max && w->dilation[i] != 1)
			return gt_err_set(err, GT_EINVAL, "a mean of windows with dilation");
	}
	if (max && (int64_t)w->kernel[0] * w->kernel[1] > MAX_POOL_TAPS)
		return gt_err_set(err, GT_ENOTSUP, "a window of %d x %d, more than %d elements",
		    w->kernel[0], w->kernel[1], MAX_POOL_TAPS);
	return 0;
}

/* Return the number of taps of the largest of the windows that divide `in` rows or columns. */
static int largest_part(int parts, int64_t in)
{
	int64_t most = 1;

	for (int64_t i = 0; i < parts; i++) {
		int64_t taps = ((i + 1) * in + parts - 1) / parts - i * in / parts;

		most = taps > most ? taps : most;
	}
	return (int)most;
}

/* Windows that divide an image have no window of their own, but indices of taps count the taps of
 * the largest one. */
static void set_largest_window(struct gt_node *n, const struct gt_value *x)
{
	struct gt_window *w = &n->attrs.pool.window;

	for (int i = 0; i < 2; i++) {
		w->kernel[i] = largest_part(n->attrs.pool.parts[i], x->shape[2 + i]);
		w->stride[i] = w->dilation[i] = 1;
	}
}

static int pool_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	bool divided = n->attrs.pool.parts[0], max = n->outputs > 1;

	if (gt_infer_float(x, "the input", 4, err))
		return err->code;
	if (divided && max)
		set_largest_window(n, x);
	if ((!divided || max) && check_pool_window(n, err))
		return err->code;
	n->attrs.pool.in_height = x->shape[2];
	n->attrs.pool.in_width = x->shape[3];
	gt_infer_like(n->out[0], x);
	for (int i = 0; i < 2; i++)
		n->out[0]->shape[2 + i] = pool_count(n, i, x->shape[2 + i]);
	if (n->outputs > 1)
		gt_infer_shape(n->out[1], GT_U8, 4, n->out[0]->shape);
	return 0;
}

static int pool_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];

	if (gt_infer_float(dy, "the gradient", 4, err))
		return err->code;
	gt_infer_like(n->out[0], dy);
	n->out[0]->shape[2] = n->attrs.pool.in_height;
	n->out[0]->shape[3] = n->attrs.pool.in_width;
	return 0;
}

/* Windows that divide an image read each of its elements about once. */
static double pool_flops(const struct gt_node *n)
{
	const int *k = n->attrs.pool.window.kernel;

	if (n->attrs.pool.parts[0])
		return (double)gt_value_elements(n->in[0]);
	return (double)k[0] * k[1] * (double)gt_value_elements(n->out[0]);
}

struct gt_pool_form gt_pool_square(int kernel, int stride, int pad)
{
	return (struct gt_pool_form){
		.kernel = { kernel, kernel }, .stride = { stride, stride }, .pad = { pad, pad }
	};
}

static struct gt_value *emit_pool(
    struct gt_graph *g, const struct gt_op *op, struct gt_value *x, const struct gt_pool_form *form)
{
	union gt_attrs attrs = { 0 };
	struct gt_window *w = &attrs.pool.window;

	for (int i = 0; i < 2; i++) {
		w->kernel[i] = form->kernel[i];
		w->stride[i] = form->stride[i] ? form->stride[i] : form->kernel[i];
		w->pad[i] = form->pad[i];
		w->dilation[i] = form->dilation[i] ? form->dilation[i] : 1;
	}
	attrs.pool.ceil_mode = form->ceil_mode;
	attrs.pool.exclude_pad = form->exclude_pad;
	return gt_emit1(g, op, &attrs, 1, &x);
}

static void max_pool2d_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_max_pool2d_grad, &n->attrs, 2,
		    (struct gt_value *[]){ d_out[0], n->out[1] });
}

static void pool_print(const struct gt_node *n, FILE *f)
{
	const int *parts = n->attrs.pool.parts;

	if (parts[0]) {
		fprintf(f, " parts=%dx%d", parts[0], parts[1]);
		return;
	}
	gt_infer_print_pair("kernel", n->attrs.pool.window.kernel, f);
	gt_infer_print_window(&n->attrs.pool.window, f);
	fprintf(f, "%s%s", n->attrs.pool.ceil_mode ? " ceil_mode" : "",
	    n->attrs.pool.exclude_pad ? " exclude_pad" : "");
}

/*
 * max_pool2d: the largest element of each window of kh * kw elements, as in
 * torch.nn.functional.max_pool2d; kh, kw are attrs.pool.window.kernel. Padding counts as -inf. If
 * an element of a window is NaN, the result is NaN.
 *   in   x F [B, C, H, W]
 *   out  y F [B, C, H', W'];  index U8, with the shape of y: the index u * kw + v of the largest
 *        element in its window. If several elements are the largest, it is the index of the first
 *        one.
 * With attrs.pool.parts, windows are those of avg_pool2d below, and kh, kw are the largest ones.
 * H' and W' are as in conv2d. With attrs.pool.ceil_mode the division rounds up, but no window
 * begins in the padding at the end.
 * max_pool2d_grad:  in dy, index     out  dx
 *
 * avg_pool2d: the mean of each window. The zeros of the padding count as elements, places past the
 * padding do not. With attrs.pool.exclude_pad only elements of the image count.
 *   in   x F [B, C, H, W]     out  y F [B, C, H', W']
 * With attrs.pool.parts, window i of H' = parts[0] has the rows from i * H / H', rounded down, to
 * before (i + 1) * H / H', rounded up; columns likewise. Example: windows of 5 rows in 3 parts are
 * rows 0 and 1, rows 1 to 3, rows 3 and 4.
 * avg_pool2d_grad:  in dy   out  dx
 */
const struct gt_op gt_op_max_pool2d = {
	.name = "max_pool2d",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 2,
	.infer = pool_infer,
	.print = pool_print,
	.grad = max_pool2d_grad,
	.flops = pool_flops,
	.image_in = 1u << 0,
	.image_out = 1u << 0 | 1u << 1,
};

const struct gt_op gt_op_max_pool2d_grad = {
	.name = "max_pool2d_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = pool_grad_infer,
	.print = pool_print,
	.image_in = 1u << 0 | 1u << 1,
	.image_out = 1u << 0,
};

struct gt_value *gt_max_pool2d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form)
{
	return emit_pool(g, &gt_op_max_pool2d, x, &form);
}

static void avg_pool2d_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_avg_pool2d_grad, &n->attrs, 1, d_out);
}

const struct gt_op gt_op_avg_pool2d = {
	.name = "avg_pool2d",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = pool_infer,
	.print = pool_print,
	.grad = avg_pool2d_grad,
	.flops = pool_flops,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
};

const struct gt_op gt_op_avg_pool2d_grad = {
	.name = "avg_pool2d_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = pool_grad_infer,
	.print = pool_print,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
};

struct gt_value *gt_avg_pool2d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form)
{
	return emit_pool(g, &gt_op_avg_pool2d, x, &form);
}

/* Pool over windows that divide the image. Those of equal size are plain ones. */
static struct gt_value *pool_parts(
    struct gt_graph *g, const struct gt_op *op, struct gt_value *x, int height, int width)
{
	union gt_attrs attrs = { 0 };

	if (height < 1 || width < 1)
		return gt_graph_fail(
		    g, GT_EINVAL, "an image divided into %d x %d windows", height, width);
	if (x && x->ndim == 4 && x->shape[2] % height == 0 && x->shape[3] % width == 0)
		return emit_pool(g, op, x,
		    &(struct gt_pool_form){
		        .kernel = { (int)(x->shape[2] / height), (int)(x->shape[3] / width) } });
	attrs.pool.parts[0] = height;
	attrs.pool.parts[1] = width;
	return gt_emit1(g, op, &attrs, 1, &x);
}

struct gt_value *gt_adaptive_avg_pool2d(
    struct gt_graph *g, struct gt_value *x, int height, int width)
{
	return pool_parts(g, &gt_op_avg_pool2d, x, height, width);
}

/* A window of more taps than an index can count is a row of windows of one row each, then a column
 * of their maxima. The first of equal maxima remains the first. */
struct gt_value *gt_adaptive_max_pool2d(
    struct gt_graph *g, struct gt_value *x, int height, int width)
{
	if (x && x->ndim == 4 && height > 0 && width > 0 && x->shape[2] <= INT32_MAX &&
	    (int64_t)largest_part(height, x->shape[2]) * largest_part(width, x->shape[3]) >
	        MAX_POOL_TAPS)
		x = pool_parts(g, &gt_op_max_pool2d, x, (int)x->shape[2], width);
	return pool_parts(g, &gt_op_max_pool2d, x, height, width);
}
