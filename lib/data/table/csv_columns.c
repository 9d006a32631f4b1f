/* csv_columns.c - the columns of a table: the type and the words of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- errors ---- */

/* Whether data for a model are read, which it determines. */
static bool is_given(const struct gt_csv_table *t)
{
	return t->like || t->request->inputs;
}

int gt_csv_hint_missing(const struct gt_csv_table *t, struct gt_err *err)
{
	return gt_err_hint(err, "fill it in or leave out the row%s",
	    t->request->inputs ? "" : "; missing=drop leaves out such rows");
}

int gt_csv_hint_decorated(
    const struct gt_csv_table *t, const char *s, size_t field, struct gt_err *err)
{
	char more[160] = "", key[64];
	double value;

	if (!is_given(t) && field == t->goal.field)
		snprintf(more, sizeof(more), "; task=classification makes classes of them");
	else if (!is_given(t))
		snprintf(more, sizeof(more), "; categories=%s reads them as words",
		    gt_csv_field_key(t, field, key));
	return gt_err_hint(err,
	    "write numbers as digits with a decimal %s, without other signs%s%s",
	    t->head.decimal == ',' ? "comma (decimal=comma)" : "point",
	    gt_csv_parse(s, ',', &value) == GT_CSV_NUMBER ? "; decimal=comma reads decimal commas"
	                                                  : "",
	    more);
}

int gt_csv_fail_beyond(const struct gt_csv_table *t, const char *value, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "'%.60s' is beyond the range of float32, +-3.4e38", value);
	return gt_err_hint(
	    err, is_given(t) ? "leave out the row" : "write the column in another unit");
}

/* Fail for a missing value. */
static int fail_missing(
    const struct gt_csv_table *t, bool number, const char *text, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the value is missing%s%.8s%s", *text ? " ('" : "", text,
	    *text ? "')" : "");
	if (is_given(t))
		return gt_csv_hint_missing(t, err);
	if (t->csv->source.missing == GT_DATA_MISSING_CATEGORY && number)
		return gt_err_hint(err, "missing=category is for columns of words; missing=mean or "
		                        "missing=median fills in numbers, too");
	return gt_err_hint(err,
	    "missing=mean, median or category fills it in, missing=drop leaves out such rows, "
	    "skip=COLUMN leaves out a column");
}

/* Fail for a number among words. */
static int fail_number(
    const struct gt_csv_table *t, size_t field, const char *text, struct gt_err *err)
{
	const struct gt_csv_column *c = &t->columns[t->head.place[field]];
	char key[64];
	double value;

	gt_err_set(err, GT_EFORMAT, "'%.60s' is a number, but line %ld has '%.60s'", text, c->line,
	    c->first);
	if (t->rows.count == 1 && !t->head.names && t->set.header == GT_CSV_HEADER_AUTO)
		return gt_err_hint(err, "if line %ld names the columns, add header=yes", c->line);
	if (gt_csv_parse(c->first, t->head.decimal, &value) == GT_CSV_DECORATED)
		return gt_csv_hint_decorated(t, c->first, field, err);
	return gt_err_hint(err, "categories=%s reads its numbers as words; skip=%s leaves it out",
	    gt_csv_field_key(t, field, key), key);
}

/* Fail for a word among numbers. */
static int fail_word(const struct gt_csv_table *t, size_t field, const char *text,
    enum gt_csv_form form, struct gt_err *err)
{
	const char *separator = gt_csv_guess_separator(text);
	char key[64];

	if (form == GT_CSV_BEYOND)
		return gt_csv_fail_beyond(t, text, err);
	gt_err_set(err, GT_EFORMAT, "'%.60s' is not a number", text);
	if (form == GT_CSV_DECORATED)
		return gt_csv_hint_decorated(t, text, field, err);
	if (form == GT_CSV_INFINITE)
		return gt_err_hint(err, "numbers are finite");
	if (t->head.fields == 1 && separator)
		return gt_err_hint(
		    err, "if a %s separates the fields, add {read} sep=%s", separator, separator);
	if (is_given(t))
		return gt_err_hint(err, "write a number, or leave out the row%s",
		    t->request->inputs ? "" : "; target=COLUMN names the target");
	return gt_err_hint(err,
	    "if the value is missing, leave the field empty; categories=%s reads the column as "
	    "words; target=COLUMN names the target",
	    gt_csv_field_key(t, field, key));
}

/* ---- words ---- */

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

/* The number that a word has in the data that the model was trained on. */
static int look_up_word(
    const struct gt_data_column *known, const char *text, double *out, struct gt_err *err)
{
	const char *const *found = bsearch(
	    &text, known->words, (size_t)known->count, sizeof(*known->words), compare_words);

	if (found) {
		*out = (double)(found - known->words);
		return 0;
	}
	if (!*text) {
		gt_err_set(
		    err, GT_EFORMAT, "the value is missing, which no row of the training data had");
		return gt_err_hint(err, "fill it in or leave out the row");
	}
	gt_err_set(err, GT_EFORMAT,
	    "'%.60s' is not among the %d words that the model was trained with", text,
	    known->count);
	return gt_err_hint(err, "change the word, or leave out the row");
}

/* ---- types ---- */

static bool fills_words(const struct gt_csv_table *t)
{
	return t->csv->source.missing && t->csv->source.missing != GT_DATA_MISSING_DROP;
}

/* Decide the type of a column by a value. Return false if the value is missing. */
static bool type_column(const struct gt_csv_table *t, struct gt_csv_column *c, const char *text)
{
	double value;

	c->text = c->categories || gt_csv_parse(text, t->head.decimal, &value) < GT_CSV_INFINITE;
	return !gt_csv_is_missing(text, !c->categories);
}

/* Look for the value that decides each column's type: the first one that is not missing. */
static int find_first_values(struct gt_csv_table *t, struct gt_csv_reader *r, struct gt_err *err)
{
	size_t left = t->column_count;
	int rc = 0;

	while (left && (rc = gt_csv_next_row(r, err)) > 0)
		for (size_t i = 0; i < t->head.fields && r->count == t->head.fields; i++) {
			int place = t->head.place[i];
			struct gt_csv_column *c =
			    place == GT_CSV_NOWHERE ? NULL : &t->columns[place];

			if (!c || c->first || !type_column(t, c, r->fields[i]))
				continue;
			c->line = r->line;
			c->first = gt_arena_strdup(&t->arena, r->fields[i], err);
			if (!c->first)
				return GT_ENOMEM;
			left--;
		}
	return rc < 0 ? rc : 0;
}

/* A column without any value can be filled with nothing. */
static int check_values(struct gt_csv_table *t, struct gt_err *err)
{
	char name[128], key[64];

	for (size_t i = 0; i < t->head.fields; i++) {
		const struct gt_csv_column *c = gt_csv_column(t, i);

		if (!c || c->first)
			continue;
		if (!fills_words(t)) {
			t->columns[t->head.place[i]].first = "";
			continue;
		}
		gt_err_set(
		    err, GT_EFORMAT, "%s has no value in any row", gt_csv_field_name(t, i, name));
		return gt_err_hint(err, "skip=%s leaves it out", gt_csv_field_key(t, i, key));
	}
	return 0;
}

/* Data for a model have the types of the training. Other inputs have numbers. */
int gt_csv_type_columns(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_csv_reader r;
	int rc;

	for (size_t k = 0; t->like && t->like->columns && k < t->column_count; k++)
		t->columns[k].text = t->like->columns[k].count;
	if (is_given(t))
		return 0;
	rc = gt_csv_open_rows(t, &r, err);
	if (!rc)
		rc = find_first_values(t, &r, err);
	gt_csv_reader_release(&r);
	return rc ? rc : check_values(t, err);
}

/* ---- cells ---- */

static int read_word(
    struct gt_csv_table *t, size_t field, const char *text, double *out, struct gt_err *err)
{
	int column = t->head.place[field];
	struct gt_csv_column *c = &t->columns[column];
	double value;

	if (gt_csv_is_missing(text, false)) {
		if (!fills_words(t))
			return fail_missing(t, false, text, err);
		text = "";
	}
	if (t->like)
		return look_up_word(&t->like->columns[column], text, out, err);
	if (!c->categories && gt_csv_parse(text, t->head.decimal, &value) == GT_CSV_NUMBER)
		return fail_number(t, field, text, err);
	return put_word(t, c, text, out, err);
}

static int read_cell_number(
    struct gt_csv_table *t, size_t field, const char *text, double *out, struct gt_err *err)
{
	enum gt_csv_form form = gt_csv_parse(text, t->head.decimal, out);

	if (form == GT_CSV_NUMBER)
		return 0;
	if (!gt_csv_is_missing(text, true))
		return fail_word(t, field, text, form, err);
	if (!gt_data_fills_numbers(t->csv->source.missing))
		return fail_missing(t, true, text, err);
	t->columns[t->head.place[field]].filled++;
	*out = NAN;
	return 0;
}

int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	double *cells = t->csv->cells + t->rows.count * t->column_count;
	char name[128];
	int rc = 0;

	for (size_t i = 0; i < t->head.fields && !rc; i++) {
		int place = t->head.place[i];

		if (place == GT_CSV_NOWHERE)
			continue;
		rc = (t->columns[place].text ? read_word : read_cell_number)(
		    t, i, r->fields[i], &cells[place], err);
		if (rc && rc != GT_ENOMEM)
			gt_err_prefix(err, "line %ld, %s", r->line, gt_csv_field_name(t, i, name));
	}
	return rc;
}

void gt_csv_release_columns(struct gt_csv_table *t)
{
	for (size_t k = 0; t->columns && k < t->column_count; k++)
		free(t->columns[k].words);
	free(t->columns);
}

/* ---- after the last row ---- */

/* Copy a text for the life of the source. */
static int keep_text(struct gt_csv_table *t, const char **out, const char *text, struct gt_err *err)
{
	*out = gt_arena_strdup(&t->csv->source.names, text, err);
	return *out ? 0 : GT_ENOMEM;
}

/* Give the words of a column their numbers in the order of their bytes. */
static int sort_words(struct gt_csv_table *t, int column, struct gt_err *err)
{
	struct gt_csv_column *w = &t->columns[column];
	const char **sorted =
	    gt_arena_alloc(&t->csv->source.names, (w->count + 1) * sizeof(*sorted), err);
	double *number = gt_calloc(w->count, sizeof(*number), err);

	if (!sorted || !number) {
		free(number);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < w->count; i++) {
		sorted[i] = w->words[i].text;
		number[w->words[i].number] = (double)i;
	}
	for (size_t r = 0; r < t->rows.count; r++) {
		double *cell = &t->csv->cells[r * t->column_count + (size_t)column];

		*cell = number[(int)*cell];
	}
	free(number);
	t->csv->source.columns[column].count = (int)w->count;
	t->csv->source.columns[column].words = sorted;
	return 0;
}

/* Words and scale are those of the data that the model was trained on; the name stays, as it is to
 * be compared. */
static int copy_column(struct gt_csv_table *t, int column, struct gt_err *err)
{
	struct gt_data_column *c = &t->csv->source.columns[column];
	const char **words, *name = c->name;
	int rc = 0;

	*c = t->like->columns[column];
	c->name = name;
	words = gt_arena_alloc(&t->csv->source.names, (size_t)(c->count + 1) * sizeof(*words), err);
	for (int i = 0; i < c->count && !rc && words; i++)
		rc = keep_text(t, &words[i], t->like->columns[column].words[i], err);
	c->words = c->count ? words : NULL;
	if (!t->set.standardise) {
		c->mean = 0;
		c->std = 1;
	}
	return words ? rc : GT_ENOMEM;
}

/* "color=red" of a column with words, "age" of one with numbers. */
static int name_features(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	const char **names =
	    gt_arena_alloc(&s->names, (size_t)s->info.form.features * sizeof(*names), err);
	size_t n = 0;

	for (int k = 0; names && k < s->column_count; k++) {
		const struct gt_data_column *c = &s->columns[k];

		for (int i = 0; i < (c->count ? c->count : 1); i++) {
			size_t size = strlen(c->name) + (c->count ? strlen(c->words[i]) : 0) + 2;
			char *name = gt_arena_alloc(&s->names, size, err);

			if (!name)
				return GT_ENOMEM;
			snprintf(name, size, "%s%s%s", c->name, c->count ? "=" : "",
			    c->count ? c->words[i] : "");
			names[n++] = name;
		}
	}
	s->feature_names = names;
	return names ? 0 : GT_ENOMEM;
}

static int count_features(struct gt_source *s, struct gt_err *err)
{
	int64_t features = 0;

	for (int k = 0; k < s->column_count; k++)
		features += s->columns[k].count ? s->columns[k].count : 1;
	if (features > GT_CSV_MAX_FIELDS)
		return gt_err_set(err, GT_EFORMAT, "%lld features, more than %d",
		    (long long)features, GT_CSV_MAX_FIELDS);
	s->info.form.features = (int)features;
	return 0;
}

int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	bool copied = t->like && t->like->columns;
	int rc = 0;

	s->columns = gt_arena_alloc(&s->names, t->column_count * sizeof(*s->columns), err);
	if (!s->columns)
		return GT_ENOMEM;
	s->column_count = (int)t->column_count;
	for (int k = 0; k < s->column_count; k++)
		s->columns[k] = (struct gt_data_column){ .std = 1 };
	for (size_t i = 0; t->head.names && i < t->head.fields && !rc; i++)
		if (t->head.place[i] != GT_CSV_NOWHERE)
			rc =
			    keep_text(t, &s->columns[t->head.place[i]].name, t->head.names[i], err);
	for (int k = 0; k < s->column_count && !rc; k++) {
		if (copied)
			rc = copy_column(t, k, err);
		else if (t->columns[k].text)
			rc = sort_words(t, k, err);
	}
	if (!rc)
		rc = count_features(s, err);
	return rc || !t->head.names || t->request->inputs ? rc : name_features(t, err);
}
