/* test_data_wait.c - when training that waits for data is told so, and with which advice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/train/report/observer.h"

/* Steps of a second, of which each waits for `share`, the first for all of it; a line of the log
 * is due at every tenth. The text that was logged, the caller's to free(). */
static char *watch_steps(const struct gt_start_report *start, int steps, double share)
{
	struct gt_err err = GT_ERR_INIT;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	struct gt_log log = { .stream = stream, .level = GT_LOG_NORMAL, .before_options = "--" };
	struct gt_data_wait wait = { .log = &log, .every = 10 };
	struct gt_observer o = gt_data_wait_observer(&wait);

	assert_non_null(stream);
	assert_int_equal(o.start(o.self, start, &err), 0);
	for (int i = 1; i <= steps; i++) {
		const struct gt_step_report r = {
			.step = i, .train_s = i, .data_s = 1 + (i - 1) * share
		};

		assert_int_equal(o.step(o.self, &r, &err), 0);
	}
	assert_int_equal(o.end(o.self, 0, &err), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void advice_names_what_can_be_changed(void **state)
{
	static const struct {
		struct gt_start_report start;
		const char *text;
	} cases[] = {
		{ { .workers = 2, .data = "csv:a" },
		    "training waited for data for 20 % of the time: more --workers than 2 read faster\n" },
		{ { .workers = 0, .data = "csv:a" },
		    "training waited for data for 20 % of the time: with --workers 1 or more it is read "
		    "while training goes on\n" },
		{ { .workers = 4, .images = true, .data = "images:a,size=64" },
		    "training waited for data for 20 % of the time: more --workers than 4 read faster; "
		    "smaller files of images take less time\n" },
		{ { .workers = 4, .images = true, .data = "images:a,size=64,reduce=no" },
		    "training waited for data for 20 % of the time: more --workers than 4 read faster; "
		    "smaller files of images take less time, and so does reduce=yes\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = watch_steps(&cases[i].start, 50, 0.2);

		assert_string_equal(text, cases[i].text);
		free(text);
	}
}

/* Only above 5 %, after some seconds, and once. */
static void advice_comes_when_it_is_due(void **state)
{
	static const struct {
		int steps;
		double share;
		bool due;
	} cases[] = { { 50, 0, false }, { 50, 0.049, false }, { 50, 0.051, true }, { 1, 1, false },
		{ 3, 0.9, false }, { 4, 0.9, true }, { 20, 0.9, true } };
	static const struct gt_start_report start = { .workers = 2, .data = "random" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = watch_steps(&start, cases[i].steps, cases[i].share);

		assert_int_equal(strstr(text, "waited for data") != NULL, cases[i].due);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(advice_names_what_can_be_changed),
		cmocka_unit_test(advice_comes_when_it_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
