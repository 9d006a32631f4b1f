/* group.h - groups of ranks for collectives on GPU memory: their stream, host thread and errors. */
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
 * A group of ranks (lib/comm/group.h) runs collectives: operations in which all ranks of the group
 * take part, such as an all-reduce. A group for GPU memory contains a second group of the same
 * ranks, g->host, for host memory.
 *
 * Each group has its own stream. The collectives of the group are queued on this stream in the
 * order of the calls. There are three events: `came` (the caller's stream has reached the call),
 * `begun` and `ended`. gt_group_await() makes a stream wait for `ended`. The links, which move the
 * data, are described below.
 *
 *   caller's stream   ... work | came                      (await: ended) | work ...
 *   group's stream               wait for came | begun | the links' work | ended
 *
 * The links move data between the GPUs. There are two kinds: NCCL (kernels/cuda/nccl/) and the ring
 * (kernels/cuda/ring/). Links do not detect that ranks call different collectives or that a rank is
 * late. They do not always detect that a rank is dead. In these cases a GPU would wait for ever for
 * the other rank.
 *
 * So each rank of a group has a host thread, called the watch. The watch handles one collective
 * after the other. For each collective it does three steps:
 *
 *   1. Wait until this GPU has begun the collective.
 *   2. Call gt_group_check_calls() on g->host (lib/comm/group_meet.h): the watches of all ranks
 *      compare their calls. This step detects a rank that is late or dead, or that calls
 *      another collective.
 *   3. Wait until this GPU has ended the collective.
 *
 * A rank may have several groups, and its GPU may run collectives of several groups at a time. NCCL
 * has two requirements for this. The ranks must queue the operations of different communicators in
 * the same order (NCCL User Guide, "Using multiple NCCL communicators concurrently"). And the first
 * call of each kind of collective connects the ranks: all ranks must make this call before any of
 * them uses another communicator. The group meets both requirements without a lock. One thread of
 * each rank queues all collectives of the rank, in the order of the rank's plan, which is the list
 * of the operations of a training step. If two ranks share several groups, their plans contain the
 * collectives of these groups in the same order. call() of the links returns after NCCL has
 * connected the ranks and queued the call. So the ranks are connected before this rank uses its
 * next group.
 *
 * On an error the watch sends the error to the other ranks, and aborts the links, so that the GPUs
 * stop waiting. All later calls of the group return that error.
 */

struct gt_cuda_group;

/* The functions of one kind of links. Errors: GT_EDEVICE, and the errors of
 * lib/comm/group.h. */
struct gt_cuda_links {
	/* the name and the properties of groups that use these links */
	const struct gt_device_groups *groups;

	/* Connect this GPU with the GPUs of the other ranks, and set g->link. All ranks call this,
	 * before the watch starts. */
	int (*connect)(struct gt_cuda_group *g, struct gt_err *err);

	/* Queue a collective on g->stream. Called on the caller's thread. c->count is not 0, except
	 * for a barrier. */
	int (*call)(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

	/* Check for an error that the links have found in the background. The watch calls this
	 * again and again while it waits for the beginning or the end of the collective `c`. Return
	 * 0 or the code of the error. */
	int (*background)(
	    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

	/* End the collectives on this GPU, so that it stops waiting for other ranks. May be called
	 * on any thread, and more than once. */
	void (*abort)(struct gt_cuda_group *g);

	/* May be NULL. The watch calls this after abort(). End the waits that are still queued on
	 * g->stream, and return when the stream has no more work. */
	void (*drain)(struct gt_cuda_group *g);

	/* Free g->link. Called after the watch has ended; before that, either abort() was called or
	 * all collectives have ended. All living ranks call this, but other ranks may be dead. */
	void (*disconnect)(struct gt_cuda_group *g);

	/* If a collective does not end, the hint of the error begins with this text. The text names
	 * a setting to use, for example "NCCL_DEBUG=INFO ... makes NCCL say more; " with a space at
	 * the end. It is an empty string if there is no such setting. */
	const char *hint;
};

/* A started collective. It is stored under its ticket, a number to wait for (lib/comm/group.h): 1
 * for the first collective of the group, 2 for the next one, and so on. */
struct gt_cuda_ticket {
	struct gt_event *begun, *ended;
	struct gt_collective c;
	/* true: all work of the collective is queued, and the event `ended` is recorded */
	atomic_bool queued;
};

struct gt_cuda_group {
	struct gt_group group;
	struct gt_group_ops ops;
	const struct gt_cuda_links *links;
	void *link; /* state that only the links read and write; NULL: not connected */
	/* the group for host memory; owned; while collectives run, only the watch calls functions
	 * of this group */
	struct gt_group *host;
	const struct gt_device *device;
	struct gt_stream *stream;
	struct gt_event *came;          /* recorded on the caller's stream at each call */
	struct gt_device_block *blocks; /* memory from gt_group_alloc() */
	/* the ranks of this process (mates.h); NULL: each rank has a process of its own */
	struct gt_cuda_mates *mates;
	bool runs; /* the caller's thread is in gt_group_run(); no other thread reads this */

	pthread_t watch;
	bool has_watch;
	/* protects the members below; the caller's thread alone writes `tickets` and `started`, and
	 * reads them without the lock */
	pthread_mutex_t lock;
	pthread_cond_t change; /* signaled when one of the members below changes */
	/* the collective with ticket t is in the element t % GT_GROUP_STARTED */
	struct gt_cuda_ticket tickets[GT_GROUP_STARTED];
	/* number of started collectives; only the caller's thread changes it */
	uint64_t started;
	uint64_t ended; /* number of collectives whose end the watch has seen */
	bool stopped;   /* gt_group_stop() was called: no more collectives may start */
	/* gt_group_stop() was called while collectives ran. Then the watch does not send the error
	 * of this rank: the other ranks only see that this rank has left. */
	bool given_up;
	bool over;          /* the watch must return as soon as all collectives have ended */
	atomic_bool failed; /* written with the lock held, read without the lock */
	struct gt_err err;  /* the first error; valid if `failed` */
};

/* ---- group.c ---- */

/* *group must be a group for host memory, and no other code may use this group. Replace *group by a
 * new group for the memory of this GPU. The new group owns the old one. On failure *group is
 * unchanged. The functions make() of struct gt_device_groups (lib/comm/device_group.h) call this
 * with their kind of links. */
int gt_cuda_group_new(struct gt_group **group, const struct gt_device *device,
    const struct gt_cuda_links *links, struct gt_err *err);

/* Sleep for *pause_s seconds, then make *pause_s longer for the next call, up to a maximum. Callers
 * that poll in a loop set *pause_s to 0 before the loop. */
void gt_cuda_group_pause(double *pause_s);

/* Make the group fail with *err and abort its links. If the group has failed before, only copy its
 * first error to *err. Return err->code. May be called on any thread. */
int gt_cuda_group_fail(struct gt_cuda_group *g, struct gt_err *err);

/* The first half of gt_cuda_group_fail(): make the group fail with *err, and wake the threads of
 * the host that wait for the group. Return true if the group has not failed before: the caller must
 * then abort the links. If the group has failed before, copy its first error to *err, and return
 * false. */
bool gt_cuda_group_note(struct gt_cuda_group *g, struct gt_err *err);

/* If the group has failed, copy its error to *err and return the code. Otherwise return 0. */
int gt_cuda_group_failed(struct gt_cuda_group *g, struct gt_err *err);

/* ---- watch.c ---- */

/* Start the watch. */
int gt_cuda_group_watch(struct gt_cuda_group *g, struct gt_err *err);

/* Tell the watch to return, and join its thread. The watch returns when all started collectives
 * have ended, or after an error. */
void gt_cuda_group_end_watch(struct gt_cuda_group *g);

#endif
