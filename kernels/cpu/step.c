/* step.c - the work of a training step: losses, norm, and updates of parameters. */
#include <math.h>
#include <string.h>

#include "kernels/adan.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "lib/optim/step_policy.h"

static int begin_step(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	struct gt_step_result *r = &s->result;

	(void)stream;
	(void)err;
	r->loss = 0;
	r->stop = s->block.stop;
	r->grad_norm = 0;
	memset(r->squares, 0, sizeof(r->squares));
	return 0;
}

static double sum_of_losses(const float *losses, int64_t count)
{
	int64_t half = 1;
	double rest;

	if (count == 1)
		return (double)losses[0];
	while (2 * half < count)
		half *= 2;
	rest = sum_of_losses(losses + half, count - half);
	return sum_of_losses(losses, half) + rest;
}

static int add_losses(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
    int64_t count, struct gt_err *err)
{
	(void)stream;
	(void)err;
	s->result.loss += sum_of_losses(losses, count);
	return 0;
}

static double sum_of_squares(const float *g, int64_t count)
{
	double sum = 0;

#pragma omp simd reduction(+ : sum)
	for (int64_t i = 0; i < count; i++)
		sum += (double)g[i] * (double)g[i];
	return sum;
}

enum { NORM_CHUNKS = 256 };

static void plain_squares(const float *g, int64_t count, double squares[GT_SQUARES])
{
	int64_t chunk = gt_max(GT_SUM_BLOCK, gt_ceil_div(count, NORM_CHUNKS));
	int64_t chunks = gt_ceil_div(count, chunk);
	double partial[NORM_CHUNKS], sum = 0;

#pragma omp parallel for schedule(static) if (count >= GT_FORK_MIN)
	for (int64_t k = 0; k < chunks; k++)
		partial[k] = sum_of_squares(g + k * chunk, gt_min(chunk, count - k * chunk));
	for (int64_t k = 0; k < chunks; k++)
		sum += partial[k];
	squares[0] += sum;
}

/* ---- exact sums of squares ---- */

enum {
	EXPONENTS = 256,       /* of float32, by their bits */
	EXACT_BLOCK = 1 << 16, /* squares of integers of 24 bits that 64 bits hold the sum of */
	EXACT_CHUNKS = 64,     /* pieces of work for threads */
	LANES = 4              /* sums side by side: the next need not wait for the last */
};

_Static_assert((2 * (EXPONENTS - 3) + 64 - 1) / GT_SQUARE_DIGIT < GT_SQUARE_DIGITS,
    "digits for the largest square");

static void square_into(uint64_t *sums, float x)
{
	uint32_t bits, exponent, fraction;

	memcpy(&bits, &x, sizeof(bits));
	exponent = bits >> 23 & 255;
	fraction = (bits & 0x7fffff) | (exponent ? 0x800000 : 0);
	sums[exponent] += (uint64_t)fraction * fraction;
}

/* By exponent, in units that depend on that alone. */
static void square_block(uint64_t sums[EXPONENTS], const float *g, int64_t count)
{
	uint64_t lanes[LANES][EXPONENTS] = { 0 };
	int64_t i = 0;

	for (; i + LANES <= count; i += LANES)
		for (int k = 0; k < LANES; k++)
			square_into(lanes[k], g[i + k]);
	for (; i < count; i++)
		square_into(lanes[0], g[i]);
	for (int e = 0; e < EXPONENTS; e++) {
		sums[e] = 0;
		for (int k = 0; k < LANES; k++)
			sums[e] += lanes[k][e];
	}
}

/* The square of an integer with exponent e counts 2^(2 (e - 1) - 298); e = 0 is as 1. */
static void add_digits(double squares[GT_SQUARES], const uint64_t sums[EXPONENTS - 1])
{
	for (int e = 0; e < EXPONENTS - 1; e++) {
		int place = e ? 2 * (e - 1) : 0;
		unsigned __int128 sum = (unsigned __int128)sums[e] << place % GT_SQUARE_DIGIT;

		for (double *digit = squares + place / GT_SQUARE_DIGIT; sum;
		     sum >>= GT_SQUARE_DIGIT)
			*digit++ += (double)(sum & ((1u << GT_SQUARE_DIGIT) - 1));
	}
}

static void exact_block(double squares[GT_SQUARES], const float *g, int64_t count)
{
	uint64_t sums[EXPONENTS];

	square_block(sums, g, count);
	add_digits(squares, sums);
	for (int64_t i = 0; sums[EXPONENTS - 1] && i < count; i++)
		if (!isfinite(g[i]))
			squares[GT_SQUARE_DIGITS] += (double)g[i] * (double)g[i];
}

static void exact_squares(const float *g, int64_t count, double squares[GT_SQUARES])
{
	int64_t chunk = gt_max(EXACT_BLOCK, gt_ceil_div(count, EXACT_CHUNKS));
	int64_t chunks = gt_ceil_div(count, chunk);
	double partial[EXACT_CHUNKS][GT_SQUARES] = { 0 };

#pragma omp parallel for schedule(static) if (count >= GT_FORK_MIN)
	for (int64_t k = 0; k < chunks; k++) {
		int64_t end = gt_min((k + 1) * chunk, count);

		for (int64_t i = k * chunk; i < end; i += EXACT_BLOCK)
			exact_block(partial[k], g + i, gt_min(EXACT_BLOCK, end - i));
	}
	for (int64_t k = 0; k < chunks; k++)
		for (int i = 0; i < GT_SQUARES; i++)
			squares[i] += partial[k][i];
}

static int squares(struct gt_stream *stream, const float *g, int64_t count,
    struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (s->block.exact)
		exact_squares(g, count, s->result.squares);
	else
		plain_squares(g, count, s->result.squares);
	return 0;
}

static int begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	gt_step_begin_update(s);
	return 0;
}

/* ---- updates, piece by piece: a working copy is written while the piece is in the cache ---- */

static void sgd_plain(float *p, const float *g, int64_t count, const struct gt_update_options *o,
    const struct gt_step_scalars *s)
{
	float lr = s->block.lr * o->lr_scale, factor = s->result.grad_factor;
	float decay = o->weight_decay;

#pragma omp simd
	for (int64_t i = 0; i < count; i++)
		p[i] -= lr * (g[i] * factor + decay * p[i]);
}

static void sgd_momentum(float *p, const float *g, float *buf, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	float lr = s->block.lr * o->lr_scale, factor = s->result.grad_factor;
	float decay = o->weight_decay, momentum = o->momentum, fresh = 1.0f - o->dampening;
	/* The step is ahead * buffer + (nesterov) the gradient. */
	float ahead = o->nesterov ? momentum : 1.0f, own = o->nesterov ? 1.0f : 0.0f;
	bool first = s->result.steps == 1;

#pragma omp simd
	for (int64_t i = 0; i < count; i++) {
		float d = g[i] * factor + decay * p[i];
		float b = first ? d : momentum * buf[i] + fresh * d;

		buf[i] = b;
		p[i] -= lr * (own * d + ahead * b);
	}
}

static void sgd_range(const struct gt_update_range *r, const struct gt_step_scalars *s)
{
#pragma omp parallel for schedule(static) if (r->count >= GT_FORK_MIN)
	for (int64_t i = 0; i < r->count; i += GT_GRAIN) {
		int64_t n = gt_min(GT_GRAIN, r->count - i);

		if (r->states[0])
			sgd_momentum(r->p + i, r->g + i, r->states[0] + i, n, r->o, s);
		else
			sgd_plain(r->p + i, r->g + i, n, r->o, s);
		gt_write_copy(r->p + i, i, n, r->o);
	}
}

static int update_sgd(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	for (size_t i = 0; !s->result.skip && i < u->n; i++)
		sgd_range(&u->ranges[i], s);
	return 0;
}

const struct gt_update_kernel GT_ISA(gt_cpu_sgd) = { .run = update_sgd };

static void adam_piece(float *p, const float *g, float *m, float *v, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	float beta1 = (float)o->beta1, fresh1 = (float)(1 - o->beta1);
	float beta2 = (float)o->beta2, fresh2 = (float)(1 - o->beta2);
	float lr = (o->use_fallback_lr ? s->block.fallback_lr : s->block.lr) * o->lr_scale;
	float step = lr / s->result.bias1, unbias = 1.0f / s->result.bias2_sqrt;
	float factor = s->result.grad_factor, eps = o->eps;
	/* Decay goes to the parameter (AdamW) or to the gradient (Adam). */
	float shrink = o->decoupled ? 1.0f - lr * o->weight_decay : 1.0f;
	float decay = o->decoupled ? 0.0f : o->weight_decay;

#pragma omp simd
	for (int64_t i = 0; i < count; i++) {
		float d = g[i] * factor + decay * p[i];

		m[i] = beta1 * m[i] + fresh1 * d;
		v[i] = beta2 * v[i] + fresh2 * d * d;
		p[i] = p[i] * shrink - step * (m[i] / (sqrtf(v[i]) * unbias + eps));
	}
}

static void adam_range(const struct gt_update_range *r, const struct gt_step_scalars *s)
{
#pragma omp parallel for schedule(static) if (r->count >= GT_FORK_MIN)
	for (int64_t i = 0; i < r->count; i += GT_GRAIN) {
		int64_t n = gt_min(GT_GRAIN, r->count - i);

		adam_piece(r->p + i, r->g + i, r->states[0] + i, r->states[1] + i, n, r->o, s);
		gt_write_copy(r->p + i, i, n, r->o);
	}
}

static int update_adam(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	for (size_t i = 0; !s->result.skip && i < u->n; i++)
		adam_range(&u->ranges[i], s);
	return 0;
}

const struct gt_update_kernel GT_ISA(gt_cpu_adam) = { .run = update_adam };

static void adan_piece(
    const struct gt_update_range *r, int64_t from, int64_t count, const struct gt_step_scalars *s)
{
	const struct gt_adan a =
	    gt_adan_begin(s, s->block.lr * r->o->lr_scale, r->o->weight_decay, r->o->eps);
	const float *g = r->g + from;
	float *p = r->p + from, *m = r->states[0] + from, *v = r->states[1] + from;
	float *n = r->states[2] + from, *last = r->states[3] + from;

#pragma omp simd
	for (int64_t i = 0; i < count; i++)
		gt_adan_element(&a, &p[i], g[i], &m[i], &v[i], &n[i], &last[i]);
	gt_write_copy(p, from, count, r->o);
}

static void adan_range(const struct gt_update_range *r, const struct gt_step_scalars *s)
{
#pragma omp parallel for schedule(static) if (r->count >= GT_FORK_MIN)
	for (int64_t i = 0; i < r->count; i += GT_GRAIN)
		adan_piece(r, i, gt_min(GT_GRAIN, r->count - i), s);
}

static int update_adan(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	for (size_t i = 0; !s->result.skip && i < u->n; i++)
		adan_range(&u->ranges[i], s);
	return 0;
}

const struct gt_update_kernel GT_ISA(gt_cpu_adan) = { .run = update_adan };

/* ---- rows ---- */

static int copy_rows(struct gt_stream *stream, float *to, int64_t to_stride, const float *from,
    int64_t from_stride, int64_t length, int64_t rows, struct gt_err *err)
{
	(void)stream;
	(void)err;
#pragma omp parallel for schedule(static) if (rows * length >= GT_FORK_MIN)
	for (int64_t i = 0; i < rows; i++)
		memcpy(to + i * to_stride, from + i * from_stride, (size_t)length * sizeof(*to));
	return 0;
}

/* ---- the table ---- */

const struct gt_step_kernels GT_ISA(gt_cpu_steps) = {
	.begin_step = begin_step,
	.add_losses = add_losses,
	.squares = squares,
	.begin_update = begin_update,
	.copy_rows = copy_rows,
#define UPDATE(NAME, name) [GT_UPDATE_##NAME] = &GT_ISA(gt_cpu_##name),
	.updates = { GT_UPDATES(UPDATE) },
};
