/* watch.c - print a report repeatedly, and mark changes. */
#include "cmd/probe/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define HOME      "\033[H"
#define CLEAR     "\033[2J"
#define CLEAR_END "\033[J"   /* clear to the end of the screen */
#define ERASE_END "\033[K"   /* clear to the end of the line */
#define WRAP_OFF  "\033[?7l" /* long lines are cut */
#define WRAP_ON   "\033[?7h"
#define MARK_ON   "\033[7m"
#define MARK_OFF  "\033[27m"

/* Part of a report. */
struct slice {
	const char *text;
	size_t length;
};

/* Take the first slice of `rest` that ends at one of `ends` or with the text. */
static struct slice take_slice(const char **rest, const char *ends)
{
	struct slice s = { *rest, strcspn(*rest, ends) };

	*rest += s.length;
	return s;
}

static bool same(struct slice a, struct slice b)
{
	return a.length == b.length && !memcmp(a.text, b.text, a.length);
}

static struct slice next_line(const char **rest)
{
	struct slice line = take_slice(rest, "\n");

	*rest += **rest == '\n';
	return line;
}

/* The words of a line, each in reverse video unless the line before has it in the same place. */
static void put_words(struct slice line, const char *before)
{
	const char *end = line.text + line.length;

	for (const char *at = line.text; at < end;) {
		struct slice word, old;
		size_t blanks = strspn(at, " ");

		fwrite(at, 1, blanks, stdout);
		at += blanks;
		before += strspn(before, " ");
		word = take_slice(&at, " \n");
		old = take_slice(&before, " \n");
		if (!word.length || same(word, old)) {
			fwrite(word.text, 1, word.length, stdout);
			continue;
		}
		fputs(MARK_ON, stdout);
		fwrite(word.text, 1, word.length, stdout);
		fputs(MARK_OFF, stdout);
	}
}

/* `before` is the report before, or NULL. Lines beyond the last one that fits are left out. */
static void put_report(
    const struct gt_probe_watch *watch, const char *report, const char *before, size_t lines)
{
	const char *end = watch->draw ? ERASE_END "\n" : "\n";

	for (size_t i = 0; *report && i < lines; i++) {
		struct slice line = next_line(&report);
		const char *old = before ? before : line.text;
		bool changed = !same(line, before ? next_line(&before) : line);

		if (watch->color && changed)
			put_words(line, old);
		else
			printf("%s%.*s",
			    watch->color ? ""
			    : changed    ? "* "
			                 : "  ",
			    (int)line.length, line.text);
		fputs(end, stdout);
	}
}

static size_t lines_that_fit(const struct gt_probe_watch *watch)
{
	struct winsize size;

	if (!watch->draw || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 3)
		return SIZE_MAX;
	return size.ws_row - 2u; /* the line of the time, and that of the cursor */
}

static void put_time(const struct gt_probe_watch *watch)
{
	time_t now = time(NULL);
	char text[64] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s, every %g s%s\n", text, watch->seconds,
	    watch->draw ? "; Ctrl-C ends" ERASE_END : "");
}

static int print_report(
    const struct gt_probe_watch *watch, const char *report, const char *before, struct gt_err *err)
{
	if (watch->no_marks) {
		fputs(report, stdout);
	} else {
		if (watch->draw)
			fputs(before ? WRAP_OFF HOME : WRAP_OFF CLEAR HOME, stdout);
		else if (before)
			putchar('\n');
		put_time(watch);
		put_report(watch, report, before, lines_that_fit(watch));
		if (watch->draw)
			fputs(CLEAR_END WRAP_ON, stdout);
	}
	if (fflush(stdout) || ferror(stdout))
		return gt_err_sys(err, "cannot write the report");
	return 0;
}

static int make_report(char **out, const struct gt_probe_watch *watch, struct gt_err *err)
{
	size_t size;
	FILE *f = open_memstream(out, &size);
	int rc;

	if (!f)
		return gt_err_set(err, GT_ENOMEM, "no memory for a report");
	rc = watch->report(watch->self, f, err);
	if (fclose(f) && !rc)
		rc = gt_err_set(err, GT_ENOMEM, "no memory for a report");
	return rc;
}

/* Whether SIGINT, which is blocked, came in this time. Other signals end the process or do nothing,
 * and then the wait is shorter. */
static bool interrupted(double seconds, const sigset_t *signals)
{
	struct timespec time = { .tv_sec = (time_t)seconds };

	time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
	return sigtimedwait(signals, NULL, &time) == SIGINT;
}

int gt_probe_watch(const struct gt_probe_watch *watch, struct gt_err *err)
{
	char *report = NULL, *before = NULL;
	sigset_t signals, mask;
	int rc = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	do {
		free(before);
		before = report;
		report = NULL;
		rc = make_report(&report, watch, err);
		if (!rc)
			rc = print_report(watch, report, before, err);
	} while (!rc && !interrupted(watch->seconds, &signals));
	sigprocmask(SIG_SETMASK, &mask, NULL);
	free(report);
	free(before);
	return rc;
}
