/* convert.c - gtrain ckpt convert: a checkpoint as another format, or other types. */
#include <math.h>
#include <string.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "cmd/stop.h"
#include "lib/train/checkpoint/adapter.h"

struct gt_ckpt_convert_cli {
	struct gt_cmd_common common;
	bool weights_only;
	const char *base;
	int type; /* index into gguf_types; -1: that of the weights */
	struct gt_ckpt_target_cli target;
};

/* These are gt_convert_words, and behind them the words of gt_ckpt_model_formats. */
static const char *const convert_words[] = { "pth", "legacy", "safetensors", "npz", "dcp", "hf",
	"pt2", "onnx", "gguf", NULL };

/* Types of GGUF that are written. */
static const char *const gguf_types[] = { "f32", "f16", "bf16", "q8_0", "q4_0", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	GT_CKPT_TARGET(struct gt_ckpt_convert_cli, convert_words,
	    ", hf (a folder for Hugging Face's transformers), pt2 (a network for torch.export), "
	    "onnx, gguf (a language model, or an adapter of one, for llama.cpp)"),
	{ "type", 0, GT_OPT_CHOICE, GT_OPT_FIELD(struct gt_ckpt_convert_cli, type), "TYPE",
	    "gguf: the type of matrices", .words = gguf_types, .otherwise = "that of the weights" },
	{ "base", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_convert_cli, base), "CKPT",
	    "gguf: the model that an adapter is for", .complete = GT_COMPLETE_FILE,
	    .otherwise = "the one that its settings name" },
	{ "weights-only", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_convert_cli, weights_only),
	    .help = "leave out objects that torch.load(weights_only=True) refuses" },
	GT_CMD_COMMON(struct gt_ckpt_convert_cli),
	{ 0 }
};
/* clang-format on */

/* Write a model for another program. */
static int export(const struct gt_ckpt_convert_cli *cli, struct gt_ckpt_rewrite *r,
    const struct gt_ckpt_model_format *format, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = &cli->target;
	struct gt_ckpt_write_losses losses = { 0 };
	const struct gt_export_options options = { .from = env->opts.operands[0],
		.to = target->output,
		.type = cli->type >= 0 ? gguf_types[cli->type] : NULL,
		.base = cli->base,
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
	rc = format->write(&options, &tally, &r->note, err);
	gt_stop_release(&stop);
	if (!rc)
		rc = gt_buf_check(&r->note, err);
	if (!rc && losses.values)
		gt_ckpt_target_report_losses(r, &losses, &env->log);
	return rc ? rc : gt_ckpt_target_report(r, target->output, true, &tally, env, err);
}

/* Types and records of a network are those of its graph, and GGUF has types of its own. */
static int export_network(const struct gt_ckpt_convert_cli *cli, struct gt_ckpt_rewrite *r,
    const struct gt_ckpt_model_format *format, struct gt_cmd_env *env, struct gt_err *err)
{
	const char *option = cli->target.dtype >= 0    ? "dtype"
	                     : cli->target.shard_bytes ? "shard-size"
	                                               : NULL;
	int rc;

	if (option)
		gt_err_set(
		    err, GT_EINVAL, "--%s cannot be combined with --to %s", option, format->word);
	if (option)
		return !strcmp(format->word, "gguf") ? gt_err_hint(err, "--type f16 or q8_0")
		                                     : err->code;
	rc = gt_ckpt_target_check(r, env, err);
	return rc ? rc : export(cli, r, format, env, err);
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

/* Return the format of models that is to be written; NULL: it is one of checkpoints. */
static const struct gt_ckpt_model_format *find_model_format(const struct gt_ckpt_target_cli *target)
{
	const struct gt_ckpt_model_format *row = gt_ckpt_model_formats;

	if (target->to < 0)
		return gt_ckpt_model_format_of(target->output);
	while (row->word && strcmp(convert_words[target->to], row->word) != 0)
		row++;
	return row->word ? row : NULL;
}

/* Check options that have an effect with GGUF alone. */
static int check_gguf_options(const struct gt_ckpt_convert_cli *cli,
    const struct gt_ckpt_model_format *format, const char *input, struct gt_err *err)
{
	const bool gguf = format && !strcmp(format->word, "gguf");

	if (cli->type >= 0 && !gguf) {
		gt_err_set(err, GT_EINVAL, "--type has an effect with --to gguf alone");
		return gt_err_hint(err, "--dtype is for other formats");
	}
	if (cli->base && !(gguf && gt_adapter_is_folder(input)))
		return gt_err_set(err, GT_EINVAL,
		    "--base has an effect with --to gguf and the folder of an adapter alone");
	return 0;
}

static int convert(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_convert_cli *cli = values;
	struct gt_ckpt_rewrite r = {
		.target = &cli->target,
		.json = cli->common.json,
		.weights_only = cli->weights_only,
	};
	const struct gt_ckpt_model_format *format = find_model_format(&cli->target);
	int rc;

	if (check_gguf_options(cli, format, env->opts.operands[0], err))
		return err->code;
	if (format && cli->weights_only)
		return gt_err_set(
		    err, GT_EINVAL, "--weights-only cannot be combined with --to %s", format->word);
	r.format = format ? format->format : NULL;
	if (!format)
		rc = convert_file(&r, env, err);
	else if (format->ending)
		rc = export_network(cli, &r, format, env, err);
	else
		rc = export(cli, &r, format, env, err);
	gt_buf_release(&r.note);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_convert = { table, sizeof(struct gt_ckpt_convert_cli),
	convert };
