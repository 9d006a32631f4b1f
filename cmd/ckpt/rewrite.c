/* rewrite.c - options, output and report of the commands that write a checkpoint. */
#include "cmd/ckpt/rewrite.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/json_out.h"
#include "cmd/stop.h"
#include "lib/base/folder.h"
#include "lib/base/text.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/train/run/run_dir.h"

const char *const gt_ckpt_dtype_words[] = { "fp32", "fp16", "bf16", NULL };

const enum gt_dtype gt_ckpt_dtypes[] = { GT_F32, GT_F16, GT_BF16 };

/* Return whether a file is one that the run in this folder has written. */
static bool is_run_file(const char *folder, const char *path)
{
	struct gt_run_dir dir = { 0 };
	json_t *config = NULL;
	bool owned = !gt_run_dir_open(&dir, folder, GT_ERR_IGNORED) &&
	             !gt_run_dir_read_config(&config, &dir, GT_ERR_IGNORED) &&
	             gt_run_dir_is_config(config) && gt_run_dir_owns(&dir, path);

	json_decref(config);
	gt_run_dir_close(&dir);
	return owned;
}

/* Check that the output replaces no file of a run, in its directory or in checkpoints/ there. A
 * link is written through, so its target counts. */
static int check_run_file(const char *path, struct gt_err *err)
{
	char *real = realpath(path, NULL), *own, *above;
	int rc = 0, length;

	if (!real)
		return 0;
	length = (int)(strrchr(real, '/') - real) + 1;
	own = gt_asprintf(err, "%.*s.", length, real);
	above = own ? gt_asprintf(err, "%.*s..", length, real) : NULL;
	if (!above)
		rc = GT_ENOMEM;
	else if (is_run_file(own, real) || is_run_file(above, real)) {
		gt_err_set(err, GT_EINVAL,
		    "--output: '%.200s' would be written over: it is a file of a run", path);
		rc = gt_err_hint(err, "name another file");
	}
	free(above);
	free(own);
	free(real);
	return rc;
}

/* Check that the output is neither one of the operands, before these are read, nor a file of
 * tensors with the name of an index, nor a file of a run. */
static int check_output(
    const struct gt_ckpt_rewrite *r, const struct gt_cmd_env *env, struct gt_err *err)
{
	static const char index[] = ".index.json";
	const struct gt_ckpt_target_cli *target = r->target;
	size_t n = strlen(target->output), k = sizeof(index) - 1;

	if (n > k && !strcasecmp(target->output + n - k, index) && !target->shard_bytes) {
		gt_err_set(err, GT_EINVAL,
		    "--output: '%s' is the ending of an index of shards, and there are none",
		    index);
		return gt_err_hint(err, "-o model.safetensors, or --shard-size 5G");
	}
	for (int i = 0; i < env->opts.operand_count; i++) {
		if (!gt_file_is_same(env->opts.operands[i], target->output))
			continue;
		gt_err_set(err, GT_EINVAL, "--output: '%.200s' is the input", target->output);
		return gt_err_hint(err, "name another file");
	}
	return check_run_file(target->output, err);
}

const struct gt_ckpt_model_format gt_ckpt_model_formats[] = {
	{ "hf", "hf", NULL, gt_export_hugging_face },
	{ "pt2", "torch-export", ".pt2", gt_export_network },
	{ "onnx", "onnx", ".onnx", gt_export_onnx },
	{ "gguf", "gguf", ".gguf", gt_export_gguf },
	{ 0 },
};

const struct gt_ckpt_model_format *gt_ckpt_model_format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	for (const struct gt_ckpt_model_format *row = gt_ckpt_model_formats; dot && row->word;
	     row++)
		if (row->ending && !strcasecmp(dot, row->ending))
			return row;
	return NULL;
}

/* --to wins over the ending; later readers of the file may go by its ending. */
static void warn_ending(const struct gt_ckpt_rewrite *r, struct gt_log *log)
{
	struct gt_err unknown = GT_ERR_INIT;
	const struct gt_ckpt_model_format *model = gt_ckpt_model_format_of(r->target->output);
	const char *ending = model ? model->format : NULL;

	if (!model && gt_convert_format(&ending, NULL, r->target->output, &unknown))
		return;
	if (!strcmp(ending, r->format) ||
	    (!strcmp(ending, "torch-zip") && !strcmp(r->format, "torch-legacy")))
		return;
	gt_log_warn(log, "'%s' is written as %s: its ending is that of %s", r->target->output,
	    r->format, ending);
}

/* The hint lists the formats of this command: convert also writes Hugging Face's folders. */
static int find_format(
    struct gt_ckpt_rewrite *r, const char *to, const struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_opt *row = gt_opt_find(env->opts.table, "to", strlen("to"));
	char formats[80];

	if (!gt_convert_format(&r->format, to, r->target->output, err))
		return 0;
	gt_opt_join_words(formats, sizeof(formats), row->words);
	return gt_err_hint(err, "name the format with --to: %s", formats);
}

int gt_ckpt_target_check(struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = r->target;
	int rc = gt_cmd_find_ckpts(env, err);

	if (!rc && !r->format)
		rc = find_format(r, target->to < 0 ? NULL : gt_convert_words[target->to], env, err);
	if (!rc)
		rc = check_output(r, env, err);
	if (!rc && target->to >= 0)
		warn_ending(r, &env->log);
	return rc;
}

int gt_ckpt_input_open(
    struct gt_ckpt **out, const char *path, struct gt_cmd_env *env, struct gt_err *err)
{
	int rc = gt_ckpt_open(out, path, err);

	if (rc)
		return rc;
	rc = gt_digest_check(*out, true, &env->progress, err);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

static char *first_line(struct gt_buf *note, char **rest)
{
	return note->text ? strtok_r(note->text, "\n", rest) : NULL;
}

/* The bytes of a file, or of the weights in a folder; false: they are not known. */
static bool measure_ckpt_bytes(uint64_t *bytes, const char *path)
{
	struct gt_ckpt *ckpt;
	struct stat st;
	uint64_t dead;
	int rc;

	if (stat(path, &st))
		return false;
	*bytes = (uint64_t)st.st_size;
	if (!S_ISDIR(st.st_mode))
		return true;
	if (gt_ckpt_open(&ckpt, path, GT_ERR_IGNORED))
		return false;
	rc = gt_ckpt_file_usage(ckpt, bytes, &dead, GT_ERR_IGNORED);
	gt_ckpt_close(ckpt);
	return !rc;
}

static void report_text(struct gt_ckpt_rewrite *r, const char *path, bool whole,
    const struct gt_tally *t, struct gt_log *log)
{
	char text[GT_TEXT_SIZE], *rest;
	const char *format = r->format;
	uint64_t bytes;

	for (char *line = first_line(&r->note, &rest); line; line = strtok_r(NULL, "\n", &rest))
		gt_log_info(log, "%s", line);
	if (!whole || !measure_ckpt_bytes(&bytes, path)) /* an index says nothing of their size */
		gt_log_info(log, "%s: %" PRIu64 " tensor%s, %s%s", path, t->tensors,
		    t->tensors == 1 ? "" : "s", whole ? "" : "in shards of ", format);
	else
		gt_log_info(log, "%s: %" PRIu64 " tensor%s, %s, %s", path, t->tensors,
		    t->tensors == 1 ? "" : "s", gt_text_bytes(text, bytes), format);
}

json_t *gt_ckpt_json_text(const char *name)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *json = NULL;

	if (!out)
		return NULL;
	gt_json_text(out, name);
	if (!fclose(out))
		json = json_loadb(text, size, JSON_DECODE_ANY, NULL);
	free(text);
	return json;
}

static int report_json(
    struct gt_ckpt_rewrite *r, const char *path, const struct gt_tally *t, struct gt_err *err)
{
	json_t *notes = json_array(), *document;
	char *rest;
	int rc = 0;

	for (char *line = first_line(&r->note, &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (json_array_append_new(notes, gt_ckpt_json_text(line)))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the report");
	if (rc) {
		json_decref(notes);
		return rc;
	}
	document = json_pack("{s:o, s:s, s:I, s:I, s:o}", "output", gt_ckpt_json_text(path),
	    "format", r->format, "tensors", (json_int_t)t->tensors, "tensor_bytes",
	    (json_int_t)t->storage_bytes, "notes", notes);
	return gt_cmd_print_json(document, JSON_COMPACT, err);
}

int gt_ckpt_target_report(struct gt_ckpt_rewrite *r, const char *path, bool whole,
    const struct gt_tally *t, struct gt_cmd_env *env, struct gt_err *err)
{
	if (r->json)
		return report_json(r, path, t, err);
	report_text(r, path, whole, t, &env->log);
	return 0;
}

static int write_out(const char *path, const char *format, const struct gt_tree *tree,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = gt_ckpt_write(path, format, tree, options, err);
	gt_stop_release(&stop);
	return rc;
}

void gt_ckpt_target_report_losses(
    struct gt_ckpt_rewrite *r, const struct gt_ckpt_write_losses *losses, struct gt_log *log)
{
	const int dtype = r->target->dtype;
	char line[160];

	snprintf(line, sizeof(line),
	    "%llu finite value%s in %zu tensor%s became infinite: %s does not reach so far",
	    (unsigned long long)losses->values, losses->values == 1 ? "" : "s", losses->tensors,
	    losses->tensors == 1 ? "" : "s",
	    dtype >= 0 ? gt_ckpt_dtype_words[dtype] : "fp16"); /* --type of GGUF */
	if (r->json)
		gt_buf_printf(&r->note, "%s\n", line);
	else
		gt_log_warn(log, "%s", line);
}

int gt_ckpt_target_write(
    struct gt_ckpt_rewrite *r, struct gt_tree *root, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = r->target;
	struct gt_ckpt_write_losses losses = { 0 };
	char *index = NULL;
	const struct gt_ckpt_write_options options = {
		.index = &index,
		.cast = target->dtype >= 0,
		.dtype = target->dtype >= 0 ? gt_ckpt_dtypes[target->dtype] : GT_F32,
		.keep_devices = true,
		.no_sync = !target->sync,
		.shard_bytes = (uint64_t)target->shard_bytes,
		.inputs = r->inputs,
		.input_count = r->input_count,
		.losses = &losses,
		.progress = &env->progress,
	};
	struct gt_tally tally;
	struct gt_arena arena = { 0 };
	struct gt_tree *tree;
	int rc = gt_convert_tree(&tree, root, r->format, r->weights_only, &arena, &r->note, err);

	if (!rc)
		rc = gt_buf_check(&r->note, err);
	if (!rc)
		rc = gt_tally_make(&tally, tree, err);
	if (!rc)
		rc = write_out(target->output, r->format, tree, &options, err);
	if (!rc && losses.values)
		gt_ckpt_target_report_losses(r, &losses, &env->log);
	if (!rc)
		rc = gt_ckpt_target_report(
		    r, index ? index : target->output, !index, &tally, env, err);
	free(index);
	gt_arena_release(&arena);
	return rc;
}
