/* group.h - groups for the memory of GPUs: tickets, streams and errors that all of them share. */
#ifndef GT_KERNELS_CUDA_GROUP_GROUP_H
#define GT_KERNELS_CUDA_GROUP_GROUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/cuda/cuda.h"
#include "lib/comm/device_group.h"
#include "lib/comm/group_meet.h"
#include "lib/comm/lent.h"

/*
 * A group's collectives are queued on a stream of its own, in the order of their calls:
 *
 *   caller's stream   ... work | came                      (await: ended) | work ...
 *   own stream                   wait for came | begun | the links' work | ended
 *
 * The links between the GPUs are NCCL's (kernels/cuda/nccl/) or others. They do not detect that
 * ranks call different collectives or that a rank is late, and they do not always detect that a
 * rank is dead. GPUs would then wait for ever. So each group has a watch, a thread of the host. For
 * each collective, in order, the watch waits until this GPU has begun it. Then it meets the watches
 * of the other ranks in the group for host memory (group_meet.h), which finds ranks that are late
 * or dead or call another collective. Then it waits until the GPU has ended it. On an error the
 * watch aborts the links, so GPUs stop waiting, and all later calls for the device return that
 * error.
 */

struct gt_cuda_group;

/* How GPUs of a group are connected. Errors: GT_EDEVICE and those of groups. */
struct gt_cuda_links {
	const struct gt_device_groups *groups; /* name of this kind */

	/* Make g->link. A collective call, before the watch starts. */
	int (*connect)(struct gt_cuda_group *g, struct gt_err *err);

	/* Queue a collective on g->stream. Called on the caller's thread. c->count is not 0, except
	 * for a barrier. */
	int (*call)(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

	/* Return an error that occurred in the background while this collective runs, or 0. */
	int (*background)(
	    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

	/* Make GPUs stop waiting at once. May be called on any thread, and more than once. */
	void (*abort)(struct gt_cuda_group *g);

	/* Optional. After abort(), keep GPUs from waiting until their work has ended. */
	void (*drain)(struct gt_cuda_group *g);

	/* Free g->link. The watch has ended, and abort() was called or all collectives have ended.
	 * Other ranks call it too, but some ranks may be dead. */
	void (*disconnect)(struct gt_cuda_group *g);

	/* hint for collectives that do not end: "NAME=VALUE does this; ", or "" */
	const char *hint;
};

struct gt_cuda_ticket {
	struct gt_event *begun, *ended;
	struct gt_collective c;
	atomic_bool queued; /* all its work is queued, so `ended` is recorded */
};

struct gt_cuda_group {
	struct gt_group group;
	struct gt_group_ops ops;
	const struct gt_cuda_links *links;
	void *link;            /* private to the links; NULL before they are connected */
	struct gt_group *host; /* owned; the watch calls it while there are collectives */
	const struct gt_device *device;
	struct gt_stream *stream;
	struct gt_event *came; /* recorded where the caller's stream reaches the collective */
	struct gt_lent *lent;

	pthread_t watch;
	bool has_watch;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t change;
	/* ticket t is at t modulo GT_GROUP_STARTED */
	struct gt_cuda_ticket tickets[GT_GROUP_STARTED];
	/* tickets started; only the caller's thread changes it */
	uint64_t started;
	uint64_t ended; /* tickets that the watch has seen end */
	bool stopped;   /* no more collectives may start: gt_group_stop() */
	/* this rank gave up: its error is not sent; other ranks see that it leaves */
	bool given_up;
	bool over;          /* the watch returns when all collectives have ended */
	atomic_bool failed; /* set with the lock, read without */
	struct gt_err err;  /* the first error; valid if `failed` */
};

/* ---- group.c ---- */

/* Turn *group, a group for host memory that has no other caller, into one for the memory of this
 * GPU: struct gt_device_groups. */
int gt_cuda_group_new(struct gt_group **group, const struct gt_device *device,
    const struct gt_cuda_links *links, struct gt_err *err);

/* Pause in a loop that polls. *pause_s starts at 0 and grows with each call. */
void gt_cuda_group_rest(double *pause_s);

/* Make the group fail with *err. If it has failed before, copy that error to *err. From any
 * thread. */
int gt_cuda_group_fail(struct gt_cuda_group *g, struct gt_err *err);

/* Return 0, or the error with which the group has failed. */
int gt_cuda_group_failed(struct gt_cuda_group *g, struct gt_err *err);

/* ---- watch.c ---- */

int gt_cuda_group_watch(struct gt_cuda_group *g, struct gt_err *err);

/* Join the watch, which returns after all collectives have ended or after an error. */
void gt_cuda_group_end_watch(struct gt_cuda_group *g);

#endif
