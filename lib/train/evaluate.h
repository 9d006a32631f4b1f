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
	/* Of regression, where loss is the mean of the squares on the scale of the training, and
	 * these are on the target's own; top1, top5 and perplexity are 0. */
	bool regression;
	double mse, mae; /* means of the errors' squares and sizes */
	double r2;       /* 1 - squares of errors / squares of targets less their mean; NaN: none */
	double seconds;  /* that it took, reading included */
};

/* The answer of a model to each sample of a data set, in its order. */
struct gt_predictions {
	int64_t count;
	int top;            /* classes kept of each sample */
	int32_t *target;    /* [count] the right class, or GT_DATA_IGNORE */
	int32_t *predicted; /* [count, top] those with the largest logits; of equals the first */
	float *probability; /* [count, top] of these classes: the softmax of the logits */
	float *value;       /* regression: [count] predicted, on the target's own scale; or NULL */
	float target_mean, target_std; /* that scale: target holds the bits of
	                                  (number - mean) / std, or GT_DATA_IGNORE */
};

void gt_predictions_release(struct gt_predictions *p);

struct gt_evaluate_options {
	int batch, workers; /* samples at once, and threads that read data, of each rank */
	bool pageable;      /* see gt_feeder_open() */
	enum gt_amp amp;
	int top; /* classes of each sample that gt_evaluate() is to keep, at most all; 0: no
	            predictions. Of text: tokens that may follow it, without statistics */
};

/* Make the programs that measure the session's model on this rank's samples. The pair has been
 * added to the session. */
int gt_evaluate_plan(struct gt_program_pair *pair, const struct gt_session *s,
    const struct gt_dataset *data, const struct gt_evaluate_options *options, struct gt_err *err);

/*
 * Run the pair, planned with these data and options, over the whole data set in order, without
 * augmentation. The ranks that read other samples take batches in turn, and each rank adds up the
 * statistics of all batches in the order of the data set. So all get the same numbers, and these
 * have the same bits for any number of ranks. A collective call. With options->top, *each becomes
 * the answers to all samples, on all ranks; release it. NULL without. Samples that have no target
 * do not count; GT_EINVAL where none has one, unless there are predictions.
 *
 * Memory while it runs, 32 bytes of statistics: on the host for each batch of the data set, and on
 * the device for each batch of this rank.
 */
int gt_evaluate(const struct gt_session *s, struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err);

#endif
