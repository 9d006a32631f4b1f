/* collectives.h - add collectives over an axis of ranks to a graph, as nodes with gradients. */
#ifndef GT_PARALLEL_COLLECTIVES_H
#define GT_PARALLEL_COLLECTIVES_H

#include "lib/parallel/parallel.h"

/* Each function that returns a value emits a node. The function returns the node's output y, or
 * NULL with the graph's error set. The ranks of an axis (enum gt_axis in parallel.h) work together:
 * each node, except that of gt_copy_to(), waits for the slowest rank of the axis. */

/*
 * Sum x, a value of any shape, over the ranks of an axis (all_reduce). All ranks get the same y. y
 * may use the memory of x. The gradient of x is the gradient of y, without communication, because
 * all ranks compute the same values from y. This function is g in figure 3 of Shoeybi et al.,
 * "Megatron-LM", arXiv 1909.08053.
 */
struct gt_value *gt_sum_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/* Like gt_sum_over(), but take the maximum, element by element. The node has no gradient. */
struct gt_value *gt_max_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/*
 * Return y = x, where x is the same on all ranks of the axis, and each rank computes different
 * values from y. The gradient of x is the sum of the gradients of y over the ranks: an all-reduce
 * in the backward pass. The node is a view, so it costs nothing in the forward pass. This function
 * is f in figure 3 of Shoeybi et al.
 */
struct gt_value *gt_copy_to(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);
/* Return whether n is a node of gt_copy_to(). */
bool gt_is_copy_to(const struct gt_node *n);

/*
 * Gather the vectors x [n] of all ranks of an axis: y [ranks, n], in the order of the ranks. n must
 * be the same on all ranks. `ranks` is the number of ranks of the axis. If each rank simulates
 * several virtual ranks (virtual/rewrite.h), `ranks` is the number of all virtual ranks. The node
 * has no gradient.
 */
struct gt_value *gt_gather_over(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, int ranks);

/* gt_op_all_reduce is the op of gt_sum_over() and gt_max_over(). gt_op_all_gather is the op of
 * gt_gather_over(). */
extern const struct gt_op gt_op_all_reduce, gt_op_all_gather;

/* Queue a collective on the compute stream, in place: sum buffer[count] over the ranks of the group
 * (all-reduce), or copy it from rank 0 of the group to the other ranks (broadcast). `buffer` is in
 * device memory, and `group` is a group for device memory. */
int gt_parallel_all_reduce(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);
int gt_parallel_broadcast(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);

#endif
