/* eval.h - evaluate a checkpoint on a data set, or compute predictions for given inputs. */
#ifndef GT_TRAIN_EVAL_H
#define GT_TRAIN_EVAL_H

#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/train/evaluate.h"
#include "lib/train/task.h"

/* The options of an evaluation. Strings are borrowed until gt_eval_close(). */
struct gt_eval_options {
	/* ckpt: path of a checkpoint file or folder, or of a run directory. data: the spec
	 * KIND:PATH... of the data (lib/data/core/data.h) */
	const char *ckpt, *data;
	const char *model; /* NULL: the model of the run that wrote the checkpoint */
	/* path of the vocabulary (gt_tokenizer_open()); NULL: the vocabulary of the run that wrote
	 * the checkpoint */
	const char *vocab;
	struct gt_load_options load; /* how to load the weights */
	/* folder with an adapter for the weights (gt_adapter_open()); NULL: none, or that of the
	 * checkpoint */
	const char *lora;

	/* Paths of files with inputs that have no targets (gt_data_request.inputs). They are read
	 * instead of `data`. Their kind, images, csv or text, is that of the training data; if this
	 * is not known, it is the kind that the model takes. NULL: evaluate `data`. */
	char *const *inputs;
	int input_count;
	/* Settings for reading the inputs: key=value,... The keys are size, resize, crop,
	 * interpolation, reduce, channels, norm, mean and std for images, and sep, decimal, header
	 * and standardise for csv. NULL: no settings. */
	const char *settings;

	/* A published test: `data` is the path of its file. GT_TASK_NONE: `data` is a spec. */
	enum gt_task_kind task;

	struct gt_where where;          /* the ranks that evaluate together, and their devices */
	struct gt_evaluate_options how; /* batch size, number of predictions */
	int tensor;                     /* ranks that share each layer */
	enum gt_amp amp;                /* mixed precision */
	bool tf32;        /* round float32 factors of matrix products and convolutions to TF32 */
	bool strict_data; /* a damaged image in the data or inputs is an error */
};

/* Check that the checkpoint exists, that its model is known, that the rules in load.map for names
 * of weights are valid, that this build supports the devices, and that `ranks` ranks can evaluate
 * together. The process that starts the ranks calls this before it starts them. Errors: any error
 * of gt_eval_open(). */
int gt_eval_check(const struct gt_eval_options *options, int ranks, struct gt_err *err);

/*
 * Check that writing the file `path` would not change a file that the evaluation reads: the
 * checkpoint and its shards, a file of its run directory, the data, the vocabulary, the tokenizer,
 * or a folder that options->model names. `path` must not be in a folder of data, of a tokenizer, or
 * of another program's checkpoint or model; it may be in a run directory. The file `path` need not
 * exist. options->inputs are not checked. Errors: GT_EINVAL; any error of opening the checkpoint.
 */
int gt_eval_check_output(
    const struct gt_eval_options *options, const char *path, struct gt_err *err);

struct gt_eval;

/*
 * Open the checkpoint, the data and the model, allocate memory, and load the weights. Rank 0 logs
 * notes about the checkpoint and the data. Rank 0 also logs a warning if the network differs
 * from training, or if the scale of the inputs (mean and standard deviation) or the vocabulary
 * differs or is not known. Such a difference changes the results. A collective call. *out is NULL
 * on failure.
 */
int gt_eval_open(struct gt_eval **out, const struct gt_eval_options *options, struct gt_log *log,
    struct gt_err *err);
void gt_eval_close(struct gt_eval *e); /* NULL is fine */

/* Return the description of the data that is evaluated; borrowed. */
const struct gt_data_info *gt_eval_data(const struct gt_eval *e);

/* Return the scores of the task, borrowed. Call this after gt_eval_run(). */
const struct gt_task_scores *gt_eval_task_scores(const struct gt_eval *e);

/* Return the predictions for all samples; borrowed. Call this after gt_eval_run(). If
 * options.how.top is 0, the struct is zeroed. */
const struct gt_predictions *gt_eval_predictions(const struct gt_eval *e);

/* Return the name of the class with the number `class`, borrowed. If classes have no names, write
 * the number to the buffer `number` and return this buffer. */
const char *gt_eval_class_name(const struct gt_eval *e, int class, char number[16]);

/* Regression: set *number to the original target of a sample, as the data file has it. Return false
 * if only the normalized target in gt_predictions.target is known (gt_dataset_number()). */
bool gt_eval_number(const struct gt_eval *e, int64_t sample, double *number);

/* Return the name of a sample, borrowed. NULL: samples have no names, only numbers. */
const char *gt_eval_sample_name(const struct gt_eval *e, int64_t sample);

/* Return the number of damaged samples, which are not evaluated. Call this after gt_eval_run(). */
int64_t gt_eval_damaged(const struct gt_eval *e);

/* Return whether this sample is damaged. Call this after gt_eval_run(). */
bool gt_eval_is_damaged(const struct gt_eval *e, int64_t sample);

enum { GT_EVAL_TOKEN = 1024 }; /* bytes */

/* Write the text of token `id` to `text` and return `text`. Zero bytes and bytes that are not UTF-8
 * become \xNN; other control characters are kept. If the token has no text, write its id. A text
 * that is too long is cut. */
const char *gt_eval_token_name(const struct gt_eval *e, int id, char text[GT_EVAL_TOKEN]);

/* Call gt_evaluate() for the data or the inputs. A collective call. The results do not depend on
 * the number of ranks. If `inputs` are read, rank 0 logs a warning for each damaged input, but not
 * more than GT_DAMAGE_TEXTS warnings (lib/data/core/damage.h). If `data` is evaluated, rank 0 logs
 * a warning for each of the first GT_DAMAGE_NAMES damaged samples, and the number of all damaged
 * samples. */
int gt_eval_run(struct gt_eval *e, struct gt_metrics *out, struct gt_err *err);

#endif
