/* csv_columns.c - the columns of a table: the type and the words of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- words ---- */

static bool fills_gaps(const struct gt_csv_table *t)
{
	return t->csv->source.missing && t->csv->source.missing != GT_DATA_MISSING_DROP;
}

/* The first value of a column decides whether it has words. Other data for a model have the types
 * of the training. */
static int start_column(
    struct gt_csv_table *t, size_t field, const char *text, long line, struct gt_err *err)
{
	int column = t->head.place[field];
	struct gt_csv_column *c = &t->columns[column];

	c->categories = t->head.asked[field];
	if (t->like)
		c->text = t->like->columns && t->like->columns[column].count;
	else
		c->text =
		    c->categories || (!t->request->inputs && !gt_csv_looks_like_number(t, text));
	c->line = line;
	c->first = gt_arena_strdup(&t->arena, text, err);
	return c->first ? 0 : GT_ENOMEM;
}

/* Where a word stands, or belongs, among those before it. */
static size_t find_column_word(const struct gt_csv_column *w, const char *text, bool *found)
{
	size_t low = 0, high = w->count;

	*found = false;
	while (low < high && !*found) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(text, w->words[mid].text);

		*found = !order;
		if (order > 0)
			low = mid + 1;
		else
			high = mid;
	}
	return high;
}

/* The number of a word, which is a new one where it has not been there before. */
static int put_word(struct gt_csv_table *t, struct gt_csv_column *w, const char *text, double *out,
    struct gt_err *err)
{
	bool found;
	size_t at = find_column_word(w, text, &found);
	char *copy;

	if (!found) {
		if (w->count == GT_DATA_MAX_WORDS) {
			gt_err_set(
			    err, GT_EFORMAT, "more than %d different words", GT_DATA_MAX_WORDS);
			return gt_err_hint(err, "skip=COLUMN leaves a column out");
		}
		copy = gt_arena_strdup(&t->csv->source.names, text, err);
		if (!copy || gt_grow(&w->words, w->count, &w->capacity, sizeof(*w->words), err))
			return GT_ENOMEM;
		memmove(w->words + at + 1, w->words + at, (w->count - at) * sizeof(*w->words));
		w->words[at] = (struct gt_csv_word){ copy, (int)w->count++ };
	}
	*out = w->words[at].number;
	return 0;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "'blue', 'red' and 5 more" into text [size]. */
static void list_words(char *text, size_t size, const struct gt_data_column *c)
{
	size_t used = 0;
	int i = 0;

	*text = '\0';
	for (; i < c->count && used + strlen(c->words[i]) + 24 < size; i++)
		used += (size_t)snprintf(
		    text + used, size - used, "%s'%s'", i ? ", " : "", c->words[i]);
	if (i < c->count)
		snprintf(text + used, size - used, "%s%d more", i ? " and " : "", c->count - i);
}

/* The number that a word has in the data that the model was trained on. */
static int look_up_word(
    const struct gt_data_column *known, const char *text, double *out, struct gt_err *err)
{
	const char *const *found = bsearch(
	    &text, known->words, (size_t)known->count, sizeof(*known->words), compare_words);
	char list[200];

	if (found) {
		*out = (double)(found - known->words);
		return 0;
	}
	if (!*text) {
		gt_err_set(
		    err, GT_EFORMAT, "the value is missing, which no row of the training data had");
		return gt_err_hint(err, "fill it in or leave out the row");
	}
	list_words(list, sizeof(list), known);
	gt_err_set(err, GT_EFORMAT,
	    "'%.60s' is not among the words that the model was trained with: %s", text, list);
	return gt_err_hint(err, "change the word, or leave out the row");
}

/* ---- cells ---- */

int gt_csv_hint_missing(const struct gt_csv_table *t, struct gt_err *err)
{
	return gt_err_hint(err, "fill it in or leave out the row%s",
	    t->request->inputs ? "" : "; missing=drop leaves out such rows");
}

/* The fault of a missing value; the line and the column stand before it. */
static int fail_missing(const struct gt_csv_table *t, const struct gt_csv_column *w,
    const char *text, struct gt_err *err)
{
	enum gt_data_missing missing = t->csv->source.missing;

	gt_err_set(err, GT_EFORMAT, "the value is missing%s%.8s%s", *text ? " ('" : "", text,
	    *text ? "')" : "");
	if (missing == GT_DATA_MISSING_CATEGORY && !w->text)
		return gt_err_hint(err, "missing=category is for columns of words; %s",
		    t->like ? "fill it in or leave out the row"
		            : "missing=mean or missing=median fills in numbers, too");
	if (t->like || t->request->inputs)
		return gt_csv_hint_missing(t, err);
	return gt_err_hint(err,
	    "missing=mean, median or category fills it in, missing=drop leaves out such rows, "
	    "skip=COLUMN leaves out a column");
}

/* Lead on from a word in a column of numbers. */
static int hint_word(
    const struct gt_csv_table *t, size_t field, const char *text, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(text);
	char key[64];

	if (gt_csv_is_decorated(t, text))
		return gt_csv_hint_decorated(t, text, field, err);
	if (gt_csv_looks_like_number(t, text))
		return gt_err_hint(err, "numbers are finite");
	if (t->head.fields == 1 && word)
		return gt_err_hint(
		    err, "if a %s separates the fields, add {read} sep=%s", word, word);
	if (t->like || t->request->inputs)
		return gt_err_hint(err, "write a number, or leave out the row%s",
		    t->request->inputs ? "" : "; target=COLUMN names the target");
	return gt_err_hint(err,
	    "if the value is missing, leave the field empty; categories=%s reads the column as "
	    "words; target=COLUMN names the target",
	    gt_csv_field_key(t, field, key, sizeof(key)));
}

/* The fault of a field; the line and the column stand before it. */
static int fail_cell(
    const struct gt_csv_table *t, size_t field, const char *text, struct gt_err *err)
{
	const struct gt_csv_column *w = &t->columns[t->head.place[field]];
	char key[64];
	double value;

	if (gt_csv_is_missing(text))
		return fail_missing(t, w, text, err);
	gt_csv_field_key(t, field, key, sizeof(key));
	if (w->text && gt_csv_parse_number(t, text, &value)) {
		gt_err_set(err, GT_EFORMAT, "'%.60s' is a number, but line %ld has '%.60s'", text,
		    w->line, w->first);
		if (t->rows.count == 1 && !t->head.names && t->set.header == GT_CSV_HEADER_AUTO)
			return gt_err_hint(
			    err, "if line %ld names the columns, add header=yes", w->line);
		if (gt_csv_is_decorated(t, w->first))
			return gt_csv_hint_decorated(t, w->first, field, err);
		return gt_err_hint(err,
		    "categories=%s reads its numbers as words; skip=%s leaves it out", key, key);
	}
	if (gt_csv_is_beyond(t, text)) {
		gt_err_set(err, GT_EFORMAT, "'%.60s' " GT_CSV_BEYOND, text);
		return gt_csv_hint_unit(t, err);
	}
	gt_err_set(err, GT_EFORMAT, "'%.60s' is not a number", text);
	return hint_word(t, field, text, err);
}

static int read_word(
    struct gt_csv_table *t, size_t field, const char *text, double *out, struct gt_err *err)
{
	int column = t->head.place[field];
	struct gt_csv_column *w = &t->columns[column];
	double value;

	if (gt_csv_is_missing(text))
		text = "";
	if (t->like)
		return look_up_word(&t->like->columns[column], text, out, err);
	if (!w->categories && gt_csv_parse_number(t, text, &value))
		return fail_cell(t, field, text, err);
	return put_word(t, w, text, out, err);
}

/* A missing value is NaN until the type of its column is known: gt_csv_check_gaps(). */
static int read_cell(struct gt_csv_table *t, size_t field, const char *text, long line, double *out,
    struct gt_err *err)
{
	struct gt_csv_column *c = &t->columns[t->head.place[field]];
	bool gap = gt_csv_is_missing(text);

	if (!c->first && (!gap || !fills_gaps(t) || t->like) &&
	    start_column(t, field, text, line, err))
		return GT_ENOMEM;
	if (gap && !fills_gaps(t))
		return fail_cell(t, field, text, err);
	if (gap && !(t->like && c->text)) {
		*out = NAN;
		c->gap = c->gap ? c->gap : line;
		return 0;
	}
	if (c->text)
		return read_word(t, field, text, out, err);
	return gt_csv_parse_number(t, text, out) ? 0 : fail_cell(t, field, text, err);
}

static int prefix_place(const struct gt_csv_table *t, size_t field, long line, struct gt_err *err)
{
	char name[128];

	return gt_err_prefix(
	    err, "line %ld, %s", line, gt_csv_field_name(t, field, name, sizeof(name)));
}

int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	double *cells = t->csv->cells + t->rows.count * t->column_count;
	int rc = 0;

	if (!t->columns)
		t->columns = gt_calloc(t->column_count, sizeof(*t->columns), err);
	if (!t->columns)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->head.fields && !rc; i++) {
		if (t->head.place[i] == GT_CSV_NOWHERE)
			continue;
		rc = read_cell(t, i, r->fields[i], r->line, &cells[t->head.place[i]], err);
		if (rc && rc != GT_ENOMEM)
			prefix_place(t, i, r->line, err);
	}
	return rc;
}

static int fail_empty(const struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	char name[128], key[64];

	gt_err_set(err, GT_EFORMAT, "%s has no value in any row",
	    gt_csv_field_name(t, field, name, sizeof(name)));
	return gt_err_hint(
	    err, "skip=%s leaves it out", gt_csv_field_key(t, field, key, sizeof(key)));
}

/* In a column of words, a missing value is the word "". */
static int fill_words(struct gt_csv_table *t, struct gt_csv_column *c, struct gt_err *err)
{
	double *cell = t->csv->cells + (c - t->columns), empty;
	int rc = put_word(t, c, "", &empty, err);

	for (size_t i = 0; i < t->rows.count && !rc; i++, cell += t->column_count)
		if (isnan(*cell))
			*cell = empty;
	return rc;
}

int gt_csv_check_gaps(struct gt_csv_table *t, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < t->head.fields && t->columns && !rc; i++) {
		struct gt_csv_column *c = &t->columns[t->head.place[i] < 0 ? 0 : t->head.place[i]];

		if (t->head.place[i] == GT_CSV_NOWHERE)
			continue;
		if (!c->first) {
			rc = fail_empty(t, i, err);
		} else if (c->gap && c->text) {
			rc = fill_words(t, c, err);
		} else if (c->gap && !gt_data_fills_numbers(t->csv->source.missing)) {
			fail_missing(t, c, "", err);
			rc = prefix_place(t, i, c->gap, err);
		}
	}
	return rc;
}

void gt_csv_release_columns(struct gt_csv_table *t)
{
	for (size_t k = 0; t->columns && k < t->column_count; k++)
		free(t->columns[k].words);
	free(t->columns);
}
