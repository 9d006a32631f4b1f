/* log.h - write messages for the user to a log, an object that functions get as an argument. */
#ifndef GT_BASE_LOG_H
#define GT_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

struct gt_progress;

/* With GT_LOG_QUIET only warnings are written; with GT_LOG_VERBOSE also details. */
enum gt_log_level { GT_LOG_QUIET, GT_LOG_NORMAL, GT_LOG_VERBOSE };

/*
 * A log: the stream for messages, usually standard error. Several threads may use the same log,
 * because each line is written as a whole. The same terminal may also show a progress line, which
 * is redrawn in place (progress.h). A message erases the progress line; the next update draws it
 * again.
 *
 * The formats of messages have no line feed at the end. They may contain names of options in braces
 * (option_names.h). If a message cannot be written, the error is ignored, because results are never
 * written to a log.
 */
struct gt_log {
	FILE *stream; /* NULL: messages are not written */
	enum gt_log_level level;
	bool color;                   /* use colors */
	struct gt_progress *progress; /* the progress line on the same stream, or NULL */
	const char *before_options;   /* text before names of options, such as "--"; or NULL */
};

/*
 * Write text in a form that is safe on a terminal. Names from files and command lines may contain
 * control characters, which a terminal interprets. Control characters are written as escapes such
 * as \n, \t and \x1b. Characters that change the direction of text become escapes such as \u202e,
 * and bytes that are not valid UTF-8 become escapes such as \x9b.
 */
void gt_log_put(FILE *stream, const char *text);

/* The size of the output of gt_log_character(), in bytes. */
enum { GT_LOG_CHARACTER = 16 };
/* Write the first character of `text` to `out`, escaped as gt_log_put() does. `text` must not be
 * empty. Return the number of bytes that the character has in `text`. */
int gt_log_character(char out[GT_LOG_CHARACTER], const char *text);

/* Write "warning: " and a message. Warnings are written at every level. */
void gt_log_warn(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write a message about a completed action. With GT_LOG_QUIET do nothing. */
void gt_log_info(struct gt_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write a message with details. Do nothing unless the level is GT_LOG_VERBOSE. */
void gt_log_verbose(struct gt_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
