/* diff_numbers.c - the elements of pairs of tensors side by side, by pieces and threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/thread_pool.h"
#include "lib/ckpt/tools/diff_numbers.h"
#include "lib/ckpt/tree/runs.h"
#include "lib/ckpt/tree/tree.h"

enum { PIECE = 1 << 20, FORGET = 1 << 16 };

/* The differences of one piece, or of all. */
struct tally {
	uint64_t differing, one_nan;
	double max_abs, max_rel;
};

struct pair {
	struct gt_tree_tensor a, b;
	int64_t dims[2][2 * GT_TREE_MAX_DIMS];
	uint64_t count, repeats;
	size_t first_piece;
	enum gt_run_kind kind; /* REAL for two that meet as doubles */
	bool same_bits;        /* equal bytes are equal elements */
};

struct piece {
	size_t pair;
	struct tally tally;
};

struct comparison {
	struct pair *pairs;
	struct piece *pieces;
	size_t count, piece_count;
	double tolerance;
};

/* ---- elements ---- */

static void count_reals(
    struct tally *t, const double *a, const double *b, size_t n, size_t width, double tolerance)
{
	for (size_t i = 0; i < n; i += width) {
		bool differs = false, nan = false;

		for (size_t k = i; k < i + width; k++) {
			double d = fabs(a[k] - b[k]), size = fmax(fabs(a[k]), fabs(b[k]));

			if (a[k] == b[k] || (isnan(a[k]) && isnan(b[k])))
				continue;
			if (isnan(d)) { /* infinities of one sign are equal; only NaN is left */
				nan = differs = true;
				continue;
			}
			t->max_abs = fmax(t->max_abs, d);
			if (d <= tolerance)
				continue;
			differs = true;
			t->max_rel = fmax(t->max_rel, isinf(size) ? 1 : d / size);
		}
		t->differing += differs;
		t->one_nan += nan;
	}
}

static void count_integers(
    struct tally *t, const int64_t *a, const int64_t *b, size_t n, double bias, double tolerance)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t gap =
		    a[i] > b[i] ? (uint64_t)a[i] - (uint64_t)b[i] : (uint64_t)b[i] - (uint64_t)a[i];
		double size = fmax(fabs((double)a[i] + bias), fabs((double)b[i] + bias));

		if (!gap)
			continue;
		t->max_abs = fmax(t->max_abs, (double)gap);
		if ((double)gap <= tolerance)
			continue;
		t->differing++;
		t->max_rel = fmax(t->max_rel, size > 0 ? (double)gap / size : 1);
	}
}

static int compare_run(const struct comparison *c, const struct pair *p, const struct gt_runs *a,
    const void *run_a, const struct gt_runs *b, const void *run_b, size_t n, struct tally *t,
    struct gt_err *err)
{
	union {
		double real[2 * GT_RUN];
		int64_t whole[GT_RUN];
	} x, y;
	size_t width = p->kind == GT_RUN_COMPLEX ? 2 : 1;
	int rc;

	if (p->same_bits && !memcmp(run_a, run_b, n * gt_dtype_size(p->a.dtype)))
		return 0;
	if (p->kind == GT_RUN_INTEGER) {
		rc = gt_runs_integer(a, run_a, n, x.whole, err);
		if (!rc)
			rc = gt_runs_integer(b, run_b, n, y.whole, err);
		if (!rc)
			count_integers(t, x.whole, y.whole, n, p->a.dtype == GT_U64 ? 0x1p63 : 0,
			    c->tolerance);
		return rc;
	}
	rc = gt_runs_real(a, run_a, n, x.real, err);
	if (!rc)
		rc = gt_runs_real(b, run_b, n, y.real, err);
	if (!rc)
		count_reals(t, x.real, y.real, width * n, width, c->tolerance);
	return rc;
}

/* ---- pieces ---- */

static int compare_piece(void *self, size_t task, struct gt_err *err)
{
	const struct comparison *c = self;
	struct piece *piece = &c->pieces[task];
	const struct pair *p = &c->pairs[piece->pair];
	uint64_t at = (task - p->first_piece) * (uint64_t)PIECE, held = at;
	uint64_t end = p->count - at < PIECE ? p->count : at + PIECE;
	struct gt_runs a, b;
	int rc = 0;

	gt_runs_begin(&a, &p->a, at);
	gt_runs_begin(&b, &p->b, at);
	while (at < end && !rc) {
		size_t n = end - at < GT_RUN ? (size_t)(end - at) : GT_RUN;
		const void *run_a = gt_runs_next(&a, n, err);
		const void *run_b = run_a ? gt_runs_next(&b, n, err) : NULL;

		rc = run_b ? compare_run(c, p, &a, run_a, &b, run_b, n, &piece->tally, err)
		           : err->code;
		at += n;
		if (at - held >= FORGET || at == end) {
			gt_ckpt_tensor_forget(&p->a, held, at - held);
			gt_ckpt_tensor_forget(&p->b, held, at - held);
			held = at;
		}
	}
	return rc;
}

/* ---- the plan ---- */

/* How two types meet; UNKNOWN: not at all. */
static enum gt_run_kind meet(enum gt_dtype a, enum gt_dtype b)
{
	enum gt_run_kind x = gt_run_kind(a), y = gt_run_kind(b);

	if (x == GT_RUN_UNKNOWN || y == GT_RUN_UNKNOWN)
		return GT_RUN_UNKNOWN;
	if (x == GT_RUN_COMPLEX || y == GT_RUN_COMPLEX)
		return x == y ? GT_RUN_COMPLEX : GT_RUN_UNKNOWN;
	if (x == GT_RUN_INTEGER && y == GT_RUN_INTEGER && (a == GT_U64) == (b == GT_U64))
		return GT_RUN_INTEGER;
	return GT_RUN_REAL;
}

/* Tensors that lie alike are read as they lie. */
static void plan_pair(struct pair *p, const struct gt_diff_row *row)
{
	const struct gt_tree_tensor *a = row->tensor_a, *b = row->tensor_b;

	p->a = *a;
	p->b = *b;
	p->repeats = 1;
	if (!memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof(*a->stride))) {
		gt_ckpt_tensor_in_storage_order(&p->a, a, p->dims[0], &p->repeats);
		gt_ckpt_tensor_in_storage_order(&p->b, b, p->dims[1], &p->repeats);
	}
	p->kind = meet(a->dtype, b->dtype);
	p->count = p->kind == GT_RUN_UNKNOWN ? 0 : (uint64_t)gt_ckpt_tensor_count(&p->a);
	p->same_bits = a->dtype == b->dtype && a->storage->swapped == b->storage->swapped;
}

/* See gt_ckpt_tensor_repeats_too_much(). */
static int check_repeats(const struct comparison *c, struct gt_err *err)
{
	struct gt_ckpt_tensor_use *uses = gt_calloc(2 * c->count, sizeof(*uses), err);
	int rc;

	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < c->count; i++) {
		const struct pair *p = &c->pairs[i];

		uses[2 * i] = (struct gt_ckpt_tensor_use){ p->a.storage,
			p->count * gt_dtype_size(p->a.dtype) };
		uses[2 * i + 1] = (struct gt_ckpt_tensor_use){ p->b.storage,
			p->count * gt_dtype_size(p->b.dtype) };
	}
	rc = gt_ckpt_tensor_repeats_too_much(uses, 2 * c->count, err);
	free(uses);
	return rc;
}

static int plan(struct comparison *c, const struct gt_diff_row *rows, struct gt_err *err)
{
	int rc;

	c->pairs = gt_calloc(c->count, sizeof(*c->pairs), err);
	if (!c->pairs)
		return GT_ENOMEM;
	for (size_t i = 0; i < c->count; i++) {
		plan_pair(&c->pairs[i], &rows[i]);
		c->pairs[i].first_piece = c->piece_count;
		c->piece_count += (c->pairs[i].count + PIECE - 1) / PIECE;
	}
	rc = check_repeats(c, err);
	if (!rc)
		c->pieces = gt_calloc(c->piece_count, sizeof(*c->pieces), err);
	if (rc || !c->pieces)
		return rc ? rc : GT_ENOMEM;
	for (size_t i = 0, k = 0; i < c->count; i++)
		for (uint64_t n = (c->pairs[i].count + PIECE - 1) / PIECE; n; n--)
			c->pieces[k++].pair = i;
	return 0;
}

int gt_diff_numbers(
    struct gt_diff_row *rows, size_t count, double tolerance, size_t threads, struct gt_err *err)
{
	struct comparison c = { .count = count, .tolerance = tolerance };
	int rc = plan(&c, rows, err);

	if (!rc)
		rc = gt_thread_pool_run(threads, c.piece_count, compare_piece, &c, err);
	for (size_t i = 0; i < count && !rc; i++)
		rows[i].count = c.pairs[i].count * c.pairs[i].repeats;
	for (size_t k = 0; k < c.piece_count && !rc; k++) {
		const struct tally *t = &c.pieces[k].tally;
		struct gt_diff_row *row = &rows[c.pieces[k].pair];
		uint64_t repeats = c.pairs[c.pieces[k].pair].repeats;

		row->differing += t->differing * repeats;
		row->one_nan += t->one_nan * repeats;
		row->max_abs = fmax(row->max_abs, t->max_abs);
		row->max_rel = fmax(row->max_rel, t->max_rel);
	}
	free(c.pieces);
	free(c.pairs);
	return rc;
}
