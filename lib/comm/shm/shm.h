/* shm.h - groups on one host: ranks are threads or processes that share memory. */
#ifndef GT_COMM_SHM_SHM_H
#define GT_COMM_SHM_SHM_H

#include "lib/comm/group.h"

/*
 * Ranks on one host read each other's buffers directly. Each rank reduces one slice of the buffers
 * of all ranks, and writes the result to the buffers of all ranks. In an all-reduce of n ranks, the
 * number of bytes that leave the memory of a rank is 2 * (n - 1) / n times the size of its buffer.
 * This is the smallest possible number.
 *
 * Buffers in memory from gt_group_alloc() are reduced in place, at any offset. Other buffers are
 * copied through a staging area in shared memory, piece by piece. One piece is copied while the
 * previous piece is reduced. For small buffers the ranks synchronize only once.
 *
 * A waiting rank first spins for some microseconds, unless there are more ranks than processors.
 * Then it calls sched_yield() for some microseconds, and then it sleeps on a futex. If a process
 * dies, the other ranks notice this within a fraction of a second. If a rank does not respond, they
 * notice this after the time-out.
 */

struct gt_shm_options {
	double timeout_s; /* give up on a rank that does not respond within this time; 0: 600 s */
	/* size of each rank's staging area, the same on all ranks; 0: the default size */
	size_t staging_bytes;
};

/* A function with which processes exchange descriptions of their memory, and its first argument
 * `self`. All ranks call run() with the same `bytes`, at most 256. Each rank passes mine[bytes],
 * and gets the bytes of all ranks, in the order of ranks, in all[size * bytes]. run() is called
 * only while a group is made. */
struct gt_exchange {
	int (*run)(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err);
	void *self;
};

enum { GT_SHM_MAX_RANKS = 64 };

/* Make a group of processes of one user on one host; *out is this process's handle. A collective
 * call. The shared memory is a memfd (memfd_create(2)) of rank 0. The system frees it even if all
 * ranks are killed. */
int gt_shm_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err);

/* Make a group of threads of this process. One thread calls this; groups[r] is the handle for the
 * thread of rank r. Free each handle with gt_group_free(). */
int gt_shm_of_threads(
    struct gt_group **groups, int size, const struct gt_shm_options *options, struct gt_err *err);

#endif
