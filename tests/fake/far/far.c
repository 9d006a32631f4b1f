/* far.c - the far device: streams with threads, events, faults. */
#include "tests/fake/far/far.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/base/thread_pool.h"
#include "tests/fake/far/far_inside.h"

/* One for each device; its lock guards all that its streams and events hold. */
struct far_device {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an event was reached, or a stream has no more items */
	struct gt_stream *streams[FAR_STREAMS];
	uint64_t began[FAR_STREAMS]; /* items of earlier streams of that number */
	struct far_clock host;       /* work that the host knows to be done */
	struct gt_err err;           /* the first */
	char fault[sizeof((struct gt_err){ 0 }.text)];
	struct far_counts counts;
};

static struct far_device devices[FAR_DEVICES] = { [0 ... FAR_DEVICES - 1] = {
	                                              .lock = PTHREAD_MUTEX_INITIALIZER,
	                                              .changed = PTHREAD_COND_INITIALIZER,
	                                          } };

static _Thread_local int entered = -1;

/* ---- faults and counts ---- */

static void end_with_faults(void)
{
	for (int i = 0; i < FAR_DEVICES; i++) {
		if (!*devices[i].fault)
			continue;
		fprintf(stderr, "far device %d: %s\n", i, devices[i].fault);
		fflush(NULL);
		_exit(99);
	}
}

static void watch_end(void)
{
	atexit(end_with_faults);
}

/* With the lock. */
static void set_fault(int index, const char *text)
{
	struct far_device *d = &devices[index];

	if (!*d->fault)
		snprintf(d->fault, sizeof(d->fault), "%s", text);
	if (!d->err.code)
		gt_err_set(&d->err, GT_EDEVICE, "far device %d: %s", index, text);
}

void far_fail(int index, const char *format, ...)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct far_device *d = &devices[index];
	char text[sizeof(d->fault)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_once(&once, watch_end);
	pthread_mutex_lock(&d->lock);
	set_fault(index, text);
	pthread_mutex_unlock(&d->lock);
}

const char *far_fault(int index)
{
	return *devices[index].fault ? devices[index].fault : NULL;
}

void far_forget(int index)
{
	struct far_device *d = &devices[index];

	pthread_mutex_lock(&d->lock);
	*d->fault = '\0';
	d->err = GT_ERR_INIT;
	pthread_mutex_unlock(&d->lock);
}

struct far_counts far_counts(int index)
{
	return devices[index].counts;
}

void far_count_replay(int index)
{
	pthread_mutex_lock(&devices[index].lock);
	devices[index].counts.replays++;
	pthread_mutex_unlock(&devices[index].lock);
}

void far_count_blocking(int index)
{
	pthread_mutex_lock(&devices[index].lock);
	devices[index].counts.blocking++;
	pthread_mutex_unlock(&devices[index].lock);
}

const struct far_clock *far_host_clock(int index)
{
	return &devices[index].host;
}

static void join(struct far_clock *into, const struct far_clock *clock)
{
	for (int i = 0; i < FAR_STREAMS; i++)
		if (into->at[i] < clock->at[i])
			into->at[i] = clock->at[i];
}

/* The host has waited for all that is before `clock`. With the lock. */
static void host_knows(int index, const struct far_clock *clock)
{
	struct far_device *d = &devices[index];
	const char *fault;

	join(&d->host, clock);
	fault = far_end_transfers(index, &d->host);
	if (fault)
		set_fault(index, fault);
}

/* With the lock. */
static int error_of(const struct far_device *d, struct gt_err *err)
{
	if (d->err.code)
		*err = d->err;
	return d->err.code;
}

/* ---- streams ---- */

/* Work is late: seldom, for some ten microseconds; copies oftener and later. */
static void dawdle(const struct gt_stream *s, const struct far_item *item)
{
	const char *seed = getenv("GTRAIN_FAR_SEED");
	uint64_t bits = gt_philox_u64(
	    seed ? strtoull(seed, NULL, 10) : 1, s->done, (uint32_t)s->id, (uint32_t)s->index);

	if (bits % (item->copies ? 4 : 32) == 0)
		usleep((useconds_t)(bits >> 32) % (item->copies ? 200 : 60));
}

static void run_item(struct gt_stream *s, struct far_item *item)
{
	struct far_device *d = &devices[s->index];
	struct gt_err err = GT_ERR_INIT;

	dawdle(s, item);
	omp_set_num_threads(item->threads);
	if (!item->run || !item->run(item, &err))
		return;
	pthread_mutex_lock(&d->lock);
	if (!d->err.code)
		d->err = err;
	pthread_mutex_unlock(&d->lock);
}

static bool is_reached(const struct gt_event *e, uint64_t record)
{
	return record + FAR_RECORDS <= e->recorded || e->reached[record % FAR_RECORDS];
}

/* Wait for a record; 0 is none. With the lock. */
static void wait_for_record(struct far_device *d, const struct gt_event *e, uint64_t record)
{
	while (record && !is_reached(e, record))
		pthread_cond_wait(&d->changed, &d->lock);
}

/* The item is next: events that it is about. With the lock. */
static void reach(struct far_device *d, struct far_item *item)
{
	struct gt_event *e = item->event;

	if (!e)
		return;
	if (item->waits)
		wait_for_record(d, e, item->generation);
	else
		e->reached[item->generation % FAR_RECORDS] = true;
	e->queued--;
}

static void *work(void *arg)
{
	struct gt_stream *s = arg;
	struct far_device *d = &devices[s->index];

	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct far_item *item = s->first;

		if (!item && s->stop)
			break;
		if (!item) {
			pthread_cond_wait(&s->queues, &d->lock);
			continue;
		}
		reach(d, item);
		pthread_mutex_unlock(&d->lock);
		run_item(s, item);
		pthread_mutex_lock(&d->lock);
		s->first = item->next;
		if (!s->first)
			s->last = NULL;
		s->done++;
		if (item->event || !s->first)
			pthread_cond_broadcast(&d->changed);
		free(item->staged);
		free(item);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static int far_stream_new(struct gt_stream **out, int index, struct gt_err *err)
{
	struct far_device *d = &devices[index];
	struct gt_stream *s = gt_calloc(1, sizeof(*s), err);
	int id = 0;

	*out = NULL;
	if (!s)
		return GT_ENOMEM;
	pthread_mutex_lock(&d->lock);
	while (id < FAR_STREAMS && d->streams[id])
		id++;
	s->index = index;
	s->id = id;
	pthread_cond_init(&s->queues, NULL);
	if (id < FAR_STREAMS) {
		d->streams[id] = s;
		s->clock.at[id] = d->began[id];
	}
	pthread_mutex_unlock(&d->lock);
	if (id == FAR_STREAMS || gt_thread_start(&s->thread, work, s, err)) {
		pthread_cond_destroy(&s->queues);
		free(s);
		return gt_err_set(err, GT_EDEVICE, "far: no more streams");
	}
	*out = s;
	return 0;
}

static void far_stream_free(struct gt_stream *s)
{
	struct far_device *d;

	if (!s)
		return;
	d = &devices[s->index];
	pthread_mutex_lock(&d->lock);
	s->stop = true;
	pthread_cond_signal(&s->queues);
	pthread_mutex_unlock(&d->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&d->lock);
	d->streams[s->id] = NULL;
	d->began[s->id] = s->clock.at[s->id];
	host_knows(s->index, &s->clock);
	pthread_mutex_unlock(&d->lock);
	pthread_cond_destroy(&s->queues);
	free(s);
}

void far_add_access(struct far_item *item, const void *p, size_t bytes, bool write)
{
	if (p && bytes)
		item->accesses[item->access_count++] = (struct far_access){ p, bytes, write };
}

static void append(struct far_device *d, struct gt_stream *s, struct far_item *item)
{
	item->next = NULL;
	if (s->last)
		s->last->next = item;
	else
		s->first = item;
	s->last = item;
	s->queued++;
	d->counts.kernels += !item->copies && item->run && !item->fn && !item->replayed;
	d->counts.replayed += !item->copies && item->run && item->replayed;
	d->counts.copies += item->copies;
	pthread_cond_signal(&s->queues);
}

int far_queue(struct gt_stream *s, struct far_item *like, struct gt_err *err)
{
	struct far_device *d = &devices[s->index];
	struct far_item *item;
	const char *fault;
	int rc;

	if (s->capture)
		return far_keep(s, like, err);
	item = gt_calloc(1, sizeof(*item), err);
	if (!item)
		return GT_ENOMEM;
	*item = *like;
	item->threads = omp_get_max_threads();
	pthread_mutex_lock(&d->lock);
	join(&s->clock, &d->host);
	s->clock.at[s->id]++;
	item->clock = s->clock;
	pthread_mutex_unlock(&d->lock);
	fault = entered == s->index ? far_check_item(item, s->index, s->id, &s->clock)
	                            : "work is queued by a thread that did not enter the device";
	if (fault)
		far_fail(s->index, "%s", fault);
	pthread_mutex_lock(&d->lock);
	rc = error_of(d, err);
	if (!rc)
		append(d, s, item);
	pthread_mutex_unlock(&d->lock);
	if (rc)
		free(item);
	return rc;
}

/* With the lock. */
static void wait_for_stream(struct far_device *d, struct gt_stream *s)
{
	while (s->done < s->queued)
		pthread_cond_wait(&d->changed, &d->lock);
	host_knows(s->index, &s->clock);
}

int far_stream_sync(struct gt_stream *s, struct gt_err *err)
{
	struct far_device *d = &devices[s->index];
	int rc;

	if (s->capture)
		far_fail(s->index, "the host waits for a stream whose work is captured");
	pthread_mutex_lock(&d->lock);
	d->counts.blocking++;
	wait_for_stream(d, s);
	rc = error_of(d, err);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* ---- events ---- */

static int far_event_new(struct gt_event **out, int index, struct gt_err *err)
{
	*out = gt_calloc(1, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->index = index;
	return 0;
}

static void far_event_free(struct gt_event *e)
{
	struct far_device *d;

	if (!e)
		return;
	d = &devices[e->index];
	pthread_mutex_lock(&d->lock);
	while (e->queued)
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
	free(e);
}

int far_event_record(struct gt_event *e, struct gt_stream *s, struct gt_err *err)
{
	struct far_device *d = &devices[s->index];
	struct far_item item = { .name = "event_record", .event = e };

	e->capture = s->capture;
	if (s->capture)
		return far_keep(s, &item, err);
	pthread_mutex_lock(&d->lock);
	if (e->recorded >= FAR_RECORDS)
		wait_for_record(d, e, e->recorded + 1 - FAR_RECORDS);
	item.generation = ++e->recorded;
	e->reached[item.generation % FAR_RECORDS] = false;
	e->queued++;
	pthread_mutex_unlock(&d->lock);
	if (far_queue(s, &item, err)) {
		pthread_mutex_lock(&d->lock);
		e->reached[item.generation % FAR_RECORDS] = true; /* the one before */
		e->recorded--;
		e->queued--;
		pthread_mutex_unlock(&d->lock);
		return err->code;
	}
	e->clock = s->clock;
	return 0;
}

int far_event_wait(struct gt_stream *s, struct gt_event *e, struct gt_err *err)
{
	struct far_device *d = &devices[s->index];
	struct far_item item = {
		.name = "event_wait", .event = e, .generation = e->recorded, .waits = true
	};
	struct far_clock before;
	int rc;

	if (s->capture || e->capture)
		return far_keep_wait(s, e, err);
	if (!e->recorded)
		return 0;
	before = s->clock;
	join(&s->clock, &e->clock);
	pthread_mutex_lock(&d->lock);
	e->queued++;
	pthread_mutex_unlock(&d->lock);
	rc = far_queue(s, &item, err);
	if (rc) { /* behind a fault nothing waits */
		s->clock = before;
		pthread_mutex_lock(&d->lock);
		e->queued--;
		pthread_mutex_unlock(&d->lock);
	}
	return rc;
}

static int far_event_sync(struct gt_event *e, struct gt_err *err)
{
	struct far_device *d = &devices[e->index];
	int rc;

	if (e->capture)
		far_fail(e->index, "the host waits for an event whose work is captured");
	pthread_mutex_lock(&d->lock);
	d->counts.waits += e->recorded && !is_reached(e, e->recorded);
	wait_for_record(d, e, e->recorded);
	host_knows(e->index, &e->clock);
	rc = error_of(d, err);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static bool far_event_done(struct gt_event *e)
{
	struct far_device *d = &devices[e->index];
	bool done;

	pthread_mutex_lock(&d->lock);
	done = !e->recorded || is_reached(e, e->recorded);
	if (done)
		host_knows(e->index, &e->clock);
	pthread_mutex_unlock(&d->lock);
	return done;
}

/* ---- the device ---- */

static int far_count(void)
{
	return FAR_DEVICES;
}

static int far_describe(int index, char *text, size_t size, struct gt_err *err)
{
	(void)err;
	snprintf(text, size, "far device %d, for tests", index);
	return 0;
}

static int far_enter(int index, struct gt_err *err)
{
	(void)err;
	entered = index;
	return 0;
}

static int far_memory(int index, uint64_t *available, uint64_t *total, struct gt_err *err)
{
	(void)index;
	(void)err;
	*available = *total = (uint64_t)1 << 30;
	return 0;
}

/* Slower than any processor, so that the share of it is not 0. */
static double far_peak_flops(int index, enum gt_dtype dtype, bool tf32)
{
	(void)index;
	return dtype == GT_F32 && !tf32 ? 1e9 : 2e9;
}

const struct gt_backend far_backend = {
	.name = "far",
	.image_layout = GT_CHANNELS_LAST,
	.count = far_count,
	.describe = far_describe,
	.enter = far_enter,
	.peak_flops = far_peak_flops,
	.memory = far_memory,
	.alloc = far_alloc,
	.free = far_free,
	.host_alloc = far_host_alloc,
	.host_free = far_host_free,
	.stream_new = far_stream_new,
	.stream_free = far_stream_free,
	.stream_sync = far_stream_sync,
	.event_new = far_event_new,
	.event_free = far_event_free,
	.event_record = far_event_record,
	.event_wait = far_event_wait,
	.event_sync = far_event_sync,
	.event_done = far_event_done,
	.copy_in = far_copy_in,
	.copy_out = far_copy_out,
	.copy = far_copy,
	.zero = far_zero,
	.host_call = far_host_call,
	.capture_begin = far_capture_begin,
	.capture_end = far_capture_end,
	.replay = far_replay,
	.capture_free = far_capture_free,
	.kernels = far_kernels,
	.ranges = far_ranges,
	.steps = far_steps,
};
