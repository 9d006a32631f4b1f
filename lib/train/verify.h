/* verify.h - whether every kind of parallel training gives what one rank does. */
#ifndef GT_TRAIN_VERIFY_H
#define GT_TRAIN_VERIFY_H

#include "lib/comm/ring.h"
#include "lib/train/train.h"

/*
 * A few steps of one rank, then the same steps in each mode, from the same weights, over the same
 * samples: a small part of the data, so that an epoch ends, with a short batch, while they run. At
 * each step are compared
 *
 *   loss      |a - b| / |b|
 *   gradient  before the update, tensor by tensor: the largest |a - b| over the largest |b| of the
 *             tensor, or over a hundredth of that of all tensors where this one's are smaller
 *             (some, as that of the keys' bias in attention, are 0 but for rounding)
 *   weight    after it: the largest |a - b| over the largest change of any weight so far
 *
 * Other numbers of ranks add up in another order. In float32 that is some 1e-7 of the largest term
 * of a sum, and a gradient may be smaller than its terms by as much as the hundred above: 1e-4
 * leaves room for it, where the least of mistakes, a sample too many or too few, makes one part in
 * the number of samples. A weight's change is its gradient's, and Adam's divides by it: with an eps
 * of 1e-4 at least, which is used here, a gradient that is off by 1e-7 changes an update by 1e-3.
 */
#define GT_VERIFY_LOSS     1e-6
#define GT_VERIFY_GRADIENT 1e-4
#define GT_VERIFY_WEIGHT   1e-3
#define GT_VERIFY_EPS      1e-4

enum { GT_VERIFY_STEPS = 5, GT_VERIFY_NAME = 80 };

struct gt_verify_row {
	const char *mode;
	int ranks;
	int64_t last_batch; /* samples of all ranks in the last batch of an epoch */
	double loss, gradient, weight;
	bool good; /* all are within bounds */
	/* The first that is not: "loss", "gradient", "weight"; of which tensor, or ""; its step. */
	const char *what;
	char tensor[GT_VERIFY_NAME];
	int64_t step; /* from 1 on */
	double far;
};

struct gt_verify_options {
	const struct gt_train_options *train; /* `batch` is each rank's; where to write and how long
	                                         to train is of no account */
	int ranks;
	struct gt_ring_options ring;
	/* Called first on each rank's thread, with its group; NULL: not. For OpenMP's number of
	 * threads; tests put faults into the group. */
	void (*enter)(void *self, struct gt_group *group);
	void *self;
};

/* How many modes there are: rows of gt_verify_parallel(). */
int gt_verify_count(void);

/*
 * Fill rows[gt_verify_count()]. A mode that differs is no error. Keeps the gradients and weights of
 * GT_VERIFY_STEPS steps, so takes some ten times the memory of a run.
 *
 * Errors: those of runs; GT_ENOTSUP for models with batch normalisation, whose statistics are of a
 * rank's own samples: their ranks are not meant to be as one.
 */
int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err);

#endif
