/* replicate.h - make copies of all nodes of a graph, one copy for each part of a batch. */
#ifndef GT_PARALLEL_VIRTUAL_REPLICATE_H
#define GT_PARALLEL_VIRTUAL_REPLICATE_H

#include "lib/graph/graph.h"

/* A block of nodes in the copy number `copy` (from 0 on): the copies of those nodes that have the
 * indices `first` to `last` - 1 in the original graph. */
struct gt_replica_block {
	int copy;
	size_t first, last;
};

/*
 * Replace the nodes of a graph by `copies` copies of all nodes. Each copy has separate inputs,
 * temporaries and outputs. The copies share parameters, their 16-bit working copies, buffers and
 * gradients. So the nodes must add to the gradients (gt_pass_options.accumulate) instead of
 * overwriting them. Copy 0 keeps the original values. In copy i > 0, the value NAME is called
 * NAME.i.
 *
 * blocks[count] gives the new order of the nodes: one block after the other. The blocks must
 * contain every node of every copy once. Each node must come after the nodes that compute its
 * inputs.
 *
 * Errors: GT_EINVAL for a graph that overwrites gradients instead of adding to them; GT_ENOMEM.
 */
int gt_replicate(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* Create a value like `v` for a copy. If the name of `v` is NAME, the new name is NAME.i, where i
 * is `copy`. Return NULL with the graph's error set on failure. */
struct gt_value *gt_replica_new(struct gt_graph *g, const struct gt_value *v, int copy);

/* Create a temporary for one summand of the gradient `v`, with the same type and shape as `v`.
 * Return NULL with the graph's error set on failure. */
struct gt_value *gt_replica_of_gradient(struct gt_graph *g, const struct gt_value *v);

/* Return the value that corresponds to the original value `v` in the copy number `copy`. If `copy`
 * > 0, `v` must have a name. Return NULL if `v` is NULL, or if the copy has no such value. */
struct gt_value *gt_replica_of(const struct gt_graph *g, const struct gt_value *v, int copy);

#endif
