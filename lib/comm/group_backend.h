/* group_backend.h - private: declarations that the backends of groups share. */
#ifndef GT_COMM_GROUP_BACKEND_H
#define GT_COMM_GROUP_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/comm/group_meet.h"
#include "lib/comm/ring/peers.h"

/* GT_COMM_LINE: bytes of a cache line. GT_COMM_LABEL_BYTES: bytes of the longest label of a
 * collective, including the zero at its end. */
enum { GT_COMM_LINE = 64, GT_COMM_LABEL_BYTES = 40 };

/* ---- group.c ---- */

/* gt_group_reads() returns whether the collective reads this rank's `in`. gt_group_writes() returns
 * whether it writes this rank's `out`. */
bool gt_group_reads(const struct gt_group *g, const struct gt_collective *c);
bool gt_group_writes(const struct gt_group *g, const struct gt_collective *c);

/* ---- group_call.c ---- */

/* A description of a collective that a rank calls. Ranks compare these descriptions byte by byte,
 * so unused bytes are zero. */
struct gt_group_call {
	/* position of the call among all calls of its group, from 1 on; for a message, position
	 * among the messages from the same sender to the same receiver, from 1 on */
	uint64_t number;
	int64_t count;
	uint8_t kind, dtype, reduction, unused;
	int32_t peer;
	char what[GT_COMM_LABEL_BYTES]; /* the label, cut off if it is too long; "": no label */
};
_Static_assert(sizeof(struct gt_group_call) == GT_COMM_LINE, "one line");

/* Return the description of the call *c with this number. */
struct gt_group_call gt_group_call_of(const struct gt_collective *c, uint64_t number);

/* gt_group_call_short() returns a short text, "all-reduce 'bucket 3'". gt_group_call_text() returns
 * a longer text, "all-reduce 'bucket 3' of 1000 float32, sum". *call may come from another rank and
 * have invalid content. */
struct gt_text gt_group_call_short(const struct gt_group_call *call);
struct gt_text gt_group_call_text(const struct gt_group_call *call);

/* Set GT_EINVAL: rank `rank` calls *mine, but rank `other` calls *theirs. */
int gt_call_differs(struct gt_err *err, int rank, const struct gt_group_call *mine, int other,
    const struct gt_group_call *theirs);

/* Compare the two descriptions of a message: *sent is the sender's description, and *wanted is the
 * receiver's. The sender is rank `from`, the receiver rank `to`. Return 0 if the descriptions
 * match; otherwise set and return GT_EINVAL. */
int gt_call_unmatched(struct gt_err *err, int from, const struct gt_group_call *sent, int to,
    const struct gt_group_call *wanted);

/*
 * The arguments of gt_call_lost(). This function sets GT_EIO for a rank that does not respond or
 * has left the group: the lost rank. For example, `who` is "rank 2", `verb` is "is late" and
 * `preposition` is "for":
 *
 *   rank 2 is late for all-reduce 'bucket 3' (number 7): the last one that it took part in was
 *   number 6, broadcast
 *
 * All ranks wait for each other at the start of each collective. So the last collective that the
 * lost rank took part in is the current one or the one before it.
 */
struct gt_lost {
	const char *who, *verb, *preposition; /* see the example */
	int by;                               /* the rank that reports the error */
	bool begun;                           /* the lost rank has begun the current collective */
	/* call: the current collective; last: the collective before it, or NULL if there is none */
	const struct gt_group_call *call, *last;
};
int gt_call_lost(struct gt_err *err, const struct gt_lost *lost);

/* Complete the error of gt_call_lost() for a lost rank that has ended or left the group. Add a hint
 * to look at the output of the lost rank, and mark the error as a mere consequence of its failure
 * (gt_err_follow()). Return err->code. */
int gt_call_gone(struct gt_err *err);

/* Divide m elements among `size` ranks: the slice of `rank` is [*from, *to). Slices begin at
 * multiples of 64 elements, so no cache line belongs to two slices. If m is small, some slices are
 * empty. */
void gt_slice(size_t m, int size, int rank, size_t *from, size_t *to);

/* The arguments that one rank passes to gt_group_split(). */
struct gt_split_choice {
	int32_t color, key;
};

/* Find the ranks that passed `color`, in the order of their keys, then of their ranks. Write them
 * to members[], which has space for `size` ranks, and return their number. all[size] holds the
 * arguments of all ranks. */
int gt_choose(int *members, const struct gt_split_choice *all, int size, int color);

/* ---- group_reduce.c: arithmetic ---- */

/*
 * Reduce n buffers, and write the result to `dsts` buffers.
 *
 *   dst[dsts]  buffers of `count` elements of `dtype`, dsts >= 1
 *   src[n]     buffers of `count` elements of `dtype`, n >= 2
 *
 * Elements are summed in the order of ordered groups (group.h). A destination may be one of the
 * sources; otherwise buffers do not overlap. All buffers are aligned to their elements.
 */
void gt_reduce(void *const *dst, int dsts, const void *const *src, int n, size_t count,
    enum gt_dtype dtype, enum gt_reduction reduction);

/* Return the number of sources in the left branch of the tree that sums n >= 2 sources: the largest
 * power of two below n. */
int gt_reduce_left(int n);

/* Do one step of a reduction that passes from rank to rank: add this rank's elements to the partial
 * sums of the ranks before it (struct gt_reduce_step, ring/peers.h). */
void gt_reduce_step(const struct gt_reduce_step *s);

/* ---- group_small.c: short data, which every rank has sent to all other ranks ---- */

/*
 * Compute this rank's result of a collective from the inputs of all ranks.
 *
 *   out        the result, as `out` of struct gt_collective; NULL: this rank gets no result
 *   src[size]  the inputs of all ranks, c->count elements each. For a reduce-scatter, these are
 *              only the elements whose sum this rank gets. For a broadcast, only src[c->peer] is
 *              read.
 */
void gt_finish_small(const struct gt_collective *c, void *out, const void *const *src, int size);

/* Copy `bytes` bytes as memcpy() does, but `to` may be equal to `from`. */
void gt_copy_bytes(void *to, const void *from, size_t bytes);

/* ---- group_queue.c: collectives in the background ---- */

/* A queue with a thread that runs the queued collectives one after the other. The first call of
 * gt_queue_start() starts the thread. Only one thread at a time may call these functions. */
struct gt_queue {
	/* runs one collective of the group `self` */
	int (*run)(void *self, const struct gt_collective *c, struct gt_err *err);
	void *self;
	/* a ticket (gt_queue_start()): the collectives up to this ticket have ended */
	uint64_t awaited;
	struct gt_queue_thread *thread;
};

/* Wait until all queued collectives have ended, then run this collective on the caller's thread. */
int gt_queue_run(struct gt_queue *q, const struct gt_collective *c, struct gt_err *err);

/* Queue a collective, and set *ticket to its ticket: its position among the collectives that were
 * queued, from 1 on. */
int gt_queue_start(
    struct gt_queue *q, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);

/* Wait until all queued collectives have ended. Their errors are not returned here, but by
 * gt_queue_wait(). */
void gt_queue_drain(struct gt_queue *q);

/* Wait until the collective of this ticket has ended; for GT_GROUP_ALL, until all have ended.
 * Returns the first error of any collective in the queue. All later calls of gt_queue_wait() return
 * the same error. */
int gt_queue_wait(struct gt_queue *q, uint64_t ticket, struct gt_err *err);

/* End the thread. Collectives that have not begun are dropped. If a collective has begun, wait
 * until it has ended. Before this call, the owner of the queue must make run() return soon. */
void gt_queue_free(struct gt_queue *q);

#endif
