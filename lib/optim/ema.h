/* ema.h - a running mean of the weights, for evaluation. */
#ifndef GT_OPTIM_EMA_H
#define GT_OPTIM_EMA_H

#include "lib/graph/store.h"

/*
 * After each update mean = decay * mean + (1 - decay) * parameters; the first one copies them. If
 * ranks divide updates, each rank has the mean of the parameters that it updates. There is no mean
 * of buffers: evaluation uses the model's. Source: torch.optim.swa_utils.AveragedModel with
 * get_ema_multi_avg_fn(decay).
 */
struct gt_ema;

/* Takes device memory for gt_store_updated() elements; 0 < decay < 1. The store has its memory and
 * its parts, and outlives the mean. */
int gt_ema_new(struct gt_ema **out, struct gt_store *store, double decay, struct gt_err *err);
void gt_ema_free(struct gt_ema *e); /* NULL is fine */

/* Queue the update of the mean after an update of the parameters. */
int gt_ema_update(struct gt_ema *e, struct gt_err *err);

/* Queue an exchange of the mean and the parameters that this process updates. A second call
 * restores every bit. Other ranks' copies of these parameters do not change until
 * gt_parallel_publish(). */
int gt_ema_swap(struct gt_ema *e, struct gt_err *err);

/* Device memory [gt_store_updated()] in the store's layout, or that of its parts. */
float *gt_ema_flat(const struct gt_ema *e);

/* The number of updates. A resumed run sets it. */
int64_t gt_ema_updates(const struct gt_ema *e);
void gt_ema_set_updates(struct gt_ema *e, int64_t updates);

#endif
