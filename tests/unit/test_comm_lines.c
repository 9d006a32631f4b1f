/* test_comm_lines.c - a rank's output, read in pieces: on the terminal, and in its log. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm/launch/job.h"

enum { PIECES = 6, TEXT = 400 };

#define FIFTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *name;
	bool may_draw;
	const char *pieces[PIECES]; /* each read by itself */
	const char *shown, *log;
} cases[] = {
	{ "lines", false, { "one\ntw", "o\n", "end" }, "one\ntwo\nend\n", "one\ntwo\nend" },
	{ "carriage returns of one that may not draw", false, { "\ra\033[K", "\rb\033[K\n" },
	    "\ra\033[K\rb\033[K\n", "\ra\033[K\rb\033[K\n" },
	{ "a drawing and what takes its place", true,
	    { "\rstep 1\033[K", "\rstep 2\033[K", "\r\033[Kdone\n" },
	    "\rstep 1\033[K\rstep 2\033[K\r\033[Kdone\n", "done\n" },
	{ "one that is read in two pieces", true, { "\rste", "p 1\033[K\r\033[Kdone\nmore\n" },
	    "\rste\r\033[Kdone\nmore\n", "done\nmore\n" },
	{ "of several only the last is seen", true, { "\ra\033[K\rb\033[K" }, "\rb\033[K\r\033[K",
	    "" },
	{ "a line for the log alone", true, { "\ra\033[K", "\r\033[2Kstep 1\n\rb\033[K" },
	    "\ra\033[K\rb\033[K\r\033[K", "step 1\n" },
	{ "a line for the terminal alone", true,
	    { "\ra\033[K", "\r\033[2Klong\n\r\033[1Kshort\n\rb\033[K" },
	    "\ra\033[K\r\033[Kshort\n\rb\033[K\r\033[K", "long\n" },
	{ "others' words behind a drawing", true, { "\ra\033[K", "free(): invalid\n", "\rb\033[K" },
	    "\ra\033[K\r\033[Kfree(): invalid\n\rb\033[K\r\033[K", "free(): invalid\n" },
	{ "last words behind a drawing", true, { "\ra\033[Kfatal" },
	    "\ra\033[Kfatal\r\033[Kfatal\n", "fatal" },
	{ "a drawing that is cut short", true, { "\rab" }, "\rab\r\033[K", "" },
	{ "a drawing wider than the terminal", true, { "\r" FIFTY FIFTY "\033[K" },
	    "\r" FIFTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\033[0m\033[K\r\033[K", "" },
	{ "lines that end as on other systems", true, { "\ra\033[K", "\r\033[Kab\r\n" },
	    "\ra\033[K\r\033[Kab\r\n", "ab\r\n" },
};

static void write_all(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void all_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_lines lines = { .may_draw = cases[i].may_draw };
		char shown[TEXT] = "", logged[TEXT] = "";
		FILE *terminal = fmemopen(shown, sizeof(shown), "w"), *file = tmpfile();
		struct gt_progress drawing = { .stream = terminal };
		struct gt_log log = { .stream = terminal, .progress = &drawing };
		int pair[2];

		assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
		lines.from = pair[0];
		lines.to = dup(fileno(file));
		lines.show = lines.log = &log;
		for (int k = 0; k < PIECES && cases[i].pieces[k]; k++) {
			write_all(pair[1], cases[i].pieces[k]);
			gt_lines_read(&lines, false);
		}
		close(pair[1]);
		gt_lines_read(&lines, true);
		gt_progress_hide(&drawing);
		fclose(terminal);
		rewind(file);
		logged[fread(logged, 1, sizeof(logged) - 1, file)] = '\0';
		fclose(file);
		if (strcmp(shown, cases[i].shown) || strcmp(logged, cases[i].log))
			fail_msg("%s: '%s', and '%s' in the log", cases[i].name, shown, logged);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_cases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
