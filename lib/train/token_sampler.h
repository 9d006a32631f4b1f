/* token_sampler.h - draw a token at random, with the probabilities that logits give. */
#ifndef GT_TRAIN_TOKEN_SAMPLER_H
#define GT_TRAIN_TOKEN_SAMPLER_H

#include <stdint.h>

#include "lib/base/err.h"

/* How to draw tokens: temperature, top-k and top-p are applied in this order, as in
 * transformers. */
struct gt_sampling {
	double temperature; /* divides the logits; 0: take the most likely token */
	/* draw from the top_k most likely tokens, and those as likely as the last one; 0: all */
	int64_t top_k;
	/* draw from the fewest most likely tokens with a total probability of top_p; 1: all */
	double top_p;
	uint64_t seed;
};

/* Set the defaults of `gtrain generate`. */
void gt_sampling_init(struct gt_sampling *out);

/* A sampler; only gt_token_sampler_init() allocates. */
struct gt_token_sampler {
	struct gt_sampling o;
	int64_t vocab;
	/* [vocab] gt_token_sampler_weigh() */
	float *weights;
	int32_t *order; /* [vocab] scratch memory for top-p */
};

int gt_token_sampler_init(
    struct gt_token_sampler *s, int64_t vocab, const struct gt_sampling *o, struct gt_err *err);
void gt_token_sampler_release(struct gt_token_sampler *s);

/* Set s->weights [vocab] to the probabilities times a common factor, 0 for excluded tokens, and
 * return their sum. `logits` [vocab] are finite, and the temperature is above 0. */
double gt_token_sampler_weigh(struct gt_token_sampler *s, const float *logits);

/* Return a random token, which depends only on the seed, `draw` and logits [vocab], which are
 * finite (Philox with GT_RNG_GENERATE). */
int32_t gt_token_sampler_draw(struct gt_token_sampler *s, const float *logits, int64_t draw);

#endif
