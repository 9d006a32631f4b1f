/* mates.h - let ranks that are threads of one process queue work at about the same speed. */
#ifndef GT_KERNELS_CUDA_GROUP_MATES_H
#define GT_KERNELS_CUDA_GROUP_MATES_H

#include "kernels/cuda/group/group.h"

/*
 * Ranks of a group that are threads of one process are called mates. CUDA makes a launch wait, on
 * the host, once about 1024 operations of the process are queued and not done. A rank could queue
 * so many operations behind a collective that a mate has not queued yet. Then the launch of the
 * mate waits for these operations, and they wait for the mate: a deadlock.
 *
 * So mates wait for each other on the host, without a call of CUDA:
 *
 *   after a collective       until all mates have queued it, too
 *   in a long collective     until no mate is more acts behind than GT_CUDA_MATES_ACTS divided by
 *                            the number of mates; an act is the work on one chunk
 *   before a message         until the mate at the other end has queued the message before it
 *   before work behind a     until the mate has queued the message, if the caller's stream waits
 *   message is queued        for it (gt_group_run())
 *
 * gt_group_start() does not wait until a message itself is queued at the other end: two messages in
 * opposite directions must not be a deadlock.
 *
 * These waits end with the error of the group when the group fails, and when gt_group_stop() is
 * called. They have no timeout of their own: the watch has one. All functions do nothing if
 * g->mates is NULL: no rank of the group has a mate.
 */
enum {
	/* an act is about six operations of a ring (lib/comm/ring/peers.h) */
	GT_CUDA_MATES_ACTS = 64
};

/*
 * Find the mates, and set g->mates. A collective call, made after g->stream was created and before
 * the links connect; the ranks meet once more in connect() before they call the functions below.
 *
 * Errors: GT_EDEVICE, on all ranks, if mates share a GPU, and the streams of the process on this
 * GPU are more than its hardware queues (kernels/cuda/host_call.c). The errors of lib/comm/group.h.
 */
int gt_cuda_mates_find(struct gt_cuda_group *g, struct gt_err *err);

/* Call this before the collective or message *c is queued. */
int gt_cuda_mates_before(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Call this in a long collective, after each act of a rank: `acts` acts of it are queued. */
int gt_cuda_mates_within(struct gt_cuda_group *g, uint32_t acts, struct gt_err *err);

/* Call this after the collective or message *c was queued. */
int gt_cuda_mates_after(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Call this after the message *c was queued, and before the caller's stream waits for it. */
int gt_cuda_mates_meet(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* End the waits of this rank: the group has failed or was stopped. May be called on any thread. */
void gt_cuda_mates_wake(struct gt_cuda_group *g);

/* Free g->mates. */
void gt_cuda_mates_free(struct gt_cuda_group *g);

#endif
