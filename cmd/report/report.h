/* report.h - the command `gtrain report`: one page of HTML about runs, or curves of text. */
#ifndef GT_CMD_REPORT_REPORT_H
#define GT_CMD_REPORT_REPORT_H

#include "cmd/report/chart.h"

/* A file that the build puts into the program: name and text. */
struct gt_report_file {
	const char *name, *text;
};

/* page.html, page.css and page.js; dygraph.min.js and dygraph.min.css if the package libjs-dygraphs
 * was there. Ended by the name NULL. */
extern const struct gt_report_file gt_report_files[];

/* Return the text of a file, or NULL. */
const char *gt_report_file(const char *name);

/* Everything that a page shows. */
struct gt_report {
	const struct gt_run_set *set;
	const struct gt_charts *charts;
	json_t *differ; /* gt_run_differ() */
	/* the page loads itself again after this time, because it is written anew; 0: never */
	double refresh_s;
};

/* Write the page. A failed write leaves its mark on the stream. Errors: GT_ENOMEM. */
int gt_report_write_page(FILE *out, const struct gt_report *r, struct gt_err *err);

/* Write a user's text into HTML: control characters and characters that change the direction of
 * text become visible escapes, and markup is escaped. gt_report_put_text() puts the text into an
 * element that isolates its direction. */
void gt_report_put_plain(FILE *out, const char *text);
void gt_report_put_text(FILE *out, const char *text);

/* Do the same with a text of several lines, which stay lines. */
void gt_report_put_lines(FILE *out, const char *text);

/* Write a text as a JSON string that can stand in a script element. */
void gt_report_put_json(FILE *out, const char *text);

/* Write the tables and lists of the page: the figures of the runs, the options that differ, and
 * details of each run. Errors: GT_ENOMEM. */
int gt_report_put_summary(FILE *out, const struct gt_report *r, struct gt_err *err);
int gt_report_put_differ(FILE *out, const struct gt_report *r, struct gt_err *err);
int gt_report_put_details(FILE *out, const struct gt_report *r, struct gt_err *err);

/* Write the predictions and the model of a run, as far as its directory has them. */
void gt_report_put_answers(FILE *out, const struct gt_run *run);

/* Write the static picture of a chart: an SVG that fills its box, and labels in HTML around it,
 * which keep their size at any width of the page. */
int gt_report_put_still(
    FILE *out, const struct gt_chart *chart, const struct gt_chart_axis *x, struct gt_err *err);

/* Print the charts as text, `columns` wide: braille if `braille`, else ASCII. */
int gt_report_print_text(FILE *out, const struct gt_charts *charts, size_t columns, bool braille,
    bool color, struct gt_err *err);

extern const struct gt_cmd_work gt_cmd_run_report;

#endif
