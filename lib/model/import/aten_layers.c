/* aten_layers.c - functions of PyTorch that are layers: products, norms, pooling, attention. */
#include <stdio.h>
#include <stdlib.h>
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

/* Rows by their indices, which are int32 in gtrain. */
void gt_aten_index_select(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *ids = gt_import_tensor(im, "index");

	if (x && ids)
		gt_import_result(
		    im, gt_index_select(im->g, x, gt_import_dim(im, "dim", 0, x->ndim), ids));
}

/* The number of the element with indices in several dimensions: of x[i, j], i * columns + j. */
static struct gt_value *join_indices(struct gt_import *im, const struct gt_value *x, int first,
    int count, struct gt_constant *const *ids)
{
	int64_t index[GT_MAX_DIMS] = { 0 }, at = 0, elements = gt_constant_count(ids[0]);
	int32_t *joined = gt_calloc((size_t)elements, sizeof(*joined), &im->g->err);
	struct gt_value *v = NULL;

	if (!joined)
		return NULL;
	if (elements)
		do {
			int64_t number = 0;

			for (int k = 0; k < count; k++) {
				int64_t size = x->shape[first + k];
				int64_t i = (int64_t)*gt_constant_at(ids[k], index);

				i += i < 0 ? size : 0;
				if (i < 0 || i >= size)
					gt_import_fail(im, ": an index is out of range");
				number = number * size + i;
			}
			joined[at++] = (int32_t)number;
		} while (gt_constant_next(ids[0]->ndim, ids[0]->shape, index));
	if (!im->g->err.code)
		v = gt_constant(im->g, GT_I32, ids[0]->ndim, ids[0]->shape, joined);
	free(joined);
	return v;
}

/* x[:, i, j] with constant indices: the dimensions that they index become one. */
void gt_aten_index(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_constant *ids[GT_MAX_DIMS];
	int first, count = gt_import_indices(im, &first, ids), ndim = 0;
	int64_t shape[GT_MAX_DIMS];

	if (!x || !count)
		return;
	if (first + count > x->ndim) {
		gt_import_fail(im, "by more indices than dimensions");
		return;
	}
	for (int i = 0; i < x->ndim; i++)
		if (i > first && i < first + count)
			shape[ndim - 1] *= x->shape[i];
		else
			shape[ndim++] = x->shape[i];
	gt_import_result(im, gt_index_select(im->g, gt_reshape(im->g, x, ndim, shape), first,
	                         join_indices(im, x, first, count, ids)));
}
