/* eval.c - gtrain eval: measure a checkpoint on a data set. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cmd/eval_options.h"
#include "cmd/json_out.h"
#include "lib/base/text.h"

/* How fast it was goes with the progress: results are the same in every run. */
static void log_speed(struct gt_log *log, const struct gt_metrics *m, const struct gt_data_info *i)
{
	gt_log_info(log, "evaluated %lld samples in %.3f s, %.1f samples/s", (long long)i->samples,
	    m->seconds, (double)i->samples / m->seconds);
}

static int print(
    const struct gt_eval_cli *cli, const struct gt_metrics *m, bool tokens, struct gt_err *err)
{
	double loss = gt_text_real(m->loss), perplexity = gt_text_real(m->perplexity);
	json_t *out;

	if (!cli->common.json && tokens)
		printf("loss %.6f  perplexity %.4f  top-1 %.2f %%  top-5 %.2f %%  tokens %lld\n",
		    loss, perplexity, 100 * m->top1, 100 * m->top5, (long long)m->n);
	else if (!cli->common.json)
		printf("loss %.6f  top-1 %.2f %% (%lld of %lld)  top-5 %.2f %%\n", loss,
		    100 * m->top1, (long long)m->right, (long long)m->n, 100 * m->top5);
	if (!cli->common.json)
		return 0;
	/* The perplexity of a finite loss may be beyond a double. */
	out = json_pack("{s:o,s:f,s:f,s:o,s:I}", "loss", gt_json_number(m->loss), "top1", m->top1,
	    "top5", m->top5, "perplexity", gt_json_number(m->perplexity), "n", (json_int_t)m->n);
	return gt_cmd_print_json(out, 0, err);
}

static int evaluate(struct gt_cmd_env *env, struct gt_eval_cli *cli, struct gt_err *err)
{
	struct gt_metrics metrics;
	struct gt_eval *e;
	int rc;

	gt_cmd_set_threads(cli->threads);
	rc = gt_eval_open(&e, &cli->eval, &env->log, err);
	if (!rc)
		rc = gt_eval_run(e, &metrics, err);
	if (!rc) {
		log_speed(&env->log, &metrics, gt_eval_data(e));
		if (!isfinite(metrics.loss))
			gt_log_warn(&env->log,
			    "the loss is not finite: the weights or the data hold NaN or Inf");
		rc = print(cli, &metrics, gt_eval_data(e)->kind == GT_DATA_TOKENS, err);
	}
	gt_eval_close(e);
	return rc;
}

int gt_cmd_eval(int argc, char **argv)
{
	struct gt_eval_cli cli = { 0 };
	struct gt_cmd_env env;
	struct gt_err err = GT_ERR_INIT;
	int rc, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	rc = gt_opts_require(&env.opts, &err);
	if (!rc)
		rc = evaluate(&env, &cli, &err);
	return gt_cmd_end(&env, rc, &err);
}
