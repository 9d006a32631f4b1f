/* group.c - groups for the memory of GPUs: their tickets, their life and their errors. */
#include <stdlib.h>

#include "kernels/cuda/group/thread_peers.h"
#include "kernels/cuda/runtime/host_call.h"
#include "lib/base/mem.h"

/*
 * A group of ranks (lib/comm/group.h) runs collectives: operations in which all ranks of the group
 * take part, such as an all-reduce. A group for GPU memory contains a second group of the same
 * ranks, g->host, for host memory.
 *
 * Each group has its own stream. The collectives of the group are queued on this stream in the
 * order of the calls. There are three events: `came` (the caller's stream has reached the call),
 * `begun` and `ended`. gt_group_await() makes a stream wait for `ended`. group.h has the
 * functions of the links, which move the data.
 *
 *   caller's stream   ... work | came                      (await: ended) | work ...
 *   group's stream               wait for came | begun | the links' work | ended
 *
 * The links move data between the GPUs. There are two kinds: NCCL (kernels/cuda/nccl/) and the ring
 * (kernels/cuda/ring/). Links do not detect that ranks call different collectives or that a rank is
 * late. They do not always detect that a rank is dead. In these cases a GPU would wait for ever for
 * the other rank.
 *
 * So each rank of a group has a host thread, called the watch. The watch handles one collective
 * after the other. For each collective it does three steps:
 *
 *   1. Wait until this GPU has begun the collective.
 *   2. Call gt_group_check_calls() on g->host (lib/comm/group_meet.h): the watches of all ranks
 *      compare their calls. This step detects a rank that is late or dead, or that calls
 *      another collective.
 *   3. Wait until this GPU has ended the collective.
 *
 * A rank may have several groups. NCCL has two requirements for this. A kernel of NCCL occupies
 * part of the GPU while it waits for the other ranks, so all ranks must start the operations of
 * different communicators in one order (NCCL User Guide, "Using multiple NCCL communicators
 * concurrently"). And the first call of each kind of collective connects the ranks: all ranks must
 * make this call before any of them uses another communicator.
 *
 * One thread of each rank queues all collectives of the rank, in the order of the rank's plan,
 * which is the list of the operations of a training step. If ranks share several groups, their
 * plans contain the collectives of these groups in orders that fit together. The GPU starts them in
 * this order, too: NCCL 2.26 or newer sees to that if NCCL_LAUNCH_ORDER_IMPLICIT is set; otherwise
 * (`in_turn`) the stream of a group waits for the latest collective of the rank's other groups,
 * behind which the event gt_device.ordered is recorded. Links that do not occupy the GPU while they
 * wait need no order. call() of the links returns after NCCL has connected the ranks and queued the
 * call. So the ranks are connected before this rank uses its next group.
 *
 * On an error the watch sends the error to the other ranks, and aborts the links, so that the GPUs
 * stop waiting. All later calls of the group return that error.
 */

static const struct gt_backend *backend_of(const struct gt_cuda_group *g)
{
	return g->device->backend;
}

/* ---- failing ---- */

bool gt_cuda_group_note(struct gt_cuda_group *g, struct gt_err *err)
{
	bool first;

	pthread_mutex_lock(&g->lock);
	first = !g->failed;
	if (first)
		g->err = *err;
	*err = g->err;
	g->failed = true;
	if (first)
		gt_cuda_fail(g->device->index, err);
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	gt_cuda_thread_peers_wake(g);
	return first;
}

/* Store the error before the abort lets GPUs go on, so threads that wait for a GPU find it. */
int gt_cuda_group_fail(struct gt_cuda_group *g, struct gt_err *err)
{
	if (gt_cuda_group_note(g, err))
		g->links->abort(g);
	return err->code;
}

int gt_cuda_group_failed(struct gt_cuda_group *g, struct gt_err *err)
{
	if (!g->failed)
		return 0;
	pthread_mutex_lock(&g->lock);
	*err = g->err;
	pthread_mutex_unlock(&g->lock);
	return err->code;
}

/* ---- collectives ---- */

/* Without elements the ranks meet, and GPUs have nothing to do. */
static int queue_calls(
    struct gt_cuda_group *g, const struct gt_collective *c, int count, struct gt_err *err)
{
	return count == 1 && c->kind != GT_BARRIER && !c->count ? 0
	                                                        : g->links->call(g, c, count, err);
}

static struct gt_cuda_ticket *ticket_of(struct gt_cuda_group *g, uint64_t number)
{
	return &g->tickets[number % GT_GROUP_STARTED];
}

/*
 * Wait until `count` collectives more have places for their tickets: those that had the places
 * before have ended. The watch must have seen that end, because it still reads the ticket until
 * then. Only the caller's thread writes `started`, so it reads it without the lock.
 */
static int await_places(struct gt_cuda_group *g, int count, struct gt_err *err)
{
	bool stopped;

	pthread_mutex_lock(&g->lock);
	while (
	    g->started - g->ended + (uint64_t)count > GT_GROUP_STARTED && !g->failed && !g->stopped)
		pthread_cond_wait(&g->change, &g->lock);
	stopped = g->stopped;
	pthread_mutex_unlock(&g->lock);
	if (gt_cuda_group_failed(g, err))
		return err->code;
	return stopped ? gt_err_set(err, GT_EIO, "the group was stopped") : 0;
}

/* The watch has to know of them before the links are called, which may wait for other ranks. */
static uint64_t show_to_watch(struct gt_cuda_group *g, const struct gt_collective *c, int count)
{
	uint64_t last;

	for (int i = 0; i < count; i++) {
		struct gt_cuda_ticket *t = ticket_of(g, g->started + 1 + (uint64_t)i);

		t->c = c[i];
		t->together = count;
		atomic_store(&t->queued, false);
	}
	pthread_mutex_lock(&g->lock);
	last = g->started += (uint64_t)count;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	return last;
}

/* Start a collective, or the messages of an exchange. */
static int start_calls(struct gt_cuda_group *g, const struct gt_collective *c, int count,
    uint64_t *ticket, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(g);
	struct gt_cuda_ticket *first = ticket_of(g, g->started + 1), *last;
	int rc = 0;

	if (!c->stream)
		return gt_err_set(err, GT_EINVAL, "a collective of a device without a stream");
	for (int i = 0; !rc && i < count; i++)
		rc = gt_cuda_thread_peers_before(g, &c[i], err);
	if (rc || await_places(g, count, err))
		return err->code;
	if (b->event_record(g->came, c->stream, err) || b->event_wait(g->stream, g->came, err) ||
	    (g->in_turn && b->event_wait(g->stream, g->device->ordered, err)) ||
	    b->event_record(first->begun, g->stream, err) ||
	    gt_device_group_mark_begin(c, g->stream, err))
		return gt_cuda_group_fail(g, err);
	*ticket = show_to_watch(g, c, count);
	last = ticket_of(g, *ticket);
	if (queue_calls(g, c, count, err) || gt_device_group_mark_end(c, g->stream, err) ||
	    b->event_record(last->ended, g->stream, err) ||
	    (g->in_turn && b->event_record(g->device->ordered, g->stream, err)))
		return gt_cuda_group_fail(g, err);
	atomic_store(&last->queued, true);
	for (int i = 0; !rc && i < count; i++)
		rc = gt_cuda_thread_peers_after(g, &c[i], err);
	return rc;
}

static int group_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	return start_calls((struct gt_cuda_group *)group, c, 1, ticket, err);
}

static int group_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;

	if (ticket == GT_GROUP_ALL)
		ticket = g->started;
	pthread_mutex_lock(&g->lock);
	while (g->ended < ticket && !g->failed)
		pthread_cond_wait(&g->change, &g->lock);
	pthread_mutex_unlock(&g->lock);
	return gt_cuda_group_failed(g, err);
}

/*
 * If a later ticket has taken this ticket's place, the collective has ended: see take_ticket().
 * The host does not wait here; the stream does, for the event.
 */
static int group_await(
    struct gt_group *group, uint64_t ticket, struct gt_stream *stream, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;

	if (gt_cuda_group_failed(g, err))
		return err->code;
	if (ticket == GT_GROUP_ALL)
		ticket = g->started;
	if (!ticket || g->started - ticket >= GT_GROUP_STARTED)
		return 0;
	return backend_of(g)->event_wait(stream, ticket_of(g, ticket)->ended, err);
}

static int group_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;
	uint64_t ticket = 0;
	int rc;

	g->runs = true;
	rc = group_start(group, c, &ticket, err);
	g->runs = false;
	if (!rc)
		rc = gt_cuda_thread_peers_meet(g, c, err);
	return rc ? rc : group_await(group, ticket, c->stream, err);
}

static int group_exchange(struct gt_group *group, const struct gt_collective *c, int count,
    uint64_t *ticket, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;
	int rc = start_calls(g, c, count, ticket, err);

	for (int i = 0; !rc && i < count; i++)
		rc = gt_cuda_thread_peers_meet(g, &c[i], err);
	if (!rc && c[count - 1].kind == GT_RECV)
		rc = group_await(group, *ticket, c->stream, err);
	return rc;
}

/* ---- memory ---- */

static int group_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;

	return gt_device_blocks_alloc(&g->blocks, g->device, bytes, out, err);
}

static void group_release(struct gt_group *group, void *memory)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;

	gt_device_blocks_release(&g->blocks, g->device, memory);
}

/* ---- its life ---- */

static int group_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;
	struct gt_device_way way = { .own = g->links->groups, .messages = g->messages };
	int rc = group_wait(group, GT_GROUP_ALL, err);

	if (!rc)
		rc = gt_group_split(out, g->host, color, key, err);
	if (rc || !*out)
		return rc;
	rc = gt_device_group_take(out, g->device, &way, err);
	if (rc) {
		gt_group_free(*out);
		*out = NULL;
	}
	return rc;
}

/* Whether the GPU has done all that was started. */
static bool is_idle(struct gt_cuda_group *g)
{
	struct gt_cuda_ticket *last;
	uint64_t started;

	pthread_mutex_lock(&g->lock);
	started = g->started;
	pthread_mutex_unlock(&g->lock);
	last = ticket_of(g, started);
	return !started || (atomic_load(&last->queued) && backend_of(g)->event_done(last->ended));
}

/* If the GPU has done all its work, let the watch go on: other ranks still have to meet it. A call
 * that this ends on another thread fails the group, too, so it must find `given_up`. */
static void group_stop(struct gt_group *group)
{
	struct gt_cuda_group *g = (struct gt_cuda_group *)group;
	struct gt_err err = GT_ERR_INIT;
	bool idle = is_idle(g), gives_up;

	pthread_mutex_lock(&g->lock);
	g->stopped = true;
	gives_up = !g->failed && !idle;
	g->given_up |= gives_up;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	gt_cuda_thread_peers_wake(g);
	if (!gives_up)
		return;
	gt_err_set(&err, GT_EIO, "the group was stopped");
	gt_cuda_group_fail(g, &err);
	gt_group_stop(g->host);
}

/*
 * All but the group for host memory; the links' work ends before its stream. The watch is joined
 * first, because it uses the events, the links and the lock.
 */
static void release_cuda_group(struct gt_cuda_group *g)
{
	const struct gt_backend *b = backend_of(g);

	gt_cuda_group_end_watch(g);
	if (g->link && g->failed)
		g->links->abort(g);
	if (g->link)
		g->links->disconnect(g);
	b->stream_free(g->stream);
	b->event_free(g->came);
	for (int i = 0; i < GT_GROUP_STARTED; i++) {
		b->event_free(g->tickets[i].begun);
		b->event_free(g->tickets[i].ended);
	}
	gt_device_blocks_free(&g->blocks, g->device);
	gt_cuda_thread_peers_free(g);
	pthread_cond_destroy(&g->change);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static void group_free(struct gt_group *group)
{
	struct gt_group *host = ((struct gt_cuda_group *)group)->host;

	group_stop(group);
	release_cuda_group((struct gt_cuda_group *)group);
	gt_group_free(host);
}

static const struct gt_group_ops ops = {
	.run = group_run,
	.start = group_start,
	.wait = group_wait,
	.await = group_await,
	.alloc = group_alloc,
	.release = group_release,
	.split = group_split,
	.stop = group_stop,
	.free = group_free,
};

static int make_parts(struct gt_cuda_group *g, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(g);
	int index = g->device->index;

	if (b->stream_new(&g->stream, index, err) || b->event_new(&g->came, index, err))
		return err->code;
	for (int i = 0; i < GT_GROUP_STARTED; i++)
		if (b->event_new(&g->tickets[i].begun, index, err) ||
		    b->event_new(&g->tickets[i].ended, index, err))
			return err->code;
	return 0;
}

/* If this rank fails here, the others find it gone when they connect, or reach their timeout. */
int gt_cuda_group_new(struct gt_group **group, const struct gt_device *device,
    const struct gt_cuda_links *links, bool messages, struct gt_err *err)
{
	struct gt_group *host = *group;
	struct gt_cuda_group *g = gt_calloc(1, sizeof(*g), err);

	if (!g)
		return GT_ENOMEM;
	g->ops = ops;
	g->ops.name = links->groups->name;
	g->ops.ordered = links->groups->ordered;
	g->ops.exchange = links->exchanges ? group_exchange : NULL;
	g->group = (struct gt_group){ &g->ops, host->rank, host->size, host->timeout_s };
	g->links = links;
	g->messages = messages;
	g->host = host;
	g->device = device;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->change, NULL);
	if (make_parts(g, err) || gt_cuda_thread_peers_find(g, err) || links->connect(g, err) ||
	    gt_cuda_group_watch(g, err)) {
		release_cuda_group(g);
		return err->code;
	}
	*group = &g->group;
	return 0;
}
