/* generate.h - text from a language model, one token after the other. */
#ifndef GT_TRAIN_GENERATE_H
#define GT_TRAIN_GENERATE_H

#include "lib/train/session.h"
#include "lib/train/token_sampler.h"

enum { GT_GENERATE_END = 1 };

struct gt_generator_options {
	const int32_t *prompt; /* [prompt_count], at least one id */
	size_t prompt_count;
	int64_t tokens; /* largest number of tokens to write */
};

/*
 * A growing text, and the programs that compute the logits of its next token. While the text fits
 * into `block`, the program `first` reads the prompt, and `next` reads one token at a time; its
 * layers read the keys and values of earlier positions from the store's caches. For a longer text,
 * `window` reads the last `block` tokens. Positions are learned and count from the window's
 * beginning, so with each new token all positions change, and all keys and values with them: the
 * whole window is computed again for each token.
 */
struct gt_generator {
	struct gt_program first, next, window; /* a program has no plan if no text reaches it */
	int64_t block, vocab;
	int32_t *text; /* [block]: the last tokens */
	int64_t count; /* tokens in text */
	int64_t past;  /* positions in the caches, which hold the first `past` tokens of text */
};

/*
 * Make the programs of a session that is being opened, and lay out their caches in its store. The
 * session's input is tokens, and its block is the largest number of tokens that the model may read.
 * The session owns the programs, and *out must not move until the session is closed. Release it
 * afterwards, in any case.
 */
int gt_generator_init(struct gt_generator *out, struct gt_session *s,
    const struct gt_generator_options *options, struct gt_err *err);
void gt_generator_release(struct gt_generator *g);

/* For gt_session_purpose.try_others: plan shorter texts, and a text of the same length on the
 * CPU. */
void gt_generator_try_others(const struct gt_session *s, const struct gt_generator_options *options,
    struct gt_trials *trials);

/* Compute the logits [g->vocab] of the next token. Call this once for each state of the text. */
int gt_generator_logits(struct gt_generator *g, float *logits, struct gt_err *err);

/* Append this token to the text. */
void gt_generator_append(struct gt_generator *g, int32_t id);

/*
 * Write `tokens` more tokens: each is drawn as lib/train/token_sampler.h says, token i by draw i,
 * and handed to `emit`, which may fail, or return GT_GENERATE_END: the text ends before this token.
 * The text is the same on every machine that computes the same logits.
 *
 * Errors: GT_EDIVERGED, with the number of the token, when a logit is NaN or infinite.
 */
int gt_generate(struct gt_generator *g, int64_t tokens, const struct gt_sampling *sampling,
    int (*emit)(void *self, int32_t id, struct gt_err *err), void *self, struct gt_err *err);

#endif
