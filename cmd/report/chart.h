/* chart.h - the charts of a report: thinned series of numbers, and ticks of their axes. */
#ifndef GT_CMD_REPORT_CHART_H
#define GT_CMD_REPORT_CHART_H

#include "cmd/run_set.h"
#include "lib/base/text.h"

/* The largest number of points of a series in a page, and of colors. */
enum { GT_CHART_POINTS = 4000, GT_CHART_COLORS = 8, GT_CHART_LABEL = 600 };

/* How the numbers of a chart are written. */
enum gt_chart_format {
	GT_CHART_PLAIN,   /* 4 significant digits */
	GT_CHART_PERCENT, /* two decimals */
	GT_CHART_COUNT    /* 17.2k */
};

/* One curve. The numbers are finite, and the steps ascend. */
struct gt_series {
	char label[GT_CHART_LABEL];
	int color; /* 0 to GT_CHART_COLORS - 1 */
	int dash;  /* 0: a solid line; other numbers: patterns */
	bool dots; /* there are few points: mark each */
	size_t count;
	double *step, *time, *y; /* [count]; a time may be NaN: not known */
	/* number of values that are NaN or infinite, so that the curve lacks them */
	size_t nulls;
};

struct gt_chart {
	const char *id, *title, *unit; /* for programs, and for people; the unit may be "" */
	enum gt_chart_format format;
	bool zero;   /* the axis of y begins at 0 */
	bool steady; /* the curves have no noise that smoothing would take away */
	size_t count;
	struct gt_series *series; /* [count] */
};

/* The charts of runs for which they have numbers. */
struct gt_charts {
	size_t count;
	struct gt_chart *chart; /* [count] */
	struct gt_arena arena;
};

/* Make the charts of runs. The caller releases *out, also after an error. Errors: GT_ENOMEM. */
int gt_charts_make(struct gt_charts *out, const struct gt_run_set *set, struct gt_err *err);
void gt_charts_release(struct gt_charts *charts);

/*
 * Thin a series to at most `most` points (at least 4). Its rows are divided into groups of equal
 * size, of which the lowest and the highest point stay, beside the first and the last point of all.
 * `keep` receives the indices of the rows in ascending order. Return their number.
 */
size_t gt_chart_thin(size_t *keep, const double *y, size_t count, size_t most);

enum { GT_CHART_TICKS = 12 };

/* The range of an axis, and the numbers at its ticks: multiples of 1, 2 or 5 times a power of
 * 10. */
struct gt_chart_axis {
	double low, high;
	int count;
	double tick[GT_CHART_TICKS];
};

/* Make the axis of y of a chart, and the axis of steps that all charts share, with at most `most`
 * ticks (at most GT_CHART_TICKS). */
struct gt_chart_axis gt_chart_y_axis(const struct gt_chart *chart, int most);
struct gt_chart_axis gt_chart_x_axis(const struct gt_charts *charts, int most);

/* Return the place of a number of y below the top of the axis, from 0 to 1. A number beyond the
 * axis is at its end. */
double gt_chart_down(const struct gt_chart_axis *y, double value);

/* Write a number of a chart, a number at a tick of y, and a number of steps. Return `out`. */
const char *gt_chart_number(char out[GT_TEXT_SIZE], enum gt_chart_format format, double value);
const char *gt_chart_tick(char out[GT_TEXT_SIZE], const struct gt_chart_axis *axis,
    enum gt_chart_format format, double value);
const char *gt_chart_steps(char out[GT_TEXT_SIZE], double steps);

#endif
