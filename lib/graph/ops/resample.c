/* resample.c - images of another size. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int resample_infer(struct gt_node *n, struct gt_err *err)
{
	const int most = 1 << 20; /* kernels multiply places in float32 */
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", 4, err))
		return err->code;
	n->attrs.resample.in_height = x->shape[2];
	n->attrs.resample.in_width = x->shape[3];
	gt_infer_like(n->out[0], x);
	for (int i = 0; i < 2; i++) {
		float scale = n->attrs.resample.scale[i];
		int size = n->attrs.resample.size[i];

		if (size < 1 || size > most || x->shape[2 + i] < 1 || x->shape[2 + i] > most ||
		    !(scale >= 0 && scale <= (float)most))
			return gt_err_set(err, GT_EINVAL, "%d pixels, %g apart, of %lld", size,
			    (double)scale, (long long)x->shape[2 + i]);
		n->out[0]->shape[2 + i] = size;
	}
	return 0;
}

static int resample_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];

	if (gt_infer_float(dy, "the gradient", 4, err))
		return err->code;
	gt_infer_like(n->out[0], dy);
	n->out[0]->shape[2] = n->attrs.resample.in_height;
	n->out[0]->shape[3] = n->attrs.resample.in_width;
	return 0;
}

static void resample_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_resample_grad, &n->attrs, 1, d_out);
}

/* Two products and two sums of each dimension, if it is linear. */
static double resample_flops(const struct gt_node *n)
{
	const struct gt_value *y = n->op == &gt_op_resample ? n->out[0] : n->in[0];

	return (n->attrs.resample.linear ? 8.0 : 1.0) * (double)gt_value_elements(y);
}

static void resample_print(const struct gt_node *n, FILE *f)
{
	gt_infer_print_pair("size", n->attrs.resample.size, f);
	fprintf(f, "%s%s", n->attrs.resample.linear ? " linear" : "",
	    n->attrs.resample.align ? " align_corners" : "");
}

/*
 * resample: images of another size. In the following, H and H' are the height of the input and of
 * the result, S is attrs.resample.scale[0], and columns are treated as rows are.
 *   in   x F [B, C, H, W]
 *   out  y F [B, C, H', W'], with H', W' = attrs.resample.size
 * Row i of y is row min(floor(S * i), H - 1) of x, with the product in float32. If
 * attrs.resample.linear is set, it lies between two rows of x:
 *   y[i] = (1 - f) * x[r] + f * x[min(r + 1, H - 1)], r = min(floor(s), H - 1), f = min(s - r, 1)
 *   s = S * i if attrs.resample.align is set, else max(0, S * (i + 1/2) - 1/2)
 * resample_grad:  in dy   out  dx F [B, C, in_height, in_width]. Each of its elements is the sum of
 *        its shares of dy, added in the order of (H', W').
 */
const struct gt_op gt_op_resample = {
	.name = "resample",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = resample_infer,
	.print = resample_print,
	.grad = resample_grad,
	.flops = resample_flops,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
	.shard = &gt_shard_whole,
};

const struct gt_op gt_op_resample_grad = {
	.name = "resample_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = resample_grad_infer,
	.print = resample_print,
	.flops = resample_flops,
	.image_in = 1u << 0,
	.image_out = 1u << 0,
};

/* The distance of neighbouring pixels, in float32 as PyTorch computes it. A size that stays is
 * copied by linear interpolation, even if a factor says otherwise. */
static float scale_of(const struct gt_resample_form *form, int dim, int64_t in)
{
	int size = form->size[dim];

	if (form->linear && size == in)
		return 1;
	if (form->linear && form->align_corners)
		return size > 1 ? (float)(in - 1) / (float)(size - 1) : 0;
	if (form->factor[dim] > 0)
		return (float)(1.0 / form->factor[dim]);
	return (float)in / (float)size;
}

struct gt_value *gt_resample2d(struct gt_graph *g, struct gt_value *x, struct gt_resample_form form)
{
	union gt_attrs attrs = { 0 };

	attrs.resample.linear = form.linear;
	attrs.resample.align = form.linear && form.align_corners;
	for (int i = 0; i < 2; i++) {
		attrs.resample.size[i] = form.size[i];
		if (x && x->ndim == 4 && form.size[i] > 0)
			attrs.resample.scale[i] = scale_of(&form, i, x->shape[2 + i]);
	}
	return gt_emit1(g, &gt_op_resample, &attrs, 1, &x);
}
