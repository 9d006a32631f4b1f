/* runs.c - gtrain runs: a table of run directories, and the options that differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/run_set.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

enum sort_key {
	SORT_NAME,
	SORT_MODEL,
	SORT_DATA,
	SORT_STEPS,
	SORT_BEST,
	SORT_TIME,
	SORT_STATE,
	SORT_STARTED
};

static const char *const sort_words[] = { "name", "model", "data", "steps", "best", "time", "state",
	"started", NULL };

struct runs_cli {
	struct gt_cmd_common common;
	int sort; /* enum sort_key */
	bool compare;
};

#define AT(member) GT_OPT_FIELD(struct runs_cli, member)

/* clang-format off */
static const struct gt_opt options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to print" },
	{ "sort", 0, GT_OPT_CHOICE, AT(sort), "KEY",
	    "column to sort by; best: the best first, started: the newest, steps and time: the largest",
	    .initial = "name", .words = sort_words, .flags = GT_OPT_ONCE },
	{ "compare", 0, GT_OPT_FLAG, AT(compare), .flags = GT_OPT_ONCE,
	    .help = "also print the options that differ between the runs" },
	GT_CMD_COMMON(struct runs_cli),
	{ 0 }
};
/* clang-format on */

/* ---- order ---- */

static int compare_numbers(double a, double b)
{
	return a < b ? -1 : a > b;
}

/* An unknown number comes last. */
static int larger_first(double a, double b)
{
	return compare_numbers(isnan(b) ? -INFINITY : b, isnan(a) ? -INFINITY : a);
}

/* Scores of one kind stand together: accuracies, losses of evaluations, losses of training. */
static int rank_of_best(const struct gt_run_best *b)
{
	return !b->known ? 3 : b->highest ? 0 : b->val ? 1 : 2;
}

static int compare_best(const struct gt_run_best *a, const struct gt_run_best *b)
{
	int order = rank_of_best(a) - rank_of_best(b);

	if (order || !a->known)
		return order;
	return a->highest ? compare_numbers(b->value, a->value)
	                  : compare_numbers(a->value, b->value);
}

static int compare_options(const struct gt_run *a, const struct gt_run *b, const char *option)
{
	const char *x = gt_run_option(a, option), *y = gt_run_option(b, option);

	return strcmp(x ? x : "", y ? y : "");
}

static int compare_by(enum sort_key key, const struct gt_run *a, const struct gt_run *b)
{
	switch (key) {
	case SORT_MODEL:
		return compare_options(a, b, "model");
	case SORT_DATA:
		return compare_options(a, b, "data");
	case SORT_STEPS:
		return larger_first((double)a->step, (double)b->step);
	case SORT_BEST:
		return compare_best(&a->best, &b->best);
	case SORT_TIME:
		return larger_first(a->time_s, b->time_s);
	case SORT_STATE:
		return (int)a->status.state - (int)b->status.state;
	case SORT_STARTED:
		return larger_first(a->status.started, b->status.started);
	case SORT_NAME:
		break;
	}
	return 0;
}

static int compare_runs(const void *x, const void *y, void *key)
{
	const struct gt_run *a = x, *b = y;
	int order = compare_by(*(const enum sort_key *)key, a, b);

	return order ? order : strcmp(a->path, b->path);
}

/* ---- as text ---- */

enum { NAME, MODEL, DATA, STEPS, BEST, TIME, STATE, COLUMNS };
enum { CELL = 1024, NARROWEST = 8, USUAL = 48, USUAL_SCREEN = 120 };

/* Print a header and a line for each run. The texts of columns with `widest` are cut. */
static void put_rows(
    struct gt_table *table, const struct gt_run_set *set, const size_t widest[COLUMNS])
{
	gt_table_row(table,
	    (const char *[COLUMNS]){ "NAME", "MODEL", "DATA", "STEPS", "BEST", "TIME", "STATE" },
	    COLUMNS);
	for (size_t i = 0; i < set->count; i++) {
		const struct gt_run *r = &set->run[i];
		const char *model = gt_run_option(r, "model"), *data = gt_run_option(r, "data");
		char name[CELL], models[CELL], datas[CELL], steps[GT_RUN_TEXT], best[GT_RUN_TEXT],
		    time[GT_TEXT_SIZE], state[GT_RUN_STATE_TEXT], states[CELL];

		gt_table_shorten(name, CELL, gt_run_set_name(set, i), widest[NAME]);
		gt_table_shorten(models, CELL, model ? model : "-", widest[MODEL]);
		gt_table_shorten(datas, CELL, data ? data : "-", widest[DATA]);
		gt_table_shorten(states, CELL, gt_run_state_text(state, r), widest[STATE]);
		gt_table_row(table,
		    (const char *[COLUMNS]){ name, models, datas, gt_run_steps_text(steps, r),
		        gt_run_best_text(best, r), gt_text_duration(time, r->time_s), states },
		    COLUMNS);
	}
}

/* Take columns of the screen from a column of the table, as many as are missing. */
static void narrow(struct gt_table *table, size_t widest[COLUMNS], int column, size_t screen)
{
	size_t total = gt_table_total(table, COLUMNS), width = table->width[column], over;

	if (total <= screen || width <= NARROWEST)
		return;
	over = total - screen;
	width = width > over + NARROWEST ? width - over : NARROWEST;
	table->width[column] = widest[column] = width;
}

/* A terminal that is too narrow cuts the data, then the model, the reason and the name. */
static void print_table(const struct gt_run_set *set)
{
	static const int order[] = { DATA, MODEL, STATE, NAME };
	struct gt_table table = { .out = stdout,
		.measuring = true,
		.right = { [STEPS] = true, [BEST] = true, [TIME] = true } };
	size_t screen = gt_cmd_stdout_columns(), widest[COLUMNS];

	for (int c = 0; c < COLUMNS; c++)
		widest[c] = c == MODEL || c == DATA ? USUAL : CELL;
	put_rows(&table, set, widest);
	for (size_t i = 0; screen && i < sizeof(order) / sizeof(*order); i++)
		narrow(&table, widest, order[i], screen);
	table.measuring = false;
	put_rows(&table, set, widest);
}

/* Measure or print a line for each option that differs, with its value in each run. Set *wide if a
 * value is wider than a column can be. */
static int put_options(struct gt_table *table, bool *wide, const json_t *differ,
    const struct gt_run_set *set, struct gt_err *err)
{
	const char *cells[GT_TABLE_COLUMNS] = { "OPTION" };
	struct gt_arena arena = { 0 };
	const json_t *row;
	int rc = 0;
	size_t i;

	for (size_t r = 0; r < set->count; r++)
		cells[1 + r] = gt_run_set_name(set, r);
	gt_table_row(table, cells, 1 + set->count);
	json_array_foreach(differ, i, row)
	{
		const json_t *values = json_object_get(row, "values");

		cells[0] = json_string_value(json_object_get(row, "option"));
		for (size_t r = 0; !rc && r < set->count; r++) {
			struct gt_buf text = { 0 };

			gt_run_put_value(&text, json_array_get(values, r));
			cells[1 + r] = gt_buf_keep(&text, &arena, err);
			rc = cells[1 + r] ? 0 : GT_ENOMEM;
			*wide |= !rc && gt_table_width(cells[1 + r]) > GT_TABLE_WIDEST;
		}
		if (!rc)
			gt_table_row(table, cells, 1 + set->count);
	}
	gt_arena_release(&arena);
	return rc;
}

/* Print a line for each run below each option. */
static int list_options(const json_t *differ, const struct gt_run_set *set, struct gt_err *err)
{
	struct gt_table table = { .out = stdout, .measuring = true };
	const json_t *row, *value;
	size_t i, r;
	int rc = 0;

	for (r = 0; r < set->count; r++)
		gt_table_row(&table, (const char *[2]){ gt_run_set_name(set, r), "" }, 2);
	table.measuring = false;
	json_array_foreach(differ, i, row)
	{
		gt_log_put(stdout, json_string_value(json_object_get(row, "option")));
		putchar('\n');
		json_array_foreach(json_object_get(row, "values"), r, value)
		{
			struct gt_buf text = { 0 };

			gt_run_put_value(&text, value);
			rc = rc ? rc : gt_buf_check(&text, err);
			fputs("  ", stdout);
			gt_table_row(&table,
			    (const char *[2]){ gt_run_set_name(set, r), gt_buf_text(&text) }, 2);
			gt_buf_release(&text);
		}
	}
	return rc;
}

/* A table of the options that differ; where it is too wide, or there are too many runs, a list. */
static int print_options(const json_t *differ, const struct gt_run_set *set, struct gt_err *err)
{
	struct gt_table table = { .out = stdout, .measuring = true };
	size_t screen = gt_cmd_stdout_columns();
	bool wide = false;
	int rc;

	putchar('\n');
	if (!json_array_size(differ)) {
		puts("the runs have the same options");
		return 0;
	}
	if (set->count >= GT_TABLE_COLUMNS)
		return list_options(differ, set, err);
	rc = put_options(&table, &wide, differ, set, err);
	table.measuring = false;
	if (rc)
		return rc;
	return wide || gt_table_total(&table, 1 + set->count) > (screen ? screen : USUAL_SCREEN)
	           ? list_options(differ, set, err)
	           : put_options(&table, &wide, differ, set, err);
}

/* ---- the command ---- */

/* {"runs":[..],"differ":[..]}; `differ` may be NULL, and is released. */
static int print_json(const struct gt_run_set *set, json_t *differ, struct gt_err *err)
{
	json_t *list = gt_run_set_describe(set);

	return gt_cmd_print_json(
	    json_pack("{s:o,s:o*}", "runs", list, "differ", differ), GT_RUN_SET_JSON, err);
}

static int print_runs(const struct gt_run_set *set, const struct runs_cli *cli, struct gt_err *err)
{
	json_t *differ = cli->compare ? gt_run_differ(set->run, set->count, err) : NULL;
	int rc = cli->compare && !differ ? GT_ENOMEM : 0;

	if (rc)
		return rc;
	if (cli->common.json)
		return print_json(set, differ, err);
	if (set->count)
		print_table(set);
	if (cli->compare)
		rc = print_options(differ, set, err);
	json_decref(differ);
	return rc;
}

static int list_runs(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	static char folder[] = "runs";
	char *const usual[] = { folder };
	const struct runs_cli *cli = values;
	enum sort_key key = (enum sort_key)cli->sort;
	int named = env->opts.operand_count;
	struct gt_run_set set;
	int rc = gt_run_set_read(
	    &set, named ? env->opts.operands : usual, named ? named : 1, true, &env->log, err);

	if (rc && !named)
		gt_err_hint(err, "'gtrain runs DIR' lists the run directories below DIR");
	if (!rc && cli->compare && set.count < 2)
		rc = gt_err_set(err, GT_EINVAL, "--compare needs two runs, and there %s",
		    set.count ? "is one" : "are none");
	if (!rc && !set.count)
		gt_log_info(&env->log, "no run in '%s'", named ? env->opts.operands[0] : folder);
	if (!rc && set.count)
		qsort_r(set.run, set.count, sizeof(*set.run), compare_runs, &key);
	if (!rc)
		rc = print_runs(&set, cli, err);
	gt_run_set_release(&set);
	return rc;
}

const struct gt_cmd_work gt_cmd_runs = { options, sizeof(struct runs_cli), list_runs };
