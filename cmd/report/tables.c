/* tables.c - the tables and lists of a report: figures, options, environment. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/report/report.h"
#include "lib/base/measure.h"
#include "lib/base/opt_json.h"

/* Longer values are cut; lists of thousands of classes help nobody. */
enum { VALUE_BYTES = 400, TIME_TEXT = 64 };

static const char *time_text(char out[TIME_TEXT], double seconds)
{
	time_t when = (time_t)seconds;
	struct tm tm;

	if (seconds < 0 || seconds > 1e11 || !localtime_r(&when, &tm) ||
	    !strftime(out, TIME_TEXT, "%Y-%m-%d %H:%M:%S %z", &tm))
		snprintf(out, TIME_TEXT, "-");
	return out;
}

/* ---- figures ---- */

/* The median, the mean or the largest of the finite values of a key; NaN if there are none. */
enum summary { MEDIAN, MEAN, LARGEST };

static double summarize(const struct gt_run_points *p, enum gt_run_key key, enum summary kind)
{
	double *values = gt_calloc(p->count, sizeof(*values), GT_ERR_IGNORED), result = NAN,
	       sum = 0;
	int n = 0;

	for (size_t i = 0; values && i < p->count; i++) {
		double value = gt_run_value(p, key, i);

		if (!isfinite(value))
			continue;
		values[n++] = value;
		sum += value;
		result = fmax(result, value);
	}
	if (n && kind == MEDIAN)
		result = gt_measure_median(values, n);
	else if (n && kind == MEAN)
		result = sum / n;
	free(values);
	return result;
}

enum { FIGURE = 96 };

/* Each of these writes a text, or "" if the run does not tell. */
static void throughput_text(char out[FIGURE], const struct gt_run *run)
{
	const struct gt_run_points *p = &run->metrics.train;
	bool tokens = gt_run_has(p, GT_RUN_TOKENS_PER_S);
	double rate = summarize(p, tokens ? GT_RUN_TOKENS_PER_S : GT_RUN_SAMPLES_PER_S, MEDIAN);
	char count[GT_TEXT_SIZE];

	*out = '\0';
	if (isfinite(rate) && rate >= 0)
		snprintf(out, FIGURE, "%s %s/s", gt_text_count(count, rate),
		    tokens ? "tokens" : "samples");
}

static void memory_text(char out[FIGURE], const struct gt_run *run)
{
	double bytes = summarize(&run->metrics.train, GT_RUN_MEMORY_BYTES, LARGEST);
	char text[GT_TEXT_SIZE];

	*out = '\0';
	if (bytes >= 0 && bytes < 1e18)
		snprintf(out, FIGURE, "%s", gt_text_bytes(text, (uint64_t)bytes));
}

static void waiting_text(char out[FIGURE], const struct gt_run *run)
{
	double part = summarize(&run->metrics.train, GT_RUN_DATA_WAIT, MEAN);

	*out = '\0';
	if (isfinite(part))
		snprintf(out, FIGURE, "%.1f %%", 100 * part);
}

static void best_text(char out[FIGURE], const struct gt_run *run)
{
	char text[GT_RUN_TEXT];

	*out = '\0';
	if (run->best.known)
		snprintf(out, FIGURE, "%s at step %lld", gt_run_best_text(text, run),
		    (long long)run->best.step);
}

static void last_text(char out[FIGURE], const struct gt_run *run)
{
	const struct gt_run_points *p = &run->metrics.train;

	*out = '\0';
	if (p->count && p->value[GT_RUN_LOSS])
		snprintf(
		    out, FIGURE, "%.4g", gt_text_real(gt_run_value(p, GT_RUN_LOSS, p->count - 1)));
}

static void duration_text(char out[FIGURE], const struct gt_run *run)
{
	char text[GT_TEXT_SIZE];

	*out = '\0';
	if (isfinite(run->time_s))
		snprintf(out, FIGURE, "%s", gt_text_duration(text, run->time_s));
}

static void step_text(char out[FIGURE], const struct gt_run *run)
{
	char text[GT_RUN_TEXT];

	snprintf(out, FIGURE, "%s", gt_run_steps_text(text, run));
}

static const struct figure {
	const char *name;
	void (*text)(char out[FIGURE], const struct gt_run *run);
} figures[] = {
	{ "Steps", step_text },
	{ "Best", best_text },
	{ "Last loss", last_text },
	{ "Time", duration_text },
	{ "Throughput, median", throughput_text },
	{ "Memory, peak", memory_text },
	{ "Waiting for data", waiting_text },
};

enum { FIGURES = sizeof(figures) / sizeof(*figures) };

static void put_state(FILE *out, const struct gt_run *run)
{
	fprintf(out, "<span class=\"state %s\">%s</span>", gt_run_state_names[run->status.state],
	    gt_run_state_names[run->status.state]);
	if (*run->status.reason) {
		fputs(" <span class=\"reason\">", out);
		gt_report_put_text(out, run->status.reason);
		fputs("</span>", out);
	}
}

/* The figures of a run. */
struct figure_texts {
	char text[FIGURES][FIGURE];
};

static void put_tiles(FILE *out, const struct gt_run *run, const struct figure_texts *texts)
{
	fputs("<dl class=\"tiles\">\n<div><dt>State</dt><dd>", out);
	put_state(out, run);
	fputs("</dd></div>\n", out);
	for (int f = 0; f < FIGURES; f++)
		if (*texts->text[f])
			fprintf(out, "<div><dt>%s</dt><dd>%s</dd></div>\n", figures[f].name,
			    texts->text[f]);
	fputs("</dl>\n", out);
}

static void put_option_cell(FILE *out, const struct gt_run *run, const char *option)
{
	const char *text = gt_run_option(run, option);

	fputs("<td class=\"long\">", out);
	gt_report_put_text(out, text ? text : "-");
	fputs("</td>", out);
}

/* Return whether a run has a figure, so that the table has a column for it. */
static bool has_figure(const struct figure_texts *texts, size_t count, int f)
{
	for (size_t i = 0; i < count; i++)
		if (*texts[i].text[f])
			return true;
	return false;
}

static void put_run_row(
    FILE *out, const struct gt_report *r, const struct figure_texts *texts, size_t i)
{
	const struct gt_run *run = &r->set->run[i];

	fprintf(out, "<tr><th scope=\"row\"><i class=\"key c%zu\"></i>", i % GT_CHART_COLORS);
	gt_report_put_text(out, gt_run_set_name(r->set, i));
	fputs("</th>", out);
	put_option_cell(out, run, "model");
	put_option_cell(out, run, "data");
	for (int f = 0; f < FIGURES; f++)
		if (has_figure(texts, r->set->count, f))
			fprintf(out, "<td class=\"number\">%s</td>",
			    *texts[i].text[f] ? texts[i].text[f] : "-");
	fputs("<td>", out);
	put_state(out, run);
	fputs("</td></tr>\n", out);
}

static void put_runs(FILE *out, const struct gt_report *r, const struct figure_texts *texts)
{
	fputs("<section>\n<h2>Runs</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th "
	      "scope=\"col\">Run</th><th scope=\"col\">Model</th><th scope=\"col\">Data</th>",
	    out);
	for (int f = 0; f < FIGURES; f++)
		if (has_figure(texts, r->set->count, f))
			fprintf(out, "<th scope=\"col\" class=\"number\">%s</th>", figures[f].name);
	fputs("<th scope=\"col\">State</th></tr></thead>\n<tbody>\n", out);
	for (size_t i = 0; i < r->set->count; i++)
		put_run_row(out, r, texts, i);
	fputs("</tbody>\n</table></div>\n</section>\n", out);
}

int gt_report_put_summary(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	struct figure_texts *texts = gt_calloc(r->set->count, sizeof(*texts), err);

	if (!texts)
		return GT_ENOMEM;
	for (size_t i = 0; i < r->set->count; i++)
		for (int f = 0; f < FIGURES; f++)
			figures[f].text(texts[i].text[f], &r->set->run[i]);
	if (r->set->count == 1)
		put_tiles(out, &r->set->run[0], texts);
	else
		put_runs(out, r, texts);
	free(texts);
	return 0;
}

/* ---- options ---- */

static int put_value(FILE *out, const json_t *value, struct gt_err *err)
{
	struct gt_buf text = { 0 };
	int rc;

	gt_run_put_value(&text, value);
	rc = gt_buf_check(&text, err);
	if (!rc && text.length > VALUE_BYTES) {
		size_t cut = gt_text_utf8_bytes(gt_buf_text(&text), VALUE_BYTES);

		gt_buf_cut(&text, cut);
		gt_buf_puts(&text, "…");
	}
	if (!rc)
		gt_report_put_text(out, gt_buf_text(&text));
	gt_buf_release(&text);
	return rc;
}

int gt_report_put_differ(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	const json_t *row, *value;
	size_t i, v;
	int rc = 0;

	if (r->set->count < 2)
		return 0;
	fputs("<section>\n<h2>Options that differ</h2>\n", out);
	if (!json_array_size(r->differ)) {
		fputs("<p>The runs have the same options.</p>\n</section>\n", out);
		return 0;
	}
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Option</th>", out);
	for (i = 0; i < r->set->count; i++) {
		fprintf(out, "<th scope=\"col\"><i class=\"key c%zu\"></i>", i % GT_CHART_COLORS);
		gt_report_put_text(out, gt_run_set_name(r->set, i));
		fputs("</th>", out);
	}
	fputs("</tr></thead>\n<tbody>\n", out);
	json_array_foreach(r->differ, i, row)
	{
		fputs("<tr><th scope=\"row\">", out);
		gt_report_put_text(out, json_string_value(json_object_get(row, "option")));
		fputs("</th>", out);
		json_array_foreach(json_object_get(row, "values"), v, value)
		{
			fputs("<td class=\"long\">", out);
			rc = rc ? rc : put_value(out, value, err);
			fputs("</td>", out);
		}
		fputs("</tr>\n", out);
	}
	fputs("</tbody>\n</table></div>\n</section>\n", out);
	return rc;
}

/* ---- details of a run ---- */

static void put_fact(FILE *out, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	fprintf(out, "<div><dt>%s</dt><dd>", name);
	gt_report_put_text(out, text);
	fputs("</dd></div>\n", out);
}

static void put_number_fact(FILE *out, const char *name, int64_t number)
{
	char text[GT_TEXT_SIZE];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	if (number >= 0)
		put_fact(out, name, text);
}

static void put_environment(FILE *out, const struct gt_run *run)
{
	const struct gt_run_status *s = &run->status;
	const json_t *about = json_object_get(run->config, GT_OPT_ABOUT);
	char time[TIME_TEXT];

	fputs("<h3>Environment</h3>\n<dl class=\"facts\">\n", out);
	put_fact(out, "directory", run->path);
	put_fact(out, "gtrain", json_string_value(json_object_get(about, "version")));
	put_fact(out, "host", s->host);
	put_number_fact(out, "process", s->pid);
	if (s->started >= 0)
		put_fact(out, "started", time_text(time, s->started));
	if (s->ended >= 0)
		put_fact(out, "ended", time_text(time, s->ended));
	put_number_fact(out, "exit status", s->exit_status);
	fputs("</dl>\n", out);
}

/* A list of the members of an object, without those that have their default. */
static int put_members(FILE *out, const char *title, json_t *object, struct gt_err *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	if (!json_object_size(object))
		return 0;
	fprintf(out, "<h3>%s</h3>\n<dl class=\"facts\">\n", title);
	json_object_foreach(object, key, value)
	{
		if (!strcmp(key, GT_OPT_ABOUT) || json_is_null(value) ||
		    (json_is_array(value) && !json_array_size(value)))
			continue;
		fputs("<div><dt>", out);
		gt_report_put_text(out, key);
		fputs("</dt><dd>", out);
		rc = rc ? rc : put_value(out, value, err);
		fputs("</dd></div>\n", out);
	}
	fputs("</dl>\n", out);
	return rc;
}

static int put_run_details(FILE *out, const struct gt_run *run, struct gt_err *err)
{
	int rc;

	gt_report_put_answers(out, run);
	put_environment(out, run);
	rc = put_members(out, "Options", run->config, err);
	if (!rc)
		rc = put_members(out, "Data",
		    json_object_get(json_object_get(run->config, GT_OPT_ABOUT), "data"), err);
	return rc;
}

int gt_report_put_details(FILE *out, const struct gt_report *r, struct gt_err *err)
{
	int rc = 0;

	fputs("<section>\n<h2>Details</h2>\n", out);
	for (size_t i = 0; !rc && i < r->set->count; i++) {
		if (r->set->count > 1) {
			fprintf(out, "<details><summary><i class=\"key c%zu\"></i>",
			    i % GT_CHART_COLORS);
			gt_report_put_text(out, gt_run_set_name(r->set, i));
			fputs("</summary>\n", out);
		}
		rc = put_run_details(out, &r->set->run[i], err);
		if (r->set->count > 1)
			fputs("</details>\n", out);
	}
	fputs("</section>\n", out);
	return rc;
}
