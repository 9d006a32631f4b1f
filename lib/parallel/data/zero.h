/* zero.h - inside parallel: data parallelism whose ranks divide the memory that ddp takes. */
#ifndef GT_PARALLEL_DATA_ZERO_H
#define GT_PARALLEL_DATA_ZERO_H

#include "lib/parallel/data/buckets.h"
#include "lib/parallel/data/modes.h"

/*
 * Each bucket (buckets.h) is divided into as many equal shards as there are ranks; the layout is
 * padded to make that possible (gt_zero_cut()). Rank r owns shard r: it alone updates this shard,
 * and keeps its optimizer state. The stages are
 *
 *   zero1  Each rank has memory for all gradients. A bucket is reduce-scattered in the background
 *          as soon as it is complete; after the update the parameters are all-gathered. ddp's
 *          all-reduce sends as many bytes, since it consists of these two halves.
 *   zero2  A rank keeps only the gradients of its shards. The gradients of a bucket are computed in
 *          a temporary of the plan's arena, which lives until the bucket is reduced. While one
 *          bucket is sent, the next one is computed, and then waits for it. Each micro-batch is
 *          reduced, and added to the gradients that the rank keeps.
 *   zero3  A rank keeps only its shards of the parameters, too. A bucket is gathered into a
 *          temporary before its first reader, freed after the last, and gathered again for the
 *          backward pass. While nodes use one bucket, the next one is sent. So a forward pass is a
 *          collective call.
 *
 * Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020 (arXiv 1910.02054).
 */
struct gt_zero {
	int stage;
	struct gt_buckets buckets;
	struct gt_part *parts; /* [buckets.size] this rank's */
	struct gt_part *gaps;  /* the padding between parameters, in any order */
	size_t gap_count;
	struct gt_zero_tickets {
		uint64_t reduced, gathered;
	} * tickets;                  /* [buckets.size] of the latest collectives; 0: none yet */
	int64_t gathered;             /* elements of the buckets that a run of the plan gathers */
	void *gradients, *parameters; /* the store's, in memory of the group's; NULL: its own */
};

/*
 * Change the layout of the store to buckets of about `bytes` each, which can be divided into equal
 * shards. Parameters for which whole() is true (NULL: none) get buckets of their own, whose shards
 * contain only whole parameters. There each parameter, the largest first, goes to the rank with the
 * fewest elements so far, and all shards are padded to the largest. Such a bucket is extended until
 * it has as many elements as `ranks` times its largest parameter, so that at most half of it is
 * padding. The last bucket is merged with earlier ones until it is that large. If one parameter is
 * larger than all others together, it never is; then any parameters that fit replace padding. Two
 * ranks, parameters A of 128 elements, b of 16, C of 48 and D of 32, in one bucket of each kind:
 *
 *   none whole      | A b C D |   224 elements: rank 0 owns the first 112 of A, rank 1 the rest
 *   A, C, D whole   | A C D b p |   256 elements: rank 0 owns A, rank 1 C, D, b and 32 of padding p
 *
 * Release *out in any case. Errors: GT_ENOMEM.
 */
int gt_zero_cut(struct gt_buckets *out, struct gt_store *store, int ranks, int64_t bytes,
    bool (*whole)(const struct gt_slot *slot), struct gt_err *err);

/* The mode's insert() and insert_forward(): zero_nodes.c. */
int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
int gt_zero_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

#endif
