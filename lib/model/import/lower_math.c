/* lower_math.c - operators of ONNX that compute element by element, and sums. */
#include <math.h>
#include <string.h>

#include "lib/ckpt/onnx/onnx.h"
#include "lib/model/import/lower.h"

/* ---- element by element ---- */

void gt_lower_cast(struct gt_import *im)
{
	enum gt_dtype to = GT_F32;

	if (!strcmp(im->lowering->op, "CastLike"))
		to = gt_lower_need(im, 1) ? gt_lower_type(im, 1) : GT_F32;
	else if (!gt_onnx_dtype(gt_import_int(im, "to", 0), &to))
		gt_import_fail(im, "to the type %lld", (long long)gt_import_int(im, "to", 0));
	gt_lower_call(im, "to.dtype", to, gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), NULL);
}

/* A function of two arguments, of any number of inputs: f(f(a, b), c). */
static const char *chain(struct gt_import *im, const char *target, const char *out)
{
	int count = gt_lower_inputs(im);
	const char *result = gt_lower_need(im, 0);

	for (int i = 1; i < count; i++)
		result = gt_lower_call(im, target, gt_lower_type(im, 0),
		    i + 1 == count ? out : gt_lower_make_name(im), "self", gt_lower_tensor(result),
		    "other", gt_lower_tensor(gt_lower_need(im, i)), NULL);
	if (count == 1)
		gt_lower_alias(im, result, out);
	return out;
}

void gt_lower_chain(struct gt_import *im)
{
	chain(im, im->lowering->target, gt_lower_output(im, 0));
}

void gt_lower_mean(struct gt_import *im)
{
	const char *sum = chain(im, "add.Tensor", gt_lower_make_name(im));

	gt_lower_call(im, "div.Scalar", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(sum), "other", gt_lower_float(gt_lower_inputs(im)), NULL);
}

void gt_lower_clip(struct gt_import *im)
{
	double low = gt_lower_number_of(im, 1, "min", -INFINITY);
	double high = gt_lower_number_of(im, 2, "max", INFINITY);

	gt_lower_call(im, "clamp.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "min", gt_lower_float(low), "max",
	    gt_lower_float(high), NULL);
}

/* Whole numbers are divided as in C. */
void gt_lower_divide(struct gt_import *im)
{
	static const struct gt_lowering real = { "Div", gt_lower_plain, "div.Tensor", "self other",
		false };
	enum gt_dtype type = gt_lower_type(im, 0);

	if (gt_dtype_is_float(type)) {
		im->lowering = &real;
		gt_lower_plain(im);
		return;
	}
	gt_lower_call(im, "div.Tensor_mode", type, gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "other", gt_lower_tensor(gt_lower_need(im, 1)),
	    "rounding_mode", gt_lower_string("trunc"), NULL);
}

void gt_lower_cumsum(struct gt_import *im)
{
	double axis = gt_lower_number_of(im, 1, "axis", 0);

	if (gt_import_int(im, "exclusive", 0) || gt_import_int(im, "reverse", 0))
		gt_import_fail(im, "with exclusive or reverse");
	gt_lower_call(im, "cumsum.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "dim", gt_lower_int(gt_lower_whole(axis)), NULL);
}

/* The file may have been written in training or not: a dropout is active in training here. */
void gt_lower_dropout(struct gt_import *im)
{
	double p = gt_lower_number_of(im, 1, "ratio", 0.5);

	gt_lower_call(im, "dropout.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "input",
	    gt_lower_tensor(gt_lower_need(im, 0)), "p", gt_lower_float(p), NULL);
}

/* Elu and Celu take alpha. Of Selu, the two numbers are fixed in PyTorch. */
void gt_lower_elu(struct gt_import *im)
{
	double alpha = gt_import_float(im, "alpha", 1), gamma = gt_import_float(im, "gamma", 0);
	bool selu = !strcmp(im->lowering->op, "Selu");

	if (selu && ((alpha != 1 && fabs(alpha - 1.6732632) > 1e-5) ||
	                (gamma != 0 && fabs(gamma - 1.0507010) > 1e-5)))
		gt_import_fail(im, "with other numbers than the usual ones");
	gt_lower_call(im, im->lowering->target, gt_lower_type(im, 0), gt_lower_output(im, 0),
	    "self", gt_lower_tensor(gt_lower_need(im, 0)), "alpha",
	    selu ? NULL : gt_lower_float(alpha), NULL);
}

void gt_lower_gelu(struct gt_import *im)
{
	const char *kind = gt_import_string(im, "approximate", "none");

	gt_lower_call(im, "gelu.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "approximate", gt_lower_string(kind), NULL);
}

/* max(0, min(1, alpha * x + beta)) */
void gt_lower_hard_sigmoid(struct gt_import *im)
{
	double alpha = gt_import_float(im, "alpha", 0.2), beta = gt_import_float(im, "beta", 0.5);
	const char *x = gt_lower_need(im, 0), *out = gt_lower_output(im, 0);
	enum gt_dtype type = gt_lower_type(im, 0);

	if (fabs(alpha - 1.0 / 6) < 1e-6 && beta == 0.5) {
		gt_lower_call(
		    im, "hardsigmoid.default", type, out, "self", gt_lower_tensor(x), NULL);
		return;
	}
	x = gt_lower_call(im, "mul.Scalar", type, gt_lower_make_name(im), "self",
	    gt_lower_tensor(x), "other", gt_lower_float(alpha), NULL);
	x = gt_lower_call(im, "add.Scalar", type, gt_lower_make_name(im), "self",
	    gt_lower_tensor(x), "other", gt_lower_float(beta), NULL);
	gt_lower_call(im, "clamp.default", type, out, "self", gt_lower_tensor(x), "min",
	    gt_lower_float(0), "max", gt_lower_float(1), NULL);
}

void gt_lower_is_nan(struct gt_import *im)
{
	const char *x = gt_lower_need(im, 0);

	gt_lower_call(im, "ne.Tensor", GT_BOOL, gt_lower_output(im, 0), "self", gt_lower_tensor(x),
	    "other", gt_lower_tensor(x), NULL);
}

void gt_lower_leaky_relu(struct gt_import *im)
{
	gt_lower_call(im, "leaky_relu.default", gt_lower_type(im, 0), gt_lower_output(im, 0),
	    "self", gt_lower_tensor(gt_lower_need(im, 0)), "negative_slope",
	    gt_lower_float(gt_import_float(im, "alpha", 0.01)), NULL);
}

void gt_lower_reciprocal(struct gt_import *im)
{
	gt_lower_call(im, "div.Tensor", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_float(1), "other", gt_lower_tensor(gt_lower_need(im, 0)), NULL);
}

void gt_lower_softmax(struct gt_import *im)
{
	gt_lower_call(im, im->lowering->target, gt_lower_type(im, 0), gt_lower_output(im, 0),
	    "self", gt_lower_tensor(gt_lower_need(im, 0)), "dim",
	    gt_lower_int(gt_import_int(im, "axis", -1)), NULL);
}

/* x / (1 + |x|) */
void gt_lower_softsign(struct gt_import *im)
{
	const char *x = gt_lower_need(im, 0), *d;
	enum gt_dtype type = gt_lower_type(im, 0);

	d = gt_lower_call(
	    im, "abs.default", type, gt_lower_make_name(im), "self", gt_lower_tensor(x), NULL);
	d = gt_lower_call(im, "add.Scalar", type, gt_lower_make_name(im), "self",
	    gt_lower_tensor(d), "other", gt_lower_float(1), NULL);
	gt_lower_call(im, "div.Tensor", type, gt_lower_output(im, 0), "self", gt_lower_tensor(x),
	    "other", gt_lower_tensor(d), NULL);
}

void gt_lower_threshold(struct gt_import *im)
{
	gt_lower_call(im, "threshold.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "threshold",
	    gt_lower_float(gt_import_float(im, "alpha", 1)), "value", gt_lower_float(0), NULL);
}

/* ---- sums ---- */

/* Reduce x over the axes, which are an attribute up to opset 17, and an input in later ones. */
static void reduce(struct gt_import *im, const char *x, const char *target)
{
	int64_t axes[GT_MAX_DIMS];
	int count = gt_import_ints(im, "axes", axes, 0, 0);
	bool keep = gt_import_int(im, "keepdims", 1) != 0;

	if (!count && gt_lower_input(im, 1))
		count = gt_lower_sizes(im, 1, "axes", axes);
	if (count < 0 || im->g->err.code)
		return;
	if (!count && gt_import_int(im, "noop_with_empty_axes", 0))
		gt_lower_alias(im, x, gt_lower_output(im, 0));
	else
		gt_lower_call(im, target, gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
		    gt_lower_tensor(x), "dim", count ? gt_lower_ints(count, axes) : NULL, "keepdim",
		    gt_lower_bool(keep), NULL);
}

void gt_lower_reduce(struct gt_import *im)
{
	reduce(im, gt_lower_need(im, 0), im->lowering->target);
}

void gt_lower_reduce_l2(struct gt_import *im)
{
	reduce(im, gt_lower_need(im, 0), "linalg_vector_norm.default");
}

void gt_lower_reduce_square(struct gt_import *im)
{
	const char *x = gt_lower_need(im, 0);

	x = gt_lower_call(im, "mul.Tensor", gt_lower_type(im, 0), gt_lower_make_name(im), "self",
	    gt_lower_tensor(x), "other", gt_lower_tensor(x), NULL);
	if (x)
		reduce(im, x, "sum.dim_IntList");
}
