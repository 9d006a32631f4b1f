/* eval.c - gtrain eval: measure a checkpoint on a data set. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/eval_options.h"
#include "cmd/json_out.h"
#include "lib/base/text.h"
#include "lib/train/about.h"
#include "lib/train/evaluate.h"
#include "lib/train/run_source.h"
#include "lib/train/weights.h"

/* All that an evaluation holds, so that it is released in one place. */
struct evaluation {
	struct gt_run_source source;
	struct gt_data_description trained_on;
	struct gt_model *model;
	struct gt_dataset *data;
	struct gt_device *device;
	struct gt_store *store;
	struct gt_program_pair programs;
	struct gt_weights_report report;
	const char **maps;
	void *arena;
	size_t arena_bytes;
};

static void release(struct evaluation *e)
{
	if (e->device)
		(void)gt_device_sync(e->device, GT_ERR_IGNORED);
	gt_program_pair_release(&e->programs);
	gt_device_free(e->device, e->arena, e->arena_bytes);
	gt_store_free(e->store);
	gt_device_close(e->device);
	gt_dataset_close(e->data);
	gt_model_close(e->model);
	gt_weights_report_release(&e->report);
	gt_data_description_release(&e->trained_on);
	gt_run_source_release(&e->source);
	free(e->maps);
}

static int open_model_and_data(
    struct evaluation *e, const struct gt_eval_cli *cli, struct gt_err *err)
{
	struct gt_data_request request;
	const char *model;
	int rc = gt_run_source_open(&e->source, cli->ckpt, err);

	if (rc)
		return rc;
	model = gt_cmd_source_model(&e->source, cli->model, err);
	if (!model)
		return err->code;
	rc = gt_model_open(&e->model, model, err);
	if (!rc && gt_about_read(&e->trained_on, e->source.config, err))
		rc = gt_err_prefix(err, "'%s/config.json'", e->source.dir.folder.path);
	if (rc)
		return rc;
	gt_data_request_of(&request, e->model, 0, 1);
	request.like = &e->trained_on;
	request.vocab = cli->vocab ? (struct gt_file_name){ .path = cli->vocab }
	                           : gt_run_source_vocab(&e->source);
	return gt_dataset_open(&e->data, cli->data, &request, err);
}

static int build(struct evaluation *e, const struct gt_eval_cli *cli, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(e->data);
	struct gt_model_input input;
	int rc;

	gt_model_input_of(&input, info);
	rc = gt_device_open(&e->device, gt_backend_find(cli->device), 0, err);
	if (!rc)
		rc = gt_program_store(&e->store, e->model, &input, e->device, false, NULL, err);
	if (!rc)
		rc = gt_store_alloc(e->store, err);
	if (!rc)
		rc = gt_program_pair_init(&e->programs,
		    &(struct gt_program_options){ .model = e->model,
		        .input = &input,
		        .purpose = GT_MODEL_EVAL,
		        .store = e->store,
		        .low = gt_amp_type(cli->amp) },
		    info->samples, (int)cli->batch, false, err);
	if (rc)
		return rc;
	e->arena_bytes = gt_program_pair_arena(&e->programs);
	rc = gt_device_alloc(e->device, e->arena_bytes, &e->arena, err);
	return rc ? rc : gt_program_pair_bind(&e->programs, e->arena, err);
}

/* What makes numbers mean something else than people may think. */
static void warn(const struct evaluation *e, const struct gt_eval_cli *cli, struct gt_log *log)
{
	const struct gt_data_info *info = gt_dataset_info(e->data);
	const char *trained = json_string_value(json_object_get(e->source.config, "model"));

	if (info->note)
		gt_log_warn(log, "--data: %s", info->note);
	if (info->adopted)
		gt_log_info(
		    log, "--data is read with %s, like the run's training data", info->adopted);
	if (trained && cli->model && strcmp(trained, cli->model))
		gt_log_warn(log, "--model %s: the run was trained as %s", cli->model, trained);
	if (info->kind == GT_DATA_TOKENS && !e->source.vocab && !cli->vocab &&
	    !strncmp(cli->data, "text:", 5))
		gt_log_warn(log,
		    "no vocab.json lies beside '%s': tokens are numbered by this text "
		    "alone; --vocab names the vocabulary it was trained with",
		    e->source.path);
}

static void list_keys(struct gt_log *log, const char *what, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gt_log_warn(log, "%s key '%s'", what, names[i]);
}

static int load(
    struct evaluation *e, const struct gt_eval_cli *cli, struct gt_log *log, struct gt_err *err)
{
	struct gt_weights_options options = { .lenient = !cli->strict };
	int rc;

	e->maps = gt_calloc(cli->map.count + 1, sizeof(*e->maps), err);
	if (!e->maps)
		return GT_ENOMEM;
	for (size_t i = 0; i < cli->map.count; i++)
		e->maps[i] = cli->map.items[i];
	options.maps = e->maps;
	/* Keys that stay missing under --strict=no keep their initial values, not zeros. */
	rc = gt_store_init(e->store, 0, err);
	if (!rc)
		rc = gt_weights_load_file(
		    e->store, e->model, e->source.file, &options, &e->report, err);
	if (rc)
		return rc;
	if (*e->report.note)
		gt_log_info(log, "%s: %s", e->source.path, e->report.note);
	list_keys(log, "missing", e->report.missing, e->report.missing_count);
	list_keys(log, "unexpected", e->report.unexpected, e->report.unexpected_count);
	return 0;
}

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

int gt_cmd_eval(int argc, char **argv)
{
	struct evaluation e = { 0 };
	struct gt_metrics metrics;
	struct gt_eval_cli cli;
	struct gt_cmd_env env;
	struct gt_err err = GT_ERR_INIT;
	int rc, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	rc = gt_opts_require(&env.opts, &err);
	if (!rc && !gt_backend_find(cli.device))
		rc = gt_err_set(&err, GT_ENOTSUP,
		    "--device: this build computes on 'cpu' only, not on '%s'", cli.device);
	gt_cmd_set_threads(cli.threads);
	if (!rc)
		rc = open_model_and_data(&e, &cli, &err);
	if (!rc)
		warn(&e, &cli, &env.log);
	if (!rc)
		rc = build(&e, &cli, &err);
	if (!rc)
		rc = load(&e, &cli, &env.log, &err);
	if (!rc)
		rc = gt_evaluate(&e.programs, e.data, (int)cli.batch, (int)cli.workers, false, NULL,
		    &metrics, &err);
	if (!rc)
		log_speed(&env.log, &metrics, gt_dataset_info(e.data));
	if (!rc && !isfinite(metrics.loss))
		gt_log_warn(
		    &env.log, "the loss is not finite: the weights or the data hold NaN or Inf");
	if (!rc)
		rc = print(&cli, &metrics, gt_dataset_info(e.data)->kind == GT_DATA_TOKENS, &err);
	release(&e);
	return gt_cmd_end(&env, rc, &err);
}
