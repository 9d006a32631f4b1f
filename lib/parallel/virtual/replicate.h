/* replicate.h - make copies of all nodes of a graph, one copy for each part of a batch. */
#ifndef GT_PARALLEL_VIRTUAL_REPLICATE_H
#define GT_PARALLEL_VIRTUAL_REPLICATE_H

#include "lib/graph/graph.h"

/* Nodes [first, last) of the original graph, in copy number `copy`. */
struct gt_replica_block {
	int copy;
	size_t first, last;
};

/* Replace the nodes by `copies` copies, in the order of blocks[count], which contain every node of
 * every copy. The nodes must add to gradients (GT_EINVAL if not). In copy i > 0, the value NAME is
 * called NAME.i. */
int gt_replicate(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* Create the value of `v` for a copy. NULL: an error of the graph. */
struct gt_value *gt_replica_new(struct gt_graph *g, const struct gt_value *v, int copy);

/* Create a temporary like the gradient `v`. NULL: an error of the graph. */
struct gt_value *gt_replica_of_gradient(struct gt_graph *g, const struct gt_value *v);

/* Return the value of the original `v` in a copy, or NULL. For copies > 0, `v` has a name. */
struct gt_value *gt_replica_of(const struct gt_graph *g, const struct gt_value *v, int copy);

#endif
