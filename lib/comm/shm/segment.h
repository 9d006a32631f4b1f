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
 * A segment is memory that all ranks of a group share: a struct gt_shm_segment, the rank areas, the
 * channels for messages, the staging areas, which hold copies of buffers that the other ranks
 * cannot read directly, and the slots of channels. Data longer than a slot are cut into pieces.
 *
 * A meeting synchronizes all ranks: each increases its flag `phase` and waits for the others. Each
 * collective begins with a meeting.
 */
enum {
	GT_SHM_RANKS_MAX = GT_SHM_MAX_RANKS,
	/* a collective with inputs of at most this size needs only one meeting */
	GT_SHM_SMALL_BYTES = 4 * 1024,
	/* Piece k is copied in before meeting k, and may be read until meeting k + 2. */
	GT_SHM_STAGING_SLOTS = 3,
	GT_SHM_SLOT_BYTES = 64 * 1024, /* bytes of a piece */
	/* Pieces that a channel holds. In a group of two, such as a link of a pipeline, each rank
	 * sends to one other only, so its channel is long: the sender's background thread writes a
	 * whole message at once, and need not run again whenever the receiver has taken a piece. */
	GT_SHM_CHANNEL_SLOTS = 2,
	GT_SHM_PAIR_SLOTS = GT_SHM_PAIR_BYTES / GT_SHM_SLOT_BYTES
};

/* ---- in shared memory ---- */

/* A counter that one rank increases and other ranks wait for. It may wrap around. */
struct gt_shm_flag {
	alignas(GT_COMM_LINE) _Atomic uint32_t value;
	_Atomic uint32_t sleepers; /* number of ranks that sleep until `value` changes */
};

/* The position of a buffer in memory from gt_group_alloc(). */
struct gt_shm_place {
	/* 1 + the index in gt_shm.regions; 0: not in any region */
	uint32_t region;
	uint32_t unused;
	uint64_t offset; /* in the rank's part of the region */
};

/* Written by one rank, read by all. Call n uses posted[n % 2] and small[n % 2], as another rank may
 * still read the data of the call before. */
struct gt_shm_rank_area {
	struct gt_shm_flag phase;                    /* meetings that the rank has reached */
	alignas(GT_COMM_LINE) _Atomic uint32_t left; /* 1: the rank has called gt_group_free() */
	_Atomic int32_t cpu;                         /* the processor of its last collective */
	/* 1 + the rank for which this rank sleeps; 0: it does not sleep */
	_Atomic int32_t awaits;
	_Atomic uint64_t waited_ns; /* time in which the rank waited for others */
	alignas(2 * GT_COMM_LINE) struct {
		struct gt_group_call call;
		alignas(GT_COMM_LINE) struct gt_shm_place in, out;
	} posted[2];
	/* the input of a small call */
	alignas(GT_COMM_LINE) unsigned char small[2][GT_SHM_SMALL_BYTES];
};

/* Messages from one rank to another. Piece k uses slot (k + shift) modulo gt_shm.slot_count. */
struct gt_shm_channel {
	/* pieces that the sender has written, and the receiver has read */
	struct gt_shm_flag filled, taken;
	/* Changed by the sender while the channel is empty: the next message begins in slot 0, so
	 * that later slots, and their memory, are used only by long messages, or by several that
	 * wait at once. */
	alignas(GT_COMM_LINE) uint32_t shift;
};

struct gt_shm_slot {
	struct gt_group_call call;
	alignas(GT_COMM_LINE) unsigned char piece[GT_SHM_SLOT_BYTES];
};

/* The start of a segment: the error with which the group has failed. */
struct gt_shm_segment {
	_Atomic uint32_t failed; /* enum gt_shm_failure */
	int32_t code, lost;      /* of struct gt_err, as are the texts */
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

enum gt_shm_failure { GT_SHM_FAILURE_NONE, GT_SHM_FAILURE_BEING_WRITTEN, GT_SHM_FAILURE_WRITTEN };

/* ---- in a rank's own memory ---- */

/* Shared memory. Threads use one mapping, and count its users; each process has its own. */
struct gt_shm_share {
	unsigned char *base;
	size_t bytes;
	struct gt_shm_threads_share *threads; /* NULL between processes */
};

/* Memory from one gt_group_alloc(): one part for each rank. */
struct gt_shm_region {
	struct gt_shm_share share;
	size_t bytes; /* requested by each rank; 0: free for reuse */
	size_t part;  /* bytes from one part to the next */
};

/* Where the ranks of this group also wait for those of other hosts (hosts/hosts.h). All are NULL if
 * they do not; ranks have the numbers in gt_shm.names. */
struct gt_shm_elsewhere {
	void *self;
	/* called now and then while this rank waits for `rank` */
	void (*look)(void *self, int rank);
	/* `rank` is late: return the rank that keeps the others waiting */
	int (*find_late)(void *self, int rank);
	/* write "rank 2 on host b" */
	void (*name)(void *self, char *out, size_t size, int rank);
};

struct gt_shm {
	struct gt_group group;
	struct gt_shm_share share;
	struct gt_shm_segment *segment;
	struct gt_shm_rank_area *areas;  /* [size] */
	struct gt_shm_channel *channels; /* [sender][receiver] */
	struct gt_shm_slot *slots;       /* [sender][other receiver][slot_count] */
	uint32_t slot_count;             /* of a channel; a power of 2 */
	unsigned char *staging;          /* [size][GT_SHM_STAGING_SLOTS][piece_bytes] */
	size_t piece_bytes;              /* of a staging slot */
	/* a wait spins for spin_s, calls sched_yield() for yield_s, then sleeps, up to timeout_s */
	double timeout_s, spin_s, yield_s;

	bool processes; /* ranks are processes, not threads */
	pid_t pids[GT_SHM_RANKS_MAX];
	/* from pidfd_open(); -1: this rank, or not available */
	int pidfds[GT_SHM_RANKS_MAX];
	/* names[r]: rank r's number in the group that was split first, for messages */
	int names[GT_SHM_RANKS_MAX];
	pid_t all[GT_SHM_RANKS_MAX]; /* pids of that group */
	int all_count;               /* its size */

	struct gt_shm_elsewhere elsewhere;

	uint32_t phase;            /* meetings so far */
	uint32_t piece;            /* staged pieces so far, modulo GT_SHM_STAGING_SLOTS */
	uint64_t number;           /* collectives so far */
	struct gt_group_call call; /* the current collective or message */
	uint32_t entrance;         /* `phase` of its first meeting */
	struct {
		uint32_t pieces;
		uint64_t messages;
	} sent[GT_SHM_RANKS_MAX], received[GT_SHM_RANKS_MAX];

	/* flags of a ring (lib/comm/ring/peers_shm.c), which gt_shm_wake_all() also wakes */
	struct gt_shm_flag *more[2 * GT_SHM_RANKS_MAX];
	int more_count;

	struct gt_shm_region *regions;
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* all waits of this rank give up */
	struct gt_queue queue;
};

/* The slot of a piece in a rank's staging area. */
static inline unsigned char *gt_shm_staging(const struct gt_shm *g, int rank, uint32_t piece)
{
	return g->staging + ((size_t)rank * GT_SHM_STAGING_SLOTS + piece % GT_SHM_STAGING_SLOTS) *
	                        g->piece_bytes;
}

/* ---- shm/segment.c: memory between ranks ---- */

/* Facts about the processes of all ranks. */
struct gt_shm_peers {
	pid_t pids[GT_SHM_RANKS_MAX];
	cpu_set_t cpus; /* that at least one rank may use */
};

/* Allocate zeroed memory that all ranks share: a collective call. If a rank fails, all fail. A
 * caller that has already failed must call this with its error in *err. `peers` may be NULL. */
int gt_shm_share_make(struct gt_shm_share *out, size_t bytes, bool processes, int rank, int size,
    const struct gt_exchange *exchange, struct gt_shm_peers *peers, struct gt_err *err);

/* Allocate zeroed memory for `size` threads, once for all of them. Each gets a copy of *out, and
 * releases it. */
int gt_shm_share_threads(struct gt_shm_share *out, size_t bytes, int size, struct gt_err *err);

void gt_shm_share_release(struct gt_shm_share *share);

/* Called by a rank that does not join a new group while others call gt_shm_share_make(). */
int gt_shm_share_skip(const struct gt_exchange *exchange, struct gt_err *err);

/* Implement gt_group_alloc(), gt_group_release() and gt_group_share(). */
int gt_shm_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);
void gt_shm_release(struct gt_group *group, void *memory);
int gt_shm_share_one(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);

/* Find a buffer in this rank's parts of the regions. */
struct gt_shm_place gt_shm_place_of(const struct gt_shm *g, const void *p, size_t bytes);

/* Return this process's address of a place of rank `rank`; NULL: not valid. */
unsigned char *gt_shm_at(const struct gt_shm *g, int rank, struct gt_shm_place place, size_t bytes);

/* ---- shm/wait.c: flags, deadlines and failing together ---- */

/* Set the flag, and wake the ranks that sleep on it. */
void gt_shm_flag_set(struct gt_shm_flag *f, uint32_t value);

/* gt_group_ops.waited_s() */
double gt_shm_waited_s(const struct gt_group *group, int rank);

/* Wait until `rank` has increased its flag to `value` or more. */
int gt_shm_flag_wait(
    struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank, struct gt_err *err);

/* Fail all ranks with *err, or set *err to the error of a rank that failed before. Returns
 * err->code. */
int gt_shm_fail(struct gt_shm *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_shm_check(struct gt_shm *g, struct gt_err *err);

/* Implements gt_group_check_peers(). */
int gt_shm_check_peers(struct gt_shm *g, bool *gone, struct gt_err *err);

/* Wake all ranks, so that they check for errors. */
void gt_shm_wake_all(struct gt_shm *g);

/* Make all waits of this rank fail from now on; from any thread. */
void gt_shm_give_up(struct gt_shm *g);

/* ---- shm/collectives.c, shm/message.c: the calls ---- */

/* Begin a collective: write this rank's call to its area; meet all ranks and compare their
 * calls. */
int gt_shm_announce(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);
int gt_shm_check_calls(struct gt_shm *g, struct gt_err *err);

int gt_shm_collect(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);

/* Run GT_SEND or GT_RECV. Without `data`, only the calls are compared. */
int gt_shm_message(struct gt_shm *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
