/* threads.h - run the ranks of a job as threads of one process. */
#ifndef GT_COMM_LAUNCH_THREADS_H
#define GT_COMM_LAUNCH_THREADS_H

#include <stdbool.h>

#include "lib/comm/shm/shm.h"

struct gt_threads_options {
	struct gt_shm_options shm;
	bool ring; /* the groups are rings (lib/comm/ring/ring.h) over shared memory */
};

/* The function that each rank runs. It communicates through `group`, but must not free the group.
 * It must not return before it has called all collectives that other ranks call. All ranks get the
 * same `self`. Returns 0 or an error code. */
typedef int gt_thread_fn(void *self, struct gt_group *group, struct gt_err *err);

/*
 * Run `fn` for `size` ranks: rank 0 on the caller's thread, and every other rank on a new thread
 * with the caller's signal mask. Return when all ranks have ended. A rank that fails leaves its
 * group, so ranks that wait for it fail, too.
 *
 * Errors: the error of the rank that failed first. But if that rank failed only because another
 * rank had failed (gt_err_follow()), the error of a rank that failed by itself, if there is one.
 * The text begins with the rank: "rank 2: ". This prefix is left out if the rank is 0, or if rank 0
 * failed with the same text. GT_ENOMEM if a thread cannot be started.
 */
int gt_threads_run(int size, const struct gt_threads_options *options, gt_thread_fn *fn, void *self,
    struct gt_err *err);

#endif
