/* train_run.c - plan and train by starting this program, and read the measurements of the run. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/train.h"
#include "cmd/ranks.h"
#include "lib/base/mem.h"
#include "lib/base/walk.h"
#include "lib/parallel/parallel.h"
#include "lib/train/run/run_points.h"

enum { OWN_WORDS = 40, NUMBER = 24 };

/* The rate without waiting for data stays finite. */
#define MOST_WAIT 0.999

/* ---- command lines ---- */

/* A command line of this program. */
struct line {
	char **words;
	int count;
	char numbers[8][NUMBER];
	int number_count;
};

static void add_word(struct line *l, const char *word)
{
	l->words[l->count++] = (char *)word;
	l->words[l->count] = NULL;
}

static void add_option(struct line *l, const char *name, const char *value)
{
	add_word(l, name);
	add_word(l, value);
}

static void add_number(struct line *l, const char *name, int64_t value)
{
	char *text = l->numbers[l->number_count++];

	snprintf(text, NUMBER, "%lld", (long long)value);
	add_option(l, name, text);
}

/* `gtrain train` with the options that are handed on, then those of the row. */
static int build_run_line(struct line *l, const struct gt_bench_train *b,
    const struct gt_bench_train_row *row, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = b->cli;

	*l = (struct line){ .words = gt_calloc(
		                (size_t)b->more_count + OWN_WORDS, sizeof(*l->words), err) };
	if (!l->words)
		return GT_ENOMEM;
	add_word(l, b->self);
	add_word(l, "train");
	for (int i = 0; i < b->more_count; i++)
		add_word(l, b->more[i]);
	add_option(l, "--model", cli->model);
	add_option(l, "--data", cli->data);
	add_number(l, "--batch", row->batch);
	if (row->bucket_bytes)
		add_number(l, "--bucket-size", row->bucket_bytes);
	if (row->backend)
		add_option(l, "--backend", row->backend);
	if (strcmp(row->mode, gt_bench_train_modes[0]) != 0)
		add_option(l, "--parallel", row->mode);
	add_number(l, "--nproc", row->ranks);
	add_option(l, "--amp", row->amp);
	add_option(l, "--device", cli->device);
	if (cli->threads)
		add_number(l, "--threads", cli->threads);
	return 0;
}

static int build_train_line(struct line *l, const struct gt_bench_train *b,
    const struct gt_bench_train_row *row, struct gt_err *err)
{
	int rc = build_run_line(l, b, row, err);

	if (rc)
		return rc;
	add_number(l, "--steps", b->cli->steps + b->cli->discard);
	add_word(l, "--quiet");
	return 0;
}

/* The first word is the path of this file, which is gtrain for users. */
char *gt_bench_train_command(
    const struct gt_bench_train *b, const struct gt_bench_train_row *row, struct gt_err *err)
{
	char *out = NULL;
	struct line line;

	if (build_run_line(&line, b, row, err))
		return NULL;
	(void)gt_cmd_command_line(&out, line.count - 1, line.words + 1, err);
	free(line.words);
	return out;
}

/* ---- the plan ---- */

static int64_t count_of(const json_t *object, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(object, name);

	return value ? json_integer_value(value) : otherwise;
}

/* Ranks that share a model, as stages or shards of layers, read the same samples. A step has at
 * most the samples of an epoch. */
static void read_plan(struct gt_bench_train_row *row, const json_t *plan)
{
	size_t stages = json_array_size(json_object_get(plan, "stages"));
	int64_t sharing = count_of(plan, "tensor_parallel", 1) * (stages ? (int64_t)stages : 1);
	int64_t epoch = count_of(plan, "samples", 0);

	row->parameters = count_of(plan, "parameters", 0) - count_of(plan, "frozen_parameters", 0);
	row->planned_bytes = (uint64_t)count_of(json_object_get(plan, "memory_bytes"), "total", 0);
	row->run.ranks = row->ranks;
	row->run.samples = count_of(plan, "batch", 0) * count_of(plan, "accumulate", 0) *
	                   count_of(plan, "ranks", 0) / sharing;
	if (epoch && row->run.samples > epoch)
		row->run.samples = epoch;
}

int gt_bench_train_plan(
    const struct gt_bench_train *b, struct gt_bench_train_row *row, struct gt_err *err)
{
	json_t *plan = NULL;
	struct line line;
	int status, rc = build_train_line(&line, b, row, err);

	if (rc)
		return rc;
	add_word(&line, "--dry-run");
	add_word(&line, "--json");
	rc = gt_bench_run_json(&plan, &status, line.words, b->stop, row->why, err);
	row->refused = row->why[0];
	if (plan)
		read_plan(row, plan);
	json_decref(plan);
	free(line.words);
	return rc;
}

/* ---- a run ---- */

/* Ranks that are threads share the memory of their process, unless it is that of GPUs. */
static double memory_of_rank(
    const struct gt_bench_train *b, const struct gt_bench_train_row *row, double bytes)
{
	for (int kind = 0; !b->gpus && kind < GT_PARALLEL_KINDS; kind++)
		if (!strcmp(row->mode, gt_parallel_names[kind]) &&
		    gt_parallel_is_threads((enum gt_parallel_kind)kind))
			return bytes / row->ranks;
	return bytes;
}

/* Add step `i` of a run. A number that the run does not tell is NaN. */
static void add_step(const struct gt_bench_train *b, struct gt_bench_train_row *row,
    const struct gt_run_points *p, size_t i)
{
	double rate = gt_run_value(p, GT_RUN_SAMPLES_PER_S, i);
	double tokens = gt_run_value(p, GT_RUN_TOKENS_PER_S, i);
	double wait = gt_run_value(p, GT_RUN_DATA_WAIT, i);
	double bytes = memory_of_rank(b, row, gt_run_value(p, GT_RUN_MEMORY_BYTES, i));

	if (p->step[i] <= b->cli->discard || !(rate > 0))
		return;
	wait = wait > 0 ? fmin(wait, MOST_WAIT) : 0;
	row->rates_unwaited[row->rate_count] = rate / (1 - wait);
	row->rates[row->rate_count++] = rate;
	if (bytes > (double)row->memory_bytes)
		row->memory_bytes = (uint64_t)bytes;
	if (tokens > 0)
		row->tokens_per_sample = (int64_t)(tokens / rate + 0.5);
}

/* The run has a line of metrics for each step. */
static int read_steps(const struct gt_bench_train *b, struct gt_bench_train_row *row,
    const char *path, struct gt_err *err)
{
	struct gt_folder folder = { .fd = -1 };
	struct gt_run_metrics m = { 0 };
	int enough = row->rate_count + (int)b->cli->steps;
	int rc = gt_folder_open(&folder, path, err);

	if (!rc)
		rc = gt_run_metrics_read(&m, &folder, err);
	for (size_t i = 0; !rc && i < m.train.count && row->rate_count < enough; i++)
		add_step(b, row, &m.train, i);
	if (!rc && row->rate_count < enough)
		rc = gt_err_set(err, GT_EFORMAT, "the metrics in '%s' lack %d of %lld steps", path,
		    enough - row->rate_count, (long long)b->cli->steps);
	gt_run_metrics_release(&m);
	gt_folder_close(&folder);
	return rc;
}

/* Start `train`, and read its metrics. */
static int train_in(const struct gt_bench_train *b, struct gt_bench_train_row *row,
    const char *folder, struct gt_err *err)
{
	struct gt_err failed = GT_ERR_INIT;
	struct gt_bench_process process = { .stdout_fd = -1, .stop = b->stop };
	struct gt_bench_sample sample = { 0 };
	struct line line;
	int status, rc = build_train_line(&line, b, row, err);

	if (rc)
		return rc;
	add_option(&line, "--out", folder);
	add_option(&line, "--log-every", "1");
	add_option(&line, "--save-every", "0");
	process.words = line.words;
	rc = gt_bench_run(&sample, &status, &process, &failed);
	free(line.words);
	if (*b->stop) {
		*err = failed;
		return rc;
	}
	row->others_s += sample.others_s;
	row->idle_s += sample.idle_s;
	row->processors_s += sample.processors_s;
	if (!rc && status) { /* a refusal that the plan does not know */
		row->refused = status == GT_EXIT_USAGE;
		gt_bench_note_failure(row->why, sample.error_line, status);
	} else if (!rc) {
		rc = read_steps(b, row, folder, &failed);
	}
	if (rc)
		snprintf(
		    row->why, sizeof(row->why), "%.*s", (int)sizeof(row->why) - 1, failed.text);
	return 0;
}

int gt_bench_train_run(
    const struct gt_bench_train *b, struct gt_bench_train_row *row, struct gt_err *err)
{
	char *folder = gt_asprintf(err, "%s/run", b->folder);
	int rc = folder ? train_in(b, row, folder, err) : GT_ENOMEM;

	if (folder)
		gt_folder_remove_all(folder);
	free(folder);
	return rc;
}

/* ---- the all-reduce ---- */

int gt_bench_train_allreduce(const struct gt_bench_train *b, int ranks, int64_t bytes,
    double *time_s, char why[GT_BENCH_ERROR_LINE_BYTES], struct gt_err *err)
{
	char *words[OWN_WORDS];
	struct line line = { .words = words };
	json_t *document = NULL;
	int status, rc;

	add_word(&line, b->self);
	add_word(&line, "bench");
	add_word(&line, "allreduce");
	add_number(&line, "--nproc", ranks);
	add_number(&line, "--sizes", bytes);
	add_option(&line, "--device", b->cli->device);
	add_word(&line, "--json");
	add_word(&line, "--quiet");
	rc = gt_bench_run_json(&document, &status, line.words, b->stop, why, err);
	*time_s = json_number_value(json_object_get(
	    json_object_get(json_array_get(json_object_get(document, "rows"), 0), "in_place"),
	    "time_s"));
	json_decref(document);
	return rc;
}
