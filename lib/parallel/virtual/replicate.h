/* replicate.h - replicate a graph for the parts of a batch. */
#ifndef GT_PARALLEL_VIRTUAL_REPLICATE_H
#define GT_PARALLEL_VIRTUAL_REPLICATE_H

#include "lib/graph/graph.h"

/* Nodes first .. last - 1 of the original list, in copy `copy`. */
struct gt_replica_block {
	int copy;
	size_t first, last;
};

/*
 * Make `copies` of all nodes, each with inputs, temporaries and outputs of its own; parameters,
 * buffers and gradients are shared, so that gradients add up (gt_pass_options.accumulate). The list
 * becomes the blocks in the order given, which must hold every node of every copy once, none before
 * the nodes whose outputs it reads. Copy 0 has the values that were there; value NAME of copy i > 0
 * is called NAME.i.
 *
 * Errors: GT_EINVAL for a graph whose gradients do not add up.
 */
int gt_replicate(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* A new value like `v` for that copy, with its name there; NULL, and the graph has failed. */
struct gt_value *gt_replica_new(struct gt_graph *g, const struct gt_value *v, int copy);

/* A temporary like that gradient, for its summands; NULL, and the graph has failed. */
struct gt_value *gt_replica_of_gradient(struct gt_graph *g, const struct gt_value *v);

/* The value that stands for `v` in a copy, by its name; NULL for NULL, or if there is none. */
struct gt_value *gt_replica_of(const struct gt_graph *g, const struct gt_value *v, int copy);

#endif
