/* group.h - groups of ranks: collectives and messages, in the foreground or background. */
#ifndef GT_COMM_GROUP_H
#define GT_COMM_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/device/dtype.h"

struct gt_stream; /* lib/device/backend.h */
struct gt_marks;  /* lib/device/marks.h */

/*
 * A struct gt_group is one rank's handle of a group of ranks (processes or threads):
 *
 *   for host memory     `shm` or `ring` on one host, `tcp` or `mpi` on several hosts
 *   for device memory   `nccl`, `ring` or `staged` (device_group.h)
 *
 * All ranks must call the same collectives in the same order, with the same sizes, types and
 * labels; otherwise all fail with GT_EINVAL. Functions named "collective calls" must be called by
 * all ranks, too. Only one thread at a time may use a handle. A group for device memory queues
 * collectives on a stream, and calls return when they are queued.
 *
 * GT_EIO names a rank that did not respond in time, died or left. After an error a group can only
 * be freed; the other ranks get the same error at their next call or wait.
 */

enum gt_reduction {
	GT_SUM,
	GT_AVG, /* the sum divided by the number of ranks */
	GT_MAX
};

enum gt_collective_kind {
	GT_ALL_REDUCE, /* out[count] = reduction of in[count] over all ranks */
	GT_REDUCE,     /* the same, on rank `peer` only */
	/* out[count] = elements [rank * count, (rank + 1) * count) of the reduction of
	 * in[size * count] */
	GT_REDUCE_SCATTER,
	GT_ALL_GATHER, /* out[size * count] = in[count] of all ranks */
	GT_BROADCAST,  /* out[count] = in[count] of rank `peer`, which may have in == out */
	GT_SEND,       /* send in[count] to rank `peer` */
	GT_RECV,       /* receive out[count] from rank `peer` */
	GT_BARRIER     /* wait until all ranks have called this */
};

/*
 * One call of a collective, or of a send or receive of a message. `count` may be 0.
 *
 * Buffers may be in place: in == out, or the smaller buffer of GT_REDUCE_SCATTER or GT_ALL_GATHER
 * is elements [rank * count, (rank + 1) * count) of the larger one. Otherwise they must not
 * overlap.
 *
 * Reductions accept GT_F32, GT_F64, GT_F16, GT_BF16, GT_I32 and GT_I64. F16 and BF16 are summed in
 * float32 and rounded once. GT_AVG of integers rounds towards zero, and sums of integers wrap
 * around. GT_MAX is NaN if any rank has one. Results have the same bits on all ranks and in all
 * runs. `nccl` guarantees less: it may round F16 and BF16 at every rank, GT_AVG divides before it
 * adds, GT_MAX of a NaN and a number may be the number, and runs have the same bits only if NCCL
 * chooses the same algorithms. Buffers are aligned to their elements.
 *
 * GT_SEND of more than about 10 KiB may wait until the peer receives: two ranks that both send
 * first may wait for each other without end.
 */
struct gt_collective {
	enum gt_collective_kind kind;
	const void *in;
	void *out;
	int64_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction; /* for GT_ALL_REDUCE, GT_REDUCE and GT_REDUCE_SCATTER */
	int peer;                    /* for GT_REDUCE, GT_BROADCAST, GT_SEND and GT_RECV */
	const char *what; /* label for error messages, such as "bucket 3"; borrowed; may be NULL */
	struct gt_span *span; /* set to the times of begin and end; may be NULL */
	/* only for device memory: measures *span on the stream (lib/device/marks.h); may be NULL */
	struct gt_marks *marks;
	struct gt_stream *stream; /* only for device memory: stream of the caller */
};

struct gt_group {
	const struct gt_group_ops *ops;
	int rank, size;   /* this rank; number of ranks */
	double timeout_s; /* give up on a rank that does not respond within this time */
};

/*
 * The functions of a backend. A group is "ordered" if every element is summed as one fixed tree:
 * the first 2^k ranks plus the others, with the largest 2^k below the number of ranks. For six
 * ranks: ((0 + 1) + (2 + 3)) + (4 + 5). So bits do not depend on how a buffer is divided into
 * calls, nor on whether one rank does the work of 2^j consecutive ranks of a larger group.
 */
struct gt_group_ops {
	const char *name; /* "shm" */
	bool ordered;     /* see above */
	int (*run)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*start)(struct gt_group *g, const struct gt_collective *c, uint64_t *ticket,
	    struct gt_err *err);
	/* NULL: messages of gt_group_exchange() go one after the other */
	int (*exchange)(struct gt_group *g, const struct gt_collective *c, int count,
	    uint64_t *ticket, struct gt_err *err);
	int (*wait)(struct gt_group *g, uint64_t ticket, struct gt_err *err);
	int (*await)(struct gt_group *g, uint64_t ticket, struct gt_stream *stream,
	    struct gt_err *err); /* NULL: wait() is called instead */
	int (*alloc)(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
	void (*release)(struct gt_group *g, void *memory);
	int (*split)(
	    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err);
	void (*stop)(struct gt_group *g);
	void (*free)(struct gt_group *g);

	/* only groups for host memory (group_meet.h); may be NULL */
	int (*check_calls)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*check_peers)(struct gt_group *g, bool *gone, struct gt_err *err);
	int (*fail)(struct gt_group *g, struct gt_err *err);
	int (*share)(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
	double (*waited_s)(const struct gt_group *g, int rank);
};

/* Return the seconds that a rank of the group has spent in collectives, waiting for other ranks, or
 * NaN if the backend does not know. Not a collective call, and any thread may make it. The rank
 * that has waited least is the one for which the others wait. */
double gt_group_waited_s(const struct gt_group *g, int rank);

/* Run a collective after all that were started with gt_group_start(), and wait for its end. A group
 * for device memory only queues it on c->stream. */
int gt_group_run(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/*
 * Start a collective in the background, after all that were started before. *c is copied; `ticket`,
 * numbered from 1 on, may be NULL. Do not use the buffers before you have waited for the ticket. If
 * GT_GROUP_STARTED collectives have not ended yet, gt_group_start() waits until one ends.
 *
 * Collectives end in the order of their tickets, so waiting for one waits for all lower ones; 0
 * waits for none. gt_group_wait() returns the first error of any started collective.
 */
enum { GT_GROUP_STARTED = 256 };
#define GT_GROUP_ALL UINT64_MAX
int gt_group_start(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);
int gt_group_wait(struct gt_group *g, uint64_t ticket, struct gt_err *err);

/*
 * Start `count` messages, sends before receives, at most GT_GROUP_EXCHANGED, each with another rank
 * or in another direction. Receives are waited for like those of gt_group_run(). *ticket, in which
 * the caller has put 0, gets a ticket for the sends, if there are any.
 *
 * If ops->exchange is not NULL, the messages are one operation: they go on independently of each
 * other and end together. So two ranks that exchange values do not wait for each other. The group
 * may then have the messages of all neighbours of a pipeline. Otherwise the messages go one after
 * the other, and two ranks that both send first may wait for each other without end.
 */
enum { GT_GROUP_EXCHANGED = 64 };
int gt_group_exchange(struct gt_group *g, const struct gt_collective *c, int count,
    uint64_t *ticket, struct gt_err *err);

/* Make a stream wait for a ticket, without the host. In a group for host memory, gt_group_wait().
 * Returns the errors that are known now. */
int gt_group_await(
    struct gt_group *g, uint64_t ticket, struct gt_stream *stream, struct gt_err *err);

/* End all waits of this rank with an error, now and later. Any thread may call this. */
void gt_group_stop(struct gt_group *g);

/* Allocate zeroed memory for buffers, aligned to 64 bytes, on which collectives are fastest. Both
 * are collective calls, with the same size on all ranks. gt_group_free() frees memory that is
 * left. */
int gt_group_alloc(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
void gt_group_release(struct gt_group *g, void *memory);

/* Make a group of all ranks that pass the same color, ordered by `key`, then by rank: a collective
 * call. A rank with a negative color gets NULL. Errors name ranks by their numbers in the group
 * that was split first. */
int gt_group_split(
    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err);

/* Free the group, and cancel collectives that have not ended: no collective call. NULL is fine. */
void gt_group_free(struct gt_group *g);

/* ---- short forms of gt_group_run() for buffer[count], in place, without a label ---- */

int gt_all_reduce(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype,
    enum gt_reduction reduction, struct gt_err *err);
int gt_broadcast(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype, int root,
    struct gt_err *err);
int gt_barrier(struct gt_group *g, struct gt_err *err);

#endif
