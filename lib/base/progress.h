/* progress.h - one line that says how far a long job is. */
#ifndef GT_BASE_PROGRESS_H
#define GT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * On a terminal one line is drawn over and over, at most ten times a second:
 *
 *	step 1200/2000 [==========>       ] 60% loss 1.93 17.2k tok/s ETA 0:21
 *
 * Elsewhere (a file, a pipe) nothing moves: the caller decides with gt_progress_print() when a line
 * of the same content, without the bar, is worth its place. Where the total is unknown, bar and
 * estimate give way to the time since the start. Nothing is allocated; drawing costs one write. One
 * thread updates; others reach the line through gt_log only.
 */
struct gt_progress {
	/* The caller's, set before gt_progress_start(). */
	FILE *stream;
	bool terminal; /* draw; else only gt_progress_print() writes */
	bool color;
	int width;        /* columns; 0: ask the terminal before each drawing */
	int lent;         /* columns of the launcher's terminal (comm/launch/launch.h); 0: none */
	const char *unit; /* "step" */
	int64_t total;    /* 0: unknown */
	double (*now)(
	    void *); /* seconds on a clock that never runs backwards; NULL: the system's */
	void *clock; /* its argument */

	/* The object's own. */
	double started, drawn;
	int64_t first; /* done at the start: a resumed job does not begin at 0 */
	bool visible;  /* a line stands on the terminal, without line feed */
};

/* Begin to count time, with `done` units behind us. Draws nothing. */
void gt_progress_start(struct gt_progress *p, int64_t done);

/* Draw if it is time to. `detail` (ASCII, may be "") follows the percentage. */
void gt_progress_update(struct gt_progress *p, int64_t done, const char *detail);

/* A line that stays, on a terminal as elsewhere; where that is lent, in the log alone. */
void gt_progress_print(struct gt_progress *p, int64_t done, const char *detail);

/* The beginning of a line that is for a launcher's log alone; and the end of a drawing. */
#define GT_PROGRESS_LOGGED "\r\033[2K"
#define GT_PROGRESS_ERASE  "\033[K"

/* How wide the terminal is now, for people resize windows: width or lent, where that is set; 80,
 * where the stream does not tell. */
int gt_progress_columns(const struct gt_progress *p);

/* Take the line off the terminal: something else wants to write there. */
void gt_progress_hide(struct gt_progress *p);

#endif
