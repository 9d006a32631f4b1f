/* peers.h - collectives that go around a ring, over any kind of copies between neighbours. */
#ifndef GT_COMM_RING_PEERS_H
#define GT_COMM_RING_PEERS_H

#include "lib/comm/group.h"

/*
 * Two groups are rings: that of CPU ranks (ring.h), and that of GPUs of one host
 * (kernels/cuda/ring/). They share the order of chunks and sums, which is here, and differ in how a
 * chunk gets to the next rank.
 */
enum {
	GT_RING_FLIGHT = 4, /* chunks of one slice that are on their way at a time */
	GT_RING_SLOTS = 8   /* chunks that a rank's receive buffer holds */
};

/* ---- sums from rank to rank ---- */

/*
 * Each element is summed as a tree over the ranks, as group.h has it for ordered groups, although a
 * ring may begin at any rank: a rank hands on the partial sums of the tree that are complete so
 * far. Four ranks, from rank 1 on:
 *
 *   rank 1 sends    1
 *   rank 2 sends    1   2             not 1 + 2, which is no part of (0 + 1) + (2 + 3)
 *   rank 3 sends    1   2 + 3
 *   rank 0 has      (0 + 1) + (2 + 3)
 *
 * A rank adds to its own numbers the partial sums that it completes, one after the other, and
 * copies the others. Two ranks send one partial sum, up to four send two, up to eight three, n
 * about log2(n).
 */
enum { GT_RING_PARTIALS = 20 }; /* 2 log2 of the number of ranks, at most */

/* Dealing with the partial sums that a rank receives: by their place, before and behind it. */
struct gt_ring_hop {
	int received, sent; /* partial sums; those that are kept, then this rank's */
	int added_count, kept_count;
	int added[GT_RING_PARTIALS], kept[GT_RING_PARTIALS];
};

/* The hop of the ring's k-th rank, 0 <= k < size, if rank `first` is the one with k = 0. */
struct gt_ring_hop gt_ring_hop_of(int size, int first, int k);

/* Most partial sums that a rank sends. */
int gt_ring_most_partials(int size);

/* The type of a partial sum, so that it is rounded once, in the end: float32 for F16 and BF16,
 * otherwise the type itself. */
enum gt_dtype gt_reduce_partial(enum gt_dtype dtype);

/* One step of a reduction that goes from rank to rank: ((in + partial[0]) + partial[1]) ..., or the
 * largest of them. */
struct gt_reduce_step {
	void *dst[2];                          /* [count] each; one may be `in` */
	int dsts;                              /* 1 or 2 */
	int partials;                          /* 0: this rank is the first */
	const void *partial[GT_RING_PARTIALS]; /* [count] of gt_reduce_partial(dtype) */
	const void *in;                        /* [count] of dtype */
	size_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
	int ranks; /* 0: dst gets a partial result; otherwise that of so many ranks, in dtype */
};

/* ---- peer copies ---- */

/*
 * Peer copies: how a rank's chunks get to the next rank, by way of that one's receive buffer. It
 * has GT_RING_SLOTS slots of chunk_bytes, which are used in turn. For each chunk
 *
 *   the sender    has room() for it in the neighbour's buffer, writes it there by copy() or by
 *                 reduce(), and is to signal() that it is there
 *   the receiver  has it when it arrived(), reads it by copy() or by reduce(), and is to consume()
 *                 it, which gives the slot back to the sender
 *
 * Chunks arrive in the order in which they are signalled. The ring looks at no data: an address is
 * for copy() and reduce() alone. So these functions may wait, as they do on the CPU, or put all of
 * this on a stream and return at once, as long as it is done in the order of the calls.
 *
 * Errors: 0, or a negative code with *err; nothing of the collective is called after it.
 */
struct gt_ring_peers {
	/* A collective begins: make sure that all ranks call the same. */
	int (*enter)(void *self, const struct gt_collective *c, struct gt_err *err);

	int (*room)(void *self, void **slot, struct gt_err *err);
	int (*signal)(void *self, struct gt_err *err);
	int (*arrived)(void *self, const void **slot, struct gt_err *err);
	int (*consume)(void *self, struct gt_err *err);

	/* `bytes` to each of dst[dsts], one of which may be src. */
	int (*copy)(void *self, void *const *dst, int dsts, const void *src, size_t bytes,
	    struct gt_err *err);
	int (*reduce)(void *self, const struct gt_reduce_step *step, struct gt_err *err);
};

/* A rank's place in a ring. */
struct gt_ring_seat {
	int rank, size;
	const struct gt_ring_peers *peers;
	void *self;         /* of peers */
	size_t chunk_bytes; /* of a slot: 512 or more, the same on all ranks */
	int partials;       /* gt_ring_most_partials(size), which takes size^2 steps */
};

/*
 * All collectives but messages and barriers, in a ring of 2 or more. With n ranks, P =
 * gt_ring_most_partials(n) and B the bytes of the whole, which for half precision are those of its
 * sums in float32, a rank sends
 *
 *   all-reduce       2 (n - 1) steps, (n - 1) / n of B as partial sums, which are 1 to P, and
 *                    (n - 1) / n of B as results
 *   reduce-scatter   the first half of that; all-gather: the second
 *   broadcast, reduce   once around: B, or B in 1 to P partial sums
 */
int gt_ring_collect(
    const struct gt_ring_seat *seat, const struct gt_collective *c, struct gt_err *err);

#endif
