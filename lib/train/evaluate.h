/* evaluate.h - measure a model on every sample of a data set, each counted once. */
#ifndef GT_TRAIN_EVALUATE_H
#define GT_TRAIN_EVALUATE_H

#include "lib/train/session.h"

struct gt_metrics {
	double loss;       /* mean cross-entropy, in nats; or see below */
	double top1, top5; /* share of right answers, 0..1 */
	double perplexity; /* exp(loss) */
	int64_t n;         /* targets counted: samples, or tokens */
	int64_t right;     /* top-1 hits */
	/* For regression. `loss` is then the mean squared error of normalized targets, as in
	 * training; the fields below use the target's own scale. top1, top5 and perplexity are 0.
	 */
	bool regression;
	double mse, mae; /* mean squared error, mean absolute error */
	/* 1 - (sum of squared errors) / (sum of squared deviations of targets from their mean);
	 * NaN: undefined */
	double r2;
	double seconds; /* time of the evaluation, including the reading of data */
};

/* The answer of a model to each sample of a data set, in its order. */
struct gt_predictions {
	int64_t count;
	int top;         /* number of classes kept per sample */
	int32_t *target; /* [count] the right class, or GT_DATA_IGNORE */
	/* [count, top] the classes with the largest logits; of equal logits, the first class */
	int32_t *predicted;
	float *probability; /* [count, top] the softmax of the logits, for these classes */
	float *value;       /* regression: [count] predicted, on the target's own scale; or NULL */
	/* target[i] holds the bits of (number - target_mean) / target_std, or GT_DATA_IGNORE */
	float target_mean, target_std;
};

void gt_predictions_release(struct gt_predictions *p);

struct gt_evaluate_options {
	int batch, workers; /* samples at once, and threads that read data, of each rank */
	bool pageable;      /* see gt_feeder_open() */
	enum gt_amp amp;
	/* number of classes per sample for which gt_evaluate() keeps predictions; 0: no
	 * predictions. For texts: tokens that may follow the text, without statistics */
	int top;
};

/* Make the programs that measure the session's model on this rank's samples. Add the pair to the
 * session before this call. */
int gt_evaluate_plan(struct gt_program_pair *pair, const struct gt_session *s,
    const struct gt_dataset *data, const struct gt_evaluate_options *options, struct gt_err *err);

/*
 * Run the pair, planned with these data and options, over the whole data set in order, without
 * augmentation. The batches are distributed over the ranks of the data axis, batch by batch. Then
 * each rank adds up the statistics of all batches in the order of the data set, so all ranks have
 * the same bits, for any number of ranks. A collective call. If options->top is not 0, all ranks
 * get the predictions of all samples in *each; release it. Otherwise pass NULL. Samples without a
 * target do not count. Errors: GT_EINVAL if no sample has a target and no predictions are wanted.
 *
 * Memory: 32 bytes of statistics for each batch of the data set on the host, and for each batch of
 * this rank on the device.
 */
int gt_evaluate(const struct gt_session *s, struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err);

#endif
