/* csv_labels.c - targets of a table that are labels: columns of 0 and 1. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- the fields ---- */

bool gt_csv_is_label(const struct gt_csv_table *t, size_t field)
{
	for (size_t i = 0; i < t->goal.label_count; i++)
		if (t->goal.labels[i] == field)
			return true;
	return false;
}

static int add_label(struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	char name[128];

	if (gt_csv_is_label(t, field))
		return gt_err_set(
		    err, GT_EINVAL, "%s is named twice", gt_csv_field_name(t, field, name));
	t->goal.labels[t->goal.label_count++] = field;
	return 0;
}

static int hint_columns(const struct gt_data_description *like, struct gt_err *err)
{
	return gt_err_hint(
	    err, "labels=COLUMN/... names the columns of the %d labels", like->form.classes);
}

/* Take the labels of the training, by their names. */
static int take_trained_labels(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->like;

	if (!like->class_names || !t->head.names) {
		gt_err_set(err, GT_EFORMAT, "%s",
		    like->class_names ? "there is no header line with the names of the labels"
		                      : "the labels of the training have no names");
		return hint_columns(like, err);
	}
	for (int i = 0; i < like->form.classes; i++) {
		const char *name = like->class_names[i];
		size_t field = gt_csv_find_name(t, name);

		if (field < t->head.fields && !add_label(t, field, err))
			continue;
		gt_err_set(err, GT_EFORMAT,
		    "there is no column '%.100s' of a label that the model "
		    "was trained on",
		    name);
		return hint_columns(like, err);
	}
	return 0;
}

int gt_csv_choose_labels(struct gt_csv_table *t, struct gt_err *err)
{
	const char *list = gt_spec_value(t->spec, "labels");
	const char *other = gt_spec_value(t->spec, "target") ? "target" : "task";
	bool trained = t->like && t->like->form.target == GT_SAMPLE_LABELS;

	t->goal.labels = gt_arena_alloc(&t->arena, t->head.fields * sizeof(size_t), err);
	if (!t->goal.labels)
		return GT_ENOMEM;
	if (list && gt_spec_value(t->spec, other))
		return gt_err_set(
		    err, GT_EINVAL, "data options 'labels' and '%s' cannot be combined", other);
	if (list)
		return gt_csv_use_fields(t, "labels", "to be a label", add_label, err);
	return trained && !gt_spec_value(t->spec, other) ? take_trained_labels(t, err) : 0;
}

/* ---- rows ---- */

static int fail_label(
    const struct gt_csv_table *t, const struct gt_csv_reader *r, size_t field, struct gt_err *err)
{
	char name[128];

	if (gt_csv_is_missing(r->fields[field], false)) {
		gt_err_set(err, GT_EFORMAT, "the label is missing");
		gt_csv_hint_missing(t, err);
	} else {
		gt_err_set(err, GT_EFORMAT, "the label is '%.60s'", r->fields[field]);
		gt_err_hint(err, "a label is 1 if it holds, else 0");
	}
	return gt_err_prefix(err, "line %ld, %s", r->line, gt_csv_field_name(t, field, name));
}

int gt_csv_add_labels(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	size_t count = t->goal.label_count;
	float *row;

	if (!count)
		return 0;
	if (gt_grow(&t->csv->labels, t->rows.count, &t->goal.label_capacity,
	        count * sizeof(*t->csv->labels), err))
		return err->code;
	row = t->csv->labels + t->rows.count * count;
	for (size_t i = 0; i < count; i++) {
		size_t field = t->goal.labels[i];
		double value;

		if (gt_csv_parse(r->fields[field], t->head.decimal, &value) != GT_CSV_NUMBER ||
		    (value != 0 && value != 1))
			return fail_label(t, r, field, err);
		row[i] = (float)value;
	}
	return 0;
}

/* ---- all rows ---- */

/* A model learns nothing from a label that is the same in all rows; but others may vary. */
static int check_varied(const struct gt_csv_table *t, struct gt_err *err)
{
	size_t count = t->rows.count * t->goal.label_count, i = 1;

	while (i < count && t->csv->labels[i] == t->csv->labels[0])
		i++;
	if (i < count || !gt_csv_is_fitted(t))
		return 0;
	gt_err_set(err, GT_EFORMAT, "all labels are %g in all rows", (double)t->csv->labels[0]);
	return gt_err_hint(err, "labels=COLUMN/... names other columns");
}

int gt_csv_finish_labels(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	size_t count = t->goal.label_count;
	const char **names = NULL;
	char name[128];

	s->target = (struct gt_data_column){ .std = 1 };
	s->info.form.target = GT_SAMPLE_LABELS;
	s->info.form.classes = (int)count;
	names = gt_arena_alloc(&s->names, count * sizeof(*names), err);
	for (size_t i = 0; names && i < count; i++) {
		size_t field = t->goal.labels[i];

		names[i] = gt_arena_strdup(&s->names,
		    t->head.names ? t->head.names[field] : gt_csv_field_name(t, field, name), err);
		if (!names[i])
			return GT_ENOMEM;
	}
	s->class_names = names;
	return names ? check_varied(t, err) : GT_ENOMEM;
}
