/* evaluate.h - measure the loss and accuracy of a model on every sample of a data set. */
#ifndef GT_TRAIN_EVALUATE_H
#define GT_TRAIN_EVALUATE_H

#include "lib/base/progress.h"
#include "lib/train/session.h"

/* Batches that an evaluation reads ahead. */
enum { GT_EVALUATE_PREFETCH = 2 };

struct gt_metrics {
	/* The network computes the loss itself: `loss` is its mean over n samples, and the members
	 * for targets are 0. */
	bool only_loss;
	/* Pairs of texts, of which n were measured. `loss` is that of the training. `right` and
	 * `accuracy` count those whose better text has the higher score (lib/model/pairs.h). */
	bool pairs;
	/* mean cross-entropy in nats; numbers and labels: mean of the loss of the training, of
	 * normalized targets */
	double loss;
	double top1, top5; /* accuracies, 0 to 1 */
	double perplexity; /* exp(loss) */
	int64_t n;         /* measured targets: samples, tokens of a text, or labels of samples */
	int64_t right;     /* right top-1 predictions, or right labels */
	/* of numbers and labels, top1, top5 and perplexity are 0 */
	enum gt_sample_target target;
	/* only for labels: share of right ones, and scores of all labels together. A label is
	 * predicted if its probability is above 0.5. */
	double accuracy, precision, recall, f1;
	/* only for numbers, from the original targets: mean squared and mean absolute error */
	double mse, mae;
	/* coefficient of determination; NaN if all targets are equal */
	double r2;
	double seconds; /* duration, with the reading of data */
};

enum { GT_METRICS_TOP5 = 32 }; /* bytes */

/* Write "top-5 98.77 %" after `before` to `text`, and return `text`; "" for up to five classes.
 * `classes` 0: not known. */
const char *gt_metrics_top5(
    char text[GT_METRICS_TOP5], const char *before, const struct gt_metrics *m, int classes);

/* The model's predictions for each sample, in the order of the data set. */
struct gt_predictions {
	int64_t count;
	int top;    /* predicted classes per sample */
	int labels; /* number of labels; 0: the targets are no labels */
	/* [count] the right class, or GT_DATA_IGNORE; [count, labels] the bits of labels, floats */
	int32_t *target;
	/* [count, top] classes by descending logit, then by number; -1: a logit is NaN, and the
	 * sample counts as wrong */
	int32_t *predicted;
	/* [count, top] their probabilities, each of its own for labels; NaN if a logit is not
	 * finite */
	float *probability;
	/* Two classes: [count] the logit of class 1 minus that of class 0; else NULL */
	double *margin;
	/* Regression: [count] predicted numbers, on the scale of the original targets; else NULL.
	 * Then `predicted` and `probability` are 0, and target[i] is GT_DATA_IGNORE or the bits of
	 * the normalized target, a float. */
	double *value;
	double target_mean, target_std;
};

/* Return how many significant digits tell predicted numbers apart: 9, or more if the mean of the
 * targets is far from 0. */
int gt_predictions_digits(const struct gt_predictions *p);

/* Return a label of a sample: 1 if it holds, else 0; NaN if it is not known. */
float gt_predictions_label(const struct gt_predictions *p, int64_t sample, int label);

void gt_predictions_release(struct gt_predictions *p);

/* The sums of a batch of texts, over its targets, and their number. */
struct gt_batch_stats {
	double loss, count, top1, top5;
};

struct gt_evaluate_options {
	/* the samples in a batch of a rank, and its threads that read data */
	int batch, workers;
	bool pageable; /* read into ordinary, not pinned, memory */
	/* Classes to predict per sample; 0: none. For texts, these are the tokens that may follow,
	 * and no loss is measured. */
	int top;
	bool no_targets; /* samples need no targets */
	/* gt_evaluate_plan(): `scores` may be asked for, of samples that are no texts */
	bool plan_scores;
	/* [samples, outputs] memory for the scores that the network computes for each sample of a
	 * single rank; NULL: they are not asked for */
	float *scores;
	/* [samples] memory of zeros for the margins of pairs of texts (lib/model/pairs.h), of all
	 * ranks; NULL: they are not asked for */
	float *margins;
	/* memory for the sums of each batch of texts, in the order of the data set, of all ranks;
	 * NULL: they are not asked for */
	struct gt_batch_stats *batch_stats;
	/* shows the number of evaluated samples; NULL: nothing is shown */
	struct gt_progress *progress;
};

/* Make the programs that evaluate this rank's samples. Call gt_session_add_pair() before. */
int gt_evaluate_plan(struct gt_program_pair *pair, const struct gt_session *s,
    const struct gt_dataset *data, const struct gt_evaluate_options *options, struct gt_err *err);

/* Evaluate the whole data set, with programs of gt_evaluate_plan(). A collective call; all ranks
 * get the same bits for any number of ranks. With options->top, *each gets all predictions; release
 * it even after an error. Errors: GT_EFORMAT if no sample has a target, unless
 * `no_targets`. */
int gt_evaluate(const struct gt_session *s, struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err);

#endif
