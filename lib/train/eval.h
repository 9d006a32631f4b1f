/* eval.h - evaluate a checkpoint on a data set, or predict from inputs, on one or several ranks. */
#ifndef GT_TRAIN_EVAL_H
#define GT_TRAIN_EVAL_H

#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/train/evaluate.h"

/* The options of an evaluation. Strings are borrowed until gt_eval_close(). */
struct gt_eval_options {
	/* ckpt: a checkpoint file or a run directory; data: KIND:PATH... */
	const char *ckpt, *data;
	const char *model; /* NULL: the model of the run of ckpt */
	const char *vocab; /* gt_tokenizer_open(); NULL: the one of the run of ckpt */
	struct gt_load_options load;

	/* In place of data: inputs without classes, as struct gt_data_request has them, of the kind
	 * that the model reads; NULL: none. */
	char *const *inputs;
	int input_count;
	/* settings for reading the inputs: key=value,... as for `images`; NULL: none */
	const char *settings;

	const char *device; /* a list (lib/device/name.h); NULL is "cpu" */
	struct gt_evaluate_options how;
	bool tf32;        /* round factors of float32 to TF32 */
	bool strict_data; /* gt_data_request.strict */

	/* The ranks that evaluate together, each calling the same functions with the same options.
	 * NULL: one rank. */
	struct gt_group *group;
	int host_ranks;  /* ranks that share this host's memory; 0: all */
	int host_rank;   /* number of this rank among them; it selects the rank's device */
	const char *way; /* way of device collectives, as in struct gt_parallel_options */
};

/* Set all options to the defaults of `gtrain eval`. The caller then sets ckpt and data. */
void gt_eval_options_init(struct gt_eval_options *out);

/* For programs that start ranks: check first that the checkpoint exists, that its model is known,
 * and that this build supports the device. Errors: those of gt_eval_open(). */
int gt_eval_check(const struct gt_eval_options *options, struct gt_err *err);

struct gt_eval;

/*
 * Open checkpoint, data and model, allocate memory and load the weights. Rank 0 logs notes about
 * the checkpoint and the data, and warns if they cause results to differ from those of training. A
 * collective call. *out is NULL on failure.
 */
int gt_eval_open(struct gt_eval **out, const struct gt_eval_options *options, struct gt_log *log,
    struct gt_err *err);
void gt_eval_close(struct gt_eval *e); /* NULL is fine */

/* Return the description of the data that is evaluated; borrowed. */
const struct gt_data_info *gt_eval_data(const struct gt_eval *e);

/* With options.how.top, after gt_eval_run(): the answer to each sample; borrowed. */
const struct gt_predictions *gt_eval_predictions(const struct gt_eval *e);

/* The borrowed name of a class; a class without a name has its number, which is written to
 * `number`. The borrowed name of a sample; NULL if the sample has only a number. */
const char *gt_eval_class_name(const struct gt_eval *e, int class, char number[16]);
const char *gt_eval_sample_name(const struct gt_eval *e, int64_t sample);

/* After gt_eval_run(): the number of samples that were damaged and left out; and whether sample i
 * was one of them. */
int64_t gt_eval_damaged(const struct gt_eval *e);
bool gt_eval_is_damaged(const struct gt_eval *e, int64_t sample);

/* The text of token `id`. Control characters are kept; zeros and bytes that are not UTF-8 become
 * \xNN. If the token has no text, it is its number. */
enum { GT_EVAL_TOKEN = 1024 };
const char *gt_eval_token_name(const struct gt_eval *e, int id, char text[GT_EVAL_TOKEN]);

/* gt_evaluate(): a collective call, whose numbers do not depend on the number of ranks. Rank 0 logs
 * damaged samples: all inputs, else the first ones and their number. */
int gt_eval_run(struct gt_eval *e, struct gt_metrics *out, struct gt_err *err);

#endif
