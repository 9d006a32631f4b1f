/* test_watch.c - the lines of a run at the terminal: steps, evaluations, rates, the loss scale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/train/report/observer.h"

static const struct gt_average ema = { .title = "EMA" };

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
	} cases[] = { { 0, " samples/s elapsed" }, { 0.01, " samples/s elapsed" },
		{ 0.04, " samples/s data wait 2 % elapsed" },
		{ 1, " samples/s data wait 50 % elapsed" } };

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

/* Text that the observer writes, the caller's to free(). */
struct screen {
	char *text;
	size_t size;
	FILE *stream;
	struct gt_log log;
	struct gt_progress progress;
	struct gt_watch watch;
	struct gt_observer o;
};

static double stands(void *clock)
{
	return *(double *)clock;
}

static void open_screen(struct screen *s, enum gt_log_level level, int64_t every)
{
	*s = (struct screen){ 0 };
	s->stream = open_memstream(&s->text, &s->size);
	assert_non_null(s->stream);
	s->log = (struct gt_log){ .stream = s->stream, .level = level };
	s->progress = (struct gt_progress){ .stream = s->stream };
	s->watch = (struct gt_watch){ .log = &s->log, .progress = &s->progress, .every = every };
	s->o = gt_watch_observer(&s->watch);
}

static void close_screen(struct screen *s)
{
	assert_int_equal(fclose(s->stream), 0);
	free(s->text);
}

static void evaluations_are_a_line_of_their_kind(void **state)
{
	static const struct {
		bool tokens, best, ema;
		struct gt_metrics m;
		const char *text;
	} cases[] = {
		{ false, true, false, { .loss = 0.12345, .top1 = 0.5, .top5 = 1, .n = 40 },
		    "step 7: val loss 0.1235, top-1 50.00 %, top-5 100.00 % of 40 (best)\n" },
		{ false, false, true, { .loss = 2, .top1 = 1.0 / 3, .top5 = 0.98765, .n = 3 },
		    "step 7: val loss 2.0000, top-1 33.33 %, top-5 98.77 % of 3, of the EMA\n" },
		{ true, false, true, { .loss = 1, .perplexity = 2.71828, .n = 1234567 },
		    "step 7: val loss 1.0000, perplexity 2.72 over 1234567 tokens, of the EMA\n" },
		{ true, true, false, { .loss = 1, .perplexity = 2.71828, .n = 2 },
		    "step 7: val loss 1.0000, perplexity 2.72 over 2 tokens (best)\n" },
		{ true, false, false, { .loss = 800, .perplexity = INFINITY, .n = 5 },
		    "step 7: val loss 800.0000, perplexity inf over 5 tokens\n" },
		{ false, false, false,
		    { .target = GT_SAMPLE_NUMBER,
		        .loss = 0.5,
		        .mse = 0.25,
		        .mae = 0.125,
		        .r2 = -1,
		        .n = 9 },
		    "step 7: val loss 0.5000, MSE 0.25, MAE 0.125, R2 -1.0000 of 9\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_eval_report r = { .step = 7,
			.metrics = &cases[i].m,
			.best = cases[i].best,
			.average = cases[i].ema ? &ema : NULL };
		const struct gt_start_report start = { .total = 9, .tokens = cases[i].tokens };
		struct gt_err err = GT_ERR_INIT;
		struct screen s;

		open_screen(&s, GT_LOG_NORMAL, 1);
		assert_int_equal(s.o.start(s.o.self, &start, &err), 0);
		assert_int_equal(s.o.evaluated(s.o.self, &r, &err), 0);
		fflush(s.stream);
		assert_string_equal(s.text, cases[i].text);
		close_screen(&s);
	}
}

/* Losses are means over the steps of a line; quiet runs have no lines. */
static void lines_are_means_of_their_steps(void **state)
{
	static const struct {
		enum gt_log_level level;
		const char *text;
	} cases[] = {
		{ GT_LOG_NORMAL,
		    "step 2/5 40% loss 1.5000 lr 1.00e-03 8 samples/s elapsed 0:00 ETA 0:00\n"
		    "step 4/5 80% loss 3.5000 lr 1.00e-03 8 samples/s elapsed 0:00 ETA 0:00\n"
		    "step 5/5 100% loss 5.0000 lr 1.00e-03 8 samples/s elapsed 0:00 ETA 0:00\n" },
		{ GT_LOG_QUIET, "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		double time = 0;
		struct screen s;

		open_screen(&s, cases[i].level, 2);
		s.progress.now = stands;
		s.progress.clock = &time;
		s.o.start(s.o.self, &(struct gt_start_report){ .total = 5 }, &err);
		for (int k = 1; k <= 5; k++) {
			const struct gt_step_report r = {
				.step = k, .loss = k, .lr = 1e-3, .samples = 8, .train_s = k
			};

			assert_int_equal(s.o.step(s.o.self, &r, &err), 0);
		}
		assert_int_equal(s.o.end(s.o.self, 0, &err), 0);
		fflush(s.stream);
		assert_string_equal(s.text, cases[i].text);
		close_screen(&s);
	}
}

/* Columns that a drawing takes, escapes left out. */
static int columns_of(const char *text)
{
	int columns = 0;

	for (; *text; text++) {
		if (*text == '\033')
			text += strcspn(text, "mK");
		else if (*text != '\r')
			columns++;
	}
	return columns;
}

/* Seconds that the ranks of a made-up group have waited for each other. */
static double waited[4];

static double waited_s(const struct gt_group *g, int rank)
{
	(void)g;
	return waited[rank];
}

static const struct gt_group_ops knows_waits = { .name = "made up", .waited_s = waited_s };

/* What the fields of the line are about, beside the step, the loss and the rates. */
struct drawn {
	bool mfu;
	/* seconds out of 2 s: waiting for data, and waiting for rank 3 */
	double data_s, late_s;
};

/* Draw a step, and compare with `wanted`, without "\r" and erasure. */
static void expect_drawing(int width, const struct drawn *d, const char *wanted)
{
	struct gt_group group = { .ops = &knows_waits, .size = 4 };
	const struct gt_step_report r = { .step = 1200,
		.loss = 1.9312,
		.lr = 1e-3,
		.samples = 40,
		.tokens = 34400,
		.data_s = d->data_s,
		.train_s = 2,
		.time_s = 32 };
	const struct gt_start_report start = { .total = 2000,
		.epochs = 2,
		.tokens = true,
		.gpu_bytes = 1300000000,
		.mfu_of_sample = d->mfu ? 0.0205 : 0,
		.group = &group };
	struct gt_err err = GT_ERR_INIT;
	char expected[300];
	double time = 0;
	struct screen s;

	open_screen(&s, GT_LOG_NORMAL, 7);
	s.progress.terminal = true;
	s.progress.width = width;
	s.progress.now = stands;
	s.progress.clock = &time;
	for (int i = 0; i < 4; i++)
		waited[i] = i;
	assert_int_equal(s.o.start(s.o.self, &start, &err), 0);
	for (int i = 0; i < 3; i++)
		waited[i] += d->late_s + 0.001 * i;
	time = 31.5;
	assert_int_equal(s.o.step(s.o.self, &r, &err), 0);
	fflush(s.stream);
	if (columns_of(s.text) >= width)
		fail_msg("%d columns of %d", columns_of(s.text), width);
	snprintf(expected, sizeof(expected), "\r%s" GT_PROGRESS_ERASE, wanted);
	assert_string_equal(s.text, expected);
	close_screen(&s);
}

/* On a terminal a step is one drawing that leaves the last column free, of any width. Fields go in
 * the order that observer.h says. */
static void steps_fit_the_terminal(void **state)
{
	static const struct drawn plain = { 0 }, known = { .mfu = true },
	                          slow = { .mfu = true, .data_s = 0.25, .late_s = 0.5 };
	static const struct {
		int width;
		const struct drawn *drawn;
		const char *text;
	} cases[] = {
		{ 1, &slow, "" },
		{ 2, &slow, "s" },
		{ 9, &slow, "step 120" },
		{ 15, &slow, "step 1200/2000" },
		{ 24, &slow, "step 1200/2000 ETA 0:21" },
		{ 40, &slow, "step 1200/2000 60% loss 1.9312 ETA 0:21" },
		{ 60, &plain, "step 1200/2000 60% loss 1.9312 17.2k tokens/s ETA 0:21" },
		{ 60, &known, "step 1200/2000 60% loss 1.9312 17.2k tokens/s ETA 0:21" },
		{ 60, &slow, "step 1200/2000 60% loss 1.9312 rank 3 late 25 % ETA 0:21" },
		{ 80, &plain,
		    "step 1200/2000 [=======>     ] 60% loss 1.9312 17.2k tokens/s 1.21 GiB ETA 0:21" },
		{ 80, &known,
		    "step 1200/2000 [===> ] 60% loss 1.9312 17.2k tokens/s MFU 41% 1.21 GiB ETA 0:21" },
		{ 80, &slow,
		    "step 1200/2000 [===> ] 60% loss 1.9312 17.2k tokens/s rank 3 late 25 % ETA 0:21" },
		{ 200, &plain,
		    "step 1200/2000 [================>          ] 60% epoch 1/2 loss 1.9312 lr "
		    "1.00e-03 17.2k tokens/s 1.21 GiB elapsed 0:32 ETA 0:21" },
		{ 200, &known,
		    "step 1200/2000 [================>          ] 60% epoch 1/2 loss 1.9312 lr "
		    "1.00e-03 17.2k tokens/s MFU 41% 1.21 GiB elapsed 0:32 ETA 0:21" },
		{ 200, &slow,
		    "step 1200/2000 [================>          ] 60% epoch 1/2 loss 1.9312 lr "
		    "1.00e-03 17.2k tokens/s MFU 41% 1.21 GiB data wait 12 % rank 3 late 25 % "
		    "elapsed 0:32 ETA 0:21" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		expect_drawing(cases[i].width, cases[i].drawn, cases[i].text);
}

/* The drawn loss is smoothed over lines; a line that stays has the mean since the line before. */
static void the_drawn_loss_is_smooth(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	double time = 0;
	struct screen s;

	(void)state;
	open_screen(&s, GT_LOG_NORMAL, 100);
	s.progress.terminal = true;
	s.progress.width = 40;
	s.progress.now = stands;
	s.progress.clock = &time;
	s.o.start(s.o.self, &(struct gt_start_report){ .total = 201 }, &err);
	for (int k = 1; k <= 201; k++) {
		const struct gt_step_report r = {
			.step = k, .loss = k > 200 ? 5 : 3, .train_s = k
		};

		time += k > 200;
		assert_int_equal(s.o.step(s.o.self, &r, &err), 0);
	}
	fflush(s.stream);
	assert_non_null(strstr(s.text, "\rstep 201/201 100% loss 3.1000 ETA "));
	assert_non_null(strstr(s.text, "step 200/201 99% loss 3.0000 ETA 0:00\n"));
	assert_non_null(strstr(s.text, "step 201/201 100% loss 5.0000 ETA 0:00\n"));
	close_screen(&s);
}

/* A loss that has gone out of hand is long: lines are cut, and end. */
static void the_largest_numbers_fit(void **state)
{
	static const double losses[] = { 1e300, -1e300, INFINITY, NAN };

	(void)state;
	for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
		const struct gt_step_report r = { .step = 1, .loss = losses[i], .train_s = 1 };
		struct gt_err err = GT_ERR_INIT;
		struct screen s;

		open_screen(&s, GT_LOG_NORMAL, 1);
		s.o.start(s.o.self, &(struct gt_start_report){ .total = 2 }, &err);
		assert_int_equal(s.o.step(s.o.self, &r, &err), 0);
		fflush(s.stream);
		assert_true(strlen(s.text) < 200);
		assert_int_equal(strncmp(s.text, "step 1/2 50% loss ", 18), 0);
		assert_int_equal(s.text[strlen(s.text) - 1], '\n');
		close_screen(&s);
	}
}

static void saved_files_are_told_with_verbose_alone(void **state)
{
	static const struct {
		enum gt_log_level level;
		const char *text;
	} cases[] = { { GT_LOG_NORMAL, "" }, { GT_LOG_VERBOSE, "step 3: saved run/a.pth\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct screen s;

		open_screen(&s, cases[i].level, 1);
		assert_int_equal(s.o.saved(s.o.self, 3, "run/a.pth", &err), 0);
		fflush(s.stream);
		assert_string_equal(s.text, cases[i].text);
		close_screen(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rate_is_that_of_the_last_seconds),
		cmocka_unit_test(waiting_for_data_is_told),
		cmocka_unit_test(changes_of_the_loss_scale_are_told),
		cmocka_unit_test(evaluations_are_a_line_of_their_kind),
		cmocka_unit_test(lines_are_means_of_their_steps),
		cmocka_unit_test(steps_fit_the_terminal),
		cmocka_unit_test(the_drawn_loss_is_smooth),
		cmocka_unit_test(the_largest_numbers_fit),
		cmocka_unit_test(saved_files_are_told_with_verbose_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
