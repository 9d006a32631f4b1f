/* threads.c - threads for reading data. */
#include "lib/data/threads.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_THREADS = 16, CHUNK = 16 };

int gt_thread_start(pthread_t *thread, void *(*body)(void *), void *context, struct gt_err *err)
{
	sigset_t all, old;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failed = pthread_create(thread, NULL, body, context);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed)
		return gt_err_set(err, GT_ENOMEM, "cannot start a thread: %s", strerror(failed));
	return 0;
}

struct each {
	gt_each_fn *fn;
	void *context;
	_Atomic int64_t next;   /* first index that nobody has claimed */
	_Atomic int64_t failed; /* smallest index that has failed; n at first */
	pthread_mutex_t lock;   /* of the next two */
	int rc;
	struct gt_err err;
};

static void note_failure(struct each *e, int64_t i, int rc, const struct gt_err *err)
{
	pthread_mutex_lock(&e->lock);
	if (i < e->failed) {
		e->failed = i;
		e->rc = rc;
		e->err = *err;
	}
	pthread_mutex_unlock(&e->lock);
}

/* Chunks are claimed in ascending order, so every index below a failed one is tried. */
static void *run_each(void *context)
{
	struct each *e = context;

	for (;;) {
		int64_t first = atomic_fetch_add(&e->next, CHUNK);

		if (first >= e->failed)
			return NULL;
		for (int64_t i = first; i < first + CHUNK && i < e->failed; i++) {
			struct gt_err err = GT_ERR_INIT;
			int rc = e->fn(e->context, i, &err);

			if (rc)
				note_failure(e, i, rc, &err);
		}
	}
}

static int count_threads(int64_t n)
{
	int64_t chunks = (n + CHUNK - 1) / CHUNK;
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	count = count > MAX_THREADS ? MAX_THREADS : count;
	return count > chunks ? (int)chunks : count;
}

int gt_for_each(int64_t n, gt_each_fn *fn, void *context, struct gt_err *err)
{
	struct each e = { .fn = fn, .context = context, .failed = n };
	pthread_t threads[MAX_THREADS];
	int wanted = count_threads(n), started = 0;

	pthread_mutex_init(&e.lock, NULL);
	/* The caller works too, so fewer threads than wanted only make it slower. */
	while (started < wanted - 1 && !gt_thread_start(&threads[started], run_each, &e, NULL))
		started++;
	run_each(&e);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	pthread_mutex_destroy(&e.lock);
	if (e.rc && err)
		*err = e.err;
	return e.rc;
}
