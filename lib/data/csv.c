/* csv.c - tables of numbers with a class in each row. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/csv_reader.h"
#include "lib/data/source.h"

enum { MAX_CLASSES = 1 << 20 };

struct csv {
	struct gt_source source;
	float *features; /* [samples, features] */
	int32_t *targets;
};

/* The table while it is being read. */
struct table {
	struct csv *csv;
	const struct gt_data_request *request;
	struct gt_arena arena;
	size_t columns, target; /* how many, and which one is the target */
	char **names;           /* [columns]; NULL: no header */
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

static int choose_target(struct table *t, const char *wanted, struct gt_err *err)
{
	char *end;
	unsigned long n;

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

static int add_feature(
    struct table *t, size_t at, const struct gt_csv_reader *r, size_t column, struct gt_err *err)
{
	char name[128];
	double value;

	if (!parse_number(r->fields[column], &value)) {
		gt_err_set(err, GT_EFORMAT, "line %ld, %s: '%.60s' is not a number", r->line,
		    column_name(t, column, name, sizeof(name)), r->fields[column]);
		return gt_err_hint(err,
		    "features are finite numbers; target=COLUMN names the column "
		    "of classes");
	}
	t->csv->features[at] = (float)value;
	return 0;
}

/* Room for another row, within the limit: the arrays double, and exist twice while they do. */
static int grow_table(struct table *t, struct gt_err *err)
{
	size_t features = (t->columns - 1) * sizeof(float);
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

static int add_row(struct table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	size_t features = t->columns - 1, at = t->rows * features;
	int rc;

	if (r->count != t->columns) {
		gt_err_set(err, GT_EFORMAT, "line %ld has %zu fields where the first row has %zu",
		    r->line, r->count, t->columns);
		return gt_err_hint(err, "fields are divided by commas; quote those that hold one");
	}
	rc = grow_table(t, err);
	for (size_t i = 0; i < t->columns && !rc; i++)
		if (i != t->target)
			rc = add_feature(t, at++, r, i, err);
	if (rc)
		return rc;
	t->lines[t->rows] = r->line;
	t->words[t->rows] = gt_arena_strdup(&t->arena, r->fields[t->target], err);
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
	if (t->columns < 2) {
		gt_err_set(err, GT_EFORMAT, "line %ld has 1 field", r->line);
		return gt_err_hint(
		    err, "a row needs at least a feature and a class, divided by a comma");
	}
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
	*target = c->targets[index];
	return 0;
}

static void close_csv(struct gt_source *self)
{
	struct csv *c = (struct csv *)self;

	gt_arena_release(&self->names);
	free(c->features);
	free(c->targets);
	free(c);
}

static const struct gt_source_ops csv_ops = { .read = read_csv, .close = close_csv };

static int read_table(
    struct table *t, const struct gt_mapping *map, const char *target, struct gt_err *err)
{
	struct gt_csv_reader r = { .at = map->data ? (const char *)map->data : "", .next_line = 1 };
	struct gt_data_info *info = &t->csv->source.info;
	int rc;

	r.end = r.at + map->size;
	if (map->size >= 3 && !memcmp(r.at, "\xEF\xBB\xBF", 3)) /* byte order mark */
		r.at += 3;
	rc = read_head(t, &r, err);
	if (!rc)
		rc = choose_target(t, target, err);
	if (!rc)
		while ((rc = gt_csv_next_row(&r, err)) > 0 && !(rc = add_row(t, &r, err)))
			;
	gt_csv_release(&r);
	if (!rc)
		rc = number_targets(t, err);
	if (!rc && t->names) {
		t->csv->source.feature_names =
		    keep_names(&t->csv->source, t->names, t->columns, t->target, err);
		rc = t->csv->source.feature_names ? 0 : GT_ENOMEM;
	}
	if (rc)
		return rc;
	info->kind = GT_DATA_VECTOR;
	info->samples = t->csv->source.length = (int64_t)t->rows;
	info->features = (int)t->columns - 1;
	info->input_bytes = (t->columns - 1) * sizeof(float);
	info->targets = 1;
	return 0;
}

int gt_csv_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct csv *c = gt_calloc(1, sizeof(*c), err);
	struct table table = { .csv = c, .request = request };
	struct gt_mapping map;
	int rc;

	if (!c)
		return GT_ENOMEM;
	c->source.ops = &csv_ops;
	rc = gt_map(&map, spec->path, err);
	if (!rc) {
		rc = read_table(&table, &map, gt_spec_value(spec, "target"), err);
		if (rc)
			gt_err_prefix(err, "'%s'", spec->path);
		gt_unmap(&map);
	}
	gt_arena_release(&table.arena);
	free(table.words);
	free(table.lines);
	if (rc)
		close_csv(&c->source);
	else
		*out = &c->source;
	return rc;
}
