/* test_comm_threads.c - ranks as threads: all run, and the error that came first is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/comm/launch/threads.h"

static const struct gt_threads_options patience = { .shm = { .timeout_s = 60 } };
static const struct gt_threads_options in_a_ring = { .shm = { .timeout_s = 60 }, .ring = true };

struct scene {
	pthread_t caller;
	const char *backend;
	int wrong; /* this rank fails; -1: none, -2: all do */
	atomic_int ended;
};

static int play(void *self, struct gt_group *group, struct gt_err *err)
{
	struct scene *s = self;
	int64_t sum = group->rank;
	int rc = 0;

	if (!group->rank && !pthread_equal(pthread_self(), s->caller))
		return gt_err_set(err, GT_EINVAL, "rank 0 is on another thread");
	if (strcmp(group->ops->name, s->backend))
		return gt_err_set(err, GT_EINVAL, "a group of %s", group->ops->name);
	for (int i = 0; !rc && i < 10; i++) {
		if (s->wrong == -2 || (i == 5 && s->wrong == group->rank))
			rc = gt_err_set(err, GT_EFORMAT, "a shark");
		sum = group->rank;
		if (!rc)
			rc = gt_all_reduce(group, &sum, 1, GT_I64, GT_SUM, err);
		if (!rc && sum != group->size * (group->size - 1) / 2)
			rc = gt_err_set(err, GT_EINVAL, "the sum is %lld", (long long)sum);
	}
	atomic_fetch_add(&s->ended, 1);
	return rc;
}

static void run_all(const struct gt_threads_options *options)
{
	for (int size = 1; size <= 8; size++) {
		struct scene s = { .caller = pthread_self(),
			.backend = options->ring ? "ring" : "shm",
			.wrong = -1 };
		struct gt_err err = GT_ERR_INIT;

		if (gt_threads_run(size, options, play, &s, &err))
			fail_msg("%d ranks, %s: %s", size, s.backend, err.text);
		assert_int_equal(s.ended, size);
	}
}

static void all_ranks_run(void **state)
{
	(void)state;
	run_all(&patience);
	run_all(&in_a_ring);
}

/* And nobody is left waiting. */
static void fail_one(const struct gt_threads_options *options)
{
	for (int wrong = 0; wrong < 4; wrong++) {
		struct scene s = { .caller = pthread_self(),
			.backend = options->ring ? "ring" : "shm",
			.wrong = wrong };
		struct gt_err err = GT_ERR_INIT;
		char want[32];

		snprintf(want, sizeof(want), "rank %d: a shark", wrong);
		assert_int_equal(gt_threads_run(4, options, play, &s, &err), GT_EFORMAT);
		assert_string_equal(err.text, wrong ? want : "a shark");
		assert_int_equal(s.ended, 4);
	}
}

static void the_first_error_is_told(void **state)
{
	(void)state;
	fail_one(&patience);
	fail_one(&in_a_ring);
}

/* One rank leaves a group of the others, and takes its time to fail. */
static int leave_early(void *self, struct gt_group *group, struct gt_err *err)
{
	const struct timespec time = { .tv_nsec = 20 * 1000 * 1000 };
	struct scene *s = self;
	struct gt_group *axis;
	int64_t sum = 0;
	int rc = gt_group_split(&axis, group, 0, group->rank, err);

	if (!rc && s->wrong == group->rank)
		rc = gt_err_set(err, GT_EFORMAT, "a shark");
	else if (!rc)
		rc = gt_all_reduce(axis, &sum, 1, GT_I64, GT_SUM, err);
	gt_group_free(axis);
	while (s->wrong == group->rank && s->ended < group->size - 1)
		nanosleep(&time, NULL);
	nanosleep(&time, NULL); /* the others return */
	atomic_fetch_add(&s->ended, 1);
	return rc;
}

static void an_error_that_follows_gives_way(void **state)
{
	const struct gt_threads_options *options[] = { &patience, &in_a_ring };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct scene s = { .wrong = i % 2 };
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(
		    gt_threads_run(3, options[i / 2], leave_early, &s, &err), GT_EFORMAT);
		assert_string_equal(err.text, i % 2 ? "rank 1: a shark" : "a shark");
	}
}

static void lines_of_all_ranks_are_printed_once(void **state)
{
	struct scene s = { .caller = pthread_self(), .backend = "shm", .wrong = -2 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_threads_run(3, &patience, play, &s, &err), GT_EFORMAT);
	assert_string_equal(err.text, "a shark");
}

static void too_many_are_refused(void **state)
{
	struct scene s = { .caller = pthread_self(), .backend = "shm", .wrong = -1 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_threads_run(1000, &patience, play, &s, &err), GT_EINVAL);
	assert_int_equal(s.ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_run),
		cmocka_unit_test(the_first_error_is_told),
		cmocka_unit_test(an_error_that_follows_gives_way),
		cmocka_unit_test(lines_of_all_ranks_are_printed_once),
		cmocka_unit_test(too_many_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
