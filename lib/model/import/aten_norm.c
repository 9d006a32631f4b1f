/* aten_norm.c - functions of PyTorch that normalize. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/model/import/aten.h"

/* ---- rows ---- */

static struct gt_value *vector_of(struct gt_import *im, int64_t size, double number)
{
	return gt_fill(im->g, GT_F32, 1, &size, number);
}

/* Subtract its mean from each row of x [rows, size], and divide the row by its deviation. This is
 * the op layer_norm, which computes statistics in float32 and in two passes, whatever the type. */
static struct gt_value *standardize_rows(struct gt_import *im, struct gt_value *x, double eps)
{
	return x ? gt_layer_norm(im->g, x, vector_of(im, x->shape[x->ndim - 1], 1), NULL, eps)
	         : NULL;
}

/* View a vector of channels so that it is broadcast over the other dimensions of x. */
static struct gt_value *view_as_channels(
    struct gt_import *im, struct gt_value *vector, const struct gt_value *x)
{
	int64_t shape[GT_MAX_DIMS];

	for (int i = 0; i < x->ndim; i++)
		shape[i] = i == 1 ? x->shape[1] : 1;
	return gt_reshape(im->g, vector, x->ndim, shape);
}

/* y * weight + bias, where a missing one is left out. */
static struct gt_value *scale_channels(
    struct gt_import *im, struct gt_value *y, struct gt_value *weight, struct gt_value *bias)
{
	if (y && weight)
		y = gt_binary(im->g, GT_F_MUL, y, view_as_channels(im, weight, y));
	if (y && bias)
		y = gt_binary(im->g, GT_F_ADD, y, view_as_channels(im, bias, y));
	return y;
}

/* ---- norms over channels ---- */

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

char *gt_import_counter_name(struct gt_import *im, const char *mean)
{
	const char *ending = "running_mean", *end = gt_text_ends_with(mean, ending) ? "" : ".";
	int length = (int)strlen(mean) - (*end ? 0 : (int)strlen(ending));
	char *name = gt_asprintf(&im->g->err, "%.*s%snum_batches_tracked", length, mean, end);
	char *kept = name ? gt_arena_strdup(&im->g->arena, name, &im->g->err) : NULL;

	free(name);
	return kept;
}

/* The counter of batches that belongs to the running mean of a batch norm: PyTorch adds to it by a
 * node of its own, and gtrain's op does so itself. */
static struct gt_value *find_counter(struct gt_import *im, const struct gt_binding *mean)
{
	const char *name = mean->tensor ? gt_import_counter_name(im, mean->tensor->name) : NULL;

	return name ? gt_graph_find_stored(im->g, name) : NULL;
}

/* Each channel with the statistics of this batch alone. */
static struct gt_value *standardize_channels(struct gt_import *im, struct gt_value *x, double eps)
{
	int order[GT_MAX_DIMS] = { 1, 0 };
	int64_t shape[GT_MAX_DIMS], rows[2] = { x->shape[1], gt_value_elements(x) / x->shape[1] };
	struct gt_value *y;

	for (int i = 0; i < x->ndim; i++) {
		order[i] = i < 2 ? 1 - i : i;
		shape[i] = x->shape[order[i]];
	}
	y = gt_reshape(im->g, gt_permute_dims(im->g, x, order), 2, rows);
	y = gt_reshape(im->g, standardize_rows(im, y, eps), x->ndim, shape);
	return gt_permute_dims(im->g, y, order);
}

/* With running statistics, the network is in the state of this graph, not in that of the export. */
static struct gt_value *norm_with_statistics(struct gt_import *im, struct gt_value *x,
    struct gt_value *weight, struct gt_value *bias, double eps)
{
	struct gt_value *image = view_as_image(im, x), *y, *counter;
	struct gt_value *mean = gt_import_tensor(im, "running_mean");
	struct gt_value *var = gt_import_tensor(im, "running_var");
	double momentum = gt_import_float(im, "momentum", 0.1);

	if (im->g->err.code)
		return NULL;
	counter = find_counter(im, gt_import_binding(im, "running_mean"));
	if (!counter)
		return gt_import_fail(im, "without num_batches_tracked beside running statistics");
	if (!weight)
		weight = vector_of(im, x->shape[1], 1);
	if (!bias)
		bias = vector_of(im, x->shape[1], 0);
	y = im->train ? gt_batch_norm(im->g, image, weight, bias, mean, var, counter, eps, momentum)
	              : gt_batch_norm_eval(im->g, image, weight, bias, mean, var, eps);
	return y && x->ndim != 4 ? gt_reshape(im->g, y, x->ndim, x->shape) : y;
}

/* Without running statistics, those of the batch are used in evaluation, too. */
void gt_aten_batch_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");
	struct gt_value *weight = gt_import_optional(im, "weight");
	struct gt_value *bias = gt_import_optional(im, "bias");
	bool has_statistics = gt_import_optional(im, "running_mean");
	double eps = gt_import_float(im, "eps", 1e-5);

	if (x && x->ndim < 2)
		gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	if (!x || im->g->err.code)
		return;
	if (has_statistics)
		gt_import_result(im, norm_with_statistics(im, x, weight, bias, eps));
	else
		gt_import_result(
		    im, scale_channels(im, standardize_channels(im, x, eps), weight, bias));
}

/* Each sample's channels are normalized in groups. */
static void norm_groups(struct gt_import *im, struct gt_value *x, int64_t groups)
{
	struct gt_value *weight = gt_import_optional(im, "weight");
	struct gt_value *bias = gt_import_optional(im, "bias"), *y;
	double eps = gt_import_float(im, "eps", 1e-5);
	int64_t rows[2];

	if (im->g->err.code)
		return;
	rows[0] = x->shape[0] * groups;
	rows[1] = gt_value_elements(x) / rows[0];
	y = standardize_rows(im, gt_reshape(im->g, x, 2, rows), eps);
	gt_import_result(
	    im, scale_channels(im, gt_reshape(im->g, y, x->ndim, x->shape), weight, bias));
}

void gt_aten_group_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");
	int64_t groups = gt_import_int(im, "num_groups", 1);

	if (!x || im->g->err.code)
		return;
	if (x->ndim < 2 || groups < 1 || x->shape[1] % groups != 0)
		gt_import_fail(im, "of groups that do not divide the channels");
	else
		norm_groups(im, x, groups);
}

void gt_aten_instance_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");

	if (gt_import_optional(im, "running_mean"))
		gt_import_fail(im, "with running statistics");
	if (x && x->ndim < 3)
		gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	if (x && !im->g->err.code)
		norm_groups(im, x, x->shape[1]);
}

/* ---- norms over the last dimensions ---- */

/* View x with the dimensions of normalized_shape, its last ones, as one. */
static struct gt_value *join_normalized(struct gt_import *im, struct gt_value *x)
{
	int64_t shape[GT_MAX_DIMS], size = 1;
	int count = gt_import_ints(im, "normalized_shape", shape, 0, 0), ndim;

	if (!x || im->g->err.code)
		return NULL;
	ndim = x->ndim - count;
	if (count < 1 || ndim < 0 || memcmp(shape, x->shape + ndim, (size_t)count * sizeof(*shape)))
		return gt_import_fail(im, "over other dimensions than the last ones");
	for (int i = 0; i < count; i++)
		size *= shape[i];
	memcpy(shape, x->shape, (size_t)ndim * sizeof(*shape));
	shape[ndim] = size;
	return count > 1 ? gt_reshape(im->g, x, ndim + 1, shape) : x;
}

/* Return a tensor of the shape of normalized_shape as a vector, or NULL without it. */
static struct gt_value *read_normalized(
    struct gt_import *im, const char *argument, const struct gt_value *rows)
{
	struct gt_value *v = gt_import_optional(im, argument);
	int64_t size = rows ? rows->shape[rows->ndim - 1] : 0;

	return v && v->ndim != 1 ? gt_reshape(im->g, v, 1, &size) : v;
}

/* Bind the output to the rows, in the shape of x. */
static void bind_normalized(struct gt_import *im, struct gt_value *y, const struct gt_value *x)
{
	if (y)
		gt_import_result(
		    im, y->ndim == x->ndim ? y : gt_reshape(im->g, y, x->ndim, x->shape));
}

void gt_aten_layer_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *rows = join_normalized(im, x);
	struct gt_value *weight = read_normalized(im, "weight", rows);
	struct gt_value *bias = read_normalized(im, "bias", rows);
	double eps = gt_import_float(im, "eps", 1e-5);

	if (!rows || im->g->err.code)
		return;
	if (!weight)
		weight = vector_of(im, rows->shape[rows->ndim - 1], 1);
	bind_normalized(im, gt_layer_norm(im->g, rows, weight, bias, eps), x);
}

/* PyTorch's eps that is left out is the distance of 1 to the next number. */
void gt_aten_rms_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *rows = join_normalized(im, x);
	struct gt_value *weight = read_normalized(im, "weight", rows);
	double eps = gt_import_float(im, "eps", FLT_EPSILON);

	if (!rows || im->g->err.code)
		return;
	if (!weight)
		weight = vector_of(im, rows->shape[rows->ndim - 1], 1);
	bind_normalized(im, gt_rms_norm(im->g, rows, weight, eps), x);
}
