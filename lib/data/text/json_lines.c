/* json_lines.c - files of JSON lines. */
#include "lib/data/text/json_lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/python_json.h"
#include "lib/base/text.h"

/* The parser takes some 20 times the size of a line. */
enum { MAX_LINE = 16 << 20 };

static bool is_blank(const char *text, size_t size)
{
	while (size && strchr(" \t\r", *text) && *text) {
		text++;
		size--;
	}
	return !size;
}

static int find_lines(struct gt_json_lines *l, size_t file, struct gt_err *err)
{
	const char *at = (const char *)l->maps[file].data, *end = at + l->maps[file].size;
	struct gt_json_line line = { .file = file };
	int rc = 0;

	if (end - at >= 3 && !memcmp(at, "\xEF\xBB\xBF", 3))
		at += 3;
	for (; !rc && at < end; at = line.text + line.size + 1) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		line.text = at;
		line.size = (size_t)((stop ? stop : end) - at);
		line.number++;
		if (is_blank(line.text, line.size))
			continue;
		rc = gt_grow(&l->lines, l->count, &l->capacity, sizeof(line), err);
		if (rc)
			return rc;
		l->lines[l->count++] = line;
		if (line.size > MAX_LINE) {
			gt_err_set(err, GT_EFORMAT, "%zu bytes in a line, more than %d", line.size,
			    MAX_LINE);
			rc = gt_json_lines_locate(l, l->count - 1, err);
		}
	}
	return rc;
}

int gt_json_lines_open(struct gt_json_lines *out, const char *path, struct gt_err *err)
{
	struct stat st;
	int rc;

	*out = (struct gt_json_lines){ 0 };
	rc = !stat(path, &st) && S_ISDIR(st.st_mode)
	         ? gt_shard_names_in(&out->files, path, ".jsonl", err)
	         : gt_shard_names(&out->files, path, err);
	if (rc)
		return rc;
	out->maps = gt_calloc(out->files.count, sizeof(*out->maps), err);
	if (!out->maps)
		return GT_ENOMEM;
	for (size_t i = 0; i < out->files.count; i++)
		out->maps[i].fd = -1;
	for (size_t i = 0; !rc && i < out->files.count; i++) {
		rc = gt_map(&out->maps[i], out->files.names[i], err);
		if (!rc && out->maps[i].size)
			rc = find_lines(out, i, err);
	}
	if (!rc && !out->count)
		rc = gt_err_set(err, GT_EFORMAT, "'%s' has no lines", path);
	return rc;
}

void gt_json_lines_release(struct gt_json_lines *l)
{
	for (size_t i = 0; l->maps && i < l->files.count; i++)
		gt_unmap(&l->maps[i]);
	free(l->maps);
	free(l->lines);
	gt_shard_names_release(&l->files);
	*l = (struct gt_json_lines){ 0 };
}

int gt_json_lines_locate(const struct gt_json_lines *l, size_t i, struct gt_err *err)
{
	return gt_err_prefix(
	    err, "'%s' line %ld", l->files.names[l->lines[i].file], l->lines[i].number);
}

/* Say how a file becomes JSON lines, if it shows what it is. */
static void hint_form(const char *text, const char *path, struct gt_err *err)
{
	if (*text == '[')
		gt_err_hint(err, "write each row on a line of its own: jq -c '.[]' FILE");
	else if (gt_text_ends_with(path, ".csv") || gt_text_ends_with(path, ".tsv"))
		gt_err_hint(err,
		    "convert the table: python3 -c \"import pandas; pandas.read_csv('%s', sep=%s)"
		    "." GT_PANDAS_TO_JSON_LINES "\"",
		    path, gt_text_ends_with(path, ".csv") ? "','" : "'\\t'");
}

int gt_json_lines_parse(json_t **out, const struct gt_json_lines *l, size_t i, struct gt_err *err)
{
	const struct gt_json_line *line = &l->lines[i];
	json_error_t where;

	*out = gt_python_json_loadb(line->text, line->size, JSON_ALLOW_NUL, &where);
	if (json_is_object(*out))
		return 0;
	if (*out) {
		gt_err_set(err, GT_EFORMAT, "the line is not an object");
	} else {
		gt_err_set(
		    err, GT_EFORMAT, "not JSON: column %d: %.120s", where.column, where.text);
	}
	hint_form(line->text, l->files.names[line->file], err);
	json_decref(*out);
	*out = NULL;
	return gt_json_lines_locate(l, i, err);
}

int gt_json_lines_text(
    const char **text, size_t *size, const json_t *row, const char *field, struct gt_err *err)
{
	const json_t *member = json_object_get(row, field);

	*text = json_string_value(member);
	*size = json_string_length(member);
	if (*text)
		return 0;
	gt_err_set(err, GT_EFORMAT, "the row has no text '%.60s'", field);
	if (json_object_get(row, "messages") || json_object_get(row, "conversations"))
		gt_err_hint(err, "conversations are data of the kind chat");
	return err->code;
}
