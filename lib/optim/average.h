/* average.h - an average of the weights over the steps, for evaluation. */
#ifndef GT_OPTIM_AVERAGE_H
#define GT_OPTIM_AVERAGE_H

#include "lib/store/store.h"

/*
 * A run may keep an average of the trained parameters ("the mean"). After each update of the
 * parameters,
 *
 *   mean = mean + weight * (parameters - mean)
 *
 * where the kind of the average defines the weight of each step. The weight of the first step is 1,
 * so that the mean becomes a copy of the parameters. The mean is a plane of the store, and has the
 * name of the kind. If ranks divide the updates of the parameters, each rank has only the mean of
 * the parameters that it updates. Buffers have no mean: an evaluation with the mean uses the
 * current buffers of the model.
 */

/* The kinds of averages, each with its option. A run keeps at most one average. */
struct gt_average_options {
	/* decay of an exponential moving average, 0 < ema < 1; 0: none. The weight is 1 - ema.
	 * Source: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay). */
	double ema;
};

/* A kind of average: a row of a table in average.c. */
struct gt_average {
	const char *name;  /* of its option, its plane and its key in metrics.jsonl: "ema" */
	const char *title; /* in messages: "EMA" */
	const char *file;  /* of the state_dict with the mean in a run directory */
	bool (*is_kept)(const struct gt_average_options *options);
	int (*check)(const struct gt_average_options *options, struct gt_err *err);
	/* Return the weight of the parameters after the update number `step` (0, 1, ...). */
	float (*weight)(const struct gt_average_options *options, int64_t step);
};

/* Return the kind of average that a run with these options keeps, or NULL. */
const struct gt_average *gt_average_kept(const struct gt_average_options *options);

/* Add the plane to a store. Do nothing if no average is kept. Errors: GT_ENOTSUP if the parameters
 * are not float32, GT_EINVAL for a bad option, GT_ENOMEM. */
int gt_average_add_plane(
    struct gt_store *store, const struct gt_average_options *options, struct gt_err *err);

/* Queue an update of the mean. Do nothing if no average is kept. Call this after each update of the
 * parameters; `step` is the number of updates before it. */
int gt_average_update(const struct gt_store *store, const struct gt_average_options *options,
    int64_t step, struct gt_err *err);

/* Queue a swap: the mean takes the place of the parameters that this process updates, and these
 * parameters take the place of the mean. A second call restores every bit. gt_parallel_publish()
 * sends the swapped parameters to the other ranks. */
int gt_average_swap(
    const struct gt_store *store, const struct gt_average *average, struct gt_err *err);

#endif
