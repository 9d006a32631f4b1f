/* predict.c - gtrain predict: classes of images and rows that have none yet, tokens after texts. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "cmd/table_out.h"
#include "lib/train/eval.h"
#include "lib/train/shared_options.h"

struct predict_cli {
	struct gt_cmd_common common;
	struct gt_eval_options eval;
	struct gt_comm_options comm;
	bool csv;
	int top; /* 0: not given */
	int nproc;
	int64_t threads; /* 0: one per core */
};

/* ---- options ---- */

#define AT(member)  GT_OPT_FIELD(struct predict_cli, member)
#define RUN(member) AT(eval.member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "Model" },
	GT_OPTION_CKPT(RUN(ckpt)),
	GT_OPTION_CKPT_MODEL(RUN(model)),
	GT_OPTION_LORA(RUN(lora)),
	{ "read", 0, GT_OPT_STRING, RUN(settings), "KEY=VALUE,...",
	    "how to read images (size, resize, crop, norm, mean, std, ...) or tables (sep, "
	    "decimal, header, standardise)",
	    .otherwise = "as in training; sep=comma, header=auto" },

	{ .type = GT_OPT_HEADING, .help = "What to print" },
	{ "top", 0, GT_OPT_INT, AT(top), "N",
	    "number of classes or tokens for each input, the likeliest first",
	    .otherwise = "3", .min = 1, .max = 1e6 },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "write CSV: input,rank,class,probability",
	    .excludes = "json" },

	{ .type = GT_OPT_HEADING, .help = "Loading the checkpoint" },
	GT_OPTION_MAP(RUN(load.map)),
	GT_OPTION_NAMES(RUN(load.names), "keys of the checkpoint"),
	GT_OPTION_STRICT(RUN(load.lenient)),

	{ .type = GT_OPT_HEADING, .help = "Machine and loading" },
	{ "batch", 0, GT_OPT_INT, RUN(how.batch), "N", "inputs per batch", .initial = "64",
	    .min = 1, .max = 65536 },
	GT_OPTION_AMP(RUN(amp)),
	GT_OPTION_TF32(RUN(tf32)),
	GT_OPTION_DEVICE(RUN(where.devices), "LIST",
	    "devices to compute on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	GT_OPTION_RANK_THREADS(AT(threads), GT_CMD_MAX_THREADS),
	{ "workers", 0, GT_OPT_INT, RUN(how.workers), "N",
	    "number of threads that read inputs; 0: the computing thread reads",
	    .initial = "2", .max = 256 },

	{ .type = GT_OPT_HEADING, .help = "Ranks" },
	GT_OPTION_NPROC(AT(nproc),
	    "number of ranks (processes) that divide the inputs", GT_OPTION_RANK_PER_GPU),
	GT_OPTION_TENSOR(RUN(tensor)),
	GT_OPTION_BACKEND(AT(comm.backend)),
	GT_OPTION_TIMEOUT(AT(comm.timeout_s), "10m"),

	GT_CMD_COMMON(struct predict_cli),
	{ 0 }
};
/* clang-format on */

/* ---- results ---- */

/* One of the best classes of an input; of text, one of the tokens that may follow it. */
struct guess {
	const char *class;
	double probability;
	char number[16], token[GT_EVAL_TOKEN], quoted[GT_EVAL_TOKEN + 2], share[32];
};

static bool is_text(const struct gt_eval *e)
{
	return gt_eval_data(e)->form.kind == GT_SAMPLE_TOKENS;
}

static const struct guess *guess(
    struct guess *buffer, const struct gt_eval *e, int64_t input, int rank)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	int64_t at = input * p->top + rank;

	buffer->class = is_text(e) ? gt_eval_token_name(e, p->predicted[at], buffer->token)
	                           : gt_eval_class_name(e, p->predicted[at], buffer->number);
	buffer->probability = (double)p->probability[at];
	return buffer;
}

/* The answers to inputs that could be read. */
#define FOR_EACH_INPUT(i, e)                                                                       \
	for (int64_t i = 0; i < gt_eval_predictions(e)->count; i++)                                \
		if (!gt_eval_is_damaged(e, i))

enum { TOP = 3, PER_LINE = 7, CELLS = 1 + 2 * PER_LINE, CELL = 32 };

/* A line for each input; or, where the classes are too many for a line, for each of them. */
static void print_line(struct gt_table *t, const struct gt_eval *e, int64_t input, int from, int to,
    struct guess *guesses)
{
	const char *cells[CELLS] = { gt_eval_sample_name(e, input) };
	size_t count = 1;

	for (int k = from; k < to; k++) {
		struct guess *g = &guesses[k - from];

		guess(g, e, input, k);
		snprintf(g->share, sizeof(g->share), "%.2f %%", 100 * g->probability);
		/* Quotes make a class visible that is a space. */
		snprintf(g->quoted, sizeof(g->quoted), "'%s'", g->class);
		cells[count++] = is_text(e) ? g->quoted : g->class;
		cells[count++] = g->share;
	}
	gt_table_row(t, cells, count);
}

/* Print the results of regression: one line per input with the predicted number. */
static void print_values(const struct gt_eval *e, struct gt_table *t)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	char text[CELL];

	t->right[1] = true;
	for (int round = 0; round < 2; round++) {
		t->measuring = !round;
		FOR_EACH_INPUT(i, e)
		{
			const char *cells[] = { gt_eval_sample_name(e, i), text };

			snprintf(text, sizeof(text), "%.*g", gt_predictions_digits(p), p->value[i]);
			gt_table_row(t, cells, 2);
		}
	}
}

static void print_predictions_text(const struct gt_eval *e)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	struct gt_table t = { .out = stdout };
	int per_line = p->top <= PER_LINE ? p->top : 1;
	struct guess guesses[PER_LINE];

	if (p->value) {
		print_values(e, &t);
		return;
	}
	for (size_t c = 2; c < CELLS; c += 2)
		t.right[c] = true;
	for (int round = 0; round < 2; round++) {
		t.measuring = !round;
		FOR_EACH_INPUT(i, e)
		{
			for (int k = 0; k < p->top; k += per_line)
				print_line(&t, e, i, k, k + per_line, guesses);
		}
	}
}

static void print_predictions_csv(const struct gt_eval *e)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	struct guess buffer;

	if (p->value) {
		puts("input,value");
		FOR_EACH_INPUT(i, e)
		{
			gt_csv_field(stdout, gt_eval_sample_name(e, i));
			printf(",%.*g\n", gt_predictions_digits(p), p->value[i]);
		}
		return;
	}
	puts("input,rank,class,probability");
	FOR_EACH_INPUT(i, e)
	{
		for (int k = 0; k < p->top; k++) {
			const struct guess *g = guess(&buffer, e, i, k);

			gt_csv_field(stdout, gt_eval_sample_name(e, i));
			printf(",%d,", k + 1);
			gt_csv_field(stdout, g->class);
			printf(",%.6g\n", g->probability);
		}
	}
}

/* The names of inputs that could not be read, where there are some. */
static void print_damaged_json(const struct gt_eval *e)
{
	const char *comma = "";

	if (!gt_eval_damaged(e))
		return;
	fputs(", \"damaged\": [", stdout);
	for (int64_t i = 0; i < gt_eval_predictions(e)->count; i++) {
		if (!gt_eval_is_damaged(e, i))
			continue;
		fputs(comma, stdout);
		gt_json_text(stdout, gt_eval_sample_name(e, i));
		comma = ", ";
	}
	fputs("]", stdout);
}

static void print_predictions_json(const struct gt_eval *e)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	const char *comma = "";
	struct guess buffer;

	fputs("{\"predictions\": [", stdout);
	FOR_EACH_INPUT(i, e)
	{
		printf("%s\n  {\"input\": ", comma);
		comma = ",";
		gt_json_text(stdout, gt_eval_sample_name(e, i));
		if (p->value) {
			printf(", \"value\": %.*g}", gt_predictions_digits(p), p->value[i]);
			continue;
		}
		fputs(", \"classes\": [", stdout);
		for (int k = 0; k < p->top; k++) {
			const struct guess *g = guess(&buffer, e, i, k);

			fputs(k ? ", {\"class\": " : "{\"class\": ", stdout);
			gt_json_text(stdout, g->class);
			printf(", \"probability\": %.6g}", g->probability);
		}
		fputs("]}", stdout);
	}
	fputs("\n]", stdout);
	print_damaged_json(e);
	puts("}");
}

/* A probability that is no number would pass for an answer in none of the formats. */
static int check_finite(const struct gt_eval *e, struct gt_err *err)
{
	const struct gt_predictions *p = gt_eval_predictions(e);

	for (int64_t i = 0; i < p->count; i++)
		if (!gt_eval_is_damaged(e, i) &&
		    !isfinite(p->value ? p->value[i] : p->probability[i * p->top]))
			return gt_err_set(err, GT_EDIVERGED,
			    "the answer to '%.200s' is not finite: the weights or the input hold "
			    "NaN or Inf",
			    gt_eval_sample_name(e, i));
	return 0;
}

static int print_predictions(
    const struct predict_cli *cli, const struct gt_eval *e, struct gt_err *err)
{
	int rc = check_finite(e, err);

	if (rc)
		return rc;
	if (cli->top && gt_eval_predictions(e)->value)
		return gt_err_set(err, GT_EINVAL, "--top: the model predicts numbers, not classes");
	if (cli->common.json)
		print_predictions_json(e);
	else if (cli->csv)
		print_predictions_csv(e);
	else
		print_predictions_text(e);
	if (gt_eval_damaged(e))
		return gt_err_set(err, GT_EFORMAT, "%lld of %lld inputs could not be read",
		    (long long)gt_eval_damaged(e), (long long)gt_eval_predictions(e)->count);
	return 0;
}

/* ---- the command ---- */

/* Standard input can be read once, by one process. */
static int count_standard_inputs(const struct predict_cli *cli)
{
	int count = 0;

	for (int i = 0; i < cli->eval.input_count; i++)
		count += !strcmp(cli->eval.inputs[i], "-");
	return count;
}

static int check_inputs(const struct predict_cli *cli, int ranks, struct gt_err *err)
{
	int count = count_standard_inputs(cli);

	if (!cli->eval.input_count) {
		gt_err_set(err, GT_EINVAL, "no input is named");
		return gt_err_hint(err, "gtrain predict --ckpt RUN INPUT...; - is standard input");
	}
	if (count > 1)
		return gt_err_set(err, GT_EINVAL, "standard input is named %d times", count);
	if (count && ranks > 1)
		return gt_err_set(err, GT_EINVAL,
		    "%d ranks cannot share standard input: give a file, or --nproc 1", ranks);
	return 0;
}

static int check_predict_cli(void *self, struct gt_err *err)
{
	const struct predict_cli *cli = self;
	int rc = check_inputs(cli, cli->nproc, err);

	return rc ? rc : gt_eval_check(&cli->eval, cli->nproc, err);
}

/* Do the work of one rank of `comm`, or of the only rank. Rank 0 prints. */
static int predict(
    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err)
{
	struct predict_cli *cli = self;
	struct gt_metrics metrics;
	struct gt_eval *e = NULL;
	int rc = check_inputs(cli, cli->nproc, err);

	cli->eval.how.top = cli->top ? cli->top : TOP;
	gt_cmd_place_rank(&cli->eval.where, comm);
	gt_cmd_set_threads(cli->threads);
	if (!rc)
		rc = gt_eval_open(&e, &cli->eval, &env->log, err);
	if (!rc)
		rc = gt_eval_run(e, &metrics, err);
	if (!rc && !comm->world.rank)
		rc = print_predictions(cli, e, err);
	gt_eval_close(e);
	return rc;
}

static int run_predict(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct predict_cli *cli = values;
	const struct gt_cmd_job job = { .nproc = &cli->nproc,
		.device = &cli->eval.where.devices,
		.comm = &cli->comm,
		.check = check_predict_cli,
		.run = predict,
		.self = cli };

	cli->eval.where.way = gt_comm_way(cli->comm.backend);
	cli->eval.inputs = env->opts.operands;
	cli->eval.input_count = env->opts.operand_count;
	if (!cli->nproc && count_standard_inputs(cli))
		cli->nproc = 1; /* ranks cannot share standard input */
	return gt_cmd_run_job(env, &job, err);
}

const struct gt_cmd_work gt_cmd_predict = { table, sizeof(struct predict_cli), run_predict };
