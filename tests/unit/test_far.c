/* test_far.c - the far backend: faults that it has to find, planted one by one; and a training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/train/state.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/fake/far/far.h"

enum { INDEX = 7, N = 4096, BYTES = N * sizeof(float) };

/* A device with two buffers, two events, and pinned memory. */
struct site {
	struct gt_device *d;
	const struct gt_backend *b;
	float *x, *y; /* device: [N] */
	float *host;  /* pinned: [N] */
	struct gt_event *event;
	struct gt_err err;
};

static void open_site(struct site *s)
{
	void *p;

	*s = (struct site){ .b = &far_backend };
	assert_int_equal(gt_device_open(&s->d, s->b, INDEX, &s->err), 0);
	assert_int_equal(gt_device_alloc(s->d, BYTES, &p, &s->err), 0);
	s->x = p;
	assert_int_equal(gt_device_alloc(s->d, BYTES, &p, &s->err), 0);
	s->y = p;
	assert_int_equal(s->b->host_alloc(INDEX, BYTES, &p, &s->err), 0);
	s->host = p;
	assert_int_equal(s->b->event_new(&s->event, INDEX, &s->err), 0);
	for (int i = 0; i < N; i++)
		s->host[i] = (float)i;
}

static void close_site(struct site *s)
{
	s->b->stream_sync(s->d->compute, &s->err);
	s->b->stream_sync(s->d->copies, &s->err);
	s->b->event_free(s->event);
	if (s->host)
		s->b->host_free(INDEX, s->host, BYTES);
	gt_device_free(s->d, s->x, BYTES);
	gt_device_free(s->d, s->y, BYTES);
	gt_device_close(s->d);
	far_forget(INDEX);
}

static int upload(struct site *s)
{
	return s->b->copy_in(s->d->copies, s->x, s->host, BYTES, &s->err);
}

/* y += x */
static int add(struct site *s)
{
	return s->b->ranges()->add(s->d->compute, s->y, s->x, N, &s->err);
}

static int download(struct site *s)
{
	return s->b->copy_out(s->d->compute, s->host, s->y, BYTES, &s->err);
}

static int hold_back(struct site *s, struct gt_stream *first, struct gt_stream *then)
{
	return s->b->event_record(s->event, first, &s->err) ||
	       s->b->event_wait(then, s->event, &s->err);
}

/* ---- the faults ---- */

static void plant_missing_wait(struct site *s)
{
	assert_int_equal(upload(s), 0);
	add(s);
}

static void plant_early_event(struct site *s)
{
	assert_int_equal(hold_back(s, s->d->copies, s->d->compute), 0);
	assert_int_equal(upload(s), 0);
	add(s);
}

static void plant_wrong_stream(struct site *s)
{
	assert_int_equal(add(s), 0);
	s->b->copy_out(s->d->copies, s->host, s->y, BYTES, &s->err);
}

static void plant_early_reuse(struct site *s)
{
	assert_int_equal(upload(s), 0);
	assert_int_equal(hold_back(s, s->d->copies, s->d->compute), 0);
	assert_int_equal(add(s), 0);
	upload(s); /* the next batch, while add() may still read this one */
}

static void plant_early_free(struct site *s)
{
	assert_int_equal(add(s), 0);
	gt_device_free(s->d, s->x, BYTES);
	s->x = NULL;
}

static void plant_early_host_free(struct site *s)
{
	assert_int_equal(upload(s), 0);
	s->b->host_free(INDEX, s->host, BYTES);
	s->b->stream_sync(s->d->copies, &s->err);
	free(s->host); /* the fault has left it to us */
	s->host = NULL;
}

static void plant_early_host_write(struct site *s)
{
	assert_int_equal(upload(s), 0);
	s->host[N / 2] = -1;
	s->b->stream_sync(s->d->copies, &s->err);
}

static void plant_use_after_free(struct site *s)
{
	float *gone = s->x;

	gt_device_free(s->d, s->x, BYTES);
	s->x = gone;
	add(s);
	s->x = NULL;
}

static void plant_host_pointer(struct site *s)
{
	float own[N] = { 0 };

	s->b->ranges()->add(s->d->compute, s->y, own, N, &s->err);
}

static void plant_beyond_the_end(struct site *s)
{
	s->b->ranges()->add(s->d->compute, s->y, s->x, N + 1, &s->err);
}

static void *add_elsewhere(void *arg)
{
	add(arg);
	return NULL;
}

static void plant_strange_thread(struct site *s)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add_elsewhere, s), 0);
	pthread_join(thread, NULL);
}

static void test_faults(void **state)
{
	static const struct {
		void (*plant)(struct site *s);
		const char *fault;
	} cases[] = {
		{ plant_missing_wait, "'add range' on stream 0 reads memory that 'copy_in' on "
		                      "stream 1 writes, and does not wait for it" },
		{ plant_early_event, "'add range' on stream 0 reads memory that 'copy_in' on "
		                     "stream 1 writes, and does not wait for it" },
		{ plant_wrong_stream, "'copy_out' on stream 1 reads memory that 'add range' on "
		                      "stream 0 writes, and does not wait for it" },
		{ plant_early_reuse, "'copy_in' on stream 1 writes memory that 'add range' on "
		                     "stream 0 reads, and does not wait for it" },
		{ plant_early_free, "device memory is freed while 'add range' on it is queued" },
		{ plant_early_host_free, "host memory is freed while 'copy_in' on it is queued" },
		{ plant_early_host_write,
		    "host memory is changed while 'copy_in' from it is queued" },
		{ plant_use_after_free,
		    "'add range' reads 16384 bytes that are not memory of device 7" },
		{ plant_host_pointer,
		    "'add range' reads 16384 bytes that are not memory of device 7" },
		{ plant_beyond_the_end,
		    "'add range' writes 16388 bytes that are not memory of device 7" },
		{ plant_strange_thread,
		    "work is queued by a thread that did not enter the device" },
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
		assert_int_equal(add(&s), GT_EDEVICE); /* and nothing goes on */
		close_site(&s);
	}
}

/* The same work with all waits is right, and blocks where it says so. */
static void test_right_order(void **state)
{
	struct far_counts before, after;
	struct site s;

	(void)state;
	open_site(&s);
	before = far_counts(INDEX);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(hold_back(&s, s.d->compute, s.d->copies), 0);
		assert_int_equal(upload(&s), 0);
		assert_int_equal(hold_back(&s, s.d->copies, s.d->compute), 0);
		assert_int_equal(add(&s), 0);
	}
	after = far_counts(INDEX);
	assert_int_equal(after.blocking, before.blocking);
	assert_int_equal(s.b->stream_sync(s.d->copies, &s.err), 0);
	assert_int_equal(download(&s), 0);
	for (int i = 0; i < N; i++)
		assert_true(s.host[i] != s.host[i]); /* NaN until the host waits */
	assert_int_equal(s.b->stream_sync(s.d->compute, &s.err), 0);
	for (int i = 0; i < N; i++)
		assert_true(s.host[i] == 20 * (float)i);
	assert_int_equal(far_counts(INDEX).blocking, before.blocking + 2);
	assert_null(far_fault(INDEX));
	close_site(&s);
}

/* How a child ends that does this: its signal, or its exit status plus 1000. */
static int end_of(void (*act)(struct site *s))
{
	const struct rlimit none = { 0, 0 };
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		struct site s;

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		open_site(&s);
		act(&s);
		exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 1000 + WEXITSTATUS(status);
}

static void read_device(struct site *s)
{
	printf("%g\n", (double)*(volatile float *)s->x);
}

static void write_device(struct site *s)
{
	*(volatile float *)s->x = 1;
}

static void test_host_access(void **state)
{
	(void)state;
	assert_int_equal(end_of(read_device), SIGSEGV);
	assert_int_equal(end_of(write_device), SIGSEGV);
	assert_int_equal(end_of(plant_missing_wait), 1099);
}

/* ---- training ---- */

enum { STEPS = 4 };

struct course {
	double loss[STEPS];
	float norm[STEPS];
	float *weights;
};

static int train(struct model_rank *r)
{
	struct course *c = r->user;
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		rc = model_rank_step(r, 1);
		c->loss[i] = r->loss;
		if (!rc)
			rc = model_rank_update(r, 0.01);
		c->norm[i] = r->norm;
	}
	if (rc)
		return rc;
	c->weights = malloc(gt_store_flat_bytes(r->store));
	assert_non_null(c->weights);
	return gt_device_read(r->store->device, c->weights, r->store->parameters->memory,
	    gt_store_flat_bytes(r->store), &r->err);
}

static size_t run_course(struct course *c, const struct model_rank *like, const char *backend)
{
	struct model_rank rank, mine = *like;
	size_t bytes;

	*c = (struct course){ 0 };
	mine.user = c;
	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	assert_string_equal(test_device(0)->backend->name, backend);
	model_ranks_run(&rank, 0, &mine, train);
	model_ranks_expect_well(&rank, 0);
	bytes = gt_store_flat_bytes(rank.store);
	model_ranks_close(&rank, 0);
	return bytes;
}

/* The far device has the CPU's bits: losses, norms, weights. */
static void test_training(void **state)
{
	static const struct gt_optim_options sgd = { .kind = GT_SGD, .momentum = 0.9, .clip = 1 };
	static const struct gt_optim_options adamw = {
		.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1
	};
	static const struct model_rank cases[] = {
		{ .spec = "mlp:20,30,10", .samples = 8, .optimizer = &sgd },
		{ .spec = "lenet", .samples = 4, .micro_batches = 2, .optimizer = &sgd },
		{ .spec = "resnet20", .samples = 2, .optimizer = &sgd },
		{ .spec = "gpt:layers=2,heads=2,width=32,block=8,vocab=50,dropout=0.1",
		    .samples = 4,
		    .micro_batches = 2,
		    .optimizer = &adamw },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct course near, far;
		size_t bytes = run_course(&near, &cases[i], "cpu");

		assert_int_equal(run_course(&far, &cases[i], "far"), bytes);
		assert_memory_equal(near.loss, far.loss, sizeof(near.loss));
		assert_memory_equal(near.norm, far.norm, sizeof(near.norm));
		assert_memory_equal(near.weights, far.weights, bytes);
		assert_true(near.loss[STEPS - 1] != near.loss[0]);
		free(near.weights);
		free(far.weights);
	}
}

/* ---- a step without the host ---- */

/* Gradients that are not finite update nothing, then nor do others; steps are not counted. */
static int train_until_nan(struct model_rank *r)
{
	const struct gt_device *d = r->store->device;
	size_t bytes = gt_store_flat_bytes(r->store);
	struct gt_step_result result[3];
	const float nan = NAN;
	void *before = malloc(bytes), *after = malloc(bytes);
	int rc = before && after ? model_rank_step(r, 1) : GT_ENOMEM;

	for (int i = 0; !rc && i < 3; i++) {
		rc = gt_optim_begin(r->optim, 0.1, i == 1, &r->err);
		if (!rc && i == 1)
			rc = gt_device_write(
			    d, r->store->gradients->memory, &nan, sizeof(nan), &r->err);
		if (!rc && i == 1)
			rc =
			    gt_device_read(d, before, r->store->parameters->memory, bytes, &r->err);
		if (!rc)
			rc = gt_optim_update(r->optim, NULL, &r->err);
		if (!rc)
			rc = gt_optim_end(r->optim, &r->err);
	}
	for (int i = 0; !rc && i < 3; i++)
		rc = gt_optim_result(r->optim, &result[i], &r->err);
	if (!rc)
		rc = gt_device_read(d, after, r->store->parameters->memory, bytes, &r->err);
	if (!rc) {
		assert_memory_equal(before, after, bytes);
		assert_true(!result[0].skip && result[1].skip && result[2].skip);
		assert_true(isfinite(result[0].grad_norm) && isnan(result[1].grad_norm));
		assert_true(result[0].stop == 0 && result[1].stop == 1 && result[2].stop == 0);
		assert_true(result[0].steps == 1 && result[2].steps == 1);
		assert_int_equal(gt_optim_steps(r->optim), 1);
	}
	free(before);
	free(after);
	return rc;
}

static void test_skip(void **state)
{
	static const char *const backends[] = { "cpu", "far" };
	static const enum gt_optim_kind kinds[] = { GT_SGD, GT_ADAM, GT_ADAMW, GT_ADAN };

	(void)state;
	for (int i = 0; i < 8; i++) {
		const struct gt_optim_options o = { .kind = kinds[i / 2],
			.momentum = 0.9,
			.beta1 = 0.9,
			.beta2 = 0.99,
			.eps = 1e-8 };
		const struct model_rank like = {
			.spec = "mlp:20,30,10", .samples = 4, .optimizer = &o
		};
		struct model_rank rank;

		setenv("GTRAIN_TEST_BACKEND", backends[i % 2], 1);
		model_ranks_run(&rank, 0, &like, train_until_nan);
		model_ranks_expect_well(&rank, 0);
		model_ranks_close(&rank, 0);
	}
}

/* The host may go so far ahead of the results, and no further. */
static int run_ahead(struct model_rank *r)
{
	struct gt_step_result result;
	int rc = 0;

	for (int i = 0; !rc && i < GT_OPTIM_AHEAD; i++) {
		rc = gt_optim_begin(r->optim, 0.1, false, &r->err);
		if (!rc)
			rc = gt_optim_end(r->optim, &r->err);
	}
	if (rc)
		return rc;
	assert_int_equal(gt_optim_begin(r->optim, 0.1, false, GT_ERR_IGNORED), GT_EINVAL);
	rc = gt_optim_result(r->optim, &result, &r->err);
	return rc ? rc : gt_optim_begin(r->optim, 0.1, false, &r->err);
}

static void test_ahead(void **state)
{
	const struct model_rank like = { .spec = "mlp:20,30,10", .samples = 4 };
	struct model_rank rank;

	(void)state;
	setenv("GTRAIN_TEST_BACKEND", "far", 1);
	model_ranks_run(&rank, 0, &like, run_ahead);
	model_ranks_expect_well(&rank, 0);
	model_ranks_close(&rank, 0);
}

/* ---- the training loop ---- */

enum { LOOP_STEPS = 12, WARM = 3 };

struct meter {
	struct far_counts counts[LOOP_STEPS + 1];
	int64_t known[LOOP_STEPS + 1]; /* steps that had begun when this one's report came */
	struct gt_train *t;
};

static int note_counts(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct meter *m = self;

	(void)err;
	m->counts[r->step] = far_counts(0);
	m->known[r->step] = m->t->step;
	return 0;
}

static int train_loop(struct meter *m, struct gt_train_options *options, struct gt_err *err)
{
	static const atomic_bool never;
	struct gt_observer observer = { .self = m, .step = note_counts };
	struct gt_train_result result;
	struct gt_log silent = { .stream = stderr, .level = GT_LOG_QUIET };
	int rc = gt_train_open(&m->t, options, false, &silent, err);

	if (rc)
		return rc;
	rc = gt_train_run(m->t, NULL, &observer, 1, &never, &result, err);
	gt_train_close(m->t);
	return rc;
}

static struct gt_train_options loop_options(const char *model, int accumulate)
{
	return (struct gt_train_options){ .where.devices = "far",
		.model = model,
		.data = "random:,samples=96",
		.steps = LOOP_STEPS,
		.batch = 8 / accumulate,
		.accumulate = accumulate,
		.seed = 3,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1 };
}

/* At steady state nothing in a step blocks, and the host is a step ahead. */
static void test_nothing_blocks(void **state)
{
	static const char *const models[] = { "mlp:20,30,10", "lenet",
		"gpt:layers=2,heads=2,width=32,block=8,vocab=50,dropout=0.1" };

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct gt_train_options options = loop_options(models[i / 2], 1 + i % 2);
		struct gt_err err = GT_ERR_INIT;
		struct meter m = { 0 };

		if (train_loop(&m, &options, &err))
			fail_msg("%s: %s", models[i / 2], err.text);
		for (int step = WARM; step < LOOP_STEPS - 1; step++) {
			assert_int_equal(m.counts[step + 1].blocking, m.counts[step].blocking);
			assert_int_equal(m.known[step], step + 1);
		}
	}
}

/* Inputs and targets in pageable memory are copied while the host waits. */
static void test_pageable_batches(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct meter m = { 0 };

	(void)state;
	for (int accumulate = 1; accumulate <= 2; accumulate++) {
		struct gt_train_options options = loop_options("lenet", accumulate);

		options.pageable = true;
		if (train_loop(&m, &options, &err))
			fail_msg("%s", err.text);
		for (int step = WARM; step < LOOP_STEPS - 1; step++)
			assert_int_equal(
			    m.counts[step + 1].blocking, m.counts[step].blocking + 2 * accumulate);
	}
}

/* The step that diverged is named, and by then the next one may have begun. */
static void test_late_divergence(void **state)
{
	struct gt_train_options options = loop_options("mlp:20,30,10", 1);
	struct gt_err err = GT_ERR_INIT;
	struct meter m = { 0 };

	(void)state;
	options.optim = (struct gt_optim_options){ .kind = GT_SGD };
	options.lr_schedule.lr = 1e30;
	assert_int_equal(train_loop(&m, &options, &err), GT_EDIVERGED);
	if (!strstr(err.text, " at step 2"))
		fail_msg("%s", err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_right_order),
		cmocka_unit_test(test_host_access),
		cmocka_unit_test(test_training),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_nothing_blocks),
		cmocka_unit_test(test_pageable_batches),
		cmocka_unit_test(test_late_divergence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
