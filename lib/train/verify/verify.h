/* verify.h - compare every mode of parallel training with training on one rank. */
#ifndef GT_TRAIN_VERIFY_VERIFY_H
#define GT_TRAIN_VERIFY_VERIFY_H

#include "lib/comm/launch/threads.h"
#include "lib/train/train.h"

/*
 * First, one rank runs a few steps: the reference run. Then each mode of parallel training runs the
 * same steps, from the same weights, with the same samples. If the data set has enough samples, the
 * number of samples is chosen such that an epoch ends within these steps, and that the last batch
 * of the epoch has fewer samples than the other batches.
 *
 * Every rank compares the elements that it holds with the same elements of the reference run:
 *
 *   accumulate            all elements; a single rank computes the micro-batches of all ranks of
 *                         the other modes, one after the other
 *   ddp, mirrored         all elements
 *   dp                    all elements, on rank 0 only
 *   zero1, zero2, zero3   its shards: the parts of the weights and gradients that it updates
 *   gpipe, 1f1b           its stage of the pipeline
 *   tensor                its shards of layers
 *
 * `tensor` is tensor parallelism, `gpipe` and `1f1b` are schedules of pipelines, and the modes from
 * `ddp` to `zero3` are values of enum gt_parallel_kind (lib/parallel/parallel.h).
 *
 * Let `a` be a value from the mode, and `b` the value from the reference run. Each step compares
 *
 *   loss      |a - b| / |b|
 *   gradient  before the update, for each tensor: max |a - b| of the tensor, divided by the larger
 *             of two values: max |b| of the tensor, and 1 / 100 of max |b| of all tensors. (The
 *             second value is needed because some gradients, such as the gradient of the bias of
 *             the keys in attention, are 0 except for rounding.)
 *   weight    after the update, for each tensor: max |a - b| of the tensor, divided by the largest
 *             change of any weight since the start of the run
 *
 * The bounds below allow for rounding. The order of a sum depends on the number of ranks. In
 * float32, this changes the sum by about 1e-7 of its largest term. A gradient may be 100 times
 * smaller than its terms, so its relative difference may be 1e-5. The bound is 1e-4. The smallest
 * mistake that should be found is one sample too many or too few. Such a mistake causes a relative
 * difference of 1 / (number of samples), which is larger than the bound.
 *
 * The difference of a weight comes from the difference of its gradient. Adam divides the gradient
 * by about |gradient| + eps. In these runs eps is at least 1e-4. So a difference of 1e-7 in the
 * gradient changes the update by at most about 1e-7 / 1e-4 = 1e-3, in units of the learning rate.
 */
#define GT_VERIFY_LOSS     1e-6
#define GT_VERIFY_GRADIENT 1e-4
#define GT_VERIFY_WEIGHT   1e-3
#define GT_VERIFY_EPS      1e-4

/*
 * If train->parallel.reproducible is set, all modes must give the same bits as one rank, so the
 * bounds are 0. But the mode `tensor` has the bounds above, because its ranks compute different
 * sums. With `reproducible`, the statistics of batch normalization are computed over the samples of
 * each virtual rank (lib/parallel/virtual/rewrite.h), unless train->parallel.sync_bn is set.
 *
 * Without `reproducible`, batch normalization uses the samples of all ranks (sync_bn). In a
 * pipeline, each micro-batch has its own statistics. So for the pipeline modes, the reference run
 * divides each batch into the same micro-batches. In the mode `accumulate`, each micro-batch also
 * has its own statistics, but the reference run for this mode computes them over the whole batch.
 * So the mode `accumulate` is left out for a model with batch normalization.
 *
 * The bounds below are for models with batch normalization, without `reproducible`. After a
 * normalization, many inputs of ReLUs are near zero. resnet20 has a million inputs of ReLUs for a
 * few images. Some of these inputs are 0 with one order of summation and 1e-7 with another order.
 * This hardly changes the loss, but it decides whether a gradient passes through the ReLU. In runs
 * on 8 to 12 images, one element of the gradient of conv1 differed by 4e-2 to 1e-1 of the largest
 * element. Runs in which no ReLU has an input this close to 0 agree to 1e-5.
 *
 * Therefore the bound for gradients is larger for these models. In these runs eps is at least 1: it
 * makes updates about proportional to gradients, so differences of gradients do not grow. A small
 * learning rate keeps the number of inputs that change their sign small during the 5 steps. With
 * these settings, weights differed by 6e-3 of the largest change. The mistakes that tests put into
 * the computation on purpose cause differences of 0.3 and more.
 */
#define GT_VERIFY_NORM_GRADIENT 2e-1
#define GT_VERIFY_NORM_WEIGHT   5e-2
#define GT_VERIFY_NORM_EPS      1.0
#define GT_VERIFY_NORM_RATE     5e-5

enum {
	GT_VERIFY_STEPS = 5, /* steps of each run */
	GT_VERIFY_NAME = 80, /* bytes of gt_verify_row.tensor */
	GT_VERIFY_WHY = 160  /* bytes of gt_verify_row.why */
};

/* The largest differences that are allowed, as defined above. */
struct gt_verify_bounds {
	double loss, gradient, weight;
};

/* The result for one mode. */
struct gt_verify_row {
	const char *mode;
	int ranks;
	int64_t last_batch; /* samples of all ranks in the last batch of an epoch */
	/* If the mode is left out, for example because it cannot train this model: the reason.
	 * Otherwise "". */
	char why[GT_VERIFY_WHY];
	struct gt_verify_bounds bounds;
	double loss, gradient, weight; /* the largest differences of all ranks and steps */
	bool good;                     /* all differences are within bounds */
	/* The fields below describe the first difference that is not within bounds. */
	const char *what;            /* "loss", "gradient" or "weight"; "": there is none */
	char tensor[GT_VERIFY_NAME]; /* name of the tensor that differs; "" for the loss */
	int64_t step;                /* the step in which the difference was found, from 1 on */
	double difference;           /* the size of the difference */
};

struct gt_verify_options {
	/* The options of the runs. train->batch is the number of samples in the batch of each rank.
	 * Some options are replaced: each run has GT_VERIFY_STEPS steps in float32 at a constant
	 * learning rate, eps and the learning rate as described above, and no output, no validation
	 * and no running mean of the weights. Of train->parallel, only reproducible, sync_bn and
	 * bucket_bytes are used. */
	const struct gt_train_options *train;
	int ranks; /* number of ranks of each mode */
	/* how to start the ranks, which are threads of this process */
	struct gt_threads_options threads;
	/* Optional: called first on each rank's thread, with the rank's group. It may set the
	 * number of OpenMP threads. Tests use it to put faults into the group. */
	void (*enter)(void *self, struct gt_group *group);
	void *self; /* first argument of `enter` */
};

/* Return the number of modes, which is the number of rows of gt_verify_parallel(). */
int gt_verify_count(void);

/*
 * Run all modes, and write a row for each mode to rows[gt_verify_count()]. A mode with a difference
 * that is not within bounds is not an error. The gradients and weights of GT_VERIFY_STEPS steps are
 * kept, so this needs about ten times the memory of a run.
 *
 * Errors: any error of the runs. GT_EINVAL in three cases: there are fewer samples than ranks; with
 * `reproducible`, there are fewer samples than virtual ranks in a step; without `reproducible`, the
 * augmentation mixes images.
 */
int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err);

#endif
