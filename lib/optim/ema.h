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
 * But the first update of the mean copies the parameters. If ranks divide the updates of the
 * parameters, each rank has only the mean of the parameters that it updates. Buffers have no mean:
 * an evaluation with the mean uses the current buffers of the model. Source:
 * torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay).
 */
struct gt_ema;

/* Allocate device memory for gt_store_updated() elements; 0 < decay < 1. The store must have its
 * memory and its parts (gt_store.parts) already, and must outlive the mean. The caller frees *out.
 * Errors: GT_ENOTSUP if the parameters are not float32, GT_EINVAL for a bad decay. */
int gt_ema_new(struct gt_ema **out, struct gt_store *store, double decay, struct gt_err *err);
void gt_ema_free(struct gt_ema *e); /* NULL is fine */

/* Queue an update of the mean. Call this after each update of the parameters. */
int gt_ema_update(struct gt_ema *e, struct gt_err *err);

/* Queue a swap: the mean takes the place of the parameters that this process updates, and these
 * parameters take the place of the mean. A second call restores every bit. gt_parallel_publish()
 * sends the swapped parameters to the other ranks. */
int gt_ema_swap(struct gt_ema *e, struct gt_err *err);

/* Return the mean: device memory [gt_store_updated()]. It has the layout of the store's parameters.
 * If the store has parts (gt_store.parts), it has only the parts, one after the other. */
float *gt_ema_flat(const struct gt_ema *e);

/* Get and set the number of updates of the mean. A resumed run sets this number. */
int64_t gt_ema_updates(const struct gt_ema *e);
void gt_ema_set_updates(struct gt_ema *e, int64_t updates);

#endif
