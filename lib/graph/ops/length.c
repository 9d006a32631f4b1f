/* length.c - convolutions, pooling and resampling over a length: an image with a height of 1. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/* Return a view [a, b, 1, c] of v [a, b, c]. `op` and `what` are for the error. */
static struct gt_value *view_as_image(
    struct gt_graph *g, struct gt_value *v, const char *op, const char *what)
{
	if (!v)
		return NULL;
	if (v->ndim != 3)
		return gt_graph_fail(g, GT_EINVAL, "%s: %s %s, not of three dimensions", op, what,
		    gt_shape_text(v).s);
	return gt_reshape(g, v, 4, (int64_t[]){ v->shape[0], v->shape[1], 1, v->shape[2] });
}

/* Return a view [a, b, c] of v [a, b, 1, c]. */
static struct gt_value *view_as_length(struct gt_graph *g, struct gt_value *v)
{
	if (!v)
		return NULL;
	return gt_reshape(g, v, 3, (int64_t[]){ v->shape[0], v->shape[1], v->shape[3] });
}

/* Move the number of the length to the width. `height` is the number for a height of 1. */
static void widen_pair(int *pair, int height)
{
	pair[1] = pair[0];
	pair[0] = height;
}

static struct gt_conv_form widen_conv_form(struct gt_conv_form form)
{
	widen_pair(form.stride, 1);
	widen_pair(form.pad, 0);
	widen_pair(form.dilation, 1);
	widen_pair(form.out_pad, 0);
	return form;
}

static struct gt_pool_form widen_pool_form(struct gt_pool_form form)
{
	widen_pair(form.kernel, 1);
	widen_pair(form.stride, 1);
	widen_pair(form.pad, 0);
	widen_pair(form.dilation, 1);
	return form;
}

struct gt_value *gt_conv1d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form)
{
	x = view_as_image(g, x, "conv1d", "an input");
	w = view_as_image(g, w, "conv1d", "a weight");
	return view_as_length(g, gt_conv2d(g, x, w, bias, widen_conv_form(form)));
}

struct gt_value *gt_conv_transpose1d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form)
{
	x = view_as_image(g, x, "conv_transpose1d", "an input");
	w = view_as_image(g, w, "conv_transpose1d", "a weight");
	return view_as_length(g, gt_conv_transpose2d(g, x, w, bias, widen_conv_form(form)));
}

struct gt_value *gt_max_pool1d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form)
{
	x = view_as_image(g, x, "max_pool1d", "an input");
	return view_as_length(g, gt_max_pool2d(g, x, widen_pool_form(form)));
}

struct gt_value *gt_avg_pool1d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form)
{
	x = view_as_image(g, x, "avg_pool1d", "an input");
	return view_as_length(g, gt_avg_pool2d(g, x, widen_pool_form(form)));
}

struct gt_value *gt_adaptive_avg_pool1d(struct gt_graph *g, struct gt_value *x, int length)
{
	x = view_as_image(g, x, "adaptive_avg_pool1d", "an input");
	return view_as_length(g, gt_adaptive_avg_pool2d(g, x, 1, length));
}

struct gt_value *gt_adaptive_max_pool1d(struct gt_graph *g, struct gt_value *x, int length)
{
	x = view_as_image(g, x, "adaptive_max_pool1d", "an input");
	return view_as_length(g, gt_adaptive_max_pool2d(g, x, 1, length));
}

struct gt_value *gt_resample1d(struct gt_graph *g, struct gt_value *x, struct gt_resample_form form)
{
	widen_pair(form.size, 1);
	form.factor[1] = form.factor[0];
	form.factor[0] = 0;
	x = view_as_image(g, x, "resample1d", "an input");
	return view_as_length(g, gt_resample2d(g, x, form));
}
