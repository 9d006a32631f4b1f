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

/* bytes of a cache line; bytes of the longest label */
enum { GT_COMM_LINE = 64, GT_COMM_LABEL_BYTES = 40 };

/* ---- group.c ---- */

/* Does the collective read this rank's `in`, or write its `out`? */
bool gt_group_reads(const struct gt_group *g, const struct gt_collective *c);
bool gt_group_writes(const struct gt_group *g, const struct gt_collective *c);

/* ---- group_call.c ---- */

/* A call, which ranks compare byte by byte, so unused bytes are zero. */
struct gt_group_call {
	/* from 1 on: among the group's collectives, or a sender's messages to one receiver */
	uint64_t number;
	int64_t count;
	uint8_t kind, dtype, reduction, unused;
	int32_t peer;
	char what[GT_COMM_LABEL_BYTES]; /* cut off if it is too long */
};
_Static_assert(sizeof(struct gt_group_call) == GT_COMM_LINE, "one line");

struct gt_group_call gt_group_call_of(const struct gt_collective *c, uint64_t number);

/* "all-reduce 'bucket 3'", and "all-reduce 'bucket 3' of 1000 float32, sum". *call may be
 * invalid. */
struct gt_text gt_group_call_short(const struct gt_group_call *call);
struct gt_text gt_group_call_text(const struct gt_group_call *call);

/* Set GT_EINVAL: rank `rank` calls *mine, but rank `other` calls *theirs. */
int gt_call_differs(struct gt_err *err, int rank, const struct gt_group_call *mine, int other,
    const struct gt_group_call *theirs);

/* Compare the calls of a message's sender `from` and receiver `to`: 0 or GT_EINVAL. */
int gt_call_unmatched(struct gt_err *err, int from, const struct gt_group_call *sent, int to,
    const struct gt_group_call *wanted);

/* Set GT_EIO for a lost rank: "rank 2" (who) "is late" (verb) "for" (preposition) "all-reduce
 * 'bucket 3' (number 7): the last one that it took part in was number 6, broadcast". */
struct gt_lost {
	const char *who, *verb, *preposition; /* see above */
	int rank;                             /* its number */
	int by;                               /* the rank that reports the error */
	bool begun;                           /* the lost rank has begun the current collective */
	/* the current collective; the one before it, or NULL */
	const struct gt_group_call *call, *last;
};
int gt_call_lost(struct gt_err *err, const struct gt_lost *lost);

/* Complete the error for a rank that has ended or left: a hint, and gt_err_follow(). */
int gt_call_gone(struct gt_err *err);

/* The slice of m elements of `rank` is [*from, *to). Slices begin at multiples of 64; some may be
 * empty. */
void gt_slice(size_t m, int size, int rank, size_t *from, size_t *to);

/* The arguments that one rank passes to gt_group_split(). */
struct gt_split_choice {
	int32_t color, key;
};

/* Write the ranks that passed `color` to members[size], ordered by key, then rank; return their
 * number. */
int gt_choose(int *members, const struct gt_split_choice *all, int size, int color);

/* ---- group_reduce.c: arithmetic ---- */

/* Reduce src[n], n >= 2, in the order of ordered groups (group.h), into each of dst[dsts]. A
 * destination may be one of the sources. */
void gt_reduce(void *const *dst, int dsts, const void *const *src, int n, size_t count,
    enum gt_dtype dtype, enum gt_reduction reduction);

/* The number of sources in the left branch of the tree: the largest power of two below n >= 2. */
int gt_reduce_left(int n);

/* Add this rank's elements to the partial sums of the ranks before it (ring/peers.h). */
void gt_reduce_step(const struct gt_reduce_step *s);

/* ---- group_small.c: short data, which every rank has sent to all other ranks ---- */

/* Compute this rank's result from src[size], the inputs of all ranks (for a reduce-scatter, only
 * its own part of them). `out` NULL: it gets none. */
void gt_finish_small(const struct gt_collective *c, void *out, const void *const *src, int size);

/* memcpy() that accepts equal pointers */
void gt_copy_bytes(void *to, const void *from, size_t bytes);

/* ---- group_queue.c: collectives in the background ---- */

/* A thread that runs queued collectives one after the other. Only one thread at a time may call
 * these functions. */
struct gt_queue {
	int (*run)(void *self, const struct gt_collective *c, struct gt_err *err);
	void *self;
	uint64_t awaited; /* collectives up to this ticket have ended */
	struct gt_queue_thread *thread;
};

/* Wait for all queued collectives, then run this one on the caller's thread. */
int gt_queue_run(struct gt_queue *q, const struct gt_collective *c, struct gt_err *err);

int gt_queue_start(
    struct gt_queue *q, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);

/* Wait for all queued collectives, without returning their errors. */
void gt_queue_drain(struct gt_queue *q);

/* Wait for a ticket. Returns the first error of any collective, now and later. */
int gt_queue_wait(struct gt_queue *q, uint64_t ticket, struct gt_err *err);

/* End the thread after the collective that runs, which the owner must make end soon; drop the
 * others. */
void gt_queue_free(struct gt_queue *q);

#endif
