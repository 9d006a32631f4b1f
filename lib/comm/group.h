/* group.h - ranks that compute together: collectives, in the foreground or background. */
#ifndef GT_COMM_GROUP_H
#define GT_COMM_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/device/dtype.h"

struct gt_stream; /* lib/device/backend.h */

/*
 * This module lets ranks find each other, exchange numbers and fail together. It knows nothing of
 * graphs, models or training. A struct gt_group is one rank's end of a group: its number,
 * the size, and a table of functions: `shm` or `ring` on one host, `mpi` on several; between
 * devices `nccl` or `ring`, or `staged` by way of one of these.
 *
 * All ranks of a group call the same collectives in the same order with the same sizes, types and
 * `what`: if one rank calls something else, all of them fail (GT_EINVAL) instead of getting a wrong
 * sum. Only the sender and the receiver of a message may give it different names. Calls on one
 * group come from one thread at a time.
 *
 * A group is for host memory, or for the memory of one device (device_group.h). Collectives of a
 * device's group are queued on a stream, as all work of a device is: a call returns when the
 * collective is queued, and the collective begins when all earlier work of its stream is done.
 *
 * GT_EIO means that a peer did not respond in time. The message names the late rank, the collective
 * (its `what` and its number) and the last collective that the rank took part in. After an error a
 * group can only be freed; other ranks get the same error at their next call or wait.
 */

enum gt_reduction {
	GT_SUM,
	GT_AVG, /* the sum divided by the number of ranks */
	GT_MAX
};

enum gt_collective_kind {
	GT_ALL_REDUCE,     /* out[count] = reduction over ranks of in[count] */
	GT_REDUCE,         /* the same, only on rank `peer`; `out` of other ranks is not changed */
	GT_REDUCE_SCATTER, /* out[count] = part `rank` of the reduction of in[size * count] */
	GT_ALL_GATHER,     /* out[size * count] = the in[count] of all ranks, in their order */
	GT_BROADCAST,      /* out[count] = in[count] of rank `peer` (which may have in == out) */
	GT_SEND,           /* in[count] to rank `peer` */
	GT_RECV,           /* out[count] from rank `peer` */
	GT_BARRIER
};

/*
 * One call. If in == out, the collective is in place; for GT_REDUCE_SCATTER and GT_ALL_GATHER, in
 * place means that the rank's `count` elements are at their place inside the larger buffer.
 * Otherwise `in` and `out` do not overlap. `count` is a number of elements; for GT_REDUCE_SCATTER
 * and GT_ALL_GATHER it is the number in one rank's part. It may be 0.
 *
 * Reductions take GT_F32, GT_F64, GT_F16, GT_BF16, GT_I32, GT_I64; other collectives any type. Sums
 * of F16 and BF16 are made in float32 and rounded once, to nearest even. The result is the same
 * bits on all ranks and in all runs. GT_AVG of integers rounds towards zero; sums of them wrap
 * around; if any rank has a NaN, GT_MAX is NaN. Buffers are aligned to their elements.
 *
 * `nccl` promises less. Sums of F16 and BF16 may be rounded at every rank. GT_AVG divides and
 * rounds each rank's numbers before it adds them. The GT_MAX of a NaN and a number may be the
 * number. Runs on the same GPUs give the same bits only if NCCL chooses the same algorithms.
 *
 * GT_SEND returns when the buffer may be used again. A message of more than some ten KiB waits
 * until the peer has begun to receive, so two ranks that both send first are in a deadlock.
 */
struct gt_collective {
	enum gt_collective_kind kind;
	const void *in;
	void *out;
	int64_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
	int peer;
	const char *what; /* for messages: "bucket 3"; may be NULL. Not copied */
	/* set to the time of the call, except in device groups; may be NULL */
	struct gt_span *span;
	/* stream of the call in a device's group; groups for host memory do not read it */
	struct gt_stream *stream;
};

struct gt_group {
	const struct gt_group_ops *ops;
	int rank, size;
	double timeout_s; /* give up on a rank that does not respond within this time */
};

/*
 * A backend of groups. Callers use the functions below.
 *
 * Ordered: every element is summed as a tree over the ranks. The sum of n ranks is the sum of the
 * first 2^k ranks, where 2^k is the largest power of two below n, plus the sum of the other ranks:
 * ((0 + 1) + (2 + 3)) + (4 + 5) for six. So the bits of a result do not depend on how a buffer is
 * divided into calls. A rank that has summed 2^j numbers in this order can replace 2^j ranks with
 * one number each. Otherwise the order of a sum depends on the element's place in its call and on
 * the number of ranks.
 */
struct gt_group_ops {
	const char *name; /* "shm" */
	bool ordered;
	int (*run)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*start)(struct gt_group *g, const struct gt_collective *c, uint64_t *ticket,
	    struct gt_err *err);
	int (*wait)(struct gt_group *g, uint64_t ticket, struct gt_err *err);
	int (*await)(struct gt_group *g, uint64_t ticket, struct gt_stream *stream,
	    struct gt_err *err); /* NULL: wait() is called instead */
	int (*alloc)(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
	void (*release)(struct gt_group *g, void *memory);
	int (*split)(
	    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err);
	void (*stop)(struct gt_group *g);
	void (*free)(struct gt_group *g);

	/* Functions of groups for host memory that groups for device memory call (group_meet.h).
	 * They may be NULL. */
	int (*meet)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*look)(struct gt_group *g, bool *gone, struct gt_err *err);
	int (*fail)(struct gt_group *g, struct gt_err *err);
	int (*share)(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
};

/* Run a collective after all started ones, and wait for its end. In a device group it is only
 * queued: work queued on c->stream afterwards begins when it has ended. */
int gt_group_run(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/*
 * Start a collective in the background, after all started ones. Do not touch its buffers until a
 * wait for its ticket has returned. `ticket` may be NULL. At most GT_GROUP_STARTED may be
 * outstanding (then gt_group_start() waits).
 *
 * A ticket is a number that counts the started collectives of this group, from 1 on. Collectives
 * end in the order of their tickets, so a wait for a ticket also waits for all lower ones, and for
 * no higher one. A ticket may be waited for any number of times. A wait for 0 returns at once; a
 * wait for GT_GROUP_ALL waits for all started collectives.
 *
 * gt_group_wait() returns the first error of any started collective, for every ticket.
 */
enum { GT_GROUP_STARTED = 256 };
#define GT_GROUP_ALL UINT64_MAX
int gt_group_start(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);
int gt_group_wait(struct gt_group *g, uint64_t ticket, struct gt_err *err);

/* Let a stream wait: work queued on it afterwards begins when the collective of the ticket has
 * ended. In a group for host memory the caller waits, and `stream` is not read. Errors: as those of
 * gt_group_wait(), as far as they are known by now. */
int gt_group_await(
    struct gt_group *g, uint64_t ticket, struct gt_stream *stream, struct gt_err *err);

/* Make all calls that wait, also those in the background, fail from now on. Afterwards the group
 * can only be freed. May be called on any thread. */
void gt_group_stop(struct gt_group *g);

/*
 * Allocate zeroed memory, aligned to 64 bytes, that all ranks of the group can access: collectives
 * on buffers inside it need no staging. With MPI each rank has memory of its own. A collective
 * call: all ranks ask for the same size. Release it by gt_group_release(), a collective call too,
 * or leave it to gt_group_free().
 */
int gt_group_alloc(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
void gt_group_release(struct gt_group *g, void *memory);

/* A collective call that makes a group of the ranks with this color, ordered by key, then by rank.
 * A rank with a negative color gets no group: *out is NULL. In error messages ranks keep the
 * numbers of the original group. */
int gt_group_split(
    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err);

/* Not a collective call. Collectives that have been started are given up. */
void gt_group_free(struct gt_group *g);

/* ---- short forms ---- */

int gt_all_reduce(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype,
    enum gt_reduction reduction, struct gt_err *err);
int gt_broadcast(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype, int root,
    struct gt_err *err);
int gt_barrier(struct gt_group *g, struct gt_err *err);

#endif
