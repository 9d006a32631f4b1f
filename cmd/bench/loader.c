/* loader.c - gtrain bench loader: the rate at which threads read batches, by their number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/options.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/train/program.h"

enum { COLUMNS = 5, CELL = 32 };

/* The batches read by so many threads. All rows keep their loaders open, and take turns: a loader
 * whose batches are not taken waits. */
struct row {
	int64_t workers;
	struct gt_loader *loader;
	double rates[GT_BENCH_MAX_ROUNDS]; /* samples per second, sorted after the last round */
};

struct bench {
	const struct gt_bench_loader_cli *cli;
	struct gt_model *model; /* NULL: the data have their own form */
	struct gt_dataset *data;
	struct gt_augment augment;
	double need; /* samples per second; 0: not known */
	struct row rows[GT_BENCH_NUMBERS];
	int row_count;
};

/* ---- measuring ---- */

/* Build the model for one sample: an error names the property of the data that does not fit. */
static int check_model(const struct bench *b, struct gt_err *err)
{
	struct gt_model_input in = { .form = gt_dataset_info(b->data)->form };
	struct gt_model_io io;
	struct gt_graph *g;
	int rc;

	in.loss = gt_model_default_loss(b->model, &in.form);
	rc = gt_loss_check(&in.loss, &in.form, err);
	if (rc || gt_graph_new(&g, err))
		return err->code;
	rc = gt_model_build(b->model, g, &in, 1, GT_MODEL_TRAIN, &io, err);
	gt_graph_free(g);
	return rc;
}

static int open_data(struct bench *b, struct gt_log *log, struct gt_err *err)
{
	const struct gt_bench_loader_cli *cli = b->cli;
	struct gt_data_request request = { 0 };
	int rc = cli->augment ? gt_augment_parse(&b->augment, cli->augment, err) : 0;

	if (!rc && cli->model)
		rc = gt_model_open(&b->model, cli->model, err);
	if (!rc && b->model)
		gt_data_request_of(&request, b->model, 0, 1);
	request.parts = b->augment.chosen[GT_AUGMENT_RRC];
	request.log = log;
	if (!rc)
		rc = gt_dataset_open(&b->data, cli->data, &request, err);
	return rc || !b->model ? rc : check_model(b, err);
}

static int open_loader(struct bench *b, struct row *row, struct gt_err *err)
{
	const struct gt_loader_options options = { .workers = (int)row->workers,
		.prefetch = (int)b->cli->prefetch,
		.hold = 1,
		.draw = { .train = true, .augment = b->augment },
		.sampler = { .world = 1,
		    .batch = (int)b->cli->batch,
		    .samples = gt_dataset_info(b->data)->samples,
		    .shuffle = true } };

	return gt_loader_open(&row->loader, b->data, &options, err);
}

static int take_batch(struct row *row, int64_t *samples, struct gt_err *err)
{
	const struct gt_batch *batch;
	int rc = gt_loader_next(row->loader, &batch, err);

	if (rc > 0)
		*samples += batch->count;
	return rc < 0 ? rc : 0;
}

/* Batches that are ready were read while other rows were measured: they do not count. */
static int measure_row(struct bench *b, struct row *row, int round, struct gt_err *err)
{
	int64_t samples = 0;
	double began;
	int rc = 0;

	for (int64_t i = 0; !rc && i < b->cli->prefetch + 2; i++)
		rc = take_batch(row, &samples, err);
	samples = 0;
	began = gt_clock_s();
	do {
		if (!rc)
			rc = take_batch(row, &samples, err);
	} while (!rc && gt_clock_s() - began < b->cli->seconds);
	row->rates[round] = (double)samples / (gt_clock_s() - began);
	return rc;
}

static int measure(struct bench *b, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < b->row_count; i++)
		rc = open_loader(b, &b->rows[i], err);
	for (int round = 0; round < b->cli->rounds; round++)
		for (int i = 0; !rc && i < b->row_count; i++)
			rc = measure_row(b, &b->rows[i], round, err);
	for (int i = 0; !rc && i < b->row_count; i++)
		(void)gt_measure_median(b->rows[i].rates, (int)b->cli->rounds);
	return rc;
}

/* ---- the output ---- */

static double quantile(const struct bench *b, const struct row *row, double q)
{
	return row->rates[(int)(q * (double)(b->cli->rounds - 1))];
}

static double bytes_per_sample(const struct bench *b)
{
	const struct gt_data_info *info = gt_dataset_info(b->data);

	return (double)info->input_bytes + (double)info->targets * sizeof(int32_t);
}

/* The row with the fewest threads that is fast enough, or NULL. */
static const struct row *find_enough(const struct bench *b)
{
	const struct row *out = NULL;

	for (int i = 0; i < b->row_count; i++)
		if (quantile(b, &b->rows[i], 0.5) >= b->need &&
		    (!out || b->rows[i].workers < out->workers))
			out = &b->rows[i];
	return out;
}

static void print_loader_row(struct gt_table *table, const struct bench *b, const struct row *row)
{
	char cells[COLUMNS][CELL] = { "" };
	const char *all[COLUMNS];
	double rate = quantile(b, row, 0.5);

	snprintf(cells[0], CELL, "%lld", (long long)row->workers);
	snprintf(cells[1], CELL, rate < 1000 ? "%.4g" : "%.0f", rate);
	gt_bench_rate(cells[2], CELL, rate * bytes_per_sample(b), 1e6);
	snprintf(cells[3], CELL, "%.0f %%",
	    100 * (quantile(b, row, 0.75) - quantile(b, row, 0.25)) / rate);
	if (b->need > 0)
		snprintf(cells[4], CELL, "%.2f x", rate / b->need);
	for (int c = 0; c < COLUMNS; c++)
		all[c] = cells[c];
	gt_table_row(table, all, b->need > 0 ? COLUMNS : COLUMNS - 1);
}

static void print_loader_text(const struct bench *b)
{
	static const char *const head[COLUMNS] = { "workers", "samples/s", "MB/s", "spread",
		"of the need" };
	struct gt_table table = {
		.out = stdout, .measuring = true, .right = { true, true, true, true, true }
	};
	const struct row *enough = find_enough(b);
	char bytes[GT_TEXT_SIZE], samples[GT_TEXT_SIZE];

	printf("%s samples of %s, in batches of %lld; medians of %lld rounds\n",
	    gt_text_count(samples, (double)gt_dataset_info(b->data)->samples),
	    gt_text_bytes(bytes, (uint64_t)bytes_per_sample(b)), (long long)b->cli->batch,
	    (long long)b->cli->rounds);
	for (int round = 0; round < 2; round++, table.measuring = false) {
		gt_table_row(&table, head, b->need > 0 ? COLUMNS : COLUMNS - 1);
		for (int i = 0; i < b->row_count; i++)
			print_loader_row(&table, b, &b->rows[i]);
	}
	if (!(b->need > 0))
		return;
	printf("%g steps a second need %.0f samples/s: ", b->cli->step_rate, b->need);
	if (enough)
		printf("--workers %lld is enough\n", (long long)enough->workers);
	else
		puts("training would wait for data");
}

static json_t *json_of_rows(const struct bench *b)
{
	json_t *rows = json_array();

	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];
		double rate = quantile(b, row, 0.5);

		json_array_append_new(
		    rows, json_pack("{sI sf sf sf sf so}", "workers", (json_int_t)row->workers,
		              "samples_per_s", rate, "samples_per_s_p25", quantile(b, row, 0.25),
		              "samples_per_s_p75", quantile(b, row, 0.75), "bytes_per_s",
		              rate * bytes_per_sample(b), "of_need",
		              b->need > 0 ? json_real(rate / b->need) : json_null()));
	}
	return rows;
}

static int print_loader_json(const struct bench *b, struct gt_err *err)
{
	const struct gt_bench_loader_cli *cli = b->cli;
	const struct row *enough = b->need > 0 ? find_enough(b) : NULL;

	return gt_cmd_print_json(
	    json_pack("{so sI sf sI sI sf so so so}", "data",
	        gt_json_string_value(cli->data, strlen(cli->data)), "samples",
	        (json_int_t)gt_dataset_info(b->data)->samples, "bytes_per_sample",
	        bytes_per_sample(b), "batch", (json_int_t)cli->batch, "rounds",
	        (json_int_t)cli->rounds, "seconds", cli->seconds, "needed_samples_per_s",
	        b->need > 0 ? json_real(b->need) : json_null(), "enough_workers",
	        enough ? json_integer((json_int_t)enough->workers) : json_null(), "rows",
	        json_of_rows(b)),
	    JSON_INDENT(2), err);
}

/* ---- the command ---- */

static int read_rows(struct bench *b, struct gt_err *err)
{
	int64_t workers[GT_BENCH_NUMBERS];
	int rc =
	    gt_bench_read_numbers(workers, &b->row_count, b->cli->workers, "workers", 0, 256, err);

	for (int i = 0; i < b->row_count; i++)
		b->rows[i].workers = workers[i];
	b->need = b->cli->step_rate * (double)b->cli->batch;
	return rc;
}

static int bench_loader(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_loader_cli *cli = values;
	struct bench *b = gt_calloc(1, sizeof(*b), err);
	int rc = b ? 0 : GT_ENOMEM;

	if (b)
		b->cli = cli;
	if (!rc)
		rc = read_rows(b, err);
	if (!rc)
		rc = open_data(b, &env->log, err);
	if (!rc)
		rc = measure(b, err);
	if (!rc && cli->common.json)
		rc = print_loader_json(b, err);
	else if (!rc && cli->csv)
		gt_json_print_csv(stdout, json_of_rows(b));
	else if (!rc)
		print_loader_text(b);
	if (!rc && b->need > 0 && !find_enough(b))
		env->status = GT_EXIT_FAILED;
	for (int i = 0; b && i < b->row_count; i++)
		gt_loader_close(b->rows[i].loader);
	if (b) {
		gt_dataset_close(b->data);
		gt_model_close(b->model);
	}
	free(b);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_loader = { gt_bench_loader_options,
	sizeof(struct gt_bench_loader_cli), bench_loader };
