/* mates.h - let ranks that are threads of one process queue work at about the same speed. */
#ifndef GT_KERNELS_CUDA_GROUP_MATES_H
#define GT_KERNELS_CUDA_GROUP_MATES_H

#include "kernels/cuda/group/group.h"

/*
 * Ranks of a group that are threads of one process are called mates. CUDA makes a launch wait, on
 * the host, once about 1024 operations of the process are queued and not done. Suppose a rank
 * queues a collective and then 1024 more operations, and a mate has not queued the same collective
 * yet. Then the launch of the mate waits for these operations, and they wait for the mate: a
 * deadlock.
 *
 * So mates wait for each other on the host, without a call of CUDA:
 *
 *   after a collective       until all mates have queued the same collective
 *   in a long collective     until every mate is at most N acts behind. The ring algorithm cuts
 *                            buffers into chunks; an act is the work on one chunk in one step
 *                            of the ring (lib/comm/ring/collectives.c). N is GT_CUDA_MATES_ACTS
 *                            divided by the number of mates, this rank included, but at least 2
 *   before a message         until the mate at the other end has queued the previous message of
 *                            the same direction
 *   in a long message        until the mate at the other end is at most 2 N chunks behind: a chunk
 *                            of a message takes half as many operations as an act
 *   after a receive          until the mate has queued the matching send. Otherwise later work on
 *                            the caller's stream, which waits for the message, could fill the
 *                            1024 operations
 *
 * For messages, gt_group_run() waits in the last two cases. gt_group_start() does not: two messages
 * in opposite directions would wait for each other.
 *
 * If the group fails, these waits end with the error of the group. They also end, with an error,
 * when gt_group_stop() is called. They have no timeout of their own. The watch, a thread of the
 * group (group.h), has a timeout: when it expires, the group fails. If no rank of the group has a
 * mate, g->mates is NULL, and the functions below gt_cuda_mates_find() do nothing.
 */
enum {
	/* Acts that all mates together may have queued ahead of the slowest mate. An act is about
	 * six operations of CUDA, so 64 acts are about 384 of the 1024 operations. */
	GT_CUDA_MATES_ACTS = 64
};

/* The function `check_queues` of gt_cuda_backend (lib/device/backend.h). */
int gt_cuda_check_queues(struct gt_group *host, const struct gt_device *device, struct gt_err *err);

/*
 * Find the mates, and set g->mates. All ranks of the group must call this. Call it after g->stream
 * is created and before links->connect() (struct gt_cuda_links). Call the functions below, except
 * gt_cuda_mates_free(), only after connect() has returned, because they use a lock that one of the
 * mates initializes. connect() waits for all ranks, and so also for the rank that initializes the
 * lock.
 *
 * Errors: GT_EDEVICE on all ranks if mates share a GPU and it has too few hardware queues for the
 * streams of their process (kernels/cuda/runtime/queues.h); the errors of lib/comm/group.h.
 */
int gt_cuda_mates_find(struct gt_cuda_group *g, struct gt_err *err);

/* Call this before the collective or message *c is queued. */
int gt_cuda_mates_before(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* In a long collective, call this each time this rank has queued an act. `acts` is the number of
 * acts of this collective that this rank has queued so far. */
int gt_cuda_mates_within(struct gt_cuda_group *g, uint32_t acts, struct gt_err *err);

/* In a long message, call this each time this rank has queued a chunk. `chunks` is the number of
 * chunks of the message *c that this rank has queued so far. */
int gt_cuda_mates_along(
    struct gt_cuda_group *g, const struct gt_collective *c, uint32_t chunks, struct gt_err *err);

/* Call this after the collective or message *c was queued. */
int gt_cuda_mates_after(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Call this after the message *c was queued, and before the caller's stream waits for it. It does
 * nothing for a send. */
int gt_cuda_mates_meet(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* End the waits of this rank: the group has failed or was stopped. May be called on any thread. */
void gt_cuda_mates_wake(struct gt_cuda_group *g);

/* Free g->mates. */
void gt_cuda_mates_free(struct gt_cuda_group *g);

#endif
