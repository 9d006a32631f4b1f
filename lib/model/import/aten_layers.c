/* aten_layers.c - functions of PyTorch that are layers: products, norms, pooling, attention. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/model/import/aten.h"

/* ---- products and convolutions ---- */

void gt_aten_linear(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");

	gt_import_result(im, gt_matmul(im->g, x, w, gt_import_optional(im, "bias"), false, true));
}

/* x * w + bias, with the factors 1. */
void gt_aten_addmm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "mat1"), *w = gt_import_tensor(im, "mat2");

	if (gt_import_float(im, "beta", 1) != 1 || gt_import_float(im, "alpha", 1) != 1)
		gt_import_fail(im, "with beta or alpha");
	gt_import_result(im, gt_matmul(im->g, x, w, gt_import_optional(im, "self"), false, false));
}

/* Read a number for height and one for width; a single one is for both. */
static void read_pair(struct gt_import *im, const char *argument, int64_t missing, int out[2])
{
	int64_t sizes[GT_MAX_DIMS];
	int count = gt_import_ints(im, argument, sizes, 2, missing);

	for (int i = 0; i < 2; i++) {
		int64_t size = count == 1 ? sizes[0] : sizes[i];

		if (count < 1 || count > 2 || size < 0 || size > INT32_MAX)
			gt_import_fail(im, ": the argument '%s' is not two sizes", argument);
		else
			out[i] = (int)size;
	}
}

void gt_aten_conv2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = (int)gt_import_int(im, "groups", 1) };

	read_pair(im, "stride", 1, form.stride);
	read_pair(im, "padding", 0, form.pad);
	read_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_conv2d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

void gt_aten_conv_transpose2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = (int)gt_import_int(im, "groups", 1) };

	read_pair(im, "stride", 1, form.stride);
	read_pair(im, "padding", 0, form.pad);
	read_pair(im, "output_padding", 0, form.out_pad);
	read_pair(im, "dilation", 1, form.dilation);
	gt_import_result(
	    im, gt_conv_transpose2d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

/* Read a list of one number. */
static int read_single(struct gt_import *im, const char *argument, int64_t missing)
{
	int64_t sizes[GT_MAX_DIMS];

	if (gt_import_ints(im, argument, sizes, 1, missing) != 1 || sizes[0] < 0 ||
	    sizes[0] > INT32_MAX) {
		gt_import_fail(im, ": the argument '%s' is not one size", argument);
		return 0;
	}
	return (int)sizes[0];
}

void gt_aten_conv1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	const struct gt_conv_form form = { .stride = { read_single(im, "stride", 1) },
		.pad = { read_single(im, "padding", 0) },
		.dilation = { read_single(im, "dilation", 1) },
		.groups = (int)gt_import_int(im, "groups", 1) };

	gt_import_result(im, gt_conv1d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

/* ---- norms ---- */

/* Batch norms of gtrain are those of images: other shapes are seen as images of one column. */
static struct gt_value *view_as_image(struct gt_import *im, struct gt_value *x)
{
	int64_t shape[4] = { 0, 0, 1, 1 };

	if (!x || x->ndim == 4)
		return x;
	if (x->ndim < 2)
		return gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	memcpy(shape, x->shape, 2 * sizeof(*shape));
	for (int i = 2; i < x->ndim; i++)
		shape[2] *= x->shape[i];
	return gt_reshape(im->g, x, 4, shape);
}

/* The counter of batches that belongs to the running mean of a batch norm: PyTorch adds to it by a
 * node of its own, and gtrain's op does so itself. */
static struct gt_value *find_counter(struct gt_import *im, const struct gt_binding *mean)
{
	const char *ending = "running_mean";
	size_t length = mean->tensor ? strlen(mean->tensor->name) : 0;
	char name[512];

	if (length < strlen(ending) ||
	    strcmp(mean->tensor->name + length - strlen(ending), ending) != 0)
		return NULL;
	length -= strlen(ending);
	snprintf(name, sizeof(name), "%.*snum_batches_tracked", (int)length, mean->tensor->name);
	return gt_graph_find_stored(im->g, name);
}

/* With running statistics, the network is in the state of this graph, not in that of the export. */
void gt_aten_batch_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");
	struct gt_value *image = view_as_image(im, x), *y, *counter;
	struct gt_value *weight = gt_import_optional(im, "weight");
	struct gt_value *bias = gt_import_optional(im, "bias");
	struct gt_value *mean = gt_import_optional(im, "running_mean");
	struct gt_value *var = gt_import_optional(im, "running_var");
	double momentum = gt_import_float(im, "momentum", 0.1);
	double eps = gt_import_float(im, "eps", 1e-5);

	if (im->g->err.code)
		return;
	counter = mean ? find_counter(im, gt_import_binding(im, "running_mean")) : NULL;
	if (!weight || !bias || !mean || !var || !counter) {
		gt_import_fail(im, "without weight, bias, running statistics or their counter");
		return;
	}
	y = im->train ? gt_batch_norm(im->g, image, weight, bias, mean, var, counter, eps, momentum)
	              : gt_batch_norm_eval(im->g, image, weight, bias, mean, var, eps);
	if (y && x->ndim != 4)
		y = gt_reshape(im->g, y, x->ndim, x->shape);
	gt_import_result(im, y);
}

void gt_aten_layer_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");
	struct gt_value *weight = gt_import_optional(im, "weight");
	struct gt_value *bias = gt_import_optional(im, "bias");
	int64_t shape[GT_MAX_DIMS];

	if (gt_import_ints(im, "normalized_shape", shape, 0, 0) != 1 || !weight)
		gt_import_fail(im, "over several dimensions, or without weight");
	gt_import_result(
	    im, gt_layer_norm(im->g, x, weight, bias, gt_import_float(im, "eps", 1e-5)));
}

/* ---- pooling ---- */

static struct gt_pool_form read_pool(struct gt_import *im)
{
	struct gt_pool_form form = { .ceil_mode = gt_import_bool(im, "ceil_mode", false) };

	read_pair(im, "kernel_size", 1, form.kernel);
	read_pair(im, "stride", 0, form.stride);
	read_pair(im, "padding", 0, form.pad);
	return form;
}

void gt_aten_max_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	read_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_max_pool2d(im->g, x, form));
}

void gt_aten_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	form.exclude_pad = !gt_import_bool(im, "count_include_pad", true);
	if (gt_import_int(im, "divisor_override", 0))
		gt_import_fail(im, "with divisor_override");
	gt_import_result(im, gt_avg_pool2d(im->g, x, form));
}

void gt_aten_adaptive_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int out[2] = { 0 };

	read_pair(im, "output_size", 0, out);
	if (x && x->ndim == 4 && out[0] == x->shape[2] && out[1] == x->shape[3])
		gt_import_view(im, x);
	else
		gt_import_result(im, gt_adaptive_avg_pool2d(im->g, x, out[0], out[1]));
}

static struct gt_pool_form read_pool1d(struct gt_import *im)
{
	return (struct gt_pool_form){ .kernel = { read_single(im, "kernel_size", 1) },
		.stride = { read_single(im, "stride", 0) },
		.pad = { read_single(im, "padding", 0) },
		.ceil_mode = gt_import_bool(im, "ceil_mode", false) };
}

void gt_aten_max_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool1d(im);

	form.dilation[0] = read_single(im, "dilation", 1);
	gt_import_result(im, gt_max_pool1d(im->g, x, form));
}

void gt_aten_avg_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool1d(im);

	form.exclude_pad = !gt_import_bool(im, "count_include_pad", true);
	gt_import_result(im, gt_avg_pool1d(im->g, x, form));
}

void gt_aten_adaptive_avg_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(im, gt_adaptive_avg_pool1d(im->g, x, read_single(im, "output_size", 0)));
}

/* ---- lookups ---- */

void gt_aten_embedding(struct gt_import *im)
{
	struct gt_value *table = gt_import_tensor(im, "weight");
	struct gt_value *ids = gt_import_tensor(im, "indices");

	if (gt_import_int(im, "padding_idx", -1) >= 0)
		gt_import_fail(im, "with padding_idx");
	gt_import_result(im, gt_embedding(im->g, table, ids, NULL, NULL));
}

/* ---- attention ---- */

/* [batch, heads, tokens, width] as [batch, tokens, heads * width]. */
static struct gt_value *join_heads(struct gt_import *im, struct gt_value *x)
{
	const int order[] = { 0, 2, 1, 3 };

	x = gt_permute_dims(im->g, x, order);
	return x ? gt_reshape(im->g, x, 3,
	               (int64_t[]){ x->shape[0], x->shape[1], x->shape[2] * x->shape[3] })
	         : NULL;
}

/* gtrain's op takes queries, keys and values side by side. */
void gt_aten_attention(struct gt_import *im)
{
	struct gt_value *q = gt_import_tensor(im, "query"), *k = gt_import_tensor(im, "key");
	struct gt_value *v = gt_import_tensor(im, "value"), *packed[3], *y;
	bool causal = gt_import_bool(im, "is_causal", false);
	double p = gt_import_float(im, "dropout_p", 0), scale;
	const int order[] = { 0, 2, 1, 3 };
	int heads;

	if (gt_import_optional(im, "attn_mask"))
		gt_import_fail(im, "with a mask");
	if (!q || !k || !v || im->g->err.code)
		return;
	scale = gt_import_float(im, "scale", 1 / sqrt((double)q->shape[q->ndim - 1]));
	if (q->ndim != 4 || !gt_import_same_shape(q, k) || !gt_import_same_shape(q, v) ||
	    fabs(scale * sqrt((double)q->shape[3]) - 1) > 1e-6) {
		gt_import_fail(im, "of other shapes than [batch, heads, tokens, width], or scaled "
		                   "otherwise than by 1 / sqrt(width)");
		return;
	}
	heads = (int)q->shape[1];
	packed[0] = join_heads(im, q);
	packed[1] = join_heads(im, k);
	packed[2] = join_heads(im, v);
	y = im->g->err.code ? NULL : gt_cat(im->g, 3, packed, 2);
	y = causal ? gt_attention(im->g, y, im->rng, heads, im->train ? p : 0)
	           : gt_attention_full(im->g, y, im->rng, heads, im->train ? p : 0);
	if (!y)
		return;
	y = gt_reshape(
	    im->g, y, 4, (int64_t[]){ q->shape[0], q->shape[2], q->shape[1], q->shape[3] });
	gt_import_result(im, gt_permute_dims(im->g, y, order));
}
