/* fan.h - inside parallel: where layers that ranks hold in parts begin and end. */
#ifndef GT_PARALLEL_FAN_H
#define GT_PARALLEL_FAN_H

#include "lib/parallel/parallel.h"

/*
 * fan_out: y = x, which is the same on all ranks of the axis, handed to a part of a layer on each.
 * Its gradient by x is the sum of theirs: one all-reduce in the backward pass. A view.
 * Source: f of Shoeybi et al., "Megatron-LM", arXiv 1909.08053, figure 3.
 */
struct gt_value *gt_fan_out(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/*
 * fan_in: y = the sum over the ranks of the axis of their x, plus bias (once), on all ranks the
 * same bits. Its gradients need no communication, since all ranks have that of y.
 *   in   x F32 [..., N];  bias F32 [N], optional
 *   out  y F32 [..., N], may overwrite x
 * Source: g of the same figure.
 */
struct gt_value *gt_fan_in(
    struct gt_graph *g, struct gt_value *x, struct gt_value *bias, enum gt_axis axis);

#endif
