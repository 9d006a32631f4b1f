/* log.c - lines for the person who watches. */
#include "lib/base/log.h"

#include <stdarg.h>

#include "lib/base/progress.h"

void gt_log_put(FILE *stream, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p >= 0x20 && *p != 0x7f)
			fputc(*p, stream);
		else if (*p == '\n' || *p == '\t')
			fprintf(stream, "\\%c", *p == '\n' ? 'n' : 't');
		else
			fprintf(stream, "\\x%02x", *p);
	}
}

/* `before` and `after` enclose the line; they may hold colors. */
static void write_line(
    struct gt_log *log, const char *before, const char *after, const char *format, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, ap);
	flockfile(log->stream);
	if (log->progress)
		gt_progress_hide(log->progress);
	fputs(before, log->stream);
	gt_log_put(log->stream, text);
	fprintf(log->stream, "%s\n", after);
	fflush(log->stream);
	funlockfile(log->stream);
}

void gt_log_warn(struct gt_log *log, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	write_line(log, log->color ? "\033[33mwarning:\033[0m " : "warning: ", "", format, ap);
	va_end(ap);
}

void gt_log_info(struct gt_log *log, const char *format, ...)
{
	va_list ap;

	if (log->level < GT_LOG_NORMAL)
		return;
	va_start(ap, format);
	write_line(log, "", "", format, ap);
	va_end(ap);
}

void gt_log_verbose(struct gt_log *log, const char *format, ...)
{
	va_list ap;

	if (log->level < GT_LOG_VERBOSE)
		return;
	va_start(ap, format);
	write_line(log, log->color ? "\033[2m" : "", log->color ? "\033[0m" : "", format, ap);
	va_end(ap);
}
