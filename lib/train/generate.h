/* generate.h - text from a language model, one token after the other. */
#ifndef GT_TRAIN_GENERATE_H
#define GT_TRAIN_GENERATE_H

#include "lib/train/session.h"
#include "lib/train/token_sampler.h"

enum { GT_GENERATE_END = 1 };

struct gt_generator_options {
	const int32_t *prompt; /* [prompt_count], at least one id */
	size_t prompt_count;
	int64_t tokens; /* to write at most */
};

/*
 * A text that grows, and the programs that tell the logits of its next token. As long as the text
 * fits into `block`, the first program reads the prompt, and another one token at a time, whose
 * layers find the keys and values of earlier positions in the store's caches. A longer text is seen
 * through a window of its last `block` tokens. Positions are learned and count from the window's
 * beginning, so every token has another position than before, and other keys and values: the whole
 * window is computed anew for each token.
 */
struct gt_generator {
	struct gt_program first, next, window; /* without a plan where no text gets there */
	int64_t block, vocab;
	int32_t *text; /* [block]: the last tokens */
	int64_t count; /* of them */
	int64_t past;  /* positions in the caches: those of the first tokens of text */
};

/*
 * Make the programs of a session that opens, whose input are tokens and whose block is the most
 * that the model may see; lay out their caches in its store. The programs are the session's from
 * then on, and *out stays where it is until the session is closed. Release it after that, in any
 * case.
 */
int gt_generator_init(struct gt_generator *out, struct gt_session *s,
    const struct gt_generator_options *options, struct gt_err *err);
void gt_generator_release(struct gt_generator *g);

/* For gt_session_purpose.try_others: plan shorter texts, and the same one on the CPU. */
void gt_generator_try_others(const struct gt_session *s, const struct gt_generator_options *options,
    struct gt_trials *trials);

/* The logits [g->vocab] of the token that follows the text so far; once for each text. */
int gt_generator_logits(struct gt_generator *g, float *logits, struct gt_err *err);

/* Let the text go on with this token. */
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
