/* crew.c - many small tasks done by several threads. */
#include "lib/ckpt/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

enum { MAX_THREADS = 64, DEFAULT_MAX = 16 };

struct crew {
	int (*work)(void *self, size_t task, struct gt_err *err);
	void *self;
	size_t tasks;
	atomic_size_t next;
	pthread_mutex_t lock; /* of what follows */
	size_t failed;        /* the lowest task that did; SIZE_MAX: none */
	struct gt_err err;
};

size_t gt_crew_size(size_t wanted)
{
	cpu_set_t set;
	size_t n = wanted;

	if (!n) {
		n = sched_getaffinity(0, sizeof(set), &set) ? 1 : (size_t)CPU_COUNT(&set);
		n = n < DEFAULT_MAX ? n : DEFAULT_MAX;
	}
	return n < 1 ? 1 : n < MAX_THREADS ? n : MAX_THREADS;
}

static void fail(struct crew *c, size_t task, const struct gt_err *err)
{
	pthread_mutex_lock(&c->lock);
	if (task < c->failed) {
		c->failed = task;
		c->err = *err;
	}
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->next, c->tasks);
}

static void *toil(void *arg)
{
	struct crew *c = arg;
	struct gt_err err = GT_ERR_INIT;

	for (;;) {
		size_t task = atomic_fetch_add(&c->next, 1);

		if (task >= c->tasks)
			return NULL;
		if (c->work(c->self, task, &err))
			fail(c, task, &err);
	}
}

int gt_crew_run(size_t threads, size_t tasks,
    int (*work)(void *self, size_t task, struct gt_err *err), void *self, struct gt_err *err)
{
	struct crew c = { .work = work,
		.self = self,
		.tasks = tasks,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.failed = SIZE_MAX };
	pthread_t helper[MAX_THREADS];
	size_t helpers = 0;

	threads = threads < MAX_THREADS ? threads : MAX_THREADS;
	threads = threads < tasks ? threads : tasks;
	while (helpers + 1 < threads && !pthread_create(&helper[helpers], NULL, toil, &c))
		helpers++;
	toil(&c);
	while (helpers)
		pthread_join(helper[--helpers], NULL);
	pthread_mutex_destroy(&c.lock);
	if (c.failed == SIZE_MAX)
		return 0;
	*err = c.err;
	return c.err.code;
}
