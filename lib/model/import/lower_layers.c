/* lower_layers.c - operators of ONNX that are layers: products, convolutions, norms, pools. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/model/import/lower.h"

enum { MAX_SPATIAL = 2 };

/* ---- products ---- */

static const char *transposed(struct gt_import *im, const char *x, enum gt_dtype type)
{
	return gt_lower_call(
	    im, "t.default", type, gt_lower_make_name(im), "self", gt_lower_tensor(x), NULL);
}

static const char *times(struct gt_import *im, const char *x, double factor, const char *out)
{
	return gt_lower_call(im, "mul.Scalar", GT_F32, out, "self", gt_lower_tensor(x), "other",
	    gt_lower_float(factor), NULL);
}

/* alpha * a * b + beta * c. A bias is a part of the product where the factors are 1. */
void gt_lower_gemm(struct gt_import *im)
{
	const char *a = gt_lower_need(im, 0), *b = gt_lower_need(im, 1), *c = gt_lower_input(im, 2);
	const char *out = gt_lower_output(im, 0), *y;
	double alpha = gt_import_float(im, "alpha", 1), beta = gt_import_float(im, "beta", 1);
	bool rows = gt_import_int(im, "transB", 0) != 0, is_bias;
	enum gt_dtype type = gt_lower_type(im, 0);
	int64_t shape[GT_MAX_DIMS];

	if (gt_import_int(im, "transA", 0))
		a = transposed(im, a, type);
	is_bias = c && alpha == 1 && beta == 1 && gt_lower_shape(im, 2, shape) == 1 && shape[0] > 1;
	y = is_bias || !c ? out : gt_lower_make_name(im);
	if (!c && alpha != 1)
		y = gt_lower_make_name(im);
	gt_lower_call(im, rows ? "linear.default" : "addmm.default", type, y,
	    rows ? "input" : "mat1", gt_lower_tensor(a), rows ? "weight" : "mat2",
	    gt_lower_tensor(b), rows ? "bias" : "self", is_bias ? gt_lower_tensor(c) : NULL, NULL);
	if (alpha != 1)
		y = times(im, y, alpha, c ? gt_lower_make_name(im) : out);
	if (c && beta != 1)
		c = times(im, c, beta, gt_lower_make_name(im));
	if (c && !is_bias)
		gt_lower_call(im, "add.Tensor", type, out, "self", gt_lower_tensor(y), "other",
		    gt_lower_tensor(c), NULL);
}

void gt_lower_einsum(struct gt_import *im)
{
	const char *names[GT_IMPORT_TENSORS];
	int count = gt_lower_inputs(im);

	if (count > GT_IMPORT_TENSORS)
		gt_import_fail(im, "of %d tensors", count);
	for (int i = 0; i < count && !im->g->err.code; i++)
		names[i] = gt_lower_need(im, i);
	if (!im->g->err.code)
		gt_lower_call(im, "einsum.default", gt_lower_type(im, 0), gt_lower_output(im, 0),
		    "equation", gt_lower_string(gt_import_string(im, "equation", "")), "tensors",
		    gt_lower_tensors(count, names), NULL);
}

/* Queries, keys and values [batch, heads, tokens, size]. */
void gt_lower_attention(struct gt_import *im)
{
	double scale = gt_import_float(im, "scale", 0);
	int64_t shape[GT_MAX_DIMS];
	int inputs = gt_lower_inputs(im);

	if (gt_lower_shape(im, 0, shape) != 4)
		gt_import_fail(im, "of queries that are not [batch, heads, tokens, size]");
	if (inputs > 4 || gt_lower_output(im, 1))
		gt_import_fail(im, "with keys and values of earlier tokens");
	if (gt_import_float(im, "softcap", 0) != 0)
		gt_import_fail(im, "with softcap");
	gt_lower_call(im, "scaled_dot_product_attention.default", gt_lower_type(im, 0),
	    gt_lower_output(im, 0), "query", gt_lower_tensor(gt_lower_need(im, 0)), "key",
	    gt_lower_tensor(gt_lower_need(im, 1)), "value", gt_lower_tensor(gt_lower_need(im, 2)),
	    "attn_mask", gt_lower_tensor(gt_lower_input(im, 3)), "is_causal",
	    gt_lower_bool(gt_import_int(im, "is_causal", 0) != 0), "scale",
	    scale != 0 ? gt_lower_float(scale) : NULL, "enable_gqa", gt_lower_bool(true), NULL);
}

/* ---- windows over images ---- */

/* The places around the pixels of an output. */
struct window {
	int dims; /* 1 or 2 */
	int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
	int64_t before[MAX_SPATIAL], after[MAX_SPATIAL]; /* padding */
	bool even;                                       /* the padding is the same on both sides */
	char target[48];
};

static void read_spatial(struct gt_import *im, const char *attribute, int dims, int64_t *out)
{
	int64_t values[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, attribute, values, dims, 1);

	if (count != dims)
		gt_import_fail(im, ": the attribute '%s' has %d numbers for %d dimensions",
		    attribute, count, dims);
	for (int i = 0; i < dims; i++) {
		out[i] = values[i];
		if (out[i] < 1 || out[i] > INT32_MAX)
			gt_import_fail(im, ": the attribute '%s' has the number %lld", attribute,
			    (long long)out[i]);
	}
}

/* Read pads [starts, ends]. auto_pad "SAME_UPPER" keeps the size, divided by the stride. */
static void read_pads(struct gt_import *im, struct window *w, const int64_t *size)
{
	const char *word = gt_import_string(im, "auto_pad", "NOTSET");
	bool upper = !strcmp(word, "SAME_UPPER"), same = upper || !strcmp(word, "SAME_LOWER");
	int64_t pads[GT_MAX_DIMS];
	int count = gt_import_ints(im, "pads", pads, 2 * w->dims, 0);

	if (!same && strcmp(word, "VALID") != 0 && strcmp(word, "NOTSET") != 0)
		gt_import_fail(im, ": the attribute 'auto_pad' is '%.40s'", word);
	if (count != 2 * w->dims)
		gt_import_fail(
		    im, ": the attribute 'pads' has %d numbers for %d dimensions", count, w->dims);
	w->even = true;
	for (int i = 0; i < w->dims && !im->g->err.code; i++) {
		int64_t out = (size[i] + w->stride[i] - 1) / w->stride[i];
		int64_t all =
		    (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size[i];

		w->before[i] = strcmp(word, "VALID") ? pads[i] : 0;
		w->after[i] = strcmp(word, "VALID") ? pads[w->dims + i] : 0;
		all = all < 0 ? 0 : all;
		if (same) {
			w->before[i] = upper ? all / 2 : all - all / 2;
			w->after[i] = all - w->before[i];
		}
		w->even &= w->before[i] == w->after[i];
		if (w->before[i] < 0 || w->after[i] < 0 || w->before[i] > INT32_MAX ||
		    w->after[i] > INT32_MAX)
			gt_import_fail(im, ": the attribute 'pads' has the number %lld",
			    (long long)(w->before[i] < 0 ? w->before[i] : w->after[i]));
	}
}

/* Read the attributes of a window. `weights`: input 1 has the kernel's size. */
static bool read_window(struct gt_import *im, struct window *w, const char *name, bool weights)
{
	int64_t shape[GT_MAX_DIMS], kernel[GT_MAX_DIMS];
	const char *kind;
	int ndim = gt_lower_shape(im, 0, shape), dims = ndim - 2;

	if (ndim >= 0 && (dims < 1 || dims > MAX_SPATIAL))
		gt_import_fail(im, "of a tensor with %d dimensions", ndim);
	if (im->g->err.code)
		return false;
	*w = (struct window){ .dims = dims };
	if (weights && gt_lower_shape(im, 1, kernel) != ndim)
		gt_import_fail(im, ": the weight has other dimensions than the input");
	else if (weights && !gt_import_find(im, "kernel_shape", &kind))
		memcpy(w->kernel, kernel + 2, (size_t)dims * sizeof(*kernel));
	else
		read_spatial(im, "kernel_shape", dims, w->kernel);
	read_spatial(im, "strides", dims, w->stride);
	read_spatial(im, "dilations", dims, w->dilation);
	if (weights && !im->g->err.code &&
	    memcmp(w->kernel, kernel + 2, (size_t)dims * sizeof(*kernel)) != 0)
		gt_import_fail(im, ": the attribute 'kernel_shape' is not that of the weight");
	if (!im->g->err.code)
		read_pads(im, w, shape + 2);
	snprintf(w->target, sizeof(w->target), "%s%dd.%s", name, dims,
	    strcmp(name, "conv_transpose") || dims == 1 ? "default" : "input");
	return !im->g->err.code;
}

/* Return x, or x with the padding, where it is another before than after; then *pads is 0. */
static const char *pad_input(
    struct gt_import *im, const struct window *w, double value, int64_t pads[MAX_SPATIAL])
{
	const char *x = gt_lower_need(im, 0);
	int64_t list[2 * MAX_SPATIAL];

	for (int i = 0; i < w->dims; i++) {
		pads[i] = w->even ? w->before[i] : 0;
		list[2 * (w->dims - 1 - i)] = w->before[i];
		list[2 * (w->dims - 1 - i) + 1] = w->after[i];
	}
	return w->even ? x
	               : gt_lower_call(im, "pad.default", GT_F32, gt_lower_make_name(im), "self",
	                     gt_lower_tensor(x), "pad", gt_lower_ints(2 * w->dims, list), "value",
	                     gt_lower_float(value), NULL);
}

/* Exporters write a bias of zeros for a convolution without one. */
static const char *bias_of(struct gt_import *im, int i)
{
	const struct gt_constant *c = gt_lower_input(im, i) ? gt_lower_constant(im, i) : NULL;
	int64_t index[GT_MAX_DIMS] = { 0 };

	if (!c || !gt_constant_count(c))
		return gt_lower_input(im, i);
	do {
		if (*gt_constant_at(c, index) != 0)
			return gt_lower_input(im, i);
	} while (gt_constant_next(c->ndim, c->shape, index));
	return NULL;
}

void gt_lower_conv(struct gt_import *im)
{
	int64_t pads[MAX_SPATIAL];
	struct window w;
	const char *x;

	if (!gt_lower_need(im, 1) || !read_window(im, &w, "conv", true))
		return;
	x = pad_input(im, &w, 0, pads);
	gt_lower_call(im, w.target, GT_F32, gt_lower_output(im, 0), "input", gt_lower_tensor(x),
	    "weight", gt_lower_tensor(gt_lower_need(im, 1)), "bias",
	    gt_lower_tensor(bias_of(im, 2)), "stride", gt_lower_ints(w.dims, w.stride), "padding",
	    gt_lower_ints(w.dims, pads), "dilation", gt_lower_ints(w.dims, w.dilation), "groups",
	    gt_lower_int(gt_import_int(im, "group", 1)), NULL);
}

void gt_lower_conv_transpose(struct gt_import *im)
{
	int64_t out[GT_MAX_DIMS];
	const char *kind;
	struct window w;

	if (!gt_lower_need(im, 1) || !read_window(im, &w, "conv_transpose", true))
		return;
	if (gt_import_find(im, "output_shape", &kind) || !w.even ||
	    strncmp(gt_import_string(im, "auto_pad", "NOTSET"), "SAME", 4) == 0)
		gt_import_fail(im, "with output_shape, or with other padding at its start than at "
		                   "its end");
	if (gt_import_ints(im, "output_padding", out, w.dims, 0) != w.dims)
		gt_import_fail(im, ": the attribute 'output_padding' has too many numbers");
	gt_lower_call(im, w.target, GT_F32, gt_lower_output(im, 0), "input",
	    gt_lower_tensor(gt_lower_need(im, 0)), "weight", gt_lower_tensor(gt_lower_need(im, 1)),
	    "bias", gt_lower_tensor(bias_of(im, 2)), "stride", gt_lower_ints(w.dims, w.stride),
	    "padding", gt_lower_ints(w.dims, w.before), "output_padding",
	    gt_lower_ints(w.dims, out), "dilation", gt_lower_ints(w.dims, w.dilation), "groups",
	    gt_lower_int(gt_import_int(im, "group", 1)), NULL);
}

void gt_lower_pool(struct gt_import *im)
{
	bool max = !strcmp(im->lowering->op, "MaxPool");
	bool include = gt_import_int(im, "count_include_pad", 0) != 0, dilated = false;
	int64_t pads[MAX_SPATIAL];
	struct window w;
	const char *x;

	if (!read_window(im, &w, im->lowering->target, false))
		return;
	for (int i = 0; i < w.dims; i++)
		dilated |= w.dilation[i] > 1;
	if (!max && (dilated || (!w.even && !include)))
		gt_import_fail(im,
		    dilated ? "with dilations" : "with other padding at its start than at its end");
	x = pad_input(im, &w, max ? -INFINITY : 0, pads);
	gt_lower_call(im, w.target, GT_F32, gt_lower_output(im, 0), "self", gt_lower_tensor(x),
	    "kernel_size", gt_lower_ints(w.dims, w.kernel), "stride",
	    gt_lower_ints(w.dims, w.stride), "padding", gt_lower_ints(w.dims, pads), "ceil_mode",
	    gt_lower_bool(gt_import_int(im, "ceil_mode", 0) != 0), "dilation",
	    max ? gt_lower_ints(w.dims, w.dilation) : NULL, "count_include_pad",
	    max ? NULL : gt_lower_bool(include), NULL);
}

/* One number for each channel. */
void gt_lower_global_pool(struct gt_import *im)
{
	const int64_t one[] = { 1, 1 };
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape);
	char target[48];

	if (ndim >= 0 && (ndim < 3 || ndim > 4))
		gt_import_fail(im, "of a tensor with %d dimensions", ndim);
	snprintf(target, sizeof(target), "%s%dd.default", im->lowering->target, ndim - 2);
	gt_lower_call(im, target, GT_F32, gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "output_size", gt_lower_ints(ndim - 2, one),
	    NULL);
}

/* Pixels by their nearest one as PyTorch takes it, or between them. */
void gt_lower_resize(struct gt_import *im)
{
	const char *mode = gt_import_string(im, "mode", "nearest");
	const char *where = gt_import_string(im, "coordinate_transformation_mode", "half_pixel");
	bool linear = !strcmp(mode, "linear"), corners = !strcmp(where, "align_corners");
	int64_t shape[GT_MAX_DIMS], size[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 3, "sizes", size);
	const struct gt_constant *scale = count < 0 ? gt_lower_constant(im, 2) : NULL;
	const char *kind;

	if (ndim >= 0 && (ndim < 3 || ndim > 4 || gt_import_find(im, "axes", &kind)))
		gt_import_fail(im, "of a tensor with %d dimensions, or of some axes", ndim);
	if (!linear && (strcmp(mode, "nearest") != 0 || strcmp(where, "asymmetric") != 0 ||
	                   strcmp(gt_import_string(im, "nearest_mode", ""), "floor") != 0))
		gt_import_fail(im, "by '%.40s' with '%.40s'", mode, where);
	if (linear && !corners && strcmp(where, "half_pixel") != 0 &&
	    strcmp(where, "pytorch_half_pixel") != 0)
		gt_import_fail(im, "by '%.40s' with '%.40s'", mode, where);
	if (count != ndim && (!scale || scale->ndim != 1 || scale->shape[0] != ndim))
		gt_import_fail(im, "without sizes or scales that are known");
	for (int i = 0; i < ndim && !im->g->err.code; i++) {
		if (scale)
			size[i] = gt_lower_whole(
			    floor((double)shape[i] * scale->elements[i * scale->stride[0]]));
		if (i < 2 && size[i] != shape[i])
			gt_import_fail(im, "of samples or channels");
	}
	if (im->g->err.code)
		return;
	gt_lower_call(im,
	    linear      ? ndim == 4 ? "upsample_bilinear2d.vec" : "upsample_linear1d.vec"
	    : ndim == 4 ? "upsample_nearest2d.vec"
	                : "upsample_nearest1d.vec",
	    GT_F32, gt_lower_output(im, 0), "input", gt_lower_tensor(gt_lower_need(im, 0)),
	    "output_size", gt_lower_ints(ndim - 2, size + 2), "align_corners",
	    linear ? gt_lower_bool(corners) : NULL, NULL);
}

/* ---- norms ---- */

/* The counter of batches, which ONNX does not have, belongs to the weights of PyTorch. */
static bool declare_counter(struct gt_import *im, const char *mean)
{
	const struct gt_binding *b = gt_index_find(&im->bindings, &mean);
	const char *name;

	if (!b || !b->tensor || b->tensor->kind != GT_NETWORK_BUFFER)
		return gt_import_fail(im, "without a mean among the weights of the file");
	name = gt_import_counter_name(im, b->tensor->name);
	if (name && !gt_graph_find_stored(im->g, name))
		gt_buffer(im->g, name, GT_I64, 0, NULL, gt_init_zeros);
	return !im->g->err.code;
}

/* The momentum of ONNX is the part of the statistics that stays. */
void gt_lower_batch_norm(struct gt_import *im)
{
	const char *in[5];

	for (int i = 0; i < 5; i++)
		in[i] = gt_lower_need(im, i);
	if (im->g->err.code || !declare_counter(im, in[3]))
		return;
	gt_lower_call(im, "batch_norm.default", GT_F32, gt_lower_output(im, 0), "input",
	    gt_lower_tensor(in[0]), "weight", gt_lower_tensor(in[1]), "bias",
	    gt_lower_tensor(in[2]), "running_mean", gt_lower_tensor(in[3]), "running_var",
	    gt_lower_tensor(in[4]), "momentum",
	    gt_lower_float((float)(1 - gt_import_float(im, "momentum", 0.9))), "eps",
	    gt_lower_float(gt_import_float(im, "epsilon", 1e-5)), NULL);
}

void gt_lower_instance_norm(struct gt_import *im)
{
	gt_lower_call(im, "instance_norm.default", GT_F32, gt_lower_output(im, 0), "input",
	    gt_lower_tensor(gt_lower_need(im, 0)), "weight", gt_lower_tensor(gt_lower_need(im, 1)),
	    "bias", gt_lower_tensor(gt_lower_need(im, 2)), "eps",
	    gt_lower_float(gt_import_float(im, "epsilon", 1e-5)), NULL);
}

/* Before opset 21, the scale has a number for each group. */
void gt_lower_group_norm(struct gt_import *im)
{
	int64_t x[GT_MAX_DIMS], scale[GT_MAX_DIMS];

	if (gt_lower_shape(im, 0, x) >= 2 && gt_lower_shape(im, 1, scale) == 1 && scale[0] != x[1])
		gt_import_fail(im, "with a scale for each group");
	gt_lower_call(im, "group_norm.default", GT_F32, gt_lower_output(im, 0), "input",
	    gt_lower_tensor(gt_lower_need(im, 0)), "num_groups",
	    gt_lower_int(gt_import_int(im, "num_groups", 1)), "weight",
	    gt_lower_tensor(gt_lower_need(im, 1)), "bias", gt_lower_tensor(gt_lower_need(im, 2)),
	    "eps", gt_lower_float(gt_import_float(im, "epsilon", 1e-5)), NULL);
}

/* LayerNormalization and RMSNormalization: over the dimensions from `axis` on. */
void gt_lower_layer_norm(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), axis;

	if (ndim < 1)
		return;
	axis = gt_import_dim(im, "axis", -1, ndim);
	if (gt_lower_output(im, 1))
		gt_import_fail(im, "with the mean as another output");
	gt_lower_call(im, im->lowering->target, GT_F32, gt_lower_output(im, 0), "input",
	    gt_lower_tensor(gt_lower_need(im, 0)), "normalized_shape",
	    gt_lower_ints(ndim - axis, shape + axis), "weight",
	    gt_lower_tensor(gt_lower_need(im, 1)), "bias", gt_lower_tensor(gt_lower_input(im, 2)),
	    "eps", gt_lower_float(gt_import_float(im, "epsilon", 1e-5)), NULL);
}
