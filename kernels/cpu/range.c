/* range.c - fill, add, norm, clip, sgd, adam, narrow and widen on ranges of the flat buffers. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "lib/base/half.h"

static void fill(float *x, int64_t count, float value)
{
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] = value;
}

static void add(float *x, const float *y, int64_t count)
{
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] += y[i];
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

static void squares(const float *g, int64_t count, struct gt_step_scalars *s)
{
	int64_t chunk = gt_max(GT_SUM_BLOCK, gt_ceil_div(count, NORM_CHUNKS));
	int64_t chunks = gt_ceil_div(count, chunk);
	double partial[NORM_CHUNKS], sum = 0;

#pragma omp parallel for schedule(static) if (count >= GT_FORK_MIN)
	for (int64_t k = 0; k < chunks; k++)
		partial[k] = sum_of_squares(g + k * chunk, gt_min(chunk, count - k * chunk));
	for (int64_t k = 0; k < chunks; k++)
		sum += partial[k];
	s->squares += sum;
}

static void clip(struct gt_step_scalars *s)
{
	double norm = sqrt(s->squares);
	double factor = s->clip > 0 ? (double)s->clip / (norm + 1e-6) : 1;

	s->grad_norm = (float)norm;
	s->grad_factor = factor > 1 ? 1.0f : (float)factor; /* a NaN stays one */
}

static void sgd_plain(float *p, const float *g, int64_t count, const struct gt_update_options *o,
    const struct gt_step_scalars *s)
{
	float lr = s->lr, factor = s->grad_factor, decay = o->weight_decay;

#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		p[i] -= lr * (g[i] * factor + decay * p[i]);
}

static void sgd_momentum(float *p, const float *g, float *buf, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	float lr = s->lr, factor = s->grad_factor, decay = o->weight_decay;
	float momentum = o->momentum, fresh = 1.0f - o->dampening;
	/* The step is ahead * buffer + (nesterov) the gradient. */
	float ahead = o->nesterov ? momentum : 1.0f, own = o->nesterov ? 1.0f : 0.0f;
	bool first = s->first_step != 0;

#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++) {
		float d = g[i] * factor + decay * p[i];
		float b = first ? d : momentum * buf[i] + fresh * d;

		buf[i] = b;
		p[i] -= lr * (own * d + ahead * b);
	}
}

static void sgd(float *p, const float *g, float *buf, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	if (buf)
		sgd_momentum(p, g, buf, count, o, s);
	else
		sgd_plain(p, g, count, o, s);
}

static void adam(float *p, const float *g, float *m, float *v, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	float beta1 = (float)o->beta1, fresh1 = (float)(1 - o->beta1);
	float beta2 = (float)o->beta2, fresh2 = (float)(1 - o->beta2);
	float step = s->lr / s->bias1, unbias = 1.0f / s->bias2_sqrt, eps = o->eps;
	float factor = s->grad_factor;
	/* Decay goes to the parameter (AdamW) or to the gradient (Adam). */
	float shrink = o->decoupled ? 1.0f - s->lr * o->weight_decay : 1.0f;
	float decay = o->decoupled ? 0.0f : o->weight_decay;

#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++) {
		float d = g[i] * factor + decay * p[i];

		m[i] = beta1 * m[i] + fresh1 * d;
		v[i] = beta2 * v[i] + fresh2 * d * d;
		p[i] = p[i] * shrink - step * (m[i] / (sqrtf(v[i]) * unbias + eps));
	}
}

static void narrow(uint16_t *half, const float *x, int64_t count, enum gt_dtype dtype)
{
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			half[i] = gt_f16_of_float(x[i]);
		return;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		half[i] = gt_bf16_of_float(x[i]);
}

static void widen(float *x, const uint16_t *half, int64_t count, enum gt_dtype dtype)
{
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			x[i] = gt_float_of_f16(half[i]);
		return;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] = gt_float_of_bf16(half[i]);
}

const struct gt_range_kernels GT_ISA(
    gt_cpu_ranges) = { fill, add, squares, clip, sgd, adam, narrow, widen };
