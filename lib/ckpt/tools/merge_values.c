/* merge_values.c - the values of merged tensors: means, sums of differences, TIES and SLERP. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/philox.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/tools/merge_steps.h"
#include "lib/ckpt/tree/cast.h"

/* ---- elements as numbers ---- */

/* What a complex number is made of; other types are made of themselves. */
static enum gt_dtype part_of(enum gt_dtype dtype)
{
	return dtype == GT_C64 ? GT_F32 : dtype == GT_C128 ? GT_F64 : dtype;
}

/* Return the number of reals in an element. */
static size_t reals_of(enum gt_dtype dtype)
{
	return gt_dtype_size(dtype) / gt_dtype_size(part_of(dtype));
}

/* Return whether a type has a mean. For integers and raw types, the elements of the first tree are
 * taken, and the others are compared. */
static bool has_mean(enum gt_dtype dtype)
{
	return gt_cast_kind(dtype) == GT_CAST_REAL || gt_cast_kind(dtype) == GT_CAST_COMPLEX;
}

struct gt_cursor gt_merge_cursor(const struct gt_tree_tensor *t, uint64_t at, size_t max)
{
	return (struct gt_cursor){
		.tensor = t, .at = at, .end = (uint64_t)gt_ckpt_tensor_count(t), .max = max
	};
}

/* Read `count` elements as reals, of which a complex number has two. */
static int read_reals(
    const struct gt_tree_tensor *t, uint64_t at, uint64_t count, double *out, struct gt_err *err)
{
	struct gt_cursor c = gt_merge_cursor(t, at, count);
	const void *run;
	size_t n;
	int rc = gt_cursor_next(&c, &run, &n, err);

	if (rc > 0)
		gt_cast_real(t->dtype, run, n, out);
	gt_cursor_release(&c);
	return rc < 0 ? rc : 0;
}

/* ---- SLERP: the angle between two tensors ---- */

/* Tensors whose cosine is beyond this, to either side, are interpolated on a line: the sine, by
 * which the factors are divided, is near 0. */
static const double parallel = 0.9995;

static int sum_products(void *self, size_t task, struct gt_err *err)
{
	struct gt_merge_work *m = self;
	const struct gt_piece *p = gt_pieces_get(&m->pieces, task);
	const struct gt_merge_target *target = &m->targets[p->job];
	const enum gt_dtype dtype = target->from[0]->dtype;
	const size_t all = has_mean(dtype) ? p->count * reals_of(dtype) : 0;
	double *x = all ? gt_calloc(2 * all, sizeof(*x), err) : NULL, *y = x ? x + all : NULL;
	double *sums = m->products[task];
	int rc = !all || x ? 0 : GT_ENOMEM;

	if (!rc && all)
		rc = read_reals(target->from[0], p->at, p->count, x, err);
	if (!rc && all)
		rc = read_reals(target->from[1], p->at, p->count, y, err);
	for (size_t i = 0; !rc && i < all; i++) {
		sums[0] += x[i] * x[i];
		sums[1] += y[i] * y[i];
		sums[2] += x[i] * y[i];
	}
	free(x);
	return rc;
}

/* Set the factors of a tensor by the sums of its products. A tensor of zeros has no angle, and one
 * with NaN has none that is a number: they take the line, too. */
static void set_factors(struct gt_merge_target *target, const double sums[3], double t)
{
	const double cosine = sums[2] / (sqrt(sums[0]) * sqrt(sums[1]));
	const double angle = acos(cosine);

	target->linear = !(fabs(cosine) <= parallel);
	target->factors[0] = target->linear ? 1 - t : sin((1 - t) * angle) / sin(angle);
	target->factors[1] = target->linear ? t : sin(t * angle) / sin(angle);
}

/* Find the factors of each tensor. Sums are added in the order of the pieces, so they don't depend
 * on the threads. */
static int find_factors(struct gt_merge_work *m, size_t threads, struct gt_err *err)
{
	size_t task = 0;
	int rc;

	m->products = gt_calloc(m->pieces.count, sizeof(*m->products), err);
	rc = m->products ? gt_thread_pool_run(threads, m->pieces.count, sum_products, m, err)
	                 : GT_ENOMEM;
	for (size_t i = 0; !rc && i < m->target_count; i++) {
		struct gt_merge_target *target = &m->targets[i];
		double sums[3] = { 0 };

		if (target->tied || !gt_ckpt_tensor_count(target->result))
			continue;
		for (; task < m->pieces.count; task++) {
			const struct gt_piece *p = gt_pieces_get(&m->pieces, task);

			if (p->job != i)
				break;
			for (int k = 0; k < 3; k++)
				sums[k] += m->products[task][k];
		}
		if (has_mean(target->result->dtype))
			set_factors(target, sums, *m->how->slerp);
	}
	free(m->products);
	m->products = NULL;
	return rc;
}

/* ---- TIES: the smallest difference that is kept ---- */

/* The magnitudes of doubles are in the order of their bits, which are read as digits of 16 bits. */
enum { DIGIT = 16, DIGITS = 1 << DIGIT };

/* The search for the least difference of a file: magnitudes that begin with the bits `prefix`
 * are counted by their next digit. */
struct search {
	const struct gt_tree_tensor *from, *base;
	uint64_t prefix;
	int shift;        /* bits to the right of the digit */
	uint64_t *counts; /* [DIGITS] */
	double *x, *b;    /* [2 * GT_MERGE_PIECE] */
};

static uint64_t bits_of(double x)
{
	uint64_t bits;

	x = fabs(x);
	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static int count_digits(struct search *s, struct gt_err *err)
{
	const uint64_t count = (uint64_t)gt_ckpt_tensor_count(s->from);
	int rc = 0;

	memset(s->counts, 0, DIGITS * sizeof(*s->counts));
	for (uint64_t at = 0; !rc && at < count; at += GT_MERGE_PIECE) {
		const uint64_t n = count - at < GT_MERGE_PIECE ? count - at : GT_MERGE_PIECE;

		rc = read_reals(s->from, at, n, s->x, err);
		if (!rc)
			rc = read_reals(s->base, at, n, s->b, err);
		for (size_t i = 0; !rc && i < n * reals_of(s->from->dtype); i++) {
			const uint64_t bits = bits_of(s->x[i] - s->b[i]) >> s->shift;

			if (bits >> DIGIT == s->prefix)
				s->counts[bits % DIGITS]++;
		}
	}
	return rc;
}

/* Set *least to the magnitude that `keep` of the differences have or exceed, or more of them where
 * several are as large as the last. */
static int find_least(double *least, struct search *s, uint64_t keep, struct gt_err *err)
{
	uint64_t bits;

	s->prefix = 0;
	for (s->shift = 64 - DIGIT;; s->shift -= DIGIT) {
		uint64_t digit = DIGITS - 1;

		if (count_digits(s, err))
			return err->code;
		/* A file that another program changes may have fewer differences now. */
		while (digit && s->counts[digit] < keep)
			keep -= s->counts[digit--];
		s->prefix = s->prefix << DIGIT | digit;
		if (!s->shift || s->counts[digit] == keep)
			break;
	}
	bits = s->prefix << s->shift;
	memcpy(least, &bits, sizeof(bits));
	return 0;
}

/* Find the least differences of a target. Of n differences, the integer below density * n is kept.
 * With none, NaN and Inf still stay. */
static int find_least_of_target(void *self, size_t task, struct gt_err *err)
{
	struct gt_merge_work *m = self;
	struct gt_merge_target *target = &m->targets[task];
	const enum gt_dtype dtype = target->result->dtype;
	const uint64_t all = (uint64_t)gt_ckpt_tensor_count(target->result) * reals_of(dtype);
	const uint64_t keep = (uint64_t)(m->how->density * (double)all);
	struct search s = { .base = target->from[m->count] };
	int rc = 0;

	for (size_t k = 0; k < m->count; k++)
		target->least[k] = keep ? 0 : INFINITY;
	if (target->tied || !has_mean(dtype) || !keep || keep >= all)
		return 0;
	s.counts = gt_calloc(DIGITS, sizeof(*s.counts), err);
	s.x = gt_calloc(4 * GT_MERGE_PIECE, sizeof(*s.x), err);
	s.b = s.x + 2 * GT_MERGE_PIECE;
	if (!s.counts || !s.x)
		rc = GT_ENOMEM;
	for (size_t k = 0; !rc && k < m->count; k++) {
		s.from = target->from[k];
		rc = find_least(&target->least[k], &s, keep, err);
	}
	free(s.counts);
	free(s.x);
	return rc;
}

int gt_merge_measure(struct gt_merge_work *m, size_t threads, struct gt_err *err)
{
	if (m->how->slerp)
		return find_factors(m, threads, err);
	if (m->how->density > 0)
		return gt_thread_pool_run(threads, m->target_count, find_least_of_target, m, err);
	return 0;
}

/* ---- a piece of the result ---- */

/* Buffers for a piece: its result, and reals of which a complex number takes two. */
struct piece_buffers {
	unsigned char *raw;
	double *sum, *value, *base; /* the sums, the values of a checkpoint and of the base */
	/* TIES: the sum of all differences, whose sign is that of the result, and the weighted sums
	 * and the numbers of the differences of each sign */
	double *elected, *sums[2], *counts[2];
};

enum { BUFFERS = 8 }; /* the arrays of reals in struct piece_buffers */

static int make_buffers(struct piece_buffers *d, const struct gt_merge_work *m,
    const struct gt_piece *p, struct gt_err *err)
{
	const struct gt_tree_tensor *result = m->targets[p->job].result;
	const size_t n = 2 * p->count, arrays = m->how->density > 0 ? BUFFERS : 3;

	*d = (struct piece_buffers){ .raw = gt_calloc(p->count, gt_dtype_size(result->dtype), err),
		.sum = gt_calloc(arrays * n, sizeof(*d->sum), err) };
	if (!d->raw || !d->sum)
		return GT_ENOMEM;
	d->value = d->sum + n;
	d->base = d->value + n;
	if (arrays == 3)
		return 0;
	d->elected = d->base + n;
	for (int i = 0; i < 2; i++) {
		d->sums[i] = d->elected + (size_t)(1 + 2 * i) * n;
		d->counts[i] = d->sums[i] + n;
	}
	return 0;
}

/* Leave out values by chance, and divide the others by the probability that they stay. Draws depend
 * on the tensor, the element and the checkpoint, not on the threads. */
static void drop_values(
    const struct gt_merge_work *m, const struct gt_piece *p, size_t k, double *values, size_t all)
{
	const double drop = m->how->drop;
	const uint64_t first = p->at * (all / p->count); /* a complex number has two values */

	for (size_t i = 0; i < all; i++) {
		const uint32_t draw =
		    (uint32_t)gt_philox_u64(m->how->seed, first + i, (uint32_t)p->job, (uint32_t)k);

		values[i] = (double)gt_philox_float(draw) < drop ? 0 : values[i] / (1 - drop);
	}
}

/* Turn values into differences from the base, and leave out those that --ties and --drop do. */
static void take_differences(const struct gt_merge_work *m, const struct gt_piece *p,
    const struct piece_buffers *d, size_t all, size_t k)
{
	const double least = m->how->density > 0 ? m->targets[p->job].least[k] : 0;

	for (size_t i = 0; i < all; i++) {
		d->value[i] -= d->base[i];
		if (fabs(d->value[i]) < least)
			d->value[i] = 0;
	}
	if (m->how->drop > 0)
		drop_values(m, p, k, d->value, all);
}

/* Add differences to the sums of their signs. NaN has none, and is added to both. */
static void add_signed(const struct piece_buffers *d, size_t all, double weight)
{
	for (size_t i = 0; i < all; i++) {
		const double x = d->value[i];

		d->elected[i] += x;
		for (int sign = 0; sign < 2; sign++) {
			if (isnan(x) || (sign ? x < 0 : x > 0)) {
				d->sums[sign][i] += weight * x;
				d->counts[sign][i]++;
			}
		}
	}
}

/* Add the mean of the differences that have the elected sign to the base. */
static void add_disjoint_means(const struct piece_buffers *d, size_t all)
{
	for (size_t i = 0; i < all; i++) {
		const int sign = d->elected[i] < 0;

		if (d->counts[sign][i] > 0)
			d->sum[i] += d->sums[sign][i] / d->counts[sign][i];
	}
}

static double find_weight(const struct gt_merge_work *m, const struct gt_piece *p, size_t k)
{
	if (m->how->slerp)
		return m->targets[p->job].factors[k];
	return m->how->weights ? m->how->weights[k] : 1;
}

/* Add the n elements of checkpoint k, or their differences from the base. */
static void add_run(const struct gt_merge_work *m, const struct gt_piece *p,
    const struct piece_buffers *d, const void *run, size_t n, size_t k)
{
	struct gt_merge_target *target = &m->targets[p->job];
	const enum gt_dtype dtype = target->from[0]->dtype;
	const size_t bytes = n * gt_dtype_size(dtype), all = n * reals_of(dtype);
	const double weight = find_weight(m, p, k);

	if (has_mean(dtype)) {
		gt_cast_real(dtype, run, n, d->value);
		if (m->how->base)
			take_differences(m, p, d, all, k);
		if (m->how->density > 0) {
			add_signed(d, all, weight);
			return;
		}
		for (size_t i = 0; i < all; i++)
			d->sum[i] += weight * d->value[i];
	} else if (!k) {
		memcpy(d->raw, run, bytes);
	} else if (memcmp(d->raw, run, bytes)) {
		atomic_store(&target->differs, true);
	}
}

/* Round the sums to the type of the result. */
static int finish_sums(const struct gt_merge_work *m, struct gt_merge_target *target,
    const struct piece_buffers *d, size_t count, struct gt_err *err)
{
	const enum gt_dtype dtype = target->result->dtype, part = part_of(dtype);
	const size_t all = count * reals_of(dtype);
	int rc;

	if (m->how->density > 0)
		add_disjoint_means(d, all);
	for (size_t i = 0; i < all; i++)
		d->sum[i] /= m->divisor;
	rc = gt_cast(GT_F64, d->sum, part, d->raw, all, err);
	if (!rc && !gt_cast_finite(part, d->raw, all))
		atomic_store(&target->nonfinite, true);
	return rc;
}

/* Read the piece of the base, with which the sum begins. */
static int read_base(const struct gt_merge_work *m, const struct gt_piece *p,
    const struct piece_buffers *d, struct gt_err *err)
{
	const struct gt_tree_tensor *t = m->targets[p->job].from[m->count];
	int rc = read_reals(t, p->at, p->count, d->base, err);

	if (!rc)
		memcpy(d->sum, d->base, 2 * p->count * sizeof(*d->sum));
	return rc;
}

int gt_merge_piece(void *self, size_t task, struct gt_err *err)
{
	struct gt_merge_work *m = self;
	const struct gt_piece *p = gt_pieces_get(&m->pieces, task);
	struct gt_merge_target *target = &m->targets[p->job];
	const bool sums = has_mean(target->result->dtype);
	const size_t size = gt_dtype_size(target->result->dtype);
	struct piece_buffers d;
	const void *run;
	size_t n;
	int rc = make_buffers(&d, m, p, err);

	if (!rc && m->how->base && sums)
		rc = read_base(m, p, &d, err);
	for (size_t k = 0; !rc && k < m->count; k++) {
		struct gt_cursor c = gt_merge_cursor(target->from[k], p->at, p->count);

		rc = gt_cursor_next(&c, &run, &n, err);
		if (rc > 0)
			add_run(m, p, &d, run, n, k);
		rc = rc < 0 ? rc : 0;
		gt_cursor_release(&c);
	}
	if (!rc && sums)
		rc = finish_sums(m, target, &d, p->count, err);
	if (!rc)
		rc = gt_write_at(m->fd, target->offset + p->at * size, d.raw, p->count * size, err);
	gt_meter_add(&m->meter, p->count * size);
	free(d.raw);
	free(d.sum);
	return rc;
}
