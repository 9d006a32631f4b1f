/* json_lines.h - private: files of JSON lines. */
#ifndef GT_DATA_TEXT_JSON_LINES_H
#define GT_DATA_TEXT_JSON_LINES_H

#include <jansson.h>

#include "lib/base/file.h"
#include "lib/data/core/shard_names.h"

/* The call of pandas that writes a table as JSON lines. */
#define GT_PANDAS_TO_JSON_LINES "to_json('data.jsonl', orient='records', lines=True)"

/* Files with a JSON object on each line, mapped. Blank lines are left out. */
struct gt_json_line {
	const char *text; /* [size] */
	size_t size;
	size_t file; /* index of its file */
	long number; /* from 1 on */
};

struct gt_json_lines {
	struct gt_shard_names files;
	struct gt_mapping *maps;    /* [files.count] */
	struct gt_json_line *lines; /* [count] */
	size_t count, capacity;
};

/* Open a file, the .jsonl files of a folder, or those that match a pattern, and find the lines.
 * Release *out, also after an error. Errors: GT_EIO; GT_EFORMAT if there are no lines, or a line is
 * longer than 16 MiB; GT_EINVAL. */
int gt_json_lines_open(struct gt_json_lines *out, const char *path, struct gt_err *err);
void gt_json_lines_release(struct gt_json_lines *l);

/* Parse line `i`, an object, for json_decref(). Errors: GT_EFORMAT. */
int gt_json_lines_parse(json_t **out, const struct gt_json_lines *l, size_t i, struct gt_err *err);
/* Set *text [*size] to the member `field` of a row, borrowed. Errors: GT_EFORMAT if there is no
 * such text. */
int gt_json_lines_text(
    const char **text, size_t *size, const json_t *row, const char *field, struct gt_err *err);
/* Put file and line before the text of an error. Return its code. */
int gt_json_lines_locate(const struct gt_json_lines *l, size_t i, struct gt_err *err);

#endif
