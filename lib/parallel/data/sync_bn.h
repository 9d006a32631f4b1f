/* sync_bn.h - batch normalisation over the samples of all ranks. */
#ifndef GT_PARALLEL_DATA_SYNC_BN_H
#define GT_PARALLEL_DATA_SYNC_BN_H

#include "lib/parallel/parallel.h"

/*
 * Change a training graph so that every batch_norm uses the statistics of the samples of all
 * `ranks` ranks of GT_AXIS_DATA, and its gradient uses the sums over these samples. Each node
 * becomes several, one of them a collective (ops: lib/graph/ops/ops.h, norm_sync.c):
 *
 *   batch_norm       batch_norm_moments, all_gather, batch_norm_combine, batch_norm_apply
 *   batch_norm_grad  batch_norm_grad_sums, all_reduce, batch_norm_grad_apply
 *
 * Ranks exchange 1 + 2 C doubles for C channels, so the precision is the same as on one rank.
 * Running statistics are those of the whole batch, with its n / (n - 1), the same bits on all
 * ranks; the gradients of weight and bias are sums over a rank's own samples, which the mode adds
 * up like other gradients. This pass comes after all passes of lib/graph, so that ops fused into
 * batch_norm and the layouts of images do not change, and gradient nodes exist. With one rank the
 * graph is not changed.
 *
 * Source: torch.nn.SyncBatchNorm.
 */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err);

#endif
