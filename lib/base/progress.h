/* progress.h - the progress line of a long job. */
#ifndef GT_BASE_PROGRESS_H
#define GT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * On a terminal one line is redrawn, at most ten times a second:
 *
 *	step 1200/2000 [==========>       ] 60% loss 1.93 17.2k tok/s ETA 0:21
 *
 * In a file or a pipe no line is redrawn; the caller prints lines of the same content, without the
 * bar, by gt_progress_print(). If the total is unknown, the time since the start replaces bar and
 * estimate. Nothing is allocated; drawing costs one write. One thread updates the line. Other
 * threads affect it only through gt_log.
 */
struct gt_progress {
	/* The caller sets these fields before gt_progress_start(). */
	FILE *stream;
	bool terminal; /* draw the line; otherwise only gt_progress_print() writes */
	bool color;
	int width;        /* columns; 0: ask the terminal before each drawing */
	int lent;         /* columns of the launcher's terminal (comm/launch/launch.h); 0: none */
	const char *unit; /* "step" */
	int64_t total;    /* 0: unknown */
	double (*now)(
	    void *); /* seconds on a clock that never runs backwards; NULL: the system's */
	void *clock; /* its argument */

	/* Private fields. */
	double started, drawn;
	int64_t first; /* units done at the start, not 0 for a resumed job */
	bool visible;  /* the line is on the terminal, without line feed */
};

/* Start the clock, with `done` units done before. Draws nothing. */
void gt_progress_start(struct gt_progress *p, int64_t done);

/* Redraw the line, unless the last time was less than a tenth of a second ago. `detail` (ASCII, may
 * be "") follows the percentage. */
void gt_progress_update(struct gt_progress *p, int64_t done, const char *detail);

/* Print a line that stays, on terminals too. On the launcher's terminal it goes only to the rank's
 * log. */
void gt_progress_print(struct gt_progress *p, int64_t done, const char *detail);

/* The mark at the start of a line that the launcher writes only to the log, and the mark at the end
 * of a progress line. */
#define GT_PROGRESS_LOGGED "\r\033[2K"
#define GT_PROGRESS_ERASE  "\033[K"

/* The width of the terminal now, since windows can be resized: p->width or p->lent if set, and 80
 * if the stream does not tell. */
int gt_progress_columns(const struct gt_progress *p);

/* Erase the line, so that other text can be printed. */
void gt_progress_hide(struct gt_progress *p);

#endif
