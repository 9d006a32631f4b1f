/* thread_peers.h - let ranks that are threads of one process queue work at about the same speed. */
#ifndef GT_KERNELS_CUDA_GROUP_THREAD_PEERS_H
#define GT_KERNELS_CUDA_GROUP_THREAD_PEERS_H

#include "kernels/cuda/group/group.h"

/* Thread peers are ranks of a group that are threads of one process. They wait for each other on
 * the host, because CUDA blocks launches once about 1024 operations of the process are queued:
 * thread_peers.c says when. The waits end if the group fails or is stopped. Without thread peers,
 * g->thread_peers is NULL, and the functions after gt_cuda_thread_peers_find() do nothing. */
enum {
	/* acts (the work on one chunk) that all thread peers may queue ahead of the slowest; one is
	 * about six operations */
	GT_CUDA_THREAD_PEERS_ACTS = 64
};

/* check_queues() of gt_cuda_backend (lib/device/backend.h). */
int gt_cuda_check_queues(struct gt_group *host, const struct gt_device *device, struct gt_err *err);

/* Find the thread peers. All ranks call this, before links->connect(), after which the others may
 * be called. Errors: GT_EDEVICE if a GPU has too few hardware queues. */
int gt_cuda_thread_peers_find(struct gt_cuda_group *g, struct gt_err *err);

/* Wait before *c is queued. */
int gt_cuda_thread_peers_before(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wait in a long collective, after this rank has queued `acts` acts of it. */
int gt_cuda_thread_peers_within(struct gt_cuda_group *g, uint32_t acts, struct gt_err *err);

/* Wait in a long message, after this rank has queued `chunks` chunks of it. */
int gt_cuda_thread_peers_along(
    struct gt_cuda_group *g, const struct gt_collective *c, uint32_t chunks, struct gt_err *err);

/* Wait after *c was queued. */
int gt_cuda_thread_peers_after(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wait after a receive was queued, before the caller's stream waits for it. */
int gt_cuda_thread_peers_meet(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wake the waits of this rank, which end if the group failed or was stopped. Any thread may call
 * this. */
void gt_cuda_thread_peers_wake(struct gt_cuda_group *g);

void gt_cuda_thread_peers_free(struct gt_cuda_group *g);

#endif
