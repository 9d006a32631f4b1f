/* peers.h - the ring algorithm for collectives, for any way to copy data to the next rank. */
#ifndef GT_COMM_RING_PEERS_H
#define GT_COMM_RING_PEERS_H

#include "lib/comm/group.h"

/* Rings of CPU ranks (ring.h) and of GPUs (kernels/cuda/ring/) differ in how they copy a chunk. */
enum {
	/* chunks of a slice: while a rank adds up one, the others are on their way */
	GT_RING_CHUNKS = 4,
	GT_RING_SLOTS = 8 /* chunks that the receive buffer of a rank can hold */
};

/* ---- sums from rank to rank ---- */

/* A rank sends all partial sums of the fixed tree over the ranks that are complete so far
 * (collectives.c). */
enum { GT_RING_PARTIALS = 20 }; /* upper limit of partial sums; 1024 ranks send about 10 */

/* The work of one rank on the partial sums of a chunk. It sends first those that it copies
 * unchanged, then the one that it has computed. */
struct gt_ring_hop {
	int received, sent; /* number of partial sums */
	int added_count, kept_count;
	/* indices of received partial sums that the rank adds to its own elements, in this order,
	 * and of those that it copies unchanged */
	int added[GT_RING_PARTIALS], kept[GT_RING_PARTIALS];
};

/* Return the hop of rank (first + k) modulo size, 0 <= k < size, for a sum that begins at rank
 * `first` of `size` ranks. */
struct gt_ring_hop gt_ring_hop_of(int size, int first, int k);

/* The largest number of partial sums that a rank sends. */
int gt_ring_most_partials(int size);

/* The type of partial sums: float32 for F16 and BF16, which are rounded once, at the end. */
enum gt_dtype gt_reduce_partial(enum gt_dtype dtype);

/* For each element, ((in + partial[0]) + partial[1]) + ..., or the maximum. */
struct gt_reduce_step {
	void *dst[2];                          /* results, [count] each; one may be equal to `in` */
	int dsts;                              /* number of results, 1 or 2 */
	int partials;                          /* number of partial sums; 0 on the first rank */
	const void *partial[GT_RING_PARTIALS]; /* [count] each, of type gt_reduce_partial(dtype) */
	const void *in;                        /* elements of this rank, [count] of dtype */
	size_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
	/* 0: dst gets partial sums; otherwise the final result, reduced over so many ranks */
	int ranks;
};

/* ---- peer copies ---- */

/*
 * Each rank has a receive buffer of GT_RING_SLOTS slots, which the previous rank fills in turn. For
 * each chunk these functions are called:
 *
 *   on the sender    free_slot()         wait until the next rank has a free slot
 *                    copy(), reduce()    write the chunk to this slot
 *                    signal()            tell the next rank that the slot is full
 *   on the receiver  arrived()           wait until a slot is full
 *                    copy(), reduce()    read the chunk from this slot
 *                    consume()           give the slot back to the sender
 *
 * They may wait and work before they return, or queue the waiting and the work in this order on a
 * stream. After an error, no more of them are called for this collective.
 */
struct gt_ring_peers {
	/* Check that all ranks call the same collective. */
	int (*enter)(void *self, const struct gt_collective *c, struct gt_err *err);

	int (*free_slot)(void *self, void **slot, struct gt_err *err);
	int (*signal)(void *self, struct gt_err *err);
	int (*arrived)(void *self, const void **slot, struct gt_err *err);
	int (*consume)(void *self, struct gt_err *err);

	/* Copy `bytes` bytes from src to each of dst[dsts]. One dst may be equal to src. */
	int (*copy)(void *self, void *const *dst, int dsts, const void *src, size_t bytes,
	    struct gt_err *err);
	int (*reduce)(void *self, const struct gt_reduce_step *step, struct gt_err *err);
};

/* A rank's position in the ring, and the functions that copy to its neighbors. */
struct gt_ring_seat {
	int rank, size;
	const struct gt_ring_peers *peers;
	void *self;         /* first argument of the functions of `peers` */
	size_t chunk_bytes; /* size of a slot: 512 or more, the same on all ranks */
	/* gt_ring_most_partials(size), which takes size^2 steps */
	int partials;
};

/* Run a collective of two or more ranks: any kind except messages and barriers. */
int gt_ring_collect(
    const struct gt_ring_seat *seat, const struct gt_collective *c, struct gt_err *err);

#endif
