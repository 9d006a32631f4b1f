/* lines.c - standard error of ranks: read by lines, written to their logs and to the launcher's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/comm/launch/job.h"

/* A log that cannot be written is said once, and the job goes on. */
static void write_log(struct gt_lines *lines, const char *bytes, size_t size)
{
	while (size && lines->to >= 0) {
		ssize_t n = write(lines->to, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			gt_log_warn(lines->log, "cannot write a rank's log: %s", strerror(errno));
			close(lines->to);
			lines->to = -1;
			return;
		}
		bytes += n;
		size -= (size_t)n;
	}
}

static void show_line(struct gt_log *log, const char *before, const char *line, size_t size)
{
	flockfile(log->stream);
	if (log->progress)
		gt_progress_hide(log->progress);
	fputs(before, log->stream);
	fwrite(line, 1, size, log->stream);
	fputc('\n', log->stream);
	fflush(log->stream);
	funlockfile(log->stream);
}

static void end_line(struct gt_lines *lines, struct gt_log *show)
{
	char *last = lines->last[lines->count++ % GT_LAST_LINES];
	size_t size = lines->used < GT_LAST_LINE_BYTES ? lines->used : GT_LAST_LINE_BYTES - 1;

	memcpy(last, lines->line, size);
	last[size] = '\0';
	if (show)
		show_line(show, lines->before, lines->line, lines->used);
	lines->used = 0;
}

static void drop_front(struct gt_lines *lines, size_t bytes)
{
	lines->used -= bytes;
	memmove(lines->line, lines->line + bytes, lines->used);
}

/* The text behind a drawing, or in its place: behind the last character that ends a drawing. */
static void cut_drawing(struct gt_lines *lines)
{
	const size_t n = sizeof(GT_PROGRESS_ERASE) - 1;
	size_t end = lines->used;

	while (end >= n && memcmp(lines->line + end - n, GT_PROGRESS_ERASE, n))
		end--;
	drop_front(lines, end < n ? lines->used : end); /* < n: it was not complete */
}

/* Cut off a mark at the start of the line, behind a carriage return; false: it is not there. */
static bool cut_mark(struct gt_lines *lines, const char *mark)
{
	const size_t n = strlen(++mark); /* without the carriage return */

	if (!lines->drawing || lines->used < n || memcmp(lines->line, mark, n))
		return false;
	drop_front(lines, n);
	return true;
}

/* A line longer than our buffer is cut into several, though not in the log. */
static void take_line(struct gt_lines *lines, bool whole)
{
	bool only_logged = cut_mark(lines, GT_PROGRESS_LOGGED);
	bool only_shown = !only_logged && cut_mark(lines, GT_PROGRESS_SHOWN);

	if (lines->drawing && !only_logged && !only_shown)
		cut_drawing(lines);
	lines->drawing = false;
	if (!only_shown) {
		write_log(lines, lines->line, lines->used);
		if (whole)
			write_log(lines, "\n", 1);
	}
	end_line(lines, only_logged ? NULL : lines->show);
}

/* Whether a carriage return would begin a drawing: not inside of a line. */
static bool at_drawing(const struct gt_lines *lines)
{
	size_t n = sizeof(GT_PROGRESS_ERASE) - 1;

	if (!lines->may_draw || !lines->used)
		return lines->may_draw;
	return lines->drawing && lines->used >= n &&
	       !memcmp(lines->line + lines->used - n, GT_PROGRESS_ERASE, n);
}

static void take_line_bytes(struct gt_lines *lines, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == '\r' && at_drawing(lines)) {
			lines->drawing = true;
			lines->used = 0;
			continue;
		}
		if (bytes[i] != '\n')
			lines->line[lines->used++] = bytes[i];
		if (bytes[i] == '\n' || lines->used == GT_LINE_BYTES)
			take_line(lines, bytes[i] == '\n');
	}
}

/* Draw as many columns as fit now: rank 0 knows only how wide the terminal was. The drawing may be
 * incomplete, as pipes may cut it (progress.c writes it in one piece). */
static void show_drawing(const struct gt_lines *lines)
{
	struct gt_log *log = lines->show;
	size_t columns = (size_t)gt_progress_columns(log->progress) - 1;
	bool fits = lines->used <= columns + sizeof(GT_PROGRESS_ERASE) - 1;

	flockfile(log->stream);
	fputc('\r', log->stream);
	fwrite(lines->line, 1, fits ? lines->used : columns, log->stream);
	if (!fits)
		fputs("\033[0m" GT_PROGRESS_ERASE, log->stream); /* perhaps there was a color */
	fflush(log->stream);
	log->progress->visible = true;
	funlockfile(log->stream);
}

void gt_lines_read(struct gt_lines *lines, bool last)
{
	char bytes[16384];
	bool open = lines->from >= 0, more = false;

	/* A pipe holds 64 KiB. A rank that keeps writing must not keep the launcher from the
	 * others. */
	for (int i = 0; open && i < (last ? 8 : 4); i++) {
		ssize_t n = read(lines->from, bytes, sizeof(bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		open = n > 0;
		if (open)
			take_line_bytes(lines, bytes, (size_t)n);
		more = more || open;
	}
	if (more && lines->drawing)
		show_drawing(lines);
	if (!open || last)
		gt_lines_close(lines);
}

static const char *line_at(const struct gt_lines *lines, size_t k)
{
	return lines->last[k % GT_LAST_LINES];
}

void gt_lines_repeat(const struct gt_lines *lines, int rank, struct gt_log *log)
{
	size_t first = lines->count > GT_LAST_LINES ? lines->count - GT_LAST_LINES : 0;
	char before[24];

	snprintf(before, sizeof(before), "rank %d: ", rank);
	for (size_t i = first; i < lines->count; i++) {
		const char *line = line_at(lines, i);

		show_line(log, before, line, strlen(line));
	}
}

/* The number of the line at which the last error begins; lines->count: there is none. */
static size_t find_error(const struct gt_lines *lines)
{
	size_t first = lines->count > GT_LAST_LINES ? lines->count - GT_LAST_LINES : 0;

	for (size_t k = lines->count; k-- > first;)
		if (!strncmp(line_at(lines, k), GT_LAUNCH_PROGRAM, strlen(GT_LAUNCH_PROGRAM)) &&
		    strstr(line_at(lines, k), GT_LAUNCH_ERROR))
			return k;
	return lines->count;
}

bool gt_lines_has_error(const struct gt_lines *lines)
{
	return find_error(lines) < lines->count;
}

bool gt_lines_same_error(const struct gt_lines *a, const struct gt_lines *b)
{
	size_t i = find_error(a), j = find_error(b);

	if (i == a->count || a->count - i != b->count - j)
		return false;
	while (i < a->count && !strcmp(line_at(a, i), line_at(b, j)))
		i++, j++;
	return i == a->count;
}

void gt_lines_close(struct gt_lines *lines)
{
	if (lines->drawing)
		cut_drawing(lines);
	lines->drawing = false;
	if (lines->used)
		take_line(lines, false);
	if (lines->from >= 0)
		close(lines->from);
	if (lines->to >= 0)
		close(lines->to);
	lines->from = lines->to = -1;
}
