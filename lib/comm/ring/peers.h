/* peers.h - the ring algorithm for collectives, for any way to copy data to the next rank. */
#ifndef GT_COMM_RING_PEERS_H
#define GT_COMM_RING_PEERS_H

#include "lib/comm/group.h"

/*
 * There are two kinds of rings: rings of CPU ranks (ring.h), and rings of GPUs on one host
 * (kernels/cuda/ring/). Both use the algorithm of this header. They differ in how a chunk is copied
 * to the next rank.
 */
enum {
	/* A long buffer is processed part by part. Each part is divided into one slice per rank,
	 * and each slice into this number of chunks. While a rank adds up one chunk, the other
	 * chunks of the slice are on their way. */
	GT_RING_FLIGHT = 4,
	GT_RING_SLOTS = 8 /* chunks that the receive buffer of a rank can hold */
};

/* ---- sums from rank to rank ---- */

/*
 * Rings are ordered groups: each element is summed in the order of a fixed tree over the ranks
 * (lib/comm/group.h). But in a ring the first rank of a sum may be any rank. So a rank sends not
 * one sum, but all partial sums of the tree that are complete so far. Example: the sum over four
 * ranks that begins at rank 1.
 *
 *   rank 1 sends    1
 *   rank 2 sends    1   2             not 1 + 2, which is not a partial sum of (0 + 1) + (2 + 3)
 *   rank 3 sends    1   2 + 3
 *   rank 0 has      (0 + 1) + (2 + 3)
 *
 * A rank adds some of the received partial sums to its own elements: those that it can add without
 * changing the order of the tree. It sends the result, and copies the other partial sums unchanged.
 * The largest number of partial sums that a rank sends is 1 for two ranks, 2 for up to four, 3 for
 * up to eight, and about log2(n) for n ranks.
 */
enum { GT_RING_PARTIALS = 20 }; /* upper limit of partial sums; 1024 ranks send about 10 */

/* A hop: the work of one rank on the partial sums of a chunk. Received partial sums are numbered
 * from 0 on. The rank first sends the partial sums that it copies unchanged, then the one that it
 * has computed. */
struct gt_ring_hop {
	int received, sent; /* number of partial sums */
	int added_count, kept_count;
	/* Indices of received partial sums. `added`: the rank adds these to its own elements, in
	 * this order. `kept`: the rank copies these unchanged. */
	int added[GT_RING_PARTIALS], kept[GT_RING_PARTIALS];
};

/* Return the hop of rank (first + k) modulo size, 0 <= k < size, for a sum that begins at rank
 * `first` of `size` ranks. */
struct gt_ring_hop gt_ring_hop_of(int size, int first, int k);

/* Return the largest number of partial sums that a rank sends in a ring of `size` ranks. */
int gt_ring_most_partials(int size);

/* Return the type of partial sums for elements of `dtype`: float32 for F16 and BF16, otherwise
 * `dtype` itself. So a sum is rounded to `dtype` only once, at the end. */
enum gt_dtype gt_reduce_partial(enum gt_dtype dtype);

/* One step of a reduction that passes from rank to rank. It computes, for each element,
 * ((in + partial[0]) + partial[1]) + ..., or the maximum of these numbers for GT_MAX. */
struct gt_reduce_step {
	void *dst[2];                          /* results, [count] each; one may be equal to `in` */
	int dsts;                              /* number of results, 1 or 2 */
	int partials;                          /* number of partial sums; 0 on the first rank */
	const void *partial[GT_RING_PARTIALS]; /* [count] each, of type gt_reduce_partial(dtype) */
	const void *in;                        /* elements of this rank, [count] of dtype */
	size_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
	/* 0: dst gets partial sums, of type gt_reduce_partial(dtype). Otherwise dst gets the final
	 * result, of type dtype, of the reduction over `ranks` ranks. */
	int ranks;
};

/* ---- peer copies ---- */

/*
 * Each rank has a receive buffer with GT_RING_SLOTS slots of chunk_bytes bytes. The previous rank
 * in the ring writes chunks to the slots, one after the other, and begins again with the first
 * slot. For each chunk these functions are called:
 *
 *   on the sender    free_slot()         wait until the next rank has a free slot
 *                    copy(), reduce()    write the chunk to this slot
 *                    signal()            tell the next rank that the slot is full
 *   on the receiver  arrived()           wait until a slot is full
 *                    copy(), reduce()    read the chunk from this slot
 *                    consume()           give the slot back to the sender
 *
 * Chunks arrive in the order of the calls of signal(). The ring algorithm itself never reads data;
 * it only passes addresses to copy() and reduce(). So there are two ways to implement these
 * functions. They may wait, and do the work before they return, as on the CPU. Or they may queue
 * the waiting and the work on a stream and return immediately, as on GPUs. In both cases the work
 * is done in the order of the calls.
 *
 * The functions return 0 or a negative code with *err. After an error, no more functions are called
 * for this collective.
 */
struct gt_ring_peers {
	/* Begin a collective: check that all ranks call the same collective. */
	int (*enter)(void *self, const struct gt_collective *c, struct gt_err *err);

	int (*free_slot)(void *self, void **slot, struct gt_err *err);
	int (*signal)(void *self, struct gt_err *err);
	int (*arrived)(void *self, const void **slot, struct gt_err *err);
	int (*consume)(void *self, struct gt_err *err);

	/* Copy `bytes` bytes from src to each of dst[dsts]. One dst may be equal to src. */
	int (*copy)(void *self, void *const *dst, int dsts, const void *src, size_t bytes,
	    struct gt_err *err);
	/* Do one step of a reduction. */
	int (*reduce)(void *self, const struct gt_reduce_step *step, struct gt_err *err);
};

/* The seat of a rank: its position in the ring, and the functions that copy to its neighbors. */
struct gt_ring_seat {
	int rank, size;
	const struct gt_ring_peers *peers;
	void *self;         /* first argument of the functions of `peers` */
	size_t chunk_bytes; /* size of a slot: 512 or more, the same on all ranks */
	/* gt_ring_most_partials(size); stored, because its computation takes size^2 steps */
	int partials;
};

/*
 * Run a collective in a ring of two or more ranks: any kind except messages and barriers.
 *
 * Cost. Let n be the number of ranks, P = gt_ring_most_partials(n), and B the bytes of the whole
 * buffer. Each rank sends the number of bytes below. Partial sums of F16 and BF16 are sent as
 * float32, so they take twice this number of bytes.
 *
 *   reduce-scatter   n - 1 steps, B * (n - 1) / n bytes for each partial sum; 1 to P partial sums
 *   all-gather       n - 1 steps, B * (n - 1) / n bytes
 *   all-reduce       a reduce-scatter and an all-gather
 *   broadcast        B bytes, in chunks that go once around the ring
 *   reduce           B bytes for each partial sum; 1 to P partial sums
 */
int gt_ring_collect(
    const struct gt_ring_seat *seat, const struct gt_collective *c, struct gt_err *err);

#endif
