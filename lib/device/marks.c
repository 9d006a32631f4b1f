/* marks.c - the times at which a device reaches points of its streams, for profiles. */
#include "lib/device/marks.h"

#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"

struct mark {
	struct gt_event *event; /* created at the first use of the place */
	double *time;
};

struct gt_marks {
	const struct gt_device *device;
	struct mark *ring; /* [capacity], of which `count` from `first` on wait for the device */
	size_t capacity, first, count;
	/* An event with a known time on the host's clock; other times are measured from it. It is a
	 * recent event: CUDA returns milliseconds in a float, which has only 7 digits. */
	struct gt_event *base;
	double base_time;
};

int gt_marks_new(
    struct gt_marks **out, const struct gt_device *d, size_t pending, struct gt_err *err)
{
	struct gt_marks *m = gt_calloc(1, sizeof(*m), err);

	*out = NULL;
	if (!m)
		return GT_ENOMEM;
	m->device = d;
	m->capacity = pending;
	m->ring = gt_calloc(pending, sizeof(*m->ring), err);
	if (!m->ring) {
		gt_marks_free(m);
		return GT_ENOMEM;
	}
	*out = m;
	return 0;
}

void gt_marks_free(struct gt_marks *m)
{
	if (!m)
		return;
	for (size_t i = 0; m->ring && i < m->capacity; i++)
		if (m->ring[i].event)
			m->device->backend->event_free(m->ring[i].event);
	if (m->base)
		m->device->backend->event_free(m->base);
	free(m->ring);
	free(m);
}

bool gt_marks_are_late(const struct gt_marks *m)
{
	return m->device->backend->timed_event_new;
}

/* The stream for copies has the least work, so that the host reads its clock soon after the device
 * has reached the event, and the compute stream does not run empty. */
static int set_base(struct gt_marks *m, struct gt_err *err)
{
	const struct gt_device *d = m->device;

	if (d->backend->timed_event_new(&m->base, d->index, err) ||
	    d->backend->event_record(m->base, d->copies, err) ||
	    d->backend->event_sync(m->base, err))
		return err->code;
	m->base_time = gt_clock_s();
	return 0;
}

/* Set the times of the first `n` marks. The last one becomes the base of later ones. */
static int read_first(struct gt_marks *m, size_t n, struct gt_err *err)
{
	const struct gt_backend *b = m->device->backend;
	struct mark *mark = NULL;

	for (size_t i = 0; i < n; i++) {
		double seconds;

		mark = &m->ring[m->first];
		if (b->event_sync(mark->event, err) ||
		    b->event_seconds(&seconds, m->base, mark->event, err))
			return err->code;
		*mark->time = m->base_time + seconds;
		m->first = (m->first + 1) % m->capacity;
		m->count--;
	}
	if (mark) {
		struct gt_event *base = mark->event;

		m->base_time = *mark->time;
		mark->event = m->base;
		m->base = base;
	}
	return 0;
}

int gt_marks_add(struct gt_marks *m, struct gt_stream *stream, double *time, struct gt_err *err)
{
	const struct gt_device *d = m->device;
	struct mark *mark;

	if (!gt_marks_are_late(m)) {
		*time = gt_clock_s();
		return 0;
	}
	if (!m->base && set_base(m, err))
		return err->code;
	if (m->count == m->capacity && read_first(m, (m->capacity + 1) / 2, err))
		return err->code;
	mark = &m->ring[(m->first + m->count) % m->capacity];
	if ((!mark->event && d->backend->timed_event_new(&mark->event, d->index, err)) ||
	    d->backend->event_record(mark->event, stream, err))
		return err->code;
	mark->time = time;
	m->count++;
	return 0;
}

int gt_marks_read(struct gt_marks *m, struct gt_err *err)
{
	return read_first(m, m->count, err);
}
