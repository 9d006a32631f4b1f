/* evaluate.h - measure the loss and accuracy of a model on every sample of a data set. */
#ifndef GT_TRAIN_EVALUATE_H
#define GT_TRAIN_EVALUATE_H

#include "lib/base/progress.h"
#include "lib/train/session.h"

struct gt_metrics {
	/* mean cross-entropy in nats; for regression: mean squared error of normalized targets */
	double loss;
	double top1, top5; /* top-1 and top-5 accuracy, 0 to 1 */
	double perplexity; /* exp(loss) */
	int64_t n;         /* number of measured targets: samples, or tokens of a text */
	int64_t right;     /* number of right top-1 predictions: `top1 * n` */
	/* true: the model predicts a number (regression), so top1, top5, `right` and `perplexity`
	 * are 0 */
	bool regression;
	/* mse, mae and r2 are set only for regression. They are computed from the original targets,
	 * not from the normalized ones. mse: mean squared error; mae: mean absolute error */
	double mse, mae;
	/* coefficient of determination: 1 - (sum of squared errors) / (sum of squared deviations of
	 * targets from their mean); NaN if all targets are equal */
	double r2;
	double seconds; /* duration of the evaluation, including the reading of data */
};

enum { GT_METRICS_TOP5 = 32 }; /* bytes */

/* Write "top-5 98.77 %" after `before` to `text`, and return `text`. With up to five classes the
 * top-5 accuracy is always 100 %, so the text is then empty. `classes` is 0 if it is not known. */
const char *gt_metrics_top5(
    char text[GT_METRICS_TOP5], const char *before, const struct gt_metrics *m, int classes);

/* The model's predictions for each sample of a data set, in the order of the data set. */
struct gt_predictions {
	int64_t count;   /* number of samples */
	int top;         /* number of predicted classes per sample */
	int32_t *target; /* [count] the right class, or GT_DATA_IGNORE */
	/* [count, top] the classes with the largest logits, in descending order of logits; of two
	 * classes with equal logits, the one with the lower number comes first. -1 if a logit of
	 * the sample is NaN: no class is predicted, and the sample counts as wrong. */
	int32_t *predicted;
	/* [count, top] the probabilities of these classes, by softmax; NaN if a logit is NaN or
	 * infinite */
	float *probability;
	/* For regression: [count] the predicted numbers, on the scale of the original targets.
	 * Otherwise NULL. For regression, `predicted` and `probability` are zero, and target[i]
	 * holds GT_DATA_IGNORE, or the bits of the float `(number - target_mean) / target_std`,
	 * where `number` is the original target. */
	double *value;
	double target_mean, target_std;
};

/* Return how many significant digits to print for the predicted numbers of a regression, so that
 * different numbers look different: 9 for the float32 output of the model, and more if the mean of
 * the targets is far from 0. */
int gt_predictions_digits(const struct gt_predictions *p);

void gt_predictions_release(struct gt_predictions *p);

struct gt_evaluate_options {
	/* batch: number of samples in a batch of one rank; workers: number of threads of one rank
	 * that read data */
	int batch, workers;
	bool pageable; /* read batches into ordinary, not pinned, host memory (gt_feeder_open()) */
	/* Number of classes per sample that gt_evaluate() predicts; 0: no predictions. If the
	 * samples are texts, and `top` is not 0, the classes are the tokens that may follow each
	 * text, and no loss or accuracy is measured. */
	int top;
	/* The progress line of this rank, on which gt_evaluate() shows the number of samples; NULL:
	 * none. */
	struct gt_progress *progress;
};

/* Make the programs (program.h) that evaluate the session's model on this rank's samples. Call
 * gt_session_add_pair() for the pair before this call. */
int gt_evaluate_plan(struct gt_program_pair *pair, const struct gt_session *s,
    const struct gt_dataset *data, const struct gt_evaluate_options *options, struct gt_err *err);

/*
 * Evaluate the whole data set in order, without augmentation. A collective call. `pair` comes from
 * gt_evaluate_plan() with the same data and options. The ranks of the data axis
 * (lib/parallel/axis.h) read different samples: if there are N of them, rank i % N evaluates batch
 * i. Then each rank sums the statistics of all batches in the order of the data set. So all ranks
 * get the same result, bit by bit, for any number of ranks.
 *
 * If options->top is not 0, all ranks get the predictions of all samples in *each. The caller
 * releases *each, even after an error. If options->top is 0, `each` may be NULL.
 *
 * Samples without a target do not count in *out. Errors: GT_EINVAL if no sample has a target and
 * options->top is 0.
 *
 * Memory: 32 bytes of statistics for each batch, or 40 bytes for regression. The host holds the
 * statistics of all batches of the data set. The device holds the statistics of this rank's
 * batches.
 */
int gt_evaluate(const struct gt_session *s, struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err);

#endif
