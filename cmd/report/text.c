/* text.c - charts on a terminal: curves of braille dots or of ASCII characters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/report.h"
#include "cmd/table_out.h"

/* A chart is ROWS lines high. A braille character is two dots wide and four high. Labels at the
 * left take LABEL columns, with the line of the axis. */
enum { ROWS = 10, DOTS_X = 2, DOTS_Y = 4, LABEL = 10, LEAST = 20, MOST = 200 };

static const char marks[] = "*+ox#@%&";
static const int colors[GT_CHART_COLORS] = { 34, 33, 32, 31, 35, 36, 95, 92 };

/* A canvas of `width` x `height` dots, in characters of dots_x x dots_y dots. */
struct canvas {
	size_t columns;
	int dots_x, dots_y;
	unsigned char *dots;  /* [ROWS][columns] bits of braille, or the ASCII character */
	unsigned char *color; /* [ROWS][columns] color of the latest dot, from 1 on; 0: none */
};

/* The bits of a braille character, by the row and the column of the dot. */
static const unsigned char bits[DOTS_Y][DOTS_X] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 },
	{ 0x40, 0x80 } };

static void put_dot(struct canvas *c, int x, int y, size_t series, int color)
{
	size_t at;

	if (x < 0 || y < 0 || x >= (int)c->columns * c->dots_x || y >= ROWS * c->dots_y)
		return;
	at = (size_t)(y / c->dots_y) * c->columns + (size_t)(x / c->dots_x);
	if (c->dots_x == 1)
		c->dots[at] = (unsigned char)marks[series % (sizeof(marks) - 1)];
	else
		c->dots[at] |= bits[y % DOTS_Y][x % DOTS_X];
	c->color[at] = (unsigned char)(color + 1);
}

/* Draw a line: one dot in each column, and more where it is steep. */
static void put_line(
    struct canvas *c, const double from[2], const double to[2], size_t series, int color)
{
	double dx = to[0] - from[0], dy = to[1] - from[1];
	int steps = (int)ceil(fmax(fabs(dx), fabs(dy)));

	for (int i = 0; i <= steps; i++) {
		double part = steps ? (double)i / steps : 0;

		put_dot(c, (int)lround(from[0] + part * dx), (int)lround(from[1] + part * dy),
		    series, color);
	}
}

static void draw_series(struct canvas *c, const struct gt_series *s, size_t index,
    const struct gt_chart_axis *x, const struct gt_chart_axis *y)
{
	double wide = (double)c->columns * c->dots_x - 1, high = ROWS * c->dots_y - 1.0, last[2];

	for (size_t i = 0; i < s->count; i++) {
		const double at[2] = { wide * ((s->step[i] - x->low) / (x->high - x->low)),
			high * gt_chart_down(y, s->y[i]) };

		put_line(c, i ? last : at, at, index, s->color);
		memcpy(last, at, sizeof(last));
	}
}

static void put_cell(FILE *out, const struct canvas *c, size_t at, bool color)
{
	unsigned char dots = c->dots[at];

	if (color && c->color[at])
		fprintf(out, "\033[%dm", colors[c->color[at] - 1]);
	if (!dots)
		fputc(' ', out);
	else if (c->dots_x == 1)
		fputc(dots, out);
	else
		fprintf(out, "%c%c%c", 0xe2, 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
	if (color && c->color[at])
		fputs("\033[0m", out);
}

static void put_canvas(FILE *out, const struct canvas *c, const struct gt_chart *chart,
    const struct gt_chart_axis *y, bool color)
{
	const char *line = c->dots_x == 1 ? "|" : "│";
	char text[GT_TEXT_SIZE];

	for (int row = 0; row < ROWS; row++) {
		const char *label = "";
		size_t used = c->columns;

		for (int t = 0; t < y->count; t++)
			if ((int)lround((ROWS - 1) * gt_chart_down(y, y->tick[t])) == row)
				label = gt_chart_tick(text, y, chart->format, y->tick[t]);
		while (used && !c->dots[(size_t)row * c->columns + used - 1])
			used--;
		fprintf(out, "%*s %s", LABEL - 2, label, line);
		for (size_t i = 0; i < used; i++)
			put_cell(out, c, (size_t)row * c->columns + i, color);
		fputc('\n', out);
	}
}

/* Print the first and the last step below the chart. */
static void put_steps(FILE *out, const struct canvas *c, const struct gt_chart_axis *x)
{
	char first[GT_TEXT_SIZE], last[GT_TEXT_SIZE];
	int left, width = (int)c->columns;

	gt_chart_steps(first, x->low);
	gt_chart_steps(last, x->high);
	left = fprintf(out, "%*sstep %s", LABEL, "", first) - LABEL;
	fprintf(out, "%*s\n", left < width ? width - left : 1, last);
}

static void put_legend(
    FILE *out, const struct gt_chart *chart, size_t begin, size_t end, bool braille, bool color)
{
	char number[GT_TEXT_SIZE];

	for (size_t i = begin; i < end; i++) {
		const struct gt_series *s = &chart->series[i];

		fprintf(out, "%*s", LABEL, "");
		if (color)
			fprintf(out, "\033[%dm%s\033[0m ", colors[s->color], braille ? "━" : "-");
		else if (!braille)
			fprintf(out, "%c ", marks[(i - begin) % (sizeof(marks) - 1)]);
		gt_log_put(out, s->label);
		fprintf(out, " %s\n", gt_chart_number(number, chart->format, s->y[s->count - 1]));
	}
}

/* Draw series begin .. end - 1 of a chart into one canvas. */
static int print_canvas(FILE *out, const struct gt_chart *chart, size_t begin, size_t end,
    const struct gt_chart_axis *x, struct canvas *c, bool color, struct gt_err *err)
{
	const struct gt_chart_axis y = gt_chart_y_axis(chart, 4);

	c->dots = gt_calloc(ROWS * c->columns, 1, err);
	c->color = gt_calloc(ROWS * c->columns, 1, err);
	if (c->dots && c->color) {
		for (size_t i = begin; i < end; i++)
			draw_series(c, &chart->series[i], i - begin, x, &y);
		put_legend(out, chart, begin, end, c->dots_x > 1, color);
		put_canvas(out, c, chart, &y, color);
		put_steps(out, c, x);
	}
	free(c->dots);
	free(c->color);
	return err->code;
}

/* Without colors, braille dots of several curves look alike, so each curve has a chart. */
static int print_chart(FILE *out, const struct gt_chart *chart, const struct gt_chart_axis *x,
    struct canvas *c, bool color, struct gt_err *err)
{
	size_t together = c->dots_x > 1 && !color ? 1 : chart->count;
	int rc = 0;

	fprintf(out, "%s%s%s%s%s%s\n", color ? "\033[1m" : "", chart->title, color ? "\033[0m" : "",
	    *chart->unit ? " (" : "", chart->unit, *chart->unit ? ")" : "");
	for (size_t i = 0; !rc && i < chart->count; i += together)
		rc = print_canvas(out, chart, i, i + together, x, c, color, err);
	return rc;
}

int gt_report_print_text(FILE *out, const struct gt_charts *charts, size_t columns, bool braille,
    bool color, struct gt_err *err)
{
	const struct gt_chart_axis x = gt_chart_x_axis(charts, 2);
	struct canvas c = { .dots_x = braille ? DOTS_X : 1, .dots_y = braille ? DOTS_Y : 1 };
	int rc = 0;

	columns = columns < LEAST + LABEL ? LEAST + LABEL : columns;
	columns = columns > MOST ? MOST : columns;
	c.columns = columns - LABEL;
	for (size_t i = 0; !rc && i < charts->count; i++) {
		if (i)
			fputc('\n', out);
		rc = print_chart(out, &charts->chart[i], &x, &c, color, err);
	}
	return rc;
}
