/* convert.c - gtrain ckpt convert: a checkpoint as another format, or other types. */
#include <math.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "cmd/stop.h"
#include "lib/train/checkpoint/export.h"

struct gt_ckpt_convert_cli {
	bool weights_only;
	struct gt_ckpt_target_cli target;
	struct gt_cmd_common common;
};

/* --to hf and --to pt2, of convert alone */
enum { GT_CKPT_TO_HUGGING_FACE = 4, GT_CKPT_TO_NETWORK = 5 };

/* gt_convert_words, and last a folder and a network. */
static const char *const convert_words[] = { "pth", "legacy", "safetensors", "npz", "hf", "pt2",
	NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	GT_CKPT_TARGET(struct gt_ckpt_convert_cli, convert_words,
	    ", hf (a folder for Hugging Face's transformers), pt2 (a network for torch.export)"),
	{ "weights-only", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_convert_cli, weights_only),
	    .help = "leave out objects that torch.load(weights_only=True) refuses" },
	GT_CMD_COMMON(struct gt_ckpt_convert_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_convert_options(void)
{
	return table;
}

typedef int export_function(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

/* Write a model for another program: the operand is a run, or a checkpoint that names its model. */
static int export(const struct gt_ckpt_convert_cli *cli, struct gt_ckpt_rewrite *r,
    export_function *write, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = &cli->target;
	struct gt_ckpt_write_losses losses = { 0 };
	const struct gt_export_options options = { .from = env->opts.operands[0],
		.to = target->output,
		.write = { .cast = target->dtype >= 0,
		    .dtype = target->dtype >= 0 ? gt_ckpt_dtypes[target->dtype] : GT_F32,
		    .no_sync = !target->sync,
		    .shard_bytes = (uint64_t)target->shard_bytes,
		    .progress = &env->progress,
		    .losses = &losses } };
	struct gt_tally tally;
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = write(&options, &tally, &r->note, err);
	gt_stop_release(&stop);
	if (!rc)
		rc = gt_buf_check(&r->note, err);
	if (!rc && losses.values)
		gt_ckpt_target_report_losses(r, &losses, &env->log);
	return rc ? rc : gt_ckpt_target_report(r, target->output, true, &tally, env, err);
}

/* Types and records of a network are those of its graph. */
static int export_network(const struct gt_ckpt_convert_cli *cli, struct gt_ckpt_rewrite *r,
    struct gt_cmd_env *env, struct gt_err *err)
{
	int rc;

	if (cli->target.dtype >= 0)
		return gt_err_set(err, GT_EINVAL, "--dtype cannot be combined with --to pt2");
	if (cli->target.shard_bytes)
		return gt_err_set(err, GT_EINVAL, "--shard-size cannot be combined with --to pt2");
	rc = gt_ckpt_target_check(r, env, err);
	return rc ? rc : export(cli, r, gt_export_network, env, err);
}

static int convert_file(struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_ckpt *ckpt = NULL;
	int rc = gt_ckpt_target_check(r, env, err);

	r->inputs = &ckpt;
	r->input_count = 1;
	if (!rc)
		rc = gt_ckpt_input_open(&ckpt, env->opts.operands[0], env, err);
	if (!rc)
		rc = gt_ckpt_target_write(r, gt_ckpt_root(ckpt), env, err);
	gt_ckpt_close(ckpt);
	return rc;
}

static bool is_to_network(const struct gt_ckpt_target_cli *target)
{
	return target->to == GT_CKPT_TO_NETWORK ||
	       (target->to < 0 && gt_ckpt_target_ends_as_network(target->output));
}

static int convert(
    const struct gt_ckpt_convert_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_ckpt_rewrite r = {
		.target = &cli->target,
		.json = cli->common.json,
		.weights_only = cli->weights_only,
	};
	int rc;

	if (env->opts.operand_count < 1) {
		gt_err_set(err, GT_EINVAL, "no file is named");
		return gt_err_hint(err, "gtrain ckpt convert FILE -o model.safetensors");
	}
	if (cli->target.to == GT_CKPT_TO_HUGGING_FACE) {
		r.format = "hf";
		rc = export(cli, &r, gt_export_hugging_face, env, err);
	} else if (is_to_network(&cli->target)) {
		r.format = GT_CKPT_NETWORK_FORMAT;
		rc = export_network(cli, &r, env, err);
	} else {
		rc = convert_file(&r, env, err);
	}
	gt_buf_release(&r.note);
	return rc;
}

int gt_cmd_ckpt_convert(int argc, char **argv)
{
	struct gt_ckpt_convert_cli cli;
	struct gt_cmd_env env;
	struct gt_err err = GT_ERR_INIT;
	int rc, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	rc = gt_opts_require(&env.opts, &err);
	if (!rc)
		rc = convert(&cli, &env, &err);
	return gt_cmd_end(&env, rc, &err);
}
