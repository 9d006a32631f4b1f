/* images.c - pooling, other sizes and norms of images, and their tokens, as ONNX. */
#include <math.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/onnx/inside.h"

/* ---- pooling ---- */

/* The words of a pooling: the operator, and the one for the numbers of whole dimensions. */
static const char *pool_op(const struct gt_node *n, bool whole)
{
	if (n->op == &gt_op_max_pool2d)
		return whole ? "ReduceMax" : "MaxPool";
	return whole ? "ReduceMean" : "AveragePool";
}

/* Return the parts of the rows (dim 0) or columns of an image, each as its maximum or mean. */
static const char *pool_parts(
    struct gt_onnx_export *x, const struct gt_node *n, const char *a, int dim)
{
	int64_t parts = n->attrs.pool.parts[dim], size = n->in[0]->shape[2 + dim], axis = 2 + dim;
	const char **each = gt_arena_alloc(&x->arena, (size_t)parts * sizeof(*each), &x->err);

	for (int64_t i = 0; each && i < parts; i++) {
		int64_t start = i * size / parts, end = ((i + 1) * size + parts - 1) / parts;

		each[i] = gt_onnx_binary(x, pool_op(n, true),
		    gt_onnx_slice(x, a, axis, start, end, 1), gt_onnx_ints(x, 1, &axis));
	}
	return each ? gt_onnx_concat(x, (int)parts, each, axis) : NULL;
}

/* Return the padding after the last row or column up to the end of the last window. */
static int64_t end_pad(const struct gt_node *n, int dim)
{
	const struct gt_window *w = &n->attrs.pool.window;
	int64_t last = (n->out[0]->shape[2 + dim] - 1) * w->stride[dim] - w->pad[dim];
	int64_t pad =
	    last + (w->kernel[dim] - 1) * (int64_t)w->dilation[dim] + 1 - n->in[0]->shape[2 + dim];

	return pad > 0 ? pad : 0;
}

/* Pad an image by the padding of a window before and after it. */
static const char *pad_image(struct gt_onnx_export *x, const char *a, const struct gt_window *w)
{
	const int64_t pads[8] = { 0, 0, w->pad[0], w->pad[1], 0, 0, w->pad[0], w->pad[1] };

	return gt_onnx_binary(x, "Pad", a, gt_onnx_ints(x, 8, pads));
}

/*
 * A window may reach past the padding, with ceil_mode, or end before it. Padding that ends with the
 * last window needs no ceil_mode, whose rules differ among programs. For a mean, places past the
 * padding do not count, but the padding itself may: it is then made of zeros before.
 */
static const char *pool_windows(struct gt_onnx_export *x, const struct gt_node *n, const char *a)
{
	const struct gt_window *w = &n->attrs.pool.window;
	bool mean = n->op == &gt_op_avg_pool2d, counts = mean && !n->attrs.pool.exclude_pad;
	int64_t kernel[2], strides[2], dilations[2], pads[4];
	bool past = false;

	for (int i = 0; i < 2; i++) {
		kernel[i] = w->kernel[i];
		strides[i] = w->stride[i];
		dilations[i] = w->dilation[i];
		pads[i] = w->pad[i];
		pads[2 + i] = end_pad(n, i);
		past |= pads[2 + i] > w->pad[i];
	}
	if (counts && past) {
		a = pad_image(x, a, w);
		for (int i = 0; i < 2; i++) {
			pads[2 + i] = pads[2 + i] > w->pad[i] ? pads[2 + i] - w->pad[i] : 0;
			pads[i] = 0;
		}
	}
	return gt_onnx_call(x, pool_op(n, false),
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INTS("kernel_shape", 2, kernel),
	        GT_ONNX_ATTR_INTS("strides", 2, strides), GT_ONNX_ATTR_INTS("pads", 4, pads),
	        GT_ONNX_ATTR_INTS("dilations", 2, dilations),
	        { .name = mean ? "count_include_pad" : NULL,
	            .kind = GT_ONNX_INT,
	            .integer = counts && !past },
	        { 0 } },
	    1, &a);
}

void gt_onnx_pool(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *a = gt_onnx_name(x, n->in[0]);

	if (n->attrs.pool.parts[0])
		a = pool_parts(x, n, pool_parts(x, n, a, 0), 1);
	else
		a = pool_windows(x, n, a);
	gt_onnx_set(x, n->out[0], a);
}

/* ---- other sizes ---- */

/* The distance of pixels is the quotient of the sizes, or of a factor that the node keeps alone. */
void gt_onnx_resample(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_value *in = n->in[0];
	bool linear = n->attrs.resample.linear, align = n->attrs.resample.align;
	const char *places = align ? "align_corners" : linear ? "half_pixel" : "asymmetric";
	const int64_t axes[2] = { 2, 3 };
	int64_t size[2];
	const struct gt_onnx_attribute attributes[] = {
		GT_ONNX_ATTR_TEXT("mode", linear ? "linear" : "nearest"),
		GT_ONNX_ATTR_TEXT("coordinate_transformation_mode", places),
		GT_ONNX_ATTR_TEXT("nearest_mode", "floor"),
		GT_ONNX_ATTR_INTS("axes", 2, axes),
		{ 0 },
	};
	const char *inputs[] = { gt_onnx_name(x, in), "", "", "" };
	float scales[2];
	bool by_size = true;

	for (int i = 0; i < 2; i++) {
		size[i] = n->attrs.resample.size[i];
		scales[i] = 1 / n->attrs.resample.scale[i];
		by_size &=
		    align || n->attrs.resample.scale[i] == (float)in->shape[2 + i] / (float)size[i];
	}
	for (int i = 0; i < 2 && !by_size; i++)
		if (floorf((float)in->shape[2 + i] * scales[i]) != (float)size[i])
			gt_onnx_fail(x, "a size of %lld that is not %lld times %g",
			    (long long)size[i], (long long)in->shape[2 + i], (double)scales[i]);
	if (by_size)
		inputs[3] = gt_onnx_ints(x, 2, size);
	else
		inputs[2] = gt_onnx_floats(x, 2, scales);
	gt_onnx_set(x, n->out[0], gt_onnx_call(x, "Resize", attributes, by_size ? 4 : 3, inputs));
}

void gt_onnx_subsample(struct gt_onnx_export *x, const struct gt_node *n)
{
	const int64_t starts[] = { 0, 0 }, axes[] = { 2, 3 },
	              ends[] = { n->in[0]->shape[2], n->in[0]->shape[3] },
	              steps[] = { n->attrs.subsample.stride, n->attrs.subsample.stride };
	const int64_t pads[] = { 0, n->attrs.subsample.front, 0, 0, 0, n->attrs.subsample.back, 0,
		0 };
	const char *y = gt_onnx_call(x, "Slice", NULL, 5,
	    (const char *[]){ gt_onnx_name(x, n->in[0]), gt_onnx_ints(x, 2, starts),
	        gt_onnx_ints(x, 2, ends), gt_onnx_ints(x, 2, axes), gt_onnx_ints(x, 2, steps) });

	gt_onnx_set(x, n->out[0], gt_onnx_binary(x, "Pad", y, gt_onnx_ints(x, 8, pads)));
}

/* ---- tokens, norms ---- */

void gt_onnx_patch_tokens(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_shape image = gt_onnx_shape_of(x, n->in[0]);
	struct gt_onnx_shape pixels = { .ndim = 3, .dims = { image.dims[0], image.dims[1] } };
	struct gt_onnx_shape token = { .ndim = 3,
		.dims = { image.dims[0], gt_onnx_fixed(1), image.dims[1] } };
	const char *parts[2], *y;

	pixels.dims[2] = gt_onnx_fixed(n->in[0]->shape[2] * n->in[0]->shape[3]);
	parts[0] = gt_onnx_expand(x, gt_onnx_name(x, n->in[1]), &token);
	parts[1] = gt_onnx_reshape(x, gt_onnx_name(x, n->in[0]), &image, &pixels);
	parts[1] = gt_onnx_transpose(x, parts[1], 3, (const int64_t[]){ 0, 2, 1 });
	y = gt_onnx_concat(x, 2, parts, 1);
	gt_onnx_set(x, n->out[0], gt_onnx_binary(x, "Add", y, gt_onnx_name(x, n->in[2])));
}

void gt_onnx_batch_norm(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_attribute attributes[] = {
		GT_ONNX_ATTR_FLOAT("epsilon", (float)n->attrs.norm.eps), { 0 }
	};
	const char *in[5];

	for (int i = 0; i < 5; i++)
		in[i] = gt_onnx_name(x, n->in[i]);
	gt_onnx_set(x, n->out[0], gt_onnx_call(x, "BatchNormalization", attributes, 5, in));
}
