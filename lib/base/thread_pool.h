/* thread_pool.h - run many small tasks on a pool of threads. */
#ifndef GT_BASE_THREAD_POOL_H
#define GT_BASE_THREAD_POOL_H

#include <pthread.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Call pthread_create() with all signals blocked in the new thread, so that signals are delivered
 * to the program's own threads. Signals that a thread causes itself, such as SIGBUS, are not
 * blocked: their handlers run in that thread. */
int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err);

/*
 * The number of threads for `wanted`: at most 64. For 0 it is one per processor that this process
 * may use, at most 16, because with more threads the speed of memory limits gtrain's tasks.
 */
size_t gt_thread_pool_size(size_t wanted);

/* Do the task of this number. Other threads do other tasks at the same time. */
typedef int gt_task_fn(void *self, size_t task, struct gt_err *err);

/*
 * Call work(self, i, err) once for every i < tasks, by gt_thread_pool_size(threads) threads, of
 * which the caller is one. Each thread takes the next i when it is done with its last one. If a
 * thread cannot be started, the other threads do its tasks.
 *
 * If tasks fail, the error is that of the failed task with the lowest number, whatever the number
 * of threads. Tasks begin in order, so all tasks below it have begun, and they are finished. After
 * a failure no more tasks begin.
 *
 * Not OpenMP: a process that has used GNU's run-time cannot fork children that use it.
 */
int gt_thread_pool_run(
    size_t threads, size_t tasks, gt_task_fn *work, void *self, struct gt_err *err);

#endif
