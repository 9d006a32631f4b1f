/* arrange.c - copies by strides as slices, transpositions, paddings and concatenations of ONNX. */
#include "lib/graph/arrangement.h"

#include <stdlib.h>
#include <string.h>

#include "lib/model/onnx/inside.h"

/*
 * A piece of an arrangement copies elements whose places step by strides. A stride that divides the
 * number of elements that it counts makes two dimensions of one: so a tensor of 24 elements, with a
 * piece that steps by 12 and by 1, is viewed as [2, 12], and the piece is a box of this view. A box
 * is a slice of each dimension. Another view, of the output, is that of the strides `to`, and the
 * piece, with its dimensions in another order, is a box of it, too. Example, y = [x^T, z] of
 * arrangement.h:
 *
 *   x as [2, 3], all of it, transposed to [3, 2]        is the box [0:3, 0:2] of y as [3, 3]
 *   z as [3], all of it, as [3, 1]                      is the box [0:3, 2:3]
 *
 * Boxes that lie beside each other are concatenated, and gaps are padded with zeros. The numbers of
 * the views are found in each graph by itself, and compared then (struct gt_onnx_variant).
 */
enum { MAX_DIMS = 2 * GT_MAX_DIMS };

/* A dimension of a view, and the indices in it that a box has. */
struct view_dim {
	int64_t size, stride;       /* in elements of the tensor */
	int64_t start, count, step; /* the box has the indices start + i * step, i < count */
	int dim;                    /* dimension of the piece; -1: the box has one index */
};

struct view {
	int ndim;
	struct view_dim dims[MAX_DIMS];
};

/* A piece, with its dimensions divided so that all pieces have the same view of the output. */
struct piece {
	int input, ndim;
	int64_t shape[MAX_DIMS], from[MAX_DIMS], to[MAX_DIMS], from_first, to_first;
	struct view in, out;
};

/* The pieces in one graph. */
struct layout {
	int count;
	struct piece pieces[GT_MAX_PIECES];
};

/* ---- the views in one graph ---- */

/* Return the distance between indices of a view's dimension in which a stride steps: the stride
 * itself if it divides the elements that are left, else the largest of the tensor's own dimensions
 * that divides both. */
static int64_t find_unit(const struct gt_value *v, int64_t left, int64_t stride)
{
	int64_t unit = 1, best = 1;

	if (left % stride == 0)
		return stride;
	for (int i = v->ndim - 1; i > 0; i--) {
		unit *= v->shape[i];
		if (unit > best && left % unit == 0 && stride % unit == 0)
			best = unit;
	}
	return best;
}

/* Order the dimensions of a piece by the size of their strides, the largest first. */
static void sort_strides(int *order, int ndim, const int64_t *strides)
{
	for (int i = 0; i < ndim; i++) {
		int k = i;

		for (; k > 0 && llabs(strides[order[k - 1]]) < llabs(strides[i]); k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

/* View a tensor so that a piece is a box of it. Return false if there is no such view. */
static bool view_tensor(struct view *out, const struct gt_value *v, const struct piece *p,
    const int64_t *strides, int64_t first)
{
	int64_t left = gt_value_elements(v);
	int order[MAX_DIMS];

	out->ndim = 0;
	sort_strides(order, p->ndim, strides);
	for (int i = 0; i < p->ndim; i++) {
		int64_t stride = strides[order[i]], unit = find_unit(v, left, llabs(stride));

		out->dims[out->ndim++] = (struct view_dim){ .size = left / unit,
			.stride = unit,
			.count = p->shape[order[i]],
			.step = stride / unit,
			.dim = order[i] };
		left = unit;
	}
	if (left > 1 && out->ndim < MAX_DIMS)
		out->dims[out->ndim++] = (struct view_dim){ left, 1, 0, 1, 1, -1 };
	for (int i = 0; i < out->ndim; i++) {
		struct view_dim *d = &out->dims[i];
		int64_t last;

		d->start = first / d->stride % d->size;
		last = d->start + (d->count - 1) * d->step;
		if (last < 0 || last >= d->size)
			return false;
	}
	return true;
}

/* ---- one view of the output for all pieces ---- */

/* The strides at which some view of the output is divided, the largest first. */
struct cuts {
	int count;
	int64_t strides[GT_MAX_PIECES * MAX_DIMS + GT_MAX_DIMS];
};

static int compare_strides(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x < y) - (x > y);
}

/* Find the cuts of all pieces and, if `own` is not NULL, the dimensions of this tensor itself. */
static bool find_cuts(struct cuts *cuts, const struct layout *l, const struct gt_value *own)
{
	int64_t stride = 1;
	int count = 0;

	cuts->count = 0;
	for (int i = own ? own->ndim - 1 : -1; i >= 0; stride *= own->shape[i--])
		cuts->strides[cuts->count++] = stride;
	for (int i = 0; i < l->count; i++)
		for (int k = 0; k < l->pieces[i].out.ndim; k++)
			cuts->strides[cuts->count++] = l->pieces[i].out.dims[k].stride;
	qsort(cuts->strides, (size_t)cuts->count, sizeof(*cuts->strides), compare_strides);
	for (int i = 0; i < cuts->count; i++)
		if (!count || cuts->strides[i] != cuts->strides[count - 1])
			cuts->strides[count++] = cuts->strides[i];
	cuts->count = count;
	for (int i = 1; i < count; i++)
		if (cuts->strides[i - 1] % cuts->strides[i])
			return false;
	return count <= MAX_DIMS;
}

/* Divide a dimension of a piece where others divide the output: `inner` of its indices make one of
 * the outer dimension. Return the outer dimension; -1: the piece is no box there. */
static int divide_dim(struct piece *p, int dim, int64_t start, int64_t inner)
{
	int64_t count = p->shape[dim];

	if (start / inner == (start + count - 1) / inner)
		return dim; /* the outer dimension has one index */
	if (start % inner || count % inner || p->ndim == MAX_DIMS)
		return -1;
	p->shape[p->ndim] = count / inner;
	p->from[p->ndim] = p->from[dim] * inner;
	p->to[p->ndim] = p->to[dim] * inner;
	p->shape[dim] = inner;
	return p->ndim++;
}

/* Divide a dimension of the output's view at all cuts, from the inner end. */
static bool divide_view_dim(struct piece *p, const struct view_dim *d, const struct cuts *cuts)
{
	int64_t start = d->start, stride = d->stride;
	int dim = d->dim;

	for (int i = cuts->count; i-- > 0 && dim >= 0;) {
		int64_t cut = cuts->strides[i], inner = cut / stride;
		int outer;

		if (cut <= stride || cut >= d->stride * d->size)
			continue;
		outer = divide_dim(p, dim, start, inner);
		if (outer < 0)
			return false;
		if (outer == dim)
			return true;
		start /= inner;
		stride = cut;
		dim = outer;
	}
	return true;
}

/* Give a view of the output the dimensions of all cuts: those that the piece lacks have one
 * index. */
static bool complete_view(
    struct view *v, const struct gt_value *y, const struct piece *p, const struct cuts *cuts)
{
	int64_t left = gt_value_elements(y);
	struct view made = { 0 };

	for (int i = 0; i < cuts->count; i++) {
		int64_t unit = cuts->strides[i];
		struct view_dim d = { left / unit, unit, p->to_first / unit % (left / unit), 1, 1,
			-1 };

		for (int k = 0; k < p->ndim; k++)
			if (p->to[k] == unit && p->shape[k] > 1) {
				d.dim = k;
				d.count = p->shape[k];
			}
		if (d.start + d.count > d.size)
			return false;
		made.dims[made.ndim++] = d;
		left = unit;
	}
	*v = made;
	return left == 1;
}

static void take_piece(struct piece *out, const struct gt_arrange_piece *p)
{
	*out = (struct piece){ .input = (int)p->input,
		.ndim = (int)p->ndim,
		.from_first = p->from.first,
		.to_first = p->to.first };
	memcpy(out->shape, p->shape, sizeof(p->shape));
	memcpy(out->from, p->from.strides, sizeof(p->from.strides));
	memcpy(out->to, p->to.strides, sizeof(p->to.strides));
}

/* Find the views of all pieces in one graph. With `own`, the output is also divided at its own
 * dimensions, which not all pieces allow. */
static bool lay_out(struct layout *l, const struct gt_node *n, bool own)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;
	struct cuts cuts;

	l->count = (int)a->count;
	for (int i = 0; i < l->count; i++) {
		struct piece *p = &l->pieces[i];

		take_piece(p, &a->pieces[i]);
		if (!view_tensor(&p->out, n->out[0], p, p->to, p->to_first))
			return false;
		for (int k = 0; k < p->out.ndim; k++)
			if (p->out.dims[k].step != 1)
				return false;
	}
	if (!find_cuts(&cuts, l, own ? n->out[0] : NULL))
		return false;
	for (int i = 0; i < l->count; i++) {
		struct piece *p = &l->pieces[i];

		for (int k = 0; k < p->out.ndim; k++)
			if (p->out.dims[k].dim >= 0 && !divide_view_dim(p, &p->out.dims[k], &cuts))
				return false;
		if (!complete_view(&p->out, n->out[0], p, &cuts) ||
		    !view_tensor(&p->in, n->in[p->input], p, p->from, p->from_first))
			return false;
	}
	return true;
}

/* ---- the layouts of all graphs ---- */

struct arranger {
	struct gt_onnx_export *x;
	const struct gt_node *n;
	struct layout *layouts; /* [GT_ONNX_VARIANTS] */
};

static bool same_view(const struct view *a, const struct view *b)
{
	bool same = a->ndim == b->ndim;

	for (int i = 0; same && i < a->ndim; i++)
		same = a->dims[i].dim == b->dims[i].dim && a->dims[i].step == b->dims[i].step;
	return same;
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
	bool same = a->count == b->count;

	for (int i = 0; same && i < a->count; i++)
		same = a->pieces[i].input == b->pieces[i].input &&
		       same_view(&a->pieces[i].in, &b->pieces[i].in) &&
		       same_view(&a->pieces[i].out, &b->pieces[i].out);
	return same;
}

/* Find the layouts of all graphs. */
static bool try_layouts(struct arranger *a, bool own)
{
	for (int k = 0; k < GT_ONNX_VARIANTS; k++)
		if (a->x->g[k] &&
		    !lay_out(&a->layouts[k], gt_onnx_twin(a->x, (enum gt_onnx_variant)k), own))
			return false;
	return true;
}

static bool lay_out_all(struct arranger *a)
{
	if (!try_layouts(a, true) && !try_layouts(a, false))
		return gt_onnx_fail(a->x, "a copy that is not made of boxes");
	for (int k = 1; k < GT_ONNX_VARIANTS; k++)
		if (a->x->g[k] && !same_layout(&a->layouts[GT_ONNX_BASE], &a->layouts[k]))
			return gt_onnx_fail_varied(a->x, k == GT_ONNX_TIME);
	return true;
}

/* Return in `values` what a number of the first layout is in the layout of each graph. */
static void read_all(
    const struct arranger *a, const int64_t *number, int64_t values[GT_ONNX_VARIANTS])
{
	for (int k = 0; k < GT_ONNX_VARIANTS; k++)
		values[k] =
		    *(const int64_t *)((const char *)number + (size_t)k * sizeof(*a->layouts));
}

static struct gt_onnx_size read_size(const struct arranger *a, const int64_t *number)
{
	int64_t values[GT_ONNX_VARIANTS];

	read_all(a, number, values);
	return gt_onnx_size_of(a->x, values);
}

/* ---- one piece ---- */

/* Return whether a box ends where its view does, in each graph; `from_start`: it begins so, too. */
static bool is_at_end(const struct arranger *a, const struct view_dim *d, bool from_start)
{
	int64_t starts[GT_ONNX_VARIANTS], counts[GT_ONNX_VARIANTS], sizes[GT_ONNX_VARIANTS];
	bool all = true;

	read_all(a, &d->start, starts);
	read_all(a, &d->count, counts);
	read_all(a, &d->size, sizes);
	for (int k = 0; k < GT_ONNX_VARIANTS; k++) {
		int64_t last = starts[k] + (counts[k] - 1) * d->step;

		if (a->x->g[k])
			all &= last == (d->step > 0 ? sizes[k] - 1 : 0) &&
			       (!from_start || starts[k] == 0);
	}
	return all;
}

static bool is_whole(const struct arranger *a, const struct view_dim *d)
{
	return d->step == 1 && is_at_end(a, d, true);
}

/* Return where a slice of a dimension begins, and in *end where it ends, as Slice takes them. */
static int64_t find_slice(const struct arranger *a, const struct view_dim *d, int64_t *end)
{
	int64_t starts[GT_ONNX_VARIANTS], counts[GT_ONNX_VARIANTS], sizes[GT_ONNX_VARIANTS];
	int64_t ends[GT_ONNX_VARIANTS], start = 0;
	bool at_end = is_at_end(a, d, false);

	read_all(a, &d->start, starts);
	read_all(a, &d->count, counts);
	read_all(a, &d->size, sizes);
	for (int k = 0; k < GT_ONNX_VARIANTS; k++)
		ends[k] = starts[k] + (counts[k] - 1) * d->step + (d->step > 0 ? 1 : -1);
	*end = d->step > 0 ? INT64_MAX : INT64_MIN;
	if (!gt_onnx_index(a->x, starts, sizes, &start) ||
	    (!at_end && !gt_onnx_index(a->x, ends, sizes, end)))
		gt_onnx_fail_free(a->x, starts);
	return start;
}

/* Cut the box of a piece out of the view of its input. */
static const char *slice_box(const struct arranger *a, const struct view *v, const char *name)
{
	int64_t starts[MAX_DIMS], ends[MAX_DIMS], axes[MAX_DIMS], steps[MAX_DIMS];
	int count = 0;

	for (int i = 0; i < v->ndim; i++) {
		if (is_whole(a, &v->dims[i]))
			continue;
		starts[count] = find_slice(a, &v->dims[i], &ends[count]);
		steps[count] = v->dims[i].step;
		axes[count++] = i;
	}
	if (!count)
		return name;
	return gt_onnx_call(a->x, "Slice", NULL, 5,
	    (const char *[]){ name, gt_onnx_ints(a->x, count, starts),
	        gt_onnx_ints(a->x, count, ends), gt_onnx_ints(a->x, count, axes),
	        gt_onnx_ints(a->x, count, steps) });
}

static struct gt_onnx_shape view_sizes(const struct arranger *a, const struct view *v)
{
	struct gt_onnx_shape s = { .ndim = v->ndim };

	for (int i = 0; i < v->ndim; i++)
		s.dims[i] = read_size(a, &v->dims[i].size);
	return s;
}

/* Return the sizes of a view's box, without dimensions of one index if `few`. */
static struct gt_onnx_shape box_sizes(const struct arranger *a, const struct view *v, bool few)
{
	struct gt_onnx_shape s = { .ndim = 0 };

	for (int i = 0; i < v->ndim; i++)
		if (!few || v->dims[i].dim >= 0)
			s.dims[s.ndim++] = read_size(a, &v->dims[i].count);
	return s;
}

/* Find the order in which the dimensions of a piece's input come in the output. */
static int find_order(int64_t *order, const struct piece *p)
{
	int count = 0;

	for (int i = 0; i < p->out.ndim; i++) {
		int at = 0;

		if (p->out.dims[i].dim < 0)
			continue;
		for (int k = 0; p->in.dims[k].dim != p->out.dims[i].dim; k++)
			at += p->in.dims[k].dim >= 0;
		order[count++] = at;
	}
	return count;
}

/* Return a piece as a box of the output's view. */
static const char *write_piece(const struct arranger *a, const struct piece *p)
{
	const struct gt_value *in = a->n->in[p->input];
	const struct gt_onnx_shape shape = gt_onnx_shape_of(a->x, in);
	const struct gt_onnx_shape view = view_sizes(a, &p->in);
	const struct gt_onnx_shape all = box_sizes(a, &p->in, false);
	const struct gt_onnx_shape few = box_sizes(a, &p->in, true);
	const struct gt_onnx_shape turned = box_sizes(a, &p->out, true);
	const struct gt_onnx_shape box = box_sizes(a, &p->out, false);
	int64_t order[MAX_DIMS];
	int count = find_order(order, p);
	const char *name = gt_onnx_reshape(a->x, gt_onnx_name(a->x, in), &shape, &view);

	name = slice_box(a, &p->in, name);
	name = gt_onnx_reshape(a->x, name, &all, &few);
	name = gt_onnx_transpose(a->x, name, count, order);
	return gt_onnx_reshape(a->x, name, &turned, &box);
}

/* ---- all pieces ---- */

/* A part of the output's view, in each graph: indices from `first` on, before `end`. */
struct region {
	int64_t first[MAX_DIMS][GT_ONNX_VARIANTS], end[MAX_DIMS][GT_ONNX_VARIANTS];
};

/* Pad a piece with zeros up to a region. */
static const char *pad_piece(
    const struct arranger *a, const struct piece *p, const struct region *r)
{
	const char *name = write_piece(a, p);
	int64_t pads[2 * MAX_DIMS];
	bool whole = true;

	for (int i = 0; i < p->out.ndim; i++) {
		int64_t start[GT_ONNX_VARIANTS], count[GT_ONNX_VARIANTS];
		int64_t before[GT_ONNX_VARIANTS], after[GT_ONNX_VARIANTS];
		static const int64_t none[GT_ONNX_VARIANTS] = { 0 };

		read_all(a, &p->out.dims[i].start, start);
		read_all(a, &p->out.dims[i].count, count);
		for (int k = 0; k < GT_ONNX_VARIANTS; k++) {
			before[k] = start[k] - r->first[i][k];
			after[k] = r->end[i][k] - start[k] - count[k];
		}
		if (!gt_onnx_index(a->x, before, none, &pads[i]) ||
		    !gt_onnx_index(a->x, after, none, &pads[p->out.ndim + i]))
			gt_onnx_fail_free(a->x, r->end[i]);
		whole &= !pads[i] && !pads[p->out.ndim + i];
	}
	if (whole)
		return name;
	return gt_onnx_binary(a->x, "Pad", name, gt_onnx_ints(a->x, 2 * p->out.ndim, pads));
}

/* Order pieces along a dimension, and set group[i] for the i-th of them: pieces of different groups
 * do not overlap there. Return the number of groups. */
static int group_pieces(
    const struct arranger *a, int *pieces, int count, int dim, int group[GT_MAX_PIECES])
{
	const struct piece *all = a->layouts[GT_ONNX_BASE].pieces;
	int64_t end = 0;
	int groups = 0;

	for (int i = 1; i < count; i++)
		for (int k = i; k > 0 && all[pieces[k]].out.dims[dim].start <
		                             all[pieces[k - 1]].out.dims[dim].start;
		     k--) {
			int piece = pieces[k];

			pieces[k] = pieces[k - 1];
			pieces[k - 1] = piece;
		}
	for (int i = 0; i < count; i++) {
		const struct view_dim *d = &all[pieces[i]].out.dims[dim];

		groups += !i || d->start >= end;
		group[i] = groups - 1;
		end = d->start + d->count > end ? d->start + d->count : end;
	}
	return groups;
}

/* Return a region of the output's view that has these pieces. */
static const char *write_region(
    const struct arranger *a, int *pieces, int count, const struct region *r)
{
	const struct piece *all = a->layouts[GT_ONNX_BASE].pieces;
	const char *parts[GT_MAX_PIECES];
	int group[GT_MAX_PIECES];

	if (count == 1)
		return pad_piece(a, &all[pieces[0]], r);
	for (int d = 0; d < all[0].out.ndim; d++) {
		int groups = group_pieces(a, pieces, count, d, group), end = 0;

		for (int g = 0; g < groups && groups > 1; g++) {
			struct region part = *r;
			int first = end;

			while (end < count && group[end] == g)
				end++;
			if (g)
				read_all(a, &all[pieces[first]].out.dims[d].start, part.first[d]);
			if (end < count)
				read_all(a, &all[pieces[end]].out.dims[d].start, part.end[d]);
			parts[g] = write_region(a, pieces + first, end - first, &part);
		}
		if (groups > 1)
			return gt_onnx_concat(a->x, groups, parts, d);
	}
	return gt_onnx_fail(a->x, "pieces that do not lie beside each other");
}

static const char *write_layout(const struct arranger *a)
{
	const struct layout *l = &a->layouts[GT_ONNX_BASE];
	const struct view *v = &l->pieces[0].out;
	const struct gt_onnx_shape view = view_sizes(a, v);
	const struct gt_onnx_shape shape = gt_onnx_shape_of(a->x, a->n->out[0]);
	int pieces[GT_MAX_PIECES];
	struct region r = { 0 };

	for (int i = 0; i < l->count; i++)
		pieces[i] = i;
	for (int i = 0; i < v->ndim; i++)
		read_all(a, &v->dims[i].size, r.end[i]);
	return gt_onnx_reshape(a->x, write_region(a, pieces, l->count, &r), &view, &shape);
}

void gt_onnx_arrange(struct gt_onnx_export *x, const struct gt_node *n)
{
	struct arranger a = { .x = x, .n = n };
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, n->out[0]);
	const char *name = NULL;

	if (!n->attrs.arrange.arrangement->count) {
		name = gt_onnx_expand(x, gt_onnx_number(x, n->out[0]->dtype, 0), &shape);
	} else {
		a.layouts = gt_calloc(GT_ONNX_VARIANTS, sizeof(*a.layouts), &x->err);
		if (a.layouts && lay_out_all(&a))
			name = write_layout(&a);
		free(a.layouts);
	}
	gt_onnx_set(x, n->out[0], name);
}
