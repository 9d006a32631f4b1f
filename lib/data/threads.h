/* threads.h - inside data: threads for reading data. */
#ifndef GT_DATA_THREADS_H
#define GT_DATA_THREADS_H

#include <pthread.h>
#include <stdint.h>

#include "lib/base/err.h"

/* pthread_create(), all signals blocked in the new thread: they belong to the program's own. */
int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err);

typedef int gt_each_fn(void *context, int64_t i, struct gt_err *err);

/*
 * Call fn(context, i) for 0 <= i < n on all processors (at most 16 threads), in no particular
 * order. Returns the error of the smallest i that has one, so that the message is the same however
 * many threads there are; calls beyond it may be left out. Not OpenMP: a process that has used
 * GNU's run-time cannot fork children that use it.
 */
int gt_for_each(int64_t n, gt_each_fn *fn, void *context, struct gt_err *err);

#endif
