/* stats.c - statistics of the numbers in tensors, by pieces and threads. */
#include "lib/ckpt/tools/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/meter.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

enum {
	PIECE_BYTES = 4 << 20, /* a task, unless there would be too many */
	MAX_PIECES = 1 << 16,
	BLOCK = 1024, /* elements, whose moments are joined to the sum */
	LANES = 8     /* sums side by side, for the vector unit */
};

/* Finite elements so far: how many, their mean, the sum of squared distances from it. */
struct moments {
	uint64_t n, nan, inf, zeros;
	double mean, m2, min, max;
};

/* A tensor whose statistics are computed. */
struct job {
	struct gt_tree_tensor t; /* the tensor, with its elements in storage order */
	int64_t dims[2 * GT_TREE_MAX_DIMS];
	uint64_t count, repeats;
	bool crc; /* the tensor fills its storage: its CRC-32 is computed, too */

	/* results of all pieces of the tensor together */
	struct moments sum;
	uint32_t sum_crc;
};

struct piece {
	struct gt_piece elements;
	uint32_t crc;
	struct moments sum;
};

struct survey {
	bool brief; /* NaN, Inf and checksums alone; the other moments stay 0 */
	struct job *jobs;
	size_t count;
	struct gt_pieces pieces;
	uint64_t bytes; /* the size of all tensors together */
	struct gt_meter meter;
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
static void join_moments(struct moments *a, const struct moments *b)
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
	join_moments(sum, &b);
}

/* ---- a piece of a tensor ---- */

/* Complex numbers count by their magnitude. */
static void add_run(struct moments *sum, enum gt_dtype dtype, const void *run, size_t n)
{
	double x[2 * BLOCK];

	gt_cast_real(dtype, run, n, x);
	for (size_t i = 0; i < n && gt_cast_kind(dtype) == GT_CAST_COMPLEX; i++)
		x[i] = hypot(x[2 * i], x[2 * i + 1]);
	add_block(sum, x, n);
}

static int survey_piece(void *self, size_t task, struct gt_err *err)
{
	struct survey *v = self;
	struct piece *p = gt_pieces_get(&v->pieces, task);
	const struct job *j = &v->jobs[p->elements.job];
	struct gt_cursor c = { .tensor = &j->t,
		.at = p->elements.at,
		.end = p->elements.at + p->elements.count,
		.max = BLOCK,
		.sum = j->crc };
	const void *run;
	size_t n;
	int rc;

	while ((rc = gt_cursor_next(&c, &run, &n, err)) > 0)
		if (gt_cast_kind(j->t.dtype) != GT_CAST_RAW &&
		    (!v->brief || !gt_cast_finite(j->t.dtype, run, n)))
			add_run(&p->sum, j->t.dtype, run, n);
	p->crc = c.crc;
	gt_meter_add(&v->meter, p->elements.count * gt_dtype_size(j->t.dtype));
	gt_cursor_release(&c);
	return rc;
}

/* ---- the plan, and the sum of the pieces ---- */

static void plan_job(struct job *j, const struct gt_tree_tensor *t, bool brief)
{
	struct gt_storage *s = t->storage;

	gt_ckpt_tensor_in_storage_order(&j->t, t, j->dims, &j->repeats);
	j->count = (uint64_t)gt_ckpt_tensor_count(&j->t);
	j->crc =
	    s->has_crc && (brief || !atomic_load(&s->checked)) && gt_ckpt_tensor_is_whole(&j->t);
}

/* An element that a stride of 0 repeats is visited once. */
static int plan_survey(
    struct survey *v, const struct gt_tree_tensor *const *tensors, struct gt_err *err)
{
	uint64_t piece_bytes = PIECE_BYTES;
	struct gt_repeats repeats = { 0 };
	int rc = 0;

	v->jobs = gt_calloc(v->count, sizeof(*v->jobs), err);
	if (!v->jobs)
		return GT_ENOMEM;
	for (size_t i = 0; i < v->count && !rc; i++) {
		struct job *j = &v->jobs[i];

		plan_job(j, tensors[i], v->brief);
		v->bytes += j->count * gt_dtype_size(j->t.dtype);
		rc = gt_repeats_add(
		    &repeats, j->t.storage, j->count * gt_dtype_size(j->t.dtype), err);
	}
	rc = gt_repeats_end(&repeats, rc, err);
	while (v->bytes / piece_bytes > MAX_PIECES)
		piece_bytes *= 2;
	v->pieces.size = sizeof(struct piece);
	for (size_t i = 0; i < v->count && !rc; i++)
		rc = gt_pieces_add(&v->pieces, i, v->jobs[i].count,
		    piece_bytes / gt_dtype_size(v->jobs[i].t.dtype), err);
	return rc;
}

/* Read all, and put the pieces of each tensor together. */
static int run_survey(
    struct survey *v, size_t threads, struct gt_progress *progress, struct gt_err *err)
{
	int rc;

	gt_meter_begin(&v->meter, progress, "reading, MiB", v->bytes);
	rc = gt_thread_pool_run(threads, v->pieces.count, survey_piece, v, err);
	gt_meter_end(&v->meter);
	for (size_t i = 0; i < v->pieces.count && !rc; i++) {
		const struct piece *p = gt_pieces_get(&v->pieces, i);
		struct job *j = &v->jobs[p->elements.job];

		join_moments(&j->sum, &p->sum);
		j->sum_crc = gt_crc32_join(
		    j->sum_crc, p->crc, p->elements.count * gt_dtype_size(j->t.dtype));
	}
	return rc;
}

static void sum_up(const struct job *j, struct gt_stats *out)
{
	const struct moments *sum = &j->sum;
	double n = (double)sum->n * (double)j->repeats;

	*out = (struct gt_stats){ .count = j->count * j->repeats,
		.nan = sum->nan * j->repeats,
		.inf = sum->inf * j->repeats,
		.zeros = sum->zeros * j->repeats,
		.min = sum->n ? sum->min : NAN,
		.max = sum->n ? sum->max : NAN,
		.mean = sum->n ? sum->mean : NAN,
		.std = n > 1 ? sqrt(sum->m2 * (double)j->repeats / (n - 1)) : NAN,
		.summed = j->crc,
		.crc = j->sum_crc };
}

static int survey(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, bool brief, struct gt_progress *progress, struct gt_err *err)
{
	struct survey v = { .count = count, .brief = brief };
	bool *skip = gt_calloc(count, sizeof(*skip), err);
	int rc = skip ? plan_survey(&v, tensors, err) : GT_ENOMEM;

	for (size_t i = 0; i < count && !rc; i++)
		skip[i] = v.jobs[i].crc || !v.jobs[i].count;
	if (!rc && !brief)
		rc = gt_storages_check(tensors, skip, count, threads, progress, err);
	if (!rc)
		rc = run_survey(&v, threads, progress, err);
	for (size_t i = 0; i < count && !rc; i++) {
		sum_up(&v.jobs[i], &out[i]);
		if (!brief && v.jobs[i].crc && v.jobs[i].count)
			rc = gt_storage_compare(tensors[i]->storage, out[i].crc, err);
	}
	free(skip);
	free(v.pieces.items);
	free(v.jobs);
	return rc;
}

/*
 * Compute the statistics of `count` tensors, and write them to out[count]. `threads` is the number
 * of threads (0: one per processor, at most 16). If a storage has a CRC-32, the function also
 * compares its bytes with this CRC-32. The result does not depend on the number of threads: tensors
 * are split into pieces of a fixed size, and the sums of the pieces are combined in order. Each
 * piece is summed in float64 relative to its own mean.
 *
 * Memory: about 1 MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged storage; GT_ENOTSUP if strides repeat the same bytes more than a
 * thousand times, so that the tensors have far more elements than their storages (gt_repeats_end(),
 * tree/tree.h).
 * Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", Stanford STAN-CS-79-773, 1979.
 */
int gt_stats_of(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err)
{
	return survey(out, tensors, count, threads, false, progress, err);
}

int gt_stats_scan(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err)
{
	return survey(out, tensors, count, threads, true, progress, err);
}
