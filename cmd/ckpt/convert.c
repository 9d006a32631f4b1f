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

enum { GT_CKPT_TO_HUGGING_FACE = 4 }; /* --to hf, of convert alone */

/* gt_convert_words, and last a folder. */
static const char *const convert_words[] = { "pth", "legacy", "safetensors", "npz", "hf", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	GT_CKPT_TARGET(struct gt_ckpt_convert_cli, convert_words,
	    ", hf (a folder for Hugging Face's transformers)"),
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

/* A folder of Hugging Face's: the operand is a run, or a checkpoint that says its model. */
static int export(const struct gt_ckpt_convert_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = &cli->target;
	struct gt_ckpt_rewrite r = { .target = target, .format = "hf", .json = cli->common.json };
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
	rc = gt_export_hugging_face(&options, &tally, &r.note, err);
	gt_stop_release(&stop);
	if (!rc)
		rc = gt_buf_check(&r.note, err);
	if (!rc && losses.values)
		gt_ckpt_target_report_losses(&r, &losses, &env->log);
	if (!rc)
		rc = gt_ckpt_target_report(&r, target->output, true, &tally, env, err);
	gt_buf_release(&r.note);
	return rc;
}

static int convert(
    const struct gt_ckpt_convert_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_ckpt *ckpt = NULL;
	struct gt_ckpt_rewrite r = {
		.target = &cli->target,
		.inputs = &ckpt,
		.input_count = 1,
		.json = cli->common.json,
		.weights_only = cli->weights_only,
	};
	int rc;

	if (env->opts.operand_count < 1) {
		gt_err_set(err, GT_EINVAL, "no file is named");
		return gt_err_hint(err, "gtrain ckpt convert FILE -o model.safetensors");
	}
	if (cli->target.to == GT_CKPT_TO_HUGGING_FACE)
		return export(cli, env, err);
	rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = gt_ckpt_input_open(&ckpt, env->opts.operands[0], env, err);
	if (!rc)
		rc = gt_ckpt_target_write(&r, gt_ckpt_root(ckpt), env, err);
	gt_buf_release(&r.note);
	gt_ckpt_close(ckpt);
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
