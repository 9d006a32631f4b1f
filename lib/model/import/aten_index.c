/* aten_index.c - functions of PyTorch that select, sort and count elements, and groups of rows. */
#include <stdlib.h>

#include "lib/graph/expr.h"
#include "lib/model/import/aten.h"

/* ---- rows ---- */

/* Exchange a dimension and the last one. */
static struct gt_value *swap_last(struct gt_import *im, struct gt_value *x, int dim)
{
	int order[GT_MAX_DIMS];

	for (int i = 0; x && i < x->ndim; i++)
		order[i] = i == dim ? x->ndim - 1 : i == x->ndim - 1 ? dim : i;
	return x && dim != x->ndim - 1 ? gt_permute_dims(im->g, x, order) : x;
}

/* Whole numbers and booleans as float32, in which gtrain computes with them. */
static struct gt_value *as_real(struct gt_import *im, struct gt_value *x)
{
	return x && !gt_dtype_is_real(x->dtype) ? gt_unary(im->g, GT_F_COPY, x) : x;
}

/* Bind outputs to the `size` first elements along a dimension, and to their indices; without
 * `values`, to the indices alone. */
static void bind_first(
    struct gt_import *im, struct gt_value *x, int dim, int64_t size, bool smallest, bool values)
{
	struct gt_value *ids, *y;

	y = gt_topk(im->g, swap_last(im, as_real(im, x), dim), size, smallest, &ids);
	if (values)
		gt_import_output(im, 0, swap_last(im, y, dim));
	gt_import_output(im, values ? 1 : 0, swap_last(im, ids, dim));
}

void gt_aten_topk(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t k = gt_import_int(im, "k", 0);
	bool largest = gt_import_bool(im, "largest", true);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", -1, x->ndim);
	if (k < 1 || k > x->shape[dim])
		gt_import_fail(
		    im, "of %lld elements among %lld", (long long)k, (long long)x->shape[dim]);
	if (!im->g->err.code)
		bind_first(im, x, dim, k, !largest, true);
}

/* All elements of a row are the smallest ones, in their order. */
static void sort(struct gt_import *im, bool values)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	bool descending = gt_import_bool(im, "descending", false);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", -1, x->ndim);
	if (!im->g->err.code)
		bind_first(im, x, dim, x->shape[dim], !descending, values);
}

void gt_aten_sort(struct gt_import *im)
{
	sort(im, true);
}

void gt_aten_argsort(struct gt_import *im)
{
	sort(im, false);
}

/* ---- gather ---- */

/* Return whether all elements of a constant are equal. */
static bool is_uniform(const struct gt_constant *c)
{
	int64_t index[GT_MAX_DIMS] = { 0 };

	if (!gt_constant_count(c))
		return false;
	do {
		if (*gt_constant_at(c, index) != *c->elements)
			return false;
	} while (gt_constant_next(c->ndim, c->shape, index));
	return true;
}

/* Elements that are equal, such as the types of all tokens, stay constants. */
static void gather_equal(
    struct gt_import *im, const struct gt_constant *c, const struct gt_value *ids)
{
	struct gt_constant *same = gt_constant_new(&im->constants, c->dtype, 0, NULL);

	if (!same)
		return;
	*same->elements = *c->elements;
	gt_import_fold(im, 0, gt_constant_expand(&im->constants, same, ids->ndim, ids->shape));
}

/* The indices may be fewer than the elements in dimensions other than `dim`: the others are not
 * read. */
void gt_aten_gather(struct gt_import *im)
{
	const struct gt_constant *c = gt_import_constant(im, "self");
	struct gt_value *ids = gt_import_ids(im, "index"), *x;
	int dim;

	if (!ids || im->g->err.code)
		return;
	if (c && is_uniform(c)) {
		gather_equal(im, c, ids);
		return;
	}
	x = as_real(im, gt_import_tensor(im, "self"));
	if (!x)
		return;
	if (!x->ndim || x->ndim != ids->ndim) {
		gt_import_fail(
		    im, "with indices of %d dimensions for a tensor of %d", ids->ndim, x->ndim);
		return;
	}
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int i = 0; x && i < x->ndim; i++)
		if (i != dim && ids->shape[i] < x->shape[i])
			x = gt_slice_dim(im->g, x, i, 0, ids->shape[i], 1);
	if (x)
		gt_import_result(
		    im, swap_last(im,
		            gt_index_gather(im->g, swap_last(im, x, dim), swap_last(im, ids, dim)),
		            dim));
}

/* ---- index and index_put ---- */

/* The number of the element with constant indices in several dimensions: of x[i, j], i * columns +
 * j. */
static struct gt_value *join_constants(struct gt_import *im, const struct gt_value *x, int first,
    int count, struct gt_constant *const *ids)
{
	int64_t index[GT_MAX_DIMS] = { 0 }, at = 0, elements = gt_constant_count(ids[0]);
	int32_t *joined = gt_constants_read(&im->constants, elements)
	                      ? gt_calloc((size_t)elements, sizeof(*joined), &im->g->err)
	                      : NULL;
	struct gt_value *v = NULL;

	if (!joined)
		return NULL;
	if (elements)
		do {
			int64_t number = 0;

			for (int k = 0; k < count; k++) {
				int64_t size = x->shape[first + k], i = 0;

				if (!gt_constant_index(ids[k], index, size, &i))
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

/* The indices of x[:, i, j]: tensors for neighbouring dimensions from `first` on. */
struct indices {
	int first, count;
	struct gt_binding *of[GT_MAX_DIMS];
};

static bool read_indices(struct gt_import *im, struct indices *out)
{
	struct gt_binding *list[GT_IMPORT_TENSORS];
	int listed = gt_import_list(im, "indices", list);

	*out = (struct indices){ .first = 0 };
	while (out->first < listed && !list[out->first])
		out->first++;
	for (int i = out->first; i < listed && out->count < GT_MAX_DIMS; i++) {
		if (list[i] && i != out->first + out->count)
			gt_import_fail(im, "by indices of dimensions that are no neighbours");
		if (list[i])
			out->of[out->count++] = list[i];
	}
	return out->count && !im->g->err.code;
}

static struct gt_value *index_value(struct gt_import *im, const struct gt_binding *b)
{
	return b->constant ? gt_import_value(im, b->constant) : b->value;
}

static bool is_boolean(struct gt_import *im, const struct gt_binding *b)
{
	return gt_import_type_of(im, b->name) == GT_BOOL;
}

/* float32 has all whole numbers up to here. */
enum { WHOLE_NUMBERS = 1 << 24 };

/* The same with indices that are computed from data. */
static struct gt_value *join_indices(
    struct gt_import *im, const struct gt_value *x, const struct indices *at)
{
	struct gt_value *number = NULL;
	int64_t elements = 1;

	for (int k = 0; k < at->count; k++) {
		struct gt_value *v = index_value(im, at->of[k]);
		struct gt_map_operand operands[2] = { { .value = number },
			{ .is_number = true, .number = (double)x->shape[at->first + k] } };

		if (is_boolean(im, at->of[k]))
			return gt_import_fail(im,
			    "by booleans that are computed from data: the number of elements that "
			    "they choose is not known before the first step");
		elements *= x->shape[at->first + k];
		number = number ? gt_binary(im->g, GT_F_ADD, gt_apply(im->g, GT_F_MUL, operands),
		                      as_real(im, v))
		                : v;
	}
	if (at->count > 1 && elements > WHOLE_NUMBERS)
		return gt_import_fail(im, "by several indices of %lld elements, more than %d",
		    (long long)elements, WHOLE_NUMBERS);
	return number && number->dtype != GT_I32 ? gt_cast_to(im->g, number, GT_I32) : number;
}

/* Return x[:, i, j]: the dimensions that are indexed become one. */
static struct gt_value *index_dims(
    struct gt_import *im, struct gt_value *x, int first, int count, struct gt_value *ids)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	for (int i = 0; i < x->ndim; i++)
		if (i > first && i < first + count)
			shape[ndim - 1] *= x->shape[i];
		else
			shape[ndim++] = x->shape[i];
	return gt_index_select(im->g, gt_reshape(im->g, x, ndim, shape), first, ids);
}

static bool all_constant(const struct indices *at)
{
	for (int k = 0; k < at->count; k++)
		if (!at->of[k]->constant)
			return false;
	return true;
}

void gt_aten_index(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *ids;
	struct gt_constant *constants[GT_MAX_DIMS];
	struct indices at;

	if (!x || !read_indices(im, &at))
		return;
	if (at.first + at.count > x->ndim) {
		gt_import_fail(im, "by more indices than dimensions");
		return;
	}
	if (!all_constant(&at))
		ids = join_indices(im, x, &at);
	else if (gt_import_indices(im, &at.first, constants))
		ids = join_constants(im, x, at.first, at.count, constants);
	else
		return;
	gt_import_result(im, index_dims(im, as_real(im, x), at.first, at.count, ids));
}

/* x[mask] = a number. */
static void put_masked(struct gt_import *im, struct gt_value *x, struct gt_value *mask)
{
	struct gt_map_operand operands[3] = { { .value = NULL }, gt_import_operand(im, "values"),
		{ .value = x } };
	int64_t shape[GT_MAX_DIMS];

	for (int i = 0; i < x->ndim; i++)
		shape[i] = i < mask->ndim ? mask->shape[i] : 1;
	operands[0].value = gt_reshape(im->g, mask, x->ndim, shape);
	if (!operands[1].value || gt_value_elements(operands[1].value) != 1)
		gt_import_fail(im, "of several values by booleans");
	else
		gt_import_result(im, gt_apply(im->g, GT_F_WHERE, operands));
}

/* x[ids] = values of a vector. An element with several indices, for which PyTorch takes any of
 * their values, gets the mean of them. */
static struct gt_value *put_values(struct gt_import *im, struct gt_value *x, struct gt_value *ids,
    struct gt_value *values, bool accumulate)
{
	const int64_t size = x->shape[0];
	struct gt_value *sum = gt_index_scatter(im->g, values, ids, size, false), *count, *ones;
	struct gt_map_operand operands[3] = { { .value = NULL }, { .value = NULL },
		{ .value = x } };
	struct gt_map_operand least[2] = { { .value = NULL }, { .is_number = true, .number = 1 } };

	if (accumulate)
		return gt_binary(im->g, GT_F_ADD, as_real(im, x), sum);
	ones = gt_fill(im->g, GT_F32, ids->ndim, ids->shape, 1);
	count = gt_index_scatter(im->g, ones, ids, size, false);
	least[0].value = count;
	operands[0].value = count;
	operands[1].value = gt_binary(im->g, GT_F_DIV, sum, gt_apply(im->g, GT_F_MAX, least));
	return gt_apply(im->g, GT_F_WHERE, operands);
}

void gt_aten_index_put(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *values, *ids;
	bool accumulate = gt_import_bool(im, "accumulate", false);
	struct indices at;

	if (!x || !read_indices(im, &at))
		return;
	if (at.first || at.count != 1) {
		gt_import_fail(im, "by indices of other dimensions than the first");
		return;
	}
	ids = index_value(im, at.of[0]);
	if (is_boolean(im, at.of[0]) && !accumulate && ids->ndim <= x->ndim) {
		put_masked(im, x, ids);
		return;
	}
	ids = join_indices(im, x, &at);
	values = as_real(im, gt_import_tensor(im, "values"));
	if (!ids || !values)
		return;
	if (x->ndim != 1 || ids->ndim != 1)
		gt_import_fail(im, "of anything but elements of a vector");
	if (!gt_value_same_shape(values, ids))
		values = gt_expand(im->g, values, 1, ids->shape);
	if (!im->g->err.code)
		gt_import_result(im, put_values(im, x, ids, values, accumulate));
}

/* ---- counts ---- */

/* Count the elements in `bins` intervals of equal size; elements outside are not counted. */
void gt_aten_histc(struct gt_import *im)
{
	struct gt_value *x = as_real(im, gt_import_tensor(im, "self"));
	int64_t bins = gt_import_int(im, "bins", 100), elements;
	double low = gt_import_float(im, "min", 0), high = gt_import_float(im, "max", 0);
	int64_t shape[] = { bins, 1 };
	struct gt_constant *numbers;
	struct gt_value *in[2];
	struct gt_expr e = { 0 };
	int v, place, inside;

	if (!x || im->g->err.code)
		return;
	if (!(low < high) || bins < 1 || bins > INT32_MAX) {
		gt_import_fail(im, "with limits that depend on the data");
		return;
	}
	numbers = gt_constant_new(&im->constants, GT_F32, 2, shape);
	if (!numbers)
		return;
	for (int64_t i = 0; i < bins; i++)
		numbers->elements[i] = (double)i;
	elements = gt_value_elements(x);
	in[0] = gt_reshape(im->g, x, 2, (int64_t[]){ 1, elements });
	in[1] = gt_import_value(im, numbers);
	v = gt_expr_input(&e, 0);
	place =
	    gt_expr_apply2(&e, GT_F_DIV, gt_expr_apply2(&e, GT_F_SUB, v, gt_expr_number(&e, low)),
	        gt_expr_number(&e, high - low));
	place = gt_expr_apply1(
	    &e, GT_F_FLOOR, gt_expr_apply2(&e, GT_F_MUL, place, gt_expr_number(&e, (double)bins)));
	place = gt_expr_apply2(&e, GT_F_MIN, place, gt_expr_number(&e, (double)(bins - 1)));
	inside = gt_expr_apply2(&e, GT_F_LE, v, gt_expr_number(&e, high));
	gt_expr_output(&e, gt_expr_apply2(&e, GT_F_MUL, inside,
	                       gt_expr_apply2(&e, GT_F_EQ, place, gt_expr_input(&e, 1))));
	gt_import_result(im, gt_sum(im->g, gt_map_expr(im->g, &e, 2, in), 1u << 1, false));
}

/* ---- groups of rows ---- */

/* x [S, K], w [E, K, N] and the ends of the groups [E]; names of arguments differ. */
void gt_aten_grouped_mm(struct gt_import *im)
{
	struct gt_value *x = gt_import_first(im);
	struct gt_value *w = gt_import_tensor(im, gt_import_argument(im, 1));
	struct gt_value *ends = gt_import_ids(im, "offs");
	const char *kind;

	if (!x || !w || !ends)
		return;
	if (gt_import_find(im, "bias", &kind) || gt_import_find(im, "out_dtype", &kind))
		gt_import_fail(im, "with a bias or another type of the result");
	else
		gt_import_result(im, gt_grouped_matmul(im->g, x, w, ends, false));
}
