/* group.c - groups for the memory of GPUs, over NCCL. */
#include <stdlib.h>

#include "kernels/cuda/host_call.h"
#include "kernels/cuda/nccl/inside.h"
#include "lib/base/mem.h"

enum { TOKEN_BYTES = 256 };

static const struct gt_backend *backend_of(const struct gt_nccl_group *g)
{
	return g->device->backend;
}

/* ---- failing ---- */

/* Store the error before the abort lets GPUs go on, so threads that wait for a GPU find it. */
int gt_nccl_fail(struct gt_nccl_group *g, struct gt_err *err)
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
	if (first)
		gt_nccl_abort(g);
	return err->code;
}

int gt_nccl_failed(struct gt_nccl_group *g, struct gt_err *err)
{
	if (!g->failed)
		return 0;
	pthread_mutex_lock(&g->lock);
	*err = g->err;
	pthread_mutex_unlock(&g->lock);
	return err->code;
}

/* ---- NCCL's calls ---- */

static const int types[GT_DTYPE_COUNT] = {
	[GT_F32] = GT_NCCL_F32,
	[GT_F64] = GT_NCCL_F64,
	[GT_F16] = GT_NCCL_F16,
	[GT_BF16] = GT_NCCL_BF16,
	[GT_I32] = GT_NCCL_I32,
	[GT_I64] = GT_NCCL_I64,
};

static const int reductions[] = {
	[GT_SUM] = GT_NCCL_SUM,
	[GT_AVG] = GT_NCCL_AVG,
	[GT_MAX] = GT_NCCL_MAX,
};

/* Call NCCL; the caller holds `calls`. Collectives that only move data move bytes of any type. */
static int call(const struct gt_nccl_group *g, const struct gt_collective *c)
{
	size_t count = (size_t)c->count, bytes = count * gt_dtype_size(c->dtype);
	int type = types[c->dtype], reduction = reductions[c->reduction];
	cudaStream_t stream = g->stream->queue;

	switch (c->kind) {
	case GT_ALL_REDUCE:
		return gt_nccl->AllReduce(c->in, c->out, count, type, reduction, g->comm, stream);
	case GT_REDUCE:
		return gt_nccl->Reduce(
		    c->in, c->out, count, type, reduction, c->peer, g->comm, stream);
	case GT_REDUCE_SCATTER:
		return gt_nccl->ReduceScatter(
		    c->in, c->out, count, type, reduction, g->comm, stream);
	case GT_ALL_GATHER:
		return gt_nccl->AllGather(c->in, c->out, bytes, GT_NCCL_U8, g->comm, stream);
	case GT_BROADCAST:
		return gt_nccl->Broadcast(
		    c->in, c->out, bytes, GT_NCCL_U8, c->peer, g->comm, stream);
	case GT_SEND:
		return gt_nccl->Send(c->in, bytes, GT_NCCL_U8, c->peer, g->comm, stream);
	case GT_RECV:
		return gt_nccl->Recv(c->out, bytes, GT_NCCL_U8, c->peer, g->comm, stream);
	default:
		return gt_nccl->AllReduce(
		    g->token, g->token, 1, GT_NCCL_I32, GT_NCCL_MAX, g->comm, stream);
	}
}

/* Without elements the ranks meet, and GPUs have nothing to do. */
static int queue_call(struct gt_nccl_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int status = GT_NCCL_SUCCESS;

	if (c->kind != GT_BARRIER && !c->count)
		return 0;
	pthread_mutex_lock(&g->calls);
	if (g->comm)
		status = call(g, c);
	pthread_mutex_unlock(&g->calls);
	return gt_nccl_settle(g, status, c, err);
}

/* ---- collectives ---- */

/* The ticket that comes next, once the collective that had its place before has ended. */
static int take_ticket(struct gt_nccl_group *g, struct gt_nccl_ticket **out, struct gt_err *err)
{
	bool stopped;

	*out = &g->tickets[(g->started + 1) % GT_GROUP_STARTED];
	pthread_mutex_lock(&g->lock);
	while (g->started - g->ended == GT_GROUP_STARTED && !g->failed && !g->stopped)
		pthread_cond_wait(&g->change, &g->lock);
	stopped = g->stopped;
	pthread_mutex_unlock(&g->lock);
	if (gt_nccl_failed(g, err))
		return err->code;
	return stopped ? gt_err_set(err, GT_EIO, "given up") : 0;
}

/* The watch has to know of it before NCCL is called, which may wait for other ranks. */
static uint64_t show_to_watch(struct gt_nccl_group *g)
{
	uint64_t ticket;

	pthread_mutex_lock(&g->lock);
	ticket = ++g->started;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	return ticket;
}

static int nccl_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;
	const struct gt_backend *b = backend_of(g);
	struct gt_nccl_ticket *t;

	if (!c->stream)
		return gt_err_set(err, GT_EINVAL, "a collective of a device without a stream");
	if (take_ticket(g, &t, err) || b->event_record(g->came, c->stream, err) ||
	    b->event_wait(g->stream, g->came, err) || b->event_record(t->begun, g->stream, err))
		return err->code;
	t->c = *c;
	atomic_store(&t->queued, false);
	*ticket = show_to_watch(g);
	if (queue_call(g, c, err) || b->event_record(t->ended, g->stream, err))
		return gt_nccl_fail(g, err);
	atomic_store(&t->queued, true);
	return 0;
}

static int nccl_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;

	if (ticket == GT_GROUP_ALL)
		ticket = g->started;
	pthread_mutex_lock(&g->lock);
	while (g->ended < ticket && !g->failed)
		pthread_cond_wait(&g->change, &g->lock);
	pthread_mutex_unlock(&g->lock);
	return gt_nccl_failed(g, err);
}

/* If a later ticket has taken this ticket's place, the collective has ended. */
static int nccl_await(
    struct gt_group *group, uint64_t ticket, struct gt_stream *stream, struct gt_err *err)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;

	if (gt_nccl_failed(g, err))
		return err->code;
	if (ticket == GT_GROUP_ALL)
		ticket = g->started;
	if (!ticket || g->started - ticket >= GT_GROUP_STARTED)
		return 0;
	return backend_of(g)->event_wait(stream, g->tickets[ticket % GT_GROUP_STARTED].ended, err);
}

static int nccl_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	uint64_t ticket = 0;
	int rc = nccl_start(group, c, &ticket, err);

	return rc ? rc : nccl_await(group, ticket, c->stream, err);
}

/* ---- memory ---- */

static int nccl_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;

	return gt_lent_alloc(&g->lent, g->device, bytes, out, err);
}

static void nccl_release(struct gt_group *group, void *memory)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;

	gt_lent_release(&g->lent, g->device, memory);
}

/* ---- its life ---- */

static int nccl_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;
	struct gt_device_way way = { .own = g->device->backend->groups };
	int rc = nccl_wait(group, GT_GROUP_ALL, err);

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
static bool is_idle(struct gt_nccl_group *g)
{
	struct gt_nccl_ticket *last;

	pthread_mutex_lock(&g->lock);
	last = &g->tickets[g->started % GT_GROUP_STARTED];
	pthread_mutex_unlock(&g->lock);
	return !g->started ||
	       (atomic_load(&last->queued) && backend_of(g)->event_done(last->ended));
}

static void give_up(struct gt_nccl_group *g)
{
	struct gt_err err = GT_ERR_INIT;

	pthread_mutex_lock(&g->lock);
	g->given_up = !g->failed;
	pthread_mutex_unlock(&g->lock);
	gt_err_set(&err, GT_EIO, "given up");
	gt_nccl_fail(g, &err);
	gt_group_stop(g->host);
}

/* If the GPU has done all its work, let the watch go on: other ranks still have to meet it. */
static void nccl_stop(struct gt_group *group)
{
	struct gt_nccl_group *g = (struct gt_nccl_group *)group;

	pthread_mutex_lock(&g->lock);
	g->stopped = true;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
	if (!g->failed && !is_idle(g))
		give_up(g);
}

/* All but the group for host memory; NCCL's work ends before its stream. */
static void release(struct gt_nccl_group *g)
{
	const struct gt_backend *b = backend_of(g);

	gt_nccl_end_watch(g);
	if (g->failed)
		gt_nccl_abort(g);
	else
		gt_nccl_disconnect(g);
	b->stream_free(g->stream);
	b->event_free(g->came);
	for (int i = 0; i < GT_GROUP_STARTED; i++) {
		b->event_free(g->tickets[i].begun);
		b->event_free(g->tickets[i].ended);
	}
	gt_device_free(g->device, g->token, TOKEN_BYTES);
	gt_lent_free(&g->lent, g->device);
	pthread_cond_destroy(&g->change);
	pthread_mutex_destroy(&g->lock);
	pthread_mutex_destroy(&g->calls);
	free(g);
}

static void nccl_free(struct gt_group *group)
{
	struct gt_group *host = ((struct gt_nccl_group *)group)->host;

	nccl_stop(group);
	release((struct gt_nccl_group *)group);
	gt_group_free(host);
}

static const struct gt_group_ops ops = {
	.name = "nccl",
	.run = nccl_run,
	.start = nccl_start,
	.wait = nccl_wait,
	.await = nccl_await,
	.alloc = nccl_alloc,
	.release = nccl_release,
	.split = nccl_split,
	.stop = nccl_stop,
	.free = nccl_free,
};

static int make_parts(struct gt_nccl_group *g, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(g);
	int index = g->device->index;

	if (b->stream_new(&g->stream, index, err) || b->event_new(&g->came, index, err) ||
	    gt_device_alloc(g->device, TOKEN_BYTES, &g->token, err))
		return err->code;
	for (int i = 0; i < GT_GROUP_STARTED; i++)
		if (b->event_new(&g->tickets[i].begun, index, err) ||
		    b->event_new(&g->tickets[i].ended, index, err))
			return err->code;
	return 0;
}

/* If this rank fails here, the others find it gone in gt_nccl_connect(), or reach their timeout. */
static int make(struct gt_group **group, const struct gt_device *device, struct gt_err *err)
{
	struct gt_group *host = *group;
	struct gt_nccl_group *g = gt_calloc(1, sizeof(*g), err);

	if (!g)
		return GT_ENOMEM;
	g->group = (struct gt_group){ &ops, host->rank, host->size, host->timeout_s };
	g->host = host;
	g->device = device;
	pthread_mutex_init(&g->calls, NULL);
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->change, NULL);
	if (gt_nccl_open(NULL, err) || make_parts(g, err) || gt_nccl_connect(g, err) ||
	    gt_nccl_watch(g, err)) {
		release(g);
		return err->code;
	}
	*group = &g->group;
	return 0;
}

const struct gt_device_groups gt_nccl_groups = {
	.name = "nccl", .check = gt_nccl_check_ranks, .make = make
};
