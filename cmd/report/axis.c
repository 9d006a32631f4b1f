/* axis.c - ranges and ticks of the axes of charts, and texts of their numbers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/chart.h"

/* The least number of the form 1, 2 or 5 times a power of 10 that is not below `x`. */
static double round_step(double x)
{
	double power = pow(10, floor(log10(x))), digit = x / power;

	return power * (digit <= 1.000001 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* Put the ticks inside of a range. */
static void set_ticks(struct gt_chart_axis *a, int most, double least_step)
{
	double step = round_step(fmax((a->high - a->low) / (most - 1), least_step));
	double first = ceil(a->low / step - 1e-9);

	a->count = 0;
	for (int i = 0; i < most && (first + i) * step <= a->high + 1e-9 * step; i++)
		a->tick[a->count++] = (first + i) * step;
}

/* A range of one number gets a width, so that the curve stands in its middle. */
static void widen(struct gt_chart_axis *a)
{
	double least = fmax(1e-3 * fmax(fabs(a->low), fabs(a->high)), 1e-300);

	if (a->high - a->low < least) {
		a->low -= least;
		a->high += least;
	}
}

struct gt_chart_axis gt_chart_y_axis(const struct gt_chart *chart, int most)
{
	struct gt_chart_axis a = { .low = INFINITY, .high = -INFINITY };
	double pad;

	for (size_t s = 0; s < chart->count; s++)
		for (size_t i = 0; i < chart->series[s].count; i++) {
			a.low = fmin(a.low, chart->series[s].y[i]);
			a.high = fmax(a.high, chart->series[s].y[i]);
		}
	if (chart->zero && a.low >= 0) {
		a.low = 0;
		a.high = a.high > 0 ? 1.06 * a.high : 1;
	} else {
		widen(&a);
		pad = 0.04 * (a.high - a.low);
		a.low -= pad;
		a.high += pad;
	}
	if (!isfinite(a.high - a.low)) { /* numbers near the largest of a double */
		a.low = fmax(a.low, -DBL_MAX / 4);
		a.high = fmin(a.high, DBL_MAX / 4);
	}
	set_ticks(&a, most, 0);
	return a;
}

/* Extend a range by the steps of a chart. */
static void add_steps(struct gt_chart_axis *a, const struct gt_chart *chart)
{
	for (size_t s = 0; s < chart->count; s++) {
		const struct gt_series *series = &chart->series[s];

		a->low = fmin(a->low, series->step[0]);
		a->high = fmax(a->high, series->step[series->count - 1]);
	}
}

struct gt_chart_axis gt_chart_x_axis(const struct gt_charts *charts, int most)
{
	struct gt_chart_axis a = { .low = INFINITY, .high = -INFINITY };

	for (size_t c = 0; c < charts->count; c++)
		add_steps(&a, &charts->chart[c]);
	if (a.low <= 0.2 * a.high)
		a.low = 0;
	if (a.high - a.low < 1) {
		a.low -= a.low >= 1;
		a.high += 1;
	}
	set_ticks(&a, most, 1);
	return a;
}

double gt_chart_down(const struct gt_chart_axis *y, double value)
{
	value = fmin(fmax(value, y->low), y->high);
	return (y->high - value) / (y->high - y->low);
}

const char *gt_chart_number(char out[GT_TEXT_SIZE], enum gt_chart_format format, double value)
{
	if (format == GT_CHART_COUNT && value >= 0)
		return gt_text_count(out, value);
	snprintf(out, GT_TEXT_SIZE, format == GT_CHART_PERCENT ? "%.2f" : "%.4g", value);
	return out;
}

const char *gt_chart_tick(char out[GT_TEXT_SIZE], const struct gt_chart_axis *axis,
    enum gt_chart_format format, double value)
{
	double step = axis->count > 1 ? axis->tick[1] - axis->tick[0] : fabs(value);
	int decimals = step > 0 ? (int)fmax(0, -floor(log10(step) + 1e-9)) : 0;
	/* As many digits as tell a tick from the next: 1.0005 and 1.001 are both 1 with three. */
	int digits =
	    value && step > 0 ? (int)(floor(log10(fabs(value))) - floor(log10(step) + 1e-9)) : 0;

	if (format == GT_CHART_COUNT && value >= 0)
		return gt_text_count(out, value);
	if (fabs(value) < 1e-9 * step)
		snprintf(out, GT_TEXT_SIZE, "0");
	else if (decimals > 3 || fabs(value) >= 1e5)
		snprintf(out, GT_TEXT_SIZE, "%.*g", (int)fmin(fmax(digits + 1, 3), 15), value);
	else
		snprintf(out, GT_TEXT_SIZE, "%.*f", decimals, value);
	return out;
}

const char *gt_chart_steps(char out[GT_TEXT_SIZE], double steps)
{
	if (steps >= 10000)
		return gt_text_count(out, steps);
	snprintf(out, GT_TEXT_SIZE, "%.0f", steps);
	return out;
}
