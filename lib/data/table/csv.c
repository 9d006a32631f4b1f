/* csv.c - tables: numbers and words, with a target in each row unless they are inputs. */
#include "lib/data/table/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char text[128])
{
	if (t->head.names && *t->head.names[field])
		snprintf(text, 128, "column '%.100s'", t->head.names[field]);
	else
		snprintf(text, 128, "column %zu", field);
	return text;
}

const char *gt_csv_field_key(const struct gt_csv_table *t, size_t field, char text[64])
{
	const char *name = t->head.names ? t->head.names[field] : "";

	if (*name && strlen(name) < 64 && !strpbrk(name, ",/\\'\" "))
		snprintf(text, 64, "%s", name);
	else
		snprintf(text, 64, "%zu", field);
	return text;
}

bool gt_csv_is_trained_on(const struct gt_csv_table *t)
{
	return !t->like && (!t->request->like || t->request->fit);
}

bool gt_csv_is_fitted(const struct gt_csv_table *t)
{
	return t->request->fit && (!t->like || t->request->new_classes);
}

/* ---- the first rows ---- */

static struct gt_csv_reader open_reader(const struct gt_csv_table *t)
{
	return (struct gt_csv_reader){ .separator = t->set.separator,
		.at = t->text.at,
		.end = t->text.at + t->text.size,
		.next_line = 1 };
}

int gt_csv_open_rows(const struct gt_csv_table *t, struct gt_csv_reader *out, struct gt_err *err)
{
	int rc;

	*out = open_reader(t);
	rc = t->head.names ? gt_csv_next_row(out, err) : 0;
	return rc < 0 ? rc : 0;
}

static int fail_no_rows(const char *where, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "there are no rows%s", where);
	return gt_err_hint(err, "a table has one row of fields for each sample");
}

static int copy_row(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	t->head.fields = r->count;
	t->head.first = gt_arena_alloc(&t->arena, r->count * sizeof(char *), err);
	for (size_t i = 0; t->head.first && i < r->count; i++) {
		t->head.first[i] = gt_arena_strdup(&t->arena, r->fields[i], err);
		if (!t->head.first[i])
			return GT_ENOMEM;
	}
	return t->head.first ? 0 : GT_ENOMEM;
}

static void choose_decimal(struct gt_csv_table *t)
{
	struct gt_csv_reader r = open_reader(t);
	bool comma = t->request->like && t->request->like->dialect.decimal == ',';

	if (t->set.decimal == GT_CSV_DECIMAL_AUTO)
		t->head.decimal = gt_csv_guess_decimal(&r, comma ? ',' : '.');
	else
		t->head.decimal = t->set.decimal == GT_CSV_DECIMAL_COMMA ? ',' : '.';
	gt_csv_reader_release(&r);
}

/* A header is a first row without a number where the second row has one, and with a name at least
 * once. So a first row with one bad field among numbers is an error, not a header. */
static bool is_header(const struct gt_csv_table *t, const struct gt_csv_reader *second)
{
	bool name = false;
	double value;

	if (second->count != t->head.fields)
		return false;
	for (size_t i = 0; i < t->head.fields; i++) {
		if (gt_csv_parse(second->fields[i], t->head.decimal, &value) < GT_CSV_BEYOND)
			continue;
		if (gt_csv_parse(t->head.first[i], t->head.decimal, &value) >= GT_CSV_BEYOND)
			return false;
		name |= gt_csv_is_name(t->head.first[i], t->head.decimal);
	}
	return name;
}

/* Find the number of fields, the decimal point or comma, and whether there is a header. */
static int read_head(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_csv_reader r = open_reader(t);
	bool header = t->set.header == GT_CSV_HEADER_YES;
	int rc = gt_csv_next_row(&r, err);

	choose_decimal(t);
	if (!rc)
		rc = fail_no_rows("", err);
	else if (rc > 0)
		rc = copy_row(t, &r, err);
	if (!rc)
		rc = gt_csv_next_row(&r, err);
	if (rc >= 0 && t->set.header == GT_CSV_HEADER_AUTO)
		header = gt_csv_names_are_known(t) || (rc > 0 && is_header(t, &r));
	t->head.names = header ? t->head.first : NULL;
	if (!rc && header)
		rc = fail_no_rows(" behind the header", err);
	gt_csv_reader_release(&r);
	return rc < 0 ? rc : 0;
}

/* ---- rows ---- */

/* Room for another row, within the limit: the arrays double, and exist twice while they do. */
static int grow_table(struct gt_csv_table *t, struct gt_err *err)
{
	size_t cells = t->column_count * sizeof(*t->csv->cells);
	size_t row = cells + sizeof(*t->rows.targets) + sizeof(*t->rows.lines) +
	             sizeof(*t->csv->numbers) + t->goal.label_count * sizeof(*t->csv->labels);
	int rc = gt_data_check_memory(
	    t->request, 3 * (uint64_t)row * t->rows.count + t->arena.used, "the table", err);

	if (!rc)
		rc = gt_grow(&t->csv->cells, t->rows.count, &t->rows.cell_capacity, cells, err);
	if (!rc)
		rc = gt_grow(&t->rows.targets, t->rows.count, &t->rows.target_capacity,
		    sizeof(*t->rows.targets), err);
	if (!rc)
		rc = gt_grow(&t->rows.lines, t->rows.count, &t->rows.line_capacity,
		    sizeof(*t->rows.lines), err);
	return rc;
}

/* The name of a row for predictions, "FILE:LINE". */
static char *name_row(struct gt_csv_table *t, long line, struct gt_err *err)
{
	size_t size = strlen(t->path) + 32;
	char *name = gt_arena_alloc(&t->csv->source.names, size, err);

	if (name)
		snprintf(name, size, "%s:%ld", t->path, line);
	return name;
}

/* A row of a table with a target keeps it as it is written; an input keeps its name. */
static char *word_of(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	return t->request->inputs ? name_row(t, r->line, err)
	                          : gt_arena_strdup(&t->arena, r->fields[t->goal.field], err);
}

/* Whether a row is left out, because a value that is used is missing. */
static bool is_dropped(const struct gt_csv_table *t, const struct gt_csv_reader *r)
{
	bool dropped = false;

	if (t->csv->source.missing != GT_DATA_MISSING_DROP || t->request->inputs)
		return false;
	for (size_t i = 0; i < t->head.fields && !dropped; i++) {
		bool target = i == t->goal.field || gt_csv_is_label(t, i);
		int place = t->head.place[i];

		dropped = (target || place != GT_CSV_NOWHERE) &&
		          gt_csv_is_missing(r->fields[i], !target && !t->columns[place].text);
	}
	return dropped;
}

static int add_table_row(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	int rc;

	if (r->count != t->head.fields) {
		gt_err_set(err, GT_EFORMAT, "line %ld has %zu fields where the first row has %zu",
		    r->line, r->count, t->head.fields);
		return gt_err_hint(
		    err, "fields are divided by '%c'; quote those that hold one", t->set.separator);
	}
	if (is_dropped(t, r)) {
		t->rows.dropped++;
		return 0;
	}
	rc = grow_table(t, err);
	if (!rc)
		rc = gt_csv_add_cells(t, r, err);
	if (!rc)
		rc = gt_csv_add_labels(t, r, err);
	if (rc)
		return rc;
	t->rows.lines[t->rows.count] = r->line;
	t->rows.targets[t->rows.count] = t->goal.label_count ? NULL : word_of(t, r, err);
	if (!t->rows.targets[t->rows.count] && !t->goal.label_count)
		return GT_ENOMEM;
	t->rows.count++;
	return 0;
}

static int read_rows(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_csv_reader r;
	int rc = read_head(t, err);

	if (!rc)
		rc = gt_csv_choose_columns(t, err);
	if (!rc)
		rc = gt_csv_type_columns(t, err);
	if (rc)
		return rc;
	rc = gt_csv_open_rows(t, &r, err);
	if (!rc)
		while ((rc = gt_csv_next_row(&r, err)) > 0 && !(rc = add_table_row(t, &r, err)))
			;
	gt_csv_reader_release(&r);
	return rc;
}

/* Read the rows of a file; "-" is standard input for inputs. */
static int read_table_file(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	bool is_stdin = t->request->inputs && !strcmp(path, "-");
	int rc = gt_csv_text_open(&t->text, path, is_stdin, t->request, err);

	t->path = path;
	if (!rc) {
		rc = read_rows(t, err);
		if (rc)
			gt_csv_text_prefix(path, is_stdin, err);
	}
	gt_csv_text_close(&t->text);
	return rc;
}

/* ---- tables with classes ---- */

/* Rows that were left out would shift the numbers of those behind them. */
static int name_rows(struct gt_csv_table *t, struct gt_err *err)
{
	t->csv->names = gt_calloc(t->rows.count, sizeof(*t->csv->names), err);
	for (size_t i = 0; t->csv->names && i < t->rows.count; i++) {
		t->csv->names[i] = name_row(t, t->rows.lines[i], err);
		if (!t->csv->names[i])
			return GT_ENOMEM;
	}
	return t->csv->names ? 0 : GT_ENOMEM;
}

static int fail_all_dropped(struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "a value is missing in every row");
	return gt_err_hint(err, "skip=COLUMN leaves out a column; missing=mean fills in numbers");
}

static int read_labelled(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	int rc = read_table_file(t, path, err);

	if (rc)
		return rc;
	if (!t->rows.count)
		rc = fail_all_dropped(err);
	if (!rc)
		rc = gt_csv_check_words(t, err);
	if (!rc)
		rc = t->goal.label_count ? gt_csv_finish_labels(t, err)
		                         : gt_csv_number_targets(t, err);
	if (!rc)
		rc = gt_csv_check_digits(t, err);
	if (!rc && t->rows.dropped && t->like)
		rc = name_rows(t, err);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

/* ---- inputs ---- */

static int read_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	int rc = 0;

	t->csv->source.unlabelled = true;
	t->csv->source.info.form.classes = request->form.classes;
	for (int i = 0; !rc && i < request->input_count; i++)
		rc = read_table_file(t, request->inputs[i], err);
	t->csv->names = (const char **)t->rows.targets;
	t->rows.targets = NULL;
	return rc;
}

/* ---- samples ---- */

/* A number on its scale. A missing one is replaced. */
static float scale_number(const struct gt_data_column *column, double cell)
{
	return (float)(((isnan(cell) ? column->fill : cell) - column->mean) / column->std);
}

/* Write a row's features: numbers on their scale, a 1 for each word. */
static void write_features(const struct gt_csv *c, const double *cells, float *out)
{
	for (int k = 0; k < c->source.column_count; k++) {
		const struct gt_data_column *column = &c->source.columns[k];

		for (int i = 0; i < column->count; i++)
			*out++ = (int)cells[k] == i;
		if (!column->count)
			*out++ = scale_number(column, cells[k]);
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
	for (size_t i = 0; i < self->info.targets; i++)
		target[i] = c->targets ? c->targets[index] : GT_DATA_IGNORE;
	if (c->labels)
		memcpy(target, c->labels + (size_t)index * self->info.targets,
		    self->info.targets * sizeof(*c->labels));
	if (c->numbers) {
		float value = (float)((c->numbers[index] - self->target.mean) / self->target.std);

		memcpy(target, &value, sizeof(value));
	}
	return 0;
}

static double number_of(const struct gt_source *self, int64_t index)
{
	return ((const struct gt_csv *)self)->numbers[index];
}

static const char *csv_sample_name(const struct gt_source *self, int64_t index)
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
	free(c->labels);
	free(c->names);
	free(c);
}

static int32_t class_of_row(const struct gt_source *self, int64_t index)
{
	return ((const struct gt_csv *)self)->targets[index];
}

static const struct gt_source_ops csv_ops = { .read = read_csv,
	.class_of = class_of_row,
	.number = number_of,
	.fit = gt_csv_fit,
	.name = csv_sample_name,
	.close = close_csv };

/* ---- opening ---- */

/* Whether the scale of numbers here would have to come from training data, which are not known. The
 * mean and the deviation of other data would not be those that the model was trained with. */
static bool lacks_scale(const struct gt_csv_table *t)
{
	const struct gt_source *s = &t->csv->source;
	bool numbers = s->info.form.target == GT_SAMPLE_NUMBER;

	for (int k = 0; k < s->column_count; k++)
		numbers |= !s->columns[k].count;
	return numbers && t->set.standardise && !t->like && !gt_csv_is_trained_on(t);
}

static int check_scale(struct gt_csv_table *t, struct gt_err *err)
{
	enum gt_data_missing missing = t->csv->source.missing;

	t->csv->source.info.raw = lacks_scale(t);
	if (gt_data_fills_numbers(missing) && !t->like && !gt_csv_is_trained_on(t)) {
		gt_err_set(err, GT_EINVAL, "missing=%s: the numbers of the training are not known",
		    gt_data_missing_names[missing]);
		return gt_err_hint(err, "missing=drop leaves out rows");
	}
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
	s->dialect = (struct gt_data_dialect){ t->set.separator, t->head.decimal };
	t->csv->known = t->like || !t->set.standardise;
	t->csv->fitted = t->like || (t->csv->known && !gt_data_fills_numbers(s->missing));
	info->form.kind = GT_SAMPLE_VECTOR;
	info->samples = s->length = (int64_t)t->rows.count;
	info->input_bytes = (size_t)info->form.features * sizeof(float);
	info->targets = t->goal.label_count ? t->goal.label_count : 1;
	return gt_csv_write_notes(t, err);
}

/* Other data for a model most often come out of the same program as those of the training. */
static int read_separator(struct gt_csv_table *t, struct gt_err *err)
{
	const char *value = gt_spec_value(t->spec, "sep");
	char trained = t->request->like ? t->request->like->dialect.separator : 0;

	t->set.separator = value ? gt_csv_separator(value) : trained ? trained : ',';
	return t->set.separator
	           ? 0
	           : gt_err_set(err, GT_EINVAL,
	                 "data option 'sep=%s': not comma, tab, semicolon or bar", value);
}

/* Other data for a model are read with its statistics, so they have its setting; but their rows may
 * be left out. Inputs of predictions need all rows. */
static int read_missing(struct gt_csv_table *t, struct gt_err *err)
{
	const char *value = gt_spec_value(t->spec, "missing");
	enum gt_data_missing *missing = &t->csv->source.missing;
	int chosen = t->like ? (int)t->like->missing : GT_DATA_MISSING_ERROR;
	int rc = gt_spec_choice(t->spec, "missing", gt_data_missing_names, &chosen, err);

	*missing = (enum gt_data_missing)chosen;
	if (rc || !value || !t->like || *missing == t->like->missing)
		return rc;
	if (*missing == GT_DATA_MISSING_DROP || *missing == GT_DATA_MISSING_ERROR)
		return 0;
	gt_err_set(err, GT_EINVAL, "missing=%s, but the model was trained with missing=%s", value,
	    gt_data_missing_names[t->like->missing]);
	return gt_err_hint(err, "missing=drop leaves out rows");
}

static int read_settings(struct gt_csv_table *t, struct gt_err *err)
{
	const struct {
		const char *key;
		const char *const words[4];
		int *value;
	} choices[] = {
		{ "header", { "auto", "yes", "no" }, &t->set.header },
		{ "task", { "auto", "classification", "regression" }, &t->set.task },
		{ "decimal", { "auto", "point", "comma" }, &t->set.decimal },
	};
	const struct gt_data_description *like = t->request->like;
	int rc = read_separator(t, err);

	t->set.standardise = true;
	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices) && !rc; i++)
		rc = gt_spec_choice(
		    t->spec, choices[i].key, choices[i].words, choices[i].value, err);
	if (!rc)
		rc = gt_spec_yes_no(t->spec, "standardise", &t->set.standardise, err);
	if (like && like->kind_known && like->form.kind == GT_SAMPLE_VECTOR && like->form.features)
		t->like = like;
	return rc ? rc : read_missing(t, err);
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
	gt_csv_release_columns(&table);
	gt_arena_release(&table.arena);
	free(table.rows.targets);
	free(table.rows.lines);
	if (rc)
		close_csv(&c->source);
	else
		*out = &c->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "target", "COLUMN", "the last not skipped",
	    "the column of the targets: its name, or number from 0" },
	{ "labels", "COLUMN/...", "none",
	    "columns of labels, each 1 or 0, in place of a target: several may hold for a row" },
	{ "task", "auto|classification|regression", "auto",
	    "whether targets are classes or numbers" },
	{ "sep", "comma|tab|semicolon|bar", "as in training, else comma",
	    "the character between the fields of a row" },
	{ "decimal", "auto|point|comma", "auto", "the character before the fraction of a number" },
	{ "header", "auto|yes|no", "auto", "whether the first line names the columns" },
	{ "skip", "COLUMN/...", "none", "columns to ignore, by name or number" },
	{ "categories", "COLUMN/...", "none",
	    "columns of categories, even if they contain numbers" },
	{ "missing", "error|mean|median|drop|category", "error", "how missing values are treated" },
	{ "standardise", "yes|no", "yes", "scale columns to mean 0 and standard deviation 1" },
	{ 0 }
};

static const char *const input_keys[] = { "sep", "decimal", "header", "standardise", NULL };

const struct gt_source_kind gt_csv_kind = {
	.form = { .name = "csv",
	    .path = "FILE",
	    .summary = "a table of numbers and words, with a class or number to predict",
	    .settings = settings,
	    .example = "csv:flowers.csv,target=kind" },
	.input_keys = input_keys,
	.open = open_csv,
};
