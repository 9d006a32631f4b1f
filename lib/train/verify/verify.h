/* verify.h - compare every mode of parallel training with one rank. */
#ifndef GT_TRAIN_VERIFY_VERIFY_H
#define GT_TRAIN_VERIFY_VERIFY_H

#include "lib/comm/launch/threads.h"
#include "lib/train/train.h"

/*
 * One rank runs a few steps; then each mode runs the same steps, from the same weights, with the
 * same samples. These are a small part of the data, so that an epoch ends, with a short batch,
 * during the steps. Every rank compares its tensors with its part of the first run's tensors: all
 * of it (ddp, mirrored; dp: rank 0), its parts of each bucket (zero1, zero2, zero3), its stage
 * (gpipe, 1f1b), its parts of layers (tensor). At each step are compared
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

/*
 * With train->parallel.reproducible all modes must have the bits of one rank, so the bounds are 0,
 * except for `tensor`, whose ranks compute other sums. In every mode, batch statistics are then
 * computed over the part of each virtual rank.
 *
 * Otherwise batch normalisation uses the samples of all ranks (sync_bn). A pipeline is compared
 * with one rank that takes the chunks one after the other, because each chunk has its own
 * statistics. Accumulation cannot be compared with any run on one rank.
 *
 * After a normalisation many rectified units are near zero. Of the million units that a few images
 * have in resnet20, some are 0 with one order of summation and 1e-7 with another. This hardly
 * changes the loss, but it changes the gradient by the contribution of the unit. On 8 to 12 images
 * one element of conv1's has been seen to be off by 4e-2 to 1e-1 of the largest, while runs without
 * such a unit agree to 1e-5. So gradients may be off by more, and nothing is divided by them: eps
 * is 1, updates are as gradients are, and so small that 5 steps lead to few more such units.
 * Weights were then off by 6e-3 of the largest change. The mistakes that tests seed make 0.3 and
 * more.
 */
#define GT_VERIFY_NORM_GRADIENT 2e-1
#define GT_VERIFY_NORM_WEIGHT   5e-2
#define GT_VERIFY_NORM_EPS      1.0
#define GT_VERIFY_NORM_RATE     5e-5

enum { GT_VERIFY_STEPS = 5, GT_VERIFY_NAME = 80, GT_VERIFY_WHY = 160 };

struct gt_verify_bounds {
	double loss, gradient, weight;
};

struct gt_verify_row {
	const char *mode;
	int ranks;
	int64_t last_batch; /* samples of all ranks in the last batch of an epoch */
	/* The reason if the mode is left out, for example because the model cannot be trained in
	 * it; else "". */
	char why[GT_VERIFY_WHY];
	struct gt_verify_bounds bounds;
	double loss, gradient, weight; /* the largest of any rank */
	bool good;                     /* all are within bounds */
	/* The first that is not: "loss", "gradient", "weight"; of which tensor, or ""; its step. */
	const char *what;
	char tensor[GT_VERIFY_NAME];
	int64_t step; /* from 1 on */
	double far;
};

struct gt_verify_options {
	/* `batch` is the batch of each rank; options for output and length are not used */
	const struct gt_train_options *train;
	int ranks;
	struct gt_threads_options threads;
	/* Optional: called first on each rank's thread, with its group. It sets OpenMP's number of
	 * threads; tests use it to put faults into the group. */
	void (*enter)(void *self, struct gt_group *group);
	void *self;
};

/* How many modes there are: rows of gt_verify_parallel(). */
int gt_verify_count(void);

/*
 * Fill rows[gt_verify_count()]. A mode that differs is not an error. This keeps the gradients and
 * weights of GT_VERIFY_STEPS steps, so it needs about ten times the memory of a run.
 *
 * Errors: those of runs; GT_EINVAL for fewer samples than ranks.
 */
int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err);

#endif
