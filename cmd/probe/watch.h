/* watch.h - a report over and over, with marks on all that has changed. */
#ifndef GT_CMD_PROBE_WATCH_H
#define GT_CMD_PROBE_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* Write one report to `out`. */
typedef int gt_probe_report_fn(void *self, FILE *out, struct gt_err *err);

struct gt_probe_watch {
	double seconds; /* from one report to the next */
	bool draw;      /* to a terminal: in the place of the one before; else below it */
	bool color;     /* changed words in reverse video; else '*' before changed lines */
	bool bare;      /* neither marks nor times: reports are documents */
	gt_probe_report_fn *report;
	void *self;
};

/*
 * Print reports to standard output until SIGINT, which is no error: 0. Words are compared with
 * those in the same place of the report before. Errors: those of the report; GT_ENOMEM; GT_EIO
 * where standard output takes no more.
 */
int gt_probe_watch(const struct gt_probe_watch *watch, struct gt_err *err);

#endif
