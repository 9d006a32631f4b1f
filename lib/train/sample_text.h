/* sample_text.h - private: a text that a language model writes at each evaluation in training. */
#ifndef GT_TRAIN_SAMPLE_TEXT_H
#define GT_TRAIN_SAMPLE_TEXT_H

#include "lib/base/buf.h"
#include "lib/train/generate.h"

/* The model continues the first tokens of the validation text. A zeroed struct is none. */
struct gt_sample_text {
	struct gt_generator generator;
	int32_t *prompt;      /* [prompt_count] */
	size_t prompt_count;  /* 0: no text is written */
	int64_t tokens;       /* tokens to write */
	const char *left_out; /* why there is none, though it was asked for; or NULL */
};

struct gt_train;

/* Make the programs, in gt_train_plan(), on every rank, as all ranks need the same planes. */
int gt_sample_text_plan(struct gt_sample_text *out, struct gt_train *t, struct gt_err *err);

/* Free the prompt, after gt_session_close(). */
void gt_sample_text_release(struct gt_sample_text *s);

/* Write a text with the present weights, on one rank. The prompt is its first *prompt_bytes
 * bytes. */
int gt_sample_text_write(struct gt_buf *out, size_t *prompt_bytes, struct gt_sample_text *s,
    const struct gt_dataset *data, uint64_t seed, struct gt_err *err);

#endif
