/* far_copies.c - copies of the far device, and when the host may see their bytes. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "tests/fake/far/far_inside.h"

/* A copy between the device and pinned host memory, until the host knows that it is done. */
struct transfer {
	int index, stream;
	uint64_t when;
	char *host;
	size_t bytes;
	void *
	    arrived; /* from the device: the host gets it when it has waited; NULL: to the device */
	uint64_t sum; /* to the device: of the bytes as they were when the copy was queued */
	struct transfer *next;
};

static struct transfer *transfers; /* the last one first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t sum_of(const void *p, size_t bytes)
{
	const unsigned char *at = p;
	uint64_t h = 1469598103934665603u; /* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * 1099511628211u;
	return h;
}

static int run_copy(struct far_item *item, struct gt_err *err)
{
	(void)err;
	if (item->ruined)
		memset(item->ruined, 0xff, item->bytes);
	memcpy(item->to, item->from, item->bytes);
	return 0;
}

static int run_zero(struct far_item *item, struct gt_err *err)
{
	(void)err;
	memset(item->to, 0, item->bytes);
	return 0;
}

/* Of the item that was queued last. */
static int note_transfer(
    struct gt_stream *s, void *host, size_t bytes, void *arrived, struct gt_err *err)
{
	struct transfer *t = gt_calloc(1, sizeof(*t), err);

	if (!t)
		return GT_ENOMEM;
	*t = (struct transfer){ .index = s->index,
		.stream = s->id,
		.when = s->clock.at[s->id],
		.host = host,
		.bytes = bytes,
		.arrived = arrived,
		.sum = arrived ? 0 : sum_of(host, bytes) };
	pthread_mutex_lock(&lock);
	t->next = transfers;
	transfers = t;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* A transfer that the host has waited for: bytes from the device are there, bytes to it are the
 * host's again. The fault's text, or NULL. */
static const char *end_transfer(const struct transfer *t)
{
	if (!t->arrived)
		return sum_of(t->host, t->bytes) == t->sum
		           ? NULL
		           : "host memory is changed while 'copy_in' from it is queued";
	memcpy(t->host, t->arrived, t->bytes);
	return NULL;
}

const char *far_end_transfers(int index, const struct far_clock *known)
{
	struct transfer **at = &transfers;
	const char *fault = NULL;

	pthread_mutex_lock(&lock);
	while (*at) {
		struct transfer *t = *at;
		const char *found;

		if (t->index != index || known->at[t->stream] < t->when) {
			at = &t->next;
			continue;
		}
		found = end_transfer(t);
		fault = fault ? fault : found;
		*at = t->next;
		free(t->arrived);
		free(t);
	}
	pthread_mutex_unlock(&lock);
	return fault;
}

int far_copy_in(
    struct gt_stream *s, void *device, const void *host, size_t bytes, struct gt_err *err)
{
	struct far_item item = { .name = "copy_in",
		.run = run_copy,
		.copies = true,
		.from = host,
		.to = far_near(device),
		.bytes = bytes };
	int rc;

	if (!bytes)
		return 0;
	far_add_access(&item, device, bytes, true);
	if (far_is_pinned(host, bytes)) {
		bool made = far_is_pending(s->index, host, bytes, false);

		far_add_access(&item, host, bytes, false);
		rc = far_queue(s, &item, err);
		/* Bytes that queued work makes are not the host's to change. */
		return rc || made ? rc : note_transfer(s, (void *)host, bytes, NULL, err);
	}
	far_count_blocking(s->index);
	item.staged = gt_calloc(1, bytes, err);
	if (!item.staged)
		return GT_ENOMEM;
	item.from = memcpy(item.staged, host, bytes);
	rc = far_queue(s, &item, err);
	if (rc)
		free(item.staged);
	return rc;
}

static int copy_out_pinned(
    struct gt_stream *s, struct far_item *item, void *host, struct gt_err *err)
{
	bool used = far_is_pending(s->index, host, item->bytes, true);
	void *arrived = gt_calloc(1, item->bytes, err);
	int rc;

	if (!arrived)
		return GT_ENOMEM;
	item->to = arrived;
	item->ruined = used ? host : NULL;
	far_add_access(item, host, item->bytes, true);
	rc = far_queue(s, item, err);
	if (rc) {
		free(arrived);
		return rc;
	}
	if (!used)
		memset(host, 0xff, item->bytes); /* NaN */
	return note_transfer(s, host, item->bytes, arrived, err);
}

int far_copy_out(
    struct gt_stream *s, void *host, const void *device, size_t bytes, struct gt_err *err)
{
	struct far_item item = { .name = "copy_out",
		.run = run_copy,
		.copies = true,
		.from = far_near(device),
		.to = host,
		.bytes = bytes };
	int rc;

	if (!bytes)
		return 0;
	far_add_access(&item, device, bytes, false);
	if (far_is_pinned(host, bytes))
		return copy_out_pinned(s, &item, host, err);
	rc = far_queue(s, &item, err);
	return rc ? rc : far_stream_sync(s, err);
}

/* Work before the call has ended when it runs. */
static int run_host_call(struct far_item *item, struct gt_err *err)
{
	const char *fault = far_end_transfers(item->index, &item->clock);

	return fault ? gt_err_set(err, GT_EDEVICE, "far device %d: %s", item->index, fault)
	             : item->fn(item->self, err);
}

int far_host_call(
    struct gt_stream *s, gt_host_fn *fn, void *self, void *memory, size_t bytes, struct gt_err *err)
{
	struct far_item item = {
		.name = "host_call", .run = run_host_call, .fn = fn, .self = self, .index = s->index
	};

	far_add_access(&item, memory, bytes, true);
	return far_queue(s, &item, err);
}

int far_copy(struct gt_stream *s, void *to, const void *from, size_t bytes, struct gt_err *err)
{
	struct far_item item = { .name = "copy",
		.run = run_copy,
		.copies = true,
		.from = far_near(from),
		.to = far_near(to),
		.bytes = bytes };

	far_add_access(&item, from, bytes, false);
	far_add_access(&item, to, bytes, true);
	return bytes ? far_queue(s, &item, err) : 0;
}

int far_zero(struct gt_stream *s, void *device, size_t bytes, struct gt_err *err)
{
	struct far_item item = { .name = "zero",
		.run = run_zero,
		.copies = true,
		.to = far_near(device),
		.bytes = bytes };

	far_add_access(&item, device, bytes, true);
	return bytes ? far_queue(s, &item, err) : 0;
}
