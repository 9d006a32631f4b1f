/* threads.h - run the ranks of a job as threads of one process. */
#ifndef GT_COMM_LAUNCH_THREADS_H
#define GT_COMM_LAUNCH_THREADS_H

#include <stdbool.h>

#include "lib/comm/shm/shm.h"

struct gt_threads_options {
	struct gt_shm_options shm;
	bool ring; /* the groups are rings (lib/comm/ring/ring.h) over shared memory */
};

/* Run by each rank. It must not free the group, nor return before it has called all collectives
 * that other ranks call. */
typedef int gt_thread_fn(void *self, struct gt_group *group, struct gt_err *err);

/* Run `fn` for `size` ranks, rank 0 on the caller's thread. A rank that fails leaves its group, so
 * ranks that wait for it fail, too. Returns the first error of a rank that failed by itself, with
 * the prefix "rank 2: " unless rank 0 failed with the same text. */
int gt_threads_run(int size, const struct gt_threads_options *options, gt_thread_fn *fn, void *self,
    struct gt_err *err);

#endif
