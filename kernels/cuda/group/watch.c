/* watch.c - the thread that makes collectives of GPUs end: with their result or an error. */
#include "kernels/cuda/group/group.h"
#include "kernels/cuda/runtime/host_call.h"
#include "lib/base/clock.h"
#include "lib/base/thread_pool.h"

/* Check the other ranks every check_s. After a rank has gone, wait grace_s more for the collective:
 * that rank may have completed its part. A launcher kills ranks 1.5 s after it has seen one die
 * (comm/launch/launch.h), so the error has to be printed well before. */
static const double check_s = 0.1, grace_s = 0.5;

void gt_cuda_group_pause(double *pause_s)
{
	static const double least_s = 20e-6, most_s = 1e-3;

	nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * *pause_s) }, NULL);
	*pause_s = *pause_s < least_s ? least_s : *pause_s < most_s ? *pause_s * 1.1 : most_s;
}

static const struct gt_backend *backend_of(const struct gt_cuda_group *g)
{
	return g->device->backend;
}

/* The next one whose end has not been seen; NULL: there are to be no more. */
static struct gt_cuda_ticket *next_ticket(struct gt_cuda_group *g)
{
	struct gt_cuda_ticket *t = NULL;

	pthread_mutex_lock(&g->lock);
	while (g->ended == g->started && !g->over && !g->failed)
		pthread_cond_wait(&g->change, &g->lock);
	if (g->ended != g->started && !g->failed)
		t = &g->tickets[(g->ended + 1) % GT_GROUP_STARTED];
	pthread_mutex_unlock(&g->lock);
	return t;
}

/* Links may notice that a rank has gone, but do not name it. The group for host memory does, if it
 * notices that within grace_s. */
static bool has_lost_rank(struct gt_cuda_group *g, struct gt_err *missed)
{
	double until = gt_clock_s() + grace_s, pause_s = 0;
	bool gone;

	while (!gt_group_check_peers(g->host, &gone, missed)) {
		if (gt_cuda_group_failed(g, missed) || gt_clock_s() > until)
			return false;
		gt_cuda_group_pause(&pause_s);
	}
	return true;
}

/*
 * Collectives that are in turn wait for those of the rank's other groups. So if one of these groups
 * has failed, all of them have. The other ranks of this one see this rank leave.
 */
static int check_other_groups(struct gt_cuda_group *g, struct gt_err *err)
{
	if (!g->in_turn || !gt_cuda_call_error(g->device->index, err))
		return 0;
	pthread_mutex_lock(&g->lock);
	g->given_up |= !g->failed;
	pthread_mutex_unlock(&g->lock);
	return err->code;
}

/* Return the code of the error of another rank, if one has failed; not if one has gone. */
static int check_failed_ranks(struct gt_cuda_group *g, double *looked, struct gt_err *err)
{
	struct gt_err missed = GT_ERR_INIT;
	bool gone;

	if (gt_clock_s() - *looked < check_s)
		return 0;
	*looked = gt_clock_s();
	if (!gt_group_check_peers(g->host, &gone, &missed) || gone)
		return 0;
	*err = missed;
	return err->code;
}

/* No timeout: the work queued before the collective may take any time. If a rank has gone, the
 * ranks find in their meeting that it does not come. */
static int await_begin(struct gt_cuda_group *g, const struct gt_cuda_ticket *t, struct gt_err *err)
{
	struct gt_err broken = GT_ERR_INIT, missed = GT_ERR_INIT;
	double pause_s = 0, looked = gt_clock_s();

	while (!backend_of(g)->event_done(t->begun)) {
		if (gt_cuda_group_failed(g, err) || check_failed_ranks(g, &looked, err) ||
		    check_other_groups(g, err))
			return err->code;
		if (g->links->background(g, &t->c, &broken)) {
			if (has_lost_rank(g, &missed))
				return 0;
			*err = broken;
			return err->code;
		}
		gt_cuda_group_pause(&pause_s);
	}
	return gt_cuda_group_failed(g, err);
}

static int set_late(
    const struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_text call = gt_collective_text(c);

	if (c->kind == GT_SEND || c->kind == GT_RECV)
		gt_err_set(err, GT_EIO, "rank %d is late for %s %s rank %d", c->peer, call.s,
		    c->kind == GT_SEND ? "of" : "by", g->group.rank);
	else
		gt_err_set(err, GT_EIO,
		    "rank %d: %s has not ended, %g s after all ranks had begun it", g->group.rank,
		    call.s, g->group.timeout_s);
	return gt_err_hint(
	    err, "%sranks wait for %g s, which {timeout} sets", g->links->hint, g->group.timeout_s);
}

/* Facts about the other ranks while a collective is under way. */
struct watching {
	double since, looked, gone; /* gone: when a rank was first missed; 0: none was */
};

/*
 * A rank that is gone may have done its part: then this collective still ends, so grace_s passes
 * first. A rank that has failed is not waited for.
 */
static int look_around(
    struct gt_cuda_group *g, const struct gt_collective *c, struct watching *w, struct gt_err *err)
{
	double now = gt_clock_s();
	struct gt_err missed = GT_ERR_INIT;
	bool gone;

	if (now - w->since > g->group.timeout_s)
		return set_late(g, c, err);
	if (now - w->looked < check_s)
		return 0;
	w->looked = now;
	if (!gt_group_check_peers(g->host, &gone, &missed))
		return 0;
	w->gone = w->gone ? w->gone : now;
	if (gone && now - w->gone < grace_s)
		return 0;
	*err = missed;
	return err->code;
}

/* The events of a device that has failed count as done, and its collectives have no result. */
static int check_device(const struct gt_cuda_group *g, struct gt_err *err)
{
	cudaError_t e = cudaStreamQuery(g->stream->queue);

	if (e != cudaErrorNotReady)
		return gt_cuda_check(e, g->device->index, "cudaStreamQuery", err);
	cudaGetLastError(); /* later collectives are under way */
	return 0;
}

static int await_end(struct gt_cuda_group *g, const struct gt_cuda_ticket *t, struct gt_err *err)
{
	struct watching w = { .since = gt_clock_s() };
	struct gt_err broken = GT_ERR_INIT;
	double pause_s = 0;

	while (!atomic_load(&t->queued) || !backend_of(g)->event_done(t->ended)) {
		if (gt_cuda_group_failed(g, err))
			return err->code;
		if (g->links->background(g, &t->c, &broken)) {
			if (!has_lost_rank(g, err))
				*err = broken;
			return err->code;
		}
		if (look_around(g, &t->c, &w, err) || check_other_groups(g, err))
			return err->code;
		gt_cuda_group_pause(&pause_s);
	}
	return gt_cuda_group_failed(g, err) ? err->code : check_device(g, err);
}

/*
 * The meeting stands between begin and end. Before the GPU has begun, its time-out would count
 * the time of earlier work. After the end it would come too late: a collective that waits for a
 * lost rank does not end. The messages of an exchange begin and end together. Their sends come
 * first, and do not wait for the receivers here, so ranks that exchange messages do not wait for
 * each other in a circle.
 */
static int see_through(
    struct gt_cuda_group *g, const struct gt_cuda_ticket *first, struct gt_err *err)
{
	const uint64_t before = g->ended;
	const struct gt_cuda_ticket *t = first;
	int rc = await_begin(g, first, err);

	for (int i = 1; !rc && i <= first->together; i++) {
		t = &g->tickets[(before + (uint64_t)i) % GT_GROUP_STARTED];
		rc = gt_group_check_calls(g->host, &t->c, err);
	}
	return rc ? rc : await_end(g, t, err);
}

/* Send this rank's error to the other ranks, which wait for it. A rank that gave up sends
 * none: the others see it leave. */
static void send_error(struct gt_cuda_group *g)
{
	struct gt_err err = GT_ERR_INIT;
	bool given_up;

	pthread_mutex_lock(&g->lock);
	given_up = g->given_up;
	pthread_mutex_unlock(&g->lock);
	if (gt_cuda_group_failed(g, &err) && !given_up)
		gt_group_fail(g->host, &err);
}

/*
 * The watch sends an error before it aborts the links: the abort of NCCL waits for its kernels, and
 * the errors that the links of other ranks find then would hide the cause. A thread that fails in a
 * call of the group aborts at once; the watch aborts once more before it drains, because the abort
 * of that thread may still be to come.
 */
static void *live(void *self)
{
	struct gt_cuda_group *g = self;
	struct gt_err err = GT_ERR_INIT;
	struct gt_cuda_ticket *t;

	if (backend_of(g)->enter(g->device->index, &err))
		gt_cuda_group_note(g, &err);
	while ((t = next_ticket(g))) {
		if (see_through(g, t, &err)) {
			gt_cuda_group_note(g, &err);
			break;
		}
		pthread_mutex_lock(&g->lock);
		g->ended += (uint64_t)t->together;
		pthread_cond_broadcast(&g->change);
		pthread_mutex_unlock(&g->lock);
	}
	send_error(g);
	if (g->failed)
		g->links->abort(g);
	if (g->failed && g->links->drain)
		g->links->drain(g);
	return NULL;
}

int gt_cuda_group_watch(struct gt_cuda_group *g, struct gt_err *err)
{
	int rc = gt_thread_start(&g->watch, live, g, err);

	g->has_watch = !rc;
	return rc;
}

void gt_cuda_group_end_watch(struct gt_cuda_group *g)
{
	if (!g->has_watch)
		return;
	pthread_mutex_lock(&g->lock);
	g->over = true;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->watch, NULL);
	g->has_watch = false;
}
