/* dp.h - inside parallel: data parallelism around one rank that holds the weights. */
#ifndef GT_PARALLEL_DATA_DP_H
#define GT_PARALLEL_DATA_DP_H

#include "lib/parallel/data/modes.h"

/*
 * torch.nn.DataParallel as one plan per rank. Rank 0 is the main device: it reads the whole
 * micro-batch, and its weights are the ones that are updated. Of C samples and n ranks, rank r has
 * those from r c on, c = ceil(C / n) of them as long as there are any (torch.chunk): the last ranks
 * may get fewer samples, or none. The nodes, in the order in which they run:
 *
 *   broadcast_weights   rank 0's, once a step
 *   scatter             the input: rank 0 sends each rank its samples
 *   gather              the logits: each rank sends rank 0 its own
 *                       the loss and its gradient by the logits, on rank 0 alone
 *   scatter             that gradient
 *   reduce_start, _wait gradients of the weights, bucket by bucket, added up on rank 0
 *
 * The loss of a rank other than 0 is 0, so that the sum over ranks is that of the batch. A rank
 * without samples has gradients of 0 and nothing else.
 *
 * In reproducible training (virtual/rewrite.h) each rank computes the loss of its own logits, and
 * losses are summed like gradients. Then there is no gather, and targets are scattered, too.
 *
 * Source: torch.nn.DataParallel (torch/nn/parallel/data_parallel.py, scatter_gather.py).
 */
/* The samples of a rank; of this one. */
void gt_dp_part_of(const struct gt_group *group, int rank, int samples, int *first, int *count);
void gt_dp_part(const struct gt_parallel *p, int samples, int *first, int *count);
int gt_dp_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
int gt_dp_refresh(struct gt_parallel *p, struct gt_err *err);
int gt_dp_publish(struct gt_parallel *p, struct gt_err *err);
int gt_dp_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
