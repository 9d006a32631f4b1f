/* sweep.c - gtrain bench sweep: the fastest batch, bucket size and backend, by training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/train.h"
#include "cmd/json_out.h"
#include "cmd/probe/print.h"
#include "cmd/table_out.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/base/walk.h"
#include "lib/train/train.h"

/*
 * The batch decides how much a device computes at once, the bucket how much a collective sends,
 * which hardly depends on the batch. So first the batches are compared, with the bucket size that
 * `train` has, then the bucket sizes with the fastest batch, and at last the backends with both.
 * Rows take turns, as in bench train.
 */

enum { COLUMNS = 8, CELL = 40, MESSAGE = GT_BENCH_ERROR_LINE_BYTES + CELL, WIDTH = 80, INDENT = 2 };

struct sweep {
	const struct gt_bench_sweep_cli *cli;
	struct gt_bench_train train;
	int64_t batches[GT_BENCH_NUMBERS], buckets[GT_BENCH_NUMBERS];
	int batch_count, bucket_count;
	int backends[GT_COMM_BACKENDS], backend_count; /* indices in gt_comm_backend_names */
	int best; /* index of the fastest row so far; -1: none has figures */
};

static bool has_figures(const struct gt_bench_train_row *row)
{
	return row->rate_count && !row->why[0];
}

/* ---- measuring ---- */

/* Measure the rows from `first` on, which differ in `what`, and find the fastest of all. */
static int measure_rows(
    struct sweep *s, int first, const char *what, struct gt_log *log, struct gt_err *err)
{
	struct gt_bench_train *b = &s->train;
	int rounds = (int)b->cli->rounds, rc = 0;

	for (int i = first; !rc && i < b->row_count; i++)
		rc = gt_bench_train_plan(b, &b->rows[i], err);
	for (int round = 0; round < rounds; round++)
		for (int i = first; !rc && i < b->row_count; i++) {
			if (b->rows[i].why[0])
				continue;
			gt_log_info(log, "round %d of %d: batch %lld%s", round + 1, rounds,
			    (long long)b->rows[i].batch, what);
			rc = gt_bench_train_run(b, &b->rows[i], err);
		}
	for (int i = first; i < b->row_count; i++) {
		struct gt_bench_train_row *row = &b->rows[i];

		if (!has_figures(row))
			continue;
		row->run.samples_per_s = gt_measure_median(row->rates, row->rate_count);
		if (s->best < 0 || row->run.samples_per_s > b->rows[s->best].run.samples_per_s)
			s->best = i;
	}
	return rc;
}

static int add_row(
    struct sweep *s, int64_t batch, int64_t bucket_bytes, const char *backend, struct gt_err *err)
{
	const struct gt_bench_sweep_cli *cli = s->cli;
	int rc = gt_bench_train_add_row(
	    &s->train, cli->nproc > 1 ? 1 + cli->parallel : 0, cli->amp, (int)cli->nproc, err);

	s->train.rows[s->train.row_count - 1].batch = batch;
	s->train.rows[s->train.row_count - 1].bucket_bytes = bucket_bytes;
	s->train.rows[s->train.row_count - 1].backend = backend;
	return rc;
}

/* The backend of all rows but those that compare backends; NULL: as `train` chooses it. */
static const char *first_backend(const struct sweep *s)
{
	return s->backends[0] == GT_COMM_AUTO ? NULL : gt_comm_backend_names[s->backends[0]];
}

/* Compare the other backends with the fastest row. */
static int measure_backends(struct sweep *s, struct gt_log *log, struct gt_err *err)
{
	const int first = s->train.row_count, best = s->best;
	int rc = 0;

	for (int i = 1; !rc && best >= 0 && s->cli->nproc > 1 && i < s->backend_count; i++)
		rc = add_row(s, s->train.rows[best].batch, s->train.rows[best].bucket_bytes,
		    gt_comm_backend_names[s->backends[i]], err);
	return rc ? rc : measure_rows(s, first, ", another backend", log, err);
}

static int measure_all(void *self, struct gt_log *log, struct gt_err *err)
{
	struct sweep *s = self;
	int rc = 0, first;

	for (int i = 0; !rc && i < s->batch_count; i++)
		rc = add_row(s, s->batches[i], 0, first_backend(s), err);
	if (!rc)
		rc = measure_rows(s, 0, "", log, err);
	first = s->train.row_count;
	for (int i = 0; !rc && s->best >= 0 && s->cli->nproc > 1 && i < s->bucket_count; i++)
		rc = add_row(s, s->train.rows[s->best].batch, s->buckets[i], first_backend(s), err);
	if (!rc)
		rc = measure_rows(s, first, ", another bucket size", log, err);
	return rc ? rc : measure_backends(s, log, err);
}

/* ---- the output ---- */

static double step_quantile(const struct gt_bench_train_row *row, double q)
{
	return (double)row->run.samples / row->rates[(int)((1 - q) * (row->rate_count - 1))];
}

static const char *note_of(const struct sweep *s, const struct gt_bench_train_row *row)
{
	if (row->why[0])
		return row->refused ? "refused" : "failed";
	if (!has_figures(row))
		return "not measured";
	return row == &s->train.rows[s->best] ? "fastest" : "";
}

static void print_sweep_row(
    struct gt_table *table, const struct sweep *s, const struct gt_bench_train_row *row)
{
	char cells[COLUMNS - 1][CELL] = { "" };
	const char *all[COLUMNS];
	double rate = row->run.samples_per_s;

	snprintf(cells[0], CELL, "%lld", (long long)row->batch);
	if (row->bucket_bytes)
		gt_text_bytes(cells[1], (uint64_t)row->bucket_bytes);
	else
		snprintf(cells[1], CELL, "default");
	snprintf(cells[2], CELL, "%s", row->backend ? row->backend : "auto");
	if (has_figures(row)) {
		snprintf(cells[3], CELL, rate < 1000 ? "%.4g" : "%.0f", rate);
		snprintf(cells[4], CELL, "%.3g", 1e3 * step_quantile(row, 0.5));
		snprintf(cells[5], CELL, "%.0f %%",
		    100 * (step_quantile(row, 0.75) - step_quantile(row, 0.25)) /
		        step_quantile(row, 0.5));
		if (row->memory_bytes)
			gt_text_bytes(cells[6], row->memory_bytes);
	}
	for (int c = 0; c < COLUMNS - 1; c++)
		all[c] = cells[c];
	all[COLUMNS - 1] = note_of(s, row);
	gt_table_row(table, all, COLUMNS);
}

/* The reasons are longer than the table has room for. */
static void print_reason(const struct gt_bench_train_row *row)
{
	char text[MESSAGE];
	int column;

	column = printf("batch %lld", (long long)row->batch);
	if (row->bucket_bytes)
		column += printf(", bucket %lld", (long long)row->bucket_bytes);
	if (row->backend)
		column += printf(", %s", row->backend);
	snprintf(text, sizeof(text), " %s: %s", row->refused ? "refused" : "failed", row->why);
	gt_probe_put_text(stdout, text, column, INDENT, WIDTH);
	putchar('\n');
}

static void print_sweep_text(const struct sweep *s, const char *command)
{
	static const char *const head[COLUMNS] = { "batch", "bucket", "backend", "samples/s",
		"step ms", "spread", "memory", "" };
	struct gt_table table = { .out = stdout,
		.measuring = true,
		.right = { true, true, false, true, true, true, true } };
	const struct gt_bench_train *b = &s->train;

	for (int round = 0; round < 2; round++, table.measuring = false) {
		gt_table_row(&table, head, COLUMNS);
		for (int i = 0; i < b->row_count; i++)
			print_sweep_row(&table, s, &b->rows[i]);
	}
	for (int i = 0; i < b->row_count; i++)
		if (b->rows[i].why[0])
			print_reason(&b->rows[i]);
	if (command)
		printf("%s\n", command);
}

static json_t *figure(const struct gt_bench_train_row *row, double value)
{
	return has_figures(row) ? json_real(value) : json_null();
}

static json_t *json_of_row(const struct sweep *s, const struct gt_bench_train_row *row)
{
	bool known = has_figures(row);

	return json_pack("{sI so ss so so so so so sb so}", "batch", (json_int_t)row->batch,
	    "bucket_bytes",
	    row->bucket_bytes ? json_integer((json_int_t)row->bucket_bytes) : json_null(),
	    "backend", row->backend ? row->backend : gt_comm_backend_names[GT_COMM_AUTO],
	    "samples_per_s", figure(row, row->run.samples_per_s), "step_s",
	    figure(row, known ? step_quantile(row, 0.5) : 0), "step_p25_s",
	    figure(row, known ? step_quantile(row, 0.25) : 0), "step_p75_s",
	    figure(row, known ? step_quantile(row, 0.75) : 0), "memory_bytes",
	    known && row->memory_bytes ? json_integer((json_int_t)row->memory_bytes) : json_null(),
	    "fastest", known && row == &s->train.rows[s->best], "why",
	    row->why[0] ? gt_json_string_value(row->why, strlen(row->why)) : json_null());
}

static json_t *json_of_rows(const struct sweep *s)
{
	json_t *rows = json_array();

	for (int i = 0; i < s->train.row_count; i++)
		json_array_append_new(rows, json_of_row(s, &s->train.rows[i]));
	return rows;
}

static int print_sweep(const struct sweep *s, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = s->train.cli;
	char *command = NULL;
	int rc = 0;

	if (cli->csv) {
		gt_json_print_csv(stdout, json_of_rows(s));
		return 0;
	}
	if (s->best >= 0) {
		command = gt_bench_train_command(&s->train, &s->train.rows[s->best], err);
		rc = command ? 0 : GT_ENOMEM;
	}
	if (!rc && s->cli->common.json)
		rc = gt_cmd_print_json(
		    json_pack("{so sI sI sI so so}", "model",
		        gt_json_string_value(cli->model, strlen(cli->model)), "nproc",
		        (json_int_t)s->cli->nproc, "rounds", (json_int_t)cli->rounds, "steps",
		        (json_int_t)cli->steps, "command",
		        command ? gt_json_string_value(command, strlen(command)) : json_null(),
		        "rows", json_of_rows(s)),
		    JSON_INDENT(2), err);
	else if (!rc)
		print_sweep_text(s, command);
	free(command);
	return rc;
}

/* ---- the command ---- */

static int set_up(struct sweep *s, const struct gt_cmd_env *env, struct gt_err *err)
{
	static const char *const own[] = { "bucket-size", "backend", NULL };
	const struct gt_bench_sweep_cli *cli = s->cli;
	int rc = gt_bench_train_open(&s->train, env, own, err);

	if (!rc)
		rc = gt_bench_read_numbers(s->batches, &s->batch_count, cli->batches, "batch", 1,
		    GT_TRAIN_MAX_BATCHES, err);
	if (!rc)
		rc = gt_bench_read_numbers(
		    s->buckets, &s->bucket_count, cli->buckets, "bucket-size", 1, INT64_MAX, err);
	if (!rc)
		rc = gt_bench_read_words(s->backends, &s->backend_count, cli->backends,
		    gt_comm_backend_names, "backend", err);
	if (rc)
		return rc;
	s->train.rows = gt_calloc((size_t)(s->batch_count + s->bucket_count + s->backend_count),
	    sizeof(*s->train.rows), err);
	return s->train.rows ? 0 : GT_ENOMEM;
}

/* After a signal, print the rows that have figures. */
static int run_until_stopped(struct sweep *s, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_work work = { .folder = s->train.folder,
		.dir = s->cli->train.dir,
		.stop = &s->train.stop,
		.measure = measure_all,
		.self = s };
	bool done;
	int rc = gt_bench_measure(&done, &work, env, err);

	if (!rc)
		rc = print_sweep(s, err);
	if (!rc && s->best < 0 && !env->asked)
		rc = gt_err_set(err, GT_EIO, "no row could be measured: %s", s->train.rows[0].why);
	return rc;
}

static int bench_sweep(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_sweep_cli *cli = values;
	struct sweep s = { .cli = cli, .train = { .cli = &cli->train }, .best = -1 };
	int rc = set_up(&s, env, err);

	if (!rc)
		rc = run_until_stopped(&s, env, err);
	gt_bench_train_close(&s.train);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_sweep = { gt_bench_sweep_options,
	sizeof(struct gt_bench_sweep_cli), bench_sweep };
