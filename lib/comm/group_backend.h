/* group_backend.h - inside comm: declarations that the backends of groups share. */
#ifndef GT_COMM_GROUP_BACKEND_H
#define GT_COMM_GROUP_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/comm/group_meet.h"
#include "lib/comm/ring/peers.h"

enum { GT_COMM_LINE = 64, GT_COMM_LABEL_BYTES = 40 };

/* ---- group.c ---- */

/* Whether this rank's `in` is read, and its `out` written. */
bool gt_group_reads(const struct gt_group *g, const struct gt_collective *c);
bool gt_group_writes(const struct gt_group *g, const struct gt_collective *c);

/* ---- group_call.c ---- */

/* A rank's call. Ranks compare these, so unused bytes are zero. */
struct gt_group_call {
	/* counts from 1, for each group; for messages, for each pair and direction */
	uint64_t number;
	int64_t count;
	uint8_t kind, dtype, reduction, unused;
	int32_t peer;
	char what[GT_COMM_LABEL_BYTES]; /* cut off if longer; "" for none */
};
_Static_assert(sizeof(struct gt_group_call) == GT_COMM_LINE, "one line");

struct gt_group_call gt_group_call_of(const struct gt_collective *c, uint64_t number);

/* "all-reduce 'bucket 3'", and "all-reduce 'bucket 3' of 1000 float32, sum", for a call whose
 * content may be invalid. */
struct gt_text gt_group_call_short(const struct gt_group_call *call);
struct gt_text gt_group_call_text(const struct gt_group_call *call);

/* GT_EINVAL: two ranks call different collectives; a message is not the expected one. Returns 0 if
 * the calls match. */
int gt_call_differs(struct gt_err *err, int rank, const struct gt_group_call *mine, int other,
    const struct gt_group_call *theirs);
int gt_call_unmatched(struct gt_err *err, int from, const struct gt_group_call *sent, int to,
    const struct gt_group_call *wanted);

/* Set GT_EIO for a rank that does not respond. The text is built from parts such as "rank 2", "is
 * late", "for", and ends with the last collective that the rank reached. This is either the current
 * collective or the one before: each collective begins with a meeting of all ranks, so no rank can
 * be further behind. */
struct gt_lost {
	const char *who, *verb, *before;
	int by; /* the rank that says so */
	bool begun;
	const struct gt_group_call *call, *last; /* NULL: this is the first */
};
int gt_call_lost(struct gt_err *err, const struct gt_lost *lost);

/* The slice [*from, *to) that `rank` has of m elements. Slices consist of whole cache lines if m is
 * large enough. */
void gt_slice(size_t m, int size, int rank, size_t *from, size_t *to);

/* A rank's arguments of gt_group_split(). Write the ranks that gave `color` to members[size], in
 * their new order, and return their number. */
struct gt_split_choice {
	int32_t color, key;
};
int gt_choose(int *members, const struct gt_split_choice *all, int size, int color);

/* ---- group_reduce.c: arithmetic ---- */

/*
 * Reduce src[n][count] as a tree, n >= 2, and write the result to each of dst[dsts], dsts >= 1. A
 * dst may be one of the sources; otherwise they do not overlap. All are aligned to their elements.
 */
void gt_reduce(void *const *dst, int dsts, const void *const *src, int n, size_t count,
    enum gt_dtype dtype, enum gt_reduction reduction);

/* The number of sources, out of n >= 2, in the left half of the tree. It is the largest power of
 * two below n. */
int gt_reduce_left(int n);

/* A step of a sum that goes from rank to rank (ring/peers.h). */
void gt_reduce_step(const struct gt_reduce_step *s);

/* ---- group_small.c: short data, which every rank has sent to all ---- */

/*
 * The result on this rank, as `out` in struct gt_collective; NULL where it gets nothing.
 *
 *   src[size]  the input of each rank, c->count elements; of a reduce-scatter, to this rank; of a
 *              broadcast, that of c->peer counts alone
 */
void gt_finish_small(const struct gt_collective *c, void *out, const void *const *src, int size);

/* memcpy(), but `to` may be equal to `from`. */
void gt_copy_bytes(void *to, const void *from, size_t bytes);

/* ---- group_queue.c: collectives in the background ---- */

/* A group's thread, which runs queued collectives one after the other. The first collective starts
 * the thread. Only one of these functions may be called at a time. */
struct gt_queue {
	int (*run)(void *self, const struct gt_collective *c, struct gt_err *err);
	void *self;
	uint64_t awaited; /* the collectives up to this ticket have ended */
	struct gt_queue_thread *thread;
};

/* Run a collective now, after all started ones. */
int gt_queue_run(struct gt_queue *q, const struct gt_collective *c, struct gt_err *err);

int gt_queue_start(
    struct gt_queue *q, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);

/* Wait until the calls that were started have ended; gt_queue_wait() returns their errors. */
void gt_queue_drain(struct gt_queue *q);

/* Wait until the collective of this ticket has ended, or all (GT_GROUP_ALL). Returns the first
 * error of any collective, also in all later calls. */
int gt_queue_wait(struct gt_queue *q, uint64_t ticket, struct gt_err *err);

/* Give up calls that have not begun, and wait for the one that has: its `run` has to notice by
 * itself that the group is closing. */
void gt_queue_free(struct gt_queue *q);

#endif
