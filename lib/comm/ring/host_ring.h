/* host_ring.h - inside comm: groups for host memory whose ranks form a ring. */
#ifndef GT_COMM_RING_HOST_RING_H
#define GT_COMM_RING_HOST_RING_H

#include "lib/comm/group_backend.h"
#include "lib/comm/ring/peers.h"
#include "lib/comm/ring/ring.h"

/* The functions of one kind of ring: copies between peers, and these. */
struct gt_ring_kind {
	struct gt_ring_peers peers;

	/* From any thread: waits of this rank end in an error from now on. */
	void (*stop)(void *self);
	void (*free)(void *self);

	/* Make a ring of a group that was split from `below`, as gt_ring_of_shm() does. */
	int (*make)(struct gt_group **group, struct gt_err *err);
};

struct gt_ring {
	struct gt_group group;
	struct gt_group *below; /* for messages, barriers and memory; owned */
	const struct gt_ring_kind *kind;
	struct gt_ring_seat seat; /* its `self` is owned */
	struct gt_queue queue;
};

/* ---- ring.c ---- */

/* A ring of the ranks of `below`. On success it owns `below` and `self`. */
int gt_ring_new(struct gt_group **out, struct gt_group *below, const struct gt_ring_kind *kind,
    void *self, size_t chunk_bytes, struct gt_err *err);

#endif
