/* aten.c - the functions of PyTorch that exported networks may call, one row each. */
#include <math.h>
#include <string.h>

#include "lib/model/import/network.h"

/*
 * A row has the name of a function of torch.ops.aten with its overload, and the function that emits
 * it. Names of arguments and their defaults are those of PyTorch's native_functions.yaml.
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

static void emit_unary(struct gt_import *im)
{
	gt_import_result(im, gt_unary(im->g, im->row->function, gt_import_tensor(im, "self")));
}

static void emit_relu(struct gt_import *im)
{
	gt_import_result(im, gt_relu(im->g, gt_import_tensor(im, "self")));
}

static void emit_gelu(struct gt_import *im)
{
	bool tanh = !strcmp(gt_import_string(im, "approximate", "none"), "tanh");
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(im, gt_gelu(im->g, x, tanh ? GT_GELU_TANH : GT_GELU_ERF));
}

static void emit_hardtanh(struct gt_import *im)
{
	gt_import_result(
	    im, gt_hardtanh(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "min_val", -1),
	            gt_import_float(im, "max_val", 1)));
}

static void emit_hardsigmoid(struct gt_import *im)
{
	gt_import_result(im, gt_hardsigmoid(im->g, gt_import_tensor(im, "self")));
}

static void emit_leaky_relu(struct gt_import *im)
{
	gt_import_result(im, gt_leaky_relu(im->g, gt_import_tensor(im, "self"),
	                         gt_import_float(im, "negative_slope", 0.01)));
}

static void emit_elu(struct gt_import *im)
{
	if (gt_import_float(im, "scale", 1) != 1 || gt_import_float(im, "input_scale", 1) != 1)
		gt_import_fail(im, "with a scale");
	gt_import_result(
	    im, gt_elu(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "alpha", 1)));
}

static void emit_softplus(struct gt_import *im)
{
	gt_import_result(
	    im, gt_softplus(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "beta", 1),
	            gt_import_float(im, "threshold", 20)));
}

static void emit_mish(struct gt_import *im)
{
	gt_import_result(im, gt_mish(im->g, gt_import_tensor(im, "self")));
}

static void emit_clamp(struct gt_import *im)
{
	gt_import_result(
	    im, gt_clamp(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "min", -INFINITY),
	            gt_import_float(im, "max", INFINITY)));
}

static void emit_binary(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		gt_import_operand(im, "other") };

	gt_import_result(im, gt_apply(im->g, im->row->function, operands));
}

static void emit_pow(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		gt_import_operand(im, "exponent") };

	gt_import_result(im, gt_apply(im->g, GT_F_POW, operands));
}

static void emit_reciprocal(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { { .is_number = true, .number = 1 },
		gt_import_operand(im, "self") };

	gt_import_result(im, gt_apply(im->g, GT_F_DIV, operands));
}

/* Multiply an operand by a number. */
static struct gt_map_operand scale(struct gt_import *im, struct gt_map_operand x, double factor)
{
	const struct gt_map_operand operands[] = { x, { .is_number = true, .number = factor } };

	if (factor == 1)
		return x;
	x.number *= factor;
	if (!x.is_number)
		x.value = gt_apply(im->g, GT_F_MUL, operands);
	return x;
}

static bool same_shape(const struct gt_value *a, const struct gt_value *b)
{
	return a && b && a->ndim == b->ndim && a->dtype == b->dtype &&
	       !memcmp(a->shape, b->shape, sizeof(a->shape));
}

/* self + alpha * other, or the difference. A plain sum has an op of its own, which passes fuse with
 * others. */
static void emit_sum_of_two(struct gt_import *im)
{
	const struct gt_binding *to = gt_import_binding(im, "self");
	struct gt_map_operand operands[2];

	/* The batches of a batch norm are counted by its own op (find_counter()). */
	if (to && to->tensor && strstr(to->tensor->name, "num_batches_tracked"))
		return;
	operands[0] = gt_import_operand(im, "self");
	operands[1] = scale(im, gt_import_operand(im, "other"), gt_import_float(im, "alpha", 1));
	if (im->row->function == GT_F_ADD && same_shape(operands[0].value, operands[1].value))
		gt_import_result(im, gt_add(im->g, operands[0].value, operands[1].value));
	else
		gt_import_result(im, gt_apply(im->g, im->row->function, operands));
}

static void emit_reverse_difference(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "other"),
		scale(im, gt_import_operand(im, "self"), gt_import_float(im, "alpha", 1)) };

	gt_import_result(im, gt_apply(im->g, GT_F_SUB, operands));
}

/* self + value * tensor1 * tensor2 */
static void emit_addcmul(struct gt_import *im)
{
	const struct gt_map_operand factors[] = { gt_import_operand(im, "tensor1"),
		gt_import_operand(im, "tensor2") };
	const struct gt_map_operand product = { .value = gt_apply(im->g, GT_F_MUL, factors) };
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		scale(im, product, gt_import_float(im, "value", 1)) };

	gt_import_result(im, gt_apply(im->g, GT_F_ADD, operands));
}

/* A dropout is active in training, whatever it was at the export. */
static void emit_dropout(struct gt_import *im)
{
	struct gt_value *x = gt_import_first(im);

	if (im->train && im->rng)
		x = gt_dropout(im->g, x, im->rng, gt_import_float(im, "p", 0.5));
	gt_import_result(im, x);
}

/* ---- sums ---- */

/* Read dimensions as bits; none stands for all of them. */
static unsigned read_dims(struct gt_import *im, const struct gt_value *x)
{
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dim", dims, 0, 0);
	unsigned bits = 0;

	for (int i = 0; i < count; i++) {
		if (dims[i] < -x->ndim || dims[i] >= x->ndim)
			gt_import_fail(im, ": the argument 'dim' is no dimension of %d", x->ndim);
		else
			bits |= 1u << (dims[i] + (dims[i] < 0 ? x->ndim : 0));
	}
	return count ? bits : (1u << x->ndim) - 1;
}

static struct gt_value *multiply(struct gt_import *im, struct gt_value *x, double factor)
{
	return scale(im, (struct gt_map_operand){ .value = x }, factor).value;
}

/* The mean of x over the dimensions `bits`. */
static struct gt_value *mean_of(struct gt_import *im, struct gt_value *x, unsigned bits, bool keep)
{
	int64_t count = 1;

	for (int i = 0; x && i < x->ndim; i++)
		count *= bits >> i & 1 ? x->shape[i] : 1;
	return multiply(im, gt_sum(im->g, x, bits, keep), 1 / (double)count);
}

static void emit_sum(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool keep = gt_import_bool(im, "keepdim", false);

	if (x)
		gt_import_result(im, gt_sum(im->g, x, read_dims(im, x), keep));
}

static void emit_mean(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool keep = gt_import_bool(im, "keepdim", false);

	if (x)
		gt_import_result(im, mean_of(im, x, read_dims(im, x), keep));
}

/* The root of the sum of squares. */
static void emit_vector_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool keep = gt_import_bool(im, "keepdim", false);

	if (gt_import_float(im, "ord", 2) != 2)
		gt_import_fail(im, "of another order than 2");
	if (x && !im->g->err.code)
		gt_import_result(im,
		    gt_unary(im->g, GT_F_SQRT,
		        gt_sum(im->g, gt_binary(im->g, GT_F_MUL, x, x), read_dims(im, x), keep)));
}

/* View a vector of channels so that it is broadcast over the other dimensions of x. */
static struct gt_value *as_channels(
    struct gt_import *im, struct gt_value *vector, const struct gt_value *x)
{
	int64_t shape[GT_MAX_DIMS];

	for (int i = 0; i < x->ndim; i++)
		shape[i] = i == 1 ? x->shape[1] : 1;
	return gt_reshape(im->g, vector, x->ndim, shape);
}

/* Each sample's channels are normalized in groups: (x - mean) / sqrt(variance + eps). */
static void emit_group_norm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *y, *square;
	struct gt_value *weight = gt_import_optional(im, "weight");
	struct gt_value *bias = gt_import_optional(im, "bias");
	int64_t groups = gt_import_int(im, "num_groups", 1), shape[3];
	struct gt_map_operand shifted[] = { { NULL }, { .is_number = true } };

	if (!x || im->g->err.code)
		return;
	if (x->ndim < 2 || groups < 1 || x->shape[1] % groups != 0) {
		gt_import_fail(im, "of groups that do not divide the channels");
		return;
	}
	shape[0] = x->shape[0];
	shape[1] = groups;
	shape[2] = gt_value_elements(x) / shape[0] / groups;
	y = gt_reshape(im->g, x, 3, shape);
	y = gt_binary(im->g, GT_F_SUB, y, mean_of(im, y, 4, true));
	square = y ? mean_of(im, gt_binary(im->g, GT_F_MUL, y, y), 4, true) : NULL;
	shifted[0] = (struct gt_map_operand){ .value = square };
	shifted[1].number = gt_import_float(im, "eps", 1e-5);
	y = gt_binary(
	    im->g, GT_F_MUL, y, gt_unary(im->g, GT_F_RSQRT, gt_apply(im->g, GT_F_ADD, shifted)));
	y = gt_reshape(im->g, y, x->ndim, x->shape);
	if (weight)
		y = gt_binary(im->g, GT_F_MUL, y, as_channels(im, weight, x));
	if (bias)
		y = gt_binary(im->g, GT_F_ADD, y, as_channels(im, bias, x));
	gt_import_result(im, y);
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
		gt_import_view(im, x);
	else
		gt_import_result(im, gt_adaptive_avg_pool2d(im->g, x, out[0], out[1]));
}

/* ---- shapes ---- */

/* Sizes in the file are those of the export. A batch that was fixed there is the first size of a
 * tensor whose first dimension is the batch; other readings are errors. */
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

static void fail_fixed_sizes(struct gt_import *im)
{
	gt_import_fail(
	    im, "to sizes of the %lld samples of the export", (long long)im->exported_batch);
	gt_err_hint(&im->g->err, "export it with dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)");
}

static void view_as(struct gt_import *im, const char *argument)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, argument, size, 0, 0);

	if (!x || im->g->err.code)
		return;
	if (free_batch(im, x, size, count))
		gt_import_view(im, gt_reshape(im->g, x, count, size));
	else
		fail_fixed_sizes(im);
}

static void emit_view(struct gt_import *im)
{
	view_as(im, "size");
}

static void emit_reshape(struct gt_import *im)
{
	view_as(im, "shape");
}

/* View x with the dimensions from `first` to `last` replaced by `count` sizes. */
static void replace_dims(
    struct gt_import *im, struct gt_value *x, int first, int last, const int64_t *size, int count)
{
	int64_t shape[2 * GT_MAX_DIMS];
	int ndim = 0;

	for (int i = 0; i < first; i++)
		shape[ndim++] = x->shape[i];
	for (int i = 0; i < count; i++)
		shape[ndim++] = size[i];
	for (int i = last + 1; i < x->ndim; i++)
		shape[ndim++] = x->shape[i];
	gt_import_view(im, gt_reshape(im->g, x, ndim, shape));
}

static void emit_flatten(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size = 1;
	int first, last;

	if (!x || !x->ndim)
		return;
	first = gt_import_dim(im, "start_dim", 0, x->ndim);
	last = gt_import_dim(im, "end_dim", -1, x->ndim);
	for (int i = first; i <= last; i++)
		size *= x->shape[i];
	replace_dims(im, x, first, last, &size, 1);
}

static void emit_unflatten(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS], known = 1;
	int dim, open = -1, count = gt_import_ints(im, "sizes", size, 0, 0);

	if (!x || im->g->err.code)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int i = 0; i < count; i++) {
		if (size[i] == -1)
			open = i;
		else if (size[i] < 1 || __builtin_mul_overflow(known, size[i], &known))
			gt_import_fail(im, "to sizes that are not positive");
	}
	if (open >= 0)
		size[open] = x->shape[dim] / known;
	if (!im->g->err.code)
		replace_dims(im, x, dim, dim, size, count);
}

static void emit_unsqueeze(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	const int64_t one = 1;
	int dim;

	if (!x)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim + 1);
	replace_dims(im, x, dim, dim - 1, &one, 1);
}

static void emit_squeeze(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (x->shape[dim] == 1)
		replace_dims(im, x, dim, dim, NULL, 0);
	else
		gt_import_view(im, x);
}

/* -1 keeps a size. New dimensions come first. */
static void emit_expand(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS];
	int count = gt_import_ints(im, "size", size, 0, 0);

	if (!x || im->g->err.code)
		return;
	if (count && im->exported_batch && size[0] == im->exported_batch)
		size[0] = im->batch;
	for (int i = 0; i < count; i++)
		if (size[i] == -1 && i >= count - x->ndim)
			size[i] = x->shape[i - (count - x->ndim)];
	gt_import_view(im, gt_expand(im->g, x, count, size));
}

/* The tensor itself: nodes overwrite nothing, and layouts are the backend's. */
static void emit_same(struct gt_import *im)
{
	gt_import_view(im, gt_import_tensor(im, "self"));
}

static void emit_clone(struct gt_import *im)
{
	gt_import_result(im, gt_import_tensor(im, "self"));
}

/* ---- moving data ---- */

static void emit_permute(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t dims[GT_MAX_DIMS];
	int order[GT_MAX_DIMS], count = gt_import_ints(im, "dims", dims, 0, 0);
	unsigned met = 0;

	if (!x || im->g->err.code)
		return;
	for (int i = 0; i < count; i++) {
		int64_t dim = dims[i] + (dims[i] < 0 ? x->ndim : 0);

		if (dim >= 0 && dim < x->ndim)
			met |= 1u << dim;
		order[i] = (int)dim;
	}
	if (count != x->ndim || met != (1u << count) - 1)
		gt_import_fail(im, ": the argument 'dims' is no order of %d dimensions", x->ndim);
	else
		gt_import_view(im, gt_permute_dims(im->g, x, order));
}

static void swap_dims(struct gt_import *im, const char *first, const char *second)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int order[GT_MAX_DIMS], a, b;

	if (!x)
		return;
	a = gt_import_dim(im, first, 0, x->ndim);
	b = gt_import_dim(im, second, 1, x->ndim);
	for (int i = 0; i < x->ndim; i++)
		order[i] = i == a ? b : i == b ? a : i;
	if (!im->g->err.code)
		gt_import_view(im, gt_permute_dims(im->g, x, order));
}

static void emit_transpose(struct gt_import *im)
{
	swap_dims(im, "dim0", "dim1");
}

static void emit_swapaxes(struct gt_import *im)
{
	swap_dims(im, "axis0", "axis1");
}

static void emit_t(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	const int order[] = { 1, 0 };

	if (x && x->ndim == 2)
		gt_import_view(im, gt_permute_dims(im->g, x, order));
	else if (x)
		gt_import_view(im, x);
}

/* An index that counts from the end if it is negative, between 0 and `size`. */
static int64_t clip_index(int64_t index, int64_t size)
{
	if (index < 0)
		index += size;
	return index < 0 ? 0 : index > size ? size : index;
}

static void emit_slice(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t start = gt_import_int(im, "start", 0), end = gt_import_int(im, "end", INT64_MAX);
	int64_t step = gt_import_int(im, "step", 1);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	start = clip_index(start, x->shape[dim]);
	end = clip_index(end, x->shape[dim]);
	if (step < 1 || start >= end)
		gt_import_fail(im, "of no elements, or with a negative step");
	else if (!im->g->err.code)
		gt_import_view(im, gt_slice_dim(im->g, x, dim, start, end, step));
}

static void emit_select(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t index = gt_import_int(im, "index", 0);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (index < 0)
		index += x->shape[dim];
	if (index < 0 || index >= x->shape[dim])
		gt_import_fail(im, ": there is no such index");
	else if (!im->g->err.code)
		gt_import_view(im, gt_select(im->g, x, dim, index));
}

/* Bind the parts of x, which have these sizes along a dimension. */
static void split(
    struct gt_import *im, struct gt_value *x, int dim, const int64_t *size, int64_t count)
{
	int64_t at = 0;

	for (int64_t i = 0; i < count && !im->g->err.code; i++) {
		if (size[i] < 1 || size[i] > x->shape[dim] - at)
			gt_import_fail(im, "into parts of other sizes than the tensor's");
		else
			gt_import_part(
			    im, (size_t)i, gt_slice_dim(im->g, x, dim, at, at + size[i], 1));
		at += size[i];
	}
}

/* Parts of `part` elements; the last one may be smaller. */
static void split_evenly(struct gt_import *im, struct gt_value *x, int dim, int64_t part)
{
	int64_t size[GT_IMPORT_TENSORS], left = x->shape[dim], count = 0;

	if (part < 1 || (left + part - 1) / part > GT_IMPORT_TENSORS) {
		gt_import_fail(im, "into no parts, or into more than %d", GT_IMPORT_TENSORS);
		return;
	}
	for (; left > 0; left -= part)
		size[count++] = left < part ? left : part;
	split(im, x, dim, size, count);
}

static void emit_split(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t part = gt_import_int(im, "split_size", 0);

	if (x && x->ndim)
		split_evenly(im, x, gt_import_dim(im, "dim", 0, x->ndim), part);
}

static void emit_chunk(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t chunks = gt_import_int(im, "chunks", 1);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (chunks < 1 || chunks > x->shape[dim])
		gt_import_fail(im, "into no parts");
	else
		split_evenly(im, x, dim, (x->shape[dim] + chunks - 1) / chunks);
}

static void emit_split_with_sizes(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS];
	int count = gt_import_ints(im, "split_sizes", size, 0, 0);

	if (x && x->ndim && !im->g->err.code)
		split(im, x, gt_import_dim(im, "dim", 0, x->ndim), size, count);
}

static void emit_unbind(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int64_t i = 0; i < x->shape[dim] && !im->g->err.code; i++)
		gt_import_part(im, (size_t)i, gt_select(im->g, x, dim, i));
}

static void emit_cat(struct gt_import *im)
{
	struct gt_value *in[GT_IMPORT_TENSORS];
	int count = gt_import_tensors(im, "tensors", in);

	if (count)
		gt_import_result(
		    im, gt_cat(im->g, count, in, gt_import_dim(im, "dim", 0, in[0]->ndim)));
}

static void emit_stack(struct gt_import *im)
{
	struct gt_value *in[GT_IMPORT_TENSORS];
	int count = gt_import_tensors(im, "tensors", in);

	if (count)
		gt_import_result(
		    im, gt_stack(im->g, count, in, gt_import_dim(im, "dim", 0, in[0]->ndim + 1)));
}

static void emit_flip(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dims", dims, 0, 0);
	unsigned bits = 0;

	for (int i = 0; x && i < count; i++)
		if (dims[i] >= -x->ndim && dims[i] < x->ndim)
			bits |= 1u << (dims[i] + (dims[i] < 0 ? x->ndim : 0));
	gt_import_result(im, gt_flip(im->g, x, bits));
}

static void emit_roll(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t shifts[GT_MAX_DIMS], dims[GT_MAX_DIMS], all[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, "shifts", shifts, 0, 0);

	if (gt_import_ints(im, "dims", dims, 0, 0) != count || !count)
		gt_import_fail(im, "without a dimension for each shift");
	if (!x || im->g->err.code)
		return;
	for (int i = 0; i < count; i++)
		if (dims[i] >= -x->ndim && dims[i] < x->ndim)
			all[dims[i] + (dims[i] < 0 ? x->ndim : 0)] += shifts[i];
	gt_import_result(im, gt_roll(im->g, x, all));
}

/* Pairs of numbers before and after each dimension, the last dimension first. */
static void emit_pad(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t pads[GT_MAX_DIMS], before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, "pad", pads, 0, 0);

	if (strcmp(gt_import_string(im, "mode", "constant"), "constant") != 0 ||
	    gt_import_float(im, "value", 0) != 0)
		gt_import_fail(im, "with anything but zeros");
	if (!x || im->g->err.code)
		return;
	if (count % 2 || count / 2 > x->ndim) {
		gt_import_fail(im, ": the argument 'pad' has %d numbers", count);
		return;
	}
	for (int i = 0; i < count / 2; i++) {
		before[x->ndim - 1 - i] = pads[2 * i];
		after[x->ndim - 1 - i] = pads[2 * i + 1];
	}
	gt_import_result(im, gt_pad(im->g, x, before, after));
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
static void emit_attention(struct gt_import *im)
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
	if (q->ndim != 4 || !same_shape(q, k) || !same_shape(q, v) ||
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

/* ---- the table ---- */

const struct gt_aten gt_aten_rows[] = {
	{ "abs.default", emit_unary, GT_F_ABS },
	{ "adaptive_avg_pool2d.default", emit_adaptive_avg_pool2d, 0 },
	{ "add.Scalar", emit_sum_of_two, GT_F_ADD },
	{ "add.Tensor", emit_sum_of_two, GT_F_ADD },
	{ "addcmul.default", emit_addcmul, 0 },
	{ "addmm.default", emit_addmm, 0 },
	{ "alias.default", emit_same, 0 },
	{ "avg_pool2d.default", emit_avg_pool2d, 0 },
	{ "batch_norm.default", emit_batch_norm, 0 },
	{ "cat.default", emit_cat, 0 },
	{ "chunk.default", emit_chunk, 0 },
	{ "clamp.default", emit_clamp, 0 },
	{ "clone.default", emit_clone, 0 },
	{ "contiguous.default", emit_same, 0 },
	{ "conv2d.default", emit_conv2d, 0 },
	{ "cos.default", emit_unary, GT_F_COS },
	{ "div.Scalar", emit_binary, GT_F_DIV },
	{ "div.Tensor", emit_binary, GT_F_DIV },
	{ "dropout.default", emit_dropout, 0 },
	{ "elu.default", emit_elu, 0 },
	{ "embedding.default", emit_embedding, 0 },
	{ "erf.default", emit_unary, GT_F_ERF },
	{ "exp.default", emit_unary, GT_F_EXP },
	{ "expand.default", emit_expand, 0 },
	{ "expm1.default", emit_unary, GT_F_EXPM1 },
	{ "flatten.using_ints", emit_flatten, 0 },
	{ "flip.default", emit_flip, 0 },
	{ "gelu.default", emit_gelu, 0 },
	{ "group_norm.default", emit_group_norm, 0 },
	{ "hardsigmoid.default", emit_hardsigmoid, 0 },
	{ "hardswish.default", emit_unary, GT_F_HARDSWISH },
	{ "hardtanh.default", emit_hardtanh, 0 },
	{ "layer_norm.default", emit_layer_norm, 0 },
	{ "leaky_relu.default", emit_leaky_relu, 0 },
	{ "linalg_vector_norm.default", emit_vector_norm, 0 },
	{ "linear.default", emit_linear, 0 },
	{ "log.default", emit_unary, GT_F_LOG },
	{ "log1p.default", emit_unary, GT_F_LOG1P },
	{ "max_pool2d.default", emit_max_pool2d, 0 },
	{ "maximum.default", emit_binary, GT_F_MAX },
	{ "mean.default", emit_mean, 0 },
	{ "mean.dim", emit_mean, 0 },
	{ "minimum.default", emit_binary, GT_F_MIN },
	{ "mish.default", emit_mish, 0 },
	{ "mul.Scalar", emit_binary, GT_F_MUL },
	{ "mul.Tensor", emit_binary, GT_F_MUL },
	{ "neg.default", emit_unary, GT_F_NEG },
	{ "pad.default", emit_pad, 0 },
	{ "permute.default", emit_permute, 0 },
	{ "pow.Tensor_Scalar", emit_pow, 0 },
	{ "reciprocal.default", emit_reciprocal, 0 },
	{ "relu.default", emit_relu, 0 },
	{ "reshape.default", emit_reshape, 0 },
	{ "roll.default", emit_roll, 0 },
	{ "rsqrt.default", emit_unary, GT_F_RSQRT },
	{ "rsub.Scalar", emit_reverse_difference, 0 },
	{ "scaled_dot_product_attention.default", emit_attention, 0 },
	{ "select.int", emit_select, 0 },
	{ "sigmoid.default", emit_unary, GT_F_SIGMOID },
	{ "silu.default", emit_unary, GT_F_SILU },
	{ "sin.default", emit_unary, GT_F_SIN },
	{ "slice.Tensor", emit_slice, 0 },
	{ "softplus.default", emit_softplus, 0 },
	{ "split.Tensor", emit_split, 0 },
	{ "split_with_sizes.default", emit_split_with_sizes, 0 },
	{ "sqrt.default", emit_unary, GT_F_SQRT },
	{ "squeeze.dim", emit_squeeze, 0 },
	{ "stack.default", emit_stack, 0 },
	{ "sub.Scalar", emit_sum_of_two, GT_F_SUB },
	{ "sub.Tensor", emit_sum_of_two, GT_F_SUB },
	{ "sum.default", emit_sum, 0 },
	{ "sum.dim_IntList", emit_sum, 0 },
	{ "swapaxes.default", emit_swapaxes, 0 },
	{ "t.default", emit_t, 0 },
	{ "tanh.default", emit_unary, GT_F_TANH },
	{ "transpose.int", emit_transpose, 0 },
	{ "unbind.int", emit_unbind, 0 },
	{ "unflatten.int", emit_unflatten, 0 },
	{ "unsqueeze.default", emit_unsqueeze, 0 },
	{ "view.default", emit_view, 0 },
	{ NULL, NULL, 0 },
};

/* Whether `target` has this name, or overwrites its first argument: "relu_.default". */
static bool names_row(const char *target, const char *name)
{
	size_t length = strcspn(name, ".");

	if (strncmp(target, name, length) != 0)
		return false;
	target += length;
	return !strcmp(target + (*target == '_'), name + length);
}

const struct gt_aten *gt_aten_find(const char *target)
{
	const char *aten = "torch.ops.aten.";

	if (strncmp(target, aten, strlen(aten)) != 0)
		return NULL;
	for (const struct gt_aten *row = gt_aten_rows; row->name; row++)
		if (names_row(target + strlen(aten), row->name))
			return row;
	return NULL;
}
