/* range.c - a step's work on flat buffers: sums, norm, updates; 16-bit types, and a search. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "lib/base/finite.h"
#include "lib/base/half.h"

static int add(
    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err)
{
	(void)stream;
	(void)err;
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] += y[i];
	return 0;
}

/* ---- a step ---- */

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
	EXPONENTS = 256, /* of float32, by their bits */
	DIGIT = 24,      /* bits that one element of a sum stands for */
	DIGITS = GT_SQUARES - 1,
	EXACT_BLOCK = 1 << 16, /* squares of integers of 24 bits that 64 bits hold the sum of */
	EXACT_CHUNKS = 64,     /* pieces of work for threads */
	LANES = 4              /* sums side by side: the next need not wait for the last */
};

_Static_assert((2 * (EXPONENTS - 3) + 64 - 1) / DIGIT < DIGITS, "digits for the largest square");

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
		unsigned __int128 sum = (unsigned __int128)sums[e] << place % DIGIT;

		for (double *digit = squares + place / DIGIT; sum; sum >>= DIGIT)
			*digit++ += (double)(sum & ((1u << DIGIT) - 1));
	}
}

static void exact_block(double squares[GT_SQUARES], const float *g, int64_t count)
{
	uint64_t sums[EXPONENTS];

	square_block(sums, g, count);
	add_digits(squares, sums);
	for (int64_t i = 0; sums[EXPONENTS - 1] && i < count; i++)
		if (!isfinite(g[i]))
			squares[DIGITS] += (double)g[i] * (double)g[i];
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

/* The same sum has the same digits once each is less than 2^DIGIT and hands on the rest. */
static double exact_total(const double squares[GT_SQUARES])
{
	double carry = 0, total = squares[DIGITS];

	for (int i = 0; i < DIGITS; i++) {
		double digit = squares[i] + carry;

		carry = i + 1 < DIGITS ? floor(ldexp(digit, -DIGIT)) : 0;
		total += ldexp(digit - ldexp(carry, DIGIT), DIGIT * i - 298);
	}
	return total;
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

/* The scale does not grow beyond float32. */
static void update_scale(const struct gt_step_block *b, struct gt_step_result *r)
{
	float grown = r->scale * b->growth;

	if (r->skip) {
		r->scale *= b->backoff;
		r->growth_tracker = 0;
		r->diverged = (double)r->scale < gt_scale_min;
	} else if (++r->growth_tracker == b->growth_interval) {
		r->scale = isfinite(grown) ? grown : r->scale;
		r->growth_tracker = 0;
	}
}

static int begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	const struct gt_step_block *b = &s->block;
	struct gt_step_result *r = &s->result;
	bool scaled = b->growth_interval > 0, finite;
	double scale = scaled ? (double)r->scale : 1;
	double norm = sqrt(b->exact ? exact_total(r->squares) : r->squares[0]) / scale;
	double factor = b->clip > 0 ? (double)b->clip / (norm + 1e-6) : 1;

	(void)stream;
	(void)err;
	r->grad_norm = (float)norm;
	r->grad_factor = (float)((factor > 1 ? 1 : factor) / scale);
	finite = isfinite(r->grad_norm);
	r->diverged = r->diverged || !isfinite(r->loss) || !(finite || scaled);
	r->skip = r->diverged || !finite;
	if (scaled && !r->diverged)
		update_scale(b, r);
	if (r->skip)
		return 0;
	r->steps++;
	r->bias1 = (float)(1 - pow(b->beta1, (double)r->steps));
	r->bias2_sqrt = (float)sqrt(1 - pow(b->beta2, (double)r->steps));
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

static int sgd(struct gt_stream *stream, const struct gt_update_range *ranges, size_t n,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	for (size_t i = 0; !s->result.skip && i < n; i++)
		sgd_range(&ranges[i], s);
	return 0;
}

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

static int adam(struct gt_stream *stream, const struct gt_update_range *ranges, size_t n,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	(void)stream;
	(void)err;
	for (size_t i = 0; !s->result.skip && i < n; i++)
		adam_range(&ranges[i], s);
	return 0;
}

static int lerp(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
    struct gt_err *err)
{
	float rest = 1.0f - weight;

	(void)stream;
	(void)err;
	if (weight < 0.5f) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			y[i] = y[i] + weight * (x[i] - y[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		y[i] = x[i] - rest * (x[i] - y[i]);
	return 0;
}

static int swap(struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err)
{
	(void)stream;
	(void)err;
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++) {
		float old = x[i];

		x[i] = y[i];
		y[i] = old;
	}
	return 0;
}

static int narrow(struct gt_stream *stream, uint16_t *half, const float *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			half[i] = gt_f16_of_float(x[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		half[i] = gt_bf16_of_float(x[i]);
	return 0;
}

static int widen(struct gt_stream *stream, float *x, const uint16_t *half, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			x[i] = gt_float_of_f16(half[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] = gt_float_of_bf16(half[i]);
	return 0;
}

static bool all_finite(const char *x, int64_t count, enum gt_dtype dtype)
{
	return dtype == GT_F64 ? gt_finite_f64(x, (size_t)count) : gt_finite_f32(x, (size_t)count);
}

/* Each thread takes blocks in ascending order, so behind a find it has nothing more to look for. */
static int find_nonfinite(struct gt_stream *stream, int64_t *out, const void *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	int64_t size = dtype == GT_F64 ? sizeof(double) : sizeof(float), first = count;
	int64_t blocks = dtype == GT_F32 || dtype == GT_F64 ? gt_ceil_div(count, GT_GRAIN) : 0;
	const char *at = x;

	(void)stream;
	(void)err;
#pragma omp parallel for schedule(static) reduction(min : first) if (count >= GT_FORK_MIN)
	for (int64_t k = 0; k < blocks; k++) {
		int64_t i = k * GT_GRAIN, end = gt_min(i + GT_GRAIN, count);

		if (first < i || all_finite(at + i * size, end - i, dtype))
			continue;
		while (all_finite(at + i * size, 1, dtype))
			i++;
		first = i;
	}
	*out = first < count && blocks ? first : -1;
	return 0;
}

const struct gt_range_kernels GT_ISA(gt_cpu_ranges) = {
	.add = add,
	.begin_step = begin_step,
	.add_losses = add_losses,
	.squares = squares,
	.begin_update = begin_update,
	.sgd = sgd,
	.adam = adam,
	.muon = GT_ISA(gt_cpu_muon),
	.lerp = lerp,
	.swap = swap,
	.narrow = narrow,
	.widen = widen,
	.find_nonfinite = find_nonfinite,
};
