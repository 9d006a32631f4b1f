/* watch.h - print a report repeatedly, and mark changes. */
#ifndef GT_CMD_PROBE_WATCH_H
#define GT_CMD_PROBE_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* Write one report to `out`. */
typedef int gt_probe_report_fn(void *self, FILE *out, struct gt_err *err);

struct gt_probe_watch {
	double seconds; /* seconds from one report to the next */
	/* draw each report over the previous one, on a terminal; else print it below */
	bool draw;
	bool color; /* changed words in reverse video; else '*' before changed lines */
	bool bare;  /* print no marks and times, because reports are documents */
	gt_probe_report_fn *report;
	void *self;
};

/*
 * Print reports to standard output until SIGINT, then return 0. Each word is compared with the word
 * at the same place of the previous report. Errors: those of the report; GT_ENOMEM; GT_EIO if
 * standard output cannot be written.
 */
int gt_probe_watch(const struct gt_probe_watch *watch, struct gt_err *err);

#endif
