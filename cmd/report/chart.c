/* chart.c - make the charts of runs. */
#include "cmd/report/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A curve of a few points marks each; an evaluation is worth a mark more often. */
enum { CURVES = 4, FEW_POINTS = 3, FEW_EVALUATIONS = 60 };

#define MIB (1.0 / (1 << 20))

/* A curve of a chart: the key of metrics.jsonl, and its name in a legend. */
struct curve {
	bool val;
	enum gt_run_key key;
	const char *label; /* NULL: ends the list */
	/* a run that has this key does not show the curve; the key itself: all show it */
	enum gt_run_key unless;
};

/* Flags of a chart: the axis of y begins at 0; the curves have no noise to smooth; the numbers are
 * MiB, or GiB where the highest of them is 1 GiB or more. */
enum { ZERO = 1, STEADY = 2, BYTES = 4 };

/* The charts, in the order of the page. A number is multiplied by `scale`. */
static const struct row {
	const char *id, *title, *unit;
	enum gt_chart_format format;
	unsigned flags;
	double scale;
	struct curve curve[CURVES + 1];
} rows[] = {
	{ "loss", "Loss", "", GT_CHART_PLAIN, 0, 1,
	    { { false, GT_RUN_LOSS, "training", GT_RUN_LOSS },
	        { true, GT_RUN_LOSS, "validation", GT_RUN_LOSS } } },
	{ "accuracy", "Accuracy", "%, validation", GT_CHART_PERCENT, 0, 100,
	    { { true, GT_RUN_TOP1, "top-1", GT_RUN_TOP1 },
	        { true, GT_RUN_TOP5, "top-5", GT_RUN_TOP5 } } },
	{ "perplexity", "Perplexity", "validation", GT_CHART_PLAIN, 0, 1,
	    { { true, GT_RUN_PERPLEXITY, "perplexity", GT_RUN_PERPLEXITY } } },
	{ "labels", "Labels", "%, validation", GT_CHART_PERCENT, 0, 100,
	    { { true, GT_RUN_ACCURACY, "accuracy", GT_RUN_ACCURACY },
	        { true, GT_RUN_PRECISION, "precision", GT_RUN_PRECISION },
	        { true, GT_RUN_RECALL, "recall", GT_RUN_RECALL },
	        { true, GT_RUN_F1, "F1", GT_RUN_F1 } } },
	{ "error", "Error", "validation", GT_CHART_PLAIN, ZERO, 1,
	    { { true, GT_RUN_MSE, "mean squared", GT_RUN_MSE },
	        { true, GT_RUN_MAE, "mean absolute", GT_RUN_MAE } } },
	{ "r2", "R²", "validation", GT_CHART_PLAIN, 0, 1,
	    { { true, GT_RUN_R2, "R²", GT_RUN_R2 } } },
	{ "lr", "Learning rate", "", GT_CHART_PLAIN, ZERO | STEADY, 1,
	    { { false, GT_RUN_LR, "learning rate", GT_RUN_LR } } },
	{ "grad-norm", "Gradient norm", "before clipping", GT_CHART_PLAIN, ZERO, 1,
	    { { false, GT_RUN_GRAD_NORM, "gradient norm", GT_RUN_GRAD_NORM } } },
	{ "tokens", "Throughput", "tokens per second", GT_CHART_COUNT, ZERO, 1,
	    { { false, GT_RUN_TOKENS_PER_S, "tokens/s", GT_RUN_TOKENS_PER_S } } },
	{ "samples", "Throughput", "samples per second", GT_CHART_COUNT, ZERO, 1,
	    { { false, GT_RUN_SAMPLES_PER_S, "samples/s", GT_RUN_TOKENS_PER_S } } },
	{ "mfu", "Share of peak", "% of the device's rate", GT_CHART_PERCENT, ZERO, 100,
	    { { false, GT_RUN_MFU, "share", GT_RUN_MFU } } },
	{ "memory", "Memory", "MiB", GT_CHART_PLAIN, ZERO | BYTES, MIB,
	    { { false, GT_RUN_MEMORY_BYTES, "memory", GT_RUN_MEMORY_BYTES } } },
	{ "data-wait", "Waiting for data", "% of the time", GT_CHART_PERCENT, ZERO, 100,
	    { { false, GT_RUN_DATA_WAIT, "waiting", GT_RUN_DATA_WAIT } } },
	{ "late", "Waiting for the slowest rank", "% of the time", GT_CHART_PERCENT, ZERO, 100,
	    { { false, GT_RUN_LATE, "waiting", GT_RUN_LATE } } },
	{ "loss-scale", "Loss scale", "", GT_CHART_COUNT, ZERO | STEADY, 1,
	    { { false, GT_RUN_LOSS_SCALE, "loss scale", GT_RUN_LOSS_SCALE } } },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

/* ---- thinning ---- */

/* Add the lowest and the highest of some rows, in the order in which they stand. */
static size_t keep_extremes(size_t *keep, size_t n, const double *y, size_t begin, size_t end)
{
	size_t low = begin, high = begin;

	for (size_t i = begin; i < end; i++) {
		low = y[i] < y[low] ? i : low;
		high = y[i] > y[high] ? i : high;
	}
	keep[n++] = low < high ? low : high;
	if (low != high)
		keep[n++] = low < high ? high : low;
	return n;
}

size_t gt_chart_thin(size_t *keep, const double *y, size_t count, size_t most)
{
	size_t groups = (most - 2) / 2, inner = count - 2, n = 0;

	if (count <= most) {
		for (size_t i = 0; i < count; i++)
			keep[i] = i;
		return count;
	}
	keep[n++] = 0;
	for (size_t g = 0; g < groups; g++)
		n = keep_extremes(keep, n, y, 1 + g * inner / groups, 1 + (g + 1) * inner / groups);
	keep[n++] = count - 1;
	return n;
}

/* ---- series ---- */

/* The rows of a run's points that have a finite number. */
struct finite {
	double *y;
	size_t *row, *keep;
	size_t count;
};

static void release_finite(struct finite *f)
{
	free(f->y);
	free(f->row);
	free(f->keep);
}

static int find_finite(struct finite *out, const struct gt_run_points *p, enum gt_run_key key,
    double scale, struct gt_err *err)
{
	*out = (struct finite){ 0 };
	out->y = gt_calloc(p->count, sizeof(double), err);
	out->row = gt_calloc(p->count, sizeof(size_t), err);
	out->keep = gt_calloc(p->count, sizeof(size_t), err);
	if (!out->y || !out->row || !out->keep)
		return GT_ENOMEM;
	for (size_t i = 0; i < p->count; i++) {
		double y = gt_run_value(p, key, i) * scale;

		if (!isfinite(y))
			continue;
		out->y[out->count] = y;
		out->row[out->count++] = i;
	}
	return 0;
}

static int fill_series(struct gt_series *s, const struct gt_run_points *p, struct finite *f,
    struct gt_arena *arena, struct gt_err *err)
{
	size_t n = gt_chart_thin(f->keep, f->y, f->count, GT_CHART_POINTS);

	s->count = n;
	s->step = gt_arena_alloc(arena, n * sizeof(double), err);
	s->time = gt_arena_alloc(arena, n * sizeof(double), err);
	s->y = gt_arena_alloc(arena, n * sizeof(double), err);
	if (!s->step || !s->time || !s->y)
		return GT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t row = f->row[f->keep[i]];

		s->step[i] = (double)p->step[row];
		s->time[i] = gt_run_value(p, GT_RUN_TIME_S, row);
		s->y[i] = f->y[f->keep[i]];
	}
	return 0;
}

/* Make a series of a run, or leave it empty if the run has no numbers for it. */
static int make_series(struct gt_series *s, const struct gt_run *run, const struct row *row,
    const struct curve *c, struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_run_points *p = c->val ? &run->metrics.val : &run->metrics.train;
	struct finite f = { 0 };
	int rc = 0;

	if (!p->value[c->key] || (c->unless != c->key && gt_run_has(p, c->unless)))
		return 0;
	rc = find_finite(&f, p, c->key, row->scale, err);
	if (!rc && f.count) {
		s->nulls = p->nulls[c->key];
		rc = fill_series(s, p, &f, arena, err);
		s->dots = s->count <= (c->val ? FEW_EVALUATIONS : FEW_POINTS);
	}
	release_finite(&f);
	return rc;
}

/* A single run has a color for each curve; of several runs each has one for all its curves. */
static void style_series(
    struct gt_series *s, const struct gt_run_set *set, size_t run, const struct row *row, size_t c)
{
	const char *label = row->curve[c].label;

	if (set->count == 1) {
		s->color = (int)c;
		snprintf(s->label, sizeof(s->label), "%s", label);
		return;
	}
	s->color = (int)(run % GT_CHART_COLORS);
	s->dash = (int)(row->curve[1].label ? c : run / GT_CHART_COLORS);
	snprintf(s->label, sizeof(s->label), "%.500s%s%s", gt_run_set_name(set, run),
	    row->curve[1].label ? ", " : "", row->curve[1].label ? label : "");
}

/* Show a chart of MiB in GiB if its highest number is 1 GiB or more. */
static void choose_unit(struct gt_chart *chart)
{
	double most = 0;

	for (size_t c = 0; c < chart->count; c++)
		for (size_t i = 0; i < chart->series[c].count; i++)
			most = fmax(most, chart->series[c].y[i]);
	if (most < 1024)
		return;
	chart->unit = "GiB";
	for (size_t c = 0; c < chart->count; c++)
		for (size_t i = 0; i < chart->series[c].count; i++)
			chart->series[c].y[i] /= 1024;
}

static int make_chart(struct gt_chart *chart, const struct row *row, const struct gt_run_set *set,
    struct gt_arena *arena, struct gt_err *err)
{
	int rc = 0;

	*chart = (struct gt_chart){ .id = row->id,
		.title = row->title,
		.unit = row->unit,
		.format = row->format,
		.zero = row->flags & ZERO,
		.steady = row->flags & STEADY };
	chart->series = gt_arena_alloc(arena, CURVES * set->count * sizeof(*chart->series), err);
	if (!chart->series)
		return GT_ENOMEM;
	for (size_t r = 0; !rc && r < set->count; r++)
		for (size_t c = 0; !rc && row->curve[c].label; c++) {
			struct gt_series *s = &chart->series[chart->count];

			rc = make_series(s, &set->run[r], row, &row->curve[c], arena, err);
			if (!s->count)
				continue;
			style_series(s, set, r, row, c);
			chart->count++;
		}
	if (row->flags & BYTES)
		choose_unit(chart);
	return rc;
}

int gt_charts_make(struct gt_charts *out, const struct gt_run_set *set, struct gt_err *err)
{
	int rc = 0;

	*out = (struct gt_charts){ 0 };
	out->chart = gt_arena_alloc(&out->arena, ROWS * sizeof(*out->chart), err);
	if (!out->chart)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < ROWS; i++) {
		rc = make_chart(&out->chart[out->count], &rows[i], set, &out->arena, err);
		out->count += !rc && out->chart[out->count].count;
	}
	return rc;
}

void gt_charts_release(struct gt_charts *charts)
{
	gt_arena_release(&charts->arena);
	*charts = (struct gt_charts){ 0 };
}
