/* zero.h - private: data parallelism that divides state among ranks (zero1 to zero3). */
#ifndef GT_PARALLEL_DATA_ZERO_H
#define GT_PARALLEL_DATA_ZERO_H

#include "lib/parallel/data/buckets.h"
#include "lib/parallel/state.h"

/*
 * With ddp, every rank keeps all gradients, parameters and optimizer states. In the modes of this
 * file, the ranks of the data axis (lib/parallel/parallel.h) divide them. Each bucket (buckets.h)
 * is divided into equal shards, one for each rank. gt_zero_cut() pads the layout to make this
 * possible. Rank r owns shard r: only rank r updates this shard, and keeps its optimizer state. The
 * three modes are called stages 1 to 3:
 *
 *   zero1  Each rank has memory for all gradients. A bucket is reduce-scattered in the background
 *          as soon as it is complete. After the update, the parameters are all-gathered. The two
 *          collectives together send as many bytes as the all-reduce of ddp.
 *   zero2  As zero1, and a rank keeps only the gradients of its shards. The gradients of a bucket
 *          are computed in a temporary value, which stays in the plan's arena until the bucket is
 *          reduced. While one bucket is reduced, the gradients of the next bucket are computed.
 *          Only one bucket is reduced at a time: the next reduction begins after its end. In each
 *          micro-batch, the reduced gradients are added to the gradients that the rank keeps.
 *   zero3  As zero2, and a rank keeps only its shards of the parameters. A bucket is gathered into
 *          a temporary before the first node that reads the bucket, freed after the last such node,
 *          and gathered again for the backward pass. While nodes use one bucket, the next bucket is
 *          gathered. Because of the gathers, a forward pass is a collective call: all ranks have to
 *          run it together.
 *
 * Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020 (arXiv 1910.02054).
 */
struct gt_zero {
	int stage; /* 1, 2 or 3 */
	struct gt_buckets buckets;
	struct gt_part *gaps; /* [gap_count]: ranges of padding between parameters */
	size_t gap_count;
	/* [buckets.size]: for each bucket, the tickets of its latest reduce-scatter and of its
	 * latest all-gather; 0: none yet. A ticket is a number that one can wait for
	 * (lib/comm/group.h). */
	struct gt_zero_tickets {
		uint64_t reduced, gathered;
	} * tickets;
	int64_t gathered; /* zero3: elements that a run of the largest graph gathers */
	/* memory from gt_group_alloc() that is lent to the store; NULL: the store has its own */
	void *gradients, *parameters;
};

/*
 * Change the layout of the store: divide it into buckets of about `bytes` bytes each. Each bucket
 * can be divided into `ranks` equal shards. If whole() returns true for a parameter, the parameter
 * must stay whole. A shard may begin or end in the middle of any other parameter. If `whole` is
 * NULL, no parameter must stay whole.
 *
 * Parameters that must stay whole are in separate buckets, called whole buckets here. No shard of a
 * whole bucket begins or ends in the middle of a parameter. To divide the bucket, the parameters
 * are taken by size, the largest first, and each goes to the rank with the fewest elements so far.
 * Then all shards are padded to the size of the largest shard. A whole bucket gets parameters until
 * it has at least `ranks` times the elements of its largest parameter, so at most half of the
 * bucket is padding. If the last whole bucket is smaller, it is merged with earlier whole buckets
 * until it is that large. If there are too few parameters that must stay whole, other parameters
 * take the place of padding where they fit.
 *
 * Example: two ranks, parameters A of 128 elements, b of 16, C of 48 and D of 32.
 *
 *   whole() is true for:
 *   no parameter    | A b C D |   224 elements: rank 0 owns the first 112 of A, rank 1 the rest
 *   A, C and D      | A C D b p |   256 elements: rank 0 owns A; rank 1 owns C, D, b and the
 *                                 padding p of 32 elements
 *
 * The caller calls gt_buckets_release() for *out in any case. Errors: GT_ENOMEM.
 */
int gt_zero_cut(struct gt_buckets *out, struct gt_store *store, int ranks, int64_t bytes,
    bool (*whole)(const struct gt_slot *slot), struct gt_err *err);

/* Insert the collectives of a mode into a graph with a backward pass (zero1, zero2, zero3), or into
 * a graph without one (only zero3). These are the functions `insert` and `insert_forward` of the
 * modes (modes.h). */
int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
int gt_zero_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

#endif
