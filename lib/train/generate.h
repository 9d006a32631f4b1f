/* generate.h - text from a language model, one token after the other. */
#ifndef GT_TRAIN_GENERATE_H
#define GT_TRAIN_GENERATE_H

#include "lib/train/program.h"

struct gt_generate_options {
	int64_t tokens;     /* to write */
	double temperature; /* 0: always the likeliest */
	int64_t top_k;      /* draw among so many; 0: all */
	uint64_t seed;
};

/*
 * Go on from prompt [prompt_count] ids, at least one: each new token is drawn from softmax(logits /
 * temperature) over the top k and handed to `emit`, which may fail. The program (GT_MODEL_GENERATE,
 * batch 1, bound) sees the last `block` tokens. The draw of token i is Philox (seed,
 * GT_RNG_GENERATE, i): the same text on every machine that computes the same logits.
 *
 * Errors: GT_EDIVERGED, with the number of the token, when a logit is NaN or infinite.
 */
int gt_generate(struct gt_program *p, const int32_t *prompt, size_t prompt_count,
    const struct gt_generate_options *options,
    int (*emit)(void *self, int32_t id, struct gt_err *err), void *self, struct gt_err *err);

#endif
