/* collectives.h - add collectives over an axis of ranks to a graph, as nodes with gradients. */
#ifndef GT_PARALLEL_COLLECTIVES_H
#define GT_PARALLEL_COLLECTIVES_H

#include "lib/parallel/parallel.h"

/* Functions that return a value emit a node over the ranks of an axis, and return its output, or
 * NULL with the graph's error set. All nodes but gt_copy_to()'s wait for all ranks. */

/* Sum x over the ranks; y may use the memory of x. The gradient passes without communication. This
 * is g of Megatron-LM (arXiv 1909.08053). */
struct gt_value *gt_sum_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/* Take the maximum over the ranks. There is no gradient. */
struct gt_value *gt_max_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);

/* Return y = x for ranks that compute different values from y. The gradients are all-reduced. This
 * is f of Megatron-LM. */
struct gt_value *gt_copy_to(struct gt_graph *g, struct gt_value *x, enum gt_axis axis);
/* Return whether n is its node. */
bool gt_is_copy_to(const struct gt_node *n);

/* Gather x [n] of all ranks, or of all virtual ranks, as [ranks, n]. There is no gradient. */
struct gt_value *gt_gather_over(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, int ranks);

/* The ops of gt_sum_over() and gt_max_over(), and of gt_gather_over(). */
extern const struct gt_op gt_op_all_reduce, gt_op_all_gather;

/* Queue a sum over the group's ranks, or a copy from its rank 0, of buffer[count] in device memory,
 * on the compute stream. */
int gt_parallel_all_reduce(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);
int gt_parallel_broadcast(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);

#endif
