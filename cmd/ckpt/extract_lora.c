/* extract_lora.c - gtrain ckpt extract-lora: the difference of two models as an adapter. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "cmd/json_out.h"
#include "cmd/stop.h"
#include "lib/base/new_folder.h"
#include "lib/train/checkpoint/adapter_extract.h"
#include "lib/train/checkpoint/argument.h"

struct gt_ckpt_extract_lora_cli {
	struct gt_cmd_common common;
	const char *base, *targets, *output;
	int64_t rank;
	bool force;
};

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to extract" },
	{ "base", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_extract_lora_cli, base), "BASE",
	    "the model to whose weights the adapter will be added",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "rank", 0, GT_OPT_INT, GT_OPT_FIELD(struct gt_ckpt_extract_lora_cli, rank), "R",
	    "rows of A and columns of B", .min = 1, .max = GT_LORA_MAX_RANK,
	    .flags = GT_OPT_REQUIRED },
	{ "targets", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_extract_lora_cli, targets),
	    "GLOB[|GLOB...]", "layers, by names of weights or of their modules, such as "
	    "'*.[qv]_proj'", .otherwise = "all matrices but embeddings" },
	{ "force", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_extract_lora_cli, force),
	    .help = "write the adapter even if it leaves out most of the difference" },
	{ .type = GT_OPT_HEADING, .help = "What to write" },
	{ "output", 'o', GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_extract_lora_cli, output),
	    "DIR", "the folder to write", .complete = GT_COMPLETE_DIR, .flags = GT_OPT_REQUIRED },
	GT_CMD_COMMON(struct gt_ckpt_extract_lora_cli),
	{ 0 }
};
/* clang-format on */

/* Both checkpoints, and the facts about the model of BASE. */
struct inputs {
	struct gt_ckpt *tuned, *base;
	char *base_path; /* the checkpoint if --base is a run directory, else NULL */
	char *real_path; /* for the settings of the adapter */
};

static int open_inputs(struct inputs *in, const struct gt_ckpt_extract_lora_cli *cli,
    struct gt_cmd_env *env, struct gt_err *err)
{
	int rc = gt_run_ckpt_find(&in->base_path, cli->base, err);

	if (!rc)
		rc = gt_ckpt_input_open(&in->tuned, env->opts.operands[0], env, err);
	if (!rc)
		rc = gt_ckpt_input_open(
		    &in->base, in->base_path ? in->base_path : cli->base, env, err);
	in->real_path = rc ? NULL : realpath(cli->base, NULL);
	return rc;
}

static void close_inputs(struct inputs *in)
{
	gt_ckpt_close(in->tuned);
	gt_ckpt_close(in->base);
	free(in->base_path);
	free(in->real_path);
}

/* Find out what the model of BASE tells about its layers. A checkpoint need not name its model. */
static void describe_model(struct gt_adapter_contents *contents, const char *base)
{
	struct gt_run_ckpt ckpt = { 0 };
	struct gt_model *model = NULL;
	const char *name = NULL;

	if (!gt_run_ckpt_open(&ckpt, base, GT_RUN_LATEST, GT_ERR_IGNORED))
		name = gt_run_ckpt_model(&ckpt, NULL, GT_ERR_IGNORED);
	if (name && !gt_model_open(&model, name, GT_ERR_IGNORED)) {
		contents->transposed = gt_adapter_is_transposed(gt_model_family(model));
		contents->task = gt_adapter_task(model);
	}
	gt_model_close(model);
	gt_run_ckpt_release(&ckpt);
}

/* Return the norm of the layers' differences, or of what the adapter keeps of them. */
static double sum_norms(const struct gt_extracted *x, bool kept)
{
	double sum = 0;

	for (size_t i = 0; i < x->count; i++)
		sum += kept ? x->layers[i].kept : x->layers[i].norm;
	return sqrt(sum);
}

/* Return the part of the difference's norm that the adapter keeps. The square of a tiny difference
 * may be 0. */
static double share_of(const struct gt_extracted_layer *layer)
{
	return layer->norm > 0 ? sqrt(layer->kept / layer->norm) : 1;
}

static void report_text(
    struct gt_extracted *x, const struct gt_ckpt_extract_lora_cli *cli, struct gt_log *log)
{
	for (size_t i = 0; i < x->count; i++)
		gt_log_verbose(log, "%s: keeps %.2f %% of the norm of the difference",
		    x->layers[i].module, 100 * share_of(&x->layers[i]));
	if (x->left_out)
		gt_log_warn(log,
		    "%zu tensor%s that differ%s %s left out, with %.3g of a norm of %.3g: %s",
		    x->left_out, x->left_out == 1 ? "" : "s", x->left_out == 1 ? "s" : "",
		    x->left_out == 1 ? "is" : "are", sqrt(x->norm_left_out),
		    hypot(sum_norms(x, false), sqrt(x->norm_left_out)),
		    gt_name_list_text(&x->names));
	gt_log_info(log, "%s: rank %d, %zu layer%s, keeps %.2f %% of the norm of their differences",
	    cli->output, x->lora.rank, x->count, x->count == 1 ? "" : "s",
	    100 * sum_norms(x, true) / sum_norms(x, false));
}

static int report_json(
    const struct gt_extracted *x, const struct gt_ckpt_extract_lora_cli *cli, struct gt_err *err)
{
	json_t *layers = json_array();

	for (size_t i = 0; i < x->count; i++)
		json_array_append_new(layers,
		    json_pack("{s:o, s:f, s:f}", "module", gt_ckpt_json_text(x->layers[i].module),
		        "norm", sqrt(x->layers[i].norm), "kept", share_of(&x->layers[i])));
	return gt_cmd_print_json(
	    json_pack("{s:o, s:i, s:f, s:o, s:i, s:f}", "output", gt_ckpt_json_text(cli->output),
	        "rank", x->lora.rank, "kept", sum_norms(x, true) / sum_norms(x, false), "layers",
	        layers, "left_out", (int)x->left_out, "norm_left_out", sqrt(x->norm_left_out)),
	    JSON_COMPACT, err);
}

/* Compute the adapter and write it. The folder is made first: a name that cannot be written is
 * refused before the work. */
static int write_adapter(struct gt_extracted *x, const struct gt_adapter_extract *e,
    const char *output, struct gt_err *err)
{
	struct gt_new_folder new;
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = gt_new_folder_open(&new, output, err);
	if (!rc) {
		rc = gt_adapter_extract(x, e, err);
		if (!rc)
			rc = gt_adapter_write(&x->contents, &new.folder, err);
		if (!rc)
			rc = gt_new_folder_commit(&new, false, err);
		else
			gt_new_folder_abandon(&new);
	}
	gt_stop_release(&stop);
	return rc;
}

static int check_options(const struct gt_ckpt_extract_lora_cli *cli, struct gt_err *err)
{
	if (!cli->targets || gt_lora_is_targets(cli->targets))
		return 0;
	return gt_err_set(err, GT_EINVAL, "--targets: '%.80s' has an empty pattern", cli->targets);
}

static int extract_lora(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_extract_lora_cli *cli = values;
	struct inputs in = { 0 };
	struct gt_extracted x = { 0 };
	int rc = check_options(cli, err);

	if (!rc)
		rc = gt_cmd_find_ckpts(env, err);
	if (!rc)
		rc = open_inputs(&in, cli, env, err);
	if (!rc) {
		const struct gt_adapter_extract e = {
			.tuned = { gt_ckpt_root(in.tuned), env->opts.operands[0] },
			.base = { gt_ckpt_root(in.base), cli->base },
			.rank = cli->rank,
			.targets = cli->targets,
			.force = cli->force,
		};

		describe_model(&x.contents, cli->base);
		x.contents.base = in.real_path;
		rc = write_adapter(&x, &e, cli->output, err);
	}
	if (!rc && cli->common.json)
		rc = report_json(&x, cli, err);
	else if (!rc)
		report_text(&x, cli, &env->log);
	gt_extracted_release(&x);
	close_inputs(&in);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_extract_lora = { table,
	sizeof(struct gt_ckpt_extract_lora_cli), extract_lora };
