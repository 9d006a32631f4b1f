/* csv_columns.c - the columns of a table: the type and the words of each. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/csv.h"

/* ---- offsets ---- */

/*
 * The first OFFSET_ROWS rows decide whether a column has an offset. A column has one if its largest
 * magnitude is more than OFFSET_RATIO times its range in these rows.
 *
 *   1700000003, 1700000001, 1700000002   range 2: the offset is 1700000003, and 0, -2 and -1 are
 *                                        stored
 *   12.5, 0.1, -3                        range 15.5: no offset
 *
 * A later number may be nearer to 0 than to the offset. It would lose digits: after 256 times
 * 999999, the numbers 20.51 and 20.53 would be the same. Then the column has no offset, and the
 * rows before this number are read again. So cells depend only on their text and on the offset in
 * the description, also when other data are read with it.
 */
enum { OFFSET_ROWS = 256, OFFSET_RATIO = 16 };

/* The least and the largest number of a column in the first rows. */
struct range {
	double low, high;
};

static void extend_range(const struct gt_csv_table *t, struct range *range, const char *text)
{
	double value;

	if (!gt_csv_parse_number(t, text, &value))
		return;
	range->low = value < range->low ? value : range->low;
	range->high = value > range->high ? value : range->high;
}

static double choose_offset(const struct range *range, double first)
{
	double magnitude =
	    fabs(range->low) > fabs(range->high) ? fabs(range->low) : fabs(range->high);

	bool far = magnitude > OFFSET_RATIO * (range->high - range->low);

	return far && fabs(first) <= GT_DATA_MAX_OFFSET ? gt_csv_round_digits(first) : 0;
}

/* Look ahead at the first rows. A bad row is an error of the caller when it reads this row. */
static int choose_offsets(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	struct gt_csv_reader ahead = {
		.separator = r->separator, .at = r->at, .end = r->end, .next_line = r->next_line
	};
	struct range *ranges = gt_calloc(t->columns, sizeof(*ranges), err);
	struct gt_err bad = GT_ERR_INIT;

	if (!ranges)
		return GT_ENOMEM;
	for (size_t k = 0; k < t->columns; k++)
		ranges[k] = (struct range){ t->words[k].last, t->words[k].last };
	for (int row = 1; row < OFFSET_ROWS && gt_csv_next_row(&ahead, &bad) > 0; row++)
		for (size_t i = 0; i < t->fields && i < ahead.count; i++)
			if (t->place[i] != GT_CSV_NOWHERE && !t->words[t->place[i]].text)
				extend_range(t, &ranges[t->place[i]], ahead.fields[i]);
	for (size_t k = 0; k < t->columns; k++)
		t->words[k].offset = choose_offset(&ranges[k], t->words[k].last);
	gt_csv_release(&ahead);
	free(ranges);
	return 0;
}

/* Other data for a model have the offsets of the training data. Numbers that are not standardized
 * have none, because they are used unchanged. */
static int set_offsets(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	if (!t->standardise)
		return 0;
	for (size_t k = 0; t->like && t->like->columns && k < t->columns; k++)
		t->words[k].offset = t->like->columns[k].offset;
	return t->like || t->request->inputs ? 0 : choose_offsets(t, r, err);
}

/* ---- words ---- */

static bool fills(const struct gt_csv_table *t)
{
	return t->csv->source.missing && t->csv->source.missing != GT_DATA_MISSING_DROP;
}

/* Set `first` of the columns that have a value in a row but had none before. Return the number of
 * columns that still have none; -1: out of memory. */
static int take_firsts(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	bool any = !fills(t) || t->like || t->request->inputs;
	int open = 0;

	for (size_t i = 0; i < t->fields; i++) {
		struct gt_csv_words *w = &t->words[t->place[i] < 0 ? 0 : t->place[i]];

		if (t->place[i] == GT_CSV_NOWHERE || w->first)
			continue;
		if (i >= r->count || (!any && gt_csv_is_missing(r->fields[i]))) {
			open++;
			continue;
		}
		w->line = r->line;
		w->first = gt_arena_strdup(&t->arena, r->fields[i], err);
		if (!w->first)
			return -1;
	}
	return open;
}

static int fail_empty(const struct gt_csv_table *t, struct gt_err *err)
{
	char name[128], key[64];
	size_t i = 0;

	while (t->place[i] == GT_CSV_NOWHERE || t->words[t->place[i]].first)
		i++;
	gt_err_set(err, GT_EFORMAT, "%s has no value in any row",
	    gt_csv_field_name(t, i, name, sizeof(name)));
	return gt_err_hint(err, "skip=%s leaves it out", gt_csv_field_key(t, i, key, sizeof(key)));
}

/* Find the first value of each column, in this row or, if it is missing, in a later one. */
static int find_firsts(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	struct gt_csv_reader ahead = {
		.separator = r->separator, .at = r->at, .end = r->end, .next_line = r->next_line
	};
	int open = take_firsts(t, r, err), rc = 1;

	while (open > 0 && (rc = gt_csv_next_row(&ahead, err)) > 0)
		open = take_firsts(t, &ahead, err);
	gt_csv_release(&ahead);
	if (rc < 0 || open < 0)
		return rc < 0 ? rc : GT_ENOMEM;
	return open ? fail_empty(t, err) : 0;
}

/* The first value decides whether a column has words; inputs have those of the training data. */
static int choose_types(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	int rc;

	t->words = gt_calloc(t->columns, sizeof(*t->words), err);
	if (!t->words)
		return GT_ENOMEM;
	rc = find_firsts(t, r, err);
	for (size_t i = 0; i < t->fields && !rc; i++) {
		struct gt_csv_words *w;

		if (t->place[i] == GT_CSV_NOWHERE)
			continue;
		w = &t->words[t->place[i]];
		w->rising = true;
		w->categories = t->asked[i];
		w->text = t->like ? t->like->columns && t->like->columns[t->place[i]].count
		                  : w->categories || (!t->request->inputs &&
		                                         !gt_csv_looks_like_number(t, w->first));
		if (w->text || !gt_csv_parse_number(t, w->first, &w->last))
			w->last = 0;
	}
	return rc ? rc : set_offsets(t, r, err);
}

/* Where a word stands, or belongs, among those before it. */
static size_t find_word(const struct gt_csv_words *w, const char *text, bool *found)
{
	size_t low = 0, high = w->count;

	*found = false;
	while (low < high && !*found) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(text, w->items[mid].text);

		*found = !order;
		if (order > 0)
			low = mid + 1;
		else
			high = mid;
	}
	return high;
}

/* The number of a word, which is a new one where it has not been there before. */
static int put_word(struct gt_csv_table *t, struct gt_csv_words *w, const char *text, float *out,
    struct gt_err *err)
{
	bool found;
	size_t at = find_word(w, text, &found);
	char *copy;

	if (!found) {
		if (w->count == GT_DATA_MAX_WORDS) {
			gt_err_set(
			    err, GT_EFORMAT, "more than %d different words", GT_DATA_MAX_WORDS);
			return gt_err_hint(err, "skip=COLUMN leaves a column out");
		}
		copy = gt_arena_strdup(&t->csv->source.names, text, err);
		if (!copy || gt_grow(&w->items, w->count, &w->capacity, sizeof(*w->items), err))
			return GT_ENOMEM;
		memmove(w->items + at + 1, w->items + at, (w->count - at) * sizeof(*w->items));
		w->items[at] = (struct gt_csv_word){ copy, (int)w->count++ };
	}
	w->repeated |= t->rows && !w->items[at].number;
	*out = (float)w->items[at].number;
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
static int look_up(
    const struct gt_data_column *known, const char *text, float *out, struct gt_err *err)
{
	const char *const *found = bsearch(
	    &text, known->words, (size_t)known->count, sizeof(*known->words), compare_words);
	char list[200];

	if (found) {
		*out = (float)(found - known->words);
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
static int fail_missing(const struct gt_csv_table *t, const struct gt_csv_words *w,
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
	if (t->fields == 1 && word)
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
static int fail(const struct gt_csv_table *t, size_t field, const char *text, struct gt_err *err)
{
	const struct gt_csv_words *w = &t->words[t->place[field]];
	char key[64];
	double value;

	if (gt_csv_is_missing(text))
		return fail_missing(t, w, text, err);
	gt_csv_field_key(t, field, key, sizeof(key));
	if (w->text && gt_csv_parse_number(t, text, &value)) {
		gt_err_set(err, GT_EFORMAT, "'%.60s' is a number, but line %ld has '%.60s'", text,
		    w->line, w->first);
		if (t->rows == 1 && !t->names && t->header == GT_CSV_HEADER_AUTO)
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

void gt_csv_compare_numbers(struct gt_csv_table *t, size_t field, double last, double value)
{
	bool found = t->same[0] != t->same[1];

	if (t->standardise || found || last == value || (float)last != (float)value)
		return;
	t->same[0] = last;
	t->same[1] = value;
	t->same_field = field;
}

/* Other data for a model keep the offset of the training data. */
static void check_offset(struct gt_csv_table *t, struct gt_csv_words *w, double value)
{
	if (w->offset == 0 || t->like || fabs(value) >= fabs(value - w->offset))
		return;
	w->offset = w->small = 0; /* the rows that are read again may set `small` again */
	w->again = true;
	t->rows_again = t->rows;
}

static void store(struct gt_csv_words *w, double value, float *out)
{
	double cell = value - w->offset;

	*out = (float)cell;
	if (w->small == 0 && cell != 0 && fabsf(*out) < FLT_MIN)
		w->small = value;
}

static int read_word(
    struct gt_csv_table *t, size_t field, const char *text, float *out, struct gt_err *err)
{
	int column = t->place[field];
	struct gt_csv_words *w = &t->words[column];
	double value;

	if (gt_csv_is_missing(text))
		text = "";
	if (t->like)
		return look_up(&t->like->columns[column], text, out, err);
	if (!w->categories && gt_csv_parse_number(t, text, &value))
		return fail(t, field, text, err);
	return put_word(t, w, text, out, err);
}

static int read_cell(
    struct gt_csv_table *t, size_t field, const char *text, float *out, struct gt_err *err)
{
	struct gt_csv_words *w = &t->words[t->place[field]];
	double value;

	if (gt_csv_is_missing(text)) {
		if (!w->text && gt_data_fills_numbers(t->csv->source.missing)) {
			*out = NAN;
			return 0;
		}
		if (!w->text || !fills(t))
			return fail(t, field, text, err);
	}
	if (w->text)
		return read_word(t, field, text, out, err);
	if (!gt_csv_parse_number(t, text, &value))
		return fail(t, field, text, err);
	gt_csv_compare_numbers(t, field, w->last, value);
	w->varies |= value != w->last;
	w->rising &= !t->rows || value > w->last;
	w->last = value;
	check_offset(t, w, value);
	store(w, value, out);
	return 0;
}

int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	float *cells = t->csv->cells + t->rows * t->columns;
	char name[128];
	int rc = t->words ? 0 : choose_types(t, r, err);

	for (size_t i = 0; i < t->fields && !rc; i++) {
		if (t->place[i] == GT_CSV_NOWHERE)
			continue;
		rc = read_cell(t, i, r->fields[i], &cells[t->place[i]], err);
		if (rc && rc != GT_ENOMEM)
			gt_err_prefix(err, "line %ld, %s", r->line,
			    gt_csv_field_name(t, i, name, sizeof(name)));
	}
	return rc;
}

int gt_csv_read_again(struct gt_csv_table *t, struct gt_csv_reader *r, struct gt_err *err)
{
	int rc = 0;

	for (size_t row = 0; row < t->rows_again && (rc = gt_csv_next_row(r, err)) > 0;) {
		if (gt_csv_is_dropped(t, r))
			continue;
		for (size_t i = 0; i < t->fields && i < r->count; i++) {
			int column = t->place[i];
			double value;

			if (column != GT_CSV_NOWHERE && t->words[column].again &&
			    gt_csv_parse_number(t, r->fields[i], &value))
				store(&t->words[column], value,
				    &t->csv->cells[row * t->columns + (size_t)column]);
		}
		row++;
	}
	return rc < 0 ? rc : 0;
}

void gt_csv_release_words(struct gt_csv_table *t)
{
	for (size_t k = 0; t->words && k < t->columns; k++)
		free(t->words[k].items);
	free(t->words);
}
