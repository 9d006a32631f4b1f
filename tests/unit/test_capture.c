/* test_capture.c - work captured once and replayed, on devices that work in the background. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/plan.h"
#include "tests/common/device.h"
#include "tests/fake/far/far.h"

enum { N = 700, BYTES = N * sizeof(float), TIMES = 12 };

static const struct gt_backend *b;

/* The second device, where there is one: an index that is mistaken for another is then found. */
static int device_index(void)
{
	return b->count() > 1;
}

/* A device with three buffers and pinned memory, a third stream, and events. */
struct site {
	struct gt_device *d;
	float *x, *y, *z; /* device: [N] */
	float *host;      /* pinned: [N] */
	struct gt_stream *third;
	struct gt_event *fork, *rest, *done;
	struct gt_capture *capture;
	struct gt_err err;
};

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

static float *take(struct site *s)
{
	void *p;

	ok(gt_device_alloc(s->d, BYTES, &p, &s->err), &s->err);
	return p;
}

/* x is 1 everywhere, y and z are 0. */
static void open_site(struct site *s)
{
	void *p;

	*s = (struct site){ .err = GT_ERR_INIT };
	ok(gt_device_open(&s->d, b, device_index(), &s->err), &s->err);
	s->x = take(s);
	s->y = take(s);
	s->z = take(s);
	ok(b->host_alloc(device_index(), BYTES, &p, &s->err), &s->err);
	s->host = p;
	ok(b->stream_new(&s->third, device_index(), &s->err), &s->err);
	ok(b->event_new(&s->fork, device_index(), &s->err), &s->err);
	ok(b->event_new(&s->rest, device_index(), &s->err), &s->err);
	ok(b->event_new(&s->done, device_index(), &s->err), &s->err);
	for (int i = 0; i < N; i++)
		s->host[i] = 1;
	ok(gt_device_write(s->d, s->x, s->host, BYTES, &s->err), &s->err);
}

static void close_site(struct site *s)
{
	gt_device_sync(s->d, &s->err);
	b->capture_free(s->capture);
	b->event_free(s->fork);
	b->event_free(s->rest);
	b->event_free(s->done);
	b->stream_free(s->third);
	b->host_free(device_index(), s->host, BYTES);
	gt_device_free(s->d, s->x, BYTES);
	gt_device_free(s->d, s->y, BYTES);
	gt_device_free(s->d, s->z, BYTES);
	gt_device_close(s->d);
	far_forget(device_index());
}

static int begin(struct site *s)
{
	return b->capture_begin(s->d->compute, &s->err);
}

static int end(struct site *s)
{
	return b->capture_end(&s->capture, s->d->compute, &s->err);
}

static int replay(struct site *s)
{
	return b->replay(s->d->compute, s->capture, &s->err);
}

static int add(struct site *s, struct gt_stream *stream, float *to, const float *from)
{
	return b->ranges()->add(stream, to, from, N, &s->err);
}

static int hold_back(
    struct site *s, struct gt_event *event, struct gt_stream *first, struct gt_stream *then)
{
	int rc = b->event_record(event, first, &s->err);

	return rc ? rc : b->event_wait(then, event, &s->err);
}

/* Read behind all work of the stream. */
static void expect(struct site *s, struct gt_stream *stream, const float *device, float want)
{
	ok(b->copy_out(stream, s->host, device, BYTES, &s->err), &s->err);
	ok(b->stream_sync(stream, &s->err), &s->err);
	for (int i = 0; i < N; i++)
		if (s->host[i] != want)
			fail_msg("element %d is %g, not %g", i, (double)s->host[i], (double)want);
}

/* ---- right captures ---- */

/* Kernels, zeros and copies of one stream: z += 2 x, by way of y. */
static void capture_line(struct site *s)
{
	ok(begin(s), &s->err);
	ok(b->zero(s->d->compute, s->y, BYTES, &s->err), &s->err);
	ok(add(s, s->d->compute, s->y, s->x), &s->err);
	ok(add(s, s->d->compute, s->y, s->x), &s->err);
	ok(add(s, s->d->compute, s->z, s->y), &s->err);
	ok(b->copy(s->d->compute, s->y, s->z, BYTES, &s->err), &s->err);
	ok(end(s), &s->err);
}

static void nothing_is_done_before_a_replay(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	capture_line(&s);
	expect(&s, s.d->compute, s.z, 0);
	for (int i = 1; i <= TIMES; i++)
		ok(replay(&s), &s.err);
	ok(add(&s, s.d->compute, s.z, s.x), &s.err); /* behind all of it */
	expect(&s, s.d->compute, s.z, 2 * TIMES + 1);
	expect(&s, s.d->compute, s.y, 2 * TIMES);
	close_site(&s);
}

/* y += x on one stream, z += x on another, then z += y on the first. */
static void capture_fork(struct site *s)
{
	ok(begin(s), &s->err);
	ok(hold_back(s, s->fork, s->d->compute, s->d->copies), &s->err);
	ok(b->event_wait(s->third, s->fork, &s->err), &s->err);
	ok(add(s, s->d->copies, s->y, s->x), &s->err);
	ok(add(s, s->third, s->z, s->x), &s->err);
	ok(hold_back(s, s->rest, s->d->copies, s->d->compute), &s->err);
	ok(hold_back(s, s->done, s->third, s->d->compute), &s->err);
	ok(add(s, s->d->compute, s->z, s->y), &s->err);
	ok(end(s), &s->err);
}

/* y = 1, 2, 3, ..., and z is the sum of it, and of as many ones. */
static void streams_that_join_are_captured(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	capture_fork(&s);
	for (int i = 1; i <= TIMES; i++)
		ok(replay(&s), &s.err);
	expect(&s, s.d->compute, s.z, TIMES * (TIMES + 1) / 2 + TIMES);
	expect(&s, s.d->compute, s.y, TIMES);
	/* Streams and events are free for other work again; that is behind the replays. */
	ok(replay(&s), &s.err);
	ok(hold_back(&s, s.fork, s.d->compute, s.third), &s.err);
	ok(add(&s, s.third, s.y, s.x), &s.err);
	expect(&s, s.third, s.y, TIMES + 2);
	close_site(&s);
}

/* y += x, on a stream that joins. */
static void capture_joined(struct site *s)
{
	ok(begin(s), &s->err);
	ok(hold_back(s, s->fork, s->d->compute, s->third), &s->err);
	ok(add(s, s->third, s->y, s->x), &s->err);
	ok(hold_back(s, s->rest, s->third, s->d->compute), &s->err);
	ok(end(s), &s->err);
}

/* Its own work comes before a replay, or behind it, as it is queued: no events hold it there. */
static void a_stream_that_joined_keeps_its_order(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	capture_joined(&s);
	for (int i = 0; i < TIMES; i++) {
		ok(b->zero(s.third, s.y, BYTES, &s.err), &s.err);
		ok(replay(&s), &s.err);
		ok(add(&s, s.third, s.z, s.y), &s.err);
	}
	expect(&s, s.third, s.z, TIMES);
	close_site(&s);
}

/* Others work while it is replayed: work on the stream, and on others, keeps its place. */
static void a_replay_has_its_place_among_other_work(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	capture_line(&s);
	for (int i = 0; i < TIMES; i++) {
		ok(hold_back(&s, s.fork, s.d->compute, s.d->copies), &s.err);
		ok(b->copy_in(s.d->copies, s.x, s.host, BYTES, &s.err), &s.err);
		ok(hold_back(&s, s.rest, s.d->copies, s.d->compute), &s.err);
		ok(replay(&s), &s.err);
		ok(b->event_record(s.done, s.d->compute, &s.err), &s.err);
		ok(b->event_sync(s.done, &s.err), &s.err);
		for (int k = 0; k < N; k++)
			s.host[k] += 1;
	}
	expect(&s, s.d->compute, s.z, TIMES * (TIMES + 1));
	close_site(&s);
}

static void a_capture_is_freed_while_its_work_is_queued(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	for (int i = 0; i < TIMES; i++) {
		if (i % 2)
			capture_fork(&s);
		else
			capture_line(&s);
		ok(replay(&s), &s.err);
		b->capture_free(s.capture);
		s.capture = NULL;
	}
	ok(b->stream_sync(s.d->compute, &s.err), &s.err);
	assert_null(far_fault(device_index()));
	close_site(&s);
}

static void an_empty_capture_does_nothing(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	ok(begin(&s), &s.err);
	ok(end(&s), &s.err);
	ok(replay(&s), &s.err);
	expect(&s, s.d->compute, s.x, 1);
	b->capture_free(NULL);
	close_site(&s);
}

/* ---- wrong ones ---- */

static int call_nothing(void *self, struct gt_err *err)
{
	(void)self;
	(void)err;
	return 0;
}

/* Each returns an error of its own, or 0 where that is the end's. */
static int name_pinned_memory(struct site *s)
{
	return b->copy_in(s->d->compute, s->x, s->host, BYTES, &s->err);
}

static int name_pageable_memory(struct site *s)
{
	float own[N];

	return b->copy_out(s->d->compute, own, s->x, BYTES, &s->err);
}

static int wait_for_stream(struct site *s)
{
	int rc = add(s, s->d->compute, s->y, s->x);

	return rc ? rc : b->stream_sync(s->d->compute, &s->err);
}

static int wait_for_event(struct site *s)
{
	int rc = b->event_record(s->fork, s->d->compute, &s->err);

	return rc ? rc : b->event_sync(s->fork, &s->err);
}

static int wait_for_work_outside(struct site *s)
{
	int rc = b->event_record(s->fork, s->d->copies, &s->err);

	return rc ? rc : b->event_wait(s->d->compute, s->fork, &s->err);
}

static int begin_again(struct site *s)
{
	return begin(s);
}

static int call_the_host(struct site *s)
{
	return b->host_call(s->d->compute, call_nothing, NULL, s->host, BYTES, &s->err);
}

/* A stream that joins the capture cannot do it either. */
static int join_with_host_memory(struct site *s)
{
	int rc = hold_back(s, s->fork, s->d->compute, s->d->copies);

	return rc ? rc : b->copy_in(s->d->copies, s->x, s->host, BYTES, &s->err);
}

/* An error in between, or at the end; and afterwards the device does its work as before. */
static void wrong_captures_are_errors(void **state)
{
	static int (*const wrong[])(struct site * s) = { name_pinned_memory, name_pageable_memory,
		wait_for_stream, wait_for_event, wait_for_work_outside, begin_again, call_the_host,
		join_with_host_memory };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct site s;
		int rc;

		open_site(&s);
		ok(begin(&s), &s.err);
		rc = wrong[i](&s);
		rc = end(&s) || rc ? s.err.code : 0;
		if (rc != GT_EDEVICE)
			fail_msg("case %zu: %d", i, rc);
		b->capture_free(s.capture);
		s.capture = NULL;
		far_forget(device_index());
		capture_line(&s);
		ok(replay(&s), &s.err);
		ok(replay(&s), &s.err);
		expect(&s, s.d->compute, s.z, 4);
		close_site(&s);
	}
}

static void a_stream_that_does_not_come_back_is_an_error(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	ok(begin(&s), &s.err);
	ok(hold_back(&s, s.fork, s.d->compute, s.d->copies), &s.err);
	ok(add(&s, s.d->copies, s.y, s.x), &s.err);
	if (!end(&s)) /* the far backend finds it later */
		assert_int_not_equal(replay(&s), 0);
	assert_int_equal(s.err.code, GT_EDEVICE);
	close_site(&s);
}

static void streams_are_not_mistaken(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	capture_line(&s);
	assert_int_equal(b->replay(s.d->copies, s.capture, &s.err), GT_EDEVICE);
	b->capture_free(s.capture);
	far_forget(device_index());
	assert_int_equal(b->capture_end(&s.capture, s.d->compute, &s.err), GT_EDEVICE);
	assert_null(s.capture);
	close_site(&s);
}

/* ---- plans ---- */

/* A plan of one relu. */
struct one {
	struct gt_graph *g;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_value *x, *y;
	void *arena;
};

static void open_one(struct one *o)
{
	const int64_t shape[] = { N };
	struct gt_err err = GT_ERR_INIT;

	ok(gt_graph_new(&o->g, &err), &err);
	o->x = gt_input(o->g, "x", GT_F32, 1, shape);
	o->y = gt_output(o->g, gt_relu(o->g, o->x), "y");
	ok(gt_store_new(&o->store, o->g, test_device(0), false, &err), &err);
	ok(gt_plan_new(&o->plan, o->g, o->store, NULL, &err), &err);
	ok(gt_store_alloc(o->store, &err), &err);
	ok(gt_device_alloc(test_device(0), gt_plan_arena_bytes(o->plan), &o->arena, &err), &err);
	ok(gt_plan_bind(o->plan, o->arena, &err), &err);
}

/* Feed it x; the first run is queued, the second captured, the others replayed. */
static void a_plan_is_replayed(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	float host[N];
	struct one o;
	size_t bytes;

	(void)state;
	open_one(&o);
	for (int run = 1; run < 6; run++) {
		for (int i = 0; i < N; i++)
			host[i] = (float)(i % 2 ? run : -run);
		ok(gt_plan_write(o.plan, o.x, host, BYTES, &err), &err);
		ok(gt_plan_run(o.plan, &err), &err);
		ok(gt_plan_read(o.plan, o.y, host, BYTES, &err), &err);
		for (int i = 0; i < N; i++)
			assert_true(host[i] == (float)(i % 2 ? run : 0));
	}
	bytes = gt_plan_arena_bytes(o.plan);
	gt_plan_free(o.plan);
	gt_device_free(test_device(0), o.arena, bytes);
	gt_store_free(o.store);
	gt_graph_free(o.g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_done_before_a_replay),
		cmocka_unit_test(streams_that_join_are_captured),
		cmocka_unit_test(a_stream_that_joined_keeps_its_order),
		cmocka_unit_test(a_replay_has_its_place_among_other_work),
		cmocka_unit_test(a_capture_is_freed_while_its_work_is_queued),
		cmocka_unit_test(an_empty_capture_does_nothing),
		cmocka_unit_test(wrong_captures_are_errors),
		cmocka_unit_test(a_stream_that_does_not_come_back_is_an_error),
		cmocka_unit_test(streams_are_not_mistaken),
		cmocka_unit_test(a_plan_is_replayed),
	};

	setenv("GTRAIN_TEST_BACKEND", far_backend.name, 0);
	b = test_device(0)->backend;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
