/* progress.c - the progress line of a long job. */
#include "lib/base/progress.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"

enum { LONGEST = 640, LONGEST_FIELD = 47, BAR_LEAST = 8, BAR_MOST = 30, WIDTH_UNKNOWN = 80 };

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

/* Write "1200/2000" or "1200". */
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

/* Write " ETA 0:21", or " 0:40" if the total is unknown. */
static void print_time(char *out, size_t size, const struct gt_progress *p, int64_t done)
{
	double elapsed = p->now(p->clock) - p->started, left = NAN;
	char time[GT_TEXT_SIZE];

	if (done > p->first && done <= p->total)
		left = elapsed / (double)(done - p->first) * (double)(p->total - done);
	snprintf(out, size, "%s %s", p->total > 0 ? " ETA" : "",
	    gt_text_duration(time, p->total > 0 ? left : elapsed));
}

/* The parts of a line, and which fields are left out because the line is too short. */
struct line {
	char head[LONGEST], percent[16], time[32];
	const struct gt_progress_field *fields;
	int count;
	bool left_out[GT_PROGRESS_FIELDS];
};

static void set_up_line(struct line *line, const struct gt_progress *p, int64_t done,
    const struct gt_progress_field *fields)
{
	*line = (struct line){ .fields = fields };
	while (fields && line->count < GT_PROGRESS_FIELDS && fields[line->count].text)
		line->count++;
	print_head(line->head, sizeof(line->head), p, done);
	if (p->total > 0)
		snprintf(
		    line->percent, sizeof(line->percent), " %d%%", (int)(100 * fraction(p, done)));
	print_time(line->time, sizeof(line->time), p, done);
}

static int line_length(const struct line *line)
{
	size_t length = strlen(line->head) + strlen(line->percent) + strlen(line->time);

	for (int i = 0; i < line->count; i++)
		if (!line->left_out[i])
			length += 1 + strnlen(line->fields[i].text, LONGEST_FIELD);
	return (int)length;
}

/* Leave out the field of the lowest priority, which is at most `most`. Returns false if there is
 * none. */
static bool leave_out_one(struct line *line, int most)
{
	int found = -1;

	for (int i = 0; i < line->count; i++)
		if (!line->left_out[i] && line->fields[i].priority <= most &&
		    (found < 0 || line->fields[i].priority <= line->fields[found].priority))
			found = i;
	if (found >= 0)
		line->left_out[found] = true;
	return found >= 0;
}

/* Make the line fit into `columns`. The bar has priority over extra fields. */
static void fit_line(struct line *line, int columns, bool with_bar)
{
	int bar = with_bar ? BAR_LEAST : 0;

	while (line_length(line) > columns - bar && leave_out_one(line, GT_PROGRESS_EXTRA))
		;
	while (line_length(line) > columns && leave_out_one(line, INT_MAX))
		;
	if (line_length(line) > columns)
		*line->percent = '\0';
}

/* Write " 60% loss 1.93 ETA 0:21". */
static void print_tail(char out[LONGEST], const struct line *line)
{
	int used = snprintf(out, LONGEST, "%s", line->percent);

	for (int i = 0; i < line->count; i++)
		if (!line->left_out[i])
			used += snprintf(out + used, (size_t)(LONGEST - used), " %.*s",
			    LONGEST_FIELD, line->fields[i].text);
	snprintf(out + used, (size_t)(LONGEST - used), "%s", line->time);
}

/* ]" in `width` ==> Write " [=====>   ]" in `width` columns, with brackets and blank. */
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
}

static void draw(struct gt_progress *p, int64_t done, const struct gt_progress_field *fields)
{
	struct line line;
	char tail[LONGEST], bar[BAR_MOST + 1] = "";
	/* The last column stays free: many terminals would break the line there. */
	int columns = gt_progress_columns(p) - 1, used, width;

	set_up_line(&line, p, done, fields);
	fit_line(&line, columns, p->total > 0);
	print_tail(tail, &line);
	used = (int)strlen(line.head);
	width = columns - used - (int)strlen(tail);
	if (p->total > 0 && width >= BAR_LEAST)
		print_bar(bar, fraction(p, done), width < BAR_MOST ? width : BAR_MOST);
	if (used > columns)
		used = columns > 0 ? columns : 0;
	columns -= used + (int)strlen(bar);
	fprintf(p->stream, "\r%.*s%s%s%s%.*s" GT_PROGRESS_ERASE, used, line.head,
	    p->color ? "\033[32m" : "", bar, p->color ? "\033[0m" : "", columns > 0 ? columns : 0,
	    tail);
	fflush(p->stream);
	p->visible = true;
}

bool gt_progress_is_due(const struct gt_progress *p)
{
	double now;

	if (!p || !p->terminal)
		return false;
	now = p->now(p->clock);
	return now - p->drawn >= interval_s && now - p->started >= p->after_s;
}

void gt_progress_update(struct gt_progress *p, int64_t done, const struct gt_progress_field *fields)
{
	if (!gt_progress_is_due(p))
		return;
	p->drawn = p->now(p->clock);
	flockfile(p->stream);
	draw(p, done, fields);
	funlockfile(p->stream);
}

/* Print the line without the bar to `out`, in at most `columns` columns. */
static void print_line(char out[2 * LONGEST], const struct gt_progress *p, int64_t done,
    const struct gt_progress_field *fields, int columns)
{
	struct line line;
	char tail[LONGEST];

	set_up_line(&line, p, done, fields);
	fit_line(&line, columns, false);
	print_tail(tail, &line);
	snprintf(out, 2 * LONGEST, "%s%s", line.head, tail);
}

void gt_progress_print(struct gt_progress *p, int64_t done, const struct gt_progress_field *fields)
{
	bool drawn = p->terminal || p->launcher_columns;
	char whole[2 * LONGEST], shown[2 * LONGEST];

	print_line(whole, p, done, fields, INT_MAX);
	print_line(shown, p, done, fields, drawn ? gt_progress_columns(p) - 1 : INT_MAX);
	flockfile(p->stream);
	if (p->launcher_columns) /* the launcher erases its own line */
		p->drawn = -INFINITY;
	else
		gt_progress_hide(p);
	if (p->launcher_columns && strcmp(whole, shown) != 0)
		fprintf(
		    p->stream, GT_PROGRESS_LOGGED "%s\n" GT_PROGRESS_SHOWN "%s\n", whole, shown);
	else
		fprintf(p->stream, "%s\n", shown);
	fflush(p->stream);
	funlockfile(p->stream);
}

struct gt_progress gt_progress_enter(struct gt_progress *p, const char *unit, int64_t total)
{
	static const double short_s = 1;
	struct gt_progress outer = { 0 };

	if (!p)
		return outer;
	outer = *p;
	p->unit = unit;
	p->total = total;
	p->after_s = short_s;
	gt_progress_start(p, 0);
	return outer;
}

void gt_progress_leave(struct gt_progress *p, const struct gt_progress *outer)
{
	if (!p)
		return;
	gt_progress_hide(p);
	p->unit = outer->unit;
	p->total = outer->total;
	p->after_s = outer->after_s;
	p->started = outer->started;
	p->first = outer->first;
	p->drawn = -INFINITY;
}

void gt_progress_hide(struct gt_progress *p)
{
	if (!p->visible)
		return;
	fputs("\r" GT_PROGRESS_ERASE, p->stream);
	fflush(p->stream);
	p->visible = false;
	p->drawn = -INFINITY; /* the next update draws the line again */
}
