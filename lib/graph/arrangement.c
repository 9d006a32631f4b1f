/* arrangement.c - check copies by strides, and describe them in their simplest form. */
#include "lib/graph/arrangement.h"

#include <stdlib.h>

static int64_t count_elements(int64_t ndim, const int64_t *shape)
{
	int64_t n = 1;

	for (int64_t i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

int64_t gt_arrange_piece_elements(const struct gt_arrange_piece *p)
{
	return count_elements(p->ndim, p->shape);
}

int64_t gt_arrangement_copied(const struct gt_arrangement *a)
{
	int64_t n = 0;

	for (int64_t i = 0; i < a->count; i++)
		n += gt_arrange_piece_elements(&a->pieces[i]);
	return n;
}

int64_t gt_arrangement_elements(const struct gt_arrangement *a)
{
	return count_elements(a->ndim, a->shape);
}

/* ---- checks ---- */

/* Return whether all places are among `elements` elements. Sizes may be any numbers. */
static bool places_are_inside(
    const struct gt_arrange_piece *p, const struct gt_places *places, int64_t elements)
{
	int64_t least = places->first, most = places->first;

	for (int64_t i = 0; i < p->ndim; i++) {
		int64_t way, *end;

		if (__builtin_mul_overflow(places->strides[i], p->shape[i] - 1, &way))
			return false;
		end = way < 0 ? &least : &most;
		if (__builtin_add_overflow(*end, way, end))
			return false;
	}
	return least >= 0 && most < elements;
}

/* Return the dimension of the smallest stride that is not `taken`, or -1. Dimensions of size 1 have
 * no stride. */
static int find_least_stride(
    const struct gt_arrange_piece *p, const struct gt_places *places, unsigned taken)
{
	int least = -1;

	for (int i = 0; i < p->ndim; i++)
		if (p->shape[i] > 1 && !(taken >> i & 1) &&
		    (least < 0 || llabs(places->strides[i]) < llabs(places->strides[least])))
			least = i;
	return least;
}

/* Return whether no two elements of a piece have the same place, as far as this function can tell:
 * each stride must exceed `reach`, the sum of all steps by smaller strides. */
static bool places_differ(const struct gt_arrange_piece *p, const struct gt_places *places)
{
	unsigned taken = 0;
	int64_t reach = 0;

	for (int i; (i = find_least_stride(p, places, taken)) >= 0; taken |= 1u << i) {
		if (llabs(places->strides[i]) <= reach)
			return false;
		reach += llabs(places->strides[i]) * (p->shape[i] - 1);
	}
	return true;
}

struct range {
	int64_t first, last;
};

/* Return the range of a piece's places, without the steps that are multiples of `modulus`; of all
 * places if `modulus` is 0. */
static struct range range_of(
    const struct gt_arrange_piece *p, const struct gt_places *places, int64_t modulus)
{
	struct range r = { places->first, places->first };

	for (int64_t i = 0; i < p->ndim; i++) {
		int64_t way = places->strides[i] * (p->shape[i] - 1);

		if (modulus && places->strides[i] % modulus == 0)
			continue;
		r.first += way < 0 ? way : 0;
		r.last += way > 0 ? way : 0;
	}
	return r;
}

/* One side of two pieces that lie in the same tensor. */
struct pair {
	const struct gt_arrange_piece *piece[2];
	const struct gt_places *places[2];
};

static bool are_apart_as_ranges(const struct pair *p)
{
	struct range a = range_of(p->piece[0], p->places[0], 0);
	struct range b = range_of(p->piece[1], p->places[1], 0);

	return a.last < b.first || b.last < a.first;
}

/* Modulo m, both are ranges of a circle of m places. `start` is the place of b's first element,
 * counted from a's. Example: the columns 0 to 1 and 2 to 4 of a matrix with m = 5 columns. */
static bool are_apart_modulo(const struct pair *p, int64_t m)
{
	struct range a = range_of(p->piece[0], p->places[0], m);
	struct range b = range_of(p->piece[1], p->places[1], m);
	int64_t start = (b.first - a.first) % m;

	start += start < 0 ? m : 0;
	return start > a.last - a.first && b.last - b.first < m - start;
}

static bool are_apart(const struct pair *p)
{
	if (are_apart_as_ranges(p))
		return true;
	for (int k = 0; k < 2; k++)
		for (int64_t i = 0; i < p->piece[k]->ndim; i++)
			if (p->piece[k]->shape[i] > 1 &&
			    are_apart_modulo(p, llabs(p->places[k]->strides[i])))
				return true;
	return false;
}

static bool has_sane_shape(int64_t ndim, const int64_t *shape)
{
	int64_t n = 1;

	if (ndim < 0 || ndim > GT_MAX_DIMS)
		return false;
	for (int64_t i = 0; i < ndim; i++)
		if (shape[i] < 1 || __builtin_mul_overflow(n, shape[i], &n))
			return false;
	return true;
}

static int check_piece(const struct gt_arrangement *a, int64_t k, int inputs,
    const int64_t *elements, struct gt_err *err)
{
	const struct gt_arrange_piece *p = &a->pieces[k];

	if (p->input < 0 || p->input >= inputs || !has_sane_shape(p->ndim, p->shape))
		return gt_err_set(
		    err, GT_EINVAL, "piece %lld has no input or no shape", (long long)k);
	if (!places_are_inside(p, &p->from, elements[p->input]) ||
	    !places_are_inside(p, &p->to, gt_arrangement_elements(a)))
		return gt_err_set(
		    err, GT_EINVAL, "piece %lld is not inside of its tensors", (long long)k);
	if (!places_differ(p, &p->from) || !places_differ(p, &p->to))
		return gt_err_set(
		    err, GT_EINVAL, "piece %lld may have an element twice", (long long)k);
	return 0;
}

/* Check two pieces that are inside of their tensors. */
static int check_pair(const struct gt_arrangement *a, int64_t i, int64_t k, struct gt_err *err)
{
	const struct gt_arrange_piece *p = &a->pieces[i], *q = &a->pieces[k];
	struct pair from = { { p, q }, { &p->from, &q->from } };
	struct pair to = { { p, q }, { &p->to, &q->to } };

	if (!are_apart(&to) || (p->input == q->input && !are_apart(&from)))
		return gt_err_set(err, GT_EINVAL, "pieces %lld and %lld may have a common element",
		    (long long)i, (long long)k);
	return 0;
}

int gt_arrangement_check(
    const struct gt_arrangement *a, int inputs, const int64_t *elements, struct gt_err *err)
{
	unsigned used = 0;

	if (!has_sane_shape(a->ndim, a->shape) || a->count < 1 || a->count > GT_MAX_PIECES)
		return gt_err_set(err, GT_EINVAL, "the arrangement has no shape or no pieces");
	for (int64_t k = 0; k < a->count; k++) {
		if (check_piece(a, k, inputs, elements, err))
			return err->code;
		used |= 1u << a->pieces[k].input;
		for (int64_t i = 0; i < k; i++)
			if (check_pair(a, i, k, err))
				return err->code;
	}
	for (int k = 0; k < inputs; k++)
		if (!(used >> k & 1))
			return gt_err_set(err, GT_EINVAL, "input %d is in no piece", k);
	return 0;
}

/* ---- the simplest form ---- */

static void remove_dim(struct gt_arrange_piece *p, int64_t dim)
{
	p->ndim--;
	for (int64_t i = dim; i < p->ndim; i++) {
		p->shape[i] = p->shape[i + 1];
		p->from.strides[i] = p->from.strides[i + 1];
		p->to.strides[i] = p->to.strides[i + 1];
	}
	p->shape[p->ndim] = p->from.strides[p->ndim] = p->to.strides[p->ndim] = 0;
}

static void swap_numbers(int64_t *a, int64_t *b)
{
	int64_t t = *a;

	*a = *b;
	*b = t;
}

/* Walk a dimension from its other end. */
static void reverse_dim(struct gt_arrange_piece *p, int64_t dim)
{
	p->from.first += p->from.strides[dim] * (p->shape[dim] - 1);
	p->to.first += p->to.strides[dim] * (p->shape[dim] - 1);
	p->from.strides[dim] = -p->from.strides[dim];
	p->to.strides[dim] = -p->to.strides[dim];
}

/* Move a dimension forward to its place in the order of the output's memory. */
static void sort_dim(struct gt_arrange_piece *p, int64_t dim)
{
	for (int64_t i = dim; i > 0 && p->to.strides[i] > p->to.strides[i - 1]; i--) {
		swap_numbers(&p->shape[i], &p->shape[i - 1]);
		swap_numbers(&p->from.strides[i], &p->from.strides[i - 1]);
		swap_numbers(&p->to.strides[i], &p->to.strides[i - 1]);
	}
}

/* Return whether a dimension and the one after it are one: a step of the first is as long as all
 * steps of the other. */
static bool dims_join(const struct gt_arrange_piece *p, int64_t dim)
{
	int64_t size = p->shape[dim + 1];

	return p->from.strides[dim] == p->from.strides[dim + 1] * size &&
	       p->to.strides[dim] == p->to.strides[dim + 1] * size;
}

void gt_arrange_piece_simplify(struct gt_arrange_piece *p)
{
	for (int64_t i = p->ndim; i-- > 0;)
		if (p->shape[i] == 1)
			remove_dim(p, i);
	for (int64_t i = 0; i < p->ndim; i++) {
		if (p->to.strides[i] < 0)
			reverse_dim(p, i);
		sort_dim(p, i);
	}
	for (int64_t i = p->ndim - 1; i-- > 0;)
		if (dims_join(p, i)) {
			p->shape[i + 1] *= p->shape[i];
			remove_dim(p, i);
		}
}

/* Return whether two neighbours can be one element on this side. */
static bool places_pair(const struct gt_arrange_piece *p, const struct gt_places *places)
{
	bool even = places->first % 2 == 0 && places->strides[p->ndim - 1] == 1;

	for (int64_t i = 0; i + 1 < p->ndim; i++)
		even = even && places->strides[i] % 2 == 0;
	return even;
}

static void pair_places(const struct gt_arrange_piece *p, struct gt_places *places)
{
	places->first /= 2;
	for (int64_t i = 0; i + 1 < p->ndim; i++)
		places->strides[i] /= 2;
}

int gt_arrange_piece_widen(struct gt_arrange_piece *p, int size, int most)
{
	gt_arrange_piece_simplify(p);
	while (2 * size <= most && p->ndim && p->shape[p->ndim - 1] % 2 == 0 &&
	       places_pair(p, &p->from) && places_pair(p, &p->to)) {
		pair_places(p, &p->from);
		pair_places(p, &p->to);
		p->shape[p->ndim - 1] /= 2;
		size *= 2;
		gt_arrange_piece_simplify(p);
	}
	return size;
}

/* ---- images ---- */

enum { IMAGE_DIMS = 4 };

/* Set the strides of the dimensions of an image [N, C, H, W] in row-major memory, and in memory
 * that is [N, H, W, C]. */
static void set_image_strides(int64_t *plain, int64_t *last, const int64_t *shape)
{
	plain[3] = 1;
	plain[2] = shape[3];
	plain[1] = shape[2] * shape[3];
	plain[0] = last[0] = shape[1] * plain[1];
	last[1] = 1;
	last[3] = shape[1];
	last[2] = shape[3] * shape[1];
}

/* Return the dimension along which a step of a row-major image leads, or -1 if it leads along
 * several. */
static int find_image_dim(const int64_t *shape, const int64_t *strides, int64_t step)
{
	for (int d = 0; d < IMAGE_DIMS; d++)
		if (step % strides[d] == 0 && llabs(step) < strides[d] * shape[d])
			return d;
	return -1;
}

/* Make two dimensions of one: the second has `size` indices. */
static void split_dim(struct gt_arrange_piece *p, int64_t dim, int64_t size)
{
	for (int64_t i = p->ndim++; i > dim; i--) {
		p->shape[i] = p->shape[i - 1];
		p->from.strides[i] = p->from.strides[i - 1];
		p->to.strides[i] = p->to.strides[i - 1];
	}
	p->shape[dim] /= size;
	p->from.strides[dim] *= size;
	p->to.strides[dim] *= size;
	p->shape[dim + 1] = size;
}

/* Split dimensions of a piece that go through several dimensions of a row-major image. Returns
 * false if a part would not be whole. */
static bool split_image_dims(
    struct gt_arrange_piece *p, const struct gt_places *places, const int64_t *shape)
{
	int64_t strides[IMAGE_DIMS], last[IMAGE_DIMS];

	set_image_strides(strides, last, shape);
	for (int64_t i = 0; i < p->ndim;) {
		int d = find_image_dim(shape, strides, places->strides[i]);
		int64_t step, size;

		if (d < 0)
			return false;
		step = llabs(places->strides[i]) / strides[d];
		size = shape[d] / step;
		if ((p->shape[i] - 1) * step < shape[d])
			i++;
		else if (shape[d] % step || p->shape[i] % size || p->ndim == GT_MAX_DIMS)
			return false;
		else
			split_dim(p, i, size);
	}
	return true;
}

/* Change places in a row-major image to those in memory that is [N, H, W, C]. Returns false if a
 * dimension of the piece, split before, still leaves a dimension of the image. */
static bool lay_out_places(
    const struct gt_arrange_piece *p, struct gt_places *places, const int64_t *shape)
{
	int64_t plain[IMAGE_DIMS], last[IMAGE_DIMS], least[IMAGE_DIMS], most[IMAGE_DIMS];
	int64_t rest = places->first;

	set_image_strides(plain, last, shape);
	places->first = 0;
	for (int d = 0; d < IMAGE_DIMS; d++) {
		least[d] = most[d] = rest / plain[d];
		rest %= plain[d];
		places->first += least[d] * last[d];
	}
	for (int64_t i = 0; i < p->ndim; i++) {
		int d = find_image_dim(shape, plain, places->strides[i]);
		int64_t step = places->strides[i] / plain[d], way = step * (p->shape[i] - 1);

		least[d] += way < 0 ? way : 0;
		most[d] += way > 0 ? way : 0;
		places->strides[i] = step * last[d];
	}
	for (int d = 0; d < IMAGE_DIMS; d++)
		if (least[d] < 0 || most[d] >= shape[d])
			return false;
	return true;
}

bool gt_arrange_piece_lay_out(
    struct gt_arrange_piece *p, const int64_t *from_image, const int64_t *to_image)
{
	if ((from_image && !split_image_dims(p, &p->from, from_image)) ||
	    (to_image && !split_image_dims(p, &p->to, to_image)))
		return false;
	if ((from_image && !lay_out_places(p, &p->from, from_image)) ||
	    (to_image && !lay_out_places(p, &p->to, to_image)))
		return false;
	gt_arrange_piece_simplify(p);
	return true;
}
