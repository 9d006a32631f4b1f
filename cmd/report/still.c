/* still.c - static pictures of charts, for print and for readers without scripts. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/report/report.h"

/* The picture is WIDTH by HEIGHT units, stretched to its box; more points than MOST_POINTS cannot
 * be told apart in it. */
enum { WIDTH = 1000, HEIGHT = 400, MOST_POINTS = 800, Y_TICKS = 6 };

static double x_of(const struct gt_chart_axis *x, double step)
{
	return WIDTH * ((step - x->low) / (x->high - x->low));
}

static double y_of(const struct gt_chart_axis *y, double value)
{
	return HEIGHT * gt_chart_down(y, value);
}

static void put_grid(FILE *out, const struct gt_chart_axis *x, const struct gt_chart_axis *y)
{
	fputs("<path class=\"grid\" d=\"", out);
	for (int i = 0; i < y->count; i++)
		fprintf(out, "M0 %.1fH%d", y_of(y, y->tick[i]), WIDTH);
	for (int i = 0; i < x->count; i++)
		fprintf(out, "M%.1f 0V%d", x_of(x, x->tick[i]), HEIGHT);
	fputs("\"/>", out);
}

/* A dot is a line of no length with round ends: the stretching does not deform it. */
static int put_curve(FILE *out, const struct gt_series *s, const struct gt_chart_axis *x,
    const struct gt_chart_axis *y, struct gt_err *err)
{
	size_t *keep = gt_calloc(s->count, sizeof(*keep), err), n;

	if (!keep)
		return GT_ENOMEM;
	n = gt_chart_thin(keep, s->y, s->count, MOST_POINTS);
	fprintf(out, "<path class=\"curve c%d d%d\" d=\"", s->color, s->dash % 4);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%c%.1f %.1f", i ? 'L' : 'M', x_of(x, s->step[keep[i]]),
		    y_of(y, s->y[keep[i]]));
	fputs("\"/>", out);
	if (s->dots) {
		fprintf(out, "<path class=\"dots c%d\" d=\"", s->color);
		for (size_t i = 0; i < n; i++)
			fprintf(
			    out, "M%.1f %.1fh0", x_of(x, s->step[keep[i]]), y_of(y, s->y[keep[i]]));
		fputs("\"/>", out);
	}
	free(keep);
	return 0;
}

static void put_labels(FILE *out, const struct gt_chart *chart, const struct gt_chart_axis *x,
    const struct gt_chart_axis *y)
{
	char text[GT_TEXT_SIZE];

	for (int i = 0; i < y->count; i++)
		fprintf(out, "<span class=\"y\" style=\"top:%.2f%%\">%s</span>",
		    100 * y_of(y, y->tick[i]) / HEIGHT,
		    gt_chart_tick(text, y, chart->format, y->tick[i]));
	for (int i = 0; i < x->count; i++)
		fprintf(out, "<span class=\"x\" style=\"left:%.2f%%\">%s</span>",
		    100 * x_of(x, x->tick[i]) / WIDTH, gt_chart_steps(text, x->tick[i]));
}

int gt_report_put_still(
    FILE *out, const struct gt_chart *chart, const struct gt_chart_axis *x, struct gt_err *err)
{
	struct gt_chart_axis y = gt_chart_y_axis(chart, Y_TICKS);
	int rc = 0;

	fprintf(out,
	    "<div class=\"still\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
	    "role=\"img\" aria-label=\"%s\">",
	    WIDTH, HEIGHT, chart->title);
	put_grid(out, x, &y);
	for (size_t s = 0; !rc && s < chart->count; s++)
		rc = put_curve(out, &chart->series[s], x, &y, err);
	fputs("</svg>", out);
	put_labels(out, chart, x, &y);
	fputs("</div>\n", out);
	return rc;
}
