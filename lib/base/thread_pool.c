/* thread_pool.c - run many small tasks on a pool of threads. */
#include "lib/base/thread_pool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_THREADS = 64, DEFAULT_MAX = 16 };

void gt_block_signals(sigset_t *before)
{
	static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL };
	sigset_t blocked;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&blocked, own[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, before);
}

int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err)
{
	sigset_t before;
	int failed;

	gt_block_signals(&before);
	failed = pthread_create(thread, NULL, body, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? gt_thread_fail(err, failed, "cannot start a thread") : 0;
}

int gt_thread_fail(struct gt_err *err, int failed, const char *format, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	errno = failed;
	gt_err_sys(err, "%s", text);
	if (failed == EAGAIN)
		gt_err_hint(err,
		    "the system allows no more threads and processes: see `ulimit -u`, "
		    "and pids.max of the cgroup or container");
	return err->code;
}

size_t gt_thread_pool_size(size_t wanted)
{
	cpu_set_t set;
	size_t n = wanted;

	if (!n) {
		n = sched_getaffinity(0, sizeof(set), &set) ? 1 : (size_t)CPU_COUNT(&set);
		n = n < DEFAULT_MAX ? n : DEFAULT_MAX;
	}
	return n < 1 ? 1 : n < MAX_THREADS ? n : MAX_THREADS;
}

struct pool {
	gt_task_fn *work;
	void *self;
	size_t tasks;
	atomic_size_t next;   /* first task that has not begun */
	pthread_mutex_t lock; /* protects the members below */
	size_t failed;        /* lowest task that has failed, or SIZE_MAX */
	struct gt_err err;
};

static void note_failure(struct pool *p, size_t task, const struct gt_err *err)
{
	pthread_mutex_lock(&p->lock);
	if (task < p->failed) {
		p->failed = task;
		p->err = *err;
	}
	pthread_mutex_unlock(&p->lock);
	atomic_store(&p->next, p->tasks);
}

static void *take_tasks(void *context)
{
	struct pool *p = context;

	for (;;) {
		struct gt_err err = GT_ERR_INIT;
		size_t task = atomic_fetch_add(&p->next, 1);

		if (task >= p->tasks)
			return NULL;
		if (p->work(p->self, task, &err))
			note_failure(p, task, &err);
	}
}

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
    size_t threads, size_t tasks, gt_task_fn *work, void *self, struct gt_err *err)
{
	struct pool p = { .work = work,
		.self = self,
		.tasks = tasks,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.failed = SIZE_MAX };
	pthread_t helper[MAX_THREADS];
	size_t helpers = 0;

	threads = gt_thread_pool_size(threads);
	threads = threads < tasks ? threads : tasks;
	while (helpers + 1 < threads &&
	       !gt_thread_start(&helper[helpers], take_tasks, &p, GT_ERR_IGNORED))
		helpers++;
	take_tasks(&p);
	while (helpers)
		pthread_join(helper[--helpers], NULL);
	pthread_mutex_destroy(&p.lock);
	if (p.failed == SIZE_MAX)
		return 0;
	*err = p.err;
	return p.err.code;
}
