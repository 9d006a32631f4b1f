/* thread_pool.h - run many tasks on several threads, which form a thread pool. */
#ifndef GT_BASE_THREAD_POOL_H
#define GT_BASE_THREAD_POOL_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Block all signals in the calling thread, except signals that a thread causes itself, such as
 * SIGBUS. Store the signals that were blocked before in *before. Threads that are started now,
 * including threads that a library starts, inherit this mask. The system then delivers signals only
 * to the other threads of the program. The caller restores the mask with
 * pthread_sigmask(SIG_SETMASK, before, NULL). */
void gt_block_signals(sigset_t *before);

/* Start a thread by pthread_create(). The thread calls body(context), and blocks the signals that
 * gt_block_signals() blocks. Errors: GT_EIO. */
int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err);

/* Set the error of a thread or a process that could not be started, from the errno in `failed`. The
 * hint names the system's limits, if these are the cause. The format is the text without the
 * reason. Return the code. */
int gt_thread_fail(struct gt_err *err, int failed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Return the number of threads of a pool: `wanted`, or 64 if `wanted` is larger. But if `wanted` is
 * 0, return the number of processors that this process may use, but at most 16: more threads do not
 * make gtrain's tasks faster, because the speed of memory limits them.
 */
size_t gt_thread_pool_size(size_t wanted);

/* Do the task with the index `task`. Other threads do other tasks at the same time. `self` is the
 * argument of gt_thread_pool_run(). */
typedef int gt_task_fn(void *self, size_t task, struct gt_err *err);

/*
 * Call work(self, i, err) once for each task i, 0 <= i < tasks, and wait for the end of all calls.
 * The pool has gt_thread_pool_size(threads) threads, including the calling thread, but not more
 * threads than tasks. Tasks are begun in the order of their indices: a thread that has finished a
 * task begins the next one. If a thread cannot be started, the other threads do all tasks.
 *
 * If a task fails, no new tasks are begun, but tasks that have begun are completed. The result is
 * the error of the failed task with the lowest index. This error does not depend on the number of
 * threads, because all tasks with lower indices were begun earlier and are completed.
 *
 * The pool does not use OpenMP, because of a limit of GNU's OpenMP library: after a process has
 * used it, child processes that are created by fork() cannot use it.
 */
int gt_thread_pool_run(
    size_t threads, size_t tasks, gt_task_fn *work, void *self, struct gt_err *err);

#endif
