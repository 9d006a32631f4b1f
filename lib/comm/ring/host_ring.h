/* host_ring.h - private: a ring group for host memory, and the functions of a kind of ring. */
#ifndef GT_COMM_RING_HOST_RING_H
#define GT_COMM_RING_HOST_RING_H

#include "lib/comm/group_backend.h"
#include "lib/comm/ring/peers.h"
#include "lib/comm/ring/ring.h"

/* The functions of one kind of ring: its way to copy data to the next rank (peers.h), and the
 * functions below. Their argument `self` is the state of one rank in a ring of this kind. */
struct gt_ring_kind {
	struct gt_ring_peers peers;

	/* Make all waits of this rank fail from now on. May be called on any thread. */
	void (*stop)(void *self);
	void (*free)(void *self);

	/* Replace *group by a ring of this kind with the same ranks. gt_group_split() of a ring
	 * splits the ring's group `below`, and calls this function with the result. */
	int (*make)(struct gt_group **group, struct gt_err *err);
};

struct gt_ring {
	struct gt_group group;
	/* The group from which the ring was made; owned. It runs messages and barriers, and
	 * allocates memory. */
	struct gt_group *below;
	const struct gt_ring_kind *kind;
	struct gt_ring_seat seat; /* this rank's position in the ring; seat.self is owned */
	struct gt_queue queue;
};

/* ---- ring.c ---- */

/* Make a ring of the ranks of `below`. On success the ring owns `below` and `self`. Each rank has a
 * receive buffer with GT_RING_SLOTS slots of `chunk_bytes` bytes. */
int gt_ring_new(struct gt_group **out, struct gt_group *below, const struct gt_ring_kind *kind,
    void *self, size_t chunk_bytes, struct gt_err *err);

#endif
