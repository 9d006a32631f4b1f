/* progress.h - print the progress of a long job as one line that is redrawn. */
#ifndef GT_BASE_PROGRESS_H
#define GT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A text in a progress line, after the percentage. */
struct gt_progress_field {
	const char *text; /* ASCII; NULL ends a list of fields */
	/* The order in which fields are left out if the line is too long for the terminal: the
	 * smallest value first, and of two fields with the same value the later one. Fields up to
	 * GT_PROGRESS_EXTRA are shown only if there is also room for the bar. */
	int priority;
};
enum { GT_PROGRESS_EXTRA = 0 };

/* The largest number of fields in a line. */
enum { GT_PROGRESS_FIELDS = 10 };

/*
 * A progress line. On a terminal, one line is redrawn, at most ten times a second:
 *
 *	step 1200/2000 [==========>       ] 60% loss 1.93 17.2k tok/s ETA 0:21
 *
 * If the total is not known, the line has neither the bar nor the estimated time; it shows the time
 * since the start instead. gt_progress_print() prints a line with the same content, but without the
 * bar. This line stays, on a terminal and in a file.
 *
 * A line on a terminal never breaks at the edge. If it is too long, fields are left out, then the
 * percentage. The estimated time is cut only if the terminal is too narrow for the count and the
 * time.
 *
 * No memory is allocated, and the line is drawn by one write. Only one thread may update the line.
 * Other threads may write messages to the same terminal, but only with gt_log_warn() and the other
 * functions of log.h.
 */
struct gt_progress {
	/* The caller sets these fields before gt_progress_start(). */
	FILE *stream;
	bool terminal; /* draw the line; if false, only gt_progress_print() writes */
	bool color;
	int width; /* width of the line in columns; 0: as wide as the terminal */
	/* A launcher starts the processes (ranks) of a job and copies their output to its terminal
	 * (lib/comm/launch/launch.h). If it shows the line of this rank, the width of its terminal
	 * in columns. Otherwise 0. */
	int launcher_columns;
	const char *unit; /* the unit of the work, such as "step" */
	int64_t total;    /* units of work; 0: unknown */
	/* seconds from the start of the job to the first drawing: a shorter job draws nothing */
	double after_s;
	double (*now)(
	    void *); /* returns the seconds of a monotonic clock; NULL: use the system's clock */
	void *clock; /* the argument of `now` */

	/* Private fields. */
	/* started: time of gt_progress_start(); drawn: time of the last drawing; in seconds */
	double started, drawn;
	int64_t first; /* units done before the start; not 0 for a resumed job */
	bool visible;  /* the line is on the terminal now, and no line feed follows it */
};

/* Start to measure the time. `done` units of work were done before, for example before a resumed
 * job. This draws nothing. */
void gt_progress_start(struct gt_progress *p, int64_t done);

/* Return whether gt_progress_update() would draw the line now, so that a caller need not prepare
 * fields in vain. `p` may be NULL. */
bool gt_progress_is_due(const struct gt_progress *p);

/* Redraw the line, unless it was drawn less than 0.1 s ago. `done` is the number of units done.
 * `fields` may be NULL: no fields. Do nothing if `p` is NULL or there is no terminal. */
void gt_progress_update(
    struct gt_progress *p, int64_t done, const struct gt_progress_field *fields);

/* Print the line without the bar, and with a line feed, so that it stays. In a file or a pipe, and
 * in the log of a rank, it has all fields; on a terminal, those that there is room for. */
void gt_progress_print(struct gt_progress *p, int64_t done, const struct gt_progress_field *fields);

/*
 * Begin a job that may be inside of another one, such as an evaluation during training. If the job
 * takes more than a second, its line is shown in place of the other's. Return the state of the
 * outer job, for gt_progress_leave(), which erases the line and continues the outer job. `p` may be
 * NULL: nothing is shown.
 */
struct gt_progress gt_progress_enter(struct gt_progress *p, const char *unit, int64_t total);
void gt_progress_leave(struct gt_progress *p, const struct gt_progress *outer);

/* Marks for the launcher in the output of a rank. GT_PROGRESS_LOGGED is at the start of a line that
 * the launcher writes only to the log, GT_PROGRESS_SHOWN at the start of a line that it writes only
 * to the terminal. GT_PROGRESS_ERASE is at the end of a progress line. */
#define GT_PROGRESS_LOGGED "\r\033[2K"
#define GT_PROGRESS_SHOWN  "\r\033[1K"
#define GT_PROGRESS_ERASE  "\033[K"

/* Return the width of the line in columns: p->width if it is not 0, otherwise p->launcher_columns
 * if it is not 0. If both are 0, ask the terminal for its present width, because windows can be
 * resized. If the terminal does not tell it, return 80. */
int gt_progress_columns(const struct gt_progress *p);

/* Erase the line, so that the caller can print other text. The next update draws the line again. */
void gt_progress_hide(struct gt_progress *p);

#endif
