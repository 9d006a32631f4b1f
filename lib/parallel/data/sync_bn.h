/* sync_bn.h - batch normalization over the samples of all ranks. */
#ifndef GT_PARALLEL_DATA_SYNC_BN_H
#define GT_PARALLEL_DATA_SYNC_BN_H

#include "lib/parallel/parallel.h"

/*
 * Change a training graph: every batch_norm uses the statistics of the samples of all ranks of the
 * data axis, and its gradient uses the sums over these samples. (Axes are defined in
 * lib/parallel/parallel.h.) `ranks` is the number of ranks of the axis, or of virtual ranks in
 * reproducible training (lib/parallel/virtual/rewrite.h). If `ranks` is 1, the graph does not
 * change. Several nodes replace each batch_norm and each batch_norm_grad. One of them is a
 * collective (all_gather or all_reduce). lib/graph/ops/ops.h describes the other nodes in the
 * section norm_sync.c:
 *
 *   batch_norm       batch_norm_moments, all_gather, batch_norm_combine, batch_norm_apply
 *   batch_norm_grad  batch_norm_grad_sums, all_reduce, batch_norm_grad_apply
 *
 * For C channels, each rank sends 1 + 2 * C numbers in a collective. The numbers are doubles, so
 * the precision is the same as on one rank. The running statistics are updated with the statistics
 * of the whole batch. The batch has n values per channel; its variance is multiplied by n / (n - 1)
 * before the update. The running statistics have the same bits on all ranks. The gradients of
 * weight and bias are sums over the samples of one rank; they are added up over the data axis like
 * other gradients.
 *
 * Call this function after all graph passes (functions that rewrite a graph, lib/graph/pass.h), for
 * two reasons. The graph must already have the nodes of the backward pass. Also, some graph passes
 * fuse batch_norm with other nodes, or choose the layouts of images. They make the same changes as
 * on one rank only if they run before this function.
 *
 * Source: torch.nn.SyncBatchNorm.
 */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err);

#endif
