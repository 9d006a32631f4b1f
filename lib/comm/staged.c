/* staged.c - groups for device memory, by way of pinned host memory. */
#include "lib/comm/staged.h"

#include <pthread.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/comm/device_group.h"
#include "lib/comm/group_backend.h"
#include "lib/comm/lent.h"

enum { SLOTS = 4, QUEUED = 1024, CHUNK_BYTES = 1 << 20, LEAST_BYTES = 16 };

/*
 * A collective on device memory is cut into chunks. A slot is a block of pinned host memory for one
 * chunk. The group has three streams, which work on different chunks at the same time. Each stream
 * does one step for a chunk:
 *
 *   out     copies the chunk to a slot
 *   calls   runs the collective on the data in the slot, with a group for host memory
 *   in      copies the result from the slot to device memory
 *
 *            time ------------------------------------>
 *   out      chunk 0 | chunk 1 | chunk 2 |         |
 *   calls            | chunk 0 | chunk 1 | chunk 2 |
 *   in                         | chunk 0 | chunk 1 | chunk 2
 *
 * Events keep the steps in order, so the host can queue the whole collective without waiting. If
 * the group for host memory is "ordered" (it sums in a fixed order: group.h), the staged group is
 * ordered, too.
 *
 * In an all-gather or a reduce-scatter, a slot holds the data of all ranks, so a chunk of one rank
 * is smaller than the slot.
 */
struct staged {
	struct gt_group group;
	struct gt_group_ops ops;
	struct gt_group *host; /* owned; the stream `calls` alone calls it */
	const struct gt_device *device;
	char *slots; /* pinned: [SLOTS][slot_bytes] */
	size_t slot_bytes;
	struct gt_stream *out, *calls, *in;
	struct gt_event *begun;          /* the caller's stream has come to the collective */
	struct gt_event *copied[SLOTS];  /* the stream `out` has copied the chunk */
	struct gt_event *called[SLOTS];  /* `calls` has run the collective */
	struct gt_event *emptied[SLOTS]; /* `in` has emptied the slot */
	/* the event of ticket t is at t % GT_GROUP_STARTED */
	struct gt_event *ended[GT_GROUP_STARTED];
	uint64_t started; /* the latest ticket */
	uint64_t chunks;  /* number of chunks so far, which use the slots in turn */
	struct gt_device_block *blocks;

	/* the collectives that `calls` has not called yet */
	pthread_mutex_t lock;
	pthread_cond_t less;
	struct gt_collective queue[QUEUED];
	uint64_t put, taken;
	struct gt_err err; /* the first error of `calls` */
};

static const struct gt_backend *backend_of(const struct staged *s)
{
	return s->device->backend;
}

/* ---- calls of the group for host memory ---- */

static int call_next(void *self, struct gt_err *err)
{
	struct staged *s = self;
	struct gt_collective c;

	pthread_mutex_lock(&s->lock);
	c = s->queue[s->taken % QUEUED];
	pthread_mutex_unlock(&s->lock);
	if (!s->err.code)
		gt_group_run(s->host, &c, &s->err);
	pthread_mutex_lock(&s->lock);
	s->taken++;
	pthread_cond_signal(&s->less);
	pthread_mutex_unlock(&s->lock);
	if (s->err.code)
		*err = s->err;
	return s->err.code;
}

static int queue_call(
    struct staged *s, const struct gt_collective *c, void *memory, size_t bytes, struct gt_err *err)
{
	pthread_mutex_lock(&s->lock);
	while (s->put - s->taken == QUEUED)
		pthread_cond_wait(&s->less, &s->lock);
	s->queue[s->put++ % QUEUED] = *c;
	pthread_mutex_unlock(&s->lock);
	return backend_of(s)->host_call(s->calls, call_next, s, memory, bytes, err);
}

/* ---- a chunk ---- */

/* Elements [at, at + count) of each part of a collective, whose parts lie one behind the other in
 * the slot. */
struct chunk {
	const struct gt_collective *c;
	int64_t at, count;
	int slot;
	char *memory; /* memory of the slot */
};

/* Return the number of parts of `in` or of `out`. */
static int staged_parts(const struct staged *s, const struct gt_collective *c, bool out)
{
	return c->kind == (out ? GT_ALL_GATHER : GT_REDUCE_SCATTER) ? s->group.size : 1;
}

static int most_parts(const struct staged *s, const struct gt_collective *c)
{
	return staged_parts(s, c, false) * staged_parts(s, c, true);
}

/* Where a part lies in the slot. Where the input is one part and the result many, or the other way
 * round, the one is in the place of this rank's. */
static char *part_in_slot(const struct staged *s, const struct chunk *k, int part, bool out)
{
	int parts = staged_parts(s, k->c, out);
	int64_t index = parts == most_parts(s, k->c) ? part : s->group.rank;

	return k->memory + (size_t)(index * k->count) * gt_dtype_size(k->c->dtype);
}

/* Whether a part of the result is in its place already: collectives in place. */
static bool is_there(const struct staged *s, const struct gt_collective *c, int part)
{
	size_t bytes = (size_t)c->count * gt_dtype_size(c->dtype);

	if (c->kind == GT_BROADCAST)
		return c->peer == s->group.rank && c->in == c->out;
	return c->kind == GT_ALL_GATHER && part == s->group.rank &&
	       c->in == (const char *)c->out + (size_t)part * bytes;
}

static int copy_part(
    const struct staged *s, const struct chunk *k, int part, bool in, struct gt_err *err)
{
	const struct gt_collective *c = k->c;
	size_t size = gt_dtype_size(c->dtype), bytes = (size_t)k->count * size;
	size_t at = (size_t)(part * c->count + k->at) * size;
	char *slot = part_in_slot(s, k, part, in);

	if (in)
		return backend_of(s)->copy_in(s->in, (char *)c->out + at, slot, bytes, err);
	return backend_of(s)->copy_out(s->out, slot, (const char *)c->in + at, bytes, err);
}

static int queue_out(const struct staged *s, const struct chunk *k, struct gt_err *err)
{
	int rc = 0;

	for (int part = 0; !rc && part < staged_parts(s, k->c, false); part++)
		rc = copy_part(s, k, part, false, err);
	if (!rc)
		rc = backend_of(s)->event_record(s->copied[k->slot], s->out, err);
	return rc ? rc : backend_of(s)->event_wait(s->calls, s->copied[k->slot], err);
}

static int queue_in(const struct staged *s, const struct chunk *k, struct gt_err *err)
{
	int rc = backend_of(s)->event_record(s->called[k->slot], s->calls, err);

	if (!rc)
		rc = backend_of(s)->event_wait(s->in, s->called[k->slot], err);
	for (int part = 0; !rc && part < staged_parts(s, k->c, true); part++)
		if (gt_group_writes(&s->group, k->c) && !is_there(s, k->c, part))
			rc = copy_part(s, k, part, true, err);
	return rc ? rc : backend_of(s)->event_record(s->emptied[k->slot], s->in, err);
}

static int queue_chunk(
    struct staged *s, const struct chunk *k, struct gt_stream *first, struct gt_err *err)
{
	struct gt_collective c = *k->c;
	size_t bytes = (size_t)(k->count * most_parts(s, k->c)) * gt_dtype_size(k->c->dtype);
	int rc = backend_of(s)->event_wait(first, s->emptied[k->slot], err);

	c.count = k->count;
	c.in = part_in_slot(s, k, 0, false);
	c.out = part_in_slot(s, k, 0, true);
	c.span = NULL;
	c.marks = NULL;
	c.stream = NULL;
	if (!rc && first == s->out)
		rc = queue_out(s, k, err);
	if (!rc)
		rc = queue_call(s, &c, k->memory, bytes, err);
	return rc ? rc : queue_in(s, k, err);
}

/* ---- a collective ---- */

/* Without elements there is one empty chunk: the ranks meet all the same. */
static int queue_chunks(
    struct staged *s, const struct gt_collective *c, struct gt_stream *first, struct gt_err *err)
{
	bool counts = c->kind != GT_BARRIER;
	int64_t count = counts ? c->count : 0;
	int64_t part_bytes = (int64_t)s->slot_bytes / most_parts(s, c);
	int64_t max = counts ? part_bytes / (int64_t)gt_dtype_size(c->dtype) : 1;
	struct chunk k = { .c = c };
	int rc;

	do {
		k.count = count - k.at < max ? count - k.at : max;
		k.slot = (int)(s->chunks++ % SLOTS);
		k.memory = s->slots + (size_t)k.slot * s->slot_bytes;
		rc = queue_chunk(s, &k, first, err);
		k.at += k.count;
	} while (!rc && k.at < count);
	return rc;
}

/* The event of the next ticket, once the collective that had it before has ended: the one of
 * GT_GROUP_STARTED tickets earlier. */
static int next_ended(struct staged *s, struct gt_event **ended, struct gt_err *err)
{
	*ended = s->ended[(s->started + 1) % GT_GROUP_STARTED];
	return backend_of(s)->event_done(*ended) ? 0 : backend_of(s)->event_sync(*ended, err);
}

/* Start a collective of one rank: the stream copies the input, unless it is in place. */
static int start_alone(const struct staged *s, const struct gt_collective *c,
    struct gt_event *ended, struct gt_err *err)
{
	bool moves = c->kind != GT_BARRIER && c->in != c->out;
	size_t bytes = moves ? (size_t)c->count * gt_dtype_size(c->dtype) : 0;
	int rc = backend_of(s)->copy(c->stream, c->out, c->in, bytes, err);

	return rc ? rc : backend_of(s)->event_record(ended, c->stream, err);
}

/* Start a collective of several ranks, chunk by chunk. */
static int start_chunks(
    struct staged *s, const struct gt_collective *c, struct gt_event *ended, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(s);
	bool copies = c->kind != GT_BARRIER && c->count && gt_group_reads(&s->group, c);
	struct gt_stream *first = copies ? s->out : s->calls;
	int rc = b->event_record(s->begun, c->stream, err);

	if (!rc)
		rc = b->event_wait(first, s->begun, err);
	if (!rc)
		rc = gt_device_group_mark_begin(c, first, err);
	if (!rc)
		rc = queue_chunks(s, c, first, err);
	if (!rc)
		rc = gt_device_group_mark_end(c, s->in, err);
	return rc ? rc : b->event_record(ended, s->in, err);
}

static int staged_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct staged *s = (struct staged *)group;
	struct gt_event *ended;
	int rc;

	if (!c->stream)
		return gt_err_set(err, GT_EINVAL, "a collective of a device without a stream");
	rc = next_ended(s, &ended, err);
	if (!rc)
		rc = group->size == 1 ? start_alone(s, c, ended, err)
		                      : start_chunks(s, c, ended, err);
	if (rc)
		return rc;
	*ticket = ++s->started;
	return 0;
}

/* The event of a ticket; NULL if it is for a later ticket by now, so that this one has ended. */
static struct gt_event *event_of(const struct staged *s, uint64_t ticket)
{
	if (ticket > s->started)
		ticket = s->started;
	return !ticket || ticket + GT_GROUP_STARTED <= s->started
	           ? NULL
	           : s->ended[ticket % GT_GROUP_STARTED];
}

static int staged_await(
    struct gt_group *group, uint64_t ticket, struct gt_stream *stream, struct gt_err *err)
{
	struct staged *s = (struct staged *)group;
	struct gt_event *ended = event_of(s, ticket);

	return ended ? backend_of(s)->event_wait(stream, ended, err) : 0;
}

/* Wait for all work, also for that of a collective which an error left half queued. */
static int wait_for_streams(const struct staged *s, struct gt_err *err)
{
	struct gt_stream *const streams[] = { s->out, s->calls, s->in };
	int rc = 0;

	for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
		if (backend_of(s)->stream_sync(streams[i], rc ? GT_ERR_IGNORED : err))
			rc = rc ? rc : err->code;
	return rc;
}

static int staged_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	struct staged *s = (struct staged *)group;
	struct gt_event *ended = event_of(s, ticket);

	if (ticket == GT_GROUP_ALL)
		return wait_for_streams(s, err);
	return ended ? backend_of(s)->event_sync(ended, err) : 0;
}

static int staged_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	uint64_t ticket = 0;
	int rc = staged_start(group, c, &ticket, err);

	return rc ? rc : staged_await(group, ticket, c->stream, err);
}

/* ---- memory ---- */

/* Any memory of the device will do: other ranks reach the slots alone. */
static int staged_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct staged *s = (struct staged *)group;

	return gt_device_blocks_alloc(&s->blocks, s->device, bytes, out, err);
}

static void staged_release(struct gt_group *group, void *memory)
{
	struct staged *s = (struct staged *)group;

	gt_device_blocks_release(&s->blocks, s->device, memory);
}

/* ---- its life ---- */

static int staged_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct staged *s = (struct staged *)group;
	int rc = staged_wait(group, GT_GROUP_ALL, err);

	if (!rc)
		rc = gt_group_split(out, s->host, color, key, err);
	if (rc || !*out)
		return rc;
	rc = gt_staged_new(out, s->device, s->slot_bytes, err);
	if (rc) {
		gt_group_free(*out);
		*out = NULL;
	}
	return rc;
}

static void staged_stop(struct gt_group *group)
{
	gt_group_stop(((struct staged *)group)->host);
}

static void free_events(const struct staged *s, struct gt_event *const *events, int count)
{
	for (int i = 0; i < count; i++)
		backend_of(s)->event_free(events[i]);
}

/* All but the group for host memory; the streams end their work first. */
static void release_staged_group(struct staged *s)
{
	const struct gt_backend *b = backend_of(s);

	b->stream_free(s->out);
	b->stream_free(s->calls);
	b->stream_free(s->in);
	b->event_free(s->begun);
	free_events(s, s->copied, SLOTS);
	free_events(s, s->called, SLOTS);
	free_events(s, s->emptied, SLOTS);
	free_events(s, s->ended, GT_GROUP_STARTED);
	if (s->slots)
		b->host_free(s->device->index, s->slots, SLOTS * s->slot_bytes);
	gt_device_blocks_free(&s->blocks, s->device);
	pthread_cond_destroy(&s->less);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void staged_free(struct gt_group *group)
{
	struct staged *s = (struct staged *)group;
	struct gt_group *host = s->host;

	gt_group_stop(host);
	release_staged_group(s);
	gt_group_free(host);
}

static const struct gt_group_ops ops = {
	.name = "staged",
	.run = staged_run,
	.start = staged_start,
	.wait = staged_wait,
	.await = staged_await,
	.alloc = staged_alloc,
	.release = staged_release,
	.split = staged_split,
	.stop = staged_stop,
	.free = staged_free,
};

static int make_events(
    const struct staged *s, struct gt_event **events, int count, struct gt_err *err)
{
	for (int i = 0; i < count; i++)
		if (backend_of(s)->event_new(&events[i], s->device->index, err))
			return err->code;
	return 0;
}

static int make_streams(struct staged *s, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(s);
	int index = s->device->index;

	if (b->stream_new(&s->out, index, err) || b->stream_new(&s->calls, index, err) ||
	    b->stream_new(&s->in, index, err) || make_events(s, &s->begun, 1, err) ||
	    make_events(s, s->copied, SLOTS, err) || make_events(s, s->called, SLOTS, err) ||
	    make_events(s, s->emptied, SLOTS, err) ||
	    make_events(s, s->ended, GT_GROUP_STARTED, err))
		return err->code;
	return 0;
}

static int check_queues(const struct staged *s, struct gt_err *err)
{
	const struct gt_backend *b = backend_of(s);

	return b->check_queues ? b->check_queues(s->host, s->device, err) : 0;
}

int gt_staged_new(
    struct gt_group **group, const struct gt_device *device, size_t chunk_bytes, struct gt_err *err)
{
	struct gt_group *host = *group;
	struct staged *s = gt_calloc(1, sizeof(*s), err);
	size_t least = (size_t)host->size * LEAST_BYTES;
	void *slots;

	if (!s)
		return GT_ENOMEM;
	chunk_bytes = chunk_bytes ? chunk_bytes : CHUNK_BYTES;
	chunk_bytes = chunk_bytes > least ? chunk_bytes : least;
	*s = (struct staged){ .group = { &s->ops, host->rank, host->size, host->timeout_s },
		.ops = ops,
		.host = host,
		.device = device,
		.slot_bytes = (chunk_bytes + GT_COMM_LINE - 1) / GT_COMM_LINE * GT_COMM_LINE,
		.err = GT_ERR_INIT };
	s->ops.ordered = host->ops->ordered;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->less, NULL);
	if (device->backend->host_alloc(device->index, SLOTS * s->slot_bytes, &slots, err)) {
		gt_err_prefix(err, "collectives by way of the host");
		release_staged_group(s);
		return err->code;
	}
	s->slots = slots;
	if (make_streams(s, err) || check_queues(s, err)) {
		release_staged_group(s);
		return err->code;
	}
	*group = &s->group;
	return 0;
}
