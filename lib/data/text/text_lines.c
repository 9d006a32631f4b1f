/* text_lines.c - lines of text as samples: which token follows each of them? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/data/core/source.h"
#include "lib/data/text/tokenizer.h"

/*
 * A sample is a line without its end, as its tokens [length], behind the token that begins texts
 * where there is one. Of a line that is longer than the model's block, the last tokens are taken.
 * All samples have the block of the longest: zeros fill the others, and the target is the position
 * of the last token. Lines of blanks alone are skipped.
 */
enum { MAX_STDIN_BYTES = 1 << 30 };

struct line {
	int32_t *ids; /* [length] */
	int length;
	const char *name; /* "FILE:LINE" */
};

struct lines {
	struct gt_source source;
	struct gt_tokenizer *tok;
	int32_t begin; /* token before each line; -1: none */
	struct line *lines;
	size_t count, capacity;
};

static int read_line(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct line *line = &((const struct lines *)self)->lines[index];
	size_t bytes = (size_t)line->length * sizeof(*line->ids);

	(void)part;
	(void)draw;
	(void)err;
	memcpy(input, line->ids, bytes);
	memset((char *)input + bytes, 0, self->info.input_bytes - bytes);
	*target = line->length - 1;
	return 0;
}

static const char *line_name(const struct gt_source *self, int64_t index)
{
	return ((const struct lines *)self)->lines[index].name;
}

static const struct gt_tokenizer *lines_tokenizer(const struct gt_source *self)
{
	return ((const struct lines *)self)->tok;
}

static void close_lines(struct gt_source *self)
{
	struct lines *l = (struct lines *)self;

	for (size_t i = 0; i < l->count; i++)
		free(l->lines[i].ids);
	free(l->lines);
	gt_tokenizer_close(l->tok);
	gt_arena_release(&self->names);
	free(l);
}

static const struct gt_source_ops lines_ops = {
	.read = read_line, .name = line_name, .tokenizer = lines_tokenizer, .close = close_lines
};

/* ---- opening ---- */

/* The last tokens of begin, ids [count], as many as the block holds, in memory of their own. */
static int keep_ids(
    struct lines *l, struct line *line, const int32_t *ids, size_t count, struct gt_err *err)
{
	size_t block = (size_t)l->source.info.form.block, first = l->begin >= 0;
	size_t whole = count + first, kept = whole < block ? whole : block;

	if (!whole)
		return gt_err_set(err, GT_EFORMAT, "the line has no tokens");
	line->ids = gt_calloc(kept, sizeof(*line->ids), err);
	if (!line->ids)
		return GT_ENOMEM;
	for (size_t i = 0; i < kept; i++) {
		size_t at = whole - kept + i;

		line->ids[i] = at < first ? l->begin : ids[at - first];
	}
	line->length = (int)kept;
	return 0;
}

static int add_line(struct lines *l, const char *path, long number, const char *text, size_t length,
    struct gt_err *err)
{
	char *name = gt_asprintf(err, "%s:%ld", path, number);
	struct line line = { .name = name ? gt_arena_strdup(&l->source.names, name, err) : NULL };
	int32_t *ids = NULL;
	size_t count = 0;
	int rc =
	    line.name ? gt_grow(&l->lines, l->count, &l->capacity, sizeof(line), err) : GT_ENOMEM;

	free(name);
	if (!rc)
		rc = gt_tokenizer_encode(l->tok, text, length, &ids, &count, err);
	if (!rc)
		rc = keep_ids(l, &line, ids, count, err);
	free(ids);
	if (!rc)
		l->lines[l->count++] = line;
	return rc ? gt_err_prefix(err, "line %ld", number) : 0;
}

static bool is_blank(const char *text, size_t length)
{
	while (length && strchr(" \t\r", text[length - 1]) && text[length - 1])
		length--;
	return !length;
}

static int add_lines(
    struct lines *l, const char *path, const char *text, size_t size, struct gt_err *err)
{
	size_t before = l->count;
	int rc = 0;

	for (long number = 1; !rc && size; number++) {
		const char *end = memchr(text, '\n', size);
		size_t length = end ? (size_t)(end - text) : size, step = length + (end != NULL);

		if (!is_blank(text, length))
			rc = add_line(
			    l, path, number, text, length - (text[length - 1] == '\r'), err);
		text += step;
		size -= step;
	}
	if (!rc && l->count == before) {
		gt_err_set(err, GT_EFORMAT, "there are no lines with text");
		rc = gt_err_hint(err, "each line is asked about on its own");
	}
	return rc;
}

static int add_file(struct lines *l, const char *path, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map(&map, path, err);

	if (rc)
		return rc;
	rc = add_lines(l, path, (const char *)map.data, map.size, err);
	gt_unmap(&map);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

static int add_stdin(struct lines *l, struct gt_err *err)
{
	void *text = NULL;
	size_t size;
	int rc = gt_read_to_end(&text, &size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	if (!rc)
		rc = add_lines(l, "-", text, size, err);
	free(text);
	return rc ? gt_err_prefix(err, "standard input") : 0;
}

static int check_begin(const struct lines *l, struct gt_err *err)
{
	if (l->begin < gt_tokenizer_size(l->tok))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the token %d, which begins texts, is not in the vocabulary", l->begin);
}

/* All have the length of the longest, or that which the model takes. */
static void complete(struct lines *l, bool fixed_size)
{
	struct gt_data_info *info = &l->source.info;

	if (!fixed_size)
		info->form.block = 0;
	for (size_t i = 0; i < l->count; i++)
		if (l->lines[i].length > info->form.block)
			info->form.block = l->lines[i].length;
	info->samples = l->source.length = (int64_t)l->count;
	info->input_bytes = (size_t)info->form.block * sizeof(int32_t);
}

int gt_text_open_lines(struct gt_source **out, struct gt_tokenizer *tok,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct lines *l = gt_calloc(1, sizeof(*l), err);
	int rc = 0;

	if (!l) {
		gt_tokenizer_close(tok);
		return GT_ENOMEM;
	}
	l->source.ops = &lines_ops;
	l->tok = tok;
	l->source.unlabelled = true;
	if (!tok) {
		gt_err_set(err, GT_EINVAL, "there is no tokenizer or vocabulary to read text by");
		rc = gt_err_hint(err, "models that were trained on ids of tokens have none");
	} else {
		l->source.info = (struct gt_data_info){ .form = { .kind = GT_SAMPLE_TOKENS,
			                                    .block = request->form.block,
			                                    .classes = gt_tokenizer_size(tok) },
			.targets = 1 };
		l->begin = request->like ? gt_data_begin(&request->like->specials, tok)
		                         : gt_tokenizer_begin(tok);
		rc = check_begin(l, err);
	}
	for (int i = 0; !rc && i < request->input_count; i++) {
		const char *path = request->inputs[i];

		rc = strcmp(path, "-") ? add_file(l, path, err) : add_stdin(l, err);
	}
	if (rc) {
		close_lines(&l->source);
		return rc;
	}
	complete(l, request->fixed_size);
	*out = &l->source;
	return 0;
}
