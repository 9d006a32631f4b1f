/* mates.h - let ranks that are threads of one process queue work at about the same speed. */
#ifndef GT_KERNELS_CUDA_GROUP_MATES_H
#define GT_KERNELS_CUDA_GROUP_MATES_H

#include "kernels/cuda/group/group.h"

/* Mates are ranks of a group that are threads of one process. They wait for each other on the host,
 * because CUDA blocks launches once about 1024 operations of the process are queued: mates.c says
 * when. The waits end if the group fails or is stopped. Without mates, g->mates is NULL, and the
 * functions after gt_cuda_mates_find() do nothing. */
enum {
	/* acts (the work on one chunk) that all mates may queue ahead of the slowest; one is about
	 * six operations */
	GT_CUDA_MATES_ACTS = 64
};

/* check_queues() of gt_cuda_backend (lib/device/backend.h). */
int gt_cuda_check_queues(struct gt_group *host, const struct gt_device *device, struct gt_err *err);

/* Find the mates. All ranks call this, before links->connect(), after which the others may be
 * called. Errors: GT_EDEVICE if a GPU has too few hardware queues. */
int gt_cuda_mates_find(struct gt_cuda_group *g, struct gt_err *err);

/* Wait before *c is queued. */
int gt_cuda_mates_before(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wait in a long collective, after this rank has queued `acts` acts of it. */
int gt_cuda_mates_within(struct gt_cuda_group *g, uint32_t acts, struct gt_err *err);

/* Wait in a long message, after this rank has queued `chunks` chunks of it. */
int gt_cuda_mates_along(
    struct gt_cuda_group *g, const struct gt_collective *c, uint32_t chunks, struct gt_err *err);

/* Wait after *c was queued. */
int gt_cuda_mates_after(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wait after a receive was queued, before the caller's stream waits for it. */
int gt_cuda_mates_meet(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

/* End the waits of this rank. Any thread may call this. */
void gt_cuda_mates_wake(struct gt_cuda_group *g);

void gt_cuda_mates_free(struct gt_cuda_group *g);

#endif
