/* rewrite.h - the output of `gtrain ckpt convert`, merge and select: options, writing, report. */
#ifndef GT_CMD_CKPT_REWRITE_H
#define GT_CMD_CKPT_REWRITE_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/convert.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/train/checkpoint/export.h"

/* Options for the output. The commands convert, merge and select have them in common. */
struct gt_ckpt_target_cli {
	const char *output;  /* path */
	int to;              /* index into gt_convert_words; -1: by the ending of `output` */
	int dtype;           /* index into gt_ckpt_dtypes; -1: unchanged */
	int64_t shard_bytes; /* maximum bytes of tensors per output file; 0: write one file */
	bool sync;           /* wait until the output is on the disk */
};

/* the words of --dtype, ended by NULL */
extern const char *const gt_ckpt_dtype_words[];

/* Rows for an option table. `cli_type` has a member `struct gt_ckpt_target_cli target`. `formats`
 * are the words of --to, and `more` is added to its help. */
/* clang-format off */
#define GT_CKPT_TARGET(cli_type, formats, more) \
	{ .type = GT_OPT_HEADING, .help = "What to write" }, \
	{ "output", 'o', GT_OPT_STRING, GT_OPT_FIELD(cli_type, target.output), "OUT", \
	    "the file to write", .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED }, \
	{ "to", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, target.to), "FORMAT", \
	    "format: pth, legacy (before PyTorch 1.6), safetensors, npz, dcp (a folder, PyTorch's " \
	    "distributed checkpoint)" more, .words = formats, \
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

/* the types that gt_ckpt_dtype_words stand for, in the same order */
extern const enum gt_dtype gt_ckpt_dtypes[];

/* The state of a command that writes a checkpoint. */
struct gt_ckpt_rewrite {
	const struct gt_ckpt_target_cli *target;
	/* name of the output's format; gt_ckpt_target_check() sets it, unless it is set */
	const char *format;
	struct gt_ckpt *const *inputs; /* [input_count] open checkpoints */
	size_t input_count;
	bool weights_only;  /* leave out objects that torch.load(weights_only=True) refuses */
	struct gt_buf note; /* text for the report: changes to the checkpoint, one per line */
	bool json;          /* report as a JSON document */
};

/* A format of models, which only `convert` writes: its operand is a run, or a checkpoint that names
 * its model. */
struct gt_ckpt_model_format {
	const char *word;   /* the value of --to */
	const char *format; /* the name in reports */
	/* Files with this ending have types of their own, so --dtype and --shard-size have no
	 * meaning. NULL: the format is a folder. */
	const char *ending;
	int (*write)(const struct gt_export_options *options, struct gt_tally *tally,
	    struct gt_buf *note, struct gt_err *err);
};

/* All formats of models; ended by a row without a word. */
extern const struct gt_ckpt_model_format gt_ckpt_model_formats[];

/* Return the format that the ending of a path means; NULL: none of models. */
const struct gt_ckpt_model_format *gt_ckpt_model_format_of(const char *path);

/* Check the operands and the output before any file is read, set r->format, and replace operands
 * that are run directories by their latest checkpoints. GT_EINVAL: the format is not known, the
 * output is an operand, or it has the name of an index without --shard-size. */
int gt_ckpt_target_check(struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err);

/* Write `root` to the output, and report the result: r->note and one line in the log, or with
 * r->json one JSON document. */
int gt_ckpt_target_write(
    struct gt_ckpt_rewrite *r, struct gt_tree *root, struct gt_cmd_env *env, struct gt_err *err);

/* Report the result alone. If `whole`, `path` is one file or folder; else it is the index of
 * shards. */
int gt_ckpt_target_report(struct gt_ckpt_rewrite *r, const char *path, bool whole,
    const struct gt_tally *t, struct gt_cmd_env *env, struct gt_err *err);

/* Report how many finite values became infinite in a cast: a warning, or with r->json in
 * r->note. */
void gt_ckpt_target_report_losses(
    struct gt_ckpt_rewrite *r, const struct gt_ckpt_write_losses *losses, struct gt_log *log);

/* Return a path or a name, which need not be UTF-8, as a string of JSON; NULL: out of memory. */
json_t *gt_ckpt_json_text(const char *name);

/* Open an input and check its tensors' digests, as new digests would hide damage. Close *out with
 * gt_ckpt_close(), also after an error. */
int gt_ckpt_input_open(
    struct gt_ckpt **out, const char *path, struct gt_cmd_env *env, struct gt_err *err);

#endif
