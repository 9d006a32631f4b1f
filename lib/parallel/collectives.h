/* collectives.h - collectives as nodes of a graph. */
#ifndef GT_PARALLEL_COLLECTIVES_H
#define GT_PARALLEL_COLLECTIVES_H

#include "lib/parallel/parallel.h"

/*
 * A value summed over the ranks of an axis, on all of them: y = sum over r of x of rank r, of any
 * shape. The node waits for the slowest rank, and may work in place. It has no gradient: passes
 * that insert it know what theirs is. Errors: as those of gt_emit().
 */
struct gt_value *gt_sum_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/*
 * The vectors of all ranks of an axis, in their order: y [ranks, n] of x [n], the same n on all.
 * As gt_sum_over() otherwise; `ranks` is the axis's size.
 */
struct gt_value *gt_gather_over(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, int ranks);

extern const struct gt_op gt_op_all_reduce, gt_op_all_gather;

#endif
