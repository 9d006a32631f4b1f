/* test_progress.c - the progress line and the log, under a clock of our own. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/log.h"
#include "lib/base/progress.h"

/* The text written so far, and the time as the progress line sees it. */
struct screen {
	FILE *stream;
	char *text;
	size_t size;
	double time;
};

static double now(void *clock)
{
	return *(double *)clock;
}

static struct gt_progress open_screen(struct screen *s, bool terminal, int64_t total)
{
	*s = (struct screen){ .time = 1000 };
	s->stream = open_memstream(&s->text, &s->size);
	assert_non_null(s->stream);
	return (struct gt_progress){ .stream = s->stream,
		.terminal = terminal,
		.width = 72,
		.unit = "step",
		.total = total,
		.now = now,
		.clock = &s->time };
}

static void close_screen(struct screen *s)
{
	fclose(s->stream);
	free(s->text);
}

/* A list of one field. */
static const struct gt_progress_field *one_field(const char *text)
{
	static struct gt_progress_field fields[2];

	fields[0] = (struct gt_progress_field){ text, 1 };
	return fields;
}

/* The text written since the last call. */
static const char *written(struct screen *s)
{
	static char copy[4096];

	fflush(s->stream);
	assert_true(s->size < sizeof(copy));
	memcpy(copy, s->text, s->size);
	copy[s->size] = '\0';
	rewind(s->stream);
	return copy;
}

static void draws_the_line(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 2000);

	(void)state;
	gt_progress_start(&p, 0);
	s.time += 31.5;
	gt_progress_update(&p, 1200, one_field("loss 1.93 17.2k tok/s"));
	assert_string_equal(written(&s),
	    "\rstep 1200/2000 [===========>       ] 60% loss 1.93 17.2k tok/s ETA 0:21\033[K");
	s.time += 1;
	gt_progress_update(&p, 2000, NULL);
	assert_string_equal(
	    written(&s), "\rstep 2000/2000 [===========================] 100% ETA 0:00\033[K");
	close_screen(&s);
}

static void draws_at_most_ten_times_a_second(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 1000);
	int lines = 0;

	(void)state;
	gt_progress_start(&p, 0);
	for (int i = 0; i < 1000; i++) {
		s.time += 0.002;
		gt_progress_update(&p, i, NULL);
	}
	for (const char *c = written(&s); *c; c++)
		lines += *c == '\r';
	assert_in_range(lines, 15, 20);
	close_screen(&s);
}

static void leaves_files_alone(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, false, 2000);

	(void)state;
	gt_progress_start(&p, 0);
	s.time += 10;
	gt_progress_update(&p, 100, one_field("loss 2"));
	assert_string_equal(written(&s), "");
	gt_progress_print(&p, 500, one_field("loss 2"));
	assert_string_equal(written(&s), "step 500/2000 25% loss 2 ETA 0:30\n");
	close_screen(&s);
}

static void unknown_total_shows_time(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 0);

	(void)state;
	gt_progress_start(&p, 0);
	s.time += 40;
	gt_progress_update(&p, 77, one_field("loss 2"));
	assert_string_equal(written(&s), "\rstep 77 loss 2 0:40\033[K");
	close_screen(&s);
}

static void resumed_job_estimates_from_its_own_steps(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, false, 2000);

	(void)state;
	gt_progress_start(&p, 1000);
	gt_progress_print(&p, 1000, NULL);
	assert_string_equal(written(&s), "step 1000/2000 50% ETA -:--\n");
	s.time += 10;
	gt_progress_print(&p, 1500, NULL);
	assert_string_equal(written(&s), "step 1500/2000 75% ETA 0:10\n");
	close_screen(&s);
}

static void fits_every_width(void **state)
{
	(void)state;
	for (int width = 1; width < 120; width++) {
		struct screen s;
		struct gt_progress p = open_screen(&s, true, 2000);
		const char *line;

		p.width = width;
		gt_progress_start(&p, 0);
		s.time += 1;
		gt_progress_update(&p, 999, one_field("loss 1.93 17.2k tok/s"));
		line = written(&s);
		assert_int_equal(line[0], '\r');
		assert_string_equal(strchr(line, '\033'), "\033[K");
		/* One column stays free, or the terminal would break the line. */
		assert_true(strcspn(line + 1, "\033") <= (size_t)width - (width > 1));
		close_screen(&s);
	}
}

/* Fields go by priority, extra ones before the bar, and the time is whole from 24 columns on. */
static void fields_give_way_by_priority(void **state)
{
	static const struct gt_progress_field fields[] = { { "epoch 3/20", GT_PROGRESS_EXTRA },
		{ "loss 1.9312", 3 }, { "lr 1.00e-03", 1 }, { "17.2k tokens/s", 2 },
		{ "elapsed 0:32", GT_PROGRESS_EXTRA }, { 0 } };
	static const struct {
		int width;
		const char *line;
	} cases[] = {
		{ 200, "step 1200/2000 [================>          ] 60% epoch 3/20 loss 1.9312 lr "
		       "1.00e-03 17.2k tokens/s elapsed 0:32 ETA 0:21" },
		{ 100, "step 1200/2000 [===>  ] 60% epoch 3/20 loss 1.9312 lr 1.00e-03 17.2k "
		       "tokens/s elapsed 0:32 ETA 0:21" },
		{ 98, "step 1200/2000 [==========>      ] 60% epoch 3/20 loss 1.9312 lr 1.00e-03 "
		      "17.2k tokens/s ETA 0:21" },
		{ 80, "step 1200/2000 [======>   ] 60% loss 1.9312 lr 1.00e-03 17.2k tokens/s ETA "
		      "0:21" },
		{ 60, "step 1200/2000 60% loss 1.9312 17.2k tokens/s ETA 0:21" },
		{ 50, "step 1200/2000 [====>  ] 60% loss 1.9312 ETA 0:21" },
		{ 40, "step 1200/2000 60% loss 1.9312 ETA 0:21" },
		{ 30, "step 1200/2000 60% ETA 0:21" },
		{ 24, "step 1200/2000 ETA 0:21" },
		{ 20, "step 1200/2000 ETA " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct screen s;
		struct gt_progress p = open_screen(&s, true, 2000);
		char wanted[160];

		p.width = cases[i].width;
		snprintf(wanted, sizeof(wanted), "\r%s\033[K", cases[i].line);
		gt_progress_start(&p, 0);
		s.time += 31.5;
		gt_progress_update(&p, 1200, fields);
		assert_string_equal(written(&s), wanted);
		close_screen(&s);
	}
}

/* A line that stays has the fields that there is room for; in a file, all. */
static void lines_stay_above_the_bar(void **state)
{
	static const struct gt_progress_field fields[] = { { "loss 1.9312", 2 },
		{ "17.2k tokens/s", 1 }, { 0 } };
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 2000);

	(void)state;
	p.width = 44;
	gt_progress_start(&p, 0);
	s.time += 31.5;
	gt_progress_update(&p, 1200, fields);
	written(&s);
	gt_progress_print(&p, 1200, fields);
	assert_string_equal(written(&s), "\r\033[Kstep 1200/2000 60% loss 1.9312 ETA 0:21\n");
	gt_progress_update(&p, 1200, fields); /* at once, though the time is not up */
	assert_int_equal(written(&s)[0], '\r');
	p.width = 0;
	p.launcher_columns = 44;
	gt_progress_print(&p, 1200, fields);
	assert_string_equal(written(&s), GT_PROGRESS_LOGGED
	    "step 1200/2000 60% loss 1.9312 17.2k tokens/s ETA 0:21\n" GT_PROGRESS_SHOWN
	    "step 1200/2000 60% loss 1.9312 ETA 0:21\n");
	p.launcher_columns = 200;
	gt_progress_print(&p, 1200, fields);
	assert_string_equal(
	    written(&s), "step 1200/2000 60% loss 1.9312 17.2k tokens/s ETA 0:21\n");
	close_screen(&s);
}

/* An inner job takes the place of the outer one's line after a second, and the outer one goes on
 * with its own count and time. */
static void a_job_inside_of_another(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 10), outer;

	(void)state;
	p.width = 30;
	gt_progress_start(&p, 0);
	s.time += 8;
	gt_progress_update(&p, 8, NULL);
	assert_string_equal(written(&s), "\rstep 8/10 80% ETA 0:02\033[K");
	outer = gt_progress_enter(&p, "sample", 100);
	s.time += 0.9;
	gt_progress_update(&p, 45, NULL);
	assert_string_equal(written(&s), "");
	s.time += 0.1;
	gt_progress_update(&p, 50, NULL);
	assert_string_equal(written(&s), "\rsample 50/100 50% ETA 0:01\033[K");
	gt_progress_leave(&p, &outer);
	assert_string_equal(written(&s), "\r\033[K");
	gt_progress_update(&p, 9, NULL);
	assert_string_equal(written(&s), "\rstep 9/10 90% ETA 0:01\033[K");
	outer = gt_progress_enter(NULL, "sample", 100);
	gt_progress_update(NULL, 1, NULL);
	gt_progress_leave(NULL, &outer);
	close_screen(&s);
}

static void follows_the_terminal(void **state)
{
	struct winsize size = { .ws_row = 24 };
	struct gt_progress p = { .terminal = true, .unit = "step", .total = 100, .now = now };
	double time = 0;
	char text[512];
	int master = posix_openpt(O_RDWR | O_NOCTTY), terminal = -1;

	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master) ||
	    (terminal = open(ptsname(master), O_RDWR | O_NOCTTY)) < 0) {
		print_message("skipped: no pseudo-terminal here\n");
		skip();
	}
	p.stream = fdopen(terminal, "w");
	p.clock = &time;
	gt_progress_start(&p, 0);
	for (unsigned short width = 40; width <= 60; width += 10) {
		ssize_t n;

		size.ws_col = width;
		assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
		time += 1;
		gt_progress_update(&p, 50, NULL);
		n = read(master, text, sizeof(text) - 1);
		assert_true(n > 0);
		text[n] = '\0';
		/* The bar fills the line, until it is as long as it gets. */
		assert_int_equal(strcspn(text + 1, "\033"), width < 60 ? width - 1 : 54);
	}
	fclose(p.stream);
	close(master);
}

static void log_takes_the_line_away(void **state)
{
	struct screen s;
	struct gt_progress p = open_screen(&s, true, 10);
	struct gt_log log = { .stream = s.stream, .level = GT_LOG_NORMAL, .progress = &p };

	(void)state;
	gt_progress_start(&p, 0);
	gt_progress_update(&p, 1, NULL);
	written(&s);
	gt_log_info(&log, "saved %s", "a.pth");
	assert_string_equal(written(&s), "\r\033[Ksaved a.pth\n");
	gt_progress_update(&p, 1, NULL); /* at once, though the time is not up */
	assert_int_equal(written(&s)[0], '\r');
	gt_progress_hide(&p);
	gt_progress_hide(&p);
	assert_string_equal(written(&s), "\r\033[K");
	close_screen(&s);
}

static void log_levels(void **state)
{
	static const char *const wanted[] = { "warning: 1\n", "warning: 1\n2\n",
		"warning: 1\n2\n3\n" };
	struct screen s;

	(void)state;
	for (int level = GT_LOG_QUIET; level <= GT_LOG_VERBOSE; level++) {
		struct gt_log log = { .level = (enum gt_log_level)level };

		open_screen(&s, false, 0);
		log.stream = s.stream;
		gt_log_warn(&log, "%d", 1);
		gt_log_info(&log, "%d", 2);
		gt_log_verbose(&log, "%d", 3);
		assert_string_equal(written(&s), wanted[level]);
		close_screen(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws_the_line),
		cmocka_unit_test(draws_at_most_ten_times_a_second),
		cmocka_unit_test(leaves_files_alone),
		cmocka_unit_test(unknown_total_shows_time),
		cmocka_unit_test(resumed_job_estimates_from_its_own_steps),
		cmocka_unit_test(fits_every_width),
		cmocka_unit_test(fields_give_way_by_priority),
		cmocka_unit_test(lines_stay_above_the_bar),
		cmocka_unit_test(a_job_inside_of_another),
		cmocka_unit_test(follows_the_terminal),
		cmocka_unit_test(log_takes_the_line_away),
		cmocka_unit_test(log_levels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
