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

/* A group of ranks for GPU memory, above a group for host memory, g->host. It has a stream for its
 * collectives, links that move the data (nccl/, ring/), and a host thread, the watch, which detects
 * ranks that are late, dead, or in another collective. group.c describes all of it. After an error,
 * the watch aborts the links, and all calls return the error. */

struct gt_cuda_group;

/* The functions of a kind of links. */
struct gt_cuda_links {
	/* the name and properties of groups with these links */
	const struct gt_device_groups *groups;

	/* Connect the GPUs of all ranks, and set g->link, before the watch starts. */
	int (*connect)(struct gt_cuda_group *g, struct gt_err *err);

	/* the groups have ops->exchange (lib/comm/group.h) */
	bool exchanges;

	/* Queue collectives on g->stream, by the caller's thread: one, or the messages of an
	 * exchange. c->count may be 0 only for a barrier or in an exchange. */
	int (*call)(
	    struct gt_cuda_group *g, const struct gt_collective *c, int count, struct gt_err *err);

	/* Return the code of an error in the background, or 0. The watch polls this while it waits
	 * for `c`. */
	int (*background)(
	    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err);

	/* End the collectives of this GPU. Called on any thread, and more than once. */
	void (*abort)(struct gt_cuda_group *g);

	/* May be NULL. After abort(): end the stream's queued waits, and wait until it is idle. */
	void (*drain)(struct gt_cuda_group *g);

	/* Free g->link. Other ranks may be dead. */
	void (*disconnect)(struct gt_cuda_group *g);

	/* The hint begins with this text, "" or with a space at its end, if a collective does not
	 * end. */
	const char *hint;
};

/* A started collective; tickets count from 1. The messages of an exchange have consecutive tickets:
 * `begun` is that of the first, `ended` and `queued` are those of the last. */
struct gt_cuda_ticket {
	struct gt_event *begun, *ended;
	struct gt_collective c;
	int together; /* of the first: the number of messages; 1: no exchange */
	/* all work is queued, and `ended` is recorded */
	atomic_bool queued;
};

struct gt_cuda_group {
	struct gt_group group;
	struct gt_group_ops ops;
	const struct gt_cuda_links *links;
	void *link; /* state of the links; NULL: not connected */
	/* owned; while collectives run, only the watch uses it */
	struct gt_group *host;
	const struct gt_device *device;
	struct gt_stream *stream;
	struct gt_event *came;          /* recorded on the caller's stream */
	struct gt_device_block *blocks; /* memory of gt_group_alloc() */
	/* NULL: each rank has its own process */
	struct gt_cuda_thread_peers *thread_peers;
	bool runs;     /* the caller's thread is in gt_group_run() */
	bool messages; /* gt_device_way.messages */
	/* connect() sets this: collectives of all such groups of g->device run one after the other,
	 * in the order of the calls */
	bool in_turn;

	pthread_t watch;
	bool has_watch;
	/* protects the members below; only the caller's thread writes `tickets` and `started` */
	pthread_mutex_t lock;
	pthread_cond_t change; /* a member below has changed */
	/* ticket t is at t % GT_GROUP_STARTED */
	struct gt_cuda_ticket tickets[GT_GROUP_STARTED];
	/* collectives that were started */
	uint64_t started;
	uint64_t ended; /* collectives whose end the watch has seen */
	bool stopped;   /* gt_group_stop() was called */
	/* stopped while collectives ran: the watch does not send this rank's error */
	bool given_up;
	bool over;          /* the watch returns when all collectives have ended */
	atomic_bool failed; /* written with the lock, read without */
	struct gt_err err;  /* the first error, if `failed` */
};

/* ---- group.c ---- */

/* Replace *group, for host memory and unused elsewhere, by a group that owns it; unchanged on
 * failure. */
int gt_cuda_group_new(struct gt_group **group, const struct gt_device *device,
    const struct gt_cuda_links *links, bool messages, struct gt_err *err);

/* Sleep between polls, longer each time; *pause_s is 0 at first. */
void gt_cuda_group_pause(double *pause_s);

/* Fail with *err and abort the links, on any thread. After an earlier failure, copy that to *err.
 * Return err->code. */
int gt_cuda_group_fail(struct gt_cuda_group *g, struct gt_err *err);

/* The same without abort: return whether the caller must abort the links. */
bool gt_cuda_group_note(struct gt_cuda_group *g, struct gt_err *err);

/* Return the code of the group's error in *err, or 0. */
int gt_cuda_group_failed(struct gt_cuda_group *g, struct gt_err *err);

/* ---- watch.c ---- */

int gt_cuda_group_watch(struct gt_cuda_group *g, struct gt_err *err);

/* End the watch after all started collectives, or an error, and join it. */
void gt_cuda_group_end_watch(struct gt_cuda_group *g);

#endif
