/* test_watch.c - the rate and the loss scale that the person at the terminal is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/train/report/observer.h"

/* Steps of 10 samples that take so long, the first one `first_s`; the last line printed. */
static void expect_rate(double first_s, double each_s, int steps, const char *rate)
{
	struct gt_err err = GT_ERR_INIT;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	struct gt_log log = { .stream = stream };
	struct gt_progress progress = { .stream = stream };
	struct gt_watch watch = { .log = &log, .progress = &progress, .every = steps };
	struct gt_observer o = gt_watch_observer(&watch);
	const struct gt_start_report start = { .total = steps };

	assert_non_null(stream);
	log.level = GT_LOG_NORMAL;
	assert_int_equal(o.start(o.self, &start, &err), 0);
	for (int i = 1; i <= steps; i++) {
		const struct gt_step_report r = {
			.step = i, .samples = 10, .train_s = first_s + (i - 1) * each_s
		};

		assert_int_equal(o.step(o.self, &r, &err), 0);
	}
	assert_int_equal(fclose(stream), 0);
	if (!strstr(text, rate))
		fail_msg("'%s' is not in '%s'", rate, text);
	free(text);
}

static void the_rate_is_that_of_the_last_seconds(void **state)
{
	(void)state;
	expect_rate(0.1, 0.1, 1, " 100 samples/s");
	expect_rate(0.1, 0.001, 101, " 5.05k samples/s"); /* in less than a second: of all steps */
	expect_rate(0.5, 0.1, 100, " 100 samples/s");     /* a slow start is soon forgotten */
}

/* A change of the loss scale is a line of its own. */
static void changes_of_the_loss_scale_are_told(void **state)
{
	static const struct gt_step_report reports[] = {
		{ .step = 1, .loss_scale = 8 },
		{ .step = 2, .loss_scale = 4, .skipped = true },
		{ .step = 3, .loss_scale = 4 },
		{ .step = 4, .loss_scale = 8 },
	};
	struct gt_err err = GT_ERR_INIT;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	struct gt_log log = { .stream = stream };
	struct gt_progress progress = { .stream = stream };
	struct gt_watch watch = { .log = &log, .progress = &progress, .every = 100 };
	struct gt_observer o = gt_watch_observer(&watch);

	(void)state;
	assert_non_null(stream);
	log.level = GT_LOG_NORMAL;
	assert_int_equal(o.start(o.self, &(struct gt_start_report){ .total = 100 }, &err), 0);
	for (size_t i = 0; i < sizeof(reports) / sizeof(*reports); i++)
		assert_int_equal(o.step(o.self, &reports[i], &err), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, "step 2: gradients overflow, so the weights stay; loss scale 4\n"
	                          "step 4: loss scale 8\n");
	free(text);
}

/* The share of the last seconds that training waited for data, from 1 % on. */
static void waiting_for_data_is_told(void **state)
{
	static const struct {
		double data_s;
		const char *text;
	} cases[] = { { 0, " samples/s ETA" }, { 0.01, " samples/s ETA" },
		{ 0.04, " samples/s, data wait 2 % ETA" },
		{ 1, " samples/s, data wait 50 % ETA" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char *text = NULL;
		size_t size = 0;
		FILE *stream = open_memstream(&text, &size);
		struct gt_log log = { .stream = stream, .level = GT_LOG_NORMAL };
		struct gt_progress progress = { .stream = stream };
		struct gt_watch watch = { .log = &log, .progress = &progress, .every = 2 };
		struct gt_observer o = gt_watch_observer(&watch);
		const struct gt_step_report first = { .step = 1, .train_s = 5, .data_s = 5 };
		const struct gt_step_report second = {
			.step = 2, .train_s = 7, .data_s = 5 + cases[i].data_s
		};

		assert_non_null(stream);
		o.start(o.self, &(struct gt_start_report){ .total = 2 }, &err);
		assert_int_equal(o.step(o.self, &first, &err), 0);
		assert_int_equal(o.step(o.self, &second, &err), 0);
		assert_int_equal(fclose(stream), 0);
		if (!strstr(text, cases[i].text))
			fail_msg("'%s' is not in '%s'", cases[i].text, text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rate_is_that_of_the_last_seconds),
		cmocka_unit_test(waiting_for_data_is_told),
		cmocka_unit_test(changes_of_the_loss_scale_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
