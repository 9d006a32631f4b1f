/* log.h - lines for the person at the terminal: an object handed down, never a global. */
#ifndef GT_BASE_LOG_H
#define GT_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

struct gt_progress;

enum gt_log_level { GT_LOG_QUIET, GT_LOG_NORMAL, GT_LOG_VERBOSE };

/*
 * Where lines go. Each is written whole, so that threads may share a log; a progress line on the
 * same terminal is taken away first and comes back with its next update. Formats have no line feed
 * at their end, and names of options in braces
 * (option_names.h). A log that cannot be written is not an error: results never go through it.
 */
struct gt_log {
	FILE *stream;
	enum gt_log_level level;
	bool color;
	struct gt_progress *progress; /* drawn on the same stream, or NULL */
	const char *before_options;   /* stands before names of options: "--"; or NULL */
};

/*
 * Write text so that a terminal shows it and obeys none of it: control characters and marks of
 * direction, which names in files and on command lines may hold, come out as \n, \t, \x1b or
 * \u202e, bytes that are not UTF-8 as \x9b.
 */
void gt_log_put(FILE *stream, const char *text);

/* The first character of a text that is not empty, as gt_log_put() shows it; returns how many bytes
 * of the text it is. */
enum { GT_LOG_CHARACTER = 16 };
int gt_log_character(char out[GT_LOG_CHARACTER], const char *text);

/* Always: "warning: ...". */
void gt_log_warn(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Unless quiet: report in one line a thing that was done. */
void gt_log_info(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* With --verbose: how and why. */
void gt_log_verbose(struct gt_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
