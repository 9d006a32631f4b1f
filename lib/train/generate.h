/* generate.h - generate text with a language model, one token after the other. */
#ifndef GT_TRAIN_GENERATE_H
#define GT_TRAIN_GENERATE_H

#include "lib/train/session.h"
#include "lib/train/token_sampler.h"

enum { GT_GENERATE_END = 1 }; /* `emit` of gt_generate() returns this to end the text */

struct gt_generator_options {
	const int32_t *prompt; /* [prompt_count] token ids, at least one */
	size_t prompt_count;
	int64_t tokens; /* largest number of tokens to generate after the prompt */
	bool mixed;     /* compute in the session's precision, not in float32 */
	/* for gt_generator_rewrite(): prompt and tokens are not known yet. Texts are shorter than
	 * the block, and the model must have caches. */
	bool open;
};

/*
 * A growing text, and the programs (program.h) that compute the logits of its next token. The model
 * reads at most `block` tokens.
 *
 * A prompt of 2 to `block` - 1 tokens is read by the program `first`. Then the program `next` reads
 * one token at a time, until the text has `block` tokens. A prompt of one token is read by `next`,
 * too. The attention layers of these two programs read the keys and values of earlier tokens from
 * caches in the session's store (lib/store/store.h).
 *
 * If the prompt has `block` tokens or more, or when the text has become longer than `block` tokens,
 * the program `window` reads the last `block` tokens: the window. The positions of tokens count
 * from the beginning of the window. Each new token shifts the positions of all other tokens, which
 * changes all keys and values. Therefore `window` uses no caches, and computes all `block` tokens
 * again for each new token.
 *
 * For a text that is rewritten (gt_generator_options.open), `first` reads a chunk of tokens, as
 * long as so many are left to read, and `next` the others. There is no window.
 *
 * A model without caches (gt_model_caches()) has the program `window` alone, which then also reads
 * shorter texts, with other tokens behind them: the model must be causal.
 */
struct gt_generator {
	/* If a program is not needed for the text, its plan is NULL. */
	struct gt_program first, next, window;
	int64_t block, vocab; /* block: tokens in a window; vocab: tokens in the vocabulary */
	int32_t *text;        /* [block], the last `count` tokens of the text */
	int64_t count;        /* tokens in `text` */
	int64_t past; /* the caches hold keys and values of the first `past` tokens of `text` */
	struct gt_group *ranks; /* those that share each layer, and generate the text together */
};

/*
 * Make the programs, and lay out their caches in the session's store. Call this in
 * gt_session_purpose.plan(). The session's input must be tokens; out->block is set to
 * s->input.form.block. The session releases the programs. *out must not move until the session is
 * closed. After the session is closed, call gt_generator_release(), even if gt_generator_init()
 * failed. Errors: GT_EINVAL if the prompt is empty; any error of gt_program_init().
 */
int gt_generator_init(struct gt_generator *out, struct gt_session *s,
    const struct gt_generator_options *options, struct gt_err *err);
void gt_generator_release(struct gt_generator *g);

/* Begin another text with a prompt of as many tokens as that of gt_generator_init(). */
void gt_generator_restart(struct gt_generator *g, const int32_t *prompt, size_t prompt_count);

/* Replace the text by ids[count], 0 < count < g->block. The caches are kept as far as both texts
 * begin with the same tokens. For gt_generator_options.open. */
void gt_generator_rewrite(struct gt_generator *g, const int32_t *ids, size_t count);

/* For a session that does not fit into memory: make plans for shorter texts, and for the same text
 * on the CPU. Add a trial to `trials` for each plan: the words that name its options
 * (gt_trial_words()), and the memory that the plan needs. Call this in
 * gt_session_purpose.try_others() of a session for generation. */
void gt_generator_try_others(const struct gt_session *s, const struct gt_generator_options *options,
    struct gt_trials *trials);

/* Compute the logits of the next token: logits[g->vocab], in host memory. Call this once before
 * each gt_generator_append(). A collective call of the ranks that share layers. */
int gt_generator_logits(struct gt_generator *g, float *logits, struct gt_err *err);

/* Append the token `id` to the text. */
void gt_generator_append(struct gt_generator *g, int32_t id);

/*
 * Generate up to `tokens` tokens. Token i, from 0 on, is drawn by gt_token_sampler_draw() with the
 * argument `draw` = i, and passed to `emit`; `self` is the first argument of `emit`. If `emit`
 * returns GT_GENERATE_END, the text ends before this token; any other value except 0 is an error.
 * The text is the same on all machines that compute the same logits. Ranks that share layers call
 * this together, with the same arguments, and all get the tokens that rank 0 draws.
 *
 * Errors: GT_EDIVERGED if a logit is NaN or infinite; the error message has the number of the
 * token, from 1 on. Errors of `emit` are returned.
 */
int gt_generate(struct gt_generator *g, int64_t tokens, const struct gt_sampling *sampling,
    int (*emit)(void *self, int32_t id, struct gt_err *err), void *self, struct gt_err *err);

#endif
