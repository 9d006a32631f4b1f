/* ema.h - a running mean of the weights, for evaluation. */
#ifndef GT_OPTIM_EMA_H
#define GT_OPTIM_EMA_H

#include "lib/store/store.h"

/*
 * An exponential moving average ("the mean") of the trained parameters. After each update of the
 * parameters,
 *
 *   mean = decay * mean + (1 - decay) * parameters
 *
 * But the first update of the mean copies the parameters. The mean is a plane of the store, "ema".
 * If ranks divide the updates of the parameters, each rank has only the mean of the parameters that
 * it updates. Buffers have no mean: an evaluation with the mean uses the current buffers of the
 * model. Source: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay).
 */

/* Add the plane to a store; 0 < decay < 1. Errors: GT_ENOTSUP if the parameters are not float32,
 * GT_EINVAL for a bad decay, GT_ENOMEM. */
int gt_ema_add_plane(struct gt_store *store, double decay, struct gt_err *err);

/* Queue an update of the mean; `first`: it is the first one. Call this after each update of the
 * parameters. */
int gt_ema_update(const struct gt_store *store, double decay, bool first, struct gt_err *err);

/* Queue a swap: the mean takes the place of the parameters that this process updates, and these
 * parameters take the place of the mean. A second call restores every bit. gt_parallel_publish()
 * sends the swapped parameters to the other ranks. */
int gt_ema_swap(const struct gt_store *store, struct gt_err *err);

#endif
