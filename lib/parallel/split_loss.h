/* split_loss.h - inside parallel: cross-entropy where each rank has the logits of some classes. */
#ifndef GT_PARALLEL_SPLIT_LOSS_H
#define GT_PARALLEL_SPLIT_LOSS_H

#include "lib/parallel/parallel.h"

/*
 * Ranks of an axis have the logits [..., V] of `V` classes each, those from `first` on of `whole`.
 * Only numbers per row are exchanged, never logits. Float32; targets were looked at by the
 * cross_entropy node that made the log-sum-exp of each part.
 * Source: Shoeybi et al., arXiv 1909.08053, section 3.
 */

/*
 * lse_over: the log-sum-exp over all classes, from those of the parts: their largest and the sum
 * of exponentials, all-reduced. A constant for gradients: cross_entropy_over knows its own.
 *   in   lse F32 [rows], of this rank's part     out  lse F32 [rows]
 */
struct gt_value *gt_lse_over(struct gt_graph *g, struct gt_value *lse, enum gt_axis axis);

/*
 * cross_entropy_over: loss = weight * sum over rows with target >= 0 of (lse - the target's logit),
 * on all ranks. Its gradient is cross_entropy_grad of the part.
 *   in   logits F32 [..., V];  target I32 [...];  lse F32 [rows];  weight F32 []
 *   out  loss F32 []
 */
struct gt_value *gt_cross_entropy_over(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *lse, struct gt_value *weight, int64_t first,
    int64_t whole, enum gt_axis axis);

/* classify_stats_over: the sums of classify_stats over all classes, on all ranks; equal logits are
 * ordered as there.
 *   in   logits, target, lse as above     out  F64 [4] */
struct gt_value *gt_classify_stats_over(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *lse, int64_t first, int64_t whole, enum gt_axis axis);

#endif
