/* watch.h - print a report again and again, and mark what has changed since the previous one. */
#ifndef GT_CMD_PROBE_WATCH_H
#define GT_CMD_PROBE_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

typedef int gt_probe_report_fn(void *self, FILE *out, struct gt_err *err);

struct gt_probe_watch {
	double seconds; /* pause between two reports */
	/* draw each report over the previous one, on a terminal */
	bool draw;
	bool color;    /* mark changed words by reverse video, not changed lines by '*' */
	bool no_marks; /* no marks, no line with the time */
	gt_probe_report_fn *report; /* writes one report */
	void *self;                 /* for `report` */
};

/* Print reports to standard output until SIGINT. */
int gt_probe_watch(const struct gt_probe_watch *watch, struct gt_err *err);

#endif
