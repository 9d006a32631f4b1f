/* segment.h - inside comm: memory that the ranks of a host share, and each rank's own state. */
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

enum {
	GT_SHM_RANKS_MAX = GT_SHM_MAX_RANKS,
	GT_SHM_SMALL_BYTES =
	    4 * 1024,      /* of a rank's contribution, up to which one meeting does it all */
	GT_SHM_PIECES = 3, /* of a rank's staging area: see shm/collectives.c */
	GT_SHM_CHANNEL_PIECES = 2,       /* ... and of a channel between two ranks */
	GT_SHM_CHANNEL_BYTES = 64 * 1024 /* of one of them */
};

/* ---- in shared memory ---- */

/* A counter that one rank increases and other ranks wait for. It may wrap around. */
struct gt_shm_flag {
	alignas(GT_COMM_LINE) _Atomic uint32_t value;
	_Atomic uint32_t sleepers;
};

/* Where a rank's buffers are, if they are in memory from gt_group_alloc(). */
struct gt_shm_place {
	uint32_t region; /* its number + 1; 0: not there */
	uint32_t unused;
	uint64_t offset;
};

/* A rank's part of the segment, which only this rank writes. There are two places for the data of
 * calls, used in turn, because a rank may begin the next call while another rank still reads. */
struct gt_shm_seat {
	struct gt_shm_flag phase;                    /* how many times it has met the others */
	alignas(GT_COMM_LINE) _Atomic uint32_t left; /* gt_group_free() was called */
	_Atomic int32_t cpu;                         /* where it last was */
	_Atomic int32_t awaits;                      /* the rank that it sleeps for + 1; 0: none */
	alignas(2 * GT_COMM_LINE) struct {
		struct gt_group_call call;
		alignas(GT_COMM_LINE) struct gt_shm_place in, out;
	} posted[2];
	alignas(GT_COMM_LINE) unsigned char small[2][GT_SHM_SMALL_BYTES];
};

/* Messages from one rank to another. */
struct gt_shm_channel {
	struct gt_shm_flag filled, taken; /* pieces, moved on by the sender and by the receiver */
	alignas(GT_COMM_LINE) struct gt_group_call call[GT_SHM_CHANNEL_PIECES];
	alignas(GT_COMM_LINE) unsigned char piece[GT_SHM_CHANNEL_PIECES][GT_SHM_CHANNEL_BYTES];
};

/* The head of a group's segment; then come seats, channels and staging areas. */
struct gt_shm_segment {
	_Atomic uint32_t failed; /* enum gt_shm_failure */
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

enum gt_shm_failure { GT_SHM_FAILURE_NONE, GT_SHM_FAILURE_BEING_WRITTEN, GT_SHM_FAILURE_WRITTEN };

/* ---- in a rank's own memory ---- */

/* Memory that several ranks access. Threads share one mapping and count its users; each process has
 * a mapping of its own. */
struct gt_shm_share {
	unsigned char *base;
	size_t bytes;
	struct gt_shm_threads_share *threads; /* NULL between processes */
};

/* Memory from gt_group_alloc(): `bytes` of each rank, one after the other. */
struct gt_shm_region {
	struct gt_shm_share share;
	size_t bytes; /* asked for */
	size_t part;  /* from one rank's to the next's */
};

struct gt_shm {
	struct gt_group group;
	struct gt_shm_share share;
	struct gt_shm_segment *segment;
	struct gt_shm_seat *seats;       /* [size] */
	struct gt_shm_channel *channels; /* [size of senders][size of receivers] */
	unsigned char *staging;          /* [size][GT_SHM_PIECES][piece_bytes] */
	size_t piece_bytes;
	double timeout_s, spin_s, yield_s;

	bool processes;
	pid_t pids[GT_SHM_RANKS_MAX];
	int pidfds[GT_SHM_RANKS_MAX]; /* -1: none */
	int names[GT_SHM_RANKS_MAX];  /* in messages: numbers in the group that was split first */
	pid_t all[GT_SHM_RANKS_MAX];  /* the pids of that group, by their names */
	int all_count;

	uint32_t phase;            /* meetings so far */
	uint32_t piece;            /* staged pieces so far, modulo GT_SHM_PIECES */
	uint64_t number;           /* collectives so far */
	struct gt_group_call call; /* the one that runs */
	uint32_t entrance;         /* its first meeting */
	struct {
		uint32_t pieces;
		uint64_t messages;
	} sent[GT_SHM_RANKS_MAX], received[GT_SHM_RANKS_MAX];

	struct gt_shm_flag *more[2 * GT_SHM_RANKS_MAX]; /* flags of a ring over this seat */
	int more_count;

	struct gt_shm_region *regions; /* of bytes 0: free to be used again */
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* a rank that waits gives up */
	struct gt_queue queue;
};

/* Where part `rank` of the ranks' staging is, piece `piece` modulo GT_SHM_PIECES. */
static inline unsigned char *gt_shm_staging(const struct gt_shm *g, int rank, uint32_t piece)
{
	return g->staging + ((size_t)rank * GT_SHM_PIECES + piece % GT_SHM_PIECES) * g->piece_bytes;
}

/* ---- shm/segment.c: memory between ranks ---- */

/*
 * `bytes` zeroed bytes that all ranks see: rank 0 makes them, and the others open the file that the
 * exchange names. All ranks fail together. If this rank has failed before, *err has a code on
 * entry, and the rank takes part only to report it. *peers may be NULL.
 */
struct gt_shm_peers {
	pid_t pids[GT_SHM_RANKS_MAX];
	cpu_set_t cpus; /* that at least one of the ranks may use */
};

int gt_shm_share_make(struct gt_shm_share *out, size_t bytes, bool processes, int rank, int size,
    const struct gt_exchange *exchange, struct gt_shm_peers *peers, struct gt_err *err);

/* The same for the threads of gt_shm_of_threads(): one call makes it for all. */
int gt_shm_share_threads(struct gt_shm_share *out, size_t bytes, int size, struct gt_err *err);
void gt_shm_share_release(struct gt_shm_share *share);

/* For a rank that does not use the memory: call this while other ranks are in
 * gt_shm_share_make(). */
int gt_shm_share_watch(const struct gt_exchange *exchange, struct gt_err *err);

int gt_shm_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);
void gt_shm_release(struct gt_group *group, void *memory);
int gt_shm_share_one(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);

/* The place of `bytes` bytes at p in this rank's part of a region; region 0 if they are not in
 * one. */
struct gt_shm_place gt_shm_place_of(const struct gt_shm *g, const void *p, size_t bytes);

/* The address of a buffer of `bytes` bytes at a place that `rank` has sent; NULL if the place is
 * not valid. */
unsigned char *gt_shm_at(const struct gt_shm *g, int rank, struct gt_shm_place place, size_t bytes);

/* ---- shm/wait.c: flags, deadlines and failing together ---- */

/* Set the flag to `value`, and wake the ranks that wait for it. */
void gt_shm_flag_set(struct gt_shm_flag *f, uint32_t value);

/* Wait until rank `rank` has moved its flag to `value` or past it. */
int gt_shm_flag_wait(
    struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank, struct gt_err *err);

/* Tell all ranks to fail with *err, or, if another was first, take its error. Returns err->code. */
int gt_shm_fail(struct gt_shm *g, struct gt_err *err);

/* 0, or the error that a rank has failed with. */
int gt_shm_check(struct gt_shm *g, struct gt_err *err);

/* Implements gt_group_look(). */
int gt_shm_look(struct gt_shm *g, bool *gone, struct gt_err *err);

/* Wake all ranks that sleep on any flag, so that they check for errors. */
void gt_shm_wake_all(struct gt_shm *g);

/* Make all waits of this rank fail from now on. May be called on any thread. */
void gt_shm_give_up(struct gt_shm *g);

/* ---- shm/collectives.c, shm/message.c: the calls ---- */

/*
 * The two steps that begin a collective: write this rank's call to the segment, then wait for all
 * ranks and compare their calls. Afterwards a rank can read all data that other ranks wrote before.
 */
int gt_shm_announce(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);
int gt_shm_meet_alike(struct gt_shm *g, struct gt_err *err);

int gt_shm_collect(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err);

/* Send or receive a message; with `data` false, without its data. */
int gt_shm_message(struct gt_shm *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
