/* csv.c - tables: numbers and words, with a target in each row unless they are inputs. */
#include "lib/data/csv.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/mem.h"

double gt_csv_round_digits(double x)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", x);
	return strtod(text, NULL);
}

bool gt_csv_parse_number(const char *s, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(s, &end);
	return end != s && !*end && isfinite(*value) && (errno != ERANGE || fabs(*value) < 1) &&
	       fabs(*value) <= 3.4028234663852886e38; /* FLT_MAX */
}

bool gt_csv_looks_like_number(const char *s)
{
	char *end;

	strtod(s, &end);
	return end != s && !*end;
}

/* Whether a text begins with a digit, after spaces, a sign or a point. */
static bool has_digit(const char *s)
{
	return isdigit((unsigned char)s[strspn(s, " +-.")]);
}

/* Whether the text is a number, in the range of float32 or beyond. The words "inf" and "nan" are
 * not, as they may also be names. */
static bool is_number(const char *s)
{
	return has_digit(s) && gt_csv_looks_like_number(s);
}

bool gt_csv_is_beyond(const char *s)
{
	double value;

	return is_number(s) && !gt_csv_parse_number(s, &value);
}

int gt_csv_hint_unit(const struct gt_csv_table *t, struct gt_err *err)
{
	return gt_err_hint(err, t->like || t->request->inputs ? "leave out the row"
	                                                      : "write the column in another unit");
}

/* Words that may stand in a column of numbers, in upper or lower case, and whether they always mean
 * a missing value. "none" does not, as it may be a category or a class. */
static const struct {
	const char *text;
	bool missing;
} values[] = { { "", true }, { "na", true }, { "n/a", true }, { "nan", true }, { "null", true },
	{ "none", false }, { "inf", false }, { "infinity", false } };

enum { VALUES = sizeof(values) / sizeof(*values) };

/* The index of a word in `values`; VALUES if it is not there. */
static size_t find_value(const char *s)
{
	size_t i = 0;

	while (i < VALUES && strcasecmp(s, values[i].text) != 0)
		i++;
	return i;
}

bool gt_csv_is_missing(const char *s)
{
	size_t i = find_value(s);

	return i < VALUES && values[i].missing;
}

const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char *text, size_t size)
{
	if (t->names)
		snprintf(text, size, "column '%.100s'", t->names[field]);
	else
		snprintf(text, size, "column %zu", field);
	return text;
}

/* ---- rows ---- */

/* Whether a field may be the name of a column of numbers. A missing value, a number that is not
 * finite, and a number with a unit, such as "12%", may be a value of this column instead. */
static bool is_name(const char *s)
{
	return find_value(s + strspn(s, "+-.")) == VALUES && !has_digit(s);
}

/* A header is a first row without a number where the second row has one, and with a name at least
 * once. So a first row with one bad field among numbers is an error, not a header. */
static bool is_header(char **first, char **second, size_t count)
{
	bool name = false;

	for (size_t i = 0; i < count; i++) {
		if (!is_number(second[i]))
			continue;
		if (is_number(first[i]))
			return false;
		name |= is_name(first[i]);
	}
	return name;
}

static int copy_row(
    struct gt_csv_table *t, const struct gt_csv_reader *r, char ***out, struct gt_err *err)
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

/* Look at the first two rows: the number of fields, and whether there is a header. */
static int read_head(struct gt_csv_table *t, struct gt_csv_reader *r, struct gt_err *err)
{
	const char *start = r->at;
	char **first = NULL;
	bool header = t->header == GT_CSV_HEADER_YES;
	int rc = gt_csv_next_row(r, err);

	if (rc <= 0)
		return rc ? rc : gt_err_set(err, GT_EFORMAT, "there are no rows");
	t->fields = r->count;
	rc = copy_row(t, r, &first, err);
	if (!rc)
		rc = gt_csv_next_row(r, err);
	if (rc < 0)
		return rc;
	t->names = first;
	if (t->header == GT_CSV_HEADER_AUTO && gt_csv_names_are_known(t, &header, err))
		return GT_ENOMEM;
	if (rc == 1 && r->count == t->fields && t->header == GT_CSV_HEADER_AUTO && !header)
		header = is_header(first, r->fields, t->fields);
	t->names = header ? first : NULL;
	if (!rc && header)
		return gt_err_set(err, GT_EFORMAT, "there are no rows behind the header");
	/* Back to the first row of values. */
	r->at = start;
	r->next_line = 1;
	rc = t->names ? gt_csv_next_row(r, err) : 0;
	return rc < 0 ? rc : 0;
}

/* Room for another row, within the limit: the arrays double, and exist twice while they do. */
static int grow_table(struct gt_csv_table *t, struct gt_err *err)
{
	size_t cells = t->columns * sizeof(float);
	size_t row = cells + sizeof(*t->targets) + sizeof(*t->lines) + sizeof(*t->csv->numbers);
	int rc = gt_data_check_memory(
	    t->request, 3 * (uint64_t)row * t->rows + t->arena.used, "the table", err);

	if (!rc)
		rc = gt_grow(&t->csv->cells, t->rows, &t->cell_capacity, cells, err);
	if (!rc)
		rc = gt_grow(&t->targets, t->rows, &t->target_capacity, sizeof(*t->targets), err);
	if (!rc)
		rc = gt_grow(&t->lines, t->rows, &t->line_capacity, sizeof(*t->lines), err);
	return rc;
}

/* The target as it is written; of an input, its name. */
static char *word_of(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
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

static int add_row(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	int rc;

	if (r->count != t->fields) {
		gt_err_set(err, GT_EFORMAT, "line %ld has %zu fields where the first row has %zu",
		    r->line, r->count, t->fields);
		return gt_err_hint(
		    err, "fields are divided by '%c'; quote those that hold one", t->separator);
	}
	rc = grow_table(t, err);
	if (!rc)
		rc = gt_csv_add_cells(t, r, err);
	if (rc)
		return rc;
	t->lines[t->rows] = r->line;
	t->targets[t->rows] = word_of(t, r, err);
	if (!t->targets[t->rows])
		return GT_ENOMEM;
	t->rows++;
	return 0;
}

static int read_rows(struct gt_csv_table *t, const struct gt_mapping *map, struct gt_err *err)
{
	struct gt_csv_reader r = { .at = map->data ? (const char *)map->data : "",
		.separator = t->separator,
		.next_line = 1 };
	size_t columns = t->columns; /* of the files before */
	const char *first_row;
	long first_line;
	int rc;

	r.end = r.at + map->size;
	if (map->size >= 3 && !memcmp(r.at, "\xEF\xBB\xBF", 3)) /* byte order mark */
		r.at += 3;
	rc = read_head(t, &r, err);
	if (!rc)
		rc = gt_csv_choose_columns(t, err);
	if (!rc && t->words && t->columns != columns)
		rc = gt_err_set(err, GT_EFORMAT, "%zu columns, but '%s' has %zu", t->columns,
		    t->request->inputs[0], columns);
	if (t->words)
		t->columns = columns;
	first_row = r.at;
	first_line = r.next_line;
	if (!rc)
		while ((rc = gt_csv_next_row(&r, err)) > 0 && !(rc = add_row(t, &r, err)))
			;
	r.at = first_row;
	r.next_line = first_line;
	if (!rc)
		rc = gt_csv_read_again(t, &r, err);
	gt_csv_release(&r);
	return rc;
}

static int read_file(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map(&map, path, err);

	t->path = path;
	if (rc)
		return rc;
	rc = read_rows(t, &map, err);
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	gt_unmap(&map);
	return rc;
}

/* ---- tables with classes ---- */

static int read_labelled(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	int rc = read_file(t, path, err);

	if (rc)
		return rc;
	rc = gt_csv_check_small(t, err);
	if (!rc)
		rc = gt_csv_number_targets(t, err);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

/* ---- inputs ---- */

enum { MAX_STDIN_BYTES = 1 << 30 };

static int read_stdin(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_mapping bytes = { .fd = -1 };
	void *read = NULL;
	int rc = gt_read_to_end(&read, &bytes.size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	t->path = "-";
	bytes.data = read;
	if (!rc)
		rc = read_rows(t, &bytes, err);
	free(read);
	return rc ? gt_err_prefix(err, "standard input") : 0;
}

static int read_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	int rc = 0;

	t->csv->source.unlabelled = true;
	t->csv->source.info.classes = request->classes;
	for (int i = 0; !rc && i < request->input_count; i++) {
		const char *path = request->inputs[i];

		rc = strcmp(path, "-") ? read_file(t, path, err) : read_stdin(t, err);
	}
	t->csv->names = (const char **)t->targets;
	t->targets = NULL;
	return rc;
}

/* ---- samples ---- */

/* Write a row's features: numbers on their scale, a 1 for each word. */
static void write_features(const struct gt_csv *c, const float *cells, float *out)
{
	for (int k = 0; k < c->source.column_count; k++) {
		const struct gt_data_column *column = &c->source.columns[k];

		for (int i = 0; i < column->count; i++)
			*out++ = (int)cells[k] == i;
		if (!column->count)
			*out++ = (float)(((double)cells[k] + (column->offset - column->mean)) /
			                 column->std);
	}
}

static int read_csv(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct gt_csv *c = (const struct gt_csv *)self;

	(void)part;
	(void)draw;
	(void)err;
	write_features(c, c->cells + (size_t)index * (size_t)self->column_count, input);
	*target = c->targets ? c->targets[index] : GT_DATA_IGNORE;
	if (c->numbers) {
		float value = (float)((c->numbers[index] - self->target.mean) / self->target.std);

		memcpy(target, &value, sizeof(value));
	}
	return 0;
}

/* The number of a row in column k, minus the offset of the column; the target is the column behind
 * the last. */
static double number_at(const struct gt_csv *c, int64_t row, int k)
{
	int columns = c->source.column_count;

	return k < columns ? (double)c->cells[(size_t)row * (size_t)columns + (size_t)k]
	                   : c->numbers[row];
}

/* Numbers are added relative to the first one: in a column that does not vary, all differences are
 * exactly 0. */
static double mean_from(const struct gt_csv *c, int k, const int64_t *index, int64_t count)
{
	double first = number_at(c, index[0], k), sum = 0;

	for (int64_t i = 0; i < count; i++)
		sum += number_at(c, index[i], k) - first;
	return sum / (double)count;
}

/* The standard deviation of numbers from first + mean. Squares of small ones would be 0, so
 * deviations are divided by a power of two that is near the largest. */
static double deviation_from(
    const struct gt_csv *c, int k, double mean, const int64_t *index, int64_t count)
{
	double first = number_at(c, index[0], k), largest = 0, square = 0;
	int exponent;

	for (int64_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(number_at(c, index[i], k) - first - mean));
	frexp(largest, &exponent);
	for (int64_t i = 0; i < count; i++) {
		double d = ldexp(number_at(c, index[i], k) - first - mean, -exponent);

		square += d * d;
	}
	return ldexp(sqrt(square / (double)count), exponent);
}

/* The mean is rounded to 15 digits if this moves the features by no more than 1e-4. Rounding would
 * move them further where numbers are large and near each other (1.7e18, 1.7e18 + 256), and in a
 * column of one number such as 1e38: its deviation is 0. */
static double round_mean(double mean, double std)
{
	double rounded = gt_csv_round_digits(mean);

	return fabs(rounded - mean) <= 1e-4 * std ? rounded : mean;
}

/* A column that does not vary keeps its scale. */
static void fit_column(
    struct gt_csv *c, struct gt_data_column *column, int k, const int64_t *index, int64_t count)
{
	double mean = mean_from(c, k, index, count);
	double std = deviation_from(c, k, mean, index, count);

	column->mean = round_mean(column->offset + (number_at(c, index[0], k) + mean), std);
	column->std = gt_csv_round_digits(std);
	if (!(column->std > 0) || column->std > FLT_MAX)
		column->std = 1;
}

static void fit(struct gt_source *self, const int64_t *index, int64_t count)
{
	struct gt_csv *c = (struct gt_csv *)self;

	for (int k = 0; k < self->column_count && !c->known; k++)
		if (!self->columns[k].count)
			fit_column(c, &self->columns[k], k, index, count);
	if (self->info.regression && !c->target_known)
		fit_column(c, &self->target, self->column_count, index, count);
}

static double number_of(const struct gt_source *self, int64_t index)
{
	return ((const struct gt_csv *)self)->numbers[index];
}

static const char *name_of(const struct gt_source *self, int64_t index)
{
	const struct gt_csv *c = (const struct gt_csv *)self;

	return c->names ? c->names[index] : NULL;
}

static void close_csv(struct gt_source *self)
{
	struct gt_csv *c = (struct gt_csv *)self;

	gt_arena_release(&self->names);
	free(c->cells);
	free(c->targets);
	free(c->numbers);
	free(c->names);
	free(c);
}

static const struct gt_source_ops csv_ops = {
	.read = read_csv, .number = number_of, .fit = fit, .name = name_of, .close = close_csv
};

/* ---- opening ---- */

/* Whether the scale of numbers here would have to come from training data, which are not known. The
 * mean and the deviation of other data would not be those that the model was trained with. */
static bool lacks_scale(const struct gt_csv_table *t)
{
	const struct gt_source *s = &t->csv->source;
	bool numbers = s->info.regression;

	for (int k = 0; k < s->column_count; k++)
		numbers |= !s->columns[k].count;
	return numbers && t->standardise && !t->like && !gt_csv_is_trained_on(t);
}

static int check_scale(struct gt_csv_table *t, struct gt_err *err)
{
	t->csv->source.info.raw = lacks_scale(t);
	if (!t->csv->source.info.raw || !gt_spec_value(t->spec, "standardise"))
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "standardise=yes: the mean and standard deviation of the training are not known");
	return gt_err_hint(err, "standardise=no reads numbers as they are");
}

static int read_table(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	struct gt_data_info *info = &s->info;
	int rc = t->request->inputs ? read_inputs(t, err) : read_labelled(t, t->spec->path, err);

	if (!rc)
		rc = gt_csv_finish_columns(t, err);
	if (!rc)
		rc = check_scale(t, err);
	if (rc)
		return rc;
	t->csv->known = t->like || !t->standardise;
	info->kind = GT_DATA_VECTOR;
	info->samples = s->length = (int64_t)t->rows;
	info->input_bytes = (size_t)info->features * sizeof(float);
	info->targets = 1;
	return gt_csv_write_notes(t, err);
}

static int read_separator(struct gt_csv_table *t, struct gt_err *err)
{
	static const struct {
		const char *word;
		char separator;
	} words[] = { { "comma", ',' }, { "tab", '\t' }, { "semicolon", ';' }, { "bar", '|' } };
	const char *value = gt_spec_value(t->spec, "sep");

	t->separator = ',';
	if (!value)
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(value, words[i].word) || (*value == words[i].separator && !value[1])) {
			t->separator = words[i].separator;
			return 0;
		}
	return gt_err_set(
	    err, GT_EINVAL, "data option 'sep=%s': not comma, tab, semicolon or bar", value);
}

static int read_settings(struct gt_csv_table *t, struct gt_err *err)
{
	static const char *const header[] = { "auto", "yes", "no", NULL };
	static const char *const tasks[] = { "auto", "classification", "regression", NULL };
	const struct gt_data_description *like = t->request->like;
	int rc = read_separator(t, err);

	t->standardise = true;
	if (!rc)
		rc = gt_spec_choice(t->spec, "header", header, &t->header, err);
	if (!rc)
		rc = gt_spec_choice(t->spec, "task", tasks, &t->task, err);
	if (!rc)
		rc = gt_spec_yes_no(t->spec, "standardise", &t->standardise, err);
	if (like && like->kind_known && like->kind == GT_DATA_VECTOR && like->features)
		t->like = like;
	return rc;
}

static int open_csv(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_csv *c = gt_calloc(1, sizeof(*c), err);
	struct gt_csv_table table = { .csv = c, .spec = spec, .request = request };
	int rc;

	if (!c)
		return GT_ENOMEM;
	c->source.ops = &csv_ops;
	rc = read_settings(&table, err);
	if (!rc)
		rc = read_table(&table, err);
	gt_csv_release_words(&table);
	gt_arena_release(&table.arena);
	free(table.targets);
	free(table.lines);
	if (rc)
		close_csv(&c->source);
	else
		*out = &c->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "target", "COLUMN", "the last not skipped",
	    "the column of the targets: its name, or number from 0" },
	{ "task", "auto|classification|regression", "auto",
	    "whether targets are classes or numbers" },
	{ "sep", "comma|tab|semicolon|bar", "comma", "the character between the fields of a row" },
	{ "header", "auto|yes|no", "auto", "whether the first line names the columns" },
	{ "skip", "COLUMN/...", "none", "columns to ignore, by name or number" },
	{ "categories", "COLUMN/...", "none",
	    "columns of categories, even if they contain numbers" },
	{ "standardise", "yes|no", "yes", "scale columns to mean 0 and standard deviation 1" },
	{ 0 }
};

static const char *const input_keys[] = { "sep", "header", "standardise", NULL };

const struct gt_source_kind gt_csv_kind = {
	.form = { .name = "csv",
	    .path = "FILE",
	    .summary = "a table of numbers and words, with a class or number to predict",
	    .settings = settings,
	    .example = "csv:flowers.csv,target=kind" },
	.input_keys = input_keys,
	.open = open_csv,
};
