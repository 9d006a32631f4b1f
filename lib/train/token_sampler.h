/* token_sampler.h - drawing a token from logits. */
#ifndef GT_TRAIN_TOKEN_SAMPLER_H
#define GT_TRAIN_TOKEN_SAMPLER_H

#include <stdint.h>

#include "lib/base/err.h"

/* The settings of a draw. They are applied in the order of the fields, as in Hugging Face's
 * transformers. */
struct gt_sampling {
	double temperature; /* divides the logits; 0: always the likeliest token */
	/* draw only from the top_k most likely tokens; tokens as likely as the last of them count,
	 * too; 0: draw from all tokens */
	int64_t top_k;
	/* draw only from the smallest set of most likely tokens whose probabilities add up to this;
	 * 1: draw from all tokens */
	double top_p;
	uint64_t seed;
};

/* Set the defaults of `gtrain generate`. */
void gt_sampling_init(struct gt_sampling *out);

/* Draws tokens of a vocabulary; allocates nothing after gt_token_sampler_init(). */
struct gt_token_sampler {
	struct gt_sampling o;
	int64_t vocab;
	float *weights; /* [vocab] */
	int32_t *order; /* [vocab] */
};

int gt_token_sampler_init(
    struct gt_token_sampler *s, int64_t vocab, const struct gt_sampling *o, struct gt_err *err);
void gt_token_sampler_release(struct gt_token_sampler *s);

/*
 * Set s->weights to the probability of each token in a draw, times a common factor; 0 for tokens
 * that are left out. logits [vocab] are finite, the temperature is above 0. Returns the sum.
 *
 * Top-p keeps the smallest set of likeliest tokens whose probabilities, after temperature and
 * top-k, add up to top_p or more; at least one. If tokens are equally likely, the first ones are
 * preferred. Source: Holtzman et al., "The curious case of neural text degeneration", ICLR 2020.
 */
double gt_token_sampler_weigh(struct gt_token_sampler *s, const float *logits);

/* The token that draw number `draw` takes, by Philox (seed, GT_RNG_GENERATE, draw). */
int32_t gt_token_sampler_draw(struct gt_token_sampler *s, const float *logits, int64_t draw);

#endif
