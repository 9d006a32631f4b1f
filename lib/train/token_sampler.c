/* token_sampler.c - drawing a token from logits. */
#include "lib/train/token_sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"

void gt_sampling_init(struct gt_sampling *out)
{
	*out = (struct gt_sampling){ .temperature = 0.8, .top_p = 1 };
}

int gt_token_sampler_init(
    struct gt_token_sampler *s, int64_t vocab, const struct gt_sampling *o, struct gt_err *err)
{
	*s = (struct gt_token_sampler){ .o = *o, .vocab = vocab };
	s->weights = gt_calloc((size_t)vocab, sizeof(*s->weights), err);
	s->order = gt_calloc((size_t)vocab, sizeof(*s->order), err);
	if (s->weights && s->order)
		return 0;
	gt_token_sampler_release(s);
	return GT_ENOMEM;
}

void gt_token_sampler_release(struct gt_token_sampler *s)
{
	free(s->weights);
	free(s->order);
	*s = (struct gt_token_sampler){ 0 };
}

static int32_t likeliest(const float *logits, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

/* ---- top-k ---- */

/* Let the number at `i` of a heap whose smallest number is on top sink to its place. */
static void sink_number(float *heap, int64_t n, int64_t i)
{
	float x = heap[i];

	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= x)
			break;
		heap[i] = heap[child];
	}
	heap[i] = x;
}

/* The k-th largest of n numbers. heap [k] is scratch: it holds the k largest seen so far. */
static float kth_largest(const float *x, float *heap, int64_t n, int64_t k)
{
	memcpy(heap, x, (size_t)k * sizeof(*heap));
	for (int64_t i = k / 2; i-- > 0;)
		sink_number(heap, k, i);
	for (int64_t i = k; i < n; i++) {
		if (x[i] <= heap[0])
			continue;
		heap[0] = x[i];
		sink_number(heap, k, 0);
	}
	return heap[0];
}

/* ---- top-p ---- */

static bool likelier(const float *logits, int32_t a, int32_t b)
{
	return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* Let the token at `i` of a heap whose likeliest token is on top sink to its place. */
static void sink_token(int32_t *heap, int64_t n, int64_t i, const float *logits)
{
	int32_t x = heap[i];

	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && likelier(logits, heap[child + 1], heap[child]))
			child++;
		if (!likelier(logits, heap[child], x))
			break;
		heap[i] = heap[child];
	}
	heap[i] = x;
}

static double sum_of(const float *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

/* Set the weights beyond top-p to zero. The set that stays is small as a rule, so that a heap, from
 * which it is taken token by token, is faster than a sort. Returns the sum of the rest. */
static double keep_top_p(struct gt_token_sampler *s, const float *logits, double sum)
{
	double wanted = s->o.top_p * sum, kept = 0;
	int64_t left = 0;

	for (int64_t i = 0; i < s->vocab; i++)
		if (s->weights[i] > 0)
			s->order[left++] = (int32_t)i;
	for (int64_t i = left / 2; i-- > 0;)
		sink_token(s->order, left, i, logits);
	do {
		kept += s->weights[s->order[0]];
		s->order[0] = s->order[--left];
		sink_token(s->order, left, 0, logits);
	} while (left > 0 && kept < wanted);
	for (int64_t i = 0; i < left; i++)
		s->weights[s->order[i]] = 0;
	return sum_of(s->weights, s->vocab);
}

/* ---- the draw ---- */

/* The exponential of this and of all below is 0 in float32. */
enum { LOWEST = -200 };

/*
 * Set s->weights [vocab] to the probability of each token times a common factor. Tokens that top-k
 * or top-p exclude get 0. Return the sum of the weights. `logits` [vocab] must be finite, and the
 * temperature must be above 0.
 *
 * Top-p keeps the smallest set of most likely tokens with a total probability of at least top_p,
 * but at least one token. The total uses the probabilities after temperature and top-k. Of equally
 * likely tokens, tokens with lower ids are kept first. Source: Holtzman et al., "The curious case
 * of neural text degeneration", ICLR 2020.
 */
double gt_token_sampler_weigh(struct gt_token_sampler *s, const float *logits)
{
	bool top_k = s->o.top_k > 0 && s->o.top_k < s->vocab;
	float least = top_k ? kth_largest(logits, s->weights, s->vocab, s->o.top_k) : -INFINITY;
	float highest = logits[likeliest(logits, s->vocab)];
	double sum = 0;

	/* Logits may differ by infinity in float32, and the temperature may be 0 or infinite: 0 / 0
	 * and inf / inf are NaN. */
	for (int64_t i = 0; i < s->vocab; i++) {
		double below = ((double)logits[i] - highest) / s->o.temperature;

		s->weights[i] = logits[i] < least ? 0 : expf((float)fmax(below, LOWEST));
		sum += s->weights[i];
	}
	return s->o.top_p < 1 ? keep_top_p(s, logits, sum) : sum;
}

int32_t gt_token_sampler_draw(struct gt_token_sampler *s, const float *logits, int64_t draw)
{
	double u = gt_philox_double(gt_philox_u64(s->o.seed, (uint64_t)draw, GT_RNG_GENERATE, 0));
	double sum, at = 0;
	int32_t last = 0;

	if (!(s->o.temperature > 0))
		return likeliest(logits, s->vocab);
	sum = gt_token_sampler_weigh(s, logits);
	for (int64_t i = 0; i < s->vocab; i++) {
		if (s->weights[i] <= 0)
			continue;
		last = (int32_t)i;
		at += s->weights[i];
		if (u * sum < at)
			break;
	}
	return last;
}
