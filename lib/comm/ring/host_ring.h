/* host_ring.h - private: a ring group for host memory, and the functions of a kind of ring. */
#ifndef GT_COMM_RING_HOST_RING_H
#define GT_COMM_RING_HOST_RING_H

#include "lib/comm/group_backend.h"
#include "lib/comm/ring/peers.h"
#include "lib/comm/ring/ring.h"

/* One kind of ring. `self` is the state of one rank. */
struct gt_ring_kind {
	struct gt_ring_peers peers;

	/* Make all waits of this rank fail from now on; from any thread. */
	void (*stop)(void *self);
	void (*free)(void *self);

	/* Replace *group, a split of `below`, by a ring of this kind. */
	int (*make)(struct gt_group **group, struct gt_err *err);
};

struct gt_ring {
	struct gt_group group;
	/* owned; runs messages and barriers, and allocates memory */
	struct gt_group *below;
	const struct gt_ring_kind *kind;
	struct gt_ring_seat seat; /* seat.self is owned */
	struct gt_queue queue;
};

/* ---- ring.c ---- */

/* On success the ring owns `below` and `self`. */
int gt_ring_new(struct gt_group **out, struct gt_group *below, const struct gt_ring_kind *kind,
    void *self, size_t chunk_bytes, struct gt_err *err);

#endif
