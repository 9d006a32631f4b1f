/* eval.c - gtrain eval: measure a checkpoint on a data set. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/eval_report.h"
#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "cmd/stop.h"
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/train/eval.h"
#include "lib/train/shared_options.h"

/* The library's options, and those of the command alone. */
struct gt_eval_cli {
	struct gt_cmd_common common;
	struct gt_eval_options eval;
	struct gt_comm_options comm;
	bool per_class, confusion;
	const char *tokenizer;   /* --tokenizer, which replaces eval.vocab; NULL: not given */
	const char *predictions; /* a file to write */
	int nproc;
	struct gt_atomic_file file; /* the open file `predictions`, on rank 0 */
	int64_t threads;            /* 0: one per core */
};

/* Where an option that the command alone reads goes, and one of the library's. */
#define AT(member)  GT_OPT_FIELD(struct gt_eval_cli, member)
#define RUN(member) AT(eval.member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	GT_OPTION_CKPT(RUN(ckpt)),
	{ "data", 0, GT_OPT_STRING, RUN(data), "DATA",
	    "data set to measure on: KIND:PATH or NAME[,key=value...]",
	    .complete = GT_COMPLETE_DATA, .flags = GT_OPT_REQUIRED },
	{ "task", 0, GT_OPT_CHOICE, RUN(task), .words = gt_task_words, .initial = "none",
	    .help = "a published test of language models, whose file --data names" },
	GT_OPTION_CKPT_MODEL(RUN(model)),
	GT_OPTION_LORA(RUN(lora)),
	GT_OPTION_VOCAB(RUN(vocab)),
	GT_OPTION_TOKENIZER(AT(tokenizer)),

	{ .type = GT_OPT_HEADING, .help = "What to print" },
	{ "per-class", 0, GT_OPT_FLAG, AT(per_class),
	    .help = "print precision, recall and F1 score of each class or label",
	    .without = { { "task" } } },
	{ "confusion", 0, GT_OPT_FLAG, AT(confusion),
	    .help = "print the confusion matrix: which class is predicted as which",
	    .without = { { "task" } } },
	{ "predictions", 0, GT_OPT_STRING, AT(predictions), "FILE",
	    "write each sample's target and prediction as CSV",
	    .complete = GT_COMPLETE_FILE, .without = { { "task" } } },

	{ .type = GT_OPT_HEADING, .help = "Loading the checkpoint" },
	GT_OPTION_MAP(RUN(load.map)),
	GT_OPTION_NAMES(RUN(load.names), "keys of the checkpoint"),
	GT_OPTION_STRICT(RUN(load.lenient)),

	{ .type = GT_OPT_HEADING, .help = "Machine and loading" },
	{ "batch", 0, GT_OPT_INT, RUN(how.batch), "N", "samples per batch", .initial = "64",
	    .min = 1, .max = 65536, .without = { { "task" } } },
	GT_OPTION_AMP(RUN(amp)),
	GT_OPTION_TF32(RUN(tf32)),
	GT_OPTION_DEVICE(RUN(where.devices), "LIST",
	    "devices to compute on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	GT_OPTION_RANK_THREADS(AT(threads), GT_CMD_MAX_THREADS),
	{ "workers", 0, GT_OPT_INT, RUN(how.workers), "N",
	    "number of threads that read data; 0: the computing thread reads", .initial = "2", .max = 256 },
	{ "strict-data", 0, GT_OPT_FLAG, RUN(strict_data),
	    .help = "stop at an image that cannot be decoded, instead of skipping it" },

	{ .type = GT_OPT_HEADING, .help = "Ranks" },
	GT_OPTION_NPROC(AT(nproc),
	    "number of ranks (processes) that divide the batches", GT_OPTION_RANK_PER_GPU),
	GT_OPTION_TENSOR(RUN(tensor)),
	GT_OPTION_BACKEND(AT(comm.backend)),
	GT_OPTION_TIMEOUT(AT(comm.timeout_s), "10m"),

	GT_CMD_COMMON(struct gt_eval_cli),
	{ 0 }
};
/* clang-format on */

/* How fast it was goes with the progress: results are the same in every run. */
static void log_speed(struct gt_log *log, const struct gt_metrics *m, const struct gt_data_info *i)
{
	gt_log_info(log, "evaluated %lld samples in %.3f s, %.1f samples/s", (long long)i->samples,
	    m->seconds, (double)i->samples / m->seconds);
}

/* Print the reports of --per-class and --confusion as text, or add them to the document. */
static int print_classes(
    const struct gt_eval_cli *cli, const struct gt_eval *e, json_t *document, struct gt_err *err)
{
	struct gt_confusion c;
	int rc = gt_confusion_count(&c, e, err), failed = 0;

	if (!rc && cli->per_class && document)
		failed |= gt_confusion_add_scores(document, &c);
	else if (!rc && cli->per_class)
		gt_confusion_print_classes(stdout, &c);
	if (!rc && cli->confusion && document)
		failed |= json_object_set_new(document, "confusion", gt_confusion_json(&c));
	else if (!rc && cli->confusion)
		gt_confusion_print(stdout, &c, gt_cmd_stdout_columns());
	gt_confusion_release(&c);
	if (failed)
		rc = gt_err_set(
		    err, GT_ENOMEM, "out of memory: the results of %d classes", c.classes);
	if (failed && cli->confusion)
		return gt_err_hint(err,
		    "the matrix has %d x %d numbers; without --json, --confusion lists only the pairs "
		    "of classes that were confused",
		    c.classes, c.classes);
	return rc ? gt_err_hint(err, "leave out --per-class and --confusion") : 0;
}

/* Write the reports that options ask for in addition to the line of metrics. */
static int print_each(
    struct gt_eval_cli *cli, const struct gt_eval *e, json_t *document, struct gt_err *err)
{
	int rc = 0;

	if (cli->per_class || cli->confusion)
		rc = print_classes(cli, e, document, err);
	if (!rc && cli->predictions)
		rc = gt_predictions_write(&cli->file, e, err);
	return rc;
}

static void print_line(const struct gt_metrics *m, const struct gt_eval *e)
{
	char top5[GT_METRICS_TOP5];
	double loss = gt_text_real(m->loss), perplexity = gt_text_real(m->perplexity);

	if (m->only_loss)
		printf("loss %.6f  samples %lld", loss, (long long)m->n);
	else if (gt_eval_data(e)->form.kind == GT_SAMPLE_TOKENS)
		printf("loss %.6f  perplexity %.4f  top-1 %.2f %%  top-5 %.2f %%  tokens %lld",
		    loss, perplexity, 100 * m->top1, 100 * m->top5, (long long)m->n);
	else if (m->target == GT_SAMPLE_LABELS)
		printf("loss %.6f  labels right %.2f %% (%lld of %lld)  precision %.2f %%  recall "
		       "%.2f %%  F1 %.2f %%",
		    loss, 100 * m->accuracy, (long long)m->right, (long long)m->n,
		    100 * m->precision, 100 * m->recall, 100 * m->f1);
	else if (m->target == GT_SAMPLE_NUMBER)
		printf("loss %.6f  MSE %.6g  MAE %.6g  R2 %.6f  samples %lld", loss,
		    gt_text_real(m->mse), gt_text_real(m->mae), gt_text_real(m->r2),
		    (long long)m->n);
	else
		printf("loss %.6f  top-1 %.2f %% (%lld of %lld)%s", loss, 100 * m->top1,
		    (long long)m->right, (long long)m->n,
		    gt_metrics_top5(top5, "  ", m, gt_eval_data(e)->form.classes));
	if (gt_eval_damaged(e))
		printf("  damaged %lld", (long long)gt_eval_damaged(e));
	putchar('\n');
}

/* A mean has its standard error behind it. */
static void print_scores(const struct gt_task_scores *t)
{
	for (int i = 0; i < t->count; i++) {
		const struct gt_task_score *s = &t->scores[i];

		printf("%s %.6f", s->name, gt_text_real(s->value));
		if (!isnan(s->error))
			printf(" +- %.6f", s->error);
		fputs("  ", stdout);
	}
	printf("documents %lld\n", (long long)t->documents);
}

static json_t *scores_json(const struct gt_eval_cli *cli, const struct gt_task_scores *t)
{
	json_t *out = json_pack("{s:s,s:I}", "task", gt_task_words[cli->eval.task], "documents",
	    (json_int_t)t->documents);
	bool failed = !out;

	for (int i = 0; i < t->count && !failed; i++) {
		const struct gt_task_score *s = &t->scores[i];
		char name[64];

		failed = json_object_set_new(out, s->name, gt_json_number(s->value));
		snprintf(name, sizeof(name), "%s_stderr", s->name);
		if (!failed && !isnan(s->error))
			failed = json_object_set_new(out, name, gt_json_number(s->error));
	}
	if (!failed)
		return out;
	json_decref(out);
	return NULL;
}

static int print_metrics(struct gt_eval_cli *cli, const struct gt_metrics *m,
    const struct gt_eval *e, struct gt_err *err)
{
	bool each = cli->eval.how.top;
	json_t *out;

	if (cli->eval.task && cli->common.json)
		return gt_cmd_print_json(scores_json(cli, gt_eval_task_scores(e)), 0, err);
	if (cli->eval.task) {
		print_scores(gt_eval_task_scores(e));
		return 0;
	}
	if (!cli->common.json) {
		print_line(m, e);
		return each ? print_each(cli, e, NULL, err) : 0;
	}
	out = gt_metrics_json(m);
	if (out && gt_eval_damaged(e))
		json_object_set_new(out, "damaged", json_integer((json_int_t)gt_eval_damaged(e)));
	if (out && each && print_each(cli, e, out, err)) {
		json_decref(out);
		return err->code;
	}
	return gt_cmd_print_json(out, 0, err);
}

/* A path that cannot be written is found before the evaluation, which may take long. */
static int open_predictions(struct gt_eval_cli *cli, struct gt_err *err)
{
	int rc = gt_eval_check_output(&cli->eval, cli->predictions, err);

	if (!rc && gt_atomic_open(&cli->file, cli->predictions, err))
		rc = gt_err_prefix(err, "--predictions");
	return rc;
}

/* Numbers have no classes, and a sample with several labels is not taken for one. */
static int check_reports(
    const struct gt_eval_cli *cli, enum gt_sample_target target, struct gt_err *err)
{
	if (target == GT_SAMPLE_CLASS || (!cli->per_class && !cli->confusion))
		return 0;
	if (target == GT_SAMPLE_LABELS && !cli->confusion)
		return 0;
	return gt_err_set(err, GT_EINVAL, "%s: the model predicts %s, not classes",
	    cli->per_class && target == GT_SAMPLE_NUMBER ? "--per-class" : "--confusion",
	    gt_data_target_words[target]);
}

/* Evaluate as one rank of `comm`, or alone; rank 0 prints. */
static int evaluate_as_rank(
    struct gt_cmd_env *env, struct gt_eval_cli *cli, const struct gt_comm *comm, struct gt_err *err)
{
	struct gt_metrics metrics;
	struct gt_eval *e = NULL;
	int rc = 0;

	gt_cmd_place_rank(&cli->eval.where, comm);
	gt_cmd_set_threads(cli->threads);
	if (cli->predictions && !comm->world.rank)
		rc = open_predictions(cli, err);
	if (!rc)
		rc = gt_eval_open(&e, &cli->eval, &env->log, err);
	if (!rc)
		rc = check_reports(cli, gt_eval_data(e)->form.target, err);
	if (!rc)
		rc = gt_eval_run(e, &metrics, err);
	if (!rc && !comm->world.rank) {
		log_speed(&env->log, &metrics, gt_eval_data(e));
		if (!isfinite(metrics.loss))
			gt_log_warn(&env->log,
			    "the loss is not finite: the weights or the data hold NaN or Inf");
		rc = print_metrics(cli, &metrics, e, err);
	}
	gt_atomic_abandon(&cli->file); /* unless it is written */
	gt_eval_close(e);
	return rc;
}

/* A signal leaves no temporary file behind. */
static int evaluate(
    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err)
{
	struct gt_eval_cli *cli = self;
	struct gt_stop stop;
	int rc;

	if (!cli->predictions || comm->world.rank)
		return evaluate_as_rank(env, cli, comm, err);
	rc = gt_stop_listen(&stop, err);
	if (rc)
		return rc;
	rc = evaluate_as_rank(env, cli, comm, err);
	gt_stop_release(&stop);
	return rc;
}

static int check_eval_cli(void *self, struct gt_err *err)
{
	struct gt_eval_cli *cli = self;
	int rc = gt_eval_check(&cli->eval, cli->nproc, err);

	if (!rc && cli->predictions)
		rc = open_predictions(cli, err);
	gt_atomic_abandon(&cli->file); /* rank 0 opens it again */
	return rc;
}

static int run_eval(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_eval_cli *cli = values;
	const struct gt_cmd_job job = { .nproc = &cli->nproc,
		.device = &cli->eval.where.devices,
		.comm = &cli->comm,
		.check = check_eval_cli,
		.run = evaluate,
		.self = cli };

	cli->eval.where.way = gt_comm_way(cli->comm.backend);
	cli->eval.vocab = cli->tokenizer ? cli->tokenizer : cli->eval.vocab;
	cli->eval.how.top = cli->per_class || cli->confusion || cli->predictions; /* the best */
	return gt_cmd_run_job(env, &job, err);
}

const struct gt_cmd_work gt_cmd_eval = { table, sizeof(struct gt_eval_cli), run_eval };
