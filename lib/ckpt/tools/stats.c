/* stats.c - statistics of the numbers in tensors, by pieces and threads. */
#include "lib/ckpt/tools/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/thread_pool.h"
#include "lib/ckpt/tree/finite.h"
#include "lib/ckpt/tree/runs.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

enum {
	PIECE_BYTES = 4 << 20, /* a task, unless there would be too many */
	FORGET_BYTES = 1 << 20,
	MAX_PIECES = 1 << 16,
	LANES = 8 /* sums side by side, for the vector unit */
};

/* Finite elements so far: how many, their mean, the sum of squared distances from it. */
struct moments {
	uint64_t n, nan, inf, zeros;
	double mean, m2, min, max;
};

/* A tensor at work. */
struct job {
	struct gt_tree_tensor t; /* in storage order */
	int64_t dims[2 * GT_TREE_MAX_DIMS];
	uint64_t count, repeats, per_piece;
	size_t first_piece;
	enum gt_run_kind kind;
	bool crc; /* this tensor is its whole storage: the sum is made on the way */
};

struct piece {
	size_t job;
	uint32_t crc;
	struct moments sum;
};

struct survey {
	bool brief; /* NaN, Inf and checksums alone; the other moments stay 0 */
	struct job *jobs;
	struct piece *pieces;
	size_t count, piece_count;
};

/* ---- a block of doubles ---- */

/* Sum, extremes and zeros; false where one is not finite. */
static bool fold(const double *x, size_t n, double *total, struct moments *b)
{
	double sum[LANES] = { 0 }, junk[LANES] = { 0 }, zeros[LANES] = { 0 };
	double low[LANES], high[LANES], bad = 0;
	size_t i = 0;

	for (int k = 0; k < LANES; k++)
		low[k] = high[k] = x[0];
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++) {
			double v = x[i + (size_t)k];

			sum[k] += v;
			junk[k] += v - v; /* 0, or NaN for ever */
			zeros[k] += v == 0 ? 1 : 0;
			low[k] = v < low[k] ? v : low[k];
			high[k] = v > high[k] ? v : high[k];
		}
	for (int k = 0; i < n; i++, k++) {
		sum[k] += x[i];
		junk[k] += x[i] - x[i];
		zeros[k] += x[i] == 0 ? 1 : 0;
		low[k] = x[i] < low[k] ? x[i] : low[k];
		high[k] = x[i] > high[k] ? x[i] : high[k];
	}
	*total = 0;
	b->min = low[0];
	b->max = high[0];
	for (int k = 0; k < LANES; k++) {
		*total += sum[k];
		bad += junk[k];
		b->zeros += (uint64_t)zeros[k];
		b->min = low[k] < b->min ? low[k] : b->min;
		b->max = high[k] > b->max ? high[k] : b->max;
	}
	return bad == 0;
}

static double squares_about(const double *x, size_t n, double mean)
{
	double sum[LANES] = { 0 }, total = 0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++) {
			double d = x[i + (size_t)k] - mean;

			sum[k] += d * d;
		}
	for (int k = 0; i < n; i++, k++)
		sum[k] += (x[i] - mean) * (x[i] - mean);
	for (int k = 0; k < LANES; k++)
		total += sum[k];
	return total;
}

/* Remove the elements of x that are not finite and count them; returns the number that remain. */
static size_t sift(double *x, size_t n, struct moments *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (isfinite(x[i]))
			x[kept++] = x[i];
		else if (isnan(x[i]))
			b->nan++;
		else
			b->inf++;
	}
	return kept;
}

/* Two disjoint sets together. */
static void join(struct moments *a, const struct moments *b)
{
	double delta = b->mean - a->mean;
	double n = (double)a->n + (double)b->n;

	a->nan += b->nan;
	a->inf += b->inf;
	if (!b->n)
		return;
	a->zeros += b->zeros;
	if (!a->n) {
		a->mean = b->mean;
		a->m2 = b->m2;
		a->min = b->min;
		a->max = b->max;
	} else {
		a->mean += delta * ((double)b->n / n);
		a->m2 += b->m2 + delta * delta * ((double)a->n * ((double)b->n / n));
		a->min = b->min < a->min ? b->min : a->min;
		a->max = b->max > a->max ? b->max : a->max;
	}
	a->n += b->n;
}

static void add_block(struct moments *sum, double *x, size_t n)
{
	struct moments b = { 0 };
	double total;

	if (!fold(x, n, &total, &b)) {
		b = (struct moments){ 0 };
		n = sift(x, n, &b);
		if (n)
			fold(x, n, &total, &b);
	}
	if (n) {
		b.n = n;
		b.mean = total / (double)n;
		b.m2 = squares_about(x, n, b.mean);
	}
	join(sum, &b);
}

/* ---- a piece of a tensor ---- */

static int load(const struct job *j, const struct gt_runs *r, const void *run, size_t n, double *x,
    struct gt_err *err)
{
	double parts[2 * GT_RUN];
	int rc;

	if (j->kind != GT_RUN_COMPLEX)
		return gt_runs_real(r, run, n, x, err);
	rc = gt_runs_real(r, run, n, parts, err);
	for (size_t i = 0; i < n && !rc; i++)
		x[i] = hypot(parts[2 * i], parts[2 * i + 1]);
	return rc;
}

/* Take the next n elements, of `size` bytes each, into the piece. */
static int take(const struct survey *v, struct piece *p, struct gt_runs *r, size_t n, size_t size,
    struct gt_err *err)
{
	const struct job *j = &v->jobs[p->job];
	const void *run = gt_runs_next(r, n, err);
	double x[GT_RUN];
	int rc;

	if (!run)
		return err->code;
	if (j->crc)
		p->crc = gt_crc32(p->crc, run, n * size);
	if (v->brief && !j->t.storage->swapped && gt_all_finite(j->t.dtype, run, n))
		return 0;
	rc = load(j, r, run, n, x, err);
	if (!rc)
		add_block(&p->sum, x, n);
	return rc;
}

static int survey_piece(void *self, size_t task, struct gt_err *err)
{
	struct survey *v = self;
	struct piece *p = &v->pieces[task];
	const struct job *j = &v->jobs[p->job];
	uint64_t size = gt_dtype_size(j->t.dtype), at = (task - j->first_piece) * j->per_piece;
	uint64_t end = j->count - at < j->per_piece ? j->count : at + j->per_piece, held = at;
	struct gt_runs r;
	int rc = 0;

	gt_runs_begin(&r, &j->t, at);
	while (at < end && !rc) {
		size_t n = end - at < GT_RUN ? (size_t)(end - at) : GT_RUN;

		rc = take(v, p, &r, n, size, err);
		at += n;
		if ((at - held) * size >= FORGET_BYTES || at == end) {
			gt_ckpt_tensor_forget(&j->t, held, at - held);
			held = at;
		}
	}
	return rc;
}

/* ---- the plan, and the sum of the pieces ---- */

static bool is_whole_storage(const struct gt_tree_tensor *t, uint64_t count)
{
	return t->offset == 0 && gt_ckpt_tensor_is_contiguous(t) &&
	       count * gt_dtype_size(t->dtype) == t->storage->size_bytes;
}

static void plan_job(struct job *j, const struct gt_tree_tensor *t, bool brief)
{
	struct gt_storage *s = t->storage;

	gt_ckpt_tensor_in_storage_order(&j->t, t, j->dims, &j->repeats);
	j->count = (uint64_t)gt_ckpt_tensor_count(&j->t);
	j->kind = gt_run_kind(t->dtype);
	if (j->kind == GT_RUN_UNKNOWN)
		j->count = 0;
	j->crc =
	    s->has_crc && (brief || !atomic_load(&s->checked)) && is_whole_storage(&j->t, j->count);
}

/* See gt_ckpt_tensor_repeats_too_much(); an element that a stride of 0 repeats is visited once. */
static int check_repeats(const struct survey *v, struct gt_err *err)
{
	struct gt_ckpt_tensor_use *uses = gt_calloc(v->count, sizeof(*uses), err);
	int rc;

	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < v->count; i++)
		uses[i] = (struct gt_ckpt_tensor_use){ v->jobs[i].t.storage,
			v->jobs[i].count * gt_dtype_size(v->jobs[i].t.dtype) };
	rc = gt_ckpt_tensor_repeats_too_much(uses, v->count, err);
	free(uses);
	return rc;
}

static int plan(struct survey *v, const struct gt_tree_tensor *const *tensors, struct gt_err *err)
{
	uint64_t total = 0, piece_bytes = PIECE_BYTES;
	int rc;

	v->jobs = gt_calloc(v->count, sizeof(*v->jobs), err);
	if (!v->jobs)
		return GT_ENOMEM;
	for (size_t i = 0; i < v->count; i++) {
		plan_job(&v->jobs[i], tensors[i], v->brief);
		total += v->jobs[i].count * gt_dtype_size(tensors[i]->dtype);
	}
	rc = check_repeats(v, err);
	if (rc)
		return rc;
	while (total / piece_bytes > MAX_PIECES)
		piece_bytes *= 2;
	for (size_t i = 0; i < v->count; i++) {
		struct job *j = &v->jobs[i];

		j->per_piece = piece_bytes / gt_dtype_size(j->t.dtype);
		j->first_piece = v->piece_count;
		v->piece_count += (j->count + j->per_piece - 1) / j->per_piece;
	}
	v->pieces = gt_calloc(v->piece_count, sizeof(*v->pieces), err);
	if (!v->pieces)
		return GT_ENOMEM;
	for (size_t i = 0; i < v->count; i++) {
		size_t end = i + 1 < v->count ? v->jobs[i + 1].first_piece : v->piece_count;

		for (size_t k = v->jobs[i].first_piece; k < end; k++)
			v->pieces[k].job = i;
	}
	return 0;
}

/* The pieces of tensor i together. */
static void join_pieces(const struct survey *v, size_t i, struct moments *sum, uint32_t *crc)
{
	const struct job *j = &v->jobs[i];
	size_t end = i + 1 < v->count ? v->jobs[i + 1].first_piece : v->piece_count;
	uint64_t size = gt_dtype_size(j->t.dtype), left = j->count;

	*sum = (struct moments){ 0 };
	*crc = 0;
	for (size_t k = j->first_piece; k < end; k++) {
		uint64_t n = left < j->per_piece ? left : j->per_piece;

		join(sum, &v->pieces[k].sum);
		*crc = gt_crc32_join(*crc, v->pieces[k].crc, n * size);
		left -= n;
	}
}

static int sum_up(const struct survey *v, size_t i, struct gt_stats *out, struct gt_err *err)
{
	const struct job *j = &v->jobs[i];
	struct moments sum;
	uint32_t crc;

	join_pieces(v, i, &sum, &crc);
	*out = (struct gt_stats){ .count = j->count * j->repeats,
		.nan = sum.nan * j->repeats,
		.inf = sum.inf * j->repeats,
		.zeros = sum.zeros * j->repeats,
		.min = sum.n ? sum.min : NAN,
		.max = sum.n ? sum.max : NAN,
		.mean = sum.n ? sum.mean : NAN,
		.std = NAN };
	if (sum.n && (double)sum.n * (double)j->repeats > 1)
		out->std =
		    sqrt(sum.m2 * (double)j->repeats / ((double)sum.n * (double)j->repeats - 1));
	return j->crc && j->count ? gt_storage_compare(j->t.storage, crc, err) : 0;
}

static void release(struct survey *v)
{
	free(v->pieces);
	free(v->jobs);
}

int gt_stats_of(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_err *err)
{
	struct survey v = { .count = count };
	bool *skip = gt_calloc(count, sizeof(*skip), err);
	int rc = skip ? plan(&v, tensors, err) : GT_ENOMEM;

	for (size_t i = 0; i < count && !rc; i++)
		skip[i] = v.jobs[i].crc || !v.jobs[i].count;
	if (!rc)
		rc = gt_storages_check(tensors, skip, count, threads, err);
	if (!rc)
		rc = gt_thread_pool_run(threads, v.piece_count, survey_piece, &v, err);
	for (size_t i = 0; i < count && !rc; i++)
		rc = sum_up(&v, i, &out[i], err);
	free(skip);
	release(&v);
	return rc;
}

int gt_scan_of(struct gt_scan *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_err *err)
{
	struct survey v = { .count = count, .brief = true };
	int rc = plan(&v, tensors, err);

	if (!rc)
		rc = gt_thread_pool_run(threads, v.piece_count, survey_piece, &v, err);
	for (size_t i = 0; i < count && !rc; i++) {
		const struct job *j = &v.jobs[i];
		struct moments sum;

		out[i] = (struct gt_scan){ .count = j->count * j->repeats, .summed = j->crc };
		join_pieces(&v, i, &sum, &out[i].crc);
		out[i].nan = sum.nan * j->repeats;
		out[i].inf = sum.inf * j->repeats;
	}
	release(&v);
	return rc;
}
