/* sync_bn.h - batch normalisation over the samples of all ranks. */
#ifndef GT_PARALLEL_DATA_SYNC_BN_H
#define GT_PARALLEL_DATA_SYNC_BN_H

#include "lib/parallel/parallel.h"

/*
 * Change a training graph: every batch_norm uses the statistics of the samples of all ranks of the
 * data axis, and its gradient uses the sums over these samples. `ranks` is the number of ranks of
 * the axis, or of virtual ranks in reproducible training. If it is 1, the graph does not change.
 * Each node is replaced by several nodes, one of them a collective (see norm_sync.c in
 * lib/graph/ops/ops.h):
 *
 *   batch_norm       batch_norm_moments, all_gather, batch_norm_combine, batch_norm_apply
 *   batch_norm_grad  batch_norm_grad_sums, all_reduce, batch_norm_grad_apply
 *
 * Ranks exchange 1 + 2 C doubles for C channels, so the precision is the same as on one rank. The
 * running statistics are updated with the statistics of the whole batch of n values, with the
 * factor n / (n - 1) for the variance. They have the same bits on all ranks. The gradients of
 * weight and bias are sums over the samples of one rank. The data axis adds them up like other
 * gradients.
 *
 * This pass runs after all passes of lib/graph, for two reasons: the graph has its backward pass by
 * then, and fusions with batch_norm and the layouts of images are the same as on one rank.
 *
 * Source: torch.nn.SyncBatchNorm.
 */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err);

#endif
