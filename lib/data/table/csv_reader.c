/* csv_reader.c - rows of comma-separated fields out of memory. */
#include "lib/data/table/csv_reader.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

static const struct {
	const char *word;
	char separator;
} separators[] = { { "comma", ',' }, { "tab", '\t' }, { "semicolon", ';' }, { "bar", '|' } };

enum { SEPARATORS = sizeof(separators) / sizeof(*separators) };

char gt_csv_separator(const char *word)
{
	for (size_t i = 0; i < SEPARATORS; i++)
		if (!strcmp(word, separators[i].word) ||
		    (*word == separators[i].separator && !word[1]))
			return separators[i].separator;
	return 0;
}

/* The word for a separator, or NULL if the character is none. */
static const char *word_of(char separator)
{
	for (size_t i = 0; i < SEPARATORS; i++)
		if (separators[i].separator == separator)
			return separators[i].word;
	return NULL;
}

const char *gt_csv_guess_separator(const char *text)
{
	size_t counts[256] = { 0 };
	const char *best = NULL;

	for (const char *s = text; *s; s++)
		if (word_of(*s) &&
		    ++counts[(unsigned char)*s] > (best ? counts[(unsigned char)*best] : 0))
			best = s;
	return best ? word_of(*best) : NULL;
}

int gt_csv_hint_separator(const char *word, struct gt_err *err)
{
	return gt_err_hint(err, "if a %s separates the fields, add sep=%s", word, word);
}

static int too_long(const struct gt_csv_reader *r, int limit, const char *unit, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "line %ld: a row of more than %d %s", r->line, limit, unit);
	return gt_err_hint(err, "check that the file is CSV and that every quote is closed");
}

static int put(struct gt_csv_reader *r, const char *bytes, size_t size, struct gt_err *err)
{
	if (size > r->capacity - r->used)
		return too_long(r, GT_CSV_MAX_ROW_BYTES, "bytes", err);
	memcpy(r->text + r->used, bytes, size);
	r->used += size;
	return 0;
}

/* A tab that divides fields is not blank. */
static bool is_blank(const struct gt_csv_reader *r, char c)
{
	return (c == ' ' || c == '\t') && c != r->separator;
}

static void skip_blanks(struct gt_csv_reader *r)
{
	while (r->at < r->end && is_blank(r, *r->at))
		r->at++;
}

/* Where a line ends: the length of its end, 0 elsewhere. */
static int line_end(const struct gt_csv_reader *r)
{
	if (r->at == r->end)
		return 0;
	if (*r->at == '\r')
		return r->at + 1 < r->end && r->at[1] == '\n' ? 2 : 1;
	return *r->at == '\n';
}

static bool field_ends(const struct gt_csv_reader *r)
{
	return r->at == r->end || *r->at == r->separator || line_end(r);
}

/* Read from the opening quote to the end of the field. The character behind it may be the separator
 * of the file. */
static int read_quoted(struct gt_csv_reader *r, struct gt_err *err)
{
	const char *word = NULL;
	bool doubled = true;

	while (doubled) {
		const char *start = ++r->at;

		for (; r->at < r->end && *r->at != '"'; r->at++)
			r->next_line += line_end(r) == 1; /* CRLF counts once, at its LF */
		if (r->at == r->end)
			break;
		doubled = r->at + 1 < r->end && r->at[1] == '"';
		if (put(r, start, (size_t)(r->at - start) + doubled, err))
			return err->code;
		r->at += doubled;
	}
	if (r->at == r->end) {
		gt_err_set(err, GT_EFORMAT, "line %ld: a quote is never closed", r->line);
	} else {
		r->at++;
		skip_blanks(r);
		if (field_ends(r))
			return 0;
		word = word_of(*r->at);
		gt_err_set(err, GT_EFORMAT, "line %ld: field %zu goes on after its closing quote",
		    r->line, r->count);
	}
	return word ? gt_csv_hint_separator(word, err)
	            : gt_err_hint(err, "a quote inside a quoted field is written twice");
}

static int read_field(struct gt_csv_reader *r, struct gt_err *err)
{
	const char *start, *end;

	if (r->count == GT_CSV_MAX_FIELDS)
		return too_long(r, GT_CSV_MAX_FIELDS, "fields", err);
	if (gt_grow(&r->fields, r->count, &r->field_capacity, sizeof(*r->fields), err))
		return GT_ENOMEM;
	r->fields[r->count++] = r->text + r->used;
	skip_blanks(r);
	start = end = r->at;
	if (r->at < r->end && *r->at == '"') {
		if (read_quoted(r, err))
			return err->code;
	} else {
		while (!field_ends(r))
			r->at++;
		for (end = r->at; end > start && is_blank(r, end[-1]);)
			end--;
	}
	return put(r, start, (size_t)(end - start), err) ? err->code : put(r, "", 1, err);
}

static void skip_empty_lines(struct gt_csv_reader *r)
{
	for (;;) {
		const char *start = r->at;

		skip_blanks(r);
		if (!line_end(r)) {
			if (r->at < r->end)
				r->at = start;
			return;
		}
		r->at += line_end(r);
		r->next_line++;
	}
}

/*
 * Spaces and tabs around fields are removed. Fields in quotes keep separators, line breaks and
 * spaces; two quotes in a quoted field stand for one quote. Lines end in LF, CRLF or CR. Source:
 * RFC 4180, with two differences: in the RFC, spaces are part of a field, and CR alone does not end
 * a line.
 */
int gt_csv_next_row(struct gt_csv_reader *r, struct gt_err *err)
{
	size_t left = (size_t)(r->end - r->at) + 1;

	if (!r->text) { /* a field's zero takes the place of the character behind it */
		r->capacity = left < GT_CSV_MAX_ROW_BYTES ? left : GT_CSV_MAX_ROW_BYTES;
		r->text = gt_calloc(r->capacity, 1, err);
		if (!r->text)
			return GT_ENOMEM;
	}
	r->count = r->used = 0;
	skip_empty_lines(r);
	if (r->at == r->end)
		return 0;
	for (r->line = r->next_line;; r->at++) {
		if (read_field(r, err))
			return err->code;
		if (r->at == r->end || *r->at != r->separator)
			break;
	}
	r->next_line += line_end(r) > 0;
	r->at += line_end(r);
	return 1;
}

void gt_csv_reader_release(struct gt_csv_reader *r)
{
	free(r->fields);
	free(r->text);
	*r = (struct gt_csv_reader){ 0 };
}
