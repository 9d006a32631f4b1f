/* page.c - write the page of a report: the template with its markers replaced. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/report/report.h"

const char *gt_report_file(const char *name)
{
	for (const struct gt_report_file *f = gt_report_files; f->name; f++)
		if (!strcmp(f->name, name))
			return f->text;
	return NULL;
}

/* ---- the parts of the page ---- */

static const char *title_of(const struct gt_report *r, char buffer[GT_RUN_TEXT])
{
	if (r->set->count == 1)
		return gt_run_set_name(r->set, 0);
	snprintf(buffer, GT_RUN_TEXT, "%zu runs", r->set->count);
	return buffer;
}

static int put_version(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	(void)r;
	(void)err;
	fputs(GT_VERSION, out);
	return 0;
}

static int put_title(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	char buffer[GT_RUN_TEXT];

	(void)err;
	gt_report_put_plain(out, title_of(r, buffer));
	return 0;
}

static int put_heading(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	char buffer[GT_RUN_TEXT];

	(void)err;
	gt_report_put_text(out, title_of(r, buffer));
	return 0;
}

static int put_lead(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	const struct gt_run *run = &r->set->run[0];
	const char *model = gt_run_option(run, "model"), *data = gt_run_option(run, "data");

	(void)err;
	if (r->set->count > 1 || !model || !data)
		return 0;
	fputs("<p class=\"lead\">", out);
	gt_report_put_text(out, model);
	fputs(" <span class=\"on\">on</span> ", out);
	gt_report_put_text(out, data);
	fputs("</p>\n", out);
	return 0;
}

/* Faults of the files of a run, which the reader of the curves should know. */
static void put_run_notes(FILE *out, const struct gt_report *r, size_t i)
{
	const struct gt_run *run = &r->set->run[i];
	const struct gt_run_metrics *m = &run->metrics;
	struct gt_buf text = { 0 };

	if (*run->damaged)
		gt_buf_printf(&text, "%s. ", run->damaged);
	if (m->bad_lines)
		gt_buf_printf(&text, "%zu line%s of metrics.jsonl cannot be read. ", m->bad_lines,
		    m->bad_lines > 1 ? "s" : "");
	if (m->torn && run->status.state != GT_RUN_RUNNING)
		gt_buf_puts(&text, "The last line of metrics.jsonl is cut off. ");
	if (m->too_big)
		gt_buf_puts(&text, "metrics.jsonl has more lines than are read. ");
	if (m->train.nulls[GT_RUN_LOSS])
		gt_buf_printf(&text, "The loss was not finite in %zu line%s. ",
		    m->train.nulls[GT_RUN_LOSS], m->train.nulls[GT_RUN_LOSS] > 1 ? "s" : "");
	if (!m->train.count && !m->val.count)
		gt_buf_puts(&text, "There are no metrics yet. ");
	if (text.length) {
		fputs("<p class=\"note\">", out);
		if (r->set->count > 1) {
			gt_report_put_text(out, gt_run_set_name(r->set, i));
			fputs(": ", out);
		}
		gt_report_put_text(out, gt_buf_text(&text));
		fputs("</p>\n", out);
	}
	gt_buf_release(&text);
}

static int put_notes(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	(void)err;
	for (size_t i = 0; i < r->set->count; i++)
		put_run_notes(out, r, i);
	return 0;
}

static void put_legend(FILE *out, const struct gt_chart *chart)
{
	char number[GT_TEXT_SIZE];

	fputs("<ul class=\"legend\">", out);
	for (size_t s = 0; s < chart->count; s++) {
		const struct gt_series *series = &chart->series[s];

		fprintf(out, "<li><i class=\"key c%d d%d\"></i>", series->color, series->dash % 4);
		gt_report_put_text(out, series->label);
		fprintf(out, " <b>%s</b></li>",
		    gt_chart_number(number, chart->format, series->y[series->count - 1]));
	}
	fputs("</ul>\n", out);
}

static int put_chart(
    FILE *out, const struct gt_chart *chart, const struct gt_chart_axis *x, struct gt_err *err)
{
	int rc;

	fprintf(out,
	    "<figure data-chart=\"%s\">\n<figcaption><h3>%s</h3> <span class=\"unit\">%s</span>"
	    "<button type=\"button\" class=\"log\" aria-pressed=\"false\" hidden>log"
	    "</button></figcaption>\n",
	    chart->id, chart->title, chart->unit);
	put_legend(out, chart);
	fputs("<div class=\"plot\">\n", out);
	rc = gt_report_put_still(out, chart, x, err);
	fputs("<div class=\"live\"></div>\n</div>\n</figure>\n", out);
	return rc;
}

static int put_charts(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	enum { X_TICKS = 6 };
	struct gt_chart_axis x = gt_chart_x_axis(r->charts, X_TICKS);
	int rc = 0;

	if (!r->charts->count)
		fputs("<p class=\"empty\">No curves: there are no metrics.</p>\n", out);
	for (size_t i = 0; !rc && i < r->charts->count; i++)
		rc = put_chart(out, &r->charts->chart[i], &x, err);
	return rc;
}

static int put_footer(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	time_t now = time(NULL);
	char text[64] = "";
	struct tm tm;

	(void)r;
	(void)err;
	if (localtime_r(&now, &tm))
		strftime(text, sizeof(text), " on %Y-%m-%d at %H:%M:%S", &tm);
	fprintf(out, "Written by gtrain " GT_VERSION "%s.", text);
	if (!gt_report_file("dygraph.min.js"))
		fputs(" This gtrain was built without dygraphs (Debian's libjs-dygraphs), so the "
		      "curves are static pictures.",
		    out);
	return 0;
}

/* ---- the data of the script ---- */

static void put_numbers(FILE *out, const char *name, const double *values, size_t count)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < count; i++)
		if (isfinite(values[i]))
			fprintf(out, "%s%.6g", i ? "," : "", values[i]);
		else
			fprintf(out, "%snull", i ? "," : "");
	fputc(']', out);
}

static void put_steps(FILE *out, const double *steps, size_t count)
{
	fputs(",\"step\":[", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%.0f", i ? "," : "", steps[i]);
	fputc(']', out);
}

static void put_chart_data(FILE *out, const struct gt_chart *chart)
{
	static const char *const formats[] = { "plain", "percent", "count" };

	fprintf(out, "{\"id\":\"%s\",\"format\":\"%s\",\"zero\":%s,\"steady\":%s,\"series\":[",
	    chart->id, formats[chart->format], chart->zero ? "true" : "false",
	    chart->steady ? "true" : "false");
	for (size_t s = 0; s < chart->count; s++) {
		const struct gt_series *series = &chart->series[s];

		fprintf(out, "%s{\"label\":", s ? "," : "");
		gt_report_put_json(out, series->label);
		fprintf(out, ",\"color\":%d,\"dash\":%d,\"dots\":%s", series->color,
		    series->dash % 4, series->dots ? "true" : "false");
		put_steps(out, series->step, series->count);
		put_numbers(out, "time", series->time, series->count);
		put_numbers(out, "y", series->y, series->count);
		fputc('}', out);
	}
	fputs("]}", out);
}

static int put_data(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	(void)err;
	fprintf(out, "{\"refresh\":%g,\"charts\":[", r->refresh_s);
	for (size_t i = 0; i < r->charts->count && gt_report_file("dygraph.min.js"); i++) {
		fputs(i ? ",\n" : "", out);
		put_chart_data(out, &r->charts->chart[i]);
	}
	fputs("]}", out);
	return 0;
}

/* ---- the template ---- */

static const struct marker {
	const char *name;
	int (*put)(FILE *out, const struct gt_report *r, struct gt_err *err);
} markers[] = {
	{ "version", put_version },
	{ "title", put_title },
	{ "heading", put_heading },
	{ "lead", put_lead },
	{ "summary", gt_report_put_summary },
	{ "notes", put_notes },
	{ "differ", gt_report_put_differ },
	{ "charts", put_charts },
	{ "details", gt_report_put_details },
	{ "footer", put_footer },
	{ "data", put_data },
};

/* Write the text for a marker: a part of the page or a file of that name, which may be missing. */
static int put_marker(
    FILE *out, const char *name, size_t length, const struct gt_report *r, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(markers) / sizeof(*markers); i++)
		if (strlen(markers[i].name) == length && !memcmp(markers[i].name, name, length))
			return markers[i].put(out, r, err);
	for (const struct gt_report_file *f = gt_report_files; f->name; f++)
		if (strlen(f->name) == length && !memcmp(f->name, name, length))
			fputs(f->text, out);
	return 0;
}

int gt_report_write_page(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	const char *at = gt_report_file("page.html"), *begin, *end;
	int rc = 0;

	while (!rc && (begin = strstr(at, "{{")) && (end = strstr(begin, "}}"))) {
		fwrite(at, 1, (size_t)(begin - at), out);
		rc = put_marker(out, begin + 2, (size_t)(end - begin) - 2, r, err);
		at = end + 2;
	}
	fputs(at, out);
	return rc;
}
