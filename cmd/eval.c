/* eval.c - gtrain eval: measure a checkpoint on a data set. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/eval_options.h"
#include "cmd/eval_report.h"
#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "lib/base/text.h"

/* How fast it was goes with the progress: results are the same in every run. */
static void log_speed(struct gt_log *log, const struct gt_metrics *m, const struct gt_data_info *i)
{
	gt_log_info(log, "evaluated %lld samples in %.3f s, %.1f samples/s", (long long)i->samples,
	    m->seconds, (double)i->samples / m->seconds);
}

/* What the options ask for beside the one line: as text behind it, or added to the document. */
static int print_each(
    const struct gt_eval_cli *cli, const struct gt_eval *e, json_t *document, struct gt_err *err)
{
	struct gt_confusion c;
	int rc = gt_confusion_count(&c, e, err), failed = 0;

	if (!rc && cli->per_class && document)
		failed |= json_object_set_new(document, "classes", gt_confusion_classes_json(&c));
	else if (!rc && cli->per_class)
		gt_confusion_print_classes(stdout, &c);
	if (!rc && cli->confusion && document)
		failed |= json_object_set_new(document, "confusion", gt_confusion_json(&c));
	else if (!rc && cli->confusion)
		gt_confusion_print(stdout, &c);
	gt_confusion_release(&c);
	if (!rc && failed)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the results of classes");
	if (!rc && cli->predictions)
		rc = gt_predictions_write(cli->predictions, e, err);
	return rc;
}

static int print(const struct gt_eval_cli *cli, const struct gt_metrics *m, const struct gt_eval *e,
    struct gt_err *err)
{
	bool tokens = gt_eval_data(e)->kind == GT_DATA_TOKENS, each = cli->eval.how.each;
	double loss = gt_text_real(m->loss), perplexity = gt_text_real(m->perplexity);
	json_t *out;

	if (!cli->common.json && tokens)
		printf("loss %.6f  perplexity %.4f  top-1 %.2f %%  top-5 %.2f %%  tokens %lld\n",
		    loss, perplexity, 100 * m->top1, 100 * m->top5, (long long)m->n);
	else if (!cli->common.json)
		printf("loss %.6f  top-1 %.2f %% (%lld of %lld)  top-5 %.2f %%\n", loss,
		    100 * m->top1, (long long)m->right, (long long)m->n, 100 * m->top5);
	if (!cli->common.json)
		return each ? print_each(cli, e, NULL, err) : 0;
	/* The perplexity of a finite loss may be beyond a double. */
	out = json_pack("{s:o,s:f,s:f,s:o,s:I}", "loss", gt_json_number(m->loss), "top1", m->top1,
	    "top5", m->top5, "perplexity", gt_json_number(m->perplexity), "n", (json_int_t)m->n);
	if (out && each && print_each(cli, e, out, err)) {
		json_decref(out);
		return err->code;
	}
	return gt_cmd_print_json(out, 0, err);
}

/* Evaluate as one rank of `comm`, or alone; rank 0 prints. */
static int evaluate(
    struct gt_cmd_env *env, struct gt_eval_cli *cli, const struct gt_comm *comm, struct gt_err *err)
{
	struct gt_metrics metrics;
	struct gt_eval *e;
	int rc;

	cli->eval.group = comm->group;
	cli->eval.host_ranks = comm->world.local_size;
	cli->eval.host_rank = comm->world.local_rank;
	gt_cmd_set_threads(cli->threads);
	rc = gt_eval_open(&e, &cli->eval, &env->log, err);
	if (!rc)
		rc = gt_eval_run(e, &metrics, err);
	if (!rc && !comm->world.rank) {
		log_speed(&env->log, &metrics, gt_eval_data(e));
		if (!isfinite(metrics.loss))
			gt_log_warn(&env->log,
			    "the loss is not finite: the weights or the data hold NaN or Inf");
		rc = print(cli, &metrics, e, err);
	}
	gt_eval_close(e);
	return rc;
}

static int join_and_evaluate(struct gt_cmd_env *env, struct gt_eval_cli *cli,
    const struct gt_world *world, const char *command, struct gt_err *err)
{
	struct gt_comm comm = { 0 };
	int rc = 0;

	cli->nproc = world->size;
	if (world->size > 1)
		rc = gt_cmd_join(&comm, world, &cli->comm, env, command, err);
	if (rc)
		return rc;
	rc = evaluate(env, cli, &comm, err);
	if (!rc)
		rc = gt_comm_finish(&comm, err);
	gt_comm_leave(&comm);
	return rc;
}

static int launch(int *status, struct gt_cmd_env *env, const struct gt_eval_cli *cli, int argc,
    char **argv, const char *command, struct gt_err *err)
{
	const struct gt_cmd_ranks ranks = {
		.nproc = cli->nproc, .rank_0_speaks = true, .results = true
	};

	if (cli->comm.backend == GT_COMM_MPI)
		return gt_cmd_refuse_launch(cli->nproc, command, err);
	/* Before there are ranks that would all say the same. */
	return gt_eval_check(&cli->eval, err) ? err->code
	                                      : gt_cmd_launch(status, &ranks, env, argc, argv, err);
}

int gt_cmd_eval(int argc, char **argv)
{
	struct gt_eval_cli cli = { 0 };
	struct gt_cmd_env env;
	struct gt_world world;
	struct gt_err err = GT_ERR_INIT;
	char *command = NULL;
	bool launches = false;
	int rc, launched = GT_EXIT_DONE, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	cli.eval.way = gt_comm_way(cli.comm.backend);
	cli.eval.how.each = cli.per_class || cli.confusion || cli.predictions;
	rc = gt_opts_require(&env.opts, &err);
	if (!rc)
		rc = gt_cmd_command_line(&command, argc, argv, &err);
	if (!rc)
		rc = gt_cmd_find_ranks(&world, &cli.nproc, cli.comm.backend, &launches, &err);
	if (!rc && launches)
		rc = launch(&launched, &env, &cli, argc, argv, command, &err);
	else if (!rc)
		rc = join_and_evaluate(&env, &cli, &world, command, &err);
	free(command);
	status = gt_cmd_end(&env, rc, &err);
	return status == GT_EXIT_DONE ? launched : status;
}
