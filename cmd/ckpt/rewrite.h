/* rewrite.h - the output of `gtrain ckpt convert`, merge and select: options, writing, report. */
#ifndef GT_CMD_CKPT_REWRITE_H
#define GT_CMD_CKPT_REWRITE_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/convert.h"
#include "lib/ckpt/tools/inventory.h"

/* Options for the output. The commands convert, merge and select have them in common. */
struct gt_ckpt_target_cli {
	const char *output; /* path */
	/* `to` is an index into gt_convert_words (lib/ckpt/tools/convert.h); -1: the ending of
	 * `output` decides the format. `dtype` is an index into gt_ckpt_dtypes; -1: the types stay
	 * unchanged. */
	int to, dtype;
	int64_t shard_bytes; /* maximum bytes of tensors per output file; 0: write one file */
	bool sync;           /* wait until the output is on the disk */
};

/* The words that --dtype accepts, ended by NULL. gt_ckpt_dtypes has the same order. */
extern const char *const gt_ckpt_dtype_words[];

/* Rows for an option table (lib/base/opt.h). `cli_type` is the struct of the command's options; it
 * must have a member `struct gt_ckpt_target_cli target`. `formats` are the words of --to, and
 * `more` is text that is added to the help of --to. */
/* clang-format off */
#define GT_CKPT_TARGET(cli_type, formats, more) \
	{ .type = GT_OPT_HEADING, .help = "What to write" }, \
	{ "output", 'o', GT_OPT_STRING, GT_OPT_FIELD(cli_type, target.output), "OUT", \
	    "the file to write", .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED }, \
	{ "to", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, target.to), "FORMAT", \
	    "format: pth, legacy (before PyTorch 1.6), safetensors, npz" more, .words = formats, \
	    .otherwise = "by the ending of the file" }, \
	{ "dtype", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, target.dtype), "TYPE", \
	    "convert floating-point tensors to this type", \
	    .words = gt_ckpt_dtype_words, .otherwise = "as they are" }, \
	{ "shard-size", 0, GT_OPT_SIZE, GT_OPT_FIELD(cli_type, target.shard_bytes), "SIZE", \
	    "safetensors: write shards with at most SIZE bytes of tensors each", \
	    .otherwise = "one file", .min = 1, .max = INFINITY }, \
	{ "sync", 0, GT_OPT_YESNO, GT_OPT_FIELD(cli_type, target.sync), .initial = "yes", \
	    .help = "no: do not wait until the result is on the disk" }
/* clang-format on */

/* The types of tensors that the words of --dtype stand for, in the order of gt_ckpt_dtype_words. */
extern const enum gt_dtype gt_ckpt_dtypes[];

/* The state of a command that writes a checkpoint. */
struct gt_ckpt_rewrite {
	const struct gt_ckpt_target_cli *target;
	const char *format; /* name of the output's format; gt_ckpt_target_check() sets it */
	struct gt_ckpt *const *inputs; /* [input_count] open checkpoints */
	size_t input_count;
	bool weights_only;  /* leave out objects that torch.load(weights_only=True) refuses */
	struct gt_buf note; /* text for the report: changes to the checkpoint, one per line */
	bool json;          /* report as a JSON document */
};

/* Check the operands (env->opts) and the output before any file is read. Replace each operand that
 * is a run directory (the output folder of a training run) by the path of the run's latest
 * checkpoint. Set r->format to the format that --to names. If --to is not given, the ending of
 * --output decides the format. If --to is given and the ending of --output belongs to another
 * format, log a warning.
 *
 * With --shard-size, the output consists of several files, called shards, and an index that lists
 * them. The name of an index ends with .index.json.
 *
 * Errors: GT_EINVAL if the format is not known, if the output is one of the operands, or if the
 * output has the name of an index but --shard-size is not given; GT_ENOMEM. */
int gt_ckpt_target_check(struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err);

/* Write `root`, the tree of dicts, lists and tensors of a checkpoint, to the output in the chosen
 * format. Then report the result. Without r->json, write r->note and one line about the output to
 * the log. With r->json, print one JSON document to standard output. */
int gt_ckpt_target_write(
    struct gt_ckpt_rewrite *r, struct gt_tree *root, struct gt_cmd_env *env, struct gt_err *err);

/* Report the result as gt_ckpt_target_write() does: in the log, or with r->json on standard output.
 * If `whole` is true, `path` is the output: one file or one folder. If `whole` is false, `path` is
 * the index of the shards. `t` counts the tensors that were written, and their bytes. */
int gt_ckpt_target_report(struct gt_ckpt_rewrite *r, const char *path, bool whole,
    const struct gt_tally *t, struct gt_cmd_env *env, struct gt_err *err);

/* Report how many finite values became infinite when they were cast to a smaller type. Without
 * r->json, log the report as a warning. With r->json, add the report to r->note. */
void gt_ckpt_target_report_losses(
    struct gt_ckpt_rewrite *r, const struct gt_ckpt_write_losses *losses, struct gt_log *log);

/* Open an input and check its tensors against its digests, which are checksums of the tensors
 * (lib/ckpt/tools/digest.h). Without this check, the output could contain a damaged tensor with a
 * new digest that matches the damage. Close *out with gt_ckpt_close(), also after an error. */
int gt_ckpt_input_open(
    struct gt_ckpt **out, const char *path, struct gt_cmd_env *env, struct gt_err *err);

#endif
