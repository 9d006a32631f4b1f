/* csv_check.c - tables that a model is trained on: columns and targets that are hardly meant so. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/data/table/csv.h"

/* A column of MANY_WORDS different words or more is refused if they are more than half of the
 * rows. */
enum { MANY_WORDS = 20 };

/* ---- words ---- */

/* The first word that is a number in another form, if all words of the column are; or NULL. */
static const char *find_decorated(const struct gt_csv_table *t, const struct gt_csv_column *w)
{
	const char *found = NULL;

	for (size_t i = 0; i < w->count; i++) {
		const char *text = w->words[i].text;

		if (*text && !gt_csv_is_decorated(t, text))
			return NULL;
		if (*text && !found)
			found = text;
	}
	return found;
}

static int fail_decorated(
    const struct gt_csv_table *t, size_t field, const char *word, struct gt_err *err)
{
	char name[128];

	gt_err_set(err, GT_EFORMAT, "%s: '%.60s' is not a number",
	    gt_csv_field_name(t, field, name, sizeof(name)), word);
	return gt_csv_hint_decorated(t, word, field, err);
}

static int fail_many(const struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	const struct gt_csv_column *w = &t->columns[t->head.place[field]];
	char name[128], key[64];

	gt_csv_field_key(t, field, key, sizeof(key));
	gt_err_set(err, GT_EFORMAT,
	    "%s has %zu different words in %zu rows, such as '%.40s': too few rows share a word",
	    gt_csv_field_name(t, field, name, sizeof(name)), w->count, t->rows.count, w->first);
	return gt_err_hint(err,
	    "skip=%s leaves the column out; categories=%s uses its words all the same", key, key);
}

int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err)
{
	bool fitted = gt_csv_is_fitted(t) && !t->like;
	int rc = 0;

	for (size_t i = 0; i < t->head.fields && fitted && !rc; i++) {
		const struct gt_csv_column *w =
		    &t->columns[t->head.place[i] < 0 ? 0 : t->head.place[i]];
		const char *word;

		if (t->head.place[i] == GT_CSV_NOWHERE || !w->text || w->categories)
			continue;
		word = find_decorated(t, w);
		if (word)
			rc = fail_decorated(t, i, word, err);
		else if (w->count >= MANY_WORDS && 2 * w->count > t->rows.count)
			rc = fail_many(t, i, err);
	}
	return rc;
}

/* ---- names ---- */

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcasecmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

static bool has_name(const struct gt_csv_table *t, const char *name)
{
	size_t i = 0;

	while (i < t->head.fields && strcasecmp(t->head.names[i], name) != 0)
		i++;
	return i < t->head.fields;
}

/* Beside x, y is a coordinate. */
static bool is_target_name(const struct gt_csv_table *t, const char *name)
{
	static const char *const names[] = { "label", "labels", "target", "class", NULL };

	return is_one_of(name, names) || (!strcasecmp(name, "y") && !has_name(t, "x"));
}

/* A column, other than the target, with a usual name of targets; head.fields if there is none. */
static size_t find_target_name(const struct gt_csv_table *t)
{
	size_t i = 0;

	while (t->head.names && i < t->head.fields &&
	       (i == t->goal.field || t->head.place[i] == GT_CSV_NOWHERE ||
	           !is_target_name(t, t->head.names[i])))
		i++;
	return t->head.names ? i : t->head.fields;
}

int gt_csv_fail_one_value(const struct gt_csv_table *t, struct gt_err *err)
{
	size_t other = find_target_name(t);
	char name[128], key[64];

	gt_err_set(err, GT_EFORMAT, "%s is the target, but has the same value, '%.60s', in %s",
	    gt_csv_field_name(t, t->goal.field, name, sizeof(name)), t->rows.targets[0],
	    t->rows.count > 1 ? "all rows" : "the only row");
	if (other < t->head.fields)
		return gt_err_hint(err, "if the target is '%.60s', add target=%s",
		    t->head.names[other], gt_csv_field_key(t, other, key, sizeof(key)));
	return gt_err_hint(err, "target=COLUMN names another column");
}

/* ---- warnings ---- */

/* The last column is the target unless a setting names one. */
static void warn_target(const struct gt_csv_table *t, char note[GT_CSV_NOTE])
{
	size_t other = find_target_name(t);
	char name[128], key[64];

	if (t->like || gt_spec_value(t->spec, "target") || other == t->head.fields ||
	    is_target_name(t, t->head.names[t->goal.field]))
		return;
	gt_csv_note(note, "the target is %s, the last one; if it is '%.60s', add target=%s",
	    gt_csv_field_name(t, t->goal.field, name, sizeof(name)), t->head.names[other],
	    gt_csv_field_key(t, other, key, sizeof(key)));
}

static bool is_rising(const struct gt_csv_table *t, int column)
{
	const double *cell = t->csv->cells + column;
	bool rising = !t->columns[column].text && t->rows.count > 1;

	for (size_t r = 1; r < t->rows.count && rising; r++)
		rising = cell[r * t->column_count] > cell[(r - 1) * t->column_count];
	return rising;
}

/* Whether a column numbers the rows, by its name; or by a part of its name, where numbers rise. */
static bool is_index(const struct gt_csv_table *t, size_t field)
{
	static const char *const names[] = { "id", "index", "idx", "rowid", "row_id", "Unnamed: 0",
		NULL };
	const char *name = t->head.names[field];
	size_t length = strlen(name);
	const char *end = name + (length > 3 ? length - 3 : 0);

	if (is_one_of(name, names))
		return true;
	return is_rising(t, t->head.place[field]) &&
	       (!length || !strcasecmp(end, "_id") || (length > 3 && !strcmp(end + 1, "Id")));
}

static void warn_index(const struct gt_csv_table *t, char note[GT_CSV_NOTE])
{
	char name[128], key[64];

	for (size_t i = 0; t->head.names && i < t->head.fields; i++)
		if (t->head.place[i] != GT_CSV_NOWHERE && is_index(t, i))
			gt_csv_note(note,
			    "%s seems to number the rows, but is used as a feature: skip=%s leaves "
			    "it out",
			    gt_csv_field_name(t, i, name, sizeof(name)),
			    gt_csv_field_key(t, i, key, sizeof(key)));
}

/* Whether another row has the word of the first row. */
static bool repeats_first(const struct gt_csv_table *t, int column)
{
	const double *cell = t->csv->cells + column;
	size_t r = 1;

	while (r < t->rows.count && cell[r * t->column_count] != cell[0])
		r++;
	return r < t->rows.count;
}

/* Whether the first row has a word in each field, and no later row repeats one of these words,
 * though later rows repeat others. */
static bool may_be_header(const struct gt_csv_table *t)
{
	bool words = t->rows.count > 2;

	for (size_t i = 0; i < t->head.fields && words; i++) {
		const struct gt_csv_column *w =
		    &t->columns[t->head.place[i] < 0 ? 0 : t->head.place[i]];

		if (t->head.place[i] != GT_CSV_NOWHERE)
			words = w->text && !repeats_first(t, t->head.place[i]) &&
			        2 * (w->count - 1) <= t->rows.count - 1;
	}
	for (size_t r = 1; r < t->rows.count && words; r++)
		words = strcmp(t->rows.targets[r], t->rows.targets[0]) != 0;
	return words && !gt_csv_is_number(t, t->rows.targets[0]);
}

static void warn_header(const struct gt_csv_table *t, char note[GT_CSV_NOTE])
{
	if (t->head.names || t->set.header != GT_CSV_HEADER_AUTO || !may_be_header(t))
		return;
	gt_csv_note(note,
	    "no other row has the words of the first one, '%.40s' to '%.40s': if they are the names "
	    "of the columns, add header=yes",
	    t->head.first[0], t->head.first[t->head.fields - 1]);
}

void gt_csv_warn_columns(const struct gt_csv_table *t, char note[GT_CSV_NOTE])
{
	if (!gt_csv_is_fitted(t))
		return;
	warn_target(t, note);
	warn_index(t, note);
	warn_header(t, note);
}
