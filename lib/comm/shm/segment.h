/* segment.h - private: the shared memory of a group on one host, and each rank's own state. */
#ifndef GT_COMM_SHM_SEGMENT_H
#define GT_COMM_SHM_SEGMENT_H

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/shm/shm.h"

/*
 * A segment is a block of memory that all ranks of a group (lib/comm/group.h) share. It begins with
 * a struct gt_shm_segment. After this struct come the rank areas, the channels and the staging
 * areas:
 *
 *   rank area       the part of a segment that one rank writes and all ranks read
 *   channel         messages (GT_SEND) from one rank to another rank
 *   staging area    copies of a rank's buffers that the other ranks cannot read directly
 *
 * Data that are longer than a slot of a channel or of a staging area are cut into pieces.
 *
 * A meeting is the synchronization of all ranks of a group. A rank increases its flag `phase` and
 * waits until all other ranks have done the same. After a meeting, a rank can read all data that
 * other ranks have written before it. Each collective begins with a meeting.
 */
enum {
	GT_SHM_RANKS_MAX = GT_SHM_MAX_RANKS,
	/* if the input of each rank has at most this number of bytes, a collective needs only one
	 * meeting */
	GT_SHM_SMALL_BYTES = 4 * 1024,
	/* Slots in the staging area of a rank. Piece k is copied in before meeting k,
	 * and may be read until meeting k + 2. Then its slot is free for piece k + 3. */
	GT_SHM_STAGING_SLOTS = 3,
	GT_SHM_CHANNEL_SLOTS = 2,        /* slots in a channel */
	GT_SHM_CHANNEL_BYTES = 64 * 1024 /* bytes of a slot in a channel */
};

/* ---- in shared memory ---- */

/* A counter that one rank increases and other ranks wait for. It may wrap around. */
struct gt_shm_flag {
	alignas(GT_COMM_LINE) _Atomic uint32_t value;
	_Atomic uint32_t sleepers; /* number of ranks that sleep until `value` changes */
};

/* The position of a rank's buffer in memory from gt_group_alloc(). */
struct gt_shm_place {
	/* index of the region in gt_shm.regions, plus 1; 0: the buffer is not in any region */
	uint32_t region;
	uint32_t unused;
	uint64_t offset; /* bytes from the start of the rank's part of the region */
};

/* The part of the segment that only one rank writes. Call n uses posted[n % 2] and small[n % 2],
 * because a rank may begin the next call while another rank still reads the data of this call. */
struct gt_shm_rank_area {
	struct gt_shm_flag phase; /* number of meetings that the rank has reached */
	alignas(GT_COMM_LINE) _Atomic uint32_t left; /* 1: the rank has called gt_group_free() */
	_Atomic int32_t cpu; /* the processor on which the rank began its last collective */
	/* the rank for which this rank waits while it sleeps, plus 1; 0: this rank does not
	 * sleep */
	_Atomic int32_t awaits;
	/* the call, and the positions of its buffers */
	alignas(2 * GT_COMM_LINE) struct {
		struct gt_group_call call;
		alignas(GT_COMM_LINE) struct gt_shm_place in, out;
	} posted[2];
	/* the input of the call, if it has at most GT_SHM_SMALL_BYTES bytes */
	alignas(GT_COMM_LINE) unsigned char small[2][GT_SHM_SMALL_BYTES];
};

/* Messages from one rank to another rank. Piece k uses slot k modulo GT_SHM_CHANNEL_SLOTS. */
struct gt_shm_channel {
	/* number of pieces that the sender has written; number that the receiver has read */
	struct gt_shm_flag filled, taken;
	alignas(GT_COMM_LINE) struct gt_group_call call[GT_SHM_CHANNEL_SLOTS];
	alignas(GT_COMM_LINE) unsigned char piece[GT_SHM_CHANNEL_SLOTS][GT_SHM_CHANNEL_BYTES];
};

/* The start of a segment: the error with which the group has failed. */
struct gt_shm_segment {
	_Atomic uint32_t failed; /* enum gt_shm_failure */
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

enum gt_shm_failure { GT_SHM_FAILURE_NONE, GT_SHM_FAILURE_BEING_WRITTEN, GT_SHM_FAILURE_WRITTEN };

/* ---- in a rank's own memory ---- */

/* A block of memory that several ranks access. Threads use the same mapping, and count its users.
 * Each process has its own mapping. */
struct gt_shm_share {
	unsigned char *base;
	size_t bytes;
	struct gt_shm_threads_share *threads; /* the count of users; NULL between processes */
};

/* Memory from one call of gt_group_alloc(). It has one part for each rank, in the order of
 * ranks. */
struct gt_shm_region {
	struct gt_shm_share share;
	size_t bytes; /* size that each rank has requested */
	size_t part;  /* distance from one rank's part to the next, in bytes */
};

struct gt_shm {
	struct gt_group group;
	struct gt_shm_share share;
	struct gt_shm_segment *segment;
	struct gt_shm_rank_area *areas;  /* [size] */
	struct gt_shm_channel *channels; /* [size][size]: by sender, then by receiver */
	unsigned char *staging;          /* [size][GT_SHM_STAGING_SLOTS][piece_bytes] */
	size_t piece_bytes;              /* bytes of a slot in the staging areas */
	/* give up on a rank that does not respond within timeout_s; a rank that waits first spins
	 * for spin_s, then calls sched_yield() for yield_s, then sleeps */
	double timeout_s, spin_s, yield_s;

	bool processes;               /* true: ranks are processes; false: threads */
	pid_t pids[GT_SHM_RANKS_MAX]; /* process id of each rank */
	/* file descriptor of each process, from pidfd_open(); -1: this rank itself, or not
	 * available */
	int pidfds[GT_SHM_RANKS_MAX];
	/* the number of each rank in error messages: its rank in the original group, from which
	 * this group was split, perhaps in several steps */
	int names[GT_SHM_RANKS_MAX];
	pid_t all[GT_SHM_RANKS_MAX]; /* process ids of all ranks of the original group */
	int all_count;               /* size of the original group */

	uint32_t phase;            /* number of meetings so far */
	uint32_t piece;            /* number of staged pieces so far, modulo GT_SHM_STAGING_SLOTS */
	uint64_t number;           /* number of collectives so far */
	struct gt_group_call call; /* the current collective or message */
	uint32_t entrance;         /* `phase` of the first meeting of the current collective */
	/* numbers of pieces and messages so far: sent to each rank, received from each rank */
	struct {
		uint32_t pieces;
		uint64_t messages;
	} sent[GT_SHM_RANKS_MAX], received[GT_SHM_RANKS_MAX];

	/* flags in other memory, added by a ring that uses this group (lib/comm/ring/peers_shm.c);
	 * gt_shm_wake_all() also wakes the ranks that sleep on these flags */
	struct gt_shm_flag *more[2 * GT_SHM_RANKS_MAX];
	int more_count;

	struct gt_shm_region *regions; /* a region with bytes 0 is free and can be reused */
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* true: all waits of this rank give up */
	struct gt_queue queue;
};

/* Return the address of slot `piece` modulo GT_SHM_STAGING_SLOTS in the staging area of rank
 * `rank`. */
static inline unsigned char *gt_shm_staging(const struct gt_shm *g, int rank, uint32_t piece)
{
	return g->staging + ((size_t)rank * GT_SHM_STAGING_SLOTS + piece % GT_SHM_STAGING_SLOTS) *
	                        g->piece_bytes;
}

/* ---- shm/segment.c: memory between ranks ---- */

/* Facts about the processes of all ranks. */
struct gt_shm_peers {
	pid_t pids[GT_SHM_RANKS_MAX];
	cpu_set_t cpus; /* the processors that at least one rank may use */
};

/*
 * Allocate `bytes` bytes of zeroed memory that all ranks share: a collective call.
 *
 * Rank 0 allocates the memory, and tells the other ranks through `exchange` where it is: threads
 * get its address, and processes get a file to map. If a rank fails, all ranks fail. A caller that
 * has already failed must call this function nevertheless, with its error in *err; the other ranks
 * then fail, too. *peers is set to the facts about all processes; `peers` may be NULL.
 */
int gt_shm_share_make(struct gt_shm_share *out, size_t bytes, bool processes, int rank, int size,
    const struct gt_exchange *exchange, struct gt_shm_peers *peers, struct gt_err *err);

/* Allocate `bytes` bytes of zeroed memory for `size` threads. One thread calls this for all of
 * them, and then gives each thread a copy of *out. Each thread releases its copy. */
int gt_shm_share_threads(struct gt_shm_share *out, size_t bytes, int size, struct gt_err *err);

/* Unmap the memory. If the ranks are threads, only the call of the last thread unmaps it. */
void gt_shm_share_release(struct gt_shm_share *share);

/* Take part in the exchanges of gt_shm_share_make() without using the memory. A rank that does
 * not join a new group calls this while the other ranks call gt_shm_share_make(). */
int gt_shm_share_skip(const struct gt_exchange *exchange, struct gt_err *err);

/* Allocate and free memory that all ranks can access: implement gt_group_alloc(),
 * gt_group_release() and gt_group_share(). */
int gt_shm_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);
void gt_shm_release(struct gt_group *group, void *memory);
int gt_shm_share_one(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);

/* Find the region that contains the `bytes` bytes at `p`, and return their position in this rank's
 * part of the region. If no region contains them, the member `region` of the result is 0. */
struct gt_shm_place gt_shm_place_of(const struct gt_shm *g, const void *p, size_t bytes);

/* Rank `rank` has written `place` to its area. Return the address that the `bytes` bytes at this
 * place have in this process. Return NULL if the place is not valid. */
unsigned char *gt_shm_at(const struct gt_shm *g, int rank, struct gt_shm_place place, size_t bytes);

/* ---- shm/wait.c: flags, deadlines and failing together ---- */

/* Set the flag to `value`, and wake the ranks that sleep on it. */
void gt_shm_flag_set(struct gt_shm_flag *f, uint32_t value);

/* Wait until rank `rank` has increased its flag *f to `value` or more. If that rank fails, dies,
 * leaves or is late, fail with an error. */
int gt_shm_flag_wait(
    struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank, struct gt_err *err);

/* Make all ranks fail with *err. If another rank has failed before, copy the error of that rank to
 * *err instead. Returns err->code. */
int gt_shm_fail(struct gt_shm *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_shm_check(struct gt_shm *g, struct gt_err *err);

/* Check, without waiting, that no rank has failed, died or left: implements
 * gt_group_check_peers(). */
int gt_shm_check_peers(struct gt_shm *g, bool *gone, struct gt_err *err);

/* Wake all ranks that sleep on any flag, so that they check for errors. */
void gt_shm_wake_all(struct gt_shm *g);

/* Make all waits of this rank fail from now on. May be called on any thread. */
void gt_shm_give_up(struct gt_shm *g);

/* ---- shm/collectives.c, shm/message.c: the calls ---- */

/*
 * Begin a collective, in two steps. gt_shm_announce() writes this rank's call to its area.
 * gt_shm_check_calls() is the first meeting: it waits for all ranks and compares their calls.
 */
int gt_shm_announce(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);
int gt_shm_check_calls(struct gt_shm *g, struct gt_err *err);

/* Run a collective. */
int gt_shm_collect(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);

/* Send or receive a message (GT_SEND, GT_RECV). If `data` is false, only the calls are compared. */
int gt_shm_message(struct gt_shm *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
