/* watch.h - print a report again and again, and mark what has changed since the previous one. */
#ifndef GT_CMD_PROBE_WATCH_H
#define GT_CMD_PROBE_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* Write one report to `out`. `self` is the pointer that the caller stored in
 * gt_probe_watch.self. */
typedef int gt_probe_report_fn(void *self, FILE *out, struct gt_err *err);

struct gt_probe_watch {
	double seconds; /* pause between two reports */
	/* draw each report over the previous one; standard output must be a terminal */
	bool draw;
	/* Mark changed words by reverse video; without `color`, mark changed lines by '*'. */
	bool color;
	bool no_marks;              /* print only the reports: no marks, no line with the time */
	gt_probe_report_fn *report; /* writes a report */
	void *self;                 /* the first argument of `report` */
};

/*
 * Print reports to standard output until the process gets SIGINT; then return 0. To find changes,
 * each line and each word is compared with the line or word at the same place in the previous
 * report. Errors: the errors of watch->report; GT_ENOMEM; GT_EIO if standard output cannot be
 * written.
 */
int gt_probe_watch(const struct gt_probe_watch *watch, struct gt_err *err);

#endif
