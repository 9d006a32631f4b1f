/* threads.h - the ranks of a job as threads of one process. */
#ifndef GT_COMM_LAUNCH_THREADS_H
#define GT_COMM_LAUNCH_THREADS_H

#include <stdbool.h>

#include "lib/comm/shm/shm.h"

struct gt_threads_options {
	struct gt_shm_options shm;
	bool ring; /* seats are those of a ring (ring.h) over shared memory */
};

/* The work of one rank with its seat. It does not free the seat, and returns when its peers do,
 * unless it goes on alone. Called on all threads with the same `self`. */
typedef int gt_thread_fn(void *self, struct gt_group *group, struct gt_err *err);

/*
 * Call fn for `size` ranks, rank 0 on the caller's thread, each other on one of its own, which
 * blocks the signals that the caller blocks; return when all have ended. A rank that fails gives up
 * its seat, so that ranks waiting for it end, too.
 *
 * Errors: that of the rank which failed first, as the others' are mostly that this one has left.
 * It begins with "rank R: " unless R is 0 or rank 0 says the same.
 */
int gt_threads_run(int size, const struct gt_threads_options *options, gt_thread_fn *fn, void *self,
    struct gt_err *err);

#endif
