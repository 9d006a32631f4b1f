/* fold.c - functions of PyTorch on constants, which are computed while a network is imported. */
#include <math.h>
#include <string.h>

#include "lib/graph/expr.h"
#include "lib/model/import/fold.h"

typedef struct gt_constant constant;

static constant *fail_shapes(struct gt_import *im)
{
	return gt_import_fail(im, "of constants whose shapes do not fit");
}

/* Bind the result, NULL if shapes do not fit. */
static void finish(struct gt_import *im, constant *c)
{
	if (c)
		gt_import_fold(im, 0, c);
	else
		fail_shapes(im);
}

static constant *read_self(struct gt_import *im)
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
	finish(im, gt_constant_apply(&im->constants, f, gt_import_result_type(im), count, in));
}

static void fold_function(struct gt_import *im)
{
	fold_operands(im, im->fold->function, (size_t[]){ 0, 1, 2 });
}

static void fold_swapped(struct gt_import *im)
{
	fold_operands(im, im->fold->function, (size_t[]){ 1, 0 });
}

/* masked_fill(self, mask, value) is where(mask, value, self). */
static void fold_masked(struct gt_import *im)
{
	fold_operands(im, GT_F_WHERE, (size_t[]){ 1, 2, 0 });
}

static constant *apply2(
    struct gt_import *im, enum gt_function f, enum gt_dtype dtype, constant *a, constant *b)
{
	const constant *in[] = { a, b };

	return a && b ? gt_constant_apply(&im->constants, f, dtype, 2, in) : NULL;
}

/* self + alpha * other, or the difference */
static void fold_sum(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);
	double alpha = gt_import_float(im, "alpha", 1);

	if (alpha != 1)
		b = apply2(im, GT_F_MUL, GT_F64, b, of_number(im, alpha));
	finish(im, apply2(im, im->fold->function, gt_import_result_type(im), a, b));
}

static void fold_reverse_difference(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);

	if (gt_import_float(im, "alpha", 1) != 1)
		gt_import_fail(im, "of constants with alpha");
	finish(im, apply2(im, GT_F_SUB, gt_import_result_type(im), b, a));
}

/* self / other, rounded down where `floor` is set, or towards 0. */
static void fold_whole_quotient(struct gt_import *im, bool floor)
{
	constant *q = apply2(im, GT_F_DIV, GT_F64, read_operand(im, 0), read_operand(im, 1));
	const constant *in[] = { q };

	if (q && floor)
		q = gt_constant_apply(&im->constants, GT_F_FLOOR, GT_F64, 1, in);
	if (q && !floor)
		q = apply2(im, GT_F_ADD, GT_I64, q, of_number(im, 0));
	finish(im, q ? apply2(im, GT_F_ADD, gt_import_result_type(im), q, of_number(im, 0)) : q);
}

static void fold_floor_divide(struct gt_import *im)
{
	fold_whole_quotient(im, true);
}

static void fold_divide(struct gt_import *im)
{
	const char *mode = gt_import_string(im, "rounding_mode", "");

	if (*mode)
		fold_whole_quotient(im, !strcmp(mode, "floor"));
	else
		fold_function(im);
}

/* The remainder has the sign of the divisor: a - floor(a / b) * b. */
static void fold_remainder(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);
	constant *q = apply2(im, GT_F_DIV, GT_F64, a, b);
	const constant *in[] = { q };

	q = q ? gt_constant_apply(&im->constants, GT_F_FLOOR, GT_F64, 1, in) : NULL;
	finish(im,
	    apply2(im, GT_F_SUB, gt_import_result_type(im), a, apply2(im, GT_F_MUL, GT_F64, q, b)));
}

static void fold_clamp(struct gt_import *im)
{
	constant *c = read_self(im);
	enum gt_dtype type = gt_import_result_type(im);

	c = apply2(im, GT_F_MAX, type, c, of_number(im, gt_import_float(im, "min", -INFINITY)));
	c = apply2(im, GT_F_MIN, type, c, of_number(im, gt_import_float(im, "max", INFINITY)));
	finish(im, c);
}

/* Logical functions of numbers take them as "not 0". */
static void fold_logical(struct gt_import *im)
{
	constant *a = read_operand(im, 0), *b = read_operand(im, 1);

	a = apply2(im, GT_F_NE, GT_BOOL, a, of_number(im, 0));
	b = apply2(im, GT_F_NE, GT_BOOL, b, of_number(im, 0));
	finish(im, apply2(im, im->fold->function, GT_BOOL, a, b));
}

/* Bits of numbers are not computed with. */
static void fold_bitwise(struct gt_import *im)
{
	if (gt_import_result_type(im) != GT_BOOL)
		gt_import_fail(im, "of numbers that are not booleans");
	else
		fold_logical(im);
}

static void fold_not(struct gt_import *im)
{
	const constant *in[] = { read_self(im) };

	if (gt_import_result_type(im) != GT_BOOL)
		gt_import_fail(im, "of numbers that are not booleans");
	else
		finish(im, gt_constant_apply(&im->constants, GT_F_NOT, GT_BOOL, 1, in));
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

static void fold_full(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_import_ints(im, "size", shape, 0, 0);

	if (!im->g->err.code)
		finish(im, new_of(im, ndim, shape, read_fill(im)));
}

/* The shape is that of the first argument, which may be data. */
static void fold_full_like(struct gt_import *im)
{
	const constant *c = gt_import_constant(im, "self");
	const struct gt_binding *b = gt_import_binding(im, "self");

	if (!b || im->g->err.code)
		return;
	if (c)
		finish(im, new_of(im, c->ndim, c->shape, read_fill(im)));
	else
		finish(im, new_of(im, b->value->ndim, b->value->shape, read_fill(im)));
}

static void fold_arange(struct gt_import *im)
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
	finish(im, c);
}

static void fold_linspace(struct gt_import *im)
{
	double start = gt_import_float(im, "start", 0), end = gt_import_float(im, "end", 0);
	int64_t steps = gt_import_int(im, "steps", 0);
	constant *c = im->g->err.code ? NULL : new_of(im, 1, &steps, 0);

	for (int64_t i = 0; c && i < steps; i++)
		c->elements[i] = gt_constant_round(c->dtype,
		    steps > 1 ? start + (end - start) * (double)i / (double)(steps - 1) : start);
	finish(im, c);
}

/* ---- views ---- */

static constant *copy_of(struct gt_import *im, const constant *c, enum gt_dtype dtype)
{
	constant *copy = c ? gt_constant_new(&im->constants, dtype, c->ndim, c->shape) : NULL;

	if (copy && gt_constant_write(&im->constants, copy, c))
		return copy;
	return NULL;
}

static void fold_same(struct gt_import *im)
{
	finish(im, gt_import_constant(im, gt_import_argument(im, 0)));
}

static void fold_copy(struct gt_import *im)
{
	finish(im, copy_of(im, read_self(im), gt_import_result_type(im)));
}

/* A conversion to the same type is the tensor itself. */
static void fold_to(struct gt_import *im)
{
	constant *c = read_self(im);

	if (c && c->dtype != gt_import_result_type(im))
		c = copy_of(im, c, gt_import_result_type(im));
	finish(im, c);
}

/* copy_(self, src) and fill_(self, value) have the shape of self, into which they are written. */
static void fold_overwrite(struct gt_import *im)
{
	finish(im, read_operand(im, 1));
}

static void fold_zero(struct gt_import *im)
{
	finish(im, of_number(im, 0));
}

static void fold_reshape(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	const char *argument = strncmp(im->fold->name, "reshape", 7) ? "size" : "shape";
	int ndim = gt_import_ints(im, argument, shape, 0, 0);

	if (!im->g->err.code)
		finish(im, gt_constant_reshape(&im->constants, read_self(im), ndim, shape));
}

/* View c with the dimensions from `first` to `last` replaced by `count` sizes. */
static constant *replace_sizes(
    struct gt_import *im, const constant *c, int first, int last, const int64_t *size, int count)
{
	int64_t shape[2 * GT_MAX_DIMS];
	int ndim = 0;

	for (int i = 0; i < first; i++)
		shape[ndim++] = c->shape[i];
	for (int i = 0; i < count; i++)
		shape[ndim++] = size[i];
	for (int i = last + 1; i < c->ndim; i++)
		shape[ndim++] = c->shape[i];
	return ndim > GT_MAX_DIMS ? NULL : gt_constant_reshape(&im->constants, c, ndim, shape);
}

static void fold_flatten(struct gt_import *im)
{
	constant *c = read_self(im);
	int64_t size = 1;
	int first, last;

	if (!c || !c->ndim)
		return;
	first = gt_import_dim(im, "start_dim", 0, c->ndim);
	last = gt_import_dim(im, "end_dim", -1, c->ndim);
	for (int i = first; i <= last; i++)
		size *= c->shape[i];
	finish(im, replace_sizes(im, c, first, last, &size, 1));
}

static void fold_unsqueeze(struct gt_import *im)
{
	constant *c = read_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int dim = c ? gt_import_dim(im, "dim", 0, c->ndim + 1) : 0;

	if (!view || im->g->err.code)
		return;
	if (c->ndim == GT_MAX_DIMS) {
		gt_import_fail(im, "to more than %d dimensions", GT_MAX_DIMS);
		return;
	}
	view->ndim++;
	for (int i = c->ndim; i > dim; i--) {
		view->shape[i] = c->shape[i - 1];
		view->stride[i] = c->stride[i - 1];
	}
	view->shape[dim] = 1;
	view->stride[dim] = 0;
	finish(im, view);
}

/* Drop dimension `dim` of a view. */
static void drop_dim(constant *view, int dim)
{
	view->ndim--;
	for (int i = dim; i < view->ndim; i++) {
		view->shape[i] = view->shape[i + 1];
		view->stride[i] = view->stride[i + 1];
	}
}

static void fold_squeeze(struct gt_import *im)
{
	constant *c = read_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int dim = c && c->ndim ? gt_import_dim(im, "dim", 0, c->ndim) : 0;

	if (view && view->ndim && view->shape[dim] == 1)
		drop_dim(view, dim);
	finish(im, view);
}

static void fold_expand(struct gt_import *im)
{
	constant *c = read_self(im);
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_import_ints(im, "size", shape, 0, 0);

	if (!c || im->g->err.code)
		return;
	for (int i = 0; i < ndim; i++)
		if (shape[i] == -1 && i >= ndim - c->ndim)
			shape[i] = c->shape[i - (ndim - c->ndim)];
	finish(im, gt_constant_expand(&im->constants, c, ndim, shape));
}

static void fold_expand_as(struct gt_import *im)
{
	const constant *c = read_self(im), *like = gt_import_constant(im, "other");
	const struct gt_binding *other = gt_import_binding(im, "other");

	if (!c || !other || im->g->err.code)
		return;
	if (like)
		finish(im, gt_constant_expand(&im->constants, c, like->ndim, like->shape));
	else
		finish(im,
		    gt_constant_expand(&im->constants, c, other->value->ndim, other->value->shape));
}

static void fold_permute(struct gt_import *im)
{
	constant *c = read_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dims", dims, 0, 0);

	if (!view || im->g->err.code)
		return;
	for (int i = 0; i < count; i++) {
		int64_t dim = dims[i] + (dims[i] < 0 ? c->ndim : 0);

		if (count != c->ndim || dim < 0 || dim >= c->ndim) {
			fail_shapes(im);
			return;
		}
		view->shape[i] = c->shape[dim];
		view->stride[i] = c->stride[dim];
	}
	finish(im, view);
}

static void fold_transpose(struct gt_import *im)
{
	constant *c = read_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int a, b;

	if (!view || !view->ndim)
		return;
	a = gt_import_dim(im, gt_import_argument(im, 1), 0, c->ndim);
	b = gt_import_dim(im, gt_import_argument(im, 2), 0, c->ndim);
	view->shape[a] = c->shape[b];
	view->stride[a] = c->stride[b];
	view->shape[b] = c->shape[a];
	view->stride[b] = c->stride[a];
	finish(im, view);
}

/* Narrow a view to `size` entries from `start` on, `step` apart. */
static constant *narrow(
    struct gt_import *im, const constant *c, int dim, int64_t start, int64_t size, int64_t step)
{
	constant *view = gt_constant_view(&im->constants, c);

	if (!view)
		return NULL;
	view->elements += size ? start * view->stride[dim] : 0;
	view->shape[dim] = size;
	view->stride[dim] *= size > 1 ? step : 1; /* one that the file gives may be of any size */
	return view;
}

static void fold_slice(struct gt_import *im)
{
	int64_t start = gt_import_int(im, "start", 0), end = gt_import_int(im, "end", INT64_MAX);
	int64_t step = gt_import_int(im, "step", 1), size;
	constant *c = read_self(im);
	int dim;

	if (!c || !c->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, c->ndim);
	size = c->shape[dim];
	start = gt_import_clip(start, size);
	end = gt_import_clip(end, size);
	if (step < 1)
		gt_import_fail(im, "with a negative step");
	else
		finish(im, narrow(im, c, dim, start, end > start ? (end - start - 1) / step + 1 : 0,
		               step));
}

static void fold_select(struct gt_import *im)
{
	constant *c = read_self(im), *view;
	int64_t index = gt_import_int(im, "index", 0);
	int dim;

	if (!c || !c->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, c->ndim);
	index += index < 0 ? c->shape[dim] : 0;
	if (index < 0 || index >= c->shape[dim]) {
		gt_import_fail(im, ": there is no such index");
		return;
	}
	view = narrow(im, c, dim, index, 1, 1);
	if (view)
		drop_dim(view, dim);
	finish(im, view);
}

/* Parts of `part` entries; the last one may have fewer. */
static void fold_parts(struct gt_import *im, const constant *c, int dim, int64_t part)
{
	int64_t at = 0;

	if (part < 1)
		gt_import_fail(im, "into no parts");
	for (size_t i = 0; !im->g->err.code && at < c->shape[dim]; i++, at += part) {
		int64_t left = c->shape[dim] - at;
		constant *view = narrow(im, c, dim, at, left < part ? left : part, 1);

		if (view)
			gt_import_fold(im, i, view);
	}
}

static void fold_split(struct gt_import *im)
{
	constant *c = read_self(im);

	if (c && c->ndim)
		fold_parts(im, c, gt_import_dim(im, "dim", 0, c->ndim),
		    gt_import_int(im, "split_size", 0));
}

static void fold_chunk(struct gt_import *im)
{
	constant *c = read_self(im);
	int64_t chunks = gt_import_int(im, "chunks", 1);
	int dim;

	if (!c || !c->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, c->ndim);
	if (chunks < 1 || chunks > GT_IMPORT_TENSORS)
		gt_import_fail(im, "into %lld parts", (long long)chunks);
	else
		fold_parts(im, c, dim, (c->shape[dim] + chunks - 1) / chunks);
}

static void fold_unbind(struct gt_import *im)
{
	constant *c = read_self(im);
	int dim;

	if (!c || !c->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, c->ndim);
	for (int64_t i = 0; i < c->shape[dim] && !im->g->err.code; i++) {
		constant *view = narrow(im, c, dim, i, 1, 1);

		if (view) {
			drop_dim(view, dim);
			gt_import_fold(im, (size_t)i, view);
		}
	}
}

/* ---- copies ---- */

/* Write the parts one after the other along a dimension. PyTorch lets an empty part have any
 * shape. */
static constant *join(
    struct gt_import *im, constant *const *part, int count, int dim, enum gt_dtype dtype)
{
	const constant *like = NULL;
	int64_t shape[GT_MAX_DIMS], at = 0;
	constant *out;

	for (int i = 0; i < count; i++)
		if (gt_constant_count(part[i])) {
			like = like ? like : part[i];
			at += part[i]->ndim == like->ndim ? part[i]->shape[dim] : 0;
		}
	if (!like)
		return part[0];
	memcpy(shape, like->shape, sizeof(shape));
	shape[dim] = at;
	out = gt_constant_new(&im->constants, dtype, like->ndim, shape);
	at = 0;
	for (int i = 0; out && i < count; i++) {
		constant *place;

		if (!gt_constant_count(part[i]))
			continue;
		if (part[i]->ndim != like->ndim)
			return NULL;
		place = narrow(im, out, dim, at, part[i]->shape[dim], 1);
		if (!place || !gt_constant_write(&im->constants, place, part[i]))
			return NULL;
		at += part[i]->shape[dim];
	}
	return out;
}

static void fold_cat(struct gt_import *im)
{
	struct gt_binding *list[GT_IMPORT_TENSORS];
	constant *part[GT_IMPORT_TENSORS];
	int count = gt_import_list(im, "tensors", list), dims = 1;

	for (int i = 0; i < count; i++) {
		part[i] = list[i] ? list[i]->constant : NULL;
		if (!part[i])
			return;
		dims = part[i]->ndim > dims ? part[i]->ndim : dims;
	}
	if (count)
		finish(im, join(im, part, count, gt_import_dim(im, "dim", 0, dims),
		               gt_import_result_type(im)));
}

static void fold_stack(struct gt_import *im)
{
	struct gt_binding *list[GT_IMPORT_TENSORS];
	constant *part[GT_IMPORT_TENSORS];
	const int64_t one = 1;
	int count = gt_import_list(im, "tensors", list), dim = 0;

	for (int i = 0; i < count; i++) {
		if (!list[i] || !list[i]->constant)
			return;
		dim = gt_import_dim(im, "dim", 0, list[i]->constant->ndim + 1);
		part[i] = replace_sizes(im, list[i]->constant, dim, dim - 1, &one, 1);
		if (!part[i]) {
			fail_shapes(im);
			return;
		}
	}
	if (count)
		finish(im, join(im, part, count, dim, gt_import_result_type(im)));
}

/* Add up along a dimension. */
static void fold_cumsum(struct gt_import *im)
{
	constant *c = copy_of(im, read_self(im), gt_import_result_type(im));
	int64_t index[GT_MAX_DIMS] = { 0 };
	int dim;

	if (c && c->ndim && gt_constant_count(c)) {
		dim = gt_import_dim(im, "dim", 0, c->ndim);
		do {
			double *x = gt_constant_at(c, index);

			if (index[dim])
				*x = gt_constant_round(c->dtype, *x + x[-c->stride[dim]]);
		} while (gt_constant_next(c->ndim, c->shape, index));
	}
	finish(im, c);
}

/* The differences of neighbours along a dimension. */
static void fold_diff(struct gt_import *im)
{
	constant *c = read_self(im), *before, *after, *part[3];
	int count = 0, dim;

	if (!c || !c->ndim)
		return;
	if (gt_import_int(im, "n", 1) != 1)
		gt_import_fail(im, "of a higher order");
	dim = gt_import_dim(im, "dim", -1, c->ndim);
	before = gt_import_constant(im, "prepend");
	after = gt_import_constant(im, "append");
	if (before)
		part[count++] = before;
	part[count++] = c;
	if (after)
		part[count++] = after;
	c = join(im, part, count, dim, c->dtype);
	if (!c || im->g->err.code)
		return;
	finish(im, apply2(im, c->dtype == GT_BOOL ? GT_F_NE : GT_F_SUB, gt_import_result_type(im),
	               narrow(im, c, dim, 1, c->shape[dim] - 1, 1),
	               narrow(im, c, dim, 0, c->shape[dim] - 1, 1)));
}

/* Keep the elements on one side of a diagonal: column - row <= diagonal for tril. */
static void fold_triangle(struct gt_import *im)
{
	constant *c = copy_of(im, read_self(im), gt_import_result_type(im));
	int64_t diagonal = gt_import_int(im, "diagonal", 0), index[GT_MAX_DIMS] = { 0 };
	bool lower = !strncmp(im->fold->name, "tril", 4);

	if (c && c->ndim < 2)
		gt_import_fail(im, "of a vector");
	if (diagonal < -GT_CONSTANT_ELEMENTS || diagonal > GT_CONSTANT_ELEMENTS)
		gt_import_fail(im, "from a diagonal that is not there");
	if (c && !im->g->err.code && gt_constant_count(c))
		do {
			int64_t above = index[c->ndim - 1] - index[c->ndim - 2] - diagonal;

			if (lower ? above > 0 : above < 0)
				*gt_constant_at(c, index) = 0;
		} while (gt_constant_next(c->ndim, c->shape, index));
	if (!im->g->err.code)
		finish(im, c);
}

static void fold_flip(struct gt_import *im)
{
	constant *c = read_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dims", dims, 0, 0);

	if (!view || im->g->err.code || !gt_constant_count(c))
		return;
	for (int i = 0; i < count; i++) {
		int64_t dim = dims[i] + (dims[i] < 0 ? c->ndim : 0);

		if (dim < 0 || dim >= c->ndim)
			continue;
		view->elements += (view->shape[dim] - 1) * view->stride[dim];
		view->stride[dim] = -view->stride[dim];
	}
	finish(im, copy_of(im, view, view->dtype));
}

/* Add up over dimensions; none stands for all of them. */
static void fold_total(struct gt_import *im)
{
	constant *c = read_self(im), *out, *wide;
	int64_t dims[GT_MAX_DIMS], shape[GT_MAX_DIMS], index[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, "dim", dims, 0, 0);
	bool keep = gt_import_bool(im, "keepdim", false), summed[GT_MAX_DIMS];

	if (!c || im->g->err.code)
		return;
	for (int i = 0; i < c->ndim; i++) {
		summed[i] = !count;
		for (int k = 0; k < count; k++)
			summed[i] |= dims[k] == i || dims[k] == i - c->ndim;
		shape[i] = summed[i] ? 1 : c->shape[i];
	}
	out = gt_constant_new(&im->constants, gt_import_result_type(im), c->ndim, shape);
	wide = out ? gt_constant_expand(&im->constants, out, c->ndim, c->shape) : NULL;
	if (wide && gt_constant_count(c))
		do {
			*gt_constant_at(wide, index) += *gt_constant_at(c, index);
		} while (gt_constant_next(c->ndim, c->shape, index));
	for (int i = c->ndim; out && !keep && i-- > 0;)
		if (summed[i])
			drop_dim(out, i);
	finish(im, out);
}

/* ---- indices ---- */

/* Element `at` of an index tensor, between 0 and `size`; false: it is outside. */
static bool read_index(const constant *ids, const int64_t *at, int64_t size, int64_t *out)
{
	double x = *gt_constant_at(ids, at);

	if (!(x >= (double)-size && x < (double)size))
		return false;
	*out = (int64_t)x;
	*out += *out < 0 ? size : 0;
	return *out >= 0 && *out < size;
}

/* c[:, i, j]: the tensors of indices are broadcast, and their dimensions take the place of those
 * that they index, if these are neighbours. */
static void fold_index(struct gt_import *im)
{
	constant *c = read_self(im), *ids[GT_MAX_DIMS], *out;
	int64_t shape[GT_MAX_DIMS], index[GT_MAX_DIMS] = { 0 };
	int first, count = gt_import_indices(im, &first, ids), wide, ndim = 0;

	if (!c || !count)
		return;
	wide = ids[0]->ndim;
	if (first + count > c->ndim || c->ndim - count + wide > GT_MAX_DIMS) {
		fail_shapes(im);
		return;
	}
	for (int i = 0; i < first; i++)
		shape[ndim++] = c->shape[i];
	for (int i = 0; i < wide; i++)
		shape[ndim++] = ids[0]->shape[i];
	for (int i = first + count; i < c->ndim; i++)
		shape[ndim++] = c->shape[i];
	out = gt_constant_new(&im->constants, c->dtype, ndim, shape);
	if (out && gt_constant_count(out))
		do {
			int64_t from[GT_MAX_DIMS];

			for (int i = 0; i < first; i++)
				from[i] = index[i];
			for (int k = 0; k < count; k++)
				if (!read_index(ids[k], index + first, c->shape[first + k],
				        &from[first + k])) {
					gt_import_fail(im, ": an index is out of range");
					return;
				}
			for (int i = first + count; i < c->ndim; i++)
				from[i] = index[i - count + wide];
			*gt_constant_at(out, index) = *gt_constant_at(c, from);
		} while (gt_constant_next(ndim, shape, index));
	finish(im, out);
}

static void fold_gather(struct gt_import *im)
{
	constant *c = read_self(im), *ids = gt_import_constant(im, "index"), *out;
	int64_t at[GT_MAX_DIMS] = { 0 }, from[GT_MAX_DIMS];
	int dim;

	if (!c || !ids || c->ndim != ids->ndim || !c->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, c->ndim);
	out = gt_constant_new(&im->constants, c->dtype, ids->ndim, ids->shape);
	if (out && gt_constant_count(out))
		do {
			bool inside = true;

			memcpy(from, at, sizeof(from));
			for (int i = 0; i < c->ndim; i++)
				inside &= i == dim || at[i] < c->shape[i];
			if (!inside || !read_index(ids, at, c->shape[dim], &from[dim])) {
				gt_import_fail(im, ": an index is out of range");
				return;
			}
			*gt_constant_at(out, at) = *gt_constant_at(c, from);
		} while (gt_constant_next(ids->ndim, ids->shape, at));
	finish(im, out);
}

/* ---- the table ---- */

const struct gt_fold gt_fold_rows[] = {
	{ "__and__.Tensor", fold_bitwise, GT_F_MUL, GT_FOLD_ALL },
	{ "__or__.Tensor", fold_bitwise, GT_F_MAX, GT_FOLD_ALL },
	{ "_to_copy.default", fold_copy, 0, GT_FOLD_ALL },
	{ "abs.default", fold_function, GT_F_ABS, GT_FOLD_ALL },
	{ "add.Scalar", fold_sum, GT_F_ADD, GT_FOLD_ALL },
	{ "add.Tensor", fold_sum, GT_F_ADD, GT_FOLD_ALL },
	{ "alias.default", fold_same, 0, GT_FOLD_ALL },
	{ "arange.default", fold_arange, 0, GT_FOLD_ALL },
	{ "arange.start", fold_arange, 0, GT_FOLD_ALL },
	{ "arange.start_step", fold_arange, 0, GT_FOLD_ALL },
	{ "bitwise_and.Tensor", fold_bitwise, GT_F_MUL, GT_FOLD_ALL },
	{ "bitwise_not.default", fold_not, 0, GT_FOLD_ALL },
	{ "bitwise_or.Tensor", fold_bitwise, GT_F_MAX, GT_FOLD_ALL },
	{ "cat.default", fold_cat, 0, GT_FOLD_ALL },
	{ "chunk.default", fold_chunk, 0, GT_FOLD_ALL },
	{ "clamp.default", fold_clamp, 0, GT_FOLD_ALL },
	{ "clone.default", fold_copy, 0, GT_FOLD_ALL },
	{ "contiguous.default", fold_same, 0, GT_FOLD_ALL },
	{ "copy.default", fold_overwrite, 0, GT_FOLD_ALL },
	{ "cos.default", fold_function, GT_F_COS, GT_FOLD_ALL },
	{ "cumsum.default", fold_cumsum, 0, GT_FOLD_ALL },
	{ "detach.default", fold_same, 0, GT_FOLD_ALL },
	{ "diff.default", fold_diff, 0, GT_FOLD_ALL },
	{ "div.Scalar", fold_function, GT_F_DIV, GT_FOLD_ALL },
	{ "div.Tensor", fold_function, GT_F_DIV, GT_FOLD_ALL },
	{ "div.Tensor_mode", fold_divide, GT_F_DIV, GT_FOLD_ALL },
	{ "empty.memory_format", fold_full, 0, GT_FOLD_ALL },
	{ "empty_like.default", fold_full_like, 0, GT_FOLD_NONE },
	{ "eq.Scalar", fold_function, GT_F_EQ, GT_FOLD_ALL },
	{ "eq.Tensor", fold_function, GT_F_EQ, GT_FOLD_ALL },
	{ "exp.default", fold_function, GT_F_EXP, GT_FOLD_ALL },
	{ "expand.default", fold_expand, 0, GT_FOLD_ALL },
	{ "expand_as.default", fold_expand_as, 0, GT_FOLD_FIRST },
	{ "fill.Scalar", fold_overwrite, 0, GT_FOLD_ALL },
	{ "fill.Tensor", fold_overwrite, 0, GT_FOLD_ALL },
	{ "flatten.using_ints", fold_flatten, 0, GT_FOLD_ALL },
	{ "flip.default", fold_flip, 0, GT_FOLD_ALL },
	{ "floor.default", fold_function, GT_F_FLOOR, GT_FOLD_ALL },
	{ "floor_divide.default", fold_floor_divide, 0, GT_FOLD_ALL },
	{ "full.default", fold_full, 0, GT_FOLD_ALL },
	{ "full_like.default", fold_full_like, 0, GT_FOLD_NONE },
	{ "gather.default", fold_gather, 0, GT_FOLD_ALL },
	{ "ge.Scalar", fold_swapped, GT_F_LE, GT_FOLD_ALL },
	{ "ge.Tensor", fold_swapped, GT_F_LE, GT_FOLD_ALL },
	{ "gt.Scalar", fold_swapped, GT_F_LT, GT_FOLD_ALL },
	{ "gt.Tensor", fold_swapped, GT_F_LT, GT_FOLD_ALL },
	{ "index.Tensor", fold_index, 0, GT_FOLD_ALL },
	{ "le.Scalar", fold_function, GT_F_LE, GT_FOLD_ALL },
	{ "le.Tensor", fold_function, GT_F_LE, GT_FOLD_ALL },
	{ "lift_fresh_copy.default", fold_copy, 0, GT_FOLD_ALL },
	{ "linspace.default", fold_linspace, 0, GT_FOLD_ALL },
	{ "log.default", fold_function, GT_F_LOG, GT_FOLD_ALL },
	{ "logical_and.default", fold_logical, GT_F_MUL, GT_FOLD_ALL },
	{ "logical_not.default", fold_not, 0, GT_FOLD_ALL },
	{ "logical_or.default", fold_logical, GT_F_MAX, GT_FOLD_ALL },
	{ "lt.Scalar", fold_function, GT_F_LT, GT_FOLD_ALL },
	{ "lt.Tensor", fold_function, GT_F_LT, GT_FOLD_ALL },
	{ "masked_fill.Scalar", fold_masked, 0, GT_FOLD_ALL },
	{ "masked_fill.Tensor", fold_masked, 0, GT_FOLD_ALL },
	{ "max.other", fold_function, GT_F_MAX, GT_FOLD_ALL },
	{ "maximum.default", fold_function, GT_F_MAX, GT_FOLD_ALL },
	{ "min.other", fold_function, GT_F_MIN, GT_FOLD_ALL },
	{ "minimum.default", fold_function, GT_F_MIN, GT_FOLD_ALL },
	{ "mul.Scalar", fold_function, GT_F_MUL, GT_FOLD_ALL },
	{ "mul.Tensor", fold_function, GT_F_MUL, GT_FOLD_ALL },
	{ "ne.Scalar", fold_function, GT_F_NE, GT_FOLD_ALL },
	{ "ne.Tensor", fold_function, GT_F_NE, GT_FOLD_ALL },
	{ "neg.default", fold_function, GT_F_NEG, GT_FOLD_ALL },
	{ "new_empty.default", fold_full, 0, GT_FOLD_NONE },
	{ "new_full.default", fold_full, 0, GT_FOLD_NONE },
	{ "new_ones.default", fold_full, 0, GT_FOLD_NONE },
	{ "new_zeros.default", fold_full, 0, GT_FOLD_NONE },
	{ "ones.default", fold_full, 0, GT_FOLD_ALL },
	{ "ones_like.default", fold_full_like, 0, GT_FOLD_NONE },
	{ "permute.default", fold_permute, 0, GT_FOLD_ALL },
	{ "pow.Scalar", fold_function, GT_F_POW, GT_FOLD_ALL },
	{ "pow.Tensor_Scalar", fold_function, GT_F_POW, GT_FOLD_ALL },
	{ "pow.Tensor_Tensor", fold_function, GT_F_POW, GT_FOLD_ALL },
	{ "remainder.Scalar", fold_remainder, 0, GT_FOLD_ALL },
	{ "remainder.Tensor", fold_remainder, 0, GT_FOLD_ALL },
	{ "reshape.default", fold_reshape, 0, GT_FOLD_ALL },
	{ "rsqrt.default", fold_function, GT_F_RSQRT, GT_FOLD_ALL },
	{ "rsub.Scalar", fold_reverse_difference, 0, GT_FOLD_ALL },
	{ "scalar_tensor.default", fold_full, 0, GT_FOLD_ALL },
	{ "select.int", fold_select, 0, GT_FOLD_ALL },
	{ "sigmoid.default", fold_function, GT_F_SIGMOID, GT_FOLD_ALL },
	{ "sign.default", fold_function, GT_F_SIGN, GT_FOLD_ALL },
	{ "sin.default", fold_function, GT_F_SIN, GT_FOLD_ALL },
	{ "slice.Tensor", fold_slice, 0, GT_FOLD_ALL },
	{ "split.Tensor", fold_split, 0, GT_FOLD_ALL },
	{ "sqrt.default", fold_function, GT_F_SQRT, GT_FOLD_ALL },
	{ "squeeze.dim", fold_squeeze, 0, GT_FOLD_ALL },
	{ "stack.default", fold_stack, 0, GT_FOLD_ALL },
	{ "sub.Scalar", fold_sum, GT_F_SUB, GT_FOLD_ALL },
	{ "sub.Tensor", fold_sum, GT_F_SUB, GT_FOLD_ALL },
	{ "sum.default", fold_total, 0, GT_FOLD_ALL },
	{ "sum.dim_IntList", fold_total, 0, GT_FOLD_ALL },
	{ "tanh.default", fold_function, GT_F_TANH, GT_FOLD_ALL },
	{ "to.device", fold_to, 0, GT_FOLD_ALL },
	{ "to.dtype", fold_to, 0, GT_FOLD_ALL },
	{ "to.dtype_layout", fold_to, 0, GT_FOLD_ALL },
	{ "transpose.int", fold_transpose, 0, GT_FOLD_ALL },
	{ "tril.default", fold_triangle, 0, GT_FOLD_ALL },
	{ "triu.default", fold_triangle, 0, GT_FOLD_ALL },
	{ "type_as.default", fold_to, 0, GT_FOLD_FIRST },
	{ "unbind.int", fold_unbind, 0, GT_FOLD_ALL },
	{ "unsqueeze.default", fold_unsqueeze, 0, GT_FOLD_ALL },
	{ "view.default", fold_reshape, 0, GT_FOLD_ALL },
	{ "where.ScalarOther", fold_function, GT_F_WHERE, GT_FOLD_ALL },
	{ "where.ScalarSelf", fold_function, GT_F_WHERE, GT_FOLD_ALL },
	{ "where.self", fold_function, GT_F_WHERE, GT_FOLD_ALL },
	{ "zero.default", fold_zero, 0, GT_FOLD_ALL },
	{ "zeros.default", fold_full, 0, GT_FOLD_ALL },
	{ "zeros_like.default", fold_full_like, 0, GT_FOLD_NONE },
	{ NULL, NULL, 0, 0 },
};

const struct gt_fold *gt_fold_find(const char *target)
{
	for (const struct gt_fold *row = gt_fold_rows; row->name; row++)
		if (gt_aten_names(target, row->name))
			return row;
	return NULL;
}
