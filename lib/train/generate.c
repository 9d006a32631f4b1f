/* generate.c - sampling from a language model. */
#include "lib/train/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/train/finite.h"

static int descending(const void *x, const void *y)
{
	float a = *(const float *)x, b = *(const float *)y;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* The largest value that keeps exactly k candidates (more if some are equal). */
static float threshold(const float *logits, float *scratch, int64_t n, int64_t k)
{
	if (k <= 0 || k >= n)
		return -INFINITY;
	memcpy(scratch, logits, (size_t)n * sizeof(*scratch));
	qsort(scratch, (size_t)n, sizeof(*scratch), descending);
	return scratch[k - 1];
}

static int32_t likeliest(const float *logits, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

/* One draw from softmax(logits / temperature) over those at or above the threshold. */
static int32_t draw(const float *logits, float *scratch, int64_t n,
    const struct gt_generate_options *o, int64_t position)
{
	float least = threshold(logits, scratch, n, o->top_k);
	float highest = logits[likeliest(logits, n)];
	double u = gt_philox_double(gt_philox_u64(o->seed, (uint64_t)position, GT_RNG_GENERATE, 0));
	double sum = 0, at = 0;
	int32_t last = 0;

	for (int64_t i = 0; i < n; i++) {
		scratch[i] =
		    logits[i] < least ? 0 : expf((logits[i] - highest) / (float)o->temperature);
		sum += scratch[i];
	}
	for (int64_t i = 0; i < n; i++) {
		if (scratch[i] <= 0)
			continue;
		last = (int32_t)i;
		at += scratch[i];
		if (u * sum < at)
			break;
	}
	return last;
}

static int run(struct gt_program *p, const int32_t *window, float *logits, struct gt_err *err)
{
	int rc = gt_plan_write(p->plan, p->io.input, window, p->input_bytes, err);

	if (!rc)
		rc = gt_plan_run(p->plan, err);
	return rc ? rc
	          : gt_plan_read(p->plan, p->io.logits, logits, gt_value_bytes(p->io.logits), err);
}

int gt_generate(struct gt_program *p, const int32_t *prompt, size_t prompt_count,
    const struct gt_generate_options *o, int (*emit)(void *self, int32_t id, struct gt_err *err),
    void *self, struct gt_err *err)
{
	int64_t block = p->io.input->shape[1], vocab = p->io.logits->shape[2];
	int64_t count = (int64_t)prompt_count < block ? (int64_t)prompt_count : block;
	float *logits = gt_calloc((size_t)(block * vocab), sizeof(*logits), err);
	float *scratch = gt_calloc((size_t)vocab, sizeof(*scratch), err);
	int32_t *window = gt_calloc((size_t)block, sizeof(*window), err);
	int rc = logits && scratch && window ? 0 : GT_ENOMEM;

	if (!rc && count < 1)
		rc = gt_err_set(err, GT_EINVAL, "an empty prompt");
	if (!rc)
		memcpy(window, prompt + prompt_count - count, (size_t)count * sizeof(*window));
	for (int64_t i = 0; !rc && i < o->tokens; i++) {
		const float *row = logits + (count - 1) * vocab;
		double found;
		int32_t id;

		rc = run(p, window, logits, err);
		if (!rc && !gt_all_finite_host(row, vocab, GT_F32, &found))
			rc = gt_err_set(err, GT_EDIVERGED, "the logits of token %lld hold %g",
			    (long long)i + 1, found);
		if (rc)
			break;
		id = o->temperature > 0 ? draw(row, scratch, vocab, o, i) : likeliest(row, vocab);
		rc = emit(self, id, err);
		if (count == block) {
			memmove(window, window + 1, (size_t)(block - 1) * sizeof(*window));
			count--;
		}
		window[count++] = id;
	}
	free(logits);
	free(scratch);
	free(window);
	return rc;
}
