/* move.c - the usual arrangements: permute, slice, cat, pad, flip, roll. */
#include <string.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/* ---- boxes ---- */

/* A box of a tensor: `size[i]` indices along dimension i, from from[i] on, each step[i] after the
 * one before. In the output it is a box without gaps, from to[i] on. */
struct box {
	int64_t size[GT_MAX_DIMS], from[GT_MAX_DIMS], step[GT_MAX_DIMS], to[GT_MAX_DIMS];
};

static struct box whole_box(const struct gt_value *x)
{
	struct box b = { 0 };

	for (int i = 0; i < x->ndim; i++) {
		b.size[i] = x->shape[i];
		b.step[i] = 1;
	}
	return b;
}

/* Return an arrangement with the shape of x and no pieces. */
static struct gt_arrangement shaped_like(const struct gt_value *x)
{
	struct gt_arrangement a = { .ndim = x->ndim };

	memcpy(a.shape, x->shape, (size_t)x->ndim * sizeof(*x->shape));
	return a;
}

static void set_row_major(int64_t *strides, int64_t ndim, const int64_t *shape)
{
	int64_t step = 1;

	for (int64_t i = ndim; i-- > 0; step *= shape[i])
		strides[i] = step;
}

/* Add a box of x, input number `input`, to an arrangement that has its shape. */
static void add_box(
    struct gt_arrangement *a, int input, const struct gt_value *x, const struct box *b)
{
	struct gt_arrange_piece *p = &a->pieces[a->count++];

	p->input = input;
	p->ndim = x->ndim;
	set_row_major(p->from.strides, x->ndim, x->shape);
	set_row_major(p->to.strides, a->ndim, a->shape);
	for (int i = 0; i < x->ndim; i++) {
		p->shape[i] = b->size[i];
		p->from.first += b->from[i] * p->from.strides[i];
		p->to.first += b->to[i] * p->to.strides[i];
		p->from.strides[i] *= b->step[i];
	}
}

static bool has_dim(struct gt_graph *g, const char *what, const struct gt_value *x, int dim)
{
	if (x && dim >= 0 && dim < x->ndim)
		return true;
	if (x)
		gt_graph_fail(
		    g, GT_EINVAL, "%s: %s has no dimension %d", what, gt_shape_text(x).s, dim);
	return false;
}

/* ---- one input ---- */

struct gt_value *gt_permute_dims(struct gt_graph *g, struct gt_value *x, const int *order)
{
	struct gt_arrangement a = { .count = 1 };
	struct gt_arrange_piece *p = &a.pieces[0];
	int64_t strides[GT_MAX_DIMS];
	unsigned seen = 0;

	if (!x)
		return NULL;
	a.ndim = p->ndim = x->ndim;
	set_row_major(strides, x->ndim, x->shape);
	for (int i = 0; i < x->ndim; i++) {
		if (order[i] < 0 || order[i] >= x->ndim || seen >> order[i] & 1)
			return gt_graph_fail(g, GT_EINVAL,
			    "permute: no order of the dimensions of %s", gt_shape_text(x).s);
		seen |= 1u << order[i];
		a.shape[i] = p->shape[i] = x->shape[order[i]];
		p->from.strides[i] = strides[order[i]];
	}
	set_row_major(p->to.strides, a.ndim, a.shape);
	return gt_arrange(g, 1, &x, &a);
}

struct gt_value *gt_slice_dim(
    struct gt_graph *g, struct gt_value *x, int dim, int64_t start, int64_t end, int64_t step)
{
	struct gt_arrangement a;
	struct box b;
	int64_t n;

	if (!has_dim(g, "slice", x, dim))
		return NULL;
	n = x->shape[dim];
	if (!step || (step > 0 ? start < 0 || start >= end || end > n
	                       : start >= n || start <= end || end < -1))
		return gt_graph_fail(g, GT_EINVAL,
		    "slice: no elements from %lld to %lld by %lld along dimension %d of %s",
		    (long long)start, (long long)end, (long long)step, dim, gt_shape_text(x).s);
	a = shaped_like(x);
	b = whole_box(x);
	a.shape[dim] = b.size[dim] = (end - start - (step > 0 ? 1 : -1)) / step + 1;
	b.from[dim] = start;
	b.step[dim] = b.size[dim] > 1 ? step : 1;
	add_box(&a, 0, x, &b);
	return gt_arrange(g, 1, &x, &a);
}

struct gt_value *gt_select(struct gt_graph *g, struct gt_value *x, int dim, int64_t index)
{
	int64_t shape[GT_MAX_DIMS];

	if (!has_dim(g, "select", x, dim))
		return NULL;
	memcpy(shape, x->shape, sizeof(shape));
	memmove(shape + dim, shape + dim + 1, (size_t)(x->ndim - dim - 1) * sizeof(*shape));
	return gt_reshape(g, gt_slice_dim(g, x, dim, index, index + 1, 1), x->ndim - 1, shape);
}

/* Pad dimension i of a box of all elements. Returns false if nothing is left or the size does not
 * fit into its type. */
static bool pad_dim(struct box *b, struct gt_arrangement *a, int i, int64_t before, int64_t after)
{
	int64_t n = a->shape[i];

	if (before <= -n || after <= -n ||
	    __builtin_add_overflow(a->shape[i], before, &a->shape[i]) ||
	    __builtin_add_overflow(a->shape[i], after, &a->shape[i]))
		return false;
	b->from[i] = before < 0 ? -before : 0;
	b->to[i] = before > 0 ? before : 0;
	b->size[i] = n - b->from[i] + (after < 0 ? after : 0);
	return b->size[i] > 0;
}

struct gt_value *gt_pad(
    struct gt_graph *g, struct gt_value *x, const int64_t *before, const int64_t *after)
{
	struct gt_arrangement a;
	int64_t elements = 1;
	struct box b;

	if (!x)
		return NULL;
	a = shaped_like(x);
	b = whole_box(x);
	for (int i = 0; i < x->ndim; i++) {
		if (!pad_dim(&b, &a, i, before[i], after[i]) ||
		    __builtin_mul_overflow(elements, a.shape[i], &elements))
			return gt_graph_fail(g, GT_EINVAL,
			    "pad: dimension %d of %s cannot grow by %lld before and %lld after it",
			    i, gt_shape_text(x).s, (long long)before[i], (long long)after[i]);
	}
	add_box(&a, 0, x, &b);
	return gt_arrange(g, 1, &x, &a);
}

struct gt_value *gt_flip(struct gt_graph *g, struct gt_value *x, unsigned dims)
{
	struct gt_arrangement a;
	struct box b;

	if (!x)
		return NULL;
	a = shaped_like(x);
	b = whole_box(x);
	for (int i = 0; i < x->ndim; i++)
		if (dims >> i & 1) {
			b.from[i] = x->shape[i] - 1;
			b.step[i] = -1;
		}
	add_box(&a, 0, x, &b);
	return gt_arrange(g, 1, &x, &a);
}

/* A node rolls as many dimensions: each is in two parts, so there are 8 pieces. */
enum { ROLL_DIMS = 3 };

static_assert(1 << ROLL_DIMS == GT_MAX_PIECES, "a node has room for all parts");

/* Roll some dimensions by shift[i], 0 < shift[i] < shape[i]. A part of a dimension either moves
 * towards its end, or leaves it and comes back at its start. */
static struct gt_value *roll_dims(
    struct gt_graph *g, struct gt_value *x, int count, const int *dims, const int64_t *shift)
{
	struct gt_arrangement a = shaped_like(x);

	for (unsigned parts = 0; parts < 1u << count; parts++) {
		struct box b = whole_box(x);

		for (int k = 0; k < count; k++) {
			int i = dims[k];
			bool comes_back = parts >> k & 1;

			b.from[i] = comes_back ? x->shape[i] - shift[i] : 0;
			b.to[i] = comes_back ? 0 : shift[i];
			b.size[i] = comes_back ? shift[i] : x->shape[i] - shift[i];
		}
		add_box(&a, 0, x, &b);
	}
	return gt_arrange(g, 1, &x, &a);
}

struct gt_value *gt_roll(struct gt_graph *g, struct gt_value *x, const int64_t *shifts)
{
	int64_t shift[GT_MAX_DIMS];
	int dims[ROLL_DIMS], count = 0;

	for (int i = 0; x && i < x->ndim; i++) {
		shift[i] = shifts[i] % x->shape[i];
		shift[i] += shift[i] < 0 ? x->shape[i] : 0;
		if (!shift[i])
			continue;
		dims[count++] = i;
		if (count == ROLL_DIMS) {
			x = roll_dims(g, x, count, dims, shift);
			count = 0;
		}
	}
	return x && count ? roll_dims(g, x, count, dims, shift) : x;
}

/* ---- several inputs ---- */

/* Return whether b has the shape of a, but for dimension `dim`. */
static bool can_join(const struct gt_value *a, const struct gt_value *b, int dim)
{
	bool same = a->ndim == b->ndim;

	for (int i = 0; same && i < a->ndim; i++)
		same = i == dim || a->shape[i] == b->shape[i];
	return same;
}

/* Join as many values as a node has inputs, or fewer. */
static struct gt_value *cat_few(struct gt_graph *g, int count, struct gt_value *const *in, int dim)
{
	struct gt_arrangement a;
	int64_t end = 0;

	if (!has_dim(g, "cat", in[0], dim))
		return NULL;
	a = shaped_like(in[0]);
	a.shape[dim] = 0;
	for (int k = 0; k < count; k++) {
		if (!in[k])
			return NULL;
		if (!can_join(in[0], in[k], dim))
			return gt_graph_fail(g, GT_EINVAL, "cat: %s and %s along dimension %d",
			    gt_shape_text(in[0]).s, gt_shape_text(in[k]).s, dim);
		a.shape[dim] += in[k]->shape[dim];
	}
	for (int k = 0; k < count; k++) {
		struct box b = whole_box(in[k]);

		b.to[dim] = end;
		end += in[k]->shape[dim];
		add_box(&a, k, in[k], &b);
	}
	return gt_arrange(g, count, in, &a);
}

struct gt_value *gt_cat(struct gt_graph *g, int count, struct gt_value *const *in, int dim)
{
	struct gt_value *parts[GT_MAX_INPUTS];

	if (count <= GT_MAX_INPUTS)
		return cat_few(g, count, in, dim);
	for (int k = 0; k < GT_MAX_INPUTS; k++) {
		int first = (int)((int64_t)count * k / GT_MAX_INPUTS);
		int end = (int)((int64_t)count * (k + 1) / GT_MAX_INPUTS);

		parts[k] = gt_cat(g, end - first, in + first, dim);
	}
	return cat_few(g, GT_MAX_INPUTS, parts, dim);
}

/* Insert a dimension of size 1. */
static struct gt_value *insert_dim(struct gt_graph *g, struct gt_value *x, int dim)
{
	int64_t shape[GT_MAX_DIMS + 1];

	if (!x)
		return NULL;
	if (dim < 0 || dim > x->ndim || x->ndim == GT_MAX_DIMS)
		return gt_graph_fail(g, GT_EINVAL, "stack: no dimension %d of %s and one more", dim,
		    gt_shape_text(x).s);
	memcpy(shape, x->shape, sizeof(x->shape));
	memmove(shape + dim + 1, shape + dim, (size_t)(x->ndim - dim) * sizeof(*shape));
	shape[dim] = 1;
	return gt_reshape(g, x, x->ndim + 1, shape);
}

struct gt_value *gt_stack(struct gt_graph *g, int count, struct gt_value *const *in, int dim)
{
	struct gt_value **parts = NULL;

	if (!g->err.code)
		parts =
		    gt_arena_alloc(&g->arena, (size_t)count * sizeof(struct gt_value *), &g->err);
	if (!parts)
		return NULL;
	for (int k = 0; k < count; k++)
		parts[k] = insert_dim(g, in[k], dim);
	return gt_cat(g, count, parts, dim);
}
