/* fold_shape.c - functions of PyTorch on constants: views, and elements in other places. */
#include <stdint.h>
#include <string.h>

#include "lib/model/import/fold.h"

typedef struct gt_constant constant;

/* ---- views ---- */

void gt_fold_reshape(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	const char *argument = strncmp(im->fold->name, "reshape", 7) ? "size" : "shape";
	int ndim = gt_import_ints(im, argument, shape, 0, 0);

	if (!im->g->err.code)
		gt_fold_finish(
		    im, gt_constant_reshape(&im->constants, gt_fold_self(im), ndim, shape));
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

void gt_fold_flatten(struct gt_import *im)
{
	constant *c = gt_fold_self(im);
	int64_t size = 1;
	int first, last;

	if (!c || !c->ndim)
		return;
	first = gt_import_dim(im, "start_dim", 0, c->ndim);
	last = gt_import_dim(im, "end_dim", -1, c->ndim);
	for (int i = first; i <= last; i++)
		size *= c->shape[i];
	gt_fold_finish(im, replace_sizes(im, c, first, last, &size, 1));
}

void gt_fold_unsqueeze(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
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
	gt_fold_finish(im, view);
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

void gt_fold_squeeze(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int dim = c && c->ndim ? gt_import_dim(im, "dim", 0, c->ndim) : 0;

	if (view && view->ndim && view->shape[dim] == 1)
		drop_dim(view, dim);
	gt_fold_finish(im, view);
}

void gt_fold_expand(struct gt_import *im)
{
	constant *c = gt_fold_self(im);
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_import_ints(im, "size", shape, 0, 0);

	if (!c || im->g->err.code)
		return;
	for (int i = 0; i < ndim; i++)
		if (shape[i] == -1 && i >= ndim - c->ndim)
			shape[i] = c->shape[i - (ndim - c->ndim)];
	gt_fold_finish(im, gt_constant_expand(&im->constants, c, ndim, shape));
}

void gt_fold_expand_as(struct gt_import *im)
{
	const constant *c = gt_fold_self(im), *like = gt_import_constant(im, "other");
	const struct gt_binding *other = gt_import_binding(im, "other");

	if (!c || !other || im->g->err.code)
		return;
	if (like)
		gt_fold_finish(im, gt_constant_expand(&im->constants, c, like->ndim, like->shape));
	else
		gt_fold_finish(im,
		    gt_constant_expand(&im->constants, c, other->value->ndim, other->value->shape));
}

void gt_fold_permute(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dims", dims, 0, 0);

	if (!view || im->g->err.code)
		return;
	for (int i = 0; i < count; i++) {
		int64_t dim = dims[i] + (dims[i] < 0 ? c->ndim : 0);

		if (count != c->ndim || dim < 0 || dim >= c->ndim) {
			gt_fold_fail_shapes(im);
			return;
		}
		view->shape[i] = c->shape[dim];
		view->stride[i] = c->stride[dim];
	}
	gt_fold_finish(im, view);
}

void gt_fold_transpose(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
	int a, b;

	if (!view || !view->ndim)
		return;
	a = gt_import_dim(im, gt_import_argument(im, 1), 0, c->ndim);
	b = gt_import_dim(im, gt_import_argument(im, 2), 0, c->ndim);
	view->shape[a] = c->shape[b];
	view->stride[a] = c->stride[b];
	view->shape[b] = c->shape[a];
	view->stride[b] = c->stride[a];
	gt_fold_finish(im, view);
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

void gt_fold_slice(struct gt_import *im)
{
	int64_t start = gt_import_int(im, "start", 0), end = gt_import_int(im, "end", INT64_MAX);
	int64_t step = gt_import_int(im, "step", 1), size;
	constant *c = gt_fold_self(im);
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
		gt_fold_finish(im, narrow(im, c, dim, start,
		                       end > start ? (end - start - 1) / step + 1 : 0, step));
}

void gt_fold_select(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view;
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
	gt_fold_finish(im, view);
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

void gt_fold_split(struct gt_import *im)
{
	constant *c = gt_fold_self(im);

	if (c && c->ndim)
		fold_parts(im, c, gt_import_dim(im, "dim", 0, c->ndim),
		    gt_import_int(im, "split_size", 0));
}

void gt_fold_chunk(struct gt_import *im)
{
	constant *c = gt_fold_self(im);
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

void gt_fold_unbind(struct gt_import *im)
{
	constant *c = gt_fold_self(im);
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

void gt_fold_cat(struct gt_import *im)
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
		gt_fold_finish(im, join(im, part, count, gt_import_dim(im, "dim", 0, dims),
		                       gt_import_result_type(im)));
}

void gt_fold_stack(struct gt_import *im)
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
			gt_fold_fail_shapes(im);
			return;
		}
	}
	if (count)
		gt_fold_finish(im, join(im, part, count, dim, gt_import_result_type(im)));
}

/* Add up along a dimension. */
void gt_fold_cumsum(struct gt_import *im)
{
	constant *c = gt_fold_copy_of(im, gt_fold_self(im), gt_import_result_type(im));
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
	gt_fold_finish(im, c);
}

/* The differences of neighbours along a dimension. */
void gt_fold_diff(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *before, *after, *part[3];
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
	gt_fold_finish(
	    im, gt_fold_apply2(im, c->dtype == GT_BOOL ? GT_F_NE : GT_F_SUB,
	            gt_import_result_type(im), narrow(im, c, dim, 1, c->shape[dim] - 1, 1),
	            narrow(im, c, dim, 0, c->shape[dim] - 1, 1)));
}

/* Keep the elements on one side of a diagonal: column - row <= diagonal for tril. */
void gt_fold_triangle(struct gt_import *im)
{
	constant *c = gt_fold_copy_of(im, gt_fold_self(im), gt_import_result_type(im));
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
		gt_fold_finish(im, c);
}

void gt_fold_flip(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *view = c ? gt_constant_view(&im->constants, c) : NULL;
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
	gt_fold_finish(im, gt_fold_copy_of(im, view, view->dtype));
}

/* Add up over dimensions; none stands for all of them. */
void gt_fold_total(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *out, *wide;
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
	if (wide && !gt_constants_read(&im->constants, gt_constant_count(c)))
		return;
	if (wide && gt_constant_count(c))
		do {
			*gt_constant_at(wide, index) += *gt_constant_at(c, index);
		} while (gt_constant_next(c->ndim, c->shape, index));
	for (int i = c->ndim; out && !keep && i-- > 0;)
		if (summed[i])
			drop_dim(out, i);
	gt_fold_finish(im, out);
}

/* ---- indices ---- */

/* c[:, i, j]: the tensors of indices are broadcast, and their dimensions take the place of those
 * that they index, if these are neighbours. */
void gt_fold_index(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *ids[GT_MAX_DIMS], *out;
	int64_t shape[GT_MAX_DIMS], index[GT_MAX_DIMS] = { 0 };
	int first, count = gt_import_indices(im, &first, ids), wide, ndim = 0;

	if (!c || !count)
		return;
	wide = ids[0]->ndim;
	if (first + count > c->ndim || c->ndim - count + wide > GT_MAX_DIMS) {
		gt_fold_fail_shapes(im);
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
				if (!gt_constant_index(ids[k], index + first, c->shape[first + k],
				        &from[first + k])) {
					gt_import_fail(im, ": an index is out of range");
					return;
				}
			for (int i = first + count; i < c->ndim; i++)
				from[i] = index[i - count + wide];
			*gt_constant_at(out, index) = *gt_constant_at(c, from);
		} while (gt_constant_next(ndim, shape, index));
	gt_fold_finish(im, out);
}

void gt_fold_gather(struct gt_import *im)
{
	constant *c = gt_fold_self(im), *ids = gt_import_constant(im, "index"), *out;
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
			if (!inside || !gt_constant_index(ids, at, c->shape[dim], &from[dim])) {
				gt_import_fail(im, ": an index is out of range");
				return;
			}
			*gt_constant_at(out, at) = *gt_constant_at(c, from);
		} while (gt_constant_next(ids->ndim, ids->shape, at));
	gt_fold_finish(im, out);
}
