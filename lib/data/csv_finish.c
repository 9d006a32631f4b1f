/* csv_finish.c - the columns of a table when all rows are read: descriptions and features. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/csv.h"

/* Whether a column has a number that float32 holds with all its digits. */
static bool has_normal(const struct gt_csv_table *t, int column)
{
	const float *cell = t->csv->cells + column;

	for (size_t r = 0; r < t->rows; r++, cell += t->columns)
		if (fabsf(*cell) >= FLT_MIN)
			return true;
	return false;
}

static int fail_small(const struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	const struct gt_csv_words *w = &t->words[t->place[field]];
	char name[128];

	gt_err_set(err, GT_EFORMAT, "%s: numbers such as %.15g %s: the least is 1.2e-38",
	    gt_csv_field_name(t, field, name, sizeof(name)), w->small,
	    w->offset != 0 ? "differ too little for float32" : "are too small for float32");
	return gt_csv_hint_unit(t, err);
}

bool gt_csv_is_trained_on(const struct gt_csv_table *t)
{
	return !t->like && (!t->request->like || t->request->fit);
}

int gt_csv_check_small(const struct gt_csv_table *t, struct gt_err *err)
{
	bool trained_on = gt_csv_is_trained_on(t);

	for (size_t i = 0; i < t->fields && trained_on; i++) {
		int column = t->place[i];

		if (column != GT_CSV_NOWHERE && t->words[column].small != 0 &&
		    t->words[column].varies && !has_normal(t, column))
			return fail_small(t, i, err);
	}
	return 0;
}

/* Give the words of a column their numbers in the order of their bytes. */
static int sort_words(struct gt_csv_table *t, int column, struct gt_err *err)
{
	struct gt_csv_words *w = &t->words[column];
	const char **sorted =
	    gt_arena_alloc(&t->csv->source.names, (w->count + 1) * sizeof(*sorted), err);
	float *number = gt_calloc(w->count, sizeof(*number), err);

	if (!sorted || !number) {
		free(number);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < w->count; i++) {
		sorted[i] = w->items[i].text;
		number[w->items[i].number] = (float)i;
	}
	for (size_t r = 0; r < t->rows; r++) {
		float *cell = &t->csv->cells[r * t->columns + (size_t)column];

		*cell = number[(int)*cell];
	}
	free(number);
	t->csv->source.columns[column].count = (int)w->count;
	t->csv->source.columns[column].words = sorted;
	return 0;
}

/* A copy of a name or word that outlives the table; NULL stays NULL. */
static int keep(struct gt_csv_table *t, const char **out, const char *text, struct gt_err *err)
{
	*out = text ? gt_arena_strdup(&t->csv->source.names, text, err) : NULL;
	return text && !*out ? GT_ENOMEM : 0;
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
		rc = keep(t, &words[i], t->like->columns[column].words[i], err);
	c->words = c->count ? words : NULL;
	if (!t->standardise) {
		c->mean = c->offset = 0;
		c->std = 1;
	}
	return words ? rc : GT_ENOMEM;
}

/* "color=red" of a column with words, "age" of one with numbers. */
static int name_features(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	const char **names =
	    gt_arena_alloc(&s->names, (size_t)s->info.features * sizeof(*names), err);
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
	s->info.features = (int)features;
	return 0;
}

int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	bool copied = t->like && t->like->columns;
	int rc = 0;

	s->columns = gt_arena_alloc(&s->names, t->columns * sizeof(*s->columns), err);
	if (!s->columns)
		return GT_ENOMEM;
	s->column_count = (int)t->columns;
	for (int k = 0; k < s->column_count; k++)
		s->columns[k] = (struct gt_data_column){ .std = 1, .offset = t->words[k].offset };
	for (size_t i = 0; t->names && i < t->fields && !rc; i++)
		if (t->place[i] != GT_CSV_NOWHERE)
			rc = keep(t, &s->columns[t->place[i]].name, t->names[i], err);
	for (int k = 0; k < s->column_count && !rc; k++) {
		if (copied)
			rc = copy_column(t, k, err);
		else if (t->words[k].text)
			rc = sort_words(t, k, err);
	}
	if (!rc)
		rc = count_features(s, err);
	return rc || !t->names || t->request->inputs ? rc : name_features(t, err);
}
