/* task.h - published tests of language models: their files, and the scores as papers give them. */
#ifndef GT_TRAIN_TASK_H
#define GT_TRAIN_TASK_H

#include "lib/data/core/description.h"
#include "lib/train/evaluate.h"

/*
 * A task asks a language model for the log-likelihoods of continuations after their contexts. The
 * texts and scores are those of lm-evaluation-harness (EleutherAI), without examples in contexts:
 *
 *   hellaswag      one of several endings is right. acc: the share of documents in which the right
 *                  one is the likeliest; acc_norm: likeliest per character
 *   lambada        the last word of a text. acc: the share of texts whose last word a greedy choice
 *                  writes; perplexity: exp of the mean of -log-likelihood
 *   bits-per-byte  a text, or one per line of a .jsonl. bits_per_byte, byte_perplexity and
 *                  word_perplexity: -log-likelihood divided by the bytes or words of the text
 */
enum gt_task_kind { GT_TASK_NONE, GT_TASK_HELLASWAG, GT_TASK_LAMBADA, GT_TASK_BITS_PER_BYTE };

/* The names of the kinds, ended by NULL. */
extern const char *const gt_task_words[];

/* How texts become tokens. */
struct gt_task_tokens {
	const struct gt_tokenizer *tokenizer; /* borrowed */
	/* the token before a text that has no context: the one that begins texts, or else one that
	 * ends them; -1: none is known */
	int32_t first;
	int most; /* largest number of tokens that the model reads */
};

struct gt_task;

/* Read the file `path` of a task. Errors: GT_EIO, GT_EFORMAT with the line, GT_ENOMEM. */
int gt_task_open(struct gt_task **out, enum gt_task_kind kind, const char *path,
    const struct gt_task_tokens *tokens, struct gt_err *err);
void gt_task_close(struct gt_task *task);

/* Open the data set of the task, in the form that `request` describes: a sample is a continuation
 * after its context, and other tokens have no target. It borrows from the task. */
int gt_task_dataset(struct gt_dataset **out, struct gt_task *task,
    const struct gt_data_request *request, struct gt_err *err);

enum { GT_TASK_SCORES = 3 };

/* A score; `error` is the standard error of a mean, or NaN. */
struct gt_task_score {
	const char *name;
	double value, error;
};

struct gt_task_scores {
	int64_t documents;
	int count;
	struct gt_task_score scores[GT_TASK_SCORES];
};

/* Compute the scores from the statistics of the samples, in the order of the data set. */
void gt_task_measure(
    struct gt_task_scores *out, const struct gt_task *task, const struct gt_batch_stats *stats);

#endif
