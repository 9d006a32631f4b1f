/* far_capture.c - work of the far device that is kept, and queued again and again. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "tests/fake/far/far_inside.h"

/* An item, the stream that it is queued on, and a kernel's call as it was. */
struct kept {
	struct gt_stream *stream;
	struct far_item item;
	struct gt_call *call;
};

struct gt_capture {
	struct gt_stream *origin;
	struct gt_stream *joined[FAR_STREAMS]; /* the origin is the first */
	int joined_count;
	struct kept *items;
	size_t count, capacity;
};

static int fail(int index, struct gt_err *err, const char *text)
{
	far_fail(index, "%s", text);
	return gt_err_set(err, GT_EDEVICE, "far device %d: %s", index, text);
}

static bool names_host(const struct far_item *item)
{
	for (int i = 0; i < item->access_count; i++)
		if (!far_is_far(item->accesses[i].p))
			return true;
	return item->staged;
}

int far_keep(struct gt_stream *s, const struct far_item *item, struct gt_err *err)
{
	struct gt_capture *c = s->capture;
	struct kept *kept;

	if (names_host(item))
		return fail(s->index, err, "captured work names host memory");
	if (gt_grow(&c->items, c->count, &c->capacity, sizeof(*c->items), err))
		return GT_ENOMEM;
	kept = &c->items[c->count];
	*kept = (struct kept){ .stream = s, .item = *item };
	kept->item.replayed = true;
	if (item->call) {
		kept->call = gt_calloc(1, sizeof(*kept->call), err);
		if (!kept->call)
			return GT_ENOMEM;
		memcpy(kept->call, item->call, sizeof(*kept->call));
	}
	c->count++;
	return 0;
}

int far_keep_wait(struct gt_stream *s, struct gt_event *e, struct gt_err *err)
{
	const struct far_item item = { .name = "event_wait", .event = e, .waits = true };

	if (!e->capture && !e->recorded)
		return 0;
	if (!e->capture || (s->capture && s->capture != e->capture))
		return fail(s->index, err, "captured work waits for work outside of its capture");
	if (!s->capture) {
		s->capture = e->capture;
		s->capture->joined[s->capture->joined_count++] = s;
	}
	return far_keep(s, &item, err);
}

int far_capture_begin(struct gt_stream *s, struct gt_err *err)
{
	struct gt_capture *c;

	if (s->capture)
		return fail(s->index, err, "a stream is captured twice");
	c = gt_calloc(1, sizeof(*c), err);
	if (!c)
		return GT_ENOMEM;
	c->origin = c->joined[c->joined_count++] = s;
	s->capture = c;
	return 0;
}

/* Events are free for other work again. */
int far_capture_end(struct gt_capture **out, struct gt_stream *s, struct gt_err *err)
{
	struct gt_capture *c = s->capture;

	*out = NULL;
	if (!c || c->origin != s)
		return fail(s->index, err, "a capture ends that did not begin on this stream");
	for (int i = 0; i < c->joined_count; i++)
		c->joined[i]->capture = NULL;
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].item.event)
			c->items[i].item.event->capture = NULL;
	if (far_fault(s->index)) {
		far_capture_free(c);
		return fail(s->index, err, far_fault(s->index));
	}
	*out = c;
	return 0;
}

/* Queue it like any other item, so that its order is checked anew. */
static int queue_again(const struct kept *k, struct gt_err *err)
{
	struct far_item item = k->item;

	if (item.event && item.waits)
		return far_event_wait(k->stream, item.event, err);
	if (item.event)
		return far_event_record(item.event, k->stream, err);
	if (k->call && memcmp(k->call, item.call, sizeof(*k->call)) != 0)
		return fail(k->stream->index, err, "a kernel's call has changed since its capture");
	return far_queue(k->stream, &item, err);
}

int far_replay(struct gt_stream *s, struct gt_capture *c, struct gt_err *err)
{
	int rc = 0;

	if (s != c->origin)
		return fail(
		    s->index, err, "work is replayed on another stream than it was captured on");
	far_count_replay(s->index);
	for (size_t i = 0; !rc && i < c->count; i++)
		rc = queue_again(&c->items[i], err);
	for (int i = 1; !rc && i < c->joined_count; i++) {
		int id = c->joined[i]->id;

		if (s->clock.at[id] < c->joined[i]->clock.at[id])
			rc = fail(s->index, err, "a capture ends before a stream that joined it");
	}
	return rc;
}

void far_capture_free(struct gt_capture *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		free(c->items[i].call);
	free(c->items);
	free(c);
}
