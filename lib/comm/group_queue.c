/* group_queue.c - collectives in the background: a thread that takes them from a queue. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"
#include "lib/comm/group_backend.h"

struct gt_queue_thread {
	struct gt_queue *queue;
	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t more, less;
	/* the collective of ticket t is at t % GT_GROUP_STARTED */
	struct gt_collective items[GT_GROUP_STARTED];
	uint64_t started, ended; /* the latest tickets; only the caller changes `started` */
	bool stop;
	struct gt_err err; /* the first error */
};

static int run_timed_collective(
    const struct gt_queue *q, const struct gt_collective *c, struct gt_err *err)
{
	int rc;

	if (c->span)
		c->span->began = gt_clock_s();
	rc = q->run(q->self, c, err);
	if (c->span)
		c->span->ended = gt_clock_s();
	return rc;
}

static void *run_calls(void *arg)
{
	struct gt_queue_thread *t = arg;
	struct gt_err err = GT_ERR_INIT;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (t->ended == t->started && !t->stop)
			pthread_cond_wait(&t->more, &t->lock);
		if (t->stop)
			break;
		if (!t->err.code) {
			pthread_mutex_unlock(&t->lock);
			run_timed_collective(
			    t->queue, &t->items[(t->ended + 1) % GT_GROUP_STARTED], &err);
			pthread_mutex_lock(&t->lock);
			t->err = err;
		}
		t->ended++;
		pthread_cond_signal(&t->less);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int make_thread(struct gt_queue *q, struct gt_err *err)
{
	struct gt_queue_thread *t = gt_calloc(1, sizeof(*t), err);

	if (!t)
		return err->code;
	t->queue = q;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	pthread_cond_init(&t->less, NULL);
	if (gt_thread_start(&t->thread, run_calls, t, err)) {
		free(t);
		return err->code;
	}
	q->thread = t;
	return 0;
}

int gt_queue_start(
    struct gt_queue *q, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_queue_thread *t;

	if (!q->thread && make_thread(q, err))
		return err->code;
	t = q->thread;
	pthread_mutex_lock(&t->lock);
	while (t->started - t->ended == GT_GROUP_STARTED)
		pthread_cond_wait(&t->less, &t->lock);
	*ticket = ++t->started;
	t->items[*ticket % GT_GROUP_STARTED] = *c;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/* Wait for a ticket. Unless `err` is NULL, set *err to the first error of any collective. */
static void await(struct gt_queue *q, uint64_t ticket, struct gt_err *err)
{
	struct gt_queue_thread *t = q->thread;

	pthread_mutex_lock(&t->lock);
	while (t->ended < ticket)
		pthread_cond_wait(&t->less, &t->lock);
	q->awaited = t->ended;
	if (err && t->err.code)
		*err = t->err;
	pthread_mutex_unlock(&t->lock);
}

void gt_queue_drain(struct gt_queue *q)
{
	if (q->thread && q->awaited < q->thread->started)
		await(q, q->thread->started, NULL);
}

int gt_queue_run(struct gt_queue *q, const struct gt_collective *c, struct gt_err *err)
{
	gt_queue_drain(q);
	return run_timed_collective(q, c, err);
}

int gt_queue_wait(struct gt_queue *q, uint64_t ticket, struct gt_err *err)
{
	struct gt_err first = GT_ERR_INIT;
	uint64_t started = q->thread ? q->thread->started : 0;

	assert(ticket <= started || ticket == GT_GROUP_ALL);
	if (!started)
		return 0;
	await(q, ticket < started ? ticket : started, &first);
	if (first.code)
		*err = first;
	return first.code;
}

void gt_queue_free(struct gt_queue *q)
{
	struct gt_queue_thread *t = q->thread;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->less);
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	free(t);
	q->thread = NULL;
}
