/* dp.h - private: the mode dp, in which rank 0 reads samples and updates weights. */
#ifndef GT_PARALLEL_DATA_DP_H
#define GT_PARALLEL_DATA_DP_H

#include "lib/parallel/data/modes.h"

/*
 * This mode works like torch.nn.DataParallel, but each rank has its own plan. Rank 0 is the main
 * device: it reads the whole micro-batch, holds the weights and updates them. The samples are
 * divided as torch.chunk() divides them. With C samples and n ranks, each rank gets the next
 * ceil(C / n) samples, until none are left. The last ranks may get fewer samples, or none. The
 * nodes, in the order in which they run:
 *
 *   broadcast_weights   rank 0 sends the weights to all ranks, once a step
 *   scatter             rank 0 sends each rank the input of its samples
 *   gather              each rank sends the logits of its samples to rank 0
 *   ...                 rank 0 computes the loss and the gradient of the logits
 *   scatter             rank 0 sends each rank the gradient of its logits
 *   reduce_start        start to sum a bucket (a range of the gradients) on rank 0
 *   reduce_wait         wait for these sums
 *
 * The loss value of all ranks except rank 0 is 0, so the sum over all ranks is the loss of the
 * batch. On a rank without samples all gradients are 0, and the rank computes nothing else.
 *
 * In reproducible training (virtual/rewrite.h) each rank computes the loss of its own logits, and
 * losses are summed like gradients. So logits are not gathered, and targets are scattered like
 * inputs.
 *
 * Source: torch.nn.DataParallel (torch/nn/parallel/data_parallel.py, scatter_gather.py).
 */

/* Set *first and *count to the samples of one rank: [*first, *first + *count) of a micro-batch of
 * `samples` samples. gt_dp_part_of() does this for rank `rank` of the group, and gt_dp_part() for
 * the calling rank. */
void gt_dp_part_of(const struct gt_group *group, int rank, int samples, int *first, int *count);
void gt_dp_part(const struct gt_parallel *p, int samples, int *first, int *count);

/* The functions of this mode that gt_parallel_scatter(), gt_parallel_refresh(),
 * gt_parallel_publish() and gt_parallel_update() call (struct gt_parallel_mode in modes.h). */
int gt_dp_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
int gt_dp_refresh(struct gt_parallel *p, struct gt_err *err);
int gt_dp_publish(struct gt_parallel *p, struct gt_err *err);
int gt_dp_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
