/* ckpt_rewrite.c - what the commands that write a checkpoint share. */
#include "cmd/ckpt_rewrite.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/json_out.h"
#include "cmd/stop.h"
#include "lib/base/text.h"
#include "lib/ckpt/digest.h"
#include "lib/ckpt/tally.h"

const char *const gt_ckpt_dtype_words[] = { "fp32", "fp16", "bf16", NULL };

static const enum gt_dtype dtypes[] = { GT_F32, GT_F16, GT_BF16 };

int gt_ckpt_target_check(const struct gt_ckpt_target_cli *target, const char **format,
    char *const *inputs, int input_count, struct gt_err *err)
{
	const char *to = target->to < 0 ? NULL : gt_convert_words[target->to];
	struct stat in, out;
	int rc = gt_convert_format(format, to, target->output, err);

	if (rc || stat(target->output, &out))
		return rc;
	for (int i = 0; i < input_count; i++) {
		if (stat(inputs[i], &in) || in.st_dev != out.st_dev || in.st_ino != out.st_ino)
			continue;
		gt_err_set(err, GT_EINVAL, "--output: '%.200s' is the input", target->output);
		return gt_err_hint(err, "name another file");
	}
	return 0;
}

int gt_ckpt_input_open(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	int rc = gt_ckpt_open(out, path, err);

	if (rc)
		return rc;
	rc = gt_digest_check(*out, true, err);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

static char *first_line(struct gt_note *note, char **rest)
{
	return note->text ? strtok_r(note->text, "\n", rest) : NULL;
}

static void report_text(const char *path, bool shards, const struct gt_tally *t, const char *format,
    struct gt_note *note, struct gt_log *log)
{
	char bytes[GT_TEXT_SIZE], *rest;
	struct stat st;

	for (char *line = first_line(note, &rest); line; line = strtok_r(NULL, "\n", &rest))
		gt_log_info(log, "%s", line);
	if (shards || stat(path, &st)) /* the index says nothing of their size */
		gt_log_info(log, "%s: %" PRIu64 " tensor%s, %s%s", path, t->tensors,
		    t->tensors == 1 ? "" : "s", shards ? "in shards of " : "", format);
	else
		gt_log_info(log, "%s: %" PRIu64 " tensor%s, %s, %s", path, t->tensors,
		    t->tensors == 1 ? "" : "s", gt_text_bytes(bytes, (uint64_t)st.st_size), format);
}

/* Names in a line need not be UTF-8; NULL: out of memory. */
static json_t *line_json(const char *line)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *json = NULL;

	if (!out)
		return NULL;
	gt_json_text(out, line);
	if (!fclose(out))
		json = json_loadb(text, size, JSON_DECODE_ANY, NULL);
	free(text);
	return json;
}

static int report_json(const char *path, const struct gt_tally *t, const char *format,
    struct gt_note *note, struct gt_err *err)
{
	json_t *notes = json_array(), *document;
	char *rest;
	int rc = 0;

	for (char *line = first_line(note, &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (json_array_append_new(notes, line_json(line)))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the report");
	if (rc) {
		json_decref(notes);
		return rc;
	}
	document = json_pack("{s:s, s:s, s:I, s:I, s:o}", "output", path, "format", format,
	    "tensors", (json_int_t)t->tensors, "tensor_bytes", (json_int_t)t->storage_bytes,
	    "notes", notes);
	return gt_cmd_print_json(document, JSON_COMPACT, err);
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

int gt_ckpt_target_write(const struct gt_ckpt_target_cli *target, const char *format,
    struct gt_tree *root, struct gt_note *note, struct gt_cmd_env *env, bool json,
    struct gt_err *err)
{
	char *index = NULL;
	const struct gt_ckpt_write_options options = {
		.index = &index,
		.cast = target->dtype >= 0,
		.dtype = target->dtype >= 0 ? dtypes[target->dtype] : GT_F32,
		.keep_devices = true,
		.no_sync = !target->sync,
		.shard_bytes = (uint64_t)target->shard_bytes,
	};
	struct gt_tally tally;
	struct gt_arena arena = { 0 };
	struct gt_tree *tree;
	int rc = gt_convert_tree(&tree, root, format, &arena, note, err);

	if (!rc)
		rc = gt_note_check(note, err);
	if (!rc)
		rc = gt_tally_make(&tally, tree, err);
	if (!rc)
		rc = write_out(target->output, format, tree, &options, err);
	if (!rc && json)
		rc = report_json(index ? index : target->output, &tally, format, note, err);
	else if (!rc)
		report_text(
		    index ? index : target->output, index != NULL, &tally, format, note, &env->log);
	free(index);
	gt_arena_release(&arena);
	return rc;
}
