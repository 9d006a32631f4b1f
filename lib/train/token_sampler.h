/* token_sampler.h - draw a token at random, with the probabilities that logits give. */
#ifndef GT_TRAIN_TOKEN_SAMPLER_H
#define GT_TRAIN_TOKEN_SAMPLER_H

#include <stdint.h>

#include "lib/base/err.h"

/* The settings for drawing tokens. Temperature, top-k and top-p are applied in this order, as in
 * Hugging Face's transformers. */
struct gt_sampling {
	double temperature; /* divides the logits; 0: always take the most likely token */
	/* Draw only from the top_k most likely tokens. If further tokens have the same probability
	 * as the last of these tokens, draw from them, too. 0: draw from all tokens. */
	int64_t top_k;
	/* Draw only from the smallest set of most likely tokens with a total probability of at
	 * least top_p. 1: draw from all tokens. */
	double top_p;
	uint64_t seed;
};

/* Set all fields to the defaults of `gtrain generate`. */
void gt_sampling_init(struct gt_sampling *out);

/* A sampler of tokens, with the memory that draws need. Only gt_token_sampler_init() allocates. */
struct gt_token_sampler {
	struct gt_sampling o; /* the settings */
	int64_t vocab;        /* number of tokens in the vocabulary */
	/* [vocab] probability of each token times a common factor (gt_token_sampler_weigh()) */
	float *weights;
	int32_t *order; /* [vocab], scratch memory for top-p */
};

int gt_token_sampler_init(
    struct gt_token_sampler *s, int64_t vocab, const struct gt_sampling *o, struct gt_err *err);
void gt_token_sampler_release(struct gt_token_sampler *s);

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
double gt_token_sampler_weigh(struct gt_token_sampler *s, const float *logits);

/* Draw a token and return its id. The random number is computed by Philox from the seed,
 * GT_RNG_GENERATE (lib/base/philox.h) and `draw`. So the same `draw` and logits give the same
 * token. `logits` [vocab] must be finite. */
int32_t gt_token_sampler_draw(struct gt_token_sampler *s, const float *logits, int64_t draw);

#endif
