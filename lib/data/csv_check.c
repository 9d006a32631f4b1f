/* csv_check.c - tables that a model is trained on: columns and targets that are hardly meant so. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/data/csv.h"

/* A column of MANY_WORDS different words or more is refused if they are more than half of the
 * rows. */
enum { MANY_WORDS = 20 };

bool gt_csv_is_fitted(const struct gt_csv_table *t)
{
	return t->request->fit && (!t->like || t->request->new_classes);
}

/* ---- words ---- */

/* The first word that is a number in another form, if all words of the column are; or NULL. */
static const char *find_decorated(const struct gt_csv_table *t, const struct gt_csv_words *w)
{
	const char *found = NULL;

	for (size_t i = 0; i < w->count; i++) {
		const char *text = w->items[i].text;

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
	const struct gt_csv_words *w = &t->words[t->place[field]];
	char name[128], key[64];

	gt_csv_field_key(t, field, key, sizeof(key));
	gt_err_set(err, GT_EFORMAT,
	    "%s has %zu different words in %zu rows, such as '%.40s': too few rows share a word",
	    gt_csv_field_name(t, field, name, sizeof(name)), w->count, t->rows, w->first);
	return gt_err_hint(err,
	    "skip=%s leaves the column out; categories=%s uses its words all the same", key, key);
}

int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err)
{
	bool fitted = gt_csv_is_fitted(t) && !t->like;
	int rc = 0;

	for (size_t i = 0; i < t->fields && fitted && !rc; i++) {
		const struct gt_csv_words *w = &t->words[t->place[i] < 0 ? 0 : t->place[i]];
		const char *word;

		if (t->place[i] == GT_CSV_NOWHERE || !w->text || w->categories)
			continue;
		word = find_decorated(t, w);
		if (word)
			rc = fail_decorated(t, i, word, err);
		else if (w->count >= MANY_WORDS && 2 * w->count > t->rows)
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

	while (i < t->fields && strcasecmp(t->names[i], name) != 0)
		i++;
	return i < t->fields;
}

/* Beside x, y is a coordinate. */
static bool is_target_name(const struct gt_csv_table *t, const char *name)
{
	static const char *const names[] = { "label", "labels", "target", "class", NULL };

	return is_one_of(name, names) || (!strcasecmp(name, "y") && !has_name(t, "x"));
}

/* A column, other than the target, with a usual name of targets; t->fields if there is none. */
static size_t find_target_name(const struct gt_csv_table *t)
{
	size_t i = 0;

	while (t->names && i < t->fields &&
	       (i == t->target || t->place[i] == GT_CSV_NOWHERE || !is_target_name(t, t->names[i])))
		i++;
	return t->names ? i : t->fields;
}

int gt_csv_fail_one_value(const struct gt_csv_table *t, struct gt_err *err)
{
	size_t other = find_target_name(t);
	char name[128], key[64];

	gt_err_set(err, GT_EFORMAT, "%s is the target, but has the same value, '%.60s', in %s",
	    gt_csv_field_name(t, t->target, name, sizeof(name)), t->targets[0],
	    t->rows > 1 ? "all rows" : "the only row");
	if (other < t->fields)
		return gt_err_hint(err, "if the target is '%.60s', add target=%s", t->names[other],
		    gt_csv_field_key(t, other, key, sizeof(key)));
	return gt_err_hint(err, "target=COLUMN names another column");
}

/* ---- warnings ---- */

static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	used += (size_t)snprintf(text + used, size - used, "%s", used ? "; " : "");
	if (used >= size)
		return;
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

/* The last column is the target unless a setting names one. */
static void warn_target(const struct gt_csv_table *t, char *text, size_t size)
{
	size_t other = find_target_name(t);
	char name[128], key[64];

	if (t->like || gt_spec_value(t->spec, "target") || other == t->fields ||
	    is_target_name(t, t->names[t->target]))
		return;
	add(text, size, "the target is %s, the last one; if it is '%.60s', add target=%s",
	    gt_csv_field_name(t, t->target, name, sizeof(name)), t->names[other],
	    gt_csv_field_key(t, other, key, sizeof(key)));
}

/* Whether a column numbers the rows, by its name; or by a part of its name, where numbers rise. */
static bool is_index(const struct gt_csv_table *t, size_t field)
{
	static const char *const names[] = { "id", "index", "idx", "rowid", "row_id", "Unnamed: 0",
		NULL };
	const struct gt_csv_words *w = &t->words[t->place[field]];
	const char *name = t->names[field];
	size_t length = strlen(name);
	const char *end = name + (length > 3 ? length - 3 : 0);

	if (is_one_of(name, names))
		return true;
	if (w->text || !w->rising || t->rows < 2)
		return false;
	return !length || !strcasecmp(end, "_id") || (length > 3 && !strcmp(end + 1, "Id"));
}

static void warn_index(const struct gt_csv_table *t, char *text, size_t size)
{
	char name[128], key[64];

	for (size_t i = 0; t->names && i < t->fields; i++)
		if (t->place[i] != GT_CSV_NOWHERE && is_index(t, i))
			add(text, size,
			    "%s seems to number the rows, but is used as a feature: skip=%s leaves "
			    "it out",
			    gt_csv_field_name(t, i, name, sizeof(name)),
			    gt_csv_field_key(t, i, key, sizeof(key)));
}

/* Whether the first row has a word in each field, and no later row repeats one of these words,
 * though later rows repeat others. */
static bool may_be_header(const struct gt_csv_table *t)
{
	bool words = t->rows > 2;

	for (size_t i = 0; i < t->fields && words; i++) {
		const struct gt_csv_words *w = &t->words[t->place[i] < 0 ? 0 : t->place[i]];

		if (t->place[i] != GT_CSV_NOWHERE)
			words = w->text && !w->repeated && 2 * (w->count - 1) <= t->rows - 1;
	}
	for (size_t r = 1; r < t->rows && words; r++)
		words = strcmp(t->targets[r], t->targets[0]) != 0;
	return words && !gt_csv_is_number(t, t->targets[0]);
}

static void warn_header(const struct gt_csv_table *t, char *text, size_t size)
{
	if (t->names || t->header != GT_CSV_HEADER_AUTO || !may_be_header(t))
		return;
	add(text, size,
	    "no other row has the words of the first one, '%.40s' to '%.40s': if they are the names "
	    "of the columns, add header=yes",
	    t->first[0], t->first[t->fields - 1]);
}

void gt_csv_warn_columns(const struct gt_csv_table *t, char *text, size_t size)
{
	*text = '\0';
	if (!gt_csv_is_fitted(t))
		return;
	warn_target(t, text, size);
	warn_index(t, text, size);
	warn_header(t, text, size);
}
