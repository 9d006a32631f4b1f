/* log.c - lines for the person at the terminal. */
#include "lib/base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/base/progress.h"
#include "lib/base/text.h"

/* Return whether a terminal obeys this character: a C1 control, or a mark that changes the
 * direction of text, so that one name reads as another. */
static bool is_obeyed(uint32_t code)
{
	return (code >= 0x80 && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
	       (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

int gt_log_character(char out[GT_LOG_CHARACTER], const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t code = *p;
	int n = 1;

	if (code >= 0x80)
		n = gt_text_utf8(p, strnlen(text, 4), &code);
	if (!n) {
		n = 1;
		snprintf(out, GT_LOG_CHARACTER, "\\x%02x", *p); /* not a valid character */
	} else if (code == '\n' || code == '\t') {
		snprintf(out, GT_LOG_CHARACTER, "\\%c", code == '\n' ? 'n' : 't');
	} else if (code < 0x20 || code == 0x7f) {
		snprintf(out, GT_LOG_CHARACTER, "\\x%02x", (unsigned)code);
	} else if (is_obeyed(code)) {
		snprintf(out, GT_LOG_CHARACTER, "\\u%04x", (unsigned)code);
	} else {
		memcpy(out, text, (size_t)n);
		out[n] = '\0';
	}
	return n;
}

void gt_log_put(FILE *stream, const char *text)
{
	char shown[GT_LOG_CHARACTER];

	while (*text) {
		text += gt_log_character(shown, text);
		fputs(shown, stream);
	}
}

/* `before` and `after` enclose the line; they may hold colors. */
static void write_line(
    struct gt_log *log, const char *before, const char *after, const char *format, va_list ap)
{
	const char *mark = log->before_options ? log->before_options : "";
	char text[1024], shown[sizeof(text) + 64];

	if (!log->stream)
		return;
	gt_option_names_vformat(text, sizeof(text), format, ap);
	gt_option_names_render(shown, sizeof(shown), text, mark);
	flockfile(log->stream);
	if (log->progress)
		gt_progress_hide(log->progress);
	fputs(before, log->stream);
	gt_log_put(log->stream, shown);
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
