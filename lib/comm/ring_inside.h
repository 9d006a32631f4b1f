/* ring_inside.h - inside comm: the functions by which a ring copies between neighbours. */
#ifndef GT_COMM_RING_INSIDE_H
#define GT_COMM_RING_INSIDE_H

#include "lib/comm/group_inside.h"
#include "lib/comm/ring.h"

enum {
	RING_FLIGHT = 4, /* chunks of one slice that are on their way at a time */
	RING_SLOTS = 8   /* chunks that a rank's receive buffer holds */
};

/*
 * Peer copies: how a rank's chunks get to the next rank, by way of that one's receive buffer. It
 * has RING_SLOTS slots of chunk_bytes, which are used in turn. For each chunk
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

	/* From any thread: waits of this rank end in an error from now on. */
	void (*stop)(void *self);
	void (*free)(void *self);

	/* Make a ring of a group that was split from the one below: as gt_ring_of_shm(). */
	int (*make)(struct gt_group **group, struct gt_err *err);
};

struct gt_ring {
	struct gt_group group;
	struct gt_group *below; /* for messages, barriers and memory; owned */
	const struct gt_ring_peers *peers;
	void *self;         /* of peers; owned */
	size_t chunk_bytes; /* 4096 or more, the same on all ranks */
	struct gt_queue queue;
};

/* ---- ring.c ---- */

/* A ring of the ranks of `below`. On success it owns `below` and `self`. */
int gt_ring_new(struct gt_group **out, struct gt_group *below, const struct gt_ring_peers *peers,
    void *self, size_t chunk_bytes, struct gt_err *err);

/* ---- ring_collectives.c ---- */

/* All but messages and barriers, in a group of 2 or more. */
int gt_ring_collect(const struct gt_ring *r, const struct gt_collective *c, struct gt_err *err);

#endif
