/* ckpt_convert.c - gtrain ckpt convert: a checkpoint as another format, or other types. */
#include "cmd/ckpt_convert.h"

static int convert(
    const struct gt_ckpt_convert_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_ckpt *ckpt = NULL;
	struct gt_ckpt_rewrite r = {
		.target = &cli->target, .inputs = &ckpt, .input_count = 1, .json = cli->common.json
	};
	int rc;

	if (env->opts.operand_count < 1) {
		gt_err_set(err, GT_EINVAL, "no file is named");
		return gt_err_hint(err, "gtrain ckpt convert FILE -o model.safetensors");
	}
	rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = gt_ckpt_input_open(&ckpt, env->opts.operands[0], err);
	if (!rc)
		rc = gt_ckpt_target_write(&r, gt_ckpt_root(ckpt), env, err);
	gt_note_release(&r.note);
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
