/* csv.c - tables of numbers, with a class in each row unless they are inputs. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/data/csv_reader.h"
#include "lib/data/source.h"

enum { MAX_CLASSES = 1 << 20 };

struct csv {
	struct gt_source source;
	float *features;    /* [samples, features] */
	int32_t *targets;   /* [samples]; NULL: there are none, and the rows have names, */
	const char **names; /* [samples] */
};

enum { NOWHERE = -1 };

/* The table while it is being read. */
struct table {
	struct csv *csv;
	const struct gt_data_request *request;
	const char *path; /* of the file that is being read */
	struct gt_arena arena;
	size_t columns, target; /* how many, and which one is the target */
	char **names;           /* [columns]; NULL: no header */
	int *place;             /* [columns] the number of each one's feature, or NOWHERE */
	size_t features;
	size_t rows, feature_capacity;
	char **words; /* [rows] the targets as written */
	size_t word_capacity;
	long *lines; /* [rows] */
	size_t line_capacity;
};

static bool parse_number(const char *s, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(s, &end);
	return end != s && !*end && isfinite(*value) && (errno != ERANGE || fabs(*value) < 1) &&
	       fabs(*value) <= 3.4028234663852886e38; /* FLT_MAX */
}

static bool is_number(const char *s)
{
	double value;

	return parse_number(s, &value);
}

/* A header is a first row without a number where the second row has one, and with a word at least
 * once. So a first row with one bad field among numbers is an error, not a header. */
static bool is_header(char **first, char **second, size_t count)
{
	bool word = false;

	for (size_t i = 0; i < count; i++) {
		if (!is_number(second[i]))
			continue;
		if (is_number(first[i]))
			return false;
		word |= *first[i] != '\0';
	}
	return word;
}

static int copy_row(struct table *t, const struct gt_csv_reader *r, char ***out, struct gt_err *err)
{
	*out = gt_arena_alloc(&t->arena, r->count * sizeof(char *), err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t i = 0; i < r->count; i++) {
		(*out)[i] = gt_arena_strdup(&t->arena, r->fields[i], err);
		if (!(*out)[i])
			return GT_ENOMEM;
	}
	return 0;
}

/* "column 3" or "column 'age'" into text [size]. */
static const char *column_name(const struct table *t, size_t column, char *text, size_t size)
{
	if (t->names)
		snprintf(text, size, "column '%s'", t->names[column]);
	else
		snprintf(text, size, "column %zu", column);
	return text;
}

/* ---- which column is which feature ---- */

static int choose_target(struct table *t, const char *wanted, struct gt_err *err)
{
	char *end;
	unsigned long n;

	if (t->columns < 2) {
		gt_err_set(err, GT_EFORMAT, "the rows have 1 field");
		return gt_err_hint(
		    err, "a row needs at least a feature and a class, divided by a comma");
	}
	t->target = t->columns - 1;
	if (!wanted)
		return 0;
	for (size_t i = 0; t->names && i < t->columns; i++)
		if (!strcmp(t->names[i], wanted)) {
			t->target = i;
			return 0;
		}
	n = strtoul(wanted, &end, 10);
	if (*wanted >= '0' && *wanted <= '9' && !*end && n < t->columns) {
		t->target = n;
		return 0;
	}
	gt_err_set(err, GT_EINVAL, "there is no column '%s' to be the target", wanted);
	if (!t->names)
		return gt_err_hint(
		    err, "the file has no header line; columns are 0 to %zu", t->columns - 1);
	return gt_err_hint(err, "columns: %s%s%s%s%s; or a number from 0 to %zu", t->names[0],
	    t->columns > 1 ? ", " : "", t->columns > 1 ? t->names[1] : "",
	    t->columns > 2 ? ", ... " : "", t->columns > 2 ? t->names[t->columns - 1] : "",
	    t->columns - 1);
}

/* All columns but the target. */
static int place_in_order(struct table *t)
{
	t->features = 0;
	for (size_t i = 0; i < t->columns; i++)
		t->place[i] = i == t->target ? NOWHERE : (int)t->features++;
	return 0;
}

/* Inputs have their features in any order, among other columns. */
static int place_by_name(
    struct table *t, const struct gt_data_description *like, struct gt_err *err)
{
	for (size_t i = 0; i < t->columns; i++)
		t->place[i] = NOWHERE;
	for (int k = 0; k < like->features; k++) {
		size_t i = 0;

		while (i < t->columns && strcmp(t->names[i], like->feature_names[k]))
			i++;
		if (i == t->columns)
			return gt_err_set(err, GT_EINVAL,
			    "there is no column '%.100s', with which the model was trained",
			    like->feature_names[k]);
		t->place[i] = k;
	}
	t->features = (size_t)like->features;
	return 0;
}

static int place_inputs(struct table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	const struct gt_data_description *like = request->like;
	size_t wanted = like && like->features ? (size_t)like->features : (size_t)request->features;

	t->target = SIZE_MAX;
	if (t->names && like && like->feature_names)
		return place_by_name(t, like, err);
	if (wanted && t->columns != wanted) {
		gt_err_set(err, GT_EINVAL,
		    "rows of %zu numbers, but the model was trained with %zu features", t->columns,
		    wanted);
		return t->columns > wanted
		           ? gt_err_hint(err, "leave out columns that are no features%s",
		                 like && like->feature_names
		                     ? ", or write the names of the columns in the first line"
		                     : "")
		           : err->code;
	}
	return place_in_order(t);
}

static int place_columns(struct table *t, const char *target, struct gt_err *err)
{
	int rc;

	t->place = gt_arena_alloc(&t->arena, t->columns * sizeof(*t->place), err);
	if (!t->place)
		return GT_ENOMEM;
	if (t->request->inputs)
		return place_inputs(t, err);
	rc = choose_target(t, target, err);
	return rc ? rc : place_in_order(t);
}

/* ---- rows ---- */

static int add_feature(
    struct table *t, size_t at, const struct gt_csv_reader *r, size_t column, struct gt_err *err)
{
	char name[128];
	double value;

	if (!parse_number(r->fields[column], &value)) {
		gt_err_set(err, GT_EFORMAT, "line %ld, %s: '%.60s' is not a number", r->line,
		    column_name(t, column, name, sizeof(name)), r->fields[column]);
		return gt_err_hint(err, "features are finite numbers%s",
		    t->request->inputs ? "" : "; target=COLUMN names the column of classes");
	}
	t->csv->features[at] = (float)value;
	return 0;
}

/* Room for another row, within the limit: the arrays double, and exist twice while they do. */
static int grow_table(struct table *t, struct gt_err *err)
{
	size_t features = t->features * sizeof(float);
	size_t row = features + sizeof(*t->words) + sizeof(*t->lines) + sizeof(*t->csv->targets);
	int rc = gt_data_check_memory(
	    t->request, 3 * (uint64_t)row * t->rows + t->arena.used, "the table", err);

	if (!rc)
		rc = gt_grow(&t->csv->features, t->rows, &t->feature_capacity, features, err);
	if (!rc)
		rc = gt_grow(&t->words, t->rows, &t->word_capacity, sizeof(*t->words), err);
	if (!rc)
		rc = gt_grow(&t->lines, t->rows, &t->line_capacity, sizeof(*t->lines), err);
	return rc;
}

/* The target as it is written; of an input, its name. */
static char *word_of(struct table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	size_t size = strlen(t->path) + 32;
	char *name;

	if (!t->request->inputs)
		return gt_arena_strdup(&t->arena, r->fields[t->target], err);
	name = gt_arena_alloc(&t->csv->source.names, size, err);
	if (name)
		snprintf(name, size, "%s:%ld", t->path, r->line);
	return name;
}

static int add_row(struct table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	size_t at = t->rows * t->features;
	int rc;

	if (r->count != t->columns) {
		gt_err_set(err, GT_EFORMAT, "line %ld has %zu fields where the first row has %zu",
		    r->line, r->count, t->columns);
		return gt_err_hint(err, "fields are divided by commas; quote those that hold one");
	}
	rc = grow_table(t, err);
	for (size_t i = 0; i < t->columns && !rc; i++)
		if (t->place[i] != NOWHERE)
			rc = add_feature(t, at + (size_t)t->place[i], r, i, err);
	if (rc)
		return rc;
	t->lines[t->rows] = r->line;
	t->words[t->rows] = word_of(t, r, err);
	if (!t->words[t->rows])
		return GT_ENOMEM;
	t->rows++;
	return 0;
}

/* Look at the first two rows: the number of columns, and whether there is a header. */
static int read_head(struct table *t, struct gt_csv_reader *r, struct gt_err *err)
{
	const char *start = r->at;
	char **first = NULL;
	int rc = gt_csv_next_row(r, err);

	if (rc <= 0)
		return rc ? rc : gt_err_set(err, GT_EFORMAT, "there are no rows");
	t->columns = r->count;
	t->names = NULL;
	rc = copy_row(t, r, &first, err);
	if (!rc)
		rc = gt_csv_next_row(r, err);
	if (rc < 0)
		return rc;
	if (rc == 1 && r->count == t->columns && is_header(first, r->fields, t->columns))
		t->names = first;
	/* Back to the first row of values. */
	r->at = start;
	r->next_line = 1;
	rc = t->names ? gt_csv_next_row(r, err) : 0;
	return rc < 0 ? rc : 0;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that stay when the table is gone; NULL with err set. */
static const char *const *keep_names(
    struct gt_source *s, char **names, size_t count, size_t without, struct gt_err *err)
{
	const char **kept = gt_arena_alloc(&s->names, (count + 1) * sizeof(*kept), err);
	size_t n = 0;

	for (size_t i = 0; kept && i < count; i++) {
		if (i == without)
			continue;
		kept[n] = gt_arena_strdup(&s->names, names[i], err);
		if (!kept[n++])
			return NULL;
	}
	return kept;
}

static int too_many_classes(size_t classes, struct gt_err *err)
{
	gt_err_set(
	    err, GT_EFORMAT, "%zu different classes, at most %d are allowed", classes, MAX_CLASSES);
	return gt_err_hint(err, "select the column of classes with target=COLUMN");
}

/* Sorted distinct words become classes 0, 1, ... . */
static int number_words(struct table *t, struct gt_err *err)
{
	char **sorted = gt_calloc(t->rows, sizeof(*sorted), err);
	size_t classes = 0;
	int rc;

	if (!sorted)
		return GT_ENOMEM;
	memcpy(sorted, t->words, t->rows * sizeof(*sorted));
	qsort(sorted, t->rows, sizeof(*sorted), compare_words);
	for (size_t i = 0; i < t->rows; i++)
		if (!classes || strcmp(sorted[classes - 1], sorted[i]))
			sorted[classes++] = sorted[i];
	for (size_t i = 0; i < t->rows; i++) {
		char **found =
		    bsearch(&t->words[i], sorted, classes, sizeof(*sorted), compare_words);

		t->csv->targets[i] = (int32_t)(found - sorted);
	}
	t->csv->source.info.classes = (int)classes;
	if (classes > MAX_CLASSES) {
		rc = too_many_classes(classes, err);
	} else {
		t->csv->source.class_names =
		    keep_names(&t->csv->source, sorted, classes, SIZE_MAX, err);
		rc = t->csv->source.class_names ? 0 : GT_ENOMEM;
	}
	free(sorted);
	return rc;
}

static int bad_target(const struct table *t, size_t row, const char *why, struct gt_err *err)
{
	char name[128];

	gt_err_set(err, GT_EFORMAT, "line %ld, %s: the target '%.60s' %s", t->lines[row],
	    column_name(t, t->target, name, sizeof(name)), t->words[row], why);
	return gt_err_hint(
	    err, "targets are classes: whole numbers from 0, or words; all of one sort");
}

/* Whole numbers are classes themselves. */
static int take_numbers(struct table *t, struct gt_err *err)
{
	int classes = 0;

	for (size_t i = 0; i < t->rows; i++) {
		double value;

		if (!parse_number(t->words[i], &value))
			return bad_target(t, i, "stands among numbers", err);
		if (value != floor(value))
			return bad_target(t, i, "is not a whole number", err);
		if (value < 0 || value >= MAX_CLASSES)
			return bad_target(t, i, "is out of range", err);
		t->csv->targets[i] = (int32_t)value;
		classes = (int)value >= classes ? (int)value + 1 : classes;
	}
	t->csv->source.info.classes = classes;
	return 0;
}

static int number_targets(struct table *t, struct gt_err *err)
{
	bool numbers = is_number(t->words[0]);

	t->csv->targets = gt_calloc(t->rows, sizeof(*t->csv->targets), err);
	if (!t->csv->targets)
		return GT_ENOMEM;
	if (numbers)
		return take_numbers(t, err);
	for (size_t i = 0; i < t->rows; i++) {
		if (!*t->words[i])
			return bad_target(t, i, "is empty", err);
		if (is_number(t->words[i]))
			return bad_target(t, i, "stands among words", err);
	}
	return number_words(t, err);
}

static int read_csv(struct gt_source *self, const struct gt_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct csv *c = (const struct csv *)self;

	(void)part;
	(void)draw;
	(void)err;
	memcpy(input, c->features + (size_t)index * self->info.features, self->info.input_bytes);
	*target = c->targets ? c->targets[index] : GT_DATA_IGNORE;
	return 0;
}

static const char *name_of(const struct gt_source *self, int64_t index)
{
	const struct csv *c = (const struct csv *)self;

	return c->names ? c->names[index] : NULL;
}

static void close_csv(struct gt_source *self)
{
	struct csv *c = (struct csv *)self;

	gt_arena_release(&self->names);
	free(c->features);
	free(c->targets);
	free(c->names);
	free(c);
}

static const struct gt_source_ops csv_ops = {
	.read = read_csv, .name = name_of, .close = close_csv
};

static int read_rows(
    struct table *t, const struct gt_mapping *map, const char *target, struct gt_err *err)
{
	struct gt_csv_reader r = { .at = map->data ? (const char *)map->data : "", .next_line = 1 };
	int rc;

	r.end = r.at + map->size;
	if (map->size >= 3 && !memcmp(r.at, "\xEF\xBB\xBF", 3)) /* byte order mark */
		r.at += 3;
	rc = read_head(t, &r, err);
	if (!rc)
		rc = place_columns(t, target, err);
	if (!rc)
		while ((rc = gt_csv_next_row(&r, err)) > 0 && !(rc = add_row(t, &r, err)))
			;
	gt_csv_release(&r);
	return rc;
}

static int read_file(struct table *t, const char *path, const char *target, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map(&map, path, err);

	t->path = path;
	if (rc)
		return rc;
	rc = read_rows(t, &map, target, err);
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	gt_unmap(&map);
	return rc;
}

/* ---- tables with classes ---- */

static int read_labelled(struct table *t, const char *path, const char *target, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	int rc = read_file(t, path, target, err);

	if (rc)
		return rc;
	rc = number_targets(t, err);
	if (rc)
		return gt_err_prefix(err, "'%s'", path);
	if (!t->names)
		return 0;
	s->feature_names = keep_names(s, t->names, t->columns, t->target, err);
	return s->feature_names ? 0 : GT_ENOMEM;
}

/* ---- inputs ---- */

enum { MAX_STDIN_BYTES = 1 << 30 };

static int read_stdin(struct table *t, struct gt_err *err)
{
	struct gt_mapping bytes = { .fd = -1 };
	void *read = NULL;
	int rc = gt_read_to_end(&read, &bytes.size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	t->path = "-";
	bytes.data = read;
	if (!rc)
		rc = read_rows(t, &bytes, NULL, err);
	free(read);
	return rc ? gt_err_prefix(err, "standard input") : 0;
}

static int read_inputs(struct table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	size_t features = 0;
	int rc = 0;

	t->csv->source.unlabelled = true;
	t->csv->source.info.classes = request->classes;
	for (int i = 0; !rc && i < request->input_count; i++) {
		const char *path = request->inputs[i];

		rc = strcmp(path, "-") ? read_file(t, path, NULL, err) : read_stdin(t, err);
		if (!rc && i && t->features != features)
			rc = gt_err_set(err, GT_EINVAL, "'%s' has %zu columns, but '%s' %zu", path,
			    t->features, request->inputs[0], features);
		features = t->features;
	}
	t->csv->names = (const char **)t->words;
	t->words = NULL;
	return rc;
}

static int read_table(struct table *t, const struct gt_spec *spec, struct gt_err *err)
{
	struct gt_data_info *info = &t->csv->source.info;
	int rc = t->request->inputs
	             ? read_inputs(t, err)
	             : read_labelled(t, spec->path, gt_spec_value(spec, "target"), err);

	if (rc)
		return rc;
	info->kind = GT_DATA_VECTOR;
	info->samples = t->csv->source.length = (int64_t)t->rows;
	info->features = (int)t->features;
	info->input_bytes = t->features * sizeof(float);
	info->targets = 1;
	return 0;
}

static int open_csv(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct csv *c = gt_calloc(1, sizeof(*c), err);
	struct table table = { .csv = c, .request = request };
	int rc;

	if (!c)
		return GT_ENOMEM;
	c->source.ops = &csv_ops;
	rc = read_table(&table, spec, err);
	gt_arena_release(&table.arena);
	free(table.words);
	free(table.lines);
	if (rc)
		close_csv(&c->source);
	else
		*out = &c->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "target", "COLUMN", "the last", "the column of the classes: its name, or number from 0" },
	{ 0 }
};

static const char *const input_keys[] = { NULL };

const struct gt_source_kind gt_csv_kind = {
	.form = { .name = "csv",
	    .path = "FILE",
	    .summary = "a table of numbers divided by commas, with a class in each row",
	    .settings = settings,
	    .example = "csv:flowers.csv,target=kind" },
	.input_keys = input_keys,
	.open = open_csv,
};
