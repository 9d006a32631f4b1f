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
 * With the module comm, ranks (processes or threads) find each other, exchange data and fail
 * together. The module does not depend on graphs, models or training. A struct gt_group is one
 * rank's handle of a group. It holds the rank, the number of ranks (size), and the functions of a
 * backend:
 *
 *   for host memory     `shm` or `ring` on one host, `mpi` on several hosts
 *   for device memory   `nccl` or `ring`, or `staged` on top of a group for host memory
 *                       (device_group.h)
 *
 * All ranks of a group must call the same collectives in the same order, with the same sizes, types
 * and labels (`what`). If one rank calls something else, all ranks fail with GT_EINVAL instead of
 * getting a wrong sum. But the sender and the receiver of a message may use different labels. Some
 * other functions are "collective calls", too: all ranks of the group must call them. Only one
 * thread at a time may use a handle. But any thread may call gt_group_stop() at any time.
 *
 * Collectives of a group for device memory are queued on a stream. The call returns when the
 * collective is queued. The collective begins when all earlier work of the stream is done.
 *
 * GT_EIO means that another rank did not respond in time, died or left the group. The text of the
 * error names this rank, the collective (its label and its number) and the last collective that
 * this rank took part in. After an error a group can only be freed. The other ranks get the same
 * error at their next call or wait.
 */

enum gt_reduction {
	GT_SUM,
	GT_AVG, /* the sum divided by the number of ranks */
	GT_MAX
};

/* `rank` is the rank of the caller, and `size` the number of ranks in the group. */
enum gt_collective_kind {
	GT_ALL_REDUCE, /* out[count] = element-wise reduction of in[count] over all ranks */
	/* out[count] = element-wise reduction of in[count] over all ranks, on rank `peer` only;
	 * `out` of other ranks is not changed */
	GT_REDUCE,
	/* out[count] = elements [rank * count, (rank + 1) * count) of the reduction of
	 * in[size * count] over all ranks */
	GT_REDUCE_SCATTER,
	GT_ALL_GATHER, /* out[size * count] = in[count] of all ranks, in the order of ranks */
	GT_BROADCAST,  /* out[count] = in[count] of rank `peer`, which may have in == out */
	GT_SEND,       /* send in[count] to rank `peer` */
	GT_RECV,       /* receive out[count] from rank `peer` */
	GT_BARRIER     /* wait until all ranks have called this */
};

/*
 * One call of a collective, or of a send or receive of a message.
 *
 * Buffers. `count` is a number of elements, and may be 0. For GT_REDUCE_SCATTER and GT_ALL_GATHER,
 * the larger buffer has size * count elements. These two kinds are in place if the smaller buffer
 * is elements [rank * count, (rank + 1) * count) of the larger one. Other kinds are in place if
 * in == out. If a collective is not in place, `in` and `out` must not overlap. Buffers must be
 * aligned to their elements.
 *
 * Types. Reductions accept GT_F32, GT_F64, GT_F16, GT_BF16, GT_I32 and GT_I64; other collectives
 * accept any type. F16 and BF16 are summed in float32, and the sum is rounded once, to nearest
 * even. Sums of integers wrap around, and GT_AVG of integers rounds towards zero. If any rank has a
 * NaN, GT_MAX is NaN. Results have the same bits on all ranks and in all runs.
 *
 * `nccl` guarantees less. Sums of F16 and BF16 may be rounded at every rank. GT_AVG divides and
 * rounds each rank's elements before it adds them. GT_MAX of a NaN and a number may be the number.
 * Runs on the same GPUs give the same bits only if NCCL chooses the same algorithms.
 *
 * Messages. GT_SEND returns when the buffer may be used again. A message of more than about 10 KiB
 * may wait until the peer has begun to receive. So two ranks that both send first, and then
 * receive, may be in a deadlock.
 */
struct gt_collective {
	enum gt_collective_kind kind;
	const void *in;
	void *out;
	int64_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction; /* for GT_ALL_REDUCE, GT_REDUCE and GT_REDUCE_SCATTER */
	int peer;                    /* for GT_REDUCE, GT_BROADCAST, GT_SEND and GT_RECV */
	/* label for error messages, such as "bucket 3"; may be NULL; the string is not copied */
	const char *what;
	/* receives the times at which the collective begins and ends; may be NULL. A group for
	 * device memory sets *span only if `marks` is not NULL. */
	struct gt_span *span;
	/* in a group for device memory: measures the times for *span on the stream
	 * (lib/device/marks.h); may be NULL; groups for host memory ignore it */
	struct gt_marks *marks;
	/* stream of the caller in a group for device memory; groups for host memory ignore it */
	struct gt_stream *stream;
};

struct gt_group {
	const struct gt_group_ops *ops;
	int rank, size;   /* this rank; number of ranks */
	double timeout_s; /* give up on a rank that does not respond within this time */
};

/*
 * The functions of a backend, which implement the functions gt_group_...() below. Callers use only
 * gt_group_...().
 *
 * A group is "ordered" if every element is summed as one fixed tree over the ranks. The sum of n
 * ranks is the sum of the first 2^k ranks plus the sum of the other ranks, where 2^k is the largest
 * power of two below n. For six ranks: ((0 + 1) + (2 + 3)) + (4 + 5).
 *
 * So the bits of a result do not depend on how a buffer is divided into calls. Also, one rank can
 * do the work of 2^j consecutive ranks of a larger group: it first sums the numbers of these 2^j
 * ranks in the same order. If every rank does this, the result has the same bits as in the larger
 * group. In groups that are not ordered, the order of a sum depends on the number of ranks and on
 * the position of the element in its call.
 */
struct gt_group_ops {
	const char *name; /* "shm" */
	bool ordered;     /* sums have the fixed order described above */
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

	/* Groups for device memory call these functions of a group for host memory
	 * (group_meet.h). A backend may leave these pointers NULL. */
	int (*check_calls)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*check_peers)(struct gt_group *g, bool *gone, struct gt_err *err);
	int (*fail)(struct gt_group *g, struct gt_err *err);
	int (*share)(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
};

/* Run a collective and wait until it has ended. It begins after all collectives that were started
 * with gt_group_start(). A group for device memory does not wait, but queues the collective: work
 * that is queued on c->stream afterwards begins when the collective has ended. */
int gt_group_run(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/*
 * gt_group_start() starts a collective in the background. The collective runs after all collectives
 * that were started before. *c is copied. *ticket is set to the ticket of the collective: its
 * position among the started collectives of this group, from 1 on. `ticket` may be NULL. Do not use
 * the buffers before you have waited for the ticket with gt_group_wait() or gt_group_await(). If
 * GT_GROUP_STARTED collectives have not ended yet, gt_group_start() waits until one ends.
 *
 * Collectives end in the order of their tickets. So gt_group_wait() waits until the collectives of
 * this ticket and of all lower tickets have ended. It may be called any number of times for a
 * ticket. For ticket 0 it returns immediately; for GT_GROUP_ALL it waits for all started
 * collectives.
 *
 * gt_group_wait() returns the first error of any started collective, whatever the ticket is.
 */
enum { GT_GROUP_STARTED = 256 };
#define GT_GROUP_ALL UINT64_MAX
int gt_group_start(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);
int gt_group_wait(struct gt_group *g, uint64_t ticket, struct gt_err *err);

/* Make a stream wait for a ticket: work that is queued on the stream afterwards begins when the
 * collective has ended. In a group for host memory, it does the same as gt_group_wait(), and
 * ignores `stream`. Errors: the errors of gt_group_wait() that are known when this is called. */
int gt_group_await(
    struct gt_group *g, uint64_t ticket, struct gt_stream *stream, struct gt_err *err);

/* Stop waiting for other ranks: from now on, each call that would wait returns an error on this
 * rank, and collectives in the background end with an error. Afterwards the group can only be
 * freed. Any thread may call this. */
void gt_group_stop(struct gt_group *g);

/*
 * Allocate `bytes` bytes of zeroed memory, aligned to 64 bytes, for buffers of collectives. In
 * `shm` and `ring` groups for host memory, all ranks can access this memory, so collectives need
 * not copy the data to shared memory first. With MPI it is ordinary memory of each rank. A group
 * for device memory allocates memory of the rank's device. This is a collective call, and all ranks
 * must ask for the same size. Free the memory with gt_group_release(), which is a collective call,
 * too; gt_group_free() frees all memory that is left.
 */
int gt_group_alloc(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);
void gt_group_release(struct gt_group *g, void *memory);

/* Make a group of all ranks that pass the same color: a collective call of all ranks of `g`. The
 * ranks of the new group are ordered by `key`, then by their rank in `g`. A rank with a negative
 * color gets no group: *out is NULL. Error messages of the new group name ranks by their numbers in
 * `g`, or, if `g` itself was made by splits, by their numbers in the group that was split first. */
int gt_group_split(
    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err);

/* Free the group, and cancel its collectives that have not ended. This is not a collective call.
 * NULL is fine. */
void gt_group_free(struct gt_group *g);

/* ---- short forms of gt_group_run() for buffer[count], in place, without a label ---- */

int gt_all_reduce(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype,
    enum gt_reduction reduction, struct gt_err *err);
int gt_broadcast(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype, int root,
    struct gt_err *err);
int gt_barrier(struct gt_group *g, struct gt_err *err);

#endif
