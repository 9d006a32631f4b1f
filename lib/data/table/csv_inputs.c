/* csv_inputs.c - columns of a table as the inputs of a network that takes several. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/data/core/fields.h"
#include "lib/data/table/csv.h"

static const char how[] = "csv:FILE,input.NAME=COLUMN/... gives columns to an input";

/* ---- the input of each column ---- */

/* The input that column k had in training. Arrays had no columns: their values follow each other in
 * the order of the inputs. */
static const char *known_input(const struct gt_data_description *like, int k)
{
	int64_t end = 0;

	if (like->columns)
		return like->form.fields[like->columns[k].field].name;
	for (int i = 0; i < like->form.field_count; i++) {
		end += gt_field_values(&like->form.fields[i]);
		if (k < end)
			return like->form.fields[i].name;
	}
	return "";
}

void gt_csv_begin_inputs(struct gt_csv_table *t)
{
	const struct gt_data_description *like = t->like;
	bool known = like && like->form.field_count &&
	             (!like->columns || like->column_count == (int)t->columns);

	for (struct gt_csv_field *f = t->fields; f < t->fields + t->field_count; f++) {
		int i = 0;

		if (f->role != GT_CSV_FEATURE)
			continue;
		if (known)
			i = gt_sample_field_find(
			    &t->request->form, known_input(like, (int)f->place));
		f->input = i < 0 ? 0 : i;
		f->given = false;
		f->trained_input = known && like->columns && i >= 0;
	}
}

/* Leave out the inputs that need no columns, and have none. */
int gt_csv_choose_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_sample_form *form = &t->request->form;
	int numbers[GT_MAX_FIELDS];
	bool has[GT_MAX_FIELDS] = { false };

	for (size_t i = 0; i < t->field_count; i++)
		if (t->fields[i].role == GT_CSV_FEATURE)
			has[t->fields[i].input] = true;
	t->input_count = 0;
	for (int i = 0; i < form->field_count; i++) {
		if (!has[i] && !gt_field_may_lack(&form->fields[i])) {
			gt_err_set(err, GT_EINVAL, "no column is for the input '%s'",
			    form->fields[i].name);
			return gt_fields_hint(t->request, how, err);
		}
		numbers[i] = t->input_count;
		if (has[i])
			t->inputs[t->input_count++] = form->fields[i];
	}
	for (struct gt_csv_field *f = t->fields; f < t->fields + t->field_count; f++) {
		if (f->role != GT_CSV_FEATURE)
			continue;
		f->input = numbers[f->input];
		f->whole = t->inputs[f->input].type != GT_FIELD_FLOAT;
	}
	return 0;
}

int gt_csv_check_whole(const struct gt_csv_table *t, const struct gt_csv_field *f, double value,
    long line, struct gt_err *err)
{
	const struct gt_sample_field *input = &t->inputs[f->input];
	char name[128];

	if (value == floor(value) && fabs(value) <= INT32_MAX)
		return 0;
	gt_err_set(err, GT_EFORMAT,
	    "line %ld, %s: %g is no whole number, which the network takes as '%s' (%s)", line,
	    gt_csv_field_name(t, f, name), value, input->name, gt_field_type_name(input->type));
	return gt_fields_hint(t->request, how, err);
}

/* ---- samples ---- */

/* Set the shape of a field that has so many values here. At most one of its sizes is open. */
static int set_shape(struct gt_sample_field *f, int64_t values, struct gt_err *err)
{
	char wanted[GT_FIELD_SHAPE];
	int64_t fixed = 1;
	int open = 0, last = 0;

	for (int i = 0; i < f->ndim; i++) {
		if (f->open >> i & 1) {
			open++;
			last = i;
		} else {
			fixed *= f->shape[i] > 0 && fixed <= GT_FIELD_VALUES ? f->shape[i] : 1;
		}
	}
	if (open > 1 || values % fixed || (!open && values != fixed))
		return gt_err_set(err, GT_EFORMAT,
		    "the columns of the input '%s' make %lld value%s, but the network takes '%s' of "
		    "the shape %s",
		    f->name, (long long)values, values == 1 ? "" : "s", f->name,
		    gt_field_shape_text(wanted, f));
	if (open)
		f->shape[last] = (int)(values / fixed);
	f->open = 0;
	return 0;
}

/* Two words stand for false and true, in the order of their bytes. */
static int check_words(const struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_source *s = &t->csv->source;

	for (int k = 0; k < s->column_count; k++) {
		const struct gt_data_column *c = &s->columns[k];

		if (t->inputs[c->field].type == GT_FIELD_BOOL && c->count > 2)
			return gt_err_set(err, GT_EFORMAT,
			    "column '%.100s' has %d words, but the network takes '%s' (bool)",
			    c->name ? c->name : "", c->count, t->inputs[c->field].name);
	}
	return 0;
}

static int set_fields(struct gt_csv_table *t, const int *values, struct gt_err *err)
{
	struct gt_data_info *info = &t->csv->source.info;
	int rc = check_words(t, err);

	info->form.kind = GT_SAMPLE_VECTOR;
	info->form.field_count = t->input_count;
	for (int i = 0; i < t->input_count && !rc; i++) {
		info->form.fields[i] = t->inputs[i];
		rc = set_shape(&info->form.fields[i], values[i], err);
	}
	return rc ? gt_fields_hint(t->request, how, err) : gt_fields_finish(info, err);
}

int gt_csv_place_values(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	int values[GT_MAX_FIELDS] = { 0 }, at = 0;

	t->csv->places = gt_arena_alloc(&s->names, t->columns * sizeof(*t->csv->places), err);
	if (!t->csv->places)
		return GT_ENOMEM;
	for (int i = 0; i < (t->input_count ? t->input_count : 1); i++)
		for (int k = 0; k < s->column_count; k++) {
			if (s->columns[k].field != i)
				continue;
			t->csv->places[k] = at;
			at += gt_data_column_width(&s->columns[k]);
			values[i] += gt_data_column_width(&s->columns[k]);
		}
	return t->input_count ? set_fields(t, values, err) : 0;
}
