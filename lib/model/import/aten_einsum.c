/* aten_einsum.c - torch.einsum of one or two tensors: moves, sums and products of matrices. */
#include <ctype.h>
#include <string.h>

#include "lib/model/import/aten.h"

/*
 * A letter names a dimension, and the result is the sum over the letters that it lacks. A letter of
 * one tensor alone that the result lacks is summed first. The other ones are
 *
 *   batch        of both tensors and of the result
 *   rows         of the first tensor and of the result
 *   columns      of the second tensor and of the result
 *   terms        of both tensors, not of the result
 *
 * so that "bhqd,bhkd->bhqk" has the batch bh, the rows q, the columns k and the terms d. A tensor
 * whose letters stand as batch, rows, terms or as batch, terms, rows is a batch of matrices as it
 * lies in memory; another one is moved first. Rows at the beginning of the first tensor may belong
 * to the batch, too: the product then broadcasts the second one. In "bhij,hg->bgij" of talking
 * heads, with the tensors exchanged and with b for the batch, nothing is moved.
 */

/* Letters, one for each dimension of a tensor. */
struct letters {
	char s[GT_MAX_DIMS + 1];
};

struct einsum {
	const char *equation;
	int count; /* tensors */
	struct gt_value *in[GT_IMPORT_TENSORS];
	struct letters of[2], out;
	int64_t size[128]; /* size[c] is that of the dimension with the letter c */
};

static bool has(const char *letters, char c)
{
	return c && strchr(letters, c);
}

/* ---- the equation ---- */

static void *fail_equation(struct gt_import *im, const struct einsum *e, const char *what)
{
	return gt_import_fail(im, ": the equation '%s' %s", e->equation, what);
}

/* Read letters up to a comma, an arrow or the end. */
static const char *read_letters(
    struct gt_import *im, const struct einsum *e, const char *p, struct letters *out)
{
	int count = 0;

	for (; *p && *p != ',' && *p != '-'; p++) {
		if (*p == ' ')
			continue;
		if (*p == '.')
			return fail_equation(im, e, "has dimensions without a letter");
		if (!isascii(*p) || !isalpha(*p))
			return fail_equation(im, e, "has other characters than letters");
		if (count == GT_MAX_DIMS)
			return fail_equation(im, e, "has too many letters");
		if (has(out->s, *p))
			return fail_equation(im, e, "has a letter twice in one tensor");
		out->s[count++] = *p;
	}
	return p;
}

/* Without an arrow, the result has the letters that only one tensor has, in the order of ASCII. */
static void imply_result(struct gt_import *im, struct einsum *e)
{
	int count = 0;

	for (char c = 'A'; c <= 'z'; c++) {
		if (has(e->of[0].s, c) == has(e->of[1].s, c))
			continue;
		if (count == GT_MAX_DIMS) {
			fail_equation(im, e, "has too many letters");
			return;
		}
		e->out.s[count++] = c;
	}
}

static void read_equation(struct gt_import *im, struct einsum *e)
{
	const char *p = e->equation;

	for (int i = 0; i < e->count; i++) {
		p = read_letters(im, e, p, &e->of[i]);
		if (!p)
			return;
		if ((i + 1 < e->count) != (*p == ',')) {
			fail_equation(im, e, "is for another number of tensors");
			return;
		}
		p += *p == ',';
	}
	if (!*p) {
		imply_result(im, e);
		return;
	}
	p = p[1] == '>' ? read_letters(im, e, p + 2, &e->out) : NULL;
	if (!p || *p)
		fail_equation(im, e, "has no result that is known");
	for (const char *c = e->out.s; *c; c++)
		if (!has(e->of[0].s, *c) && !has(e->of[1].s, *c))
			fail_equation(im, e, "has a letter in the result alone");
}

static void read_sizes(struct gt_import *im, struct einsum *e)
{
	for (int i = 0; i < e->count; i++) {
		const char *of = e->of[i].s;

		if ((int)strlen(of) != e->in[i]->ndim) {
			fail_equation(im, e, "is for tensors with other dimensions");
			return;
		}
		for (int d = 0; of[d]; d++) {
			int64_t *size = &e->size[(int)of[d]], own = e->in[i]->shape[d];

			if (*size > 1 && own > 1 && *size != own)
				fail_equation(im, e, "has a letter with two sizes");
			if (own > *size)
				*size = own;
		}
	}
}

/* ---- one tensor ---- */

static bool takes_part(const struct einsum *e, int i, int d)
{
	char c = e->of[i].s[d];

	return has(e->out.s, c) || has(e->of[!i].s, c);
}

/* Leave out the dimensions of size 1 of a letter that is larger in the other tensor, which are
 * broadcast, and those of the bits `dims`. */
static void drop_dims(struct gt_import *im, struct einsum *e, int i, unsigned dims)
{
	struct letters left = { "" };
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	for (int d = 0; e->in[i] && d < e->in[i]->ndim; d++) {
		char c = e->of[i].s[d];

		if (dims >> d & 1 || e->in[i]->shape[d] != e->size[(int)c])
			continue;
		left.s[ndim] = c;
		shape[ndim++] = e->in[i]->shape[d];
	}
	if (e->in[i] && ndim < e->in[i]->ndim)
		e->in[i] = gt_reshape(im->g, e->in[i], ndim, shape);
	e->of[i] = left;
}

/* Sum over the letters that neither the result nor the other tensor has. */
static void sum_lone_letters(struct gt_import *im, struct einsum *e, int i)
{
	unsigned dims = 0;

	for (int d = 0; e->in[i] && d < e->in[i]->ndim; d++)
		if (!takes_part(e, i, d))
			dims |= 1u << d;
	if (!dims)
		return;
	e->in[i] = gt_sum(im->g, e->in[i], dims, true);
	drop_dims(im, e, i, dims);
}

/* Move the dimensions of x, which has the letters `from`, to the order `to` of the same letters. */
static struct gt_value *move_letters(
    struct gt_import *im, struct gt_value *x, const char *from, const char *to)
{
	int order[GT_MAX_DIMS];

	if (!strcmp(from, to))
		return x;
	for (int d = 0; to[d]; d++)
		order[d] = (int)(strchr(from, to[d]) - from);
	return gt_permute_dims(im->g, x, order);
}

/* ---- products of elements ---- */

/* Append the letters of `from` that `in` has, and `but` lacks. */
static void add_letters(struct letters *to, const char *from, const char *in, const char *but)
{
	size_t count = strlen(to->s);

	for (; *from && count < GT_MAX_DIMS; from++)
		if (has(in, *from) && !has(but, *from) && !has(to->s, *from))
			to->s[count++] = *from;
}

/* View a tensor as one with the letters of `all`, of size 1 where it has none. */
static struct gt_value *align(
    struct gt_import *im, const struct einsum *e, int i, const struct letters *all)
{
	struct letters own = { "" };
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	add_letters(&own, all->s, e->of[i].s, "");
	for (; all->s[ndim]; ndim++)
		shape[ndim] = has(own.s, all->s[ndim]) ? e->size[(int)all->s[ndim]] : 1;
	return gt_reshape(im->g, move_letters(im, e->in[i], e->of[i].s, own.s), ndim, shape);
}

/* Multiply element by element, and sum over the terms. */
static struct gt_value *multiply_elements(
    struct gt_import *im, const struct einsum *e, const struct letters *terms)
{
	struct letters all = e->out;
	size_t results = strlen(e->out.s), count = results + strlen(terms->s);
	struct gt_value *y;

	if (count > GT_MAX_DIMS)
		return fail_equation(im, e, "has too many letters");
	add_letters(&all, terms->s, terms->s, "");
	y = gt_binary(im->g, GT_F_MUL, align(im, e, 0, &all), align(im, e, 1, &all));
	return count == results ? y : gt_sum(im->g, y, (1u << count) - (1u << results), false);
}

/* ---- products of matrices ---- */

/* A way to compute the result. */
struct product {
	int left; /* the tensor that is the left factor */
	struct letters batch, rows, terms, columns;
	struct letters moved[2]; /* letters of the left and of the right factor */
	bool trans[2];
	struct letters y; /* letters of the product, before it is moved to the result */
};

/* Set the letters of a factor whose matrices are `a` by `b`, or transposed, if it lies so. Return
 * whether it must be moved. */
static bool place_factor(
    struct product *p, int side, const char *of, const struct letters *a, const struct letters *b)
{
	struct letters plain = { "" }, transposed = { "" };

	add_letters(&plain, p->batch.s, of, "");
	transposed = plain;
	add_letters(&plain, a->s, of, "");
	add_letters(&plain, b->s, of, "");
	add_letters(&transposed, b->s, of, "");
	add_letters(&transposed, a->s, of, "");
	p->trans[side] = strcmp(of, plain.s) != 0 && !strcmp(of, transposed.s);
	p->moved[side] = p->trans[side] ? transposed : plain;
	return strcmp(of, p->moved[side].s) != 0;
}

static int64_t elements_of(const struct einsum *e, const char *letters)
{
	int64_t n = 1;

	for (; *letters; letters++)
		n *= e->size[(int)*letters];
	return n;
}

/* Describe the product with tensor `left` on the left, and with the letters `batch` for the batch.
 * Return how many elements are moved. */
static int64_t plan_product(
    struct product *p, const struct einsum *e, int left, const struct letters *batch)
{
	const char *l = e->of[left].s, *r = e->of[!left].s, *out = e->out.s;
	int64_t moved = 0;

	*p = (struct product){ .left = left, .batch = *batch };
	add_letters(&p->rows, out, l, batch->s);
	add_letters(&p->columns, out, r, batch->s);
	add_letters(&p->terms, l, r, out);
	if (place_factor(p, 0, l, &p->rows, &p->terms))
		moved += elements_of(e, l);
	if (place_factor(p, 1, r, &p->terms, &p->columns))
		moved += elements_of(e, r);
	p->y = p->batch;
	add_letters(&p->y, p->rows.s, out, "");
	add_letters(&p->y, p->columns.s, out, "");
	return moved + (strcmp(p->y.s, out) ? elements_of(e, out) : 0);
}

/* Set the batch: the letters of both tensors, and the first `more` ones of tensor `also`. Return
 * false if there are too many, or if they are not in the result. */
static bool choose_batch(struct letters *batch, const struct einsum *e, int also, int more)
{
	struct letters all = { "" };

	add_letters(&all, e->of[0].s, e->of[1].s, "");
	for (int d = 0; d < more; d++) {
		if (!has(e->out.s, e->of[also].s[d]))
			return false;
		add_letters(&all, (char[]){ e->of[also].s[d], 0 }, e->out.s, "");
	}
	*batch = (struct letters){ "" };
	add_letters(batch, e->out.s, all.s, "");
	return !more || strlen(batch->s) + 2 <= GT_MAX_DIMS;
}

/* Find the product that moves the fewest elements, and of these one with few letters in the batch.
 * Rows and columns do not end up in the batch altogether, as matrices of one row are slow. */
static struct product best_product(const struct einsum *e)
{
	struct product best = { 0 };
	int64_t least = INT64_MAX;

	for (int i = 0; i < 4 * GT_MAX_DIMS; i++) {
		int left = i % 2, also = i / 2 % 2, more = i / 4;
		struct letters batch;
		struct product p;
		int64_t moved;

		if (!choose_batch(&batch, e, also, more))
			continue;
		moved = plan_product(&p, e, left, &batch);
		if (moved < least && (!more || (*p.rows.s && *p.columns.s))) {
			best = p;
			least = moved;
		}
	}
	return best;
}

/* View a factor as a batch of matrices. A batch that both factors have is one dimension. */
static struct gt_value *as_matrices(
    struct gt_import *im, const struct einsum *e, const struct product *p, int side)
{
	int i = side ? !p->left : p->left, ndim = 0;
	const struct letters *rows = side ? &p->terms : &p->rows;
	const struct letters *columns = side ? &p->columns : &p->terms;
	bool shared = true;
	int64_t shape[GT_MAX_DIMS];

	for (const char *c = p->batch.s; *c; c++)
		shared = shared && has(e->of[0].s, *c) && has(e->of[1].s, *c);
	if (shared && *p->batch.s)
		shape[ndim++] = elements_of(e, p->batch.s);
	for (const char *c = p->batch.s; !shared && *c; c++)
		shape[ndim++] = has(e->of[i].s, *c) ? e->size[(int)*c] : 1;
	shape[ndim++] = elements_of(e, p->trans[side] ? columns->s : rows->s);
	shape[ndim++] = elements_of(e, p->trans[side] ? rows->s : columns->s);
	return gt_reshape(
	    im->g, move_letters(im, e->in[i], e->of[i].s, p->moved[side].s), ndim, shape);
}

static struct gt_value *multiply_matrices(struct gt_import *im, const struct einsum *e)
{
	struct product p = best_product(e);
	int64_t shape[GT_MAX_DIMS];
	struct gt_value *y;
	int ndim = 0;

	y = gt_batched_matmul(
	    im->g, as_matrices(im, e, &p, 0), as_matrices(im, e, &p, 1), p.trans[0], p.trans[1]);
	for (; p.y.s[ndim]; ndim++)
		shape[ndim] = e->size[(int)p.y.s[ndim]];
	return y ? move_letters(im, gt_reshape(im->g, y, ndim, shape), p.y.s, e->out.s) : NULL;
}

/* Where there are no terms, or neither rows nor columns, matrices would have a single element in
 * one of their dimensions, or in both. */
static struct gt_value *multiply(struct gt_import *im, const struct einsum *e)
{
	struct letters terms = { "" };
	bool matrices = false;

	add_letters(&terms, e->of[0].s, e->of[1].s, e->out.s);
	for (const char *c = e->out.s; *c; c++)
		matrices = matrices || has(e->of[0].s, *c) != has(e->of[1].s, *c);
	return *terms.s && matrices ? multiply_matrices(im, e) : multiply_elements(im, e, &terms);
}

void gt_aten_einsum(struct gt_import *im)
{
	struct einsum e = { .equation = gt_import_string(im, "equation", "") };

	e.count = gt_import_tensors(im, "tensors", e.in);
	if (e.count > 2)
		gt_import_fail(im, "of more than two tensors");
	if (!im->g->err.code)
		read_equation(im, &e);
	if (!im->g->err.code)
		read_sizes(im, &e);
	for (int i = 0; i < e.count && !im->g->err.code; i++)
		drop_dims(im, &e, i, 0);
	for (int i = 0; i < e.count && !im->g->err.code; i++)
		sum_lone_letters(im, &e, i);
	if (!im->g->err.code)
		gt_import_result(im, e.count == 1 ? move_letters(im, e.in[0], e.of[0].s, e.out.s)
		                                  : multiply(im, &e));
}
