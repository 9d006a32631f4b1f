/* zero.h - inside parallel: data parallelism whose ranks divide the memory that ddp takes. */
#ifndef GT_PARALLEL_DATA_ZERO_H
#define GT_PARALLEL_DATA_ZERO_H

#include "lib/parallel/data/buckets.h"
#include "lib/parallel/data/modes.h"

/*
 * Of each bucket (buckets.h) rank r owns the r-th of as many equal parts as there are ranks; the
 * layout is padded so that there are (gt_zero_cut()). A rank updates its part alone, and keeps
 * optimizer state for it alone. Then
 *
 *   zero1  Gradients are whole. A bucket is reduce-scattered in the background as soon as it is
 *          full; after the update the parameters are all-gathered. That is as many bytes as ddp's
 *          all-reduce, whose two halves these are.
 *   zero2  A rank keeps the gradients of its part. Those of a bucket are made in a temporary of
 *          the plan's arena, which lives until it is reduced: while one bucket travels, the next is
 *          made, and waits for it. Each micro-batch is reduced, and added to the gradients that the
 *          rank keeps.
 *   zero3  Parameters, too: a bucket is gathered into a temporary before its first reader, dies
 *          behind the last, and is gathered again for the backward pass; while nodes work on one,
 *          the next travels. A forward pass is a collective call, then.
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
 * Lay the store out anew in buckets of about `bytes` each, every one of which divides into equal
 * parts for the ranks. Parameters for which whole() is true (NULL: none) get buckets of their own,
 * where no part ends within one: each goes, the largest first, to the rank that has least so far,
 * and every rank's part is padded to the largest. Such a bucket goes on until it has as many
 * elements as all ranks would with its largest parameter each, so that no more than half of it is
 * padding. The last one takes in those before it until it has. If it never does, because one
 * parameter is larger than all others together, any parameters take the place of padding where they
 * fit. Two ranks, parameters A of 128 elements, b of 16, C of 48 and D of 32, in one bucket of each
 * kind:
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
