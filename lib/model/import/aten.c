/* aten.c - the functions of PyTorch that exported networks may call, one row each. */
#include <string.h>

#include "lib/model/import/network.h"

/*
 * A row has the name of a function of torch.ops.aten with its overload, and the function that emits
 * it. Names of arguments and their defaults are those of PyTorch's native_functions.yaml. A name
 * with "_" at its end is the function that overwrites its argument.
 */

/* ---- products and convolutions ---- */

static void emit_linear(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");

	gt_import_result(im, gt_matmul(im->g, x, w, gt_import_optional(im, "bias"), false, true));
}

/* x * w + bias, with the factors 1. */
static void emit_addmm(struct gt_import *im)
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

static void emit_conv2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = (int)gt_import_int(im, "groups", 1) };

	read_pair(im, "stride", 1, form.stride);
	read_pair(im, "padding", 0, form.pad);
	read_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_conv2d(im->g, x, w, gt_import_optional(im, "bias"), form));
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
	return gt_graph_find(im->g, name);
}

/* With running statistics, the network is in the state of this graph, not in that of the export. */
static void emit_batch_norm(struct gt_import *im)
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

static void emit_layer_norm(struct gt_import *im)
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

/* ---- element by element ---- */

static void emit_relu(struct gt_import *im)
{
	gt_import_result(im, gt_relu(im->g, gt_import_tensor(im, "self")));
}

static void emit_relu_in_place(struct gt_import *im)
{
	gt_import_in_place(im, "self", gt_relu(im->g, gt_import_tensor(im, "self")));
}

static void emit_gelu(struct gt_import *im)
{
	bool tanh = !strcmp(gt_import_string(im, "approximate", "none"), "tanh");

	gt_import_result(
	    im, gt_gelu(im->g, gt_import_tensor(im, "self"), tanh ? GT_GELU_TANH : GT_GELU_ERF));
}

static struct gt_value *add_tensors(struct gt_import *im)
{
	struct gt_value *a = gt_import_tensor(im, "self"), *b = gt_import_tensor(im, "other");

	if (gt_import_float(im, "alpha", 1) != 1)
		return gt_import_fail(im, "with alpha");
	if (a && b && (a->ndim != b->ndim || memcmp(a->shape, b->shape, sizeof(a->shape)) != 0))
		return gt_import_fail(im, "of tensors of different shapes");
	return gt_add(im->g, a, b);
}

static void emit_add(struct gt_import *im)
{
	gt_import_result(im, add_tensors(im));
}

/* The batches of a batch norm are counted by its own op (find_counter()). */
static void emit_add_in_place(struct gt_import *im)
{
	const struct gt_binding *to = gt_import_binding(im, "self");

	if (to && to->value && to->value->role == GT_BUFFER && to->value->dtype == GT_I64 &&
	    strstr(to->value->name, "num_batches_tracked"))
		return;
	gt_import_in_place(im, "self", add_tensors(im));
}

/* A dropout is active in training, whatever it was at the export. */
static struct gt_value *drop(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input");

	return im->train && im->rng ? gt_dropout(im->g, x, im->rng, gt_import_float(im, "p", 0.5))
	                            : x;
}

static void emit_dropout(struct gt_import *im)
{
	gt_import_result(im, drop(im));
}

static void emit_dropout_in_place(struct gt_import *im)
{
	gt_import_in_place(im, "input", drop(im));
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

static void emit_max_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	read_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_max_pool2d(im->g, x, form));
}

static void emit_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	form.exclude_pad = !gt_import_bool(im, "count_include_pad", true);
	if (gt_import_int(im, "divisor_override", 0))
		gt_import_fail(im, "with divisor_override");
	gt_import_result(im, gt_avg_pool2d(im->g, x, form));
}

static void emit_adaptive_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int out[2] = { 0 };

	read_pair(im, "output_size", 0, out);
	if (x && x->ndim == 4 && out[0] == x->shape[2] && out[1] == x->shape[3])
		gt_import_view(im, "self", x);
	else
		gt_import_result(im, gt_adaptive_avg_pool2d(im->g, x, out[0], out[1]));
}

/* ---- shapes ---- */

/* Sizes in the file are those of the export. A batch that was fixed there is the first size of a
 * tensor whose first dimension is the batch; other readings are refused. */
static bool free_batch(struct gt_import *im, const struct gt_value *x, int64_t *size, int count)
{
	int64_t elements = gt_value_elements(x), known = 1, open = -1;

	if (count && im->exported_batch && im->exported_batch != im->batch && size[0] >= 0 &&
	    x->ndim && x->shape[0] == im->batch && size[0] == im->exported_batch)
		size[0] = im->batch;
	for (int i = 0; i < count; i++) {
		if (size[i] < 0)
			open = i;
		else if (__builtin_mul_overflow(known, size[i], &known))
			return false;
	}
	if (open >= 0 && known > 0 && elements % known == 0) {
		size[open] = elements / known;
		return true;
	}
	return open < 0 && known == elements;
}

static void emit_reshape(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS] = { 0 };
	const char *argument =
	    strstr(json_string_value(json_object_get(im->node, "target")), "reshape") ? "shape"
	                                                                              : "size";
	int count = gt_import_ints(im, argument, size, 0, 0);

	if (!x || im->g->err.code)
		return;
	if (free_batch(im, x, size, count)) {
		gt_import_view(im, "self", gt_reshape(im->g, x, count, size));
		return;
	}
	gt_import_fail(
	    im, "to sizes of the %lld samples of the export", (long long)im->exported_batch);
	gt_err_hint(&im->g->err, "export it with dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)");
}

static void emit_flatten(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS] = { 0 };
	int first, last, count = 0;

	if (!x)
		return;
	first = gt_import_dim(im, "start_dim", 0, x->ndim);
	last = gt_import_dim(im, "end_dim", -1, x->ndim);
	for (int i = 0; i < x->ndim; i++) {
		if (i > first && i <= last)
			size[count - 1] *= x->shape[i];
		else
			size[count++] = x->shape[i];
	}
	gt_import_view(im, "self", gt_reshape(im->g, x, count, size));
}

/* The tensor itself, or a copy of it: nodes overwrite nothing. */
static void emit_same(struct gt_import *im)
{
	gt_import_view(im, "self", gt_import_tensor(im, "self"));
}

static void emit_clone(struct gt_import *im)
{
	gt_import_result(im, gt_import_tensor(im, "self"));
}

/* ---- lookups ---- */

static void emit_embedding(struct gt_import *im)
{
	struct gt_value *table = gt_import_tensor(im, "weight");
	struct gt_value *ids = gt_import_tensor(im, "indices");

	if (gt_import_int(im, "padding_idx", -1) >= 0)
		gt_import_fail(im, "with padding_idx");
	gt_import_result(im, gt_embedding(im->g, table, ids, NULL, NULL));
}

/* ---- the table ---- */

const struct gt_aten gt_aten_rows[] = {
	{ "adaptive_avg_pool2d.default", emit_adaptive_avg_pool2d },
	{ "add.Tensor", emit_add },
	{ "add_.Tensor", emit_add_in_place },
	{ "addmm.default", emit_addmm },
	{ "alias.default", emit_same },
	{ "avg_pool2d.default", emit_avg_pool2d },
	{ "batch_norm.default", emit_batch_norm },
	{ "clone.default", emit_clone },
	{ "contiguous.default", emit_same },
	{ "conv2d.default", emit_conv2d },
	{ "dropout.default", emit_dropout },
	{ "dropout_.default", emit_dropout_in_place },
	{ "embedding.default", emit_embedding },
	{ "flatten.using_ints", emit_flatten },
	{ "gelu.default", emit_gelu },
	{ "layer_norm.default", emit_layer_norm },
	{ "linear.default", emit_linear },
	{ "max_pool2d.default", emit_max_pool2d },
	{ "relu.default", emit_relu },
	{ "relu_.default", emit_relu_in_place },
	{ "reshape.default", emit_reshape },
	{ "view.default", emit_reshape },
	{ NULL, NULL },
};

const struct gt_aten *gt_aten_find(const char *target)
{
	const char *aten = "torch.ops.aten.";

	if (strncmp(target, aten, strlen(aten)) != 0)
		return NULL;
	for (const struct gt_aten *row = gt_aten_rows; row->name; row++)
		if (!strcmp(row->name, target + strlen(aten)))
			return row;
	return NULL;
}
