/* verify.h - compare every mode of parallel training with training on one rank. */
#ifndef GT_TRAIN_VERIFY_VERIFY_H
#define GT_TRAIN_VERIFY_VERIFY_H

#include "lib/comm/launch/threads.h"
#include "lib/train/train.h"

/*
 * Each mode of parallel training runs a few steps, as does one rank: the reference run. A mode must
 * agree with it within the bounds below, which verify.c explains.
 *
 *   loss      relative difference
 *   gradient  largest difference of a tensor, divided by its largest element or, if that is larger,
 *             by 1 / 100 of the largest element of all tensors
 *   weight    largest difference of a tensor, divided by the largest change of any weight
 */
#define GT_VERIFY_LOSS     1e-6
#define GT_VERIFY_GRADIENT 1e-4
#define GT_VERIFY_WEIGHT   1e-3
#define GT_VERIFY_EPS      1e-4

/* The bounds, eps and learning rate for models with batch normalization. The bounds are 0 if
 * train->parallel.reproducible is set: all modes without `tensor` then give the same bits. */
#define GT_VERIFY_NORM_GRADIENT 2e-1
#define GT_VERIFY_NORM_WEIGHT   5e-2
#define GT_VERIFY_NORM_EPS      1.0
#define GT_VERIFY_NORM_RATE     5e-5

enum {
	GT_VERIFY_STEPS = 5, /* steps of each run */
	GT_VERIFY_NAME = 80,
	GT_VERIFY_WHY = 160
};

/* The largest differences that are allowed. */
struct gt_verify_bounds {
	double loss, gradient, weight;
};

/* The result for one mode. */
struct gt_verify_row {
	const char *mode;
	int ranks;
	int64_t last_batch; /* samples of all ranks in the last batch of an epoch */
	/* the reason why the mode is left out; "": it is not left out */
	char why[GT_VERIFY_WHY];
	struct gt_verify_bounds bounds;
	double loss, gradient, weight; /* the largest of all ranks and steps */
	bool good;
	/* The first difference that is not within bounds: */
	const char *what;            /* "loss", "gradient" or "weight"; "": there is none */
	char tensor[GT_VERIFY_NAME]; /* name of the tensor that differs; "" for the loss */
	int64_t step;                /* the step of the difference, from 1 on */
	double difference;
};

struct gt_verify_options {
	/* The options of the runs; train->batch is for each rank. Steps, precision, rate and eps
	 * are replaced; there is no output, validation or running mean. Of train->parallel, only
	 * reproducible, sync_bn and bucket_bytes are used. */
	const struct gt_train_options *train;
	int ranks; /* ranks of each mode */
	/* how to start the ranks, threads of this process */
	struct gt_threads_options threads;
	/* Optional: called first on the thread of each rank, for example to set its OpenMP
	 * threads. */
	void (*enter)(void *self, struct gt_group *group);
	void *self;
};

/* Return the number of modes. A multiple of 4 ranks also runs combinations of modes. */
int gt_verify_count(int ranks);

/* Run all modes, and write a row for each to rows[gt_verify_count(o->ranks)]. A large difference is
 * not an error. This needs ten times the memory of a run. Errors: those of the runs; GT_EINVAL for
 * too few samples, or for an augmentation that mixes images without `reproducible`. */
int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err);

#endif
