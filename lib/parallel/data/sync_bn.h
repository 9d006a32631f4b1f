/* sync_bn.h - batch normalisation over the samples of all ranks. */
#ifndef GT_PARALLEL_DATA_SYNC_BN_H
#define GT_PARALLEL_DATA_SYNC_BN_H

#include "lib/parallel/parallel.h"

/*
 * Let every batch_norm of a training graph take the statistics of all samples that `ranks` ranks of
 * GT_AXIS_DATA have in this run, and its gradient the sums over all of them. Each node becomes
 * several, so that the collective is a node (ops: lib/graph/ops/ops.h, norm_sync.c):
 *
 *   batch_norm       batch_norm_moments, all_gather, batch_norm_combine, batch_norm_apply
 *   batch_norm_grad  batch_norm_grad_sums, all_reduce, batch_norm_grad_apply
 *
 * Ranks exchange 1 + 2 C doubles for C channels, so that no precision is lost in comparison with
 * one rank. Running statistics are those of the whole batch, with its n / (n - 1), the same bits on
 * all ranks; the gradients of weight and bias are those of a rank's own samples, which the mode
 * adds up as all others. The pass comes after all of the graph's own: ops fused into batch_norm and
 * the layouts of images stay as they are, and gradients are nodes that it finds. Nothing changes
 * for one rank.
 *
 * Source: torch.nn.SyncBatchNorm.
 */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err);

#endif
