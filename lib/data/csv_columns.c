/* csv_columns.c - the columns of a table: which are features, and which words these have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/csv.h"

/* ---- which field is which column ---- */

/* A field by its name or by its number from 0; `fields` where there is none. */
static size_t find_field(const struct gt_csv_table *t, const char *wanted)
{
	char *end;
	unsigned long n;

	for (size_t i = 0; t->names && i < t->fields; i++)
		if (!strcmp(t->names[i], wanted))
			return i;
	n = strtoul(wanted, &end, 10);
	return *wanted >= '0' && *wanted <= '9' && !*end && n < t->fields ? n : t->fields;
}

static int no_field(
    const struct gt_csv_table *t, const char *wanted, const char *role, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "there is no column '%.100s' %s", wanted, role);
	if (!t->names)
		return gt_err_hint(
		    err, "the file has no header line; columns are 0 to %zu", t->fields - 1);
	return gt_err_hint(err, "columns: %s%s%s%s%s; or a number from 0 to %zu", t->names[0],
	    t->fields > 1 ? ", " : "", t->fields > 1 ? t->names[1] : "",
	    t->fields > 2 ? ", ... " : "", t->fields > 2 ? t->names[t->fields - 1] : "",
	    t->fields - 1);
}

static int choose_target(struct gt_csv_table *t, struct gt_err *err)
{
	const char *wanted = gt_spec_value(t->spec, "target");

	if (t->fields < 2) {
		gt_err_set(err, GT_EFORMAT, "the rows have 1 field");
		return gt_err_hint(err,
		    "a row needs at least a feature and a class, divided by a comma; sep= names "
		    "another separator");
	}
	t->target = wanted ? find_field(t, wanted) : t->fields - 1;
	return t->target < t->fields ? 0 : no_field(t, wanted, "to be the target", err);
}

/* Call `use` for each field in a setting's list, NAME/NAME/... */
static int each_field(struct gt_csv_table *t, const char *key, const char *role,
    void (*use)(struct gt_csv_table *t, size_t field), struct gt_err *err)
{
	const char *list = gt_spec_value(t->spec, key);
	char *copy = list ? gt_strdup(list, err) : NULL, *rest = copy, *name;
	int rc = list && !copy ? GT_ENOMEM : 0;

	while (!rc && (name = strsep(&rest, "/"))) {
		size_t field = find_field(t, name);

		if (field == t->fields)
			rc = no_field(t, name, role, err);
		else
			use(t, field);
	}
	free(copy);
	return rc;
}

static void skip(struct gt_csv_table *t, size_t field)
{
	t->place[field] = GT_CSV_NOWHERE;
}

/* All fields but the target and those that are skipped. */
static int place_in_order(struct gt_csv_table *t, struct gt_err *err)
{
	int rc;

	t->columns = 0;
	for (size_t i = 0; i < t->fields; i++)
		t->place[i] = 0;
	rc = each_field(t, "skip", "to skip", skip, err);
	for (size_t i = 0; i < t->fields; i++) {
		bool used = i != t->target && t->place[i] != GT_CSV_NOWHERE;

		t->place[i] = used ? (int)t->columns++ : GT_CSV_NOWHERE;
	}
	if (!rc && !t->columns)
		rc = gt_err_set(err, GT_EINVAL, "no column is left to be a feature");
	return rc;
}

/* The name of a column of the data that the model was trained on; NULL: it has none. */
static const char *known_name(const struct gt_data_description *like, int column)
{
	if (like->columns)
		return like->columns[column].name;
	return like->feature_names ? like->feature_names[column] : NULL;
}

static int known_columns(const struct gt_data_description *like)
{
	return like->columns ? like->column_count : like->features;
}

/* Inputs have their features in any order, among other columns. */
static int place_by_name(
    struct gt_csv_table *t, const struct gt_data_description *like, struct gt_err *err)
{
	for (size_t i = 0; i < t->fields; i++)
		t->place[i] = GT_CSV_NOWHERE;
	for (int k = 0; k < known_columns(like); k++) {
		size_t i = 0;

		while (i < t->fields && strcmp(t->names[i], known_name(like, k)))
			i++;
		if (i == t->fields)
			return gt_err_set(err, GT_EINVAL,
			    "there is no column '%.100s', with which the model was trained",
			    known_name(like, k));
		t->place[i] = k;
	}
	t->columns = (size_t)known_columns(like);
	return 0;
}

static int place_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	const struct gt_data_description *like = request->like;
	bool known = like && like->features, named = known && known_name(like, 0);
	size_t wanted = known ? (size_t)known_columns(like) : (size_t)request->features;

	t->target = SIZE_MAX;
	if (t->names && named)
		return place_by_name(t, like, err);
	if (!wanted || t->fields == wanted)
		return place_in_order(t, err);
	gt_err_set(err, GT_EINVAL, "rows of %zu fields, but the model was trained with %zu columns",
	    t->fields, wanted);
	if (t->fields < wanted)
		return err->code;
	return gt_err_hint(err, "leave out columns that are no features%s",
	    named ? ", or write the names of the columns in the first line" : "");
}

int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err)
{
	size_t columns;
	int rc;

	t->place = gt_arena_alloc(&t->arena, t->fields * sizeof(*t->place), err);
	if (!t->place)
		return GT_ENOMEM;
	if (t->request->inputs)
		return place_inputs(t, err);
	rc = choose_target(t, err);
	if (!rc)
		rc = place_in_order(t, err);
	if (rc || !t->like)
		return rc;
	columns = (size_t)known_columns(t->like);
	if (t->columns != columns)
		rc = gt_err_set(err, GT_EINVAL,
		    "rows of %zu features, but the model was trained on %zu", t->columns, columns);
	return rc;
}

/* ---- words ---- */

static void ask(struct gt_csv_table *t, size_t field)
{
	if (t->place[field] != GT_CSV_NOWHERE)
		t->words[t->place[field]].categories = t->words[t->place[field]].text = true;
}

/* The first row decides which columns have words; inputs have those of the training data. */
static int choose_types(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	t->words = gt_calloc(t->columns, sizeof(*t->words), err);
	if (!t->words)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->fields; i++) {
		struct gt_csv_words *w;
		double value;

		if (t->place[i] == GT_CSV_NOWHERE)
			continue;
		w = &t->words[t->place[i]];
		w->line = r->line;
		w->first = gt_arena_strdup(&t->arena, r->fields[i], err);
		if (!w->first)
			return GT_ENOMEM;
		w->text = t->like ? t->like->columns && t->like->columns[t->place[i]].count
		                  : !t->request->inputs && !gt_csv_parse_number(w->first, &value);
	}
	return each_field(t, "categories", "to have categories", ask, err);
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
	list_words(list, sizeof(list), known);
	return gt_err_set(err, GT_EINVAL,
	    "'%.60s' is not among the words that the model was trained with: %s", text, list);
}

/* ---- cells ---- */

/* The fault of a field; the line and the column stand before it. */
static int fail(const struct gt_csv_table *t, const struct gt_csv_words *w, const char *text,
    struct gt_err *err)
{
	double value;

	if (gt_csv_is_missing(text)) {
		gt_err_set(err, GT_EFORMAT, "the value is missing%s%.8s%s", *text ? " ('" : "",
		    text, *text ? "')" : "");
		return gt_err_hint(
		    err, "fill it in or leave out the row; skip=COLUMN leaves out a column");
	}
	if (w->text && gt_csv_parse_number(text, &value)) {
		gt_err_set(err, GT_EFORMAT, "'%.60s' is a number, but line %ld has '%.60s'", text,
		    w->line, w->first);
		return gt_err_hint(err, "categories=COLUMN reads the numbers of a column as words");
	}
	gt_err_set(err, GT_EFORMAT, "'%.60s' is not a number", text);
	return gt_err_hint(err, "numbers are finite%s",
	    t->request->inputs ? ""
	                       : "; target=COLUMN names the target, categories=COLUMN a "
	                         "column of words");
}

static int read_cell(
    struct gt_csv_table *t, int column, const char *text, float *out, struct gt_err *err)
{
	struct gt_csv_words *w = &t->words[column];
	double value = 0;
	bool number = gt_csv_parse_number(text, &value);

	if (gt_csv_is_missing(text))
		return fail(t, w, text, err);
	if (w->text && t->like)
		return look_up(&t->like->columns[column], text, out, err);
	if (number != w->text || w->categories) {
		*out = (float)value;
		return w->text ? put_word(t, w, text, out, err) : 0;
	}
	return fail(t, w, text, err);
}

int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	float *cells = t->csv->cells + t->rows * t->columns;
	char name[128];
	int rc = t->words ? 0 : choose_types(t, r, err);

	for (size_t i = 0; i < t->fields && !rc; i++) {
		if (t->place[i] == GT_CSV_NOWHERE)
			continue;
		rc = read_cell(t, t->place[i], r->fields[i], &cells[t->place[i]], err);
		if (rc && rc != GT_ENOMEM)
			gt_err_prefix(err, "line %ld, %s", r->line,
			    gt_csv_field_name(t, i, name, sizeof(name)));
	}
	return rc;
}

/* ---- when all rows are read ---- */

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
		c->mean = 0;
		c->std = 1;
	}
	return words ? rc : GT_ENOMEM;
}

/* "colour=red" of a column with words, "age" of one with numbers. */
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
		s->columns[k] = (struct gt_data_column){ .std = 1 };
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

void gt_csv_release_words(struct gt_csv_table *t)
{
	for (size_t k = 0; t->words && k < t->columns; k++)
		free(t->words[k].items);
	free(t->words);
}
