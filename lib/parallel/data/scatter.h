/* scatter.h - inside parallel: rank 0 scatters samples, and gathers their results. */
#ifndef GT_PARALLEL_DATA_SCATTER_H
#define GT_PARALLEL_DATA_SCATTER_H

#include "lib/graph/graph.h"

/*
 * scatter: rows of rank 0's tensor to the ranks that gt_dp_part() gives them to.
 *   in   rank 0: x [rows, ...]; other ranks: nothing, or a value in place of x (a gradient by the
 *        token of a gather), which is not read
 *   out  y of `like`'s type and shape
 *
 * gather: the ranks' rows in one tensor on rank 0.
 *   in   x [rows of this rank, ...]
 *   out  rank 0: y [rows, ...]; others: a token, F32 [], which is 0
 * Its gradient is a scatter. Ranks without rows have neither node. Errors: as those of gt_emit().
 */
struct gt_value *gt_scatter(struct gt_graph *g, struct gt_value *x, const struct gt_value *like);
struct gt_value *gt_gather(struct gt_graph *g, struct gt_value *x, int64_t rows);

/* broadcast_weights: those of rank 0 to all, in the first run of a step; no inputs, no outputs. */
void gt_broadcast_weights(struct gt_graph *g);

#endif
