/* ring_queue.c - collectives in the background: a thread that takes them from a queue. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/ring_inside.h"

struct gt_ring_queue {
	struct gt_ring *ring;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more, less;
	struct gt_collective items[GT_GROUP_STARTED];
	size_t first, count; /* the first one, while it runs, counts */
	bool stop;
	struct gt_err err; /* the first there was */
};

static int do_it(struct gt_ring *g, const struct gt_collective *c, struct gt_err *err)
{
	int rc;

	if (c->span)
		c->span->began = gt_clock_s();
	rc = c->kind == GT_SEND || c->kind == GT_RECV ? gt_ring_message(g, c, err)
	                                              : gt_ring_collect(g, c, err);
	if (c->span)
		c->span->ended = gt_clock_s();
	return rc;
}

static void *toil(void *arg)
{
	struct gt_ring_queue *q = arg;
	struct gt_err err = GT_ERR_INIT;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->count && !q->stop)
			pthread_cond_wait(&q->more, &q->lock);
		if (q->stop)
			break;
		if (!q->err.code) {
			pthread_mutex_unlock(&q->lock);
			do_it(q->ring, &q->items[q->first], &err);
			pthread_mutex_lock(&q->lock);
			q->err = err;
		}
		q->first = (q->first + 1) % GT_GROUP_STARTED;
		q->count--;
		pthread_cond_signal(&q->less);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* Signals are for the threads that were there before. */
static int start_thread(struct gt_ring_queue *q)
{
	sigset_t all, before;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&q->thread, NULL, toil, q);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return e;
}

static int make_queue(struct gt_ring *g, struct gt_err *err)
{
	struct gt_ring_queue *q = gt_calloc(1, sizeof(*q), err);
	int e;

	if (!q)
		return err->code;
	q->ring = g;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	pthread_cond_init(&q->less, NULL);
	e = start_thread(q);
	if (e) {
		free(q);
		errno = e;
		return gt_err_sys(err, "cannot start a thread for collectives");
	}
	g->queue = q;
	return 0;
}

int gt_ring_start(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_ring *g = (struct gt_ring *)group;
	struct gt_ring_queue *q;

	if (!g->queue && make_queue(g, err))
		return err->code;
	q = g->queue;
	pthread_mutex_lock(&q->lock);
	while (q->count == GT_GROUP_STARTED)
		pthread_cond_wait(&q->less, &q->lock);
	q->items[(q->first + q->count++) % GT_GROUP_STARTED] = *c;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	g->outstanding = true;
	return 0;
}

void gt_ring_settle(struct gt_ring *g)
{
	struct gt_ring_queue *q = g->queue;

	if (!g->outstanding)
		return;
	pthread_mutex_lock(&q->lock);
	while (q->count)
		pthread_cond_wait(&q->less, &q->lock);
	pthread_mutex_unlock(&q->lock);
	g->outstanding = false;
}

int gt_ring_wait(struct gt_group *group, struct gt_err *err)
{
	struct gt_ring *g = (struct gt_ring *)group;

	gt_ring_settle(g);
	if (!g->queue || !g->queue->err.code)
		return 0;
	*err = g->queue->err;
	return err->code;
}

int gt_ring_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_ring *g = (struct gt_ring *)group;

	gt_ring_settle(g);
	return do_it(g, c, err);
}

void gt_ring_queue_free(struct gt_ring *g)
{
	struct gt_ring_queue *q = g->queue;

	if (!q)
		return;
	atomic_store(&g->quit, true);
	pthread_mutex_lock(&q->lock);
	q->stop = true;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	gt_ring_wake_all(g);
	pthread_join(q->thread, NULL);
	pthread_cond_destroy(&q->less);
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
	free(q);
	g->queue = NULL;
}
