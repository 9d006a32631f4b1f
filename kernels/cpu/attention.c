/* attention.c - self-attention and its gradient, a tile of rows at a time. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/vmath.h"
#include "lib/base/mem.h"
#include "lib/base/philox.h"

/*
 * One (sample, head) is one piece of work for one thread, in the gradient all heads that share keys
 * and values, so results don't depend on how many threads there are. Its q, k and v are copied out
 * of qkv into packed, zero-padded matrices in the thread's workspace; then a few rows of the score
 * matrix at a time are made, used and forgotten: never T x T numbers. All the arithmetic is in one
 * routine, multiply() of panels.inc, which the causal bound is given to per block of ROWS rows. The
 * body is instantiated for float and for double.
 */
enum {
	ROWS = GT_PANEL_ROWS,
	TILE = 32, /* rows whose scores the gradient keeps for one update of dk and dv */
};

/* Sizes of a call. Dp, Tp and Tr are D and T padded to vectors, to panels of vectors and to blocks
 * of rows. */
struct sizes {
	int64_t B, T, heads, D;
	int64_t kv_heads, group; /* heads of keys and values; of queries for each of them */
	int64_t wide;            /* columns of qkv */
	int64_t Dp, Tp, Tr;
	int64_t panel; /* elements of a panel */
	double scale;  /* factor of scores: 1 / sqrt(D) */
	bool full;     /* queries see the keys behind them */
};

static struct sizes attention_sizes(const struct gt_call *call, const struct gt_tensor *qkv)
{
	int64_t lanes = GT_VECTOR_BYTES / (int64_t)gt_dtype_size(qkv->dtype);
	struct sizes s = { .B = qkv->shape[0], .T = qkv->shape[1] };

	s.heads = call->attrs.attention.heads;
	s.kv_heads = gt_attrs_kv_heads(&call->attrs);
	s.group = s.heads / s.kv_heads;
	s.wide = qkv->shape[2];
	s.D = s.wide / (s.heads + 2 * s.kv_heads);
	s.full = call->attrs.attention.full;
	s.scale = 1 / sqrt((double)s.D);
	s.panel = lanes * GT_PANEL_VECTORS;
	s.Dp = gt_round_up(s.D, lanes);
	s.Tr = gt_round_up(s.T, ROWS);
	s.Tp = gt_round_up(s.Tr, s.panel);
	return s;
}

/* Keys that query i sees: those before this one. */
static int64_t seen_by(const struct sizes *s, int64_t i)
{
	return s->full ? s->T : i + 1;
}

/* The first key that query i sees: that of its document. `positions` are the places of a row's
 * tokens in their documents, or NULL; wrong ones reach at most to the beginning of the row. */
static int64_t first_of(const int32_t *positions, int64_t i)
{
	int64_t back = positions ? positions[i] : i;

	return back < 0 ? i : back > i ? 0 : i - back;
}

/* The first key that the queries [i, end) need, at the beginning of a panel and of a block of
 * rows. */
static int64_t first_of_rows(
    const struct sizes *s, const int32_t *positions, int64_t i, int64_t end)
{
	int64_t first = i, step = s->panel > ROWS ? s->panel : ROWS;

	for (; positions && i < end && i < s->T; i++)
		first = first_of(positions, i) < first ? first_of(positions, i) : first;
	return positions ? first / step * step : 0;
}

/* ---- dropout of probabilities ---- */

/* The draws of a call: element (b, head, i, j) is (first + b * stride) * heads * T * T + (head * T
 * + i) * T + j, heads counted in the whole layer, of which these may be a shard. */
struct draw {
	bool on;
	uint64_t seed;
	int64_t first, stride;
	uint32_t stream, step;
	uint32_t
	    threshold;     /* dropped: the upper 24 bits below it, which is gt_philox_float() < p */
	double scale;      /* factor of the elements kept */
	int64_t all, head; /* heads of a sample; where the first of these is among them */
};

static struct draw draw_of(const struct gt_call *call, const struct gt_tensor *rng)
{
	double p = call->attrs.attention.p;
	struct draw d = { .on = rng->present && p > 0 };
	const int64_t *fields;

	if (!d.on)
		return d;
	fields = rng->data;
	d.seed = (uint64_t)fields[GT_RNG_SEED];
	d.step = (uint32_t)fields[GT_RNG_STEP];
	d.first = fields[GT_RNG_FIRST];
	d.stride = fields[GT_RNG_STRIDE];
	d.stream = call->attrs.attention.stream;
	d.all = call->attrs.attention.all_heads ? call->attrs.attention.all_heads
	                                        : call->attrs.attention.heads;
	d.head = call->attrs.attention.first_head;
	d.threshold = (uint32_t)ceil(p * 0x1p24);
	d.scale = 1 / (1 - p);
	return d;
}

/* Number of words that draw_row() needs for rows of T. */
static int64_t draw_words(int64_t T)
{
	return gt_round_up(T + 3, 64) + 64;
}

/* The words of elements [c, c + n): returns a pointer into words[draw_words(n)], of which it fills
 * the blocks that hold them, 16 blocks at a time. */
static const uint32_t *draw_row(const struct draw *d, uint64_t c, int64_t n, uint32_t *words)
{
	enum { BLOCKS = 16 };
	uint64_t first = c / 4, last = (c + (uint64_t)n - 1) / 4, seed = d->seed;
	const uint32_t stream = d->stream, step = d->step;

	for (uint64_t block = first; block <= last; block += BLOCKS) {
		uint32_t *to = words + (block - first) * 4;

		for (uint32_t i = 0; i < BLOCKS; i++) {
			const uint32_t counter[4] = { (uint32_t)(block + i),
				(uint32_t)((block + i) >> 32), stream, step };
			uint32_t out[4];

			gt_philox(seed, counter, out);
			to[4 * i] = out[0];
			to[4 * i + 1] = out[1];
			to[4 * i + 2] = out[2];
			to[4 * i + 3] = out[3];
		}
	}
	return words + c % 4;
}

static uint64_t draw_element(
    const struct draw *d, const struct sizes *s, int64_t b, int64_t head, int64_t i)
{
	uint64_t sample = (uint64_t)(d->first + b * d->stride);

	return (sample * (uint64_t)d->all + (uint64_t)(d->head + head)) * (uint64_t)(s->T * s->T) +
	       (uint64_t)(i * s->T);
}

/*
 * e^x of x <= 0, NaN for NaN: gt_vexp() without the steps that only other x need. Probabilities
 * that would be subnormal are zero: they change no sum, and slow the products down.
 */
static inline float exp_negative(float x)
{
	int32_t n;
	float e = 1.0f + gt_vexp_reduce(x < -87.0f ? -87.0f : x, &n);

	e *= gt_float_of((int32_t)((uint32_t)(n + 127) << 23));
	return x < -87.0f ? 0.0f : e;
}

/* ---- the two instances ---- */

#define REAL       float
#define INTEGER    int32_t
#define NAME(name) name##_f32
#define EXP(x)     exp_negative(x)
#define LOG(x)     gt_vlog(x)
#include "kernels/cpu/attention.inc"
#undef REAL
#undef INTEGER
#undef NAME
#undef EXP
#undef LOG

#define REAL       double
#define INTEGER    int64_t
#define NAME(name) name##_f64
#define EXP(x)     exp(x)
#define LOG(x)     log(x)
#include "kernels/cpu/attention.inc"

const struct gt_kernel GT_ISA(gt_cpu_attention_kernels)[] = {
	{ "attention", GT_F32, .prepare = forward_prepare_f32, .run = forward_run_f32 },
	{ "attention_grad", GT_F32, .prepare = gradient_prepare_f32, .run = gradient_run_f32 },
	{ "attention", GT_F64, .prepare = forward_prepare_f64, .run = forward_run_f64 },
	{ "attention_grad", GT_F64, .prepare = gradient_prepare_f64, .run = gradient_run_f64 },
	{ 0 },
};
