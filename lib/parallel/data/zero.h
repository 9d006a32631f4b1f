/* zero.h - private: data parallelism that divides state among ranks (zero1 to zero3). */
#ifndef GT_PARALLEL_DATA_ZERO_H
#define GT_PARALLEL_DATA_ZERO_H

#include "lib/parallel/data/buckets.h"
#include "lib/parallel/state.h"

/* The modes zero1 to zero3 divide each bucket (buckets.h) into equal shards, one for each rank of
 * the data axis, its owner. Only the owner updates a shard and keeps its optimizer state. With
 * zero2 it also keeps the only reduced gradients, with zero3 the only parameters of the shard.
 * zero_nodes.c describes the collectives. Source: Rajbhandari et al., arXiv 1910.02054. */
struct gt_zero {
	int stage; /* 1 to 3 */
	struct gt_buckets buckets;
	struct gt_part *gaps; /* [gap_count]; padding between parameters */
	size_t gap_count;
	/* [buckets.size]; tickets (lib/comm/group.h) of the latest collectives, 0 at first */
	struct gt_zero_tickets {
		uint64_t reduced, gathered;
	} * tickets;
	int64_t gathered; /* zero3: elements that the largest graph gathers */
	/* memory of gt_group_alloc() that is lent to the store; or NULL */
	void *gradients, *parameters;
	/* zero1 with `compress`: memory of the group, with all gradients as they are sent; or
	 * NULL */
	uint16_t *sent;
};

/* Change the store's layout to buckets of about `bytes` bytes that divide into `ranks` equal
 * shards. Parameters for which whole() returns true lie in one shard; `whole` may be NULL. The
 * caller calls gt_buckets_release() in any case. */
int gt_zero_cut(struct gt_buckets *out, struct gt_store *store, int ranks, int64_t bytes,
    bool (*whole)(const struct gt_slot *slot), struct gt_err *err);

/* Insert the collectives into a graph with a backward pass, or, for zero3, without one. */
int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
int gt_zero_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

#endif
