/* fold_math.c - functions of PyTorch on constants: element by element, and new constants. */
#include <math.h>
#include <string.h>

#include "lib/graph/expr.h"
#include "lib/model/import/fold.h"

typedef struct gt_constant constant;

void *gt_fold_fail_shapes(struct gt_import *im)
{
	return gt_import_fail(im, "of constants whose shapes do not fit");
}

/* Bind the result, NULL if shapes do not fit. */
void gt_fold_finish(struct gt_import *im, constant *c)
{
	if (c)
		gt_import_fold(im, 0, c);
	else
		gt_fold_fail_shapes(im);
}

constant *gt_fold_self(struct gt_import *im)
{
	return gt_import_constant(im, "self");
}

/* A constant without dimensions. */
static constant *of_number(struct gt_import *im, double x)
{
	constant *c = gt_constant_new(&im->constants, GT_F64, 0, NULL);

	if (c)
		*c->elements = x;
	return c;
}

/* ---- element by element ---- */

/* The argument with index i: a constant or a number. */
static constant *read_operand(struct gt_import *im, size_t i)
{
	const char *name = gt_import_argument(im, i);
	constant *c = gt_import_constant(im, name);

	return c ? c : of_number(im, gt_import_float(im, name, NAN));
}

/* Compute a function whose arguments are those of the node with the indices `order`. */
static void fold_operands(struct gt_import *im, enum gt_function f, const size_t *order)
{
	const constant *in[3] = { NULL };
	int count = gt_function_arguments(f);

	for (int k = 0; k < count; k++) {
		in[k] = read_operand(im, order[k]);
		if (!in[k])
			return;
	}
	gt_fold_finish(
	    im, gt_constant_apply(&im->constants, f, gt_import_result_type(im), count, in));
}

void gt_fold_function(struct gt_import *im)
{
	fold_operands(im, im->fold->function, (size_t[]){ 0, 1, 2 });
}

void gt_fold_swapped(struct gt_import *im)
{
	fold_operands(im, im->fold->function, (size_t[]){ 1, 0 });
}

/* masked_fill(self, mask, value) is where(mask, value, self). */
void gt_fold_masked(struct gt_import *im)
{
	fold_operands(im, GT_F_WHERE, (size_t[]){ 1, 2, 0 });
}

constant *gt_fold_apply2(
    struct gt_import *im, enum gt_function f, enum gt_dtype dtype, constant *a, constant *b)
{
	const constant *in[] = { a, b };

	return a && b ? gt_constant_apply(&im->constants, f, dtype, 2, in) : NULL;
}

/* self + alpha * other, or the difference */
void gt_fold_sum(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);
	double alpha = gt_import_float(im, "alpha", 1);

	if (alpha != 1)
		b = gt_fold_apply2(im, GT_F_MUL, GT_F64, b, of_number(im, alpha));
	gt_fold_finish(im, gt_fold_apply2(im, im->fold->function, gt_import_result_type(im), a, b));
}

void gt_fold_reverse_difference(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);

	if (gt_import_float(im, "alpha", 1) != 1)
		gt_import_fail(im, "of constants with alpha");
	gt_fold_finish(im, gt_fold_apply2(im, GT_F_SUB, gt_import_result_type(im), b, a));
}

/* self / other, rounded down where `floor` is set, or towards 0. */
static void fold_whole_quotient(struct gt_import *im, bool floor)
{
	constant *q =
	    gt_fold_apply2(im, GT_F_DIV, GT_F64, read_operand(im, 0), read_operand(im, 1));
	const constant *in[] = { q };

	if (q && floor)
		q = gt_constant_apply(&im->constants, GT_F_FLOOR, GT_F64, 1, in);
	if (q && !floor)
		q = gt_fold_apply2(im, GT_F_ADD, GT_I64, q, of_number(im, 0));
	gt_fold_finish(im,
	    q ? gt_fold_apply2(im, GT_F_ADD, gt_import_result_type(im), q, of_number(im, 0)) : q);
}

void gt_fold_floor_divide(struct gt_import *im)
{
	fold_whole_quotient(im, true);
}

void gt_fold_divide(struct gt_import *im)
{
	const char *mode = gt_import_string(im, "rounding_mode", "");

	if (*mode)
		fold_whole_quotient(im, !strcmp(mode, "floor"));
	else
		gt_fold_function(im);
}

/* The remainder has the sign of the divisor: a - floor(a / b) * b. */
void gt_fold_remainder(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);
	constant *q = gt_fold_apply2(im, GT_F_DIV, GT_F64, a, b);
	const constant *in[] = { q };

	q = q ? gt_constant_apply(&im->constants, GT_F_FLOOR, GT_F64, 1, in) : NULL;
	gt_fold_finish(im, gt_fold_apply2(im, GT_F_SUB, gt_import_result_type(im), a,
	                       gt_fold_apply2(im, GT_F_MUL, GT_F64, q, b)));
}

void gt_fold_clamp(struct gt_import *im)
{
	constant *c = gt_fold_self(im);
	enum gt_dtype type = gt_import_result_type(im);

	c = gt_fold_apply2(
	    im, GT_F_MAX, type, c, of_number(im, gt_import_float(im, "min", -INFINITY)));
	c = gt_fold_apply2(
	    im, GT_F_MIN, type, c, of_number(im, gt_import_float(im, "max", INFINITY)));
	gt_fold_finish(im, c);
}

/* Logical functions of numbers take them as "not 0". */
void gt_fold_logical(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);

	a = gt_fold_apply2(im, GT_F_NE, GT_BOOL, a, of_number(im, 0));
	b = gt_fold_apply2(im, GT_F_NE, GT_BOOL, b, of_number(im, 0));
	gt_fold_finish(im, gt_fold_apply2(im, im->fold->function, GT_BOOL, a, b));
}

/* Bits of numbers are not computed with. */
void gt_fold_bitwise(struct gt_import *im)
{
	if (gt_import_result_type(im) != GT_BOOL)
		gt_import_fail(im, "of numbers that are not booleans");
	else
		gt_fold_logical(im);
}

void gt_fold_not(struct gt_import *im)
{
	const constant *in[] = { gt_fold_self(im) };

	if (gt_import_result_type(im) != GT_BOOL)
		gt_import_fail(im, "of numbers that are not booleans");
	else
		gt_fold_finish(im, gt_constant_apply(&im->constants, GT_F_NOT, GT_BOOL, 1, in));
}

/* ---- new constants ---- */

/* A constant of the type and shape of the result. */
static constant *new_of(struct gt_import *im, int ndim, const int64_t *shape, double value)
{
	constant *c = gt_constant_new(&im->constants, gt_import_result_type(im), ndim, shape);
	int64_t count = c ? gt_constant_count(c) : 0;

	for (int64_t i = 0; i < count; i++)
		c->elements[i] = gt_constant_round(c->dtype, value);
	return c;
}

/* The value of the new elements: an argument of the node, or 0 or 1 by the function's name. */
static double read_fill(struct gt_import *im)
{
	const char *name = im->fold->name;

	return gt_import_float(
	    im, "fill_value", strstr(name, "ones") ? 1 : gt_import_float(im, "s", 0));
}

void gt_fold_full(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_import_ints(im, "size", shape, 0, 0);

	if (!im->g->err.code)
		gt_fold_finish(im, new_of(im, ndim, shape, read_fill(im)));
}

/* The shape is that of the first argument, which may be data. */
void gt_fold_full_like(struct gt_import *im)
{
	const constant *c = gt_import_constant(im, "self");
	const struct gt_binding *b = gt_import_binding(im, "self");

	if (!b || im->g->err.code)
		return;
	if (c)
		gt_fold_finish(im, new_of(im, c->ndim, c->shape, read_fill(im)));
	else
		gt_fold_finish(im, new_of(im, b->value->ndim, b->value->shape, read_fill(im)));
}

void gt_fold_arange(struct gt_import *im)
{
	double start = gt_import_float(im, "start", 0), end = gt_import_float(im, "end", 0);
	double step = gt_import_float(im, "step", 1), count = ceil((end - start) / step);
	constant *c;

	if (im->g->err.code)
		return;
	if (!(count >= 0 && count <= GT_CONSTANT_ELEMENTS)) {
		gt_import_fail(im, "of %g elements", count);
		return;
	}
	c = new_of(im, 1, (int64_t[]){ (int64_t)count }, 0);
	for (int64_t i = 0; c && i < c->shape[0]; i++)
		c->elements[i] = gt_constant_round(c->dtype, start + (double)i * step);
	gt_fold_finish(im, c);
}

void gt_fold_linspace(struct gt_import *im)
{
	double start = gt_import_float(im, "start", 0), end = gt_import_float(im, "end", 0);
	int64_t steps = gt_import_int(im, "steps", 0);
	constant *c = im->g->err.code ? NULL : new_of(im, 1, &steps, 0);

	for (int64_t i = 0; c && i < steps; i++)
		c->elements[i] = gt_constant_round(c->dtype,
		    steps > 1 ? start + (end - start) * (double)i / (double)(steps - 1) : start);
	gt_fold_finish(im, c);
}

/* ---- copies ---- */

constant *gt_fold_copy_of(struct gt_import *im, const constant *c, enum gt_dtype dtype)
{
	constant *copy = c ? gt_constant_new(&im->constants, dtype, c->ndim, c->shape) : NULL;

	if (copy && gt_constant_write(&im->constants, copy, c))
		return copy;
	return NULL;
}

void gt_fold_same(struct gt_import *im)
{
	gt_fold_finish(im, gt_import_constant(im, gt_import_argument(im, 0)));
}

void gt_fold_copy(struct gt_import *im)
{
	gt_fold_finish(im, gt_fold_copy_of(im, gt_fold_self(im), gt_import_result_type(im)));
}

/* A conversion to the same type is the tensor itself. */
void gt_fold_to(struct gt_import *im)
{
	constant *c = gt_fold_self(im);

	if (c && c->dtype != gt_import_result_type(im))
		c = gt_fold_copy_of(im, c, gt_import_result_type(im));
	gt_fold_finish(im, c);
}

/* copy_(self, src) and fill_(self, value) have the shape of self, into which they are written. */
void gt_fold_overwrite(struct gt_import *im)
{
	gt_fold_finish(im, read_operand(im, 1));
}

void gt_fold_zero(struct gt_import *im)
{
	gt_fold_finish(im, of_number(im, 0));
}
