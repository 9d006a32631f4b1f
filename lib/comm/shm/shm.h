/* shm.h - groups on one host: ranks that share memory, threads or processes. */
#ifndef GT_COMM_SHM_SHM_H
#define GT_COMM_SHM_SHM_H

#include "lib/comm/group.h"

/*
 * Ranks of one host read each other's buffers, so no bytes travel from neighbour to neighbour: each
 * rank reduces its slice of the buffer from those of all ranks, and writes the result to all. Every
 * element leaves a rank's memory 2 (n - 1) / n times, the least that an all-reduce can do. Buffers
 * from gt_group_alloc() are reduced where they are, at any offset. Others are copied through a
 * staging area, in pieces: one is filled while the one before is reduced. Small buffers take one
 * meeting of the ranks.
 *
 * A rank that waits spins for some microseconds, or lets others run where ranks outnumber
 * processors, then sleeps on a futex. The death of a process is noticed within a fraction of a
 * second, a late process after the time-out.
 */

struct gt_shm_options {
	double timeout_s;     /* a peer that is later than this is lost; 0: 600 */
	size_t staging_bytes; /* per rank, and the same on all; 0: a good default */
};

/* How processes tell each other where their memory is: everybody's `bytes` bytes (at most 256) in
 * the order of the ranks, as gt_rendezvous_exchange(). Used while a group is made, and no more. */
struct gt_exchange {
	int (*run)(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err);
	void *self;
};

enum { GT_SHM_MAX_RANKS = 64 };

/* This process's seat in a group of processes of one host and user: a collective call.
 * Memory is a memfd of rank 0's, which no kill leaves behind. */
int gt_shm_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err);

/* All seats of a group of threads of this process: groups[size], each then used by its thread, and
 * each freed. */
int gt_shm_of_threads(
    struct gt_group **groups, int size, const struct gt_shm_options *options, struct gt_err *err);

#endif
