/* shm.h - groups on one host: ranks are threads or processes that share memory. */
#ifndef GT_COMM_SHM_SHM_H
#define GT_COMM_SHM_SHM_H

#include "lib/comm/group.h"

/*
 * Each rank reduces one slice of the buffers of all ranks, and writes the result to all of them.
 * Buffers in memory from gt_group_alloc() are reduced in place. Other buffers are copied through a
 * staging area, piece by piece.
 */

struct gt_shm_options {
	double timeout_s; /* limit for the response of a rank; 0: 600 s */
	/* of each rank's staging area, the same on all ranks; 0: the default */
	size_t staging_bytes;
};

/* An all-gather of small messages, with which a group is made: each rank passes mine[bytes], at
 * most 256 bytes, and gets all[size * bytes]. */
struct gt_exchange {
	int (*run)(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err);
	void *self;
};

enum {
	GT_SHM_MAX_RANKS = 64,
	/* bytes of messages that are sent before one is received, in a group of two */
	GT_SHM_PAIR_BYTES = 16 << 20
};

/* Make a group of processes of one user: a collective call. The system frees the shared memory even
 * if all ranks are killed. */
int gt_shm_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err);

/* Make a group of threads, once for all of them: groups[size]. Free each with gt_group_free(). */
int gt_shm_of_threads(
    struct gt_group **groups, int size, const struct gt_shm_options *options, struct gt_err *err);

#endif
