/* csv_finish.c - the columns of a table when all rows are read: descriptions and features. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* Whether numbers that stand `step` apart differ, but not as float32. */
static bool are_lost(const double *x, size_t count, size_t step)
{
	bool vary = false;

	for (size_t i = 1; i < count; i++) {
		if ((float)x[i * step] != (float)x[0])
			return false;
		vary |= x[i * step] != x[0];
	}
	return vary;
}

/* Standardized numbers keep their digits. */
int gt_csv_check_digits(const struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_csv *c = t->csv;
	char name[128];
	bool lost = false;
	size_t i = 0;

	for (; !t->set.standardise && gt_csv_is_trained_on(t) && i < t->head.fields; i++) {
		int column = t->head.place[i];

		if (i == t->goal.field)
			lost = c->numbers && are_lost(c->numbers, t->rows.count, 1);
		else if (column != GT_CSV_NOWHERE && !t->columns[column].text)
			lost = are_lost(c->cells + column, t->rows.count, t->column_count);
		if (lost)
			break;
	}
	if (!lost)
		return 0;
	gt_err_set(err, GT_EFORMAT,
	    "%s: float32 has one number for all its numbers, so standardise=no makes them equal",
	    gt_csv_field_name(t, i, name, sizeof(name)));
	return gt_err_hint(err, "leave out standardise=no, or subtract a constant from the column");
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
		rc = gt_csv_keep(t, &words[i], t->like->columns[column].words[i], err);
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
			rc = gt_csv_keep(
			    t, &s->columns[t->head.place[i]].name, t->head.names[i], err);
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
