/* rewrite.h - options, output and report of the commands that write a checkpoint. */
#ifndef GT_CMD_CKPT_REWRITE_H
#define GT_CMD_CKPT_REWRITE_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/convert.h"
#include "lib/ckpt/tools/inventory.h"

struct gt_ckpt_target_cli {
	const char *output;
	int to, dtype; /* to -1: chosen by the file's ending; dtype -1: unchanged */
	int64_t shard_bytes;
	bool sync;
};

extern const char *const gt_ckpt_dtype_words[];

/* Rows of a table over `cli_type`, which has a member `struct gt_ckpt_target_cli target`. */
/* clang-format off */
#define GT_CKPT_TARGET(cli_type, formats, more) \
	{ .type = GT_OPT_HEADING, .help = "What to write" }, \
	{ "output", 'o', GT_OPT_STRING, GT_OPT_FIELD(cli_type, target.output), "FILE", \
	    "the file to write", .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED }, \
	{ "to", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, target.to), "FORMAT", \
	    "pth, legacy (before PyTorch 1.6), safetensors, npz" more, .words = formats, \
	    .otherwise = "by the ending of the file" }, \
	{ "dtype", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, target.dtype), "TYPE", \
	    "the type of floating-point tensors, rounded to nearest even", \
	    .words = gt_ckpt_dtype_words, .otherwise = "as they are" }, \
	{ "shard-size", 0, GT_OPT_SIZE, GT_OPT_FIELD(cli_type, target.shard_bytes), "SIZE", \
	    "safetensors: write several files, each with at most SIZE of tensors", \
	    .otherwise = "one file", .min = 1, .max = INFINITY }, \
	{ "sync", 0, GT_OPT_YESNO, GT_OPT_FIELD(cli_type, target.sync), .initial = "yes", \
	    .help = "no: do not wait until the result is on the disk" }
/* clang-format on */

/* The types of tensors that --dtype accepts. */
extern const enum gt_dtype gt_ckpt_dtypes[];

/* The state of such a command. */
struct gt_ckpt_rewrite {
	const struct gt_ckpt_target_cli *target;
	const char *format;
	struct gt_ckpt *const *inputs; /* open */
	size_t input_count;
	bool weights_only;  /* leave out objects that torch.load(weights_only=True) refuses */
	struct gt_buf note; /* changes to the tree */
	bool json;
};

/* Replace run directories among the operands by their checkpoints, and take the format from --to or
 * from the ending of --output; warn if these differ. GT_EINVAL if the output is one of the
 * operands, or an index without shards. */
int gt_ckpt_target_check(struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err);

/* Write the tree in the chosen format. Then report: print notes and a line to the log, or with
 * `json` a document to standard output. */
int gt_ckpt_target_write(
    struct gt_ckpt_rewrite *r, struct gt_tree *root, struct gt_cmd_env *env, struct gt_err *err);

/* Report as gt_ckpt_target_write() does. `path` is the file or the folder that was written. If
 * `whole` is false, it is the path of an index of shards. */
int gt_ckpt_target_report(struct gt_ckpt_rewrite *r, const char *path, bool whole,
    const struct gt_tally *t, struct gt_cmd_env *env, struct gt_err *err);

/* Report values that became infinite when they were cast. */
void gt_ckpt_target_say_losses(
    struct gt_ckpt_rewrite *r, const struct gt_ckpt_write_losses *losses, struct gt_log *log);

/* Open an input, yours to close in every case. This compares the digests, so damaged tensors are
 * never written with new digests. */
int gt_ckpt_input_open(struct gt_ckpt **out, const char *path, struct gt_err *err);

#endif
