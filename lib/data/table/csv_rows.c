/* csv_rows.c - the two passes over the text of a table: a survey, and rows that become cells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/byte_stream.h"
#include "lib/data/table/csv.h"

static struct gt_csv_reader open_reader(const struct gt_csv_table *t)
{
	return (struct gt_csv_reader){ .separator = t->separator,
		.at = t->text.at,
		.end = t->text.at + t->text.size,
		.next_line = 1 };
}

/* ---- the survey ---- */

enum { DECIMAL_ROWS = 1000 };

/* What the survey has seen. */
struct survey {
	size_t rows, open; /* open: fields without a value behind the first row */
	long line;         /* the first row is on this line */
	bool point, comma; /* there are numbers with a decimal point, or with a decimal comma */
};

/* Keep all texts of the first two rows, and the first value of each field behind the first row. */
static int survey_row(
    struct gt_csv_table *t, struct survey *s, const struct gt_csv_reader *r, struct gt_err *err)
{
	for (size_t i = 0; i < r->count && (s->open || !s->rows); i++) {
		struct gt_csv_field *f = &t->fields[i];
		bool first = s->rows && !f->first && !gt_csv_is_missing(r->fields[i], true);
		const char *text = NULL;

		if (s->rows < 2 || first) {
			text = gt_arena_strdup(&t->arena, r->fields[i], err);
			if (!text)
				return GT_ENOMEM;
		}
		if (s->rows < 2)
			*(s->rows ? &f->second : &f->head) = text;
		if (first) {
			f->first = text;
			f->line = r->line;
			s->open--;
		}
	}
	return 0;
}

static int start_fields(
    struct gt_csv_table *t, struct survey *s, const struct gt_csv_reader *r, struct gt_err *err)
{
	s->line = r->line;
	s->open = t->field_count = r->count;
	t->fields = gt_arena_alloc(&t->arena, r->count * sizeof(*t->fields), err);
	for (size_t i = 0; t->fields && i < r->count; i++)
		t->fields[i].index.compare = gt_index_by_name;
	return t->fields ? 0 : GT_ENOMEM;
}

static int survey_rows(struct gt_csv_table *t, struct survey *s, struct gt_err *err)
{
	struct gt_csv_reader r = open_reader(t);
	int rc = 0;

	while ((s->open || s->rows < DECIMAL_ROWS) && (rc = gt_csv_next_row(&r, err)) > 0) {
		for (size_t i = 0; i < r.count && s->rows < DECIMAL_ROWS; i++)
			gt_csv_note_decimal(r.fields[i], &s->point, &s->comma);
		rc = s->rows ? 0 : start_fields(t, s, &r, err);
		if (!rc && r.count == t->field_count)
			rc = survey_row(t, s, &r, err);
		if (rc)
			break;
		s->rows++;
	}
	gt_csv_reader_release(&r);
	return rc < 0 ? rc : 0;
}

/* A header is a first row without a number where the second row has one, and with a name at least
 * once. So a first row with one bad field among numbers is an error, not a header. */
static bool is_header(const struct gt_csv_table *t)
{
	bool name = false;
	double value;

	for (size_t i = 0; i < t->field_count; i++) {
		const struct gt_csv_field *f = &t->fields[i];

		if (!f->second || gt_csv_parse(f->second, t->decimal, &value) < GT_CSV_BEYOND)
			continue;
		if (gt_csv_parse(f->head, t->decimal, &value) >= GT_CSV_BEYOND)
			return false;
		name |= gt_csv_is_name(f->head, t->decimal);
	}
	return name;
}

/* Find the number of fields, the decimal point or comma, whether there is a header, and the first
 * value of each field. A decimal comma needs numbers with one, and no number with a point. */
static int survey_table(struct gt_csv_table *t, struct gt_err *err)
{
	char trained = t->request->like ? t->request->like->dialect.decimal : 0;
	struct survey s = { .open = 1 };
	int rc = survey_rows(t, &s, err);

	if (rc)
		return rc;
	t->decimal = t->given_decimal     ? t->given_decimal
	             : s.comma != s.point ? (s.comma ? ',' : '.')
	             : trained            ? trained
	                                  : '.';
	t->named = t->header == GT_CSV_HEADER_YES;
	if (t->header == GT_CSV_HEADER_AUTO)
		t->named = gt_csv_names_are_known(t) || is_header(t);
	if (s.rows <= t->named) {
		gt_err_set(
		    err, GT_EFORMAT, "there are no rows%s", s.rows ? " behind the header" : "");
		return gt_err_hint(err, "a table has one row of fields for each sample");
	}
	for (size_t i = 0; i < t->field_count && !t->named; i++)
		if (!gt_csv_is_missing(t->fields[i].head, true)) {
			t->fields[i].first = t->fields[i].head;
			t->fields[i].line = s.line;
		}
	return 0;
}

/* ---- rows ---- */

/* Allocate memory for another row within the limit: arrays double, and exist twice meanwhile. */
static int grow_table(struct gt_csv_table *t, struct gt_err *err)
{
	size_t cells = t->csv->width * sizeof(*t->csv->cells);
	int rc = gt_data_check_memory(t->request,
	    3 * (uint64_t)(cells + sizeof(*t->lines)) * t->rows + t->csv->source.names.used,
	    "the table", err);

	if (!rc)
		rc = gt_grow(&t->csv->cells, t->rows, &t->cell_capacity, cells, err);
	return rc ? rc : gt_grow(&t->lines, t->rows, &t->line_capacity, sizeof(*t->lines), err);
}

/* Whether a row is left out, because a value that is used is missing. */
static bool is_dropped(const struct gt_csv_table *t, const struct gt_csv_reader *r)
{
	bool dropped = false;

	if (t->csv->source.missing != GT_DATA_MISSING_DROP || t->request->inputs)
		return false;
	for (size_t i = 0; i < t->field_count && !dropped; i++)
		dropped = t->fields[i].role >= GT_CSV_FEATURE &&
		          gt_csv_is_missing(r->fields[i], !t->fields[i].has_words);
	return dropped;
}

static int add_row(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	double *cells;
	int rc;

	if (r->count != t->field_count) {
		gt_err_set(err, GT_EFORMAT, "line %ld has %zu fields where the first row has %zu",
		    r->line, r->count, t->field_count);
		return gt_err_hint(
		    err, "fields are divided by '%c'; quote those that hold one", t->separator);
	}
	if (is_dropped(t, r)) {
		t->dropped++;
		return 0;
	}
	rc = grow_table(t, err);
	cells = t->csv->cells + t->rows * t->csv->width;
	for (size_t i = 0; i < t->field_count && !rc; i++) {
		struct gt_csv_field *f = &t->fields[i];

		if (f->role >= GT_CSV_FEATURE)
			rc = gt_csv_read_cell(t, f, r->fields[i], r->line, &cells[f->place], err);
	}
	if (!rc)
		t->lines[t->rows++] = r->line;
	return rc;
}

/* Name the rows of this file "FILE:LINE": inputs, and rows among which others were left out, as the
 * numbers of those behind them are shifted. */
static int name_rows(struct gt_csv_table *t, size_t from, struct gt_err *err)
{
	size_t size = strlen(t->path) + 32;
	const char **names;

	if (!t->request->inputs && !(t->dropped && t->like))
		return 0;
	names = gt_reallocarray(t->csv->names, t->rows + 1, sizeof(*names), err);
	if (!names)
		return GT_ENOMEM;
	t->csv->names = names;
	for (size_t i = from; i < t->rows; i++) {
		char *name = gt_arena_alloc(&t->csv->source.names, size, err);

		if (!name)
			return GT_ENOMEM;
		snprintf(name, size, "%s:%ld", t->path, t->lines[i]);
		names[i] = name;
	}
	return 0;
}

static int read_rows(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_csv_reader r = open_reader(t);
	size_t from = t->rows;
	int rc = t->named ? gt_csv_next_row(&r, err) : 1;

	if (rc > 0)
		while ((rc = gt_csv_next_row(&r, err)) > 0 && !(rc = add_row(t, &r, err)))
			;
	gt_csv_reader_release(&r);
	return rc ? rc : name_rows(t, from, err);
}

int gt_csv_read_file(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	bool is_stdin = t->request->inputs && !strcmp(path, "-");
	int rc = is_stdin ? 0 : gt_byte_stream_open(&t->text.stream, path, err);

	if (rc) /* the error names the file */
		return rc;
	t->path = path;
	rc = gt_csv_text_read(&t->text, t->request, err);
	if (!rc)
		rc = survey_table(t, err);
	if (!rc)
		rc = gt_csv_choose_fields(t, err);
	if (!rc)
		rc = gt_csv_type_fields(t, err);
	if (!rc)
		rc = read_rows(t, err);
	gt_csv_text_close(&t->text);
	if (!rc || is_stdin)
		return rc ? gt_err_prefix(err, "standard input") : 0;
	return gt_err_prefix(err, "'%s'", path);
}
