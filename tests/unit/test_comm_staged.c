/* test_comm_staged.c - collectives on device memory, by way of host memory. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/shm/shm.h"
#include "lib/comm/staged.h"
#include "tests/common/device.h"
#include "tests/fake/far/far.h"

enum { MOST = 4, CHUNK = 256, LONG = 1000, SLOTS = 4 };

/* The far backend, or that of GTRAIN_TEST_BACKEND. */
static const struct gt_backend *b;

/* ---- ranks with a device each, as far as there are so many ---- */

struct rank {
	struct gt_group *group; /* for the device's memory */
	struct gt_device *d;
	const struct gt_backend *backend;
	int index, ranks;
	int (*act)(struct rank *r);
	int rc;
	struct gt_err err;
};

static void *live(void *self)
{
	struct rank *r = self;

	r->rc = gt_device_open(&r->d, r->backend, r->index % r->backend->count(), &r->err);
	if (!r->rc)
		r->rc = gt_staged_new(&r->group, r->d, CHUNK, &r->err);
	if (!r->rc)
		r->rc = r->act(r);
	if (!r->rc)
		r->rc = gt_device_sync(r->d, &r->err);
	gt_group_free(r->group); /* a rank that failed keeps nobody waiting */
	if (r->rc && r->d)
		(void)gt_device_sync(r->d, GT_ERR_IGNORED);
	gt_device_close(r->d);
	return NULL;
}

static void run_ranks(
    struct rank *ranks, int count, int (*act)(struct rank *r), const struct gt_backend *of_rank_0)
{
	static const struct gt_shm_options patience = { .timeout_s = 60, .staging_bytes = 4096 };
	struct gt_group *groups[MOST];
	pthread_t threads[MOST];
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_shm_of_threads(groups, count, &patience, &err), 0);
	for (int i = 0; i < count; i++) {
		ranks[i] = (struct rank){ .group = groups[i],
			.backend = i ? b : of_rank_0,
			.index = i,
			.ranks = count,
			.act = act };
		assert_int_equal(pthread_create(&threads[i], NULL, live, &ranks[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static float *device_floats(struct rank *r, int64_t count)
{
	void *p;

	if (gt_group_alloc(r->group, (size_t)(count ? count : 1) * sizeof(float), &p, &r->err))
		fail_msg("%s", r->err.text);
	return p;
}

static int stop_with(struct rank *r, const char *what)
{
	return gt_err_set(&r->err, GT_EINVAL, "%s", what);
}

/* ---- every collective ---- */

/* Small whole numbers, whose sums are exact. */
static float number_of(int rank, int64_t i)
{
	return (float)((i * 7 + rank * 3) % 11);
}

static float sum_of(int ranks, int64_t i)
{
	float sum = 0;

	for (int rank = 0; rank < ranks; rank++)
		sum += number_of(rank, i);
	return sum;
}

struct form {
	enum gt_collective_kind kind;
	bool in_place;
	int64_t count;
};

/* The value of a rank's element i of `out`; the old value where nothing is written. */
static float wanted_of(const struct rank *r, const struct form *f, int peer, int64_t i, float was)
{
	int64_t count = f->count;

	switch (f->kind) {
	case GT_ALL_REDUCE:
		return sum_of(r->ranks, i);
	case GT_REDUCE:
		return r->index == peer ? sum_of(r->ranks, i) : was;
	case GT_REDUCE_SCATTER:
		return sum_of(r->ranks, r->index * count + i);
	case GT_ALL_GATHER:
		return number_of((int)(i / count), i % count);
	case GT_BROADCAST:
		return number_of(peer, i);
	default:
		return r->index == peer ? number_of(1 - peer, i) : was;
	}
}

/* `in` has parts of all ranks, or `out`. */
static int check_form(struct rank *r, const struct form *f)
{
	int64_t ins = f->kind == GT_REDUCE_SCATTER ? r->ranks * f->count : f->count;
	int64_t outs = f->kind == GT_ALL_GATHER ? r->ranks * f->count : f->count;
	int64_t max = ins > outs ? ins : outs;
	float host[MOST * LONG], got[MOST * LONG], *in = device_floats(r, max), *out = in;
	int peer = r->ranks > 1 ? 1 : 0;
	struct gt_collective c = {
		.kind = f->kind, .count = f->count, .peer = peer, .stream = r->d->compute
	};
	struct far_counts before;
	int rc;

	if (!f->in_place)
		out = device_floats(r, max);
	c.in = f->in_place && f->kind == GT_ALL_GATHER ? in + r->index * f->count : in;
	c.out = f->in_place && f->kind == GT_REDUCE_SCATTER ? out + r->index * f->count : out;
	for (int64_t i = 0; i < ins; i++)
		host[i] = number_of(r->index, i);
	if (f->kind == GT_SEND && r->index == peer)
		c.kind = GT_RECV;
	c.peer = f->kind == GT_SEND ? 1 - r->index : peer;
	rc = gt_device_write(r->d, (float *)c.in, host, (size_t)ins * sizeof(float), &r->err);
	before = far_counts(r->index);
	if (!rc && !(f->kind == GT_SEND && r->index > 1))
		rc = gt_group_run(r->group, &c, &r->err);
	if (!rc && far_counts(r->index).blocking != before.blocking)
		rc = stop_with(r, "the host has waited");
	if (!rc)
		rc = gt_device_read(r->d, got, c.out, (size_t)outs * sizeof(float), &r->err);
	for (int64_t i = 0; !rc && i < outs; i++)
		if (got[i] != wanted_of(r, f, peer, i, f->in_place ? host[i] : 0))
			rc = gt_err_set(&r->err, GT_EINVAL,
			    "collective %d of %d, rank %d of %d: element %d is %g", (int)f->kind,
			    (int)f->count, r->index, r->ranks, (int)i, (double)got[i]);
	if (out != in)
		gt_group_release(r->group, out);
	gt_group_release(r->group, in);
	return rc;
}

static int check_all(struct rank *r)
{
	static const enum gt_collective_kind kinds[] = { GT_ALL_REDUCE, GT_REDUCE,
		GT_REDUCE_SCATTER, GT_ALL_GATHER, GT_BROADCAST, GT_SEND };
	static const int64_t counts[] = { 0, 1, 17, LONG };
	int rc = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(*counts); i++) {
			struct form f = { kinds[k], i % 2, counts[i / 2] };

			if (!rc && !(f.kind == GT_SEND && r->ranks < 2))
				rc = check_form(r, &f);
		}
	return rc ? rc
	          : gt_group_run(r->group,
	                &(struct gt_collective){ .kind = GT_BARRIER, .stream = r->d->compute },
	                &r->err);
}

static void every_collective_gives_its_result(void **state)
{
	struct rank ranks[MOST];

	(void)state;
	for (int count = 1; count <= MOST; count++) {
		run_ranks(ranks, count, check_all, b);
		for (int i = 0; i < count; i++)
			if (ranks[i].rc)
				fail_msg("%s", ranks[i].err.text);
	}
}

/* ---- in the background ---- */

enum { ELEMENTS = 300, TWO_CHUNKS = 100, ROUNDS = 2 };

static int add(struct rank *r, float *x, const float *y)
{
	return r->d->backend->ranges()->add(r->d->compute, x, y, ELEMENTS, &r->err);
}

static int start_sum(struct rank *r, float *x, int64_t count, uint64_t *ticket)
{
	const struct gt_collective c = {
		.kind = GT_ALL_REDUCE, .in = x, .out = x, .count = count, .stream = r->d->compute
	};

	return gt_group_start(r->group, &c, ticket, &r->err);
}

/* Of two buffers, each is summed over the ranks while the other is added to: x = ranks (x + 1), and
 * so with y. */
static int train_two(struct rank *r)
{
	float ones[ELEMENTS], got[ELEMENTS], *x = device_floats(r, ELEMENTS),
	                                     *y = device_floats(r, ELEMENTS),
	                                     *one = device_floats(r, ELEMENTS);
	uint64_t of_x = 0, of_y = 0;
	float wanted = 0;
	int rc;

	for (int i = 0; i < ELEMENTS; i++)
		ones[i] = 1;
	rc = gt_device_write(r->d, one, ones, sizeof(ones), &r->err);
	for (int i = 0; !rc && i < ROUNDS; i++) {
		rc = gt_group_await(r->group, of_x, r->d->compute, &r->err) || add(r, x, one) ||
		     start_sum(r, x, ELEMENTS, &of_x) ||
		     gt_group_await(r->group, of_y, r->d->compute, &r->err) || add(r, y, one) ||
		     start_sum(r, y, ELEMENTS, &of_y);
		wanted = (wanted + 1) * (float)r->ranks;
	}
	if (!rc)
		rc = gt_group_wait(r->group, of_y, &r->err);
	for (int which = 0; !rc && which < 2; which++) {
		rc = gt_device_read(r->d, got, which ? y : x, sizeof(got), &r->err);
		for (int i = 0; !rc && i < ELEMENTS; i++)
			if (got[i] != wanted)
				rc = stop_with(r, "a wrong sum");
	}
	return rc ? r->err.code : 0;
}

/* More of them than there are events and places in queues. */
static int start_many(struct rank *r)
{
	float got[ELEMENTS], *x = device_floats(r, ELEMENTS);
	uint64_t ticket = 0;
	int rc = 0;

	for (int i = 0; !rc && i < 3 * GT_GROUP_STARTED; i++)
		rc = gt_group_await(r->group, ticket, r->d->compute, &r->err) ||
		     start_sum(r, x, TWO_CHUNKS, &ticket);
	for (uint64_t t = 1; !rc && t <= ticket; t += 50)
		rc = gt_group_await(r->group, t, r->d->compute, &r->err);
	if (!rc)
		rc = gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	if (!rc && ticket != 3 * GT_GROUP_STARTED)
		rc = stop_with(r, "a wrong ticket");
	return rc ? rc : gt_device_read(r->d, got, x, sizeof(got), &r->err);
}

static void collectives_go_on_in_the_background(void **state)
{
	struct rank ranks[MOST];

	(void)state;
	for (int i = 0; i <= MOST; i++) {
		int count = i ? i : 2;

		run_ranks(ranks, count, i ? train_two : start_many, b);
		for (int k = 0; k < count; k++)
			if (ranks[k].rc)
				fail_msg("%s", ranks[k].err.text);
	}
}

/* ---- planted faults: rank 0's device forgets one wait ---- */

static int waits, forgotten; /* of rank 0; which one is left out, from 1 on */

static int forget_wait(struct gt_stream *stream, struct gt_event *event, struct gt_err *err)
{
	return ++waits == forgotten ? 0 : far_backend.event_wait(stream, event, err);
}

/* Every wait is needed: without it the device finds a fault. Only the first wait for each slot to
 * become empty is for nothing. */
static void a_missing_wait_is_found(void **state)
{
	struct gt_backend forgetful = far_backend;
	struct rank ranks[2];
	int all, found = 0;

	(void)state;
	forgetful.event_wait = forget_wait;
	for (forgotten = waits = 0, all = 1; forgotten <= all; forgotten++, waits = 0) {
		run_ranks(ranks, 2, train_two, &forgetful);
		if (!forgotten) {
			assert_int_equal(ranks[0].rc, 0);
			all = waits;
			continue;
		}
		if (far_fault(0)) {
			assert_int_equal(ranks[0].rc, GT_EDEVICE);
			found++;
		}
		far_forget(0);
		far_forget(1);
	}
	assert_int_equal(found, all - SLOTS);
}

static int sum_on_wrong_stream(struct rank *r)
{
	float *x = device_floats(r, ELEMENTS);
	const struct gt_collective c = {
		.kind = GT_ALL_REDUCE, .in = x, .out = x, .count = ELEMENTS, .stream = r->d->copies
	};
	int rc = add(r, x, x);

	return rc ? rc : gt_group_run(r->group, &c, &r->err);
}

static int update_without_wait(struct rank *r)
{
	float *x = device_floats(r, ELEMENTS);
	uint64_t ticket;
	int rc = start_sum(r, x, ELEMENTS, &ticket);

	return rc ? rc : add(r, x, x);
}

static int reuse_early(struct rank *r)
{
	float *x = device_floats(r, ELEMENTS);
	uint64_t ticket;
	int rc = start_sum(r, x, ELEMENTS, &ticket);

	gt_group_release(r->group, x);
	return rc ? rc : gt_group_wait(r->group, ticket, &r->err);
}

static void misuse_is_found(void **state)
{
	static const struct {
		int (*act)(struct rank *r);
		const char *fault;
	} cases[] = {
		{ sum_on_wrong_stream, "'copy_out' on stream 3 reads memory that 'add range' on "
		                       "stream 0 writes, and does not wait for it" },
		{ update_without_wait, "'add range' on stream 0 writes memory that 'copy_in' on "
		                       "stream 5 writes, and does not wait for it" },
		{ reuse_early, "device memory is freed while 'copy_in' on it is queued" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rank ranks[2];

		run_ranks(ranks, 2, cases[i].act, &far_backend);
		if (!far_fault(0) || strcmp(far_fault(0), cases[i].fault))
			fail_msg("case %zu: '%s', not '%s'", i,
			    far_fault(0) ? far_fault(0) : "no fault", cases[i].fault);
		assert_int_not_equal(ranks[0].rc, 0);
		far_forget(0);
		far_forget(1);
	}
}

/* ---- ranks that fail ---- */

static int leave_or_sum(struct rank *r)
{
	float *x = device_floats(r, ELEMENTS);
	uint64_t ticket;

	if (r->index)
		return stop_with(r, "left");
	return start_sum(r, x, ELEMENTS, &ticket) ? r->err.code
	                                          : gt_group_wait(r->group, ticket, &r->err);
}

static void a_rank_that_leaves_is_an_error(void **state)
{
	struct rank ranks[3];

	(void)state;
	run_ranks(ranks, 3, leave_or_sum, b);
	if (ranks[0].rc != GT_EIO || !strstr(ranks[0].err.text, "left the group"))
		fail_msg("%s", ranks[0].err.text);
	far_forget(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_gives_its_result),
		cmocka_unit_test(collectives_go_on_in_the_background),
		cmocka_unit_test(a_missing_wait_is_found),
		cmocka_unit_test(misuse_is_found),
		cmocka_unit_test(a_rank_that_leaves_is_an_error),
	};
	const struct CMUnitTest of_any[] = {
		cmocka_unit_test(every_collective_gives_its_result),
		cmocka_unit_test(collectives_go_on_in_the_background),
		cmocka_unit_test(a_rank_that_leaves_is_an_error),
	};

	setenv("GTRAIN_TEST_BACKEND", far_backend.name, 0);
	b = test_device_is_far() ? &far_backend : gt_backend_find(getenv("GTRAIN_TEST_BACKEND"));
	return test_device_is_far() ? cmocka_run_group_tests(tests, NULL, NULL)
	                            : cmocka_run_group_tests(of_any, NULL, NULL);
}
