/* shm.h - groups on one host: ranks that share memory, threads or processes. */
#ifndef GT_COMM_SHM_SHM_H
#define GT_COMM_SHM_SHM_H

#include "lib/comm/group.h"

/*
 * Ranks of one host read each other's buffers directly. Each rank reduces its slice of the buffers
 * of all ranks, and writes the result to all ranks. Every element leaves a rank's memory 2 (n - 1)
 * / n times, the least that an all-reduce can do. Buffers from gt_group_alloc() are reduced where
 * they are, at any offset. Others are copied through a staging area, in pieces: one is filled while
 * the one before is reduced. Small buffers take one meeting of the ranks.
 *
 * A rank that waits spins for some microseconds; if there are more ranks than processors, it calls
 * sched_yield() instead. Then it sleeps on a futex. The death of a process is noticed within a
 * fraction of a second, a late process after the time-out.
 */

struct gt_shm_options {
	double timeout_s;     /* give up on a peer that does not respond within this time; 0: 600 */
	size_t staging_bytes; /* per rank, and the same on all; 0: a good default */
};

/* A function with which processes exchange descriptions of their memory: it gathers `bytes` bytes
 * (at most 256) of each rank in the order of ranks, like gt_rendezvous_exchange(). It is used only
 * while a group is made. */
struct gt_exchange {
	int (*run)(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err);
	void *self;
};

enum { GT_SHM_MAX_RANKS = 64 };

/* Make a group of processes of one host and one user; *out is for this process. A collective call.
 * The memory is a memfd of rank 0, which the system frees even if all ranks are killed. */
int gt_shm_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err);

/* Make a group of threads of this process: groups[r] is for the thread of rank r. Free each of
 * them. */
int gt_shm_of_threads(
    struct gt_group **groups, int size, const struct gt_shm_options *options, struct gt_err *err);

#endif
