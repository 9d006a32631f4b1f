/* thread_pool.h - run many tasks on several threads, which form a thread pool. */
#ifndef GT_BASE_THREAD_POOL_H
#define GT_BASE_THREAD_POOL_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Block all signals in this thread and those that it starts, except those that a thread causes
 * itself, such as SIGBUS. *before is the mask to restore. */
void gt_block_signals(sigset_t *before);

/* Start a thread that calls body(context), with signals blocked like this. Errors: GT_EIO. */
int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err);

/* Set the error of a thread or process that could not be started; `failed` is its errno. Returns
 * the code. */
int gt_thread_fail(struct gt_err *err, int failed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the threads of a pool: `wanted`, at most 64; for 0 the processors, at most 16, as memory
 * limits the speed of more. */
size_t gt_thread_pool_size(size_t wanted);

/* Do the task with this index, beside other threads. `self` is that of gt_thread_pool_run(). */
typedef int gt_task_fn(void *self, size_t task, struct gt_err *err);

/* Do the tasks 0 to tasks - 1, begun in this order, on up to gt_thread_pool_size(threads) threads,
 * and wait. After a failure no tasks are begun; the error is that of the lowest failed task, for
 * any number of threads. */
int gt_thread_pool_run(
    size_t threads, size_t tasks, gt_task_fn *work, void *self, struct gt_err *err);

#endif
