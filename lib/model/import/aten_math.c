/* aten_math.c - functions of PyTorch that compute: element by element, and sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/import/aten.h"

/* ---- element by element ---- */

void gt_aten_unary(struct gt_import *im)
{
	gt_import_result(im, gt_unary(im->g, im->row->function, gt_import_tensor(im, "self")));
}

void gt_aten_relu(struct gt_import *im)
{
	gt_import_result(im, gt_relu(im->g, gt_import_tensor(im, "self")));
}

void gt_aten_gelu(struct gt_import *im)
{
	bool tanh = !strcmp(gt_import_string(im, "approximate", "none"), "tanh");
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(im, gt_gelu(im->g, x, tanh ? GT_GELU_TANH : GT_GELU_ERF));
}

void gt_aten_hardtanh(struct gt_import *im)
{
	gt_import_result(
	    im, gt_hardtanh(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "min_val", -1),
	            gt_import_float(im, "max_val", 1)));
}

void gt_aten_hardsigmoid(struct gt_import *im)
{
	gt_import_result(im, gt_hardsigmoid(im->g, gt_import_tensor(im, "self")));
}

void gt_aten_leaky_relu(struct gt_import *im)
{
	gt_import_result(im, gt_leaky_relu(im->g, gt_import_tensor(im, "self"),
	                         gt_import_float(im, "negative_slope", 0.01)));
}

void gt_aten_celu(struct gt_import *im)
{
	gt_import_result(
	    im, gt_celu(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "alpha", 1)));
}

void gt_aten_selu(struct gt_import *im)
{
	gt_import_result(im, gt_selu(im->g, gt_import_tensor(im, "self")));
}

void gt_aten_elu(struct gt_import *im)
{
	if (gt_import_float(im, "scale", 1) != 1 || gt_import_float(im, "input_scale", 1) != 1)
		gt_import_fail(im, "with a scale");
	gt_import_result(
	    im, gt_elu(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "alpha", 1)));
}

void gt_aten_softplus(struct gt_import *im)
{
	gt_import_result(
	    im, gt_softplus(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "beta", 1),
	            gt_import_float(im, "threshold", 20)));
}

void gt_aten_mish(struct gt_import *im)
{
	gt_import_result(im, gt_mish(im->g, gt_import_tensor(im, "self")));
}

void gt_aten_log_sigmoid(struct gt_import *im)
{
	gt_import_result(im, gt_log_sigmoid(im->g, gt_import_tensor(im, "self")));
}

void gt_aten_hardshrink(struct gt_import *im)
{
	gt_import_result(im,
	    gt_hardshrink(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "lambd", 0.5)));
}

void gt_aten_softshrink(struct gt_import *im)
{
	gt_import_result(im,
	    gt_softshrink(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "lambd", 0.5)));
}

void gt_aten_threshold(struct gt_import *im)
{
	gt_import_result(
	    im, gt_threshold(im->g, gt_import_tensor(im, "self"),
	            gt_import_float(im, "threshold", 0), gt_import_float(im, "value", 0)));
}

/* A weight for all elements, or one for each channel. */
void gt_aten_prelu(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *weight = gt_import_tensor(im, "weight");
	int64_t shape[GT_MAX_DIMS];

	if (!x || !weight || im->g->err.code)
		return;
	for (int i = 0; i < x->ndim; i++)
		shape[i] = i == 1 ? gt_value_elements(weight) : 1;
	if (x->ndim > 1 && gt_value_elements(weight) > 1)
		weight = gt_reshape(im->g, weight, x->ndim, shape);
	gt_import_result(im, gt_prelu(im->g, x, weight));
}

void gt_aten_glu(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");

	if (x)
		gt_import_result(im, gt_glu(im->g, x, gt_import_dim(im, "dim", -1, x->ndim)));
}

void gt_aten_clamp(struct gt_import *im)
{
	gt_import_result(
	    im, gt_clamp(im->g, gt_import_tensor(im, "self"), gt_import_float(im, "min", -INFINITY),
	            gt_import_float(im, "max", INFINITY)));
}

void gt_aten_binary(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		gt_import_operand(im, "other") };

	gt_import_result(im, gt_apply(im->g, im->row->function, operands));
}

/* The same with the arguments in the other order: a > b is b < a. */
void gt_aten_swapped(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "other"),
		gt_import_operand(im, "self") };

	gt_import_result(im, gt_apply(im->g, im->row->function, operands));
}

void gt_aten_where(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "condition"),
		gt_import_operand(im, "self"), gt_import_operand(im, "other") };

	gt_import_result(im, gt_apply(im->g, GT_F_WHERE, operands));
}

void gt_aten_masked_fill(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "mask"),
		gt_import_operand(im, "value"), gt_import_operand(im, "self") };

	gt_import_result(im, gt_apply(im->g, GT_F_WHERE, operands));
}

void gt_aten_square(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(im, gt_binary(im->g, GT_F_MUL, x, x));
}

/* Booleans that are computed from data are float32 in gtrain, 0 or 1, and so are numbers: only a
 * conversion that rounds, or to booleans, changes them. */
void gt_aten_to(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	enum gt_dtype to = gt_import_result_type(im), from = gt_import_type(im, "self");
	const struct gt_map_operand operands[] = { { .value = x },
		{ .is_number = true, .number = 0 } };

	if (!x || im->g->err.code)
		return;
	if (to == from || (to == GT_F32 && x->dtype == GT_F32))
		gt_import_view(im, x);
	else if (to == GT_F32)
		gt_import_result(im, gt_unary(im->g, GT_F_COPY, x));
	else if (to == GT_BOOL)
		gt_import_result(im, gt_apply(im->g, GT_F_NE, operands));
	else if (!gt_dtype_is_float(to) && !gt_dtype_is_float(from))
		gt_import_view(im, x);
	else if (!gt_dtype_is_float(to) && x->dtype == GT_F32)
		gt_import_result(im, gt_cast_to(im->g, x, GT_I32));
	else
		gt_import_fail(im, "from %s to %s", gt_dtype_name(from), gt_dtype_name(to));
}

void gt_aten_pow(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		gt_import_operand(im, "exponent") };

	gt_import_result(im, gt_apply(im->g, GT_F_POW, operands));
}

void gt_aten_reciprocal(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { { .is_number = true, .number = 1 },
		gt_import_operand(im, "self") };

	gt_import_result(im, gt_apply(im->g, GT_F_DIV, operands));
}

/* The quotient without its fraction, rounded down. */
void gt_aten_floor_divide(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		gt_import_operand(im, "other") };

	gt_import_result(im, gt_unary(im->g, GT_F_FLOOR, gt_apply(im->g, GT_F_DIV, operands)));
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

/* Whether a tensor counts the batches of a batch norm, also as the result of a node that has
 * counted one: a module that is called twice counts twice. */
static bool counts_batches(const struct gt_binding *b)
{
	const struct gt_network_tensor *t = b->owner ? b->owner->tensor : b->tensor;

	return t && strstr(t->name, "num_batches_tracked");
}

/* self + alpha * other, or the difference. A plain sum has an op of its own, which passes fuse with
 * others. */
void gt_aten_sum_of_two(struct gt_import *im)
{
	const struct gt_binding *to = gt_import_binding(im, "self");
	struct gt_map_operand operands[2];

	/* The batches of a batch norm are counted by its own op (find_counter()). */
	if (to && counts_batches(to)) {
		gt_import_view(im, to->value);
		return;
	}
	operands[0] = gt_import_operand(im, "self");
	operands[1] = scale(im, gt_import_operand(im, "other"), gt_import_float(im, "alpha", 1));
	if (im->row->function == GT_F_ADD &&
	    gt_import_same_shape(operands[0].value, operands[1].value))
		gt_import_result(im, gt_add(im->g, operands[0].value, operands[1].value));
	else
		gt_import_result(im, gt_apply(im->g, im->row->function, operands));
}

void gt_aten_reverse_difference(struct gt_import *im)
{
	const struct gt_map_operand operands[] = { gt_import_operand(im, "other"),
		scale(im, gt_import_operand(im, "self"), gt_import_float(im, "alpha", 1)) };

	gt_import_result(im, gt_apply(im->g, GT_F_SUB, operands));
}

/* self + value * tensor1 * tensor2 */
void gt_aten_addcmul(struct gt_import *im)
{
	const struct gt_map_operand factors[] = { gt_import_operand(im, "tensor1"),
		gt_import_operand(im, "tensor2") };
	const struct gt_map_operand product = { .value = gt_apply(im->g, GT_F_MUL, factors) };
	const struct gt_map_operand operands[] = { gt_import_operand(im, "self"),
		scale(im, product, gt_import_float(im, "value", 1)) };

	gt_import_result(im, gt_apply(im->g, GT_F_ADD, operands));
}

/* A dropout is active in training, whatever it was at the export. */
void gt_aten_dropout(struct gt_import *im)
{
	struct gt_value *x = gt_import_first(im);

	if (im->train && im->rng)
		x = gt_dropout(im->g, x, im->rng, gt_import_float(im, "p", 0.5));
	gt_import_result(im, x);
}

/* Draws of 1 with probability p, else 0, in the shape of the first argument: the paths of a network
 * with stochastic depth that are kept. In evaluation, their mean stands for them: networks divide
 * by it, which leaves 1. */
void gt_aten_bernoulli(struct gt_import *im)
{
	struct gt_value *x = gt_import_first(im), *all;
	double p = gt_import_float(im, "p", 0.5);
	struct gt_map_operand operands[] = { { NULL }, { .is_number = true, .number = 0 } };

	if (!x || im->g->err.code)
		return;
	if (!(p > 0 && p <= 1)) {
		gt_import_fail(im, "with a probability of %g", p);
		return;
	}
	all = gt_fill(im->g, GT_F32, x->ndim, x->shape, im->train ? 1 : p);
	if (im->train && im->rng && p < 1) {
		operands[0].value = gt_dropout(im->g, all, im->rng, 1 - p);
		all = gt_apply(im->g, GT_F_NE, operands);
	}
	gt_import_result(im, all);
}

/* A channel of a sample is dropped as a whole: one draw for each. */
void gt_aten_feature_dropout(struct gt_import *im)
{
	struct gt_value *x = gt_import_first(im), *kept;
	double p = gt_import_float(im, "p", 0.5);
	int64_t shape[GT_MAX_DIMS];

	if (x && x->ndim < 2)
		gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	if (x && im->train && im->rng && !im->g->err.code) {
		for (int i = 0; i < x->ndim; i++)
			shape[i] = i < 2 ? x->shape[i] : 1;
		kept = gt_dropout(im->g, gt_fill(im->g, GT_F32, x->ndim, shape, 1), im->rng, p);
		x = gt_binary(im->g, GT_F_MUL, x, kept);
	}
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

static struct gt_value *scale_value(struct gt_import *im, struct gt_value *x, double factor)
{
	return scale(im, (struct gt_map_operand){ .value = x }, factor).value;
}

/* The mean of x over the dimensions `bits`. */
static struct gt_value *mean_of(struct gt_import *im, struct gt_value *x, unsigned bits, bool keep)
{
	int64_t count = 1;

	for (int i = 0; x && i < x->ndim; i++)
		count *= bits >> i & 1 ? x->shape[i] : 1;
	return scale_value(im, gt_sum(im->g, x, bits, keep), 1 / (double)count);
}

void gt_aten_sum(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool keep = gt_import_bool(im, "keepdim", false);

	if (x && !gt_dtype_is_real(x->dtype)) /* whole numbers of the data, such as a mask */
		x = gt_unary(im->g, GT_F_COPY, x);
	if (x)
		gt_import_result(im, gt_sum(im->g, x, read_dims(im, x), keep));
}

/* A triangle of ones: row i has i + 1 of them. */
static struct gt_value *triangle(struct gt_import *im, int64_t n)
{
	float *ones = gt_calloc((size_t)n * (size_t)n, sizeof(*ones), &im->g->err);
	struct gt_value *v;

	if (!ones)
		return NULL;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k <= i; k++)
			ones[i * n + k] = 1;
	v = gt_constant(im->g, GT_F32, 2, (int64_t[]){ n, n }, ones);
	free(ones);
	return v;
}

/* Sums up to each element of the last dimension. A product with a triangle of ones may be computed
 * in 16 bits, so whole numbers are multiplied and summed. */
static struct gt_value *sum_up(struct gt_import *im, struct gt_value *x)
{
	int64_t n = x->shape[x->ndim - 1], shape[GT_MAX_DIMS];
	struct gt_value *terms;

	if (gt_dtype_is_float(gt_import_result_type(im)))
		return gt_matmul(im->g, x, triangle(im, n), NULL, false, true);
	if (x->ndim == GT_MAX_DIMS)
		return gt_import_fail(im, "of %d dimensions", x->ndim);
	memcpy(shape, x->shape, sizeof(shape));
	shape[x->ndim - 1] = 1;
	shape[x->ndim] = n;
	terms =
	    gt_binary(im->g, GT_F_MUL, gt_reshape(im->g, x, x->ndim + 1, shape), triangle(im, n));
	return gt_sum(im->g, terms, 1u << x->ndim, false);
}

void gt_aten_cumsum(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim, order[GT_MAX_DIMS];

	if (!x || !x->ndim || im->g->err.code)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int i = 0; i < x->ndim; i++)
		order[i] = i == dim ? x->ndim - 1 : i == x->ndim - 1 ? dim : i;
	x = gt_permute_dims(im->g, x, order);
	if (!x)
		return;
	gt_import_result(im, gt_permute_dims(im->g, sum_up(im, x), order));
}

void gt_aten_mean(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool keep = gt_import_bool(im, "keepdim", false);

	if (x)
		gt_import_result(im, mean_of(im, x, read_dims(im, x), keep));
}

/* The root of the sum of squares. */
void gt_aten_vector_norm(struct gt_import *im)
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
