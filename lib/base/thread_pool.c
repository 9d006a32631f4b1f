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
	atomic_size_t next;   /* the first task that has not begun */
	pthread_mutex_t lock; /* of the fields below */
	size_t failed;        /* the lowest task that has; SIZE_MAX: none */
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
