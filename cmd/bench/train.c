/* train.c - gtrain bench train: modes side by side, and the rate that the machine should give. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/train.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/device/cpu.h"
#include "lib/train/amp.h"

/*
 * Every run is a process, `gtrain train`, as users start it, so that there is no second training
 * loop. Rows take turns in each round, so that a busy moment hits all alike.
 */

enum { MOST_MODES = 16, BYTES_OF_GRADIENT = 4 };

/* ---- the rows ---- */

int gt_bench_train_add_row(
    struct gt_bench_train *b, int mode, int amp, int ranks, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = b->cli;
	struct gt_bench_train_row *row = &b->rows[b->row_count];
	size_t steps = (size_t)(cli->steps * cli->rounds);

	*row = (struct gt_bench_train_row){ .mode = gt_bench_train_modes[mode],
		.amp = gt_amp_names[amp],
		.ranks = ranks,
		.batch = cli->batch,
		.rates = gt_calloc(steps, sizeof(*row->rates), err),
		.rates_unwaited = gt_calloc(steps, sizeof(*row->rates), err) };
	b->row_count++;
	return row->rates && row->rates_unwaited ? 0 : GT_ENOMEM;
}

/* A row for each precision, mode and number of ranks. `single` has one rank. */
static int make_rows(struct gt_bench_train *b, struct gt_err *err)
{
	const struct gt_bench_train_cli *cli = b->cli;
	int modes[MOST_MODES], amps[GT_AMPS + 1];
	int64_t nproc[GT_BENCH_NUMBERS];
	int mode_count, amp_count, nproc_count;
	int rc =
	    gt_bench_read_words(modes, &mode_count, cli->modes, gt_bench_train_modes, "modes", err);

	if (!rc)
		rc = gt_bench_read_words(amps, &amp_count, cli->amp, gt_amp_names, "amp", err);
	if (!rc)
		rc = gt_bench_read_numbers(
		    nproc, &nproc_count, cli->nproc, "nproc", 1, GT_SHM_MAX_RANKS, err);
	if (rc)
		return rc;
	b->rows = gt_calloc((size_t)(mode_count * amp_count * nproc_count), sizeof(*b->rows), err);
	if (!b->rows)
		return GT_ENOMEM;
	for (int a = 0; a < amp_count; a++)
		for (int m = 0; m < mode_count; m++)
			for (int n = 0; !rc && n < (modes[m] ? nproc_count : 1); n++)
				rc = gt_bench_train_add_row(
				    b, modes[m], amps[a], modes[m] ? (int)nproc[n] : 1, err);
	return rc;
}

/* ---- the limits of the machine ---- */

/* Threads of each of so many ranks on the CPU, as `train` chooses them. */
static double threads_of_rank(const struct gt_bench_train *b, int ranks)
{
	const char *variable = getenv("OMP_NUM_THREADS");
	int64_t threads = b->cli->threads;

	if (!threads && variable && (!gt_text_parse_int(&threads, variable) || threads < 1))
		threads = 0; /* a list for nested parts */
	if (!threads)
		threads = (int64_t)b->processors / ranks;
	return threads ? (double)threads : 1;
}

/* Whether other programs take processors that the runs of the row need: hardly any was idle. */
static bool is_crowded(const struct gt_bench_train *b, const struct gt_bench_train_row *row)
{
	static const double part = 0.1;

	return !b->gpus && row->others_s > part * row->processors_s &&
	       row->idle_s < part * row->processors_s;
}

static void find_limits(struct gt_scaling_limits *limits, const struct gt_bench_train *b,
    const struct gt_bench_train_row *row)
{
	double have = b->gpus ? (double)b->gpus : (double)b->processors;
	double one = b->gpus ? 1 : threads_of_rank(b, 1);
	double all = row->ranks * (b->gpus ? 1 : threads_of_rank(b, row->ranks));

	one = one < have ? one : have;
	*limits = (struct gt_scaling_limits){ .devices = (all < have ? all : have) / one,
		.oversubscribed = all > have || is_crowded(b, row),
		.allreduce_s = row->allreduce_s,
		.bound = b->cli->bound };
}

/* ---- the verdicts ---- */

/* The first row of one rank with the same precision. */
static const struct gt_bench_train_row *find_one_rank(
    const struct gt_bench_train *b, const struct gt_bench_train_row *row)
{
	for (int i = 0; i < b->row_count; i++)
		if (b->rows[i].ranks == 1 && b->rows[i].rate_count && !b->rows[i].why[0] &&
		    b->rows[i].amp == row->amp)
			return &b->rows[i];
	return NULL;
}

static void find_verdicts(struct gt_bench_train *b)
{
	for (int i = 0; i < b->row_count; i++) {
		struct gt_bench_train_row *row = &b->rows[i];

		if (!row->rate_count)
			continue;
		row->run.samples_per_s = gt_measure_median(row->rates, row->rate_count);
		row->run.data_wait =
		    1 - row->run.samples_per_s /
		            gt_measure_median(row->rates_unwaited, row->rate_count);
	}
	for (int i = 0; i < b->row_count; i++) {
		struct gt_bench_train_row *row = &b->rows[i];
		const struct gt_bench_train_row *one = find_one_rank(b, row);
		struct gt_scaling_limits limits;

		if (!one || !row->rate_count || row->why[0])
			continue;
		row->speed_up = row->run.samples_per_s / one->run.samples_per_s;
		if (row->ranks > 1 && !(row->allreduce_s > 0))
			continue;
		find_limits(&limits, b, row);
		row->expected_per_s = gt_scaling_expected(&one->run, &row->run, &limits);
		row->verdict = gt_scaling_find_verdict(&row->run, row->expected_per_s, &limits);
	}
}

/* ---- the rounds ---- */

static int plan_rows(struct gt_bench_train *b, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < b->row_count; i++)
		rc = gt_bench_train_plan(b, &b->rows[i], err);
	return rc;
}

static int run_rounds(struct gt_bench_train *b, struct gt_log *log, struct gt_err *err)
{
	int rounds = (int)b->cli->rounds, rc = 0;

	for (int round = 0; !rc && round < rounds; round++)
		for (int i = 0; !rc && i < b->row_count; i++) {
			struct gt_bench_train_row *row = &b->rows[i];

			if (row->why[0])
				continue;
			gt_log_info(log, "round %d of %d: %s, %d rank%s, amp %s", round + 1, rounds,
			    row->mode, row->ranks, row->ranks == 1 ? "" : "s", row->amp);
			rc = gt_bench_train_run(b, row, err);
		}
	return rc;
}

/* Time an all-reduce of the gradients on the ranks of each row. Rows with as many ranks share the
 * result. */
static int time_allreduces(struct gt_bench_train *b, struct gt_log *log, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < b->row_count; i++) {
		struct gt_bench_train_row *row = &b->rows[i];
		char why[GT_BENCH_ERROR_LINE_BYTES] = "";
		int64_t bytes = BYTES_OF_GRADIENT * (row->parameters < 2 ? 2 : row->parameters);

		if (row->ranks == 1 || row->why[0])
			continue;
		for (int k = 0; k < i; k++)
			if (b->rows[k].ranks == row->ranks)
				row->allreduce_s = b->rows[k].allreduce_s;
		if (row->allreduce_s > 0)
			continue;
		rc = gt_bench_train_allreduce(b, row->ranks, bytes, &row->allreduce_s, why, err);
		if (!rc && why[0])
			gt_log_warn(log, "no verdict on %d ranks, as their all-reduce failed: %s",
			    row->ranks, why);
	}
	return rc;
}

static int measure(void *self, struct gt_log *log, struct gt_err *err)
{
	struct gt_bench_train *b = self;
	int rc = plan_rows(b, err);

	if (!rc)
		rc = time_allreduces(b, log, err);
	return rc ? rc : run_rounds(b, log, err);
}

/* ---- the command ---- */

/* Options of `train` that the rows set, or with which it does not train for some steps. */
static const char *const own_options[] = { "model", "data", "batch", "parallel", "nproc", "amp",
	"device", "threads", "steps", "epochs", "out", "resume", "log-every", "save-every",
	"verify-parallel", "dry-run", "json" };

static bool is_own(const char *word, size_t length, const char *const *also)
{
	for (size_t k = 0; k < sizeof(own_options) / sizeof(*own_options); k++)
		if (strlen(own_options[k]) == length && !strncmp(word, own_options[k], length))
			return true;
	for (; also && *also; also++)
		if (strlen(*also) == length && !strncmp(word, *also, length))
			return true;
	return false;
}

/* Refuse options after "--" that the rows set. */
static int check_more(const struct gt_bench_train *b, const char *const *also, struct gt_err *err)
{
	for (int i = 0; i < b->more_count; i++) {
		const char *word = b->more[i];
		size_t length = strcspn(word, "=");

		if (!strcmp(word, "--"))
			return gt_err_set(err, GT_EINVAL, "'--' is given twice");
		if (length > 2 && !strncmp(word, "--", 2) && is_own(word + 2, length - 2, also)) {
			gt_err_set(err, GT_EINVAL, "%.*s cannot be handed on to gtrain train",
			    (int)length, word);
			return gt_err_hint(
			    err, "options before '--' choose model, data, modes, ranks and steps");
		}
	}
	return 0;
}

static int find_devices(struct gt_bench_train *b, struct gt_err *err)
{
	struct gt_device_name *names = NULL;
	struct gt_cpu cpu;
	size_t count = 0;
	int rc = gt_bench_read_devices(&names, &count, b->cli->device, err);

	if (!rc)
		b->gpus = names->backend->host_memory ? 0 : count;
	free(names);
	if (!rc)
		rc = gt_cpu_read(&cpu, "", err);
	if (rc)
		return rc;
	b->processors = cpu.usable;
	gt_cpu_release(&cpu);
	return 0;
}

int gt_bench_train_open(struct gt_bench_train *b, const struct gt_cmd_env *env,
    const char *const *also, struct gt_err *err)
{
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	int rc;

	b->more = env->opts.operands;
	b->more_count = env->opts.operand_count;
	if (n < 0)
		return gt_err_sys(err, "cannot find this program's file");
	rc = check_more(b, also, err);
	return rc ? rc : find_devices(b, err);
}

void gt_bench_train_close(struct gt_bench_train *b)
{
	for (int i = 0; i < b->row_count; i++) {
		free(b->rows[i].rates);
		free(b->rows[i].rates_unwaited);
	}
	free(b->rows);
}

static int set_up(struct gt_bench_train *b, const struct gt_cmd_env *env, struct gt_err *err)
{
	int rc = gt_bench_train_open(b, env, NULL, err);

	if (!rc && b->cli->markdown && b->cli->common.json)
		rc = gt_err_set(err, GT_EINVAL, "--markdown cannot be combined with --json");
	return rc ? rc : make_rows(b, err);
}

static int check_measured(const struct gt_bench_train *b, struct gt_err *err)
{
	for (int i = 0; i < b->row_count; i++)
		if (!b->rows[i].why[0])
			return 0;
	return gt_err_set(err, GT_EIO, "no row could be measured: %s", b->rows[0].why);
}

/* The status is 1 if a row is degraded or a run has failed. */
static int find_status(const struct gt_bench_train *b)
{
	bool bad = false;

	for (int i = 0; i < b->row_count; i++) {
		const struct gt_bench_train_row *row = &b->rows[i];

		bad = bad || (row->why[0] && !row->refused) ||
		      (row->expected_per_s > 0 && row->verdict != GT_SCALING_NORMAL);
	}
	return bad ? GT_EXIT_FAILED : GT_EXIT_DONE;
}

/* After a signal, print the rows that have figures. */
static int run_until_stopped(struct gt_bench_train *b, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_work work = { .folder = b->folder,
		.dir = b->cli->dir,
		.stop = &b->stop,
		.measure = measure,
		.self = b };
	bool done;
	int rc = gt_bench_measure(&done, &work, env, err);

	if (!rc) {
		find_verdicts(b);
		env->status = find_status(b);
		rc = gt_bench_train_print(b, err);
	}
	return rc ? rc : check_measured(b, err);
}

static int bench_train(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_bench_train b = { .cli = values };
	int rc = set_up(&b, env, err);

	if (!rc)
		rc = run_until_stopped(&b, env, err);
	gt_bench_train_close(&b);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_train = { gt_bench_train_options,
	sizeof(struct gt_bench_train_cli), bench_train };
