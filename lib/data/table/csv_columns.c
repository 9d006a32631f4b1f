/* csv_columns.c - the cells of a table: the type and the words of each column. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- types ---- */

static int fail_empty(
    const struct gt_csv_table *t, const struct gt_csv_field *f, struct gt_err *err)
{
	char name[128], key[64];

	gt_err_set(err, GT_EFORMAT, "%s has no value in any row", gt_csv_field_name(t, f, name));
	return gt_err_hint(err, "skip=%s leaves it out", gt_csv_field_key(t, f, key));
}

/* The first value of a field decides whether it has words. But data for a model have the columns of
 * the training, or numbers if these are not known. */
int gt_csv_type_fields(struct gt_csv_table *t, struct gt_err *err)
{
	bool regression = gt_csv_is_regression(t);
	double value;

	for (size_t i = 0; i < t->field_count; i++) {
		struct gt_csv_field *f = &t->fields[i];
		bool target = f->role == GT_CSV_TARGET;

		if (f->role == GT_CSV_FEATURE && t->given) {
			if (t->like && t->like->columns)
				f->known = &t->like->columns[f->place];
			f->has_words = f->known && f->known->count;
		} else if ((f->role == GT_CSV_FEATURE || target) && !t->given && !f->first) {
			return fail_empty(t, f, err);
		} else if (f->role == GT_CSV_FEATURE || (target && !regression)) {
			f->has_words = f->categories || !f->first ||
			               gt_csv_parse(f->first, t->decimal, &value) < GT_CSV_INFINITE;
		}
	}
	return 0;
}

/* ---- cells ---- */

/* The number of a word, which is a new one if it has not occurred before. */
static int put_word(struct gt_csv_table *t, struct gt_csv_field *f, const char *text, long line,
    double *out, struct gt_err *err)
{
	size_t limit = f->role == GT_CSV_TARGET ? GT_CSV_MAX_CLASSES : GT_DATA_MAX_WORDS;
	struct gt_csv_word *word = gt_index_find(&f->index, &text);
	char name[128], key[64];

	if (!word) {
		if (f->count == limit) {
			gt_err_set(err, GT_EFORMAT, "line %ld, %s: more than %zu different words",
			    line, gt_csv_field_name(t, f, name), limit);
			return gt_err_hint(
			    err, "skip=%s leaves it out", gt_csv_field_key(t, f, key));
		}
		word = gt_arena_alloc(&t->arena, sizeof(*word), err);
		if (!word || gt_grow(&f->words, f->count, &f->capacity, sizeof(*f->words), err))
			return GT_ENOMEM;
		*word = (struct gt_csv_word){ gt_arena_strdup(&t->csv->source.names, text, err),
			(int)f->count, line };
		if (!word->text || !gt_index_add(&f->index, word, err))
			return GT_ENOMEM;
		f->words[f->count++] = word;
	}
	*out = word->number;
	return 0;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_word(struct gt_csv_table *t, struct gt_csv_field *f, const char *text, long line,
    double *out, struct gt_err *err)
{
	const char *word = text, *const * found;

	if (gt_csv_is_missing(text, false)) {
		if (f->role != GT_CSV_FEATURE || !t->csv->source.missing ||
		    t->csv->source.missing == GT_DATA_MISSING_DROP)
			return gt_csv_fail(t, f, GT_CSV_MISSING, text, line, err);
		word = "";
	}
	if (f->known) {
		found = bsearch(&word, f->known->words, (size_t)f->known->count,
		    sizeof(*f->known->words), compare_words);
		if (!found)
			return gt_csv_fail(
			    t, f, *word ? GT_CSV_UNKNOWN_WORD : GT_CSV_MISSING, text, line, err);
		*out = (double)(found - f->known->words);
		return 0;
	}
	if (!f->categories && gt_csv_parse(word, t->decimal, out) == GT_CSV_NUMBER)
		return gt_csv_fail(t, f, GT_CSV_NUMBER, text, line, err);
	return put_word(t, f, word, line, out, err);
}

int gt_csv_read_cell(struct gt_csv_table *t, struct gt_csv_field *f, const char *text, long line,
    double *out, struct gt_err *err)
{
	enum gt_csv_form form;

	if (f->has_words)
		return read_word(t, f, text, line, out, err);
	form = gt_csv_parse(text, t->decimal, out);
	if (form == GT_CSV_NUMBER && f->role == GT_CSV_LABEL && *out != 0 && *out != 1)
		return gt_csv_fail(t, f, GT_CSV_NO_LABEL, text, line, err);
	if (form == GT_CSV_NUMBER)
		return f->whole ? gt_csv_check_whole(t, f, *out, line, err) : 0;
	if (!gt_csv_is_missing(text, true))
		return gt_csv_fail(t, f, form, text, line, err);
	if (f->role != GT_CSV_FEATURE || f->whole || !gt_data_fills_numbers(t->csv->source.missing))
		return gt_csv_fail(t, f, GT_CSV_MISSING, text, line, err);
	*out = NAN;
	return 0;
}

/* ---- after the last row ---- */

int gt_csv_sort_words(
    struct gt_csv_table *t, struct gt_csv_field *f, const char *const **out, struct gt_err *err)
{
	const char **sorted =
	    gt_arena_alloc(&t->csv->source.names, f->count * sizeof(*sorted), err);
	double *cell = t->csv->cells + f->place;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < f->count; i++)
		sorted[i] = f->words[i]->text;
	qsort(sorted, f->count, sizeof(*sorted), compare_words);
	for (size_t i = 0; i < f->count; i++)
		((struct gt_csv_word *)gt_index_find(&f->index, &sorted[i]))->number = (int)i;
	for (size_t r = 0; r < t->rows; r++, cell += t->csv->width)
		*cell = f->words[(size_t)*cell]->number;
	*out = sorted;
	return 0;
}

/* Words and scale are those of the training; the name stays, as it is to be compared. */
static int copy_column(struct gt_csv_table *t, struct gt_data_column *c,
    const struct gt_data_column *known, struct gt_err *err)
{
	size_t count = (size_t)known->count;
	const char **words = gt_arena_alloc(&t->csv->source.names, count * sizeof(*words), err);
	const char *name = c->name;

	for (size_t i = 0; words && i < count; i++) {
		words[i] = gt_arena_strdup(&t->csv->source.names, known->words[i], err);
		if (!words[i])
			return GT_ENOMEM;
	}
	*c = *known;
	c->name = name;
	c->words = count ? words : NULL;
	if (!t->standardise) {
		c->mean = 0;
		c->std = 1;
	}
	return words ? 0 : GT_ENOMEM;
}

static int describe_column(struct gt_csv_table *t, struct gt_csv_field *f, struct gt_err *err)
{
	struct gt_data_column *c = &t->csv->source.columns[f->place];

	*c = (struct gt_data_column){ .std = 1 };
	if (t->named) {
		c->name = gt_arena_strdup(&t->csv->source.names, f->head, err);
		if (!c->name)
			return GT_ENOMEM;
	}
	if (f->known)
		return copy_column(t, c, f->known, err);
	c->count = (int)f->count;
	return f->has_words ? gt_csv_sort_words(t, f, &c->words, err) : 0;
}

/* "color=red" of a column with words, "age" of one with numbers. */
static int name_features(struct gt_source *s, const int *places, struct gt_err *err)
{
	const char **names =
	    gt_arena_alloc(&s->names, (size_t)s->info.form.features * sizeof(*names), err);

	s->feature_names = names;
	for (int k = 0; names && k < s->column_count; k++) {
		const struct gt_data_column *c = &s->columns[k];
		bool words = c->count && !c->whole;

		for (int i = 0; i < gt_data_column_width(c); i++) {
			const char *word = words ? c->words[i] : "";
			size_t size = strlen(c->name) + strlen(word) + 2;
			char *name = gt_arena_alloc(&s->names, size, err);

			if (!name)
				return GT_ENOMEM;
			snprintf(name, size, "%s%s%s", c->name, words ? "=" : "", word);
			names[places[k] + i] = name;
		}
	}
	return names ? 0 : GT_ENOMEM;
}

int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	int64_t features = 0;

	s->columns = gt_arena_alloc(&s->names, t->columns * sizeof(*s->columns), err);
	if (!s->columns)
		return GT_ENOMEM;
	s->column_count = (int)t->columns;
	for (size_t i = 0; i < t->field_count; i++)
		if (t->fields[i].role == GT_CSV_FEATURE && describe_column(t, &t->fields[i], err))
			return err->code;
	for (size_t i = 0; i < t->field_count; i++)
		if (t->fields[i].role == GT_CSV_FEATURE) {
			s->columns[t->fields[i].place].field = t->fields[i].input;
			s->columns[t->fields[i].place].whole = t->fields[i].whole;
		}
	for (int k = 0; k < s->column_count; k++)
		features += gt_data_column_width(&s->columns[k]);
	if (features > GT_CSV_MAX_FIELDS)
		return gt_err_set(err, GT_EFORMAT, "%lld features, more than %d",
		    (long long)features, GT_CSV_MAX_FIELDS);
	s->info.form.features = (int)features;
	if (gt_csv_place_values(t, err))
		return err->code;
	return t->named && !t->request->inputs ? name_features(s, t->csv->places, err) : 0;
}
