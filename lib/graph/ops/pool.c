/* pool.c - maximum and mean over windows. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/* The largest window of max_pool2d: an index within it fits a byte. */
enum { MAX_POOL_WINDOW = 15 };

static int pool_infer(struct gt_node *n, struct gt_err *err)
{
	int kernel = n->attrs.pool.kernel, stride = n->attrs.pool.stride, pad = n->attrs.pool.pad;
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err))
		return err->code;
	if (kernel < 1 || stride < 1 || pad < 0 || pad > kernel / 2)
		return gt_err_set(
		    err, GT_EINVAL, "window %d, stride %d, padding %d", kernel, stride, pad);
	if (n->outputs > 1 && kernel > MAX_POOL_WINDOW)
		return gt_err_set(
		    err, GT_ENOTSUP, "a window of %d, more than %d", kernel, MAX_POOL_WINDOW);
	n->attrs.pool.in_height = x->shape[2];
	n->attrs.pool.in_width = x->shape[3];
	gt_infer_like(n->out[0], x);
	for (int i = 2; i < 4; i++) {
		int64_t span = x->shape[i] + 2 * pad - kernel;

		n->out[0]->shape[i] = span < 0 ? 0 : span / stride + 1;
	}
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

static double pool_flops(const struct gt_node *n)
{
	int k = n->attrs.pool.kernel;

	return (double)k * k * (double)gt_value_elements(n->out[0]);
}

static struct gt_value *pool(
    struct gt_graph *g, const struct gt_op *op, struct gt_value *x, int kernel, int stride, int pad)
{
	union gt_attrs attrs = { 0 };

	attrs.pool.kernel = kernel;
	attrs.pool.stride = stride;
	attrs.pool.pad = pad;
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
	fprintf(f, " kernel=%d stride=%d pad=%d", n->attrs.pool.kernel, n->attrs.pool.stride,
	    n->attrs.pool.pad);
}

/*
 * max_pool2d: the largest element of each window of k * k elements, as in
 * torch.nn.functional.max_pool2d; k is attrs.pool.kernel. Padding counts as -inf. If an element of
 * a window is NaN, the result is NaN.
 *   in   x F [B, C, H, W]
 *   out  y F [B, C, H', W'], H' and W' as in conv2d;  index U8, with the shape of y: the index of
 *        the largest element in its window. If several elements are the largest, it is the index of
 *        the first one.
 * max_pool2d_grad:  in dy, index     out  dx
 * avg_pool2d: the mean of each window, including the zeros of the padding (PyTorch's
 * count_include_pad).
 *   in   x F [B, C, H, W]     out  y F [B, C, H', W']
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

struct gt_value *gt_max_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad)
{
	return pool(g, &gt_op_max_pool2d, x, kernel, stride, pad);
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

struct gt_value *gt_avg_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad)
{
	return pool(g, &gt_op_avg_pool2d, x, kernel, stride, pad);
}
