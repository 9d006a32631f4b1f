/* csv.c - tables: numbers and words, with a target in each row unless they are inputs. */
#include "lib/data/table/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

/* ---- samples ---- */

/* A number on its scale. A missing one is replaced. */
static float scale_number(const struct gt_data_column *column, double cell)
{
	return (float)(((isnan(cell) ? column->fill : cell) - column->mean) / column->std);
}

/* Write the value of a column of whole numbers: a number, or the index of a word. */
static void write_whole(enum gt_field_type type, double cell, float *out)
{
	int32_t whole = (int32_t)cell;

	if (type == GT_FIELD_INT)
		memcpy(out, &whole, sizeof(whole));
	else
		*out = whole != 0;
}

/* Write a row's features: numbers on their scale, a 1 for each word. */
static void write_features(const struct gt_csv *c, const double *cells, float *values)
{
	const struct gt_sample_form *form = &c->source.info.form;

	for (int k = 0; k < c->source.column_count; k++) {
		const struct gt_data_column *column = &c->source.columns[k];
		float *out = values + c->places[k];

		if (column->whole) {
			write_whole(form->fields[column->field].type, cells[k], out);
			continue;
		}
		for (int i = 0; i < column->count; i++)
			*out++ = (int)cells[k] == i;
		if (!column->count)
			*out++ = scale_number(column, cells[k]);
	}
}

/* The cells of a row's target or labels. */
static const double *targets_of(const struct gt_source *self, int64_t index)
{
	const struct gt_csv *c = (const struct gt_csv *)self;

	return c->cells + (size_t)index * c->width + (size_t)self->column_count;
}

static int32_t class_of_row(const struct gt_source *self, int64_t index)
{
	return self->unlabelled ? GT_DATA_IGNORE : (int32_t)*targets_of(self, index);
}

static double number_of(const struct gt_source *self, int64_t index)
{
	return *targets_of(self, index);
}

static int read_csv(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct gt_csv *c = (const struct gt_csv *)self;
	const double *cells = targets_of(self, index);

	(void)part;
	(void)draw;
	(void)err;
	write_features(c, cells - self->column_count, input);
	for (size_t i = 0; i < self->info.targets; i++) {
		float value;

		if (self->info.form.target == GT_SAMPLE_CLASS || self->unlabelled) {
			target[i] = class_of_row(self, index);
			continue;
		}
		value = self->info.form.target == GT_SAMPLE_NUMBER
		            ? scale_number(&self->target, cells[i])
		            : (float)cells[i];
		memcpy(&target[i], &value, sizeof(value));
	}
	return 0;
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
	free(c->names);
	free(c);
}

static const struct gt_source_ops csv_ops = { .read = read_csv,
	.class_of = class_of_row,
	.number = number_of,
	.fit = gt_csv_fit,
	.name = csv_sample_name,
	.close = close_csv };

/* ---- opening ---- */

static int read_labelled(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	int rc = gt_csv_read_file(t, path, err);

	if (rc)
		return rc;
	if (!t->rows) {
		gt_err_set(err, GT_EFORMAT, "a value is missing in every row");
		rc = gt_err_hint(
		    err, "skip=COLUMN leaves out a column; missing=mean fills in numbers");
	}
	if (!rc)
		rc = gt_csv_check_fields(t, err);
	if (!rc)
		rc = gt_csv_finish_targets(t, err);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

static int read_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	int rc = 0;

	t->csv->source.unlabelled = true;
	t->csv->source.info.form.classes = request->form.classes;
	for (int i = 0; !rc && i < request->input_count; i++)
		rc = gt_csv_read_file(t, request->inputs[i], err);
	return rc;
}

/* Check that the scale of numbers here does not have to come from training data that are not known:
 * the mean and the deviation of other data would not be those that the model was trained with. */
static int check_scale(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	bool numbers = s->info.form.target == GT_SAMPLE_NUMBER;

	if (t->like || t->trained_on)
		return 0;
	for (int k = 0; k < s->column_count; k++)
		numbers |= !s->columns[k].count && !s->columns[k].whole;
	s->info.raw = numbers && t->standardise;
	if (gt_data_fills_numbers(s->missing)) {
		gt_err_set(err, GT_EINVAL, "missing=%s: the numbers of the training are not known",
		    gt_data_missing_names[s->missing]);
		return gt_err_hint(err, "missing=drop leaves out rows");
	}
	if (!s->info.raw || !gt_spec_value(t->spec, "standardise"))
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
	s->dialect = (struct gt_data_dialect){ t->separator, t->decimal };
	t->csv->known = t->like || !t->standardise;
	t->csv->fitted = t->like || (t->csv->known && !gt_data_fills_numbers(s->missing));
	info->form.kind = GT_SAMPLE_VECTOR;
	info->samples = s->length = (int64_t)t->rows;
	info->input_bytes = (size_t)info->form.features * sizeof(float);
	info->targets = t->targets ? t->targets : 1;
	return gt_csv_write_notes(t, err);
}

/* ---- settings ---- */

/* Other data for a model most often come out of the same program as those of the training. */
static int read_separator(struct gt_csv_table *t, struct gt_err *err)
{
	const char *value = gt_spec_value(t->spec, "sep");
	char trained = t->request->like ? t->request->like->dialect.separator : 0;

	t->separator = value ? gt_csv_separator(value) : trained ? trained : ',';
	return t->separator ? 0
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
	int decimal = 0;
	const struct {
		const char *key;
		const char *const words[4];
		int *value;
	} choices[] = {
		{ "header", { "auto", "yes", "no" }, &t->header },
		{ "task", { "auto", "classification", "regression" }, &t->task },
		{ "decimal", { "auto", "point", "comma" }, &decimal },
	};
	const struct gt_data_description *like = t->request->like;
	int rc = read_separator(t, err);

	if (like && like->kind_known && like->form.kind == GT_SAMPLE_VECTOR && like->form.features)
		t->like = like;
	t->given = t->like || t->request->inputs;
	t->trained_on = !t->like && (!like || t->request->fit);
	t->fitted = t->request->fit && (!t->like || t->request->new_classes);
	t->standardise = true;
	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices) && !rc; i++)
		rc = gt_spec_choice(
		    t->spec, choices[i].key, choices[i].words, choices[i].value, err);
	if (!rc)
		rc = gt_spec_yes_no(t->spec, "standardise", &t->standardise, err);
	t->given_decimal = "\0.,"[decimal];
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
	for (size_t i = 0; i < table.field_count; i++) {
		gt_index_release(&table.fields[i].index);
		free(table.fields[i].words);
	}
	gt_arena_release(&table.arena);
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
	{ "input.NAME", "COLUMN/...", "of the first input, all that are not given",
	    "the columns of the input NAME of a network that takes several" },
	{ "missing", "error|mean|median|drop|category", "error", "how missing values are treated" },
	{ "standardise", "yes|no", "yes", "scale columns to mean 0 and standard deviation 1" },
	{ 0 }
};

static const char *const input_keys[] = { "sep", "decimal", "header", "standardise", "input.NAME",
	NULL };

const struct gt_source_kind gt_csv_kind = {
	.form = { .name = "csv",
	    .path = "FILE",
	    .summary = "a table of numbers and words, with a class or number to predict",
	    .settings = settings,
	    .example = "csv:flowers.csv,target=kind" },
	.input_keys = input_keys,
	.open = open_csv,
};
