/* thread_pool.h - threads, and many small tasks shared out among several. */
#ifndef GT_BASE_THREAD_POOL_H
#define GT_BASE_THREAD_POOL_H

#include <pthread.h>
#include <stddef.h>

#include "lib/base/err.h"

/* pthread_create(), signals blocked in the new thread, so that the program's own threads get them.
 * Signals that a thread causes itself, such as SIGBUS, are not blocked: their handlers run in that
 * thread. */
int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err);

/*
 * The number of threads for `wanted`: that many, but at most 64; for 0 one per processor that this
 * process may use, at most 16 (with more, memory limits the tasks here).
 */
size_t gt_thread_pool_size(size_t wanted);

/* Do the task of this number. Other threads do other tasks at the same time. */
typedef int gt_task_fn(void *self, size_t task, struct gt_err *err);

/*
 * Call work(self, i, err) once for every i < tasks, by gt_thread_pool_size(threads) threads, of
 * which the caller is one. Each thread takes the next i when it is done with its last one. Threads
 * that cannot be started are done without.
 *
 * If tasks fail, the error is that of the lowest one, for any number of threads: tasks begin in
 * order, so all tasks below the first failing one have begun and are finished; no others begin.
 *
 * Not OpenMP: a process that has used GNU's run-time cannot fork children that use it.
 */
int gt_thread_pool_run(
    size_t threads, size_t tasks, gt_task_fn *work, void *self, struct gt_err *err);

#endif
