/* test_far_capture.c - work captured once and replayed: by hand on the far device, and by plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/fake/far/far.h"

enum { INDEX = 7, N = 1024, BYTES = N * sizeof(float) };

/* A device with three buffers, pinned memory and events; a capture of its first stream. */
struct site {
	struct gt_device *d;
	const struct gt_backend *b;
	float *x, *y, *z; /* device: [N] */
	float *host;      /* pinned: [N] */
	struct gt_event *fork, *rest;
	struct gt_capture *capture;
	struct gt_err err;
};

static float *take(struct site *s)
{
	void *p;

	assert_int_equal(gt_device_alloc(s->d, BYTES, &p, &s->err), 0);
	return p;
}

/* x is 1 everywhere, y and z are 0. */
static void open_site(struct site *s)
{
	void *p;

	*s = (struct site){ .b = &far_backend };
	assert_int_equal(gt_device_open(&s->d, s->b, INDEX, &s->err), 0);
	s->x = take(s);
	s->y = take(s);
	s->z = take(s);
	assert_int_equal(s->b->host_alloc(INDEX, BYTES, &p, &s->err), 0);
	s->host = p;
	assert_int_equal(s->b->event_new(&s->fork, INDEX, &s->err), 0);
	assert_int_equal(s->b->event_new(&s->rest, INDEX, &s->err), 0);
	for (int i = 0; i < N; i++)
		s->host[i] = 1;
	assert_int_equal(gt_device_write(s->d, s->x, s->host, BYTES, &s->err), 0);
}

static void close_site(struct site *s)
{
	gt_device_sync(s->d, &s->err);
	s->b->capture_free(s->capture);
	s->b->event_free(s->fork);
	s->b->event_free(s->rest);
	s->b->host_free(INDEX, s->host, BYTES);
	gt_device_free(s->d, s->x, BYTES);
	gt_device_free(s->d, s->y, BYTES);
	gt_device_free(s->d, s->z, BYTES);
	gt_device_close(s->d);
	far_forget(INDEX);
}

static int begin(struct site *s)
{
	return s->b->capture_begin(s->d->compute, &s->err);
}

static int end(struct site *s)
{
	return s->b->capture_end(&s->capture, s->d->compute, &s->err);
}

static int replay(struct site *s)
{
	return s->b->replay(s->d->compute, s->capture, &s->err);
}

static int add(struct site *s, struct gt_stream *stream, float *to, const float *from)
{
	return s->b->ranges()->add(stream, to, from, N, &s->err);
}

static int hold_back(
    struct site *s, struct gt_event *event, struct gt_stream *first, struct gt_stream *then)
{
	int rc = s->b->event_record(event, first, &s->err);

	return rc ? rc : s->b->event_wait(then, event, &s->err);
}

/* ---- the faults ---- */

static void plant_pinned_memory(struct site *s)
{
	begin(s);
	s->b->copy_in(s->d->compute, s->x, s->host, BYTES, &s->err);
	end(s);
}

static void plant_pageable_memory(struct site *s)
{
	const float own[N] = { 0 };

	begin(s);
	s->b->copy_in(s->d->compute, s->x, own, BYTES, &s->err);
	end(s);
}

/* As a kernel would that lets the host decide. */
static void plant_read(struct site *s)
{
	begin(s);
	add(s, s->d->compute, s->y, s->x);
	gt_device_sync(s->d, &s->err);
	end(s);
}

static void plant_wait_of_host(struct site *s)
{
	begin(s);
	s->b->event_record(s->fork, s->d->compute, &s->err);
	s->b->event_sync(s->fork, &s->err);
	end(s);
}

static void plant_event_from_outside(struct site *s)
{
	s->b->event_record(s->fork, s->d->copies, &s->err);
	begin(s);
	s->b->event_wait(s->d->compute, s->fork, &s->err);
	end(s);
}

static void plant_loose_end(struct site *s)
{
	begin(s);
	hold_back(s, s->fork, s->d->compute, s->d->copies);
	add(s, s->d->copies, s->y, s->x);
	end(s);
	replay(s);
}

static void plant_missing_wait(struct site *s)
{
	begin(s);
	hold_back(s, s->fork, s->d->compute, s->d->copies);
	add(s, s->d->copies, s->y, s->x);
	add(s, s->d->compute, s->z, s->y);
	hold_back(s, s->rest, s->d->copies, s->d->compute);
	end(s);
	replay(s);
}

/* The order to work outside is seen in each replay, not in the first alone. */
static void plant_late_missing_wait(struct site *s)
{
	begin(s);
	add(s, s->d->compute, s->y, s->x);
	end(s);
	assert_int_equal(replay(s), 0);
	assert_int_equal(hold_back(s, s->rest, s->d->compute, s->d->copies), 0);
	s->b->copy_in(s->d->copies, s->x, s->host, BYTES, &s->err);
	replay(s);
}

static void plant_twice(struct site *s)
{
	begin(s);
	begin(s);
	end(s);
}

static void plant_other_stream(struct site *s)
{
	begin(s);
	end(s);
	s->b->replay(s->d->copies, s->capture, &s->err);
}

static void plant_early_free(struct site *s)
{
	begin(s);
	add(s, s->d->compute, s->y, s->x);
	end(s);
	assert_int_equal(replay(s), 0);
	gt_device_free(s->d, s->x, BYTES);
	s->x = NULL;
}

static void test_faults(void **state)
{
	static const struct {
		void (*plant)(struct site *s);
		const char *fault;
	} cases[] = {
		{ plant_pinned_memory, "captured work names host memory" },
		{ plant_pageable_memory, "captured work names host memory" },
		{ plant_read, "the host waits for a stream whose work is captured" },
		{ plant_wait_of_host, "the host waits for an event whose work is captured" },
		{ plant_event_from_outside, "captured work waits for work outside of its capture" },
		{ plant_loose_end, "a capture ends before a stream that joined it" },
		{ plant_missing_wait, "'add range' on stream 0 reads memory that 'add range' on "
		                      "stream 1 writes, and does not wait for it" },
		{ plant_late_missing_wait, "'add range' on stream 0 reads memory that 'copy_in' on "
		                           "stream 1 writes, and does not wait for it" },
		{ plant_twice, "a stream is captured twice" },
		{ plant_other_stream,
		    "work is replayed on another stream than it was captured on" },
		{ plant_early_free, "device memory is freed while 'add range' on it is queued" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct site s;

		open_site(&s);
		assert_null(far_fault(INDEX));
		cases[i].plant(&s);
		if (!far_fault(INDEX) || strcmp(far_fault(INDEX), cases[i].fault))
			fail_msg("case %zu: '%s', not '%s'", i,
			    far_fault(INDEX) ? far_fault(INDEX) : "no fault", cases[i].fault);
		close_site(&s);
	}
}

/* Nothing is done in a capture; then all of it, on two streams, as often as it is replayed. */
static void test_right_order(void **state)
{
	enum { TIMES = 20 };
	struct far_counts before, after;
	struct site s;

	(void)state;
	open_site(&s);
	before = far_counts(INDEX);
	assert_int_equal(begin(&s), 0);
	assert_int_equal(hold_back(&s, s.fork, s.d->compute, s.d->copies), 0);
	assert_int_equal(add(&s, s.d->copies, s.y, s.x), 0);
	assert_int_equal(hold_back(&s, s.rest, s.d->copies, s.d->compute), 0);
	assert_int_equal(add(&s, s.d->compute, s.z, s.y), 0);
	assert_int_equal(end(&s), 0);
	after = far_counts(INDEX);
	assert_true(after.kernels == before.kernels && after.blocking == before.blocking);
	for (int i = 0; i < TIMES; i++)
		assert_int_equal(replay(&s), 0);
	after = far_counts(INDEX);
	assert_true(after.kernels == before.kernels && after.blocking == before.blocking);
	assert_int_equal(after.replays, before.replays + TIMES);
	assert_int_equal(after.replayed, before.replayed + 2 * TIMES);
	assert_int_equal(s.b->event_record(s.fork, s.d->copies, &s.err), 0); /* it is free again */
	assert_int_equal(s.b->event_sync(s.fork, &s.err), 0);
	assert_int_equal(gt_device_read(s.d, s.host, s.z, BYTES, &s.err), 0);
	for (int i = 0; i < N; i++)
		assert_true(s.host[i] == TIMES * (TIMES + 1) / 2);
	assert_null(far_fault(INDEX));
	close_site(&s);
}

/* ---- plans ---- */

enum { STEPS = 6 };

struct course {
	double loss[STEPS];
	struct far_counts counts[STEPS + 1]; /* before each step */
	float *weights;
};

static int train(struct model_rank *r)
{
	struct course *c = r->user;
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		c->counts[i] = far_counts(0);
		rc = model_rank_step(r, 1);
		c->loss[i] = r->loss;
		if (!rc)
			rc = model_rank_update(r, 0.01);
	}
	c->counts[STEPS] = far_counts(0);
	c->weights = calloc(1, gt_store_flat_bytes(r->store));
	return rc ? rc
	          : gt_device_read(r->store->device, c->weights, r->store->parameters->memory,
	                gt_store_flat_bytes(r->store), &r->err);
}

/* Returns the steps of the plan. */
static size_t run_course(
    struct course *c, const struct model_rank *like, const char *backend, size_t *bytes)
{
	struct model_rank rank, mine = *like;
	size_t steps;

	*c = (struct course){ 0 };
	mine.user = c;
	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	model_ranks_run(&rank, 0, &mine, train);
	model_ranks_expect_well(&rank, 0);
	*bytes = gt_store_flat_bytes(rank.store);
	gt_plan_steps(rank.program.plan, &steps);
	model_ranks_close(&rank, 0);
	return steps;
}

/* The host queues the plan's kernels once, in its first run, and the other work of a step. */
static void check_counts(const struct course *c, int micro_batches, size_t steps)
{
	long first = c->counts[1].kernels - c->counts[0].kernels;

	for (int i = 2; i < STEPS; i++) {
		const struct far_counts *before = &c->counts[i], *after = &c->counts[i + 1];

		assert_int_equal(after->kernels - before->kernels, first - (long)steps);
		assert_int_equal(after->replays - before->replays, micro_batches);
		assert_int_equal(after->replayed - before->replayed, micro_batches * (long)steps);
	}
}

/* Dropout, the learning rate and the weight of a target change from step to step. */
static void test_training(void **state)
{
	static const struct gt_optim_options sgd = { .kind = GT_SGD, .momentum = 0.9, .clip = 1 };
	static const struct gt_optim_options adamw = {
		.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1
	};
	static const struct model_rank cases[] = {
		{ .spec = "lenet", .samples = 4, .micro_batches = 2, .optimizer = &sgd },
		{ .spec = "resnet20", .samples = 2, .optimizer = &sgd },
		{ .spec = "gpt:layers=2,heads=2,width=32,block=8,vocab=50,dropout=0.1",
		    .samples = 4,
		    .optimizer = &adamw },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct course near, far;
		size_t bytes, same_bytes, steps = run_course(&near, &cases[i], "cpu", &bytes);
		int runs = cases[i].micro_batches ? cases[i].micro_batches : 1;

		assert_int_equal(run_course(&far, &cases[i], "far", &same_bytes), steps);
		assert_memory_equal(near.loss, far.loss, sizeof(near.loss));
		assert_memory_equal(near.weights, far.weights, bytes);
		check_counts(&far, runs, steps);
		free(near.weights);
		free(far.weights);
	}
}

/* A plan of one relu on the far device. */
struct one {
	struct gt_graph *g;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_value *x, *y;
	void *arena;
};

static void open_one(struct one *o, const struct gt_plan_extra *extra)
{
	const int64_t shape[] = { N };
	struct gt_err err = GT_ERR_INIT;

	setenv("GTRAIN_TEST_BACKEND", "far", 1);
	assert_int_equal(gt_graph_new(&o->g, &err), 0);
	o->x = gt_input(o->g, "x", GT_F32, 1, shape);
	o->y = gt_output(o->g, gt_relu(o->g, o->x), "y");
	assert_int_equal(gt_store_new(&o->store, o->g, test_device(0), false, &err), 0);
	assert_int_equal(gt_plan_new(&o->plan, o->g, o->store, extra, &err), 0);
	assert_int_equal(gt_store_alloc(o->store, &err), 0);
	assert_int_equal(
	    gt_device_alloc(test_device(0), gt_plan_arena_bytes(o->plan), &o->arena, &err), 0);
	assert_int_equal(gt_plan_bind(o->plan, o->arena, &err), 0);
}

static void close_one(struct one *o)
{
	size_t bytes = gt_plan_arena_bytes(o->plan);

	gt_device_sync(test_device(0), GT_ERR_IGNORED);
	gt_plan_free(o->plan);
	gt_device_free(test_device(0), o->arena, bytes);
	gt_store_free(o->store);
	gt_graph_free(o->g);
}

/* Feed it x; returns its output, or -1 after an error. */
static float run_one(struct one *o, float x)
{
	struct gt_err err = GT_ERR_INIT;
	float host[N];

	for (int i = 0; i < N; i++)
		host[i] = x;
	assert_int_equal(gt_plan_write(o->plan, o->x, host, BYTES, &err), 0);
	if (gt_plan_run(o->plan, &err))
		return -1;
	assert_int_equal(gt_plan_read(o->plan, o->y, host, BYTES, &err), 0);
	for (int i = 1; i < N; i++)
		assert_true(host[i] == host[0]);
	return host[0];
}

/* y = the number of the host that the context is, times x. */
static int run_times(struct gt_call *call, struct gt_err *err)
{
	const struct gt_backend *b = test_device(0)->backend;
	const int *times = call->context;
	int rc = b->zero(call->stream, call->out[0].data, BYTES, err);

	for (int i = 0; !rc && i < *times; i++)
		rc = b->ranges()->add(call->stream, call->out[0].data, call->in[0].data, N, err);
	return rc;
}

/* A kernel that looks at the host's state when it is queued is queued anew each time. */
static void test_state_of_the_host(void **state)
{
	static const struct gt_kernel rows[] = {
		{ .op = "relu", .dtype = GT_F32, .run = run_times }, { .op = NULL }
	};
	static const struct gt_kernel *const tables[] = { rows, NULL };
	int times;
	const struct gt_plan_extra extra = { .kernels = tables, .context = &times };
	struct one o;

	(void)state;
	open_one(&o, &extra);
	for (times = 0; times < 5; times++)
		assert_true(run_one(&o, 2) == 2 * (float)times);
	close_one(&o);
	assert_null(far_fault(0));
}

/*
 * Replays read the present content of device memory, follow the plan to other memory, and are not
 * used while an observer watches the nodes.
 */
static void test_replays(void **state)
{
	struct gt_span span = { 0 };
	struct gt_marks *marks;
	struct far_counts before;
	size_t bytes;
	void *other;
	struct one o;

	(void)state;
	open_one(&o, NULL);
	before = far_counts(0);
	for (int i = 1; i < 5; i++)
		assert_true(run_one(&o, (float)i) == (float)i);
	assert_int_equal(far_counts(0).replays - before.replays, 3);
	assert_int_equal(gt_marks_new(&marks, test_device(0), 4, GT_ERR_IGNORED), 0);
	gt_plan_watch(o.plan, marks, &span);
	assert_true(run_one(&o, 7) == 7);
	assert_true(span.ended > 0);
	gt_plan_watch(o.plan, NULL, NULL);
	gt_marks_free(marks);
	bytes = gt_plan_arena_bytes(o.plan);
	assert_int_equal(gt_device_alloc(test_device(0), bytes, &other, GT_ERR_IGNORED), 0);
	gt_device_free(test_device(0), o.arena, bytes);
	o.arena = other;
	assert_int_equal(gt_plan_bind(o.plan, o.arena, GT_ERR_IGNORED), 0);
	for (int i = 1; i < 5; i++)
		assert_true(run_one(&o, (float)i) == (float)i);
	assert_int_equal(far_counts(0).replays - before.replays, 6);
	close_one(&o);
	assert_null(far_fault(0));
}

/* An attribute set between steps comes too late for a replay. */
static void test_changed_call(void **state)
{
	const char *const fault = "a kernel's call has changed since its capture";
	struct gt_step *steps;
	size_t count;
	struct one o;

	(void)state;
	open_one(&o, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(run_one(&o, 3) == 3);
	steps = (struct gt_step *)gt_plan_steps(o.plan, &count);
	steps[0].call.attrs.matmul.trans_a ^= 1;
	assert_true(run_one(&o, 3) == -1);
	assert_string_equal(far_fault(0), fault);
	far_forget(0);
	close_one(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_right_order),
		cmocka_unit_test(test_training),
		cmocka_unit_test(test_state_of_the_host),
		cmocka_unit_test(test_replays),
		cmocka_unit_test(test_changed_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
