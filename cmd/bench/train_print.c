/* train_print.c - the table of bench train: as text, Markdown, CSV and JSON. */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/train.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

enum { COLUMNS = 12, REASON = 11, CELL = 40, VERDICT = GT_BENCH_ERROR_LINE_BYTES + CELL };

static bool has_figures(const struct gt_bench_train_row *row)
{
	return row->rate_count && !row->why[0];
}

static bool has_verdict(const struct gt_bench_train_row *row)
{
	return row->expected_per_s > 0;
}

/* Samples of all rows are texts, or none are. */
static bool is_tokens(const struct gt_bench_train *b)
{
	for (int i = 0; i < b->row_count; i++)
		if (b->rows[i].tokens_per_sample)
			return true;
	return false;
}

/* A quantile of the time of a step: 0.25, 0.5 or 0.75. */
static double step_quantile(const struct gt_bench_train_row *row, double q)
{
	return (double)row->run.samples / row->rates[(int)((1 - q) * (row->rate_count - 1))];
}

static double spread_of(const struct gt_bench_train_row *row)
{
	return (step_quantile(row, 0.75) - step_quantile(row, 0.25)) / step_quantile(row, 0.5);
}

/* Whether the row is normal, or why it is not, in one word or two. */
static const char *verdict_word(const struct gt_bench_train_row *row)
{
	if (row->why[0])
		return row->refused ? "refused" : "failed";
	if (!row->rate_count)
		return "not measured";
	if (!has_verdict(row))
		return "not compared";
	return row->verdict == GT_SCALING_NORMAL ? "normal" : "degraded";
}

/* The cause of "degraded", "refused" and "failed", or "". */
static const char *cause_of(const struct gt_bench_train_row *row)
{
	if (row->why[0])
		return row->why;
	return has_verdict(row) && row->verdict != GT_SCALING_NORMAL
	           ? gt_scaling_names[row->verdict]
	           : "";
}

/* ---- text and Markdown ---- */

static void print_rate(char cell[CELL], double per_s)
{
	snprintf(cell, CELL, per_s < 1000 ? "%.4g" : "%.0f", per_s);
}

/* Write the figures to cells[3] to cells[10]. */
static void fill_figures(char cells[COLUMNS - 1][CELL], const struct gt_bench_train_row *row)
{
	double factor = row->tokens_per_sample ? (double)row->tokens_per_sample : 1;

	print_rate(cells[3], row->run.samples_per_s * factor);
	snprintf(cells[4], CELL, "%.3g", 1e3 * step_quantile(row, 0.5));
	snprintf(cells[5], CELL, "%.0f %%", 100 * spread_of(row));
	if (row->speed_up > 0) {
		snprintf(cells[6], CELL, "%.2f", row->speed_up);
		snprintf(cells[7], CELL, "%.0f %%", 100 * row->speed_up / row->ranks);
	}
	if (row->memory_bytes)
		gt_text_bytes(cells[8], row->memory_bytes);
	if (has_verdict(row)) {
		print_rate(cells[9], row->expected_per_s * factor);
		snprintf(
		    cells[10], CELL, "%.0f %%", 100 * row->run.samples_per_s / row->expected_per_s);
	}
}

/* "|" ends a cell of Markdown, unless "\\" is before it. */
static void print_markdown_row(const char *const cells[COLUMNS])
{
	for (int c = 0; c < COLUMNS; c++) {
		fputs("| ", stdout);
		for (const char *p = cells[c]; *p; p++) {
			if (*p == '|' || *p == '\\')
				putchar('\\');
			putchar(*p);
		}
		putchar(' ');
	}
	puts("|");
}

static void print_one_row(struct gt_table *table, const struct gt_bench_train_row *row)
{
	char cells[COLUMNS - 1][CELL] = { "" }, verdict[VERDICT];
	const char *all[COLUMNS] = { row->mode };

	snprintf(cells[1], CELL, "%d", row->ranks);
	snprintf(cells[2], CELL, "%s", row->amp);
	if (has_figures(row))
		fill_figures(cells, row);
	for (int c = 1; c < REASON; c++)
		all[c] = cells[c];
	snprintf(verdict, sizeof(verdict), "%s%s%s", verdict_word(row), *cause_of(row) ? ": " : "",
	    cause_of(row));
	all[REASON] = verdict;
	if (table)
		gt_table_row(table, all, COLUMNS);
	else
		print_markdown_row(all);
}

static void print_table(const struct gt_bench_train *b, bool markdown)
{
	const char *rate = is_tokens(b) ? "tokens/s" : "samples/s";
	const char *head[COLUMNS] = { "mode", "ranks", "amp", rate, "step ms", "spread", "speed-up",
		"efficiency", "memory", "expected", "of it", "verdict" };
	struct gt_table table = { .out = stdout, .measuring = true };

	for (int c = 1; c < REASON; c++)
		table.right[c] = c != 2;
	if (markdown) {
		print_markdown_row(head);
		puts("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
		     "--- |");
		for (int i = 0; i < b->row_count; i++)
			print_one_row(NULL, &b->rows[i]);
		return;
	}
	for (int pass = 0; pass < 2; pass++, table.measuring = false) {
		gt_table_row(&table, head, COLUMNS);
		for (int i = 0; i < b->row_count; i++)
			print_one_row(&table, &b->rows[i]);
	}
}

static void print_title(const struct gt_bench_train *b)
{
	const struct gt_bench_train_cli *cli = b->cli;
	int steps = 0;

	for (int i = 0; i < b->row_count; i++)
		steps = b->rows[i].rate_count > steps ? b->rows[i].rate_count : steps;
	gt_log_put(stdout, cli->model);
	fputs(" on ", stdout);
	gt_log_put(stdout, cli->data);
	printf(", batch %lld, %s; medians of %d step%s\n", (long long)cli->batch, cli->device,
	    steps, steps == 1 ? "" : "s");
}

/* ---- JSON and CSV ---- */

static json_t *number_if(bool known, double value)
{
	return known ? gt_json_number(value) : json_null();
}

static json_t *count_if(bool known, uint64_t count)
{
	return known && count ? json_integer((json_int_t)count) : json_null();
}

static json_t *json_of_row(const struct gt_bench_train_row *row)
{
	bool figures = has_figures(row), verdict = figures && has_verdict(row);
	double rate = row->run.samples_per_s;
	const char *cause = cause_of(row);
	json_t *out = json_pack("{ss si ss so so}", "mode", row->mode, "ranks", row->ranks, "amp",
	    row->amp, "samples_per_s", number_if(figures, rate), "tokens_per_s",
	    number_if(figures && row->tokens_per_sample, rate * (double)row->tokens_per_sample));
	const struct {
		const char *name;
		bool known;
		double value;
	} figure[] = {
		{ "step_s", figures, figures ? step_quantile(row, 0.5) : 0 },
		{ "step_p25_s", figures, figures ? step_quantile(row, 0.25) : 0 },
		{ "step_p75_s", figures, figures ? step_quantile(row, 0.75) : 0 },
		{ "speed_up", figures && row->speed_up > 0, row->speed_up },
		{ "efficiency", figures && row->speed_up > 0, row->speed_up / row->ranks },
		{ "data_wait", figures, row->run.data_wait },
		{ "allreduce_s", row->allreduce_s > 0, row->allreduce_s },
		{ "expected_samples_per_s", verdict, row->expected_per_s },
		{ "of_expected", verdict, verdict ? rate / row->expected_per_s : 0 },
	};

	for (size_t i = 0; i < sizeof(figure) / sizeof(*figure); i++)
		json_object_set_new(
		    out, figure[i].name, number_if(figure[i].known, figure[i].value));
	json_object_set_new(out, "memory_bytes", count_if(figures, row->memory_bytes));
	json_object_set_new(out, "planned_memory_bytes", count_if(figures, row->planned_bytes));
	json_object_set_new(out, "steps", json_integer(figures ? row->rate_count : 0));
	json_object_set_new(out, "verdict", json_string(verdict_word(row)));
	json_object_set_new(
	    out, "cause", *cause ? gt_json_string_value(cause, strlen(cause)) : json_null());
	return out;
}

static json_t *json_of_rows(const struct gt_bench_train *b)
{
	json_t *rows = json_array();

	for (int i = 0; i < b->row_count; i++)
		json_array_append_new(rows, json_of_row(&b->rows[i]));
	return rows;
}

static int print_train_json(const struct gt_bench_train *b, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = b->cli;

	return gt_cmd_print_json(
	    json_pack("{so so sI ss sI sI sI sf so}", "model",
	        gt_json_string_value(cli->model, strlen(cli->model)), "data",
	        gt_json_string_value(cli->data, strlen(cli->data)), "batch", (json_int_t)cli->batch,
	        "device", cli->device, "rounds", (json_int_t)cli->rounds, "steps",
	        (json_int_t)cli->steps, "discard", (json_int_t)cli->discard, "bound", cli->bound,
	        "rows", json_of_rows(b)),
	    JSON_INDENT(2), err);
}

int gt_bench_train_print(const struct gt_bench_train *b, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = b->cli;

	if (cli->common.json)
		return print_train_json(b, err);
	if (cli->csv) {
		gt_json_print_csv(stdout, json_of_rows(b));
		return 0;
	}
	if (!cli->markdown)
		print_title(b);
	print_table(b, cli->markdown);
	return 0;
}
