/* test_far.c - the far backend: faults that it has to find, planted one by one; and a training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
	return gt_device_read(r->store->device, c->weights, r->store->parameters,
	    gt_store_flat_bytes(r->store), &r->err);
}

static size_t run_course(struct course *c, const struct model_rank *like, const char *backend)
{
	struct model_rank rank, mine = *like;
	size_t bytes;

	*c = (struct course){ 0 };
	mine.user = c;
	setenv("GTRAIN_TEST_BACKEND", backend, 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_right_order),
		cmocka_unit_test(test_host_access),
		cmocka_unit_test(test_training),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
