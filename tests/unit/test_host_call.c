/* test_host_call.c - functions of the host that streams of a device call. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/device.h"
#include "tests/fake/far/far.h"

enum { N = 500, BYTES = N * sizeof(float), STREAMS = 4, ROUNDS = 6, MANY = 60, FAR_TOO_MANY = 700 };

static const struct gt_backend *b;

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

/* The second device, where there is one. */
static int second(void)
{
	return b->count() > 1;
}

/* A device of a test's own. */
static struct gt_device *open_device(int index)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;

	ok(gt_device_open(&d, b, index, &err), &err);
	return d;
}

static float *take(const struct gt_device *d)
{
	struct gt_err err = GT_ERR_INIT;
	void *p;

	ok(gt_device_alloc(d, BYTES, &p, &err), &err);
	return p;
}

static float *take_pinned(const struct gt_device *d)
{
	struct gt_err err = GT_ERR_INIT;
	void *p;

	ok(b->host_alloc(d->index, BYTES, &p, &err), &err);
	return p;
}

/* ---- between work of the device ---- */

static int double_all(void *self, struct gt_err *err)
{
	float *x = self;

	(void)err;
	for (int i = 0; i < N; i++)
		x[i] *= 2;
	return 0;
}

/* x = 2 (x + 1), again and again: by the device, by the host, by the device. */
static void a_call_begins_behind_work_and_ends_before_work(void **state)
{
	struct gt_device *d = open_device(second());
	float *x = take(d), *one = take(d), *host = take_pinned(d), want = 0, got[N];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int i = 0; i < N; i++)
		got[i] = 1;
	ok(gt_device_write(d, one, got, BYTES, &err), &err);
	for (int round = 0; round < 2 * ROUNDS; round++) {
		ok(b->ranges()->add(d->compute, x, one, N, &err), &err);
		ok(b->copy_out(d->compute, host, x, BYTES, &err), &err);
		ok(b->host_call(d->compute, double_all, host, host, BYTES, &err), &err);
		ok(b->copy_in(d->compute, x, host, BYTES, &err), &err);
		want = 2 * (want + 1);
		if (round == ROUNDS) /* a stream that is idle, and one that is not */
			ok(b->stream_sync(d->compute, &err), &err);
	}
	ok(gt_device_read(d, got, x, BYTES, &err), &err);
	for (int i = 0; i < N; i++)
		assert_true(got[i] == want);
	b->host_free(d->index, host, BYTES);
	gt_device_free(d, x, BYTES);
	gt_device_free(d, one, BYTES);
	gt_device_close(d);
}

/* ---- calls that wait for each other ---- */

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all;
	int size, here, rounds;
};

static int meet(void *self, struct gt_err *err)
{
	struct meeting *m = self;
	int round;

	(void)err;
	pthread_mutex_lock(&m->lock);
	round = m->rounds;
	if (++m->here == m->size) {
		m->here = 0;
		m->rounds++;
		pthread_cond_broadcast(&m->all);
	}
	while (m->rounds == round)
		pthread_cond_wait(&m->all, &m->lock);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

/* All calls of the first stream are queued before any of the last. */
static void calls_wait_for_calls_of_other_streams(void **state)
{
	struct meeting m = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, STREAMS, 0, 0 };
	struct gt_device *d[2] = { open_device(0), open_device(second()) };
	struct gt_stream *streams[STREAMS];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int i = 0; i < STREAMS; i++) {
		ok(b->enter(i % 2 * second(), &err), &err);
		ok(b->stream_new(&streams[i], i % 2 * second(), &err), &err);
		for (int round = 0; round < ROUNDS; round++)
			ok(b->host_call(streams[i], meet, &m, NULL, 0, &err), &err);
	}
	for (int i = STREAMS - 1; i >= 0; i--) {
		ok(b->enter(i % 2 * second(), &err), &err);
		ok(b->stream_sync(streams[i], &err), &err);
		b->stream_free(streams[i]);
	}
	assert_int_equal(m.rounds, ROUNDS);
	for (int i = 0; i < 2; i++) {
		ok(b->enter(i * second(), &err), &err);
		gt_device_close(d[i]);
	}
}

/* ---- order ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open;
	int calls;
};

#define GATE                                                                                       \
	(struct gate)                                                                              \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0                      \
	}

static int pass(void *self, struct gt_err *err)
{
	struct gate *g = self;

	(void)err;
	pthread_mutex_lock(&g->lock);
	while (!g->open)
		pthread_cond_wait(&g->opened, &g->lock);
	g->calls++;
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static void open_gate(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->opened);
	pthread_mutex_unlock(&g->lock);
}

/* The host goes on meanwhile, though many calls wait; so do streams that do not. */
static void the_host_does_not_wait_for_calls(void **state)
{
	struct gt_device *d = open_device(second());
	float *x = take(d), *host = take_pinned(d), got[N];
	struct gt_event *behind;
	struct gt_err err = GT_ERR_INIT;
	struct gate g = GATE;

	(void)state;
	ok(b->event_new(&behind, d->index, &err), &err);
	for (int i = 0; i < N; i++)
		host[i] = 1;
	for (int i = 0; i < MANY; i++)
		ok(b->host_call(d->compute, pass, &g, NULL, 0, &err), &err);
	ok(b->event_record(behind, d->compute, &err), &err);
	ok(b->copy_in(d->copies, x, host, BYTES, &err), &err);
	ok(b->stream_sync(d->copies, &err), &err);
	assert_int_equal(g.calls, 0);
	assert_false(b->event_done(behind));
	ok(b->event_wait(d->copies, behind, &err), &err);
	ok(b->ranges()->add(d->copies, x, x, N, &err), &err);
	open_gate(&g);
	ok(b->event_sync(behind, &err), &err);
	assert_int_equal(g.calls, MANY);
	ok(b->copy_out(d->copies, host, x, BYTES, &err), &err);
	ok(b->stream_sync(d->copies, &err), &err);
	memcpy(got, host, BYTES);
	for (int i = 0; i < N; i++)
		assert_true(got[i] == 2);
	b->event_free(behind);
	b->host_free(d->index, host, BYTES);
	gt_device_free(d, x, BYTES);
	gt_device_close(d);
}

/* When many calls are queued. */
static void *open_late(void *gate)
{
	usleep(200000);
	open_gate(gate);
	return NULL;
}

/* A host that is far ahead waits for calls, and they do not wait for it. */
static void any_number_of_calls_is_made(void **state)
{
	struct gt_device *d = open_device(second());
	struct gt_err err = GT_ERR_INIT;
	struct gate g = GATE;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, open_late, &g), 0);
	for (int i = 0; i < FAR_TOO_MANY; i++)
		ok(b->host_call(d->compute, pass, &g, NULL, 0, &err), &err);
	ok(b->stream_sync(d->compute, &err), &err);
	assert_int_equal(g.calls, FAR_TOO_MANY);
	pthread_join(thread, NULL);
	gt_device_close(d);
}

/* A stream is freed when its calls are made. */
static void a_freed_stream_has_made_its_calls(void **state)
{
	struct gt_device *d = open_device(second());
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int calls = 0; calls < 5; calls++) {
		struct gt_stream *stream;
		struct gate g = GATE;
		pthread_t thread;

		ok(b->stream_new(&stream, d->index, &err), &err);
		for (int i = 0; i < calls; i++)
			ok(b->host_call(stream, pass, &g, NULL, 0, &err), &err);
		assert_int_equal(pthread_create(&thread, NULL, open_late, &g), 0);
		b->stream_free(stream);
		assert_int_equal(g.calls, calls);
		pthread_join(thread, NULL);
	}
	gt_device_close(d);
}

/* ---- signals ---- */

/* The signals that a thread blocks, a bit for each. */
static unsigned long long blocked_by(const char *thread)
{
	char path[300], line[200];
	unsigned long long set = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "SigBlk:", 7))
			set = strtoull(line + 7, NULL, 16);
	fclose(f);
	return set;
}

/* A signal to the process goes to any thread that does not block it. The launcher of ranks reads
 * its signals from a file descriptor, and would miss those that another thread takes. */
static void threads_of_a_device_take_no_signals(void **state)
{
	static const int numbers[] = { SIGCHLD, SIGINT, SIGTERM, SIGUSR1 };
	struct gt_device *d = open_device(second());
	DIR *threads = opendir("/proc/self/task");
	struct gate g = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, 0 };
	struct gt_err err = GT_ERR_INIT;
	struct dirent *thread;

	(void)state;
	assert_non_null(threads);
	ok(b->host_call(d->compute, pass, &g, NULL, 0, &err), &err);
	while ((thread = readdir(threads)))
		for (int i = 0; i < 4 && *thread->d_name != '.'; i++)
			if (atoi(thread->d_name) != getpid())
				assert_true(blocked_by(thread->d_name) >> (numbers[i] - 1) & 1);
	closedir(threads);
	gt_device_close(d);
}

/* ---- errors ---- */

static int fail_call(void *self, struct gt_err *err)
{
	return gt_err_set(err, GT_EIO, "planted %d", ++*(int *)self);
}

static void expect_planted(int rc, const struct gt_err *err)
{
	assert_int_equal(rc, GT_EIO);
	assert_string_equal(err->text, "planted 1");
}

/* The other device goes on. */
static void use_the_other(struct gt_device *other, float *y)
{
	struct gt_err err = GT_ERR_INIT;

	ok(b->enter(0, &err), &err);
	ok(b->ranges()->add(other->compute, y, y, N, &err), &err);
	ok(gt_device_sync(other, &err), &err);
	gt_device_free(other, y, BYTES);
	gt_device_close(other);
	ok(b->enter(1, &err), &err);
}

/* The first error is that of all later calls on the device; those that are queued are made. */
static void an_error_is_that_of_later_calls(void **state)
{
	struct gt_device *d, *other = second() ? open_device(0) : NULL;
	struct gt_err err = GT_ERR_INIT;
	int refused = 0;
	struct gt_event *event;
	struct gate g = GATE;
	float *x, *y = other ? take(other) : NULL;

	(void)state;
	d = open_device(second());
	x = take(d);
	ok(b->event_new(&event, d->index, &err), &err);
	ok(b->host_call(d->compute, pass, &g, NULL, 0, &err), &err);
	for (int i = 0; i < 3; i++)
		ok(b->host_call(d->compute, fail_call, &refused, NULL, 0, &err), &err);
	ok(b->event_record(event, d->compute, &err), &err);
	open_gate(&g);
	expect_planted(b->stream_sync(d->compute, &err), &err);
	assert_int_equal(refused, 3);
	expect_planted(b->event_sync(event, &err), &err);
	expect_planted(b->ranges()->add(d->copies, x, x, N, &err), &err);
	expect_planted(b->copy_in(d->copies, x, &g, sizeof(g), &err), &err);
	expect_planted(b->zero(d->copies, x, BYTES, &err), &err);
	expect_planted(b->event_record(event, d->copies, &err), &err);
	expect_planted(b->host_call(d->copies, fail_call, &refused, NULL, 0, &err), &err);
	assert_int_equal(refused, 3);
	if (other)
		use_the_other(other, y);
	b->event_free(event);
	gt_device_sync(d, GT_ERR_IGNORED);
	gt_device_free(d, x, BYTES);
	gt_device_close(d);
	far_forget(second());
	/* The error is forgotten with the device's last stream. Those of device 0 that main() opens
	 * are never closed. */
	if (second())
		a_call_begins_behind_work_and_ends_before_work(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_begins_behind_work_and_ends_before_work),
		cmocka_unit_test(calls_wait_for_calls_of_other_streams),
		cmocka_unit_test(the_host_does_not_wait_for_calls),
		cmocka_unit_test(any_number_of_calls_is_made),
		cmocka_unit_test(a_freed_stream_has_made_its_calls),
		cmocka_unit_test(threads_of_a_device_take_no_signals),
		cmocka_unit_test(an_error_is_that_of_later_calls),
	};

	setenv("GTRAIN_TEST_BACKEND", far_backend.name, 0);
	b = test_device(0)->backend;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
