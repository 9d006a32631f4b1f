/* log.h - messages on standard error: an object passed to functions, never a global. */
#ifndef GT_BASE_LOG_H
#define GT_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

struct gt_progress;

enum gt_log_level { GT_LOG_QUIET, GT_LOG_NORMAL, GT_LOG_VERBOSE };

/*
 * The destination of messages. Threads may share a log, because each line is written at once. A
 * progress line on the same terminal is erased first, and appears again with its next update.
 * Formats have no line feed at their end, and contain names of options in braces (option_names.h).
 * Failures to write a log are ignored, because results are never written to it.
 */
struct gt_log {
	FILE *stream;
	enum gt_log_level level;
	bool color;
	struct gt_progress *progress; /* a progress line on the same stream, or NULL */
	const char *before_options;   /* stands before names of options: "--"; or NULL */
};

/*
 * Write text so that a terminal does not interpret any part of it. Names in files and on command
 * lines may contain control characters and marks of direction: these are printed as \n, \t, \x1b or
 * \u202e, and bytes that are not UTF-8 as \x9b.
 */
void gt_log_put(FILE *stream, const char *text);

/* Format the first character of a text that is not empty, as gt_log_put() writes it. Returns the
 * number of bytes of the text that it takes. */
enum { GT_LOG_CHARACTER = 16 };
int gt_log_character(char out[GT_LOG_CHARACTER], const char *text);

/* Print "warning: ...", also with --quiet. */
void gt_log_warn(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Report in one line an action that was done, unless --quiet is set. */
void gt_log_info(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print details of how and why, only with --verbose. */
void gt_log_verbose(struct gt_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
