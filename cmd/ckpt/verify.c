/* verify.c - gtrain ckpt verify: whether checkpoints are sound, and mending a torn edit. */
#include "cmd/ckpt/verify.h"
#include "cmd/ckpt/ckpt.h"
#include "lib/base/text.h"

struct gt_ckpt_verify_cli {
	struct gt_cmd_common common;
	bool repair, strict;
	const char *signature, *key;
	int64_t threads;
};

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_verify_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to do" },
	{ "repair", 0, GT_OPT_FLAG, AT(repair),
	    .help = "first repair a zip file whose last edit was interrupted" },
	{ "strict", 0, GT_OPT_FLAG, AT(strict),
	    .help = "exit with 1 also for NaN and Inf", .without = { { "signature" } } },
	{ "signature", 0, GT_OPT_STRING, AT(signature), "FILE",
	    "check all files against this signature instead, which 'ckpt sign' or model_signing wrote",
	    .complete = GT_COMPLETE_FILE, .excludes = "repair" },
	{ "key", 0, GT_OPT_STRING, AT(key), "FILE", "the public key of who signed, in PEM or DER",
	    .complete = GT_COMPLETE_FILE, .needs = { { "signature" } } },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "number of threads that read the file",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_verify_cli),
	{ 0 }
};
/* clang-format on */

static int mend(struct gt_repair *repair, const char *path, struct gt_log *log, struct gt_err *err)
{
	char cut[GT_TEXT_SIZE];
	uint64_t bytes;
	int rc = gt_repair(repair, path, GT_REPAIR_WAIT_S, err);

	if (rc)
		return rc;
	bytes = repair->old_bytes - repair->new_bytes;
	if (bytes)
		gt_log_info(log,
		    "%s: %llu bytes (%s) of an interrupted edit cut off; %zu records are sound",
		    path, (unsigned long long)bytes, gt_text_bytes(cut, bytes), repair->records);
	else
		gt_log_info(log, "%s: no edit was interrupted, nothing to cut off", path);
	return 0;
}

static int verify_file(
    const struct gt_ckpt_verify_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_verify verify = { .format = "" };
	struct gt_repair repair = { 0 };
	int rc = gt_cmd_find_ckpts(env, err);

	if (!rc && cli->repair)
		rc = mend(&repair, env->opts.operands[0], &env->log, err);
	if (!rc)
		rc = gt_verify(
		    &verify, env->opts.operands[0], (size_t)cli->threads, &env->progress, err);
	if (!rc && cli->common.json)
		gt_ckpt_verify_json(stdout, &verify, cli->repair ? &repair : NULL, cli->strict);
	else if (!rc)
		gt_ckpt_verify_text(stdout, &verify, env->color);
	if (gt_ckpt_verify_fails(&verify, cli->strict))
		env->status = GT_EXIT_FAILED;
	gt_verify_release(&verify);
	return rc;
}

static int verify_signature(
    const struct gt_ckpt_verify_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_sign_check_options options = { .path = env->opts.operands[0],
		.signature = cli->signature,
		.key = cli->key,
		.threads = (size_t)cli->threads,
		.progress = &env->progress };

	if (!cli->key) {
		gt_err_set(err, GT_EINVAL, "{signature} needs {key}, the public key of who signed");
		return gt_err_hint(
		    err, "of a private key: openssl pkey -in key.pem -pubout -out pub.pem");
	}
	if (env->opts.operand_count > 1)
		return gt_err_set(
		    err, GT_EINVAL, "{signature} is of one model: give one file or folder");
	return gt_ckpt_verify_signature(env, &options, cli->common.json, err);
}

static int verify(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_verify_cli *cli = values;
	const struct gt_ckpt_verify_how how = { cli->common.json, cli->strict,
		(size_t)cli->threads };

	if (cli->signature)
		return verify_signature(cli, env, err);
	if (env->opts.operand_count == 1 && !gt_ckpt_verify_searches(env->opts.operands[0]))
		return verify_file(cli, env, err);
	if (cli->repair)
		return gt_err_set(err, GT_EINVAL, "{repair} takes the path of one file");
	return gt_ckpt_verify_all(env, &how, err);
}

const struct gt_cmd_work gt_cmd_ckpt_verify = { table, sizeof(struct gt_ckpt_verify_cli), verify };
