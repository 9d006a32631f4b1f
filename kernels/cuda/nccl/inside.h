/* inside.h - groups over NCCL: what their files share. */
#ifndef GT_KERNELS_CUDA_NCCL_INSIDE_H
#define GT_KERNELS_CUDA_NCCL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/cuda/nccl/api.h"
#include "lib/comm/device_group.h"
#include "lib/comm/group_meet.h"
#include "lib/comm/lent.h"

/*
 * A group's collectives are queued on a stream of its own, in the order of their calls:
 *
 *   caller's stream   ... work | came                      (await: ended) | work ...
 *   own stream                   wait for came | begun | NCCL | ended
 *
 * NCCL does not notice that ranks call different collectives or that a rank is late, and not always
 * that one is dead: then GPUs wait for ever. So each group has a watch, a thread of the host. For
 * each collective, in order, the watch waits until this GPU has begun it. Then it meets the watches
 * of the other ranks in the group for host memory (group_meet.h), which finds ranks that are late
 * or dead or call another collective. Then it waits until the GPU has ended it. On an error the
 * watch aborts the communicator, so GPUs stop waiting, and all later calls for the device
 * return that error.
 */

struct gt_nccl_ticket {
	struct gt_event *begun, *ended;
	struct gt_collective c;
	atomic_bool queued; /* all of it, so `ended` is recorded */
};

struct gt_nccl_group {
	struct gt_group group;
	struct gt_group *host; /* owned; the watch calls it while there are collectives */
	const struct gt_device *device;
	struct gt_stream *stream;
	struct gt_event *came; /* the caller's stream has come to the collective */
	void *token;           /* device memory that a barrier all-reduces */
	struct gt_lent *lent;

	pthread_mutex_t calls; /* of the communicator: one function at a time */
	void *comm;            /* NULL: there is none, or none any more */

	pthread_t watch;
	bool has_watch;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	struct gt_nccl_ticket tickets[GT_GROUP_STARTED]; /* of ticket t: t modulo their number */
	uint64_t started;                                /* the caller's thread alone moves it on */
	uint64_t ended;                                  /* as the watch has seen */
	bool stopped;       /* nothing more is to be started: gt_group_stop() */
	bool given_up;      /* this rank gave up: its error is not sent, others see it leave */
	bool over;          /* the watch is to return when all has ended */
	atomic_bool failed; /* set with the lock, read without */
	struct gt_err err;  /* the first, where `failed` */
};

/* A pause between two looks at something; *pause_s grows from look to look, from 0 on. */
void gt_nccl_rest(double *pause_s);

/* ---- communicator.c ---- */

/* As struct gt_device_groups has it. */
int gt_nccl_check_ranks(struct gt_group *world, const struct gt_device *device, struct gt_err *err);

/* Connect the ranks: a collective call, before there is a watch. */
int gt_nccl_connect(struct gt_nccl_group *g, struct gt_err *err);

/* From any thread: let GPUs stop waiting, at once; or after finalizing with the other ranks, for a
 * group whose collectives have all ended. */
void gt_nccl_abort(struct gt_nccl_group *g);
void gt_nccl_disconnect(struct gt_nccl_group *g);

/* Wait until NCCL has queued the call that returned `status`. NCCL may have to connect the ranks
 * first. */
int gt_nccl_settle(
    struct gt_nccl_group *g, int status, const struct gt_collective *c, struct gt_err *err);

/* An error of the communicator in the background, while this collective is under way; or 0. */
int gt_nccl_background(struct gt_nccl_group *g, const struct gt_collective *c, struct gt_err *err);

/* ---- group.c ---- */

/* Make the group fail with *err. If it has failed before, copy that error to *err. From any
 * thread. */
int gt_nccl_fail(struct gt_nccl_group *g, struct gt_err *err);

/* 0, or the error that the group has failed with. */
int gt_nccl_failed(struct gt_nccl_group *g, struct gt_err *err);

/* ---- watch.c ---- */

int gt_nccl_watch(struct gt_nccl_group *g, struct gt_err *err);

/* Join the watch, which returns after all collectives have ended or after an error. */
void gt_nccl_end_watch(struct gt_nccl_group *g);

#endif
