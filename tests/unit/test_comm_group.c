/* test_comm_group.c - groups: calls in the background, sub-groups, memory, errors. */
#include "tests/unit/comm_fixture.h"

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/comm/group_meet.h"

static const struct gt_shm_options options = { .timeout_s = 60, .staging_bytes = 3 * 4096 };

/* ---- in the background ---- */

enum { STARTED = GT_GROUP_STARTED + 50, EACH = 3000 };

static void background_body(struct seat_of *s)
{
	float *x = calloc(STARTED, EACH * sizeof(*x)), last = 1;
	struct gt_err err = GT_ERR_INIT;

	for (size_t i = 0; x && i < (size_t)STARTED * EACH; i++)
		x[i] = (float)(i / EACH) + (float)s->rank;
	for (int k = 0; x && k < STARTED; k++) {
		float *buffer = x + (size_t)k * EACH;
		struct gt_collective c = { GT_ALL_REDUCE, buffer, buffer, 1 + k % 2 * (EACH - 1),
			GT_F32, GT_SUM, .what = "a bucket" };

		expect_rank(s, !gt_group_start(s->g, &c, NULL, &err));
	}
	/* After those that were started, and without a wait. */
	expect_rank(
	    s, !gt_all_reduce(s->g, &last, 1, GT_F32, GT_SUM, &err) && last == (float)s->size);
	for (int i = 0; i < 2; i++)
		expect_rank(s, !gt_group_wait(s->g, GT_GROUP_ALL, &err));
	for (int k = 0; x && k < STARTED; k++) {
		float want = (float)(k * s->size + s->size * (s->size - 1) / 2);

		expect_rank(s, x[(size_t)k * EACH] == want);
		expect_rank(
		    s, x[(size_t)k * EACH + EACH - 1] == (k % 2 ? want : (float)(k + s->rank)));
	}
	free(x);
}

static void test_background(void **state)
{
	(void)state;
	for (int processes = 0; processes < 2; processes++)
		run_ranks(processes, 3, &options, background_body, NULL);
	run_ranks(false, 1, &options, background_body, NULL);
}

/* ---- tickets ---- */

enum { EACH_TICKET = 3000 };

struct ticketed {
	float buffer[EACH_TICKET];
	uint64_t ticket;
};

static void start_ticketed(struct seat_of *s, struct ticketed *t, float value)
{
	struct gt_collective c = { GT_ALL_REDUCE, t->buffer, t->buffer, EACH_TICKET, GT_F32, GT_SUM,
		.what = "a bucket" };
	struct gt_err err = GT_ERR_INIT;

	for (int i = 0; i < EACH_TICKET; i++)
		t->buffer[i] = value + (float)s->rank;
	expect_rank(s, !gt_group_start(s->g, &c, &t->ticket, &err));
}

static void expect_sum(struct seat_of *s, const struct ticketed *t, float value)
{
	float want = value * (float)s->size + (float)(s->size * (s->size - 1) / 2);

	for (int i = 0; i < EACH_TICKET; i++)
		if (t->buffer[i] != want)
			fail_rank(s, "ticket %d: %g, not %g", (int)t->ticket, t->buffer[i], want);
}

/* Rank 0 starts three. The others take part in the first alone until rank 0, which has waited for
 * it, comes to the barrier: a wait for the others would end in an error. */
static void ticket_body(struct seat_of *s)
{
	struct ticketed *t = calloc(3, sizeof(*t));
	struct gt_err err = GT_ERR_INIT;
	int at_once = s->rank ? 1 : 3;

	for (int k = 0; t && k < at_once; k++)
		start_ticketed(s, &t[k], (float)k);
	if (t && gt_group_wait(s->g, t[0].ticket, &err))
		fail_rank(s, "%s", err.text);
	expect_sum(s, &t[0], 0);
	expect_rank(s, !gt_group_wait(s->g, 0, &err) && !gt_group_wait(s->g, t[0].ticket, &err));
	rally(s);
	for (int k = at_once; t && k < 3; k++)
		start_ticketed(s, &t[k], (float)k);
	for (int k = 2; t && k > 0; k--) { /* the last one's end is that of the one before */
		expect_rank(s, t[k].ticket == t[k - 1].ticket + 1);
		expect_rank(s, !gt_group_wait(s->g, t[k].ticket, &err));
		expect_sum(s, &t[k], (float)k);
	}
	free(t);
}

static void test_a_wait_is_for_one(void **state)
{
	static const struct gt_shm_options soon = { .timeout_s = 10, .staging_bytes = 3 * 4096 };

	(void)state;
	for (int processes = 0; processes < 2; processes++)
		for (int size = 2; size <= 3; size++)
			run_ranks(processes, size, &soon, ticket_body, NULL);
}

/* As many as can be outstanding, and more: the start of one more waits for the first. */
static void many_tickets_body(struct seat_of *s)
{
	enum { MANY = GT_GROUP_STARTED + 3 };
	struct ticketed *t = calloc(MANY, sizeof(*t));
	struct gt_err err = GT_ERR_INIT;
	int held_back = GT_GROUP_STARTED; /* of rank 0's; the others begin when these are there */

	for (int k = 0; t && s->rank == 0 && k < held_back; k++)
		start_ticketed(s, &t[k], (float)k);
	rally(s);
	for (int k = s->rank ? 0 : held_back; t && k < MANY; k++)
		start_ticketed(s, &t[k], (float)k);
	for (int k = 0; t && k < MANY; k += 3) {
		expect_rank(s, t[k].ticket == t[0].ticket + (uint64_t)k);
		expect_rank(s, !gt_group_wait(s->g, t[k].ticket, &err));
		expect_sum(s, &t[k], (float)k);
	}
	expect_rank(s, !gt_group_wait(s->g, GT_GROUP_ALL, &err));
	for (int k = 0; t && k < MANY; k++)
		expect_sum(s, &t[k], (float)k);
	free(t);
}

static void test_many_tickets(void **state)
{
	(void)state;
	for (int processes = 0; processes < 2; processes++)
		run_ranks(processes, 3, &options, many_tickets_body, NULL);
}

/* Freed with something started that cannot end. */
static void abandon_body(struct seat_of *s)
{
	static float x[5000];
	float y[5000];
	struct gt_collective c = { GT_ALL_REDUCE, x, y, 5000, .dtype = GT_F32 };
	struct gt_err err = GT_ERR_INIT;
	double from = gt_clock_s();

	if (s->rank == 0)
		expect_rank(s, !gt_group_start(s->g, &c, NULL, &err));
	gt_group_free(s->g);
	s->g = NULL;
	expect_rank(s, gt_clock_s() - from < 5);
}

static void test_free_gives_up(void **state)
{
	(void)state;
	run_ranks(false, 2, &options, abandon_body, NULL);
	run_ranks(true, 2, &options, abandon_body, NULL);
}

/* ---- sub-groups ---- */

/* Odd and even ranks apart, in reverse; then those but rank 0. Each has memory of its own. */
static void split_body(struct seat_of *s)
{
	struct gt_group *sub = NULL, *rest = NULL;
	struct gt_err err = GT_ERR_INIT;
	int seen[2] = { s->rank, 0 }, all[2 * MOST_RANKS], parity = s->rank % 2;
	struct gt_collective c = { GT_ALL_GATHER, seen, all, 2, .dtype = GT_I32 };
	void *memory = NULL;
	double x = s->rank;

	expect_rank(s, !gt_group_split(&sub, s->g, parity, -s->rank, &err) && sub);
	expect_rank(
	    s, !gt_group_split(&rest, s->g, s->rank ? 7 : -1, 0, &err) && !rest == !s->rank);
	if (sub && !gt_group_run(sub, &c, &err))
		for (int i = 0; i < sub->size; i++)
			expect_rank(
			    s, all[2 * i] % 2 == parity && (!i || all[2 * i] < all[2 * i - 2]));
	expect_rank(s, sub && sub->size == (s->size + 1 - parity) / 2 && !err.code);
	expect_rank(s, !sub || !gt_group_alloc(sub, 100000, &memory, &err));
	if (memory)
		expect_rank(s, !gt_all_reduce(sub, memory, 12500, GT_F64, GT_SUM, &err));
	if (rest)
		expect_rank(s, rest->rank == s->rank - 1 &&
		                   !gt_all_reduce(rest, &x, 1, GT_F64, GT_SUM, &err) &&
		                   x == s->size * (s->size - 1) / 2);
	gt_group_free(rest);
	expect_rank(s, !gt_barrier(s->g, &err));
	if (sub)
		gt_group_release(sub, memory);
	gt_group_free(sub);
}

static void test_split(void **state)
{
	(void)state;
	for (int processes = 0; processes < 2; processes++)
		for (int size = 1; size <= 5; size += 2)
			run_ranks(processes, size, &options, split_body, NULL);
}

/* ---- memory ---- */

static void regions_body(struct seat_of *s)
{
	static const size_t sizes[] = { 1, 65, 100000, 3 << 20, 0 };
	struct gt_err err = GT_ERR_INIT;
	void *p[5];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++) {
			unsigned char *m;

			if (gt_group_alloc(s->g, sizes[i], &p[i], &err)) {
				fail_rank(s, "%s", err.text);
				return;
			}
			m = p[i];
			expect_rank(s, (uintptr_t)m % 64 == 0);
			for (size_t k = 0; k < sizes[i]; k++)
				if (m[k])
					fail_rank(s, "not zeroed");
			memset(m, 1, sizes[i]);
		}
		for (int i = 0; i < 5; i++)
			gt_group_release(s->g, p[(i + round) % 5]);
	}
	/* More than there can be, and not the same: the group is as before. */
	expect_rank(s, gt_group_alloc(s->g, SIZE_MAX / 2, &p[0], &err) && !p[0]);
	expect_rank(s, gt_group_alloc(s->g, s->rank ? 100 : 9000, &p[0], &err) && !p[0]);
	expect_rank(s, !gt_group_alloc(s->g, 100, &p[0], &err) && p[0]);
	expect_rank(s, !gt_barrier(s->g, &err));
	gt_group_release(s->g, p[0]);
}

static void test_regions(void **state)
{
	(void)state;
	run_ranks(false, 3, &options, regions_body, NULL);
	run_ranks(true, 3, &options, regions_body, NULL);
}

/* Each rank writes a number that all of them read. */
static void share_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	int32_t *numbers;
	void *p;

	if (!s->g->ops->share) {
		expect_rank(s, gt_group_share(s->g, 4, &p, &err) == GT_ENOTSUP && !p);
		return;
	}
	if (gt_group_share(s->g, 10000, &p, &err)) {
		fail_rank(s, "%s", err.text);
		return;
	}
	numbers = p;
	expect_rank(s, (uintptr_t)p % 4096 == 0 && !numbers[s->rank] && !numbers[2499]);
	numbers[s->rank] = s->rank + 1;
	expect_rank(s, !gt_barrier(s->g, &err));
	for (int r = 0; r < s->size; r++)
		expect_rank(s, numbers[r] == r + 1);
	expect_rank(s, !gt_barrier(s->g, &err));
}

static void test_shared_memory(void **state)
{
	(void)state;
	for (int size = 1; size <= 4; size++) {
		run_ranks(false, size, &options, share_body, NULL);
		run_ranks(true, size, &options, share_body, NULL);
	}
}

/* ---- meetings without data ---- */

/* Between collectives with data, and around a ring of messages. */
static void meet_body(struct seat_of *s)
{
	static float untouched[5000];
	int next = (s->rank + 1) % s->size, before = (s->rank + s->size - 1) % s->size;
	const struct gt_collective meetings[] = {
		{ GT_ALL_REDUCE, untouched, untouched, 5000, .dtype = GT_F32, .what = "a bucket" },
		{ GT_BROADCAST, untouched, untouched, 7, .dtype = GT_F32, .peer = 1 },
		{ GT_ALL_GATHER, untouched, untouched, 0, .dtype = GT_F32 },
		{ .kind = GT_BARRIER },
		{ GT_SEND, untouched, NULL, 5000, .dtype = GT_F32, .peer = next },
		{ GT_RECV, NULL, untouched, 5000, .dtype = GT_F32, .peer = before },
	};
	struct gt_err err = GT_ERR_INIT;
	bool gone = true;

	for (int round = 0; round < 5; round++)
		for (size_t i = 0; i < sizeof(meetings) / sizeof(*meetings); i++) {
			int64_t sum = s->rank;

			if (gt_group_check_calls(s->g, &meetings[i], &err))
				fail_rank(s, "%s", err.text);
			expect_rank(s, !gt_all_reduce(s->g, &sum, 1, GT_I64, GT_SUM, &err));
			expect_rank(s, sum == s->size * (s->size - 1) / 2);
		}
	expect_rank(s, !gt_group_check_peers(s->g, &gone, &err) && !gone);
	for (int i = 0; i < 5000; i++)
		expect_rank(s, untouched[i] == 0);
	rally(s);
}

static void test_meet(void **state)
{
	(void)state;
	for (int processes = 0; processes < 2; processes++)
		for (int size = 2; size <= 4; size++)
			run_ranks(processes, size, &options, meet_body, NULL);
}

/* A rank that calls something else is found without any data, and so is one that does not come. */
static void meet_otherwise_body(struct seat_of *s)
{
	const struct gt_collective c = { GT_ALL_REDUCE, s, s, s->rank == 1 ? 4999 : 5000,
		.dtype = GT_F32, .what = "a bucket" };
	struct gt_err err = GT_ERR_INIT;

	if (gt_group_check_calls(s->g, &c, &err) != GT_EINVAL ||
	    !strstr(err.text, "5000 float32") || !strstr(err.text, "4999 float32"))
		fail_rank(s, "'%s'", err.text);
	rally(s);
}

static void meet_late_body(struct seat_of *s)
{
	const struct gt_collective c = { GT_ALL_REDUCE, s, s, 5000, .dtype = GT_F32,
		.what = "a bucket" };
	struct gt_err err = GT_ERR_INIT;

	if (s->rank != 1 && (gt_group_check_calls(s->g, &c, &err) != GT_EIO ||
	                        !strstr(err.text, "rank 1 is late for all-reduce 'a bucket'")))
		fail_rank(s, "'%s'", err.text);
	rally(s);
}

/* Rank 1 fails for all, and its error comes before that of rank 0. */
static void fail_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	bool gone = true;

	if (s->rank == 1) {
		gt_err_set(&err, GT_EDEVICE, "a cable is loose");
		expect_rank(s, gt_group_fail(s->g, &err) == GT_EDEVICE);
	} else {
		expect_rank(s, gt_barrier(s->g, &err) == GT_EDEVICE);
		expect_rank(s, !strcmp(err.text, "a cable is loose"));
	}
	gt_err_set(&err, GT_EINVAL, "another");
	expect_rank(s, gt_group_fail(s->g, &err) == GT_EDEVICE);
	err = GT_ERR_INIT;
	expect_rank(s, gt_group_check_peers(s->g, &gone, &err) == GT_EDEVICE && !gone);
	expect_rank(s, !strcmp(err.text, "a cable is loose"));
	rally(s);
}

static void leave_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	double until = gt_clock_s() + 10;
	bool gone = false;

	expect_rank(s, !gt_barrier(s->g, &err));
	if (s->rank == 1) {
		gt_group_free(s->g);
		s->g = NULL;
	} else {
		while (!gt_group_check_peers(s->g, &gone, &err) && gt_clock_s() < until)
			usleep(1000);
		if (!gone || err.code != GT_EIO || !strstr(err.text, "rank 1 left the group"))
			fail_rank(s, "'%s'", err.text);
	}
	rally(s);
}

static void test_meetings_fail(void **state)
{
	static const struct gt_shm_options soon = { .timeout_s = 0.3 };

	(void)state;
	for (int processes = 0; processes < 2; processes++) {
		run_ranks(processes, 3, &options, meet_otherwise_body, NULL);
		run_ranks(processes, 3, &soon, meet_late_body, NULL);
		run_ranks(processes, 3, &options, fail_body, NULL);
		run_ranks(processes, 3, &options, leave_body, NULL);
	}
}

/* ---- errors ---- */

static void refused_body(struct seat_of *s)
{
	static char x[64] __attribute__((aligned(64)));
	const struct gt_collective bad[] = {
		{ (enum gt_collective_kind)99, x, x, 1, .dtype = GT_F32 },
		{ GT_ALL_REDUCE, x, x, -1, .dtype = GT_F32 },
		{ GT_ALL_REDUCE, x, x, INT64_MAX / 2, .dtype = GT_F32 },
		{ GT_ALL_REDUCE, x, x, 1, .dtype = GT_DTYPE_COUNT },
		{ GT_ALL_REDUCE, x, x, 1, .dtype = GT_U8 },
		{ GT_ALL_REDUCE, x, x, 1, GT_F32, .reduction = (enum gt_reduction)3 },
		{ GT_ALL_REDUCE, NULL, x, 1, .dtype = GT_F32 },
		{ GT_ALL_REDUCE, x + 1, x, 1, .dtype = GT_F32 },
		{ GT_BROADCAST, x, x, 1, GT_F32, .peer = 1 },
		{ GT_SEND, x, NULL, 1, GT_F32, .peer = 0 },
		{ GT_RECV, NULL, x, 1, GT_F32, .peer = -1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct gt_err err = GT_ERR_INIT;

		expect_rank(s, gt_group_run(s->g, &bad[i], &err) < 0 && err.text[0]);
		expect_rank(s, gt_group_start(s->g, &bad[i], NULL, &err) < 0);
	}
}

static void test_refused(void **state)
{
	struct gt_group *groups[1];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	run_ranks(false, 1, &options, refused_body, NULL);
	assert_int_equal(gt_shm_of_threads(groups, 0, &options, &err), GT_EINVAL);
	assert_int_equal(gt_shm_of_threads(groups, 1000, &options, &err), GT_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_background),
		cmocka_unit_test(test_a_wait_is_for_one),
		cmocka_unit_test(test_many_tickets),
		cmocka_unit_test(test_free_gives_up),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_meet),
		cmocka_unit_test(test_meetings_fail),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
