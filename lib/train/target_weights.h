/* target_weights.h - private: how much each target of a step counts in the loss. */
#ifndef GT_TRAIN_TARGET_WEIGHTS_H
#define GT_TRAIN_TARGET_WEIGHTS_H

#include "lib/data/core/data.h"

/* Zeroed: all factors are 1, and no target is ignored. */
struct gt_target_weights {
	/* [classes] with a mean of 1, or [labels]; NULL: all factors are 1 */
	float *of_class;
	double mean; /* mean of the weights that were given */
	int classes;
	bool labels;     /* the classes are labels */
	int64_t count;   /* targets in a step that are not ignored */
	int64_t *counts; /* [classes] those of each class; NULL: there are no factors */
	/* [samples] permutation of `epoch`, which is -1 at first; NULL: all targets of a step
	 * count alike */
	int64_t *order;
	int64_t *index; /* [batch] samples of a micro-batch */
	int64_t epoch;
	void *input;     /* texts: memory for a sample; else NULL */
	int32_t *target; /* texts: memory for the targets of a sample; else NULL */
};

/* Check that a spec, `balanced` or W,W,..., can be parsed. Errors: GT_EINVAL. */
int gt_target_weights_check(const char *spec, struct gt_err *err);

/* Set the weights of the spec, for the samples of `data` that the sampler draws from. Those of
 * labels multiply the terms of labels that hold, as they are given; `balanced`: by the samples
 * without the label for each one with it. They do not change the divisor of a mean. Release *out
 * even after an error. Errors: GT_EINVAL if the samples have no classes, or another number of
 * them; GT_ENOMEM. */
int gt_target_weights_open(struct gt_target_weights *out, const char *spec, struct gt_dataset *data,
    const struct gt_sampler *sampler, struct gt_err *err);
/* Count the targets that are not ignored, which all have the weight 1. */
int gt_target_weights_open_count(struct gt_target_weights *out, const struct gt_dataset *data,
    const struct gt_sampler *sampler, struct gt_err *err);
void gt_target_weights_release(struct gt_target_weights *w);

/* Set *out to the factor of each target's loss in a step: 1 / (sum of the class weights of all its
 * targets), or 0 if all are 0. The step consists of micro-batches first .. last - 1 of the epoch,
 * on all ranks of the sampler. The result does not depend on the number of ranks. Errors: those of
 * gt_dataset_read(), for texts. */
int gt_target_weights_step(float *out, struct gt_target_weights *w, struct gt_dataset *data,
    const struct gt_sampler *sampler, int64_t epoch, int64_t first, int64_t last,
    struct gt_err *err);

#endif
