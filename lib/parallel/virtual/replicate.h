/* replicate.h - copy the nodes of a graph once for each part of a batch. */
#ifndef GT_PARALLEL_VIRTUAL_REPLICATE_H
#define GT_PARALLEL_VIRTUAL_REPLICATE_H

#include "lib/graph/graph.h"

/* A block: nodes first to last - 1 of the original list, in the copy with index `copy`. */
struct gt_replica_block {
	int copy;
	size_t first, last;
};

/*
 * Rewrite a graph into `copies` copies of all its nodes. Each copy has separate inputs, temporaries
 * and outputs. The copies share parameters, buffers and gradients. So the nodes must add to the
 * gradients (gt_pass_options.accumulate) instead of overwriting them. Copy 0 keeps the original
 * values. In copy i > 0, the value NAME is called NAME.i.
 *
 * The new list of nodes is blocks[count], one block after the other. The blocks must contain every
 * node of every copy once. A node must come after the nodes that compute its inputs.
 *
 * Errors: GT_EINVAL for a graph that overwrites gradients instead of adding to them; GT_ENOMEM.
 */
int gt_replicate(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* Create a value like v for a copy, named NAME.copy if v has the name NAME. Returns NULL with the
 * graph's error set on failure. */
struct gt_value *gt_replica_new(struct gt_graph *g, const struct gt_value *v, int copy);

/* Create a temporary with the type and shape of the gradient v, for one summand of v. Returns NULL
 * with the graph's error set on failure. */
struct gt_value *gt_replica_of_gradient(struct gt_graph *g, const struct gt_value *v);

/* Return the value of a copy that corresponds to the original value v. v must have a name if copy >
 * 0. Returns NULL if v is NULL, or if there is no such value. */
struct gt_value *gt_replica_of(const struct gt_graph *g, const struct gt_value *v, int copy);

#endif
