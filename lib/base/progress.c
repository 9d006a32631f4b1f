/* progress.c - the progress line of a long job. */
#include "lib/base/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"

enum { LONGEST = 240, BAR_LEAST = 8, BAR_MOST = 30, WIDTH_UNKNOWN = 80 };

static const double interval_s = 0.1;

static double system_clock(void *unused)
{
	(void)unused;
	return gt_clock_s();
}

int gt_progress_columns(const struct gt_progress *p)
{
	struct winsize size;

	if (p->width > 0 || p->launcher_columns > 0)
		return p->width > 0 ? p->width : p->launcher_columns;
	if (ioctl(fileno(p->stream), TIOCGWINSZ, &size) || !size.ws_col)
		return WIDTH_UNKNOWN;
	return size.ws_col;
}

/* "1200/2000" or "1200". */
static int print_head(char *out, size_t size, const struct gt_progress *p, int64_t done)
{
	if (p->total > 0)
		return snprintf(
		    out, size, "%s %lld/%lld", p->unit, (long long)done, (long long)p->total);
	return snprintf(out, size, "%s %lld", p->unit, (long long)done);
}

static double fraction(const struct gt_progress *p, int64_t done)
{
	double f = (double)done / (double)p->total;

	return f < 0 ? 0 : f > 1 ? 1 : f;
}

/* " 60% loss 1.93 ETA 0:21", or " loss 1.93 0:40" where the total is unknown. */
static void print_tail(
    char *out, size_t size, const struct gt_progress *p, int64_t done, const char *detail)
{
	double elapsed = p->now(p->clock) - p->started, left = NAN;
	char time[GT_TEXT_SIZE];
	const char *space = *detail ? " " : "";

	if (p->total <= 0) {
		snprintf(out, size, "%s%.160s %s", space, detail, gt_text_duration(time, elapsed));
		return;
	}
	if (done > p->first && done <= p->total)
		left = elapsed / (double)(done - p->first) * (double)(p->total - done);
	snprintf(out, size, " %d%%%s%.160s ETA %s", (int)(100 * fraction(p, done)), space, detail,
	    gt_text_duration(time, left));
}

/* " [=====>   ]" in `width` columns, brackets and blank included. */
static void print_bar(char *out, double f, int width)
{
	int inner = width - 3, full = (int)(f * inner);

	memcpy(out, " [", 2);
	memset(out + 2, '=', (size_t)full);
	memset(out + 2 + full, ' ', (size_t)(inner - full));
	if (full < inner)
		out[2 + full] = '>';
	memcpy(out + 2 + inner, "]", 2);
}

void gt_progress_start(struct gt_progress *p, int64_t done)
{
	if (!p->now)
		p->now = system_clock;
	p->started = p->now(p->clock);
	p->drawn = -INFINITY;
	p->first = done;
	p->visible = false;
}

static void draw(struct gt_progress *p, int64_t done, const char *detail)
{
	char head[LONGEST], tail[LONGEST], bar[BAR_MOST + 1] = "";
	/* The last column stays free: many terminals would break the line there. */
	int columns = gt_progress_columns(p) - 1, used = print_head(head, sizeof(head), p, done),
	    width;

	print_tail(tail, sizeof(tail), p, done, detail);
	width = columns - used - (int)strlen(tail);
	if (p->total > 0 && width >= BAR_LEAST)
		print_bar(bar, fraction(p, done), width < BAR_MOST ? width : BAR_MOST);
	if (used > columns)
		used = columns > 0 ? columns : 0;
	columns -= used + (int)strlen(bar);
	fprintf(p->stream, "\r%.*s%s%s%s%.*s" GT_PROGRESS_ERASE, used, head,
	    p->color ? "\033[32m" : "", bar, p->color ? "\033[0m" : "", columns > 0 ? columns : 0,
	    tail);
	fflush(p->stream);
	p->visible = true;
}

void gt_progress_update(struct gt_progress *p, int64_t done, const char *detail)
{
	double now;

	if (!p->terminal)
		return;
	now = p->now(p->clock);
	if (now - p->drawn < interval_s)
		return;
	p->drawn = now;
	flockfile(p->stream);
	draw(p, done, detail);
	funlockfile(p->stream);
}

void gt_progress_print(struct gt_progress *p, int64_t done, const char *detail)
{
	char head[LONGEST], tail[LONGEST];

	print_head(head, sizeof(head), p, done);
	print_tail(tail, sizeof(tail), p, done, detail);
	flockfile(p->stream);
	if (p->launcher_columns)
		fputs(GT_PROGRESS_LOGGED, p->stream);
	else
		gt_progress_hide(p);
	fprintf(p->stream, "%s%s\n", head, tail);
	fflush(p->stream);
	funlockfile(p->stream);
}

void gt_progress_hide(struct gt_progress *p)
{
	if (!p->visible)
		return;
	fputs("\r" GT_PROGRESS_ERASE, p->stream);
	fflush(p->stream);
	p->visible = false;
	p->drawn = -INFINITY; /* it comes back with the next update */
}
