/* collectives.h - collectives as nodes of a graph. */
#ifndef GT_PARALLEL_COLLECTIVES_H
#define GT_PARALLEL_COLLECTIVES_H

#include "lib/parallel/parallel.h"

/*
 * Sum a value of any shape over the ranks of an axis: on all ranks, y = the sum over r of x of rank
 * r. The node waits for the slowest rank, and may work in place. The gradient of x is the gradient
 * of y, without communication, because all ranks compute the same from y. This is g of Shoeybi et
 * al., "Megatron-LM", arXiv 1909.08053, figure 3. Errors: as those of gt_emit().
 */
struct gt_value *gt_sum_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/* The same for the maximum, which has no gradient. */
struct gt_value *gt_max_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/*
 * y = x, a value that is the same on all ranks of the axis, before each rank computes something
 * different from it. The gradient of x is the sum of the ranks' gradients: an all-reduce in the
 * backward pass. A view: it costs nothing in the forward pass. It is f of the same figure.
 */
struct gt_value *gt_copy_to(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);
bool gt_is_copy_to(const struct gt_node *n);

/*
 * The vectors of all ranks of an axis, in their order: y [ranks, n] of x [n], the same n on all.
 * As gt_sum_over() otherwise; `ranks` is the axis's size.
 */
struct gt_value *gt_gather_over(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, int ranks);

extern const struct gt_op gt_op_all_reduce, gt_op_all_gather;

#endif
