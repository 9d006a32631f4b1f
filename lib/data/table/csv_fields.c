/* csv_fields.c - the fields of a table: which one is the target, and which ones are columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/fields.h"
#include "lib/data/table/csv.h"

/* ---- names ---- */

/* The field with a name, looked for from a field on and then from the first; NULL: none has it.
 * Names that are looked up in the order of the file are found at once. */
static struct gt_csv_field *find_field(
    const struct gt_csv_table *t, const char *name, const struct gt_csv_field *from)
{
	size_t start = from ? (size_t)(from - t->fields) : 0;

	for (size_t i = 0; i < t->field_count; i++) {
		struct gt_csv_field *f = &t->fields[(start + i) % t->field_count];

		if (!strcmp(f->head, name))
			return f;
	}
	return NULL;
}

/* Fail for two fields of one name. */
static int fail_twice(const struct gt_csv_table *t, const struct gt_csv_field *first,
    const struct gt_csv_field *second, enum gt_code code, struct gt_err *err)
{
	size_t number = (size_t)(second - t->fields);

	gt_err_set(err, code, "columns %zu and %zu have the same name, '%.100s'",
	    (size_t)(first - t->fields), number, first->head);
	if (t->request->inputs)
		return gt_err_hint(err, "rename one of them");
	return gt_err_hint(
	    err, "rename one of them, or name it by its number, from 0: skip=%zu", number);
}

/* Find a field by its name, or by its number from 0. */
static int find_named(
    const struct gt_csv_table *t, const char *wanted, struct gt_csv_field **out, struct gt_err *err)
{
	size_t last = t->field_count - 1, number;
	struct gt_csv_field *again;
	char *end;

	*out = t->named ? find_field(t, wanted, NULL) : NULL;
	if (*out) {
		again = find_field(t, wanted, *out + 1);
		return again == *out ? 0 : fail_twice(t, *out, again, GT_EINVAL, err);
	}
	number = strtoul(wanted, &end, 10);
	if (*wanted >= '0' && *wanted <= '9' && !*end && number <= last) {
		*out = &t->fields[number];
		return 0;
	}
	gt_err_set(err, GT_EINVAL, "there is no column '%.100s'", wanted);
	if (t->named)
		return gt_err_hint(err, "columns: '%s' to '%s', or 0 to %zu", t->fields[0].head,
		    t->fields[last].head, last);
	return gt_err_hint(err, "the file has no header line; columns are 0 to %zu", last);
}

/* Columns are found by their names, so no two fields that may be used have the same name. */
static int check_names(const struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_index index = { gt_index_by_name, NULL };
	int rc = 0;

	for (struct gt_csv_field *f = t->fields; f < t->fields + t->field_count && !rc; f++) {
		struct gt_csv_field *same =
		    f->role == GT_CSV_SKIPPED ? f : gt_index_add(&index, f, err);

		if (same != f)
			rc = same ? fail_twice(t, same, f, GT_EFORMAT, err) : GT_ENOMEM;
	}
	gt_index_release(&index);
	return rc;
}

/* ---- roles ---- */

static int fail_field(
    const struct gt_csv_table *t, const struct gt_csv_field *f, const char *why, struct gt_err *err)
{
	char name[128];

	return gt_err_set(err, GT_EINVAL, "%s %s", gt_csv_field_name(t, f, name), why);
}

/* The reasons why a field gets no other role. */
static const char *const taken[] = { "is not used as a feature", "is skipped already",
	"is a feature already", "is the target already", "is a label already" };

/* Give a field its role, and its place among the columns, or among the targets. */
static int give_role(
    struct gt_csv_table *t, struct gt_csv_field *f, enum gt_csv_role role, struct gt_err *err)
{
	if (f->role != GT_CSV_IGNORED)
		return fail_field(t, f, taken[f->role], err);
	f->role = role;
	if (role == GT_CSV_TARGET)
		t->target = f;
	if (role >= GT_CSV_FEATURE)
		f->place = role == GT_CSV_FEATURE ? t->columns++ : t->targets++;
	return 0;
}

/* Columns of the data that the model was trained on have their types already. */
static int make_categories(struct gt_csv_table *t, struct gt_csv_field *f, struct gt_err *err)
{
	if (f->role != GT_CSV_FEATURE)
		return fail_field(t, f, taken[f->role], err);
	if (t->like && !(t->like->columns && t->like->columns[f->place].count))
		return fail_field(
		    t, f, "had numbers in the data that the model was trained on", err);
	f->categories = true;
	return 0;
}

/* Give a column to an input of the network. Columns of the training stay with the input that they
 * had, as their types and scales are for it. */
static int give_input(struct gt_csv_table *t, struct gt_csv_field *f, struct gt_err *err)
{
	if (f->role != GT_CSV_FEATURE)
		return fail_field(t, f, taken[f->role], err);
	if (f->trained_input && f->input != t->given_input)
		return fail_field(t, f, "was for another input in the training", err);
	if (f->given)
		return fail_field(t, f, "is given to two inputs, or twice", err);
	f->given = true;
	f->input = t->given_input;
	return 0;
}

static int use_field(
    struct gt_csv_table *t, struct gt_csv_field *f, enum gt_csv_role role, struct gt_err *err)
{
	if (role != GT_CSV_FEATURE)
		return give_role(t, f, role, err);
	return t->given_input < 0 ? make_categories(t, f, err) : give_input(t, f, err);
}

/* Return the columns that a setting lists, NULL if there are none. The manual names "none" as the
 * default of each list. A target has no such default, so a column may be called "none" there. */
static const char *list_of(const struct gt_csv_table *t, const char *key)
{
	const char *list = gt_spec_value(t->spec, key);

	return list && strcmp(list, "none") == 0 && strcmp(key, "target") != 0 ? NULL : list;
}

/* Give the fields in a setting's list, NAME/NAME/..., their role. A target is one name. Features
 * have their role already, and become categories, or get an input. */
static int use_setting(
    struct gt_csv_table *t, const char *key, enum gt_csv_role role, struct gt_err *err)
{
	const char *list = list_of(t, key);
	char *copy = list ? gt_arena_strdup(&t->arena, list, err) : NULL, *name;
	int rc = list && !copy ? GT_ENOMEM : 0;

	while (!rc && (name = strsep(&copy, role == GT_CSV_TARGET ? "" : "/"))) {
		struct gt_csv_field *f;

		rc = find_named(t, name, &f, err);
		if (!rc)
			rc = use_field(t, f, role, err);
		if (rc)
			gt_err_prefix(err, "data option '%s=%s'", key, list);
	}
	return rc;
}

/* ---- columns that a model was trained on ---- */

static size_t count_known(const struct gt_data_description *like)
{
	return (size_t)(like->columns ? like->column_count : like->form.features);
}

/* The name of a column; NULL: it has none. */
static const char *known_name(const struct gt_data_description *like, size_t column)
{
	if (like->columns)
		return like->columns[column].name;
	return like->feature_names ? like->feature_names[column] : NULL;
}

/* Whether all columns of the training have names. */
static bool are_named(const struct gt_data_description *like)
{
	size_t k = 0;

	while (like && k < count_known(like) && known_name(like, k))
		k++;
	return like && k == count_known(like);
}

bool gt_csv_names_are_known(const struct gt_csv_table *t)
{
	struct gt_csv_field *f = are_named(t->like) ? t->fields : NULL;

	for (size_t k = 0; f && k < count_known(t->like); k++)
		f = find_field(t, known_name(t->like, k), f);
	return f;
}

/* Columns with the names of those of the training may be in any order, among others. */
static int place_by_name(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_csv_field *f = NULL;
	int rc = check_names(t, err);

	while (!rc && t->columns < count_known(t->like)) {
		const char *name = known_name(t->like, t->columns);

		f = find_field(t, name, f);
		if (!f) {
			gt_err_set(err, GT_EFORMAT,
			    "there is no column '%.100s', but the model was trained with it", name);
			return gt_err_hint(
			    err, "add the column, or name it so if it has another name here");
		}
		if (give_role(t, f, GT_CSV_FEATURE, err))
			return gt_err_prefix(err, "a feature of the training");
	}
	return rc;
}

/* ---- the target, or the labels ---- */

/* Take the labels of the training, by their names. */
static int take_trained_labels(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->like;
	const char *name = like->class_names ? like->class_names[0] : NULL;

	for (int i = 0; i < like->form.classes && like->class_names && t->named; i++) {
		struct gt_csv_field *f = find_field(t, like->class_names[i], NULL);

		name = like->class_names[i];
		if (!f || give_role(t, f, GT_CSV_LABEL, err))
			break;
	}
	if (t->targets == (size_t)like->form.classes)
		return 0;
	if (name)
		gt_err_set(err, GT_EFORMAT,
		    "there is no column '%.100s' of a label that the model was trained on", name);
	else
		gt_err_set(err, GT_EFORMAT, "the labels of the training have no names");
	return gt_err_hint(
	    err, "labels=COLUMN/... names the columns of the %d labels", like->form.classes);
}

/* Take the target or the labels that the spec names, or the labels of the training. */
static int take_given_target(struct gt_csv_table *t, struct gt_err *err)
{
	const char *other = gt_spec_value(t->spec, "target") ? "target" : "task";
	bool given = gt_spec_value(t->spec, other);

	if (list_of(t, "labels") && given)
		return gt_err_set(
		    err, GT_EINVAL, "data options 'labels' and '%s' cannot be combined", other);
	if (list_of(t, "labels"))
		return use_setting(t, "labels", GT_CSV_LABEL, err);
	if (!given && t->like && t->like->form.target == GT_SAMPLE_LABELS)
		return take_trained_labels(t, err);
	return use_setting(t, "target", GT_CSV_TARGET, err);
}

/* The field at a place, from 1, among those that are not skipped; NULL if there is none. */
static struct gt_csv_field *field_at(const struct gt_csv_table *t, int place)
{
	for (size_t i = 0; i < t->field_count && place; i++)
		if (t->fields[i].role != GT_CSV_SKIPPED && !--place)
			return &t->fields[i];
	return NULL;
}

static int fail_one_field(const struct gt_csv_table *t, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(t->fields[0].head);

	gt_err_set(err, GT_EFORMAT, "the rows have 1 field");
	return word ? gt_csv_hint_separator(word, err)
	            : gt_err_hint(err, "a row needs at least a feature and a target");
}

static int fail_no_column(const struct gt_csv_table *t, const char *role, struct gt_err *err)
{
	return gt_err_set(
	    err, list_of(t, "skip") ? GT_EINVAL : GT_EFORMAT, "no column is left to be %s", role);
}

/* The target is the column with the name of the target in training. Without names, it is the column
 * at the place of the target in training. Otherwise it is the last one without another role. */
static int choose_target(struct gt_csv_table *t, struct gt_err *err)
{
	const char *name = t->like && t->named ? t->like->target.name : NULL;
	struct gt_csv_field *f = name ? find_field(t, name, NULL) : NULL;

	if (!f || f->role != GT_CSV_IGNORED)
		f = t->trained;
	for (size_t i = t->field_count; !f && i-- > 0;)
		if (t->fields[i].role == GT_CSV_IGNORED)
			f = &t->fields[i];
	return f ? give_role(t, f, GT_CSV_TARGET, err) : fail_no_column(t, "the target", err);
}

/* The place of the target among the columns, from 1, for data without a header. The target of the
 * training keeps its place there. Otherwise it is the one in this file; it is 0 if the known
 * columns are in another order here. */
static int target_place(const struct gt_csv_table *t)
{
	const char *trained = t->like ? t->like->target.name : NULL;
	size_t columns = 0;
	int place = 0;

	if (!t->target)
		return 0;
	if (trained && t->named && !strcmp(trained, t->target->head))
		return t->like->target_place;
	for (const struct gt_csv_field *f = t->fields; f < t->fields + t->field_count; f++) {
		if (f == t->target)
			place = (int)columns + 1;
		else if (f->role == GT_CSV_FEATURE && f->place != columns++)
			return 0;
	}
	return place;
}

/* ---- all fields ---- */

/* Fail for another number of columns than the model takes. */
static int fail_width(const struct gt_csv_table *t, size_t wanted, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(t->fields[0].head);
	int place = t->like ? t->like->target_place : 0;

	gt_err_set(err, GT_EFORMAT, "rows of %zu feature%s, but the model was trained on %zu",
	    t->columns, t->columns == 1 ? "" : "s", wanted);
	if (word && t->field_count == 1)
		return gt_err_hint(
		    err, "if another character separates the fields, add {read} sep=%s", word);
	if (t->request->inputs && place && t->columns == wanted + 1)
		return gt_err_hint(err,
		    "if the rows have the target, leave it out: column %d, counted from 0",
		    place - 1);
	return gt_err_hint(err, "the columns are found by name if the first line has their names");
}

/* Choose the input of each column. */
static int use_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_sample_form *form = &t->request->form;
	int rc = gt_fields_check_keys(t->spec, t->request, err);

	if (rc || !gt_fields_wanted(t->request))
		return rc;
	gt_csv_begin_inputs(t);
	for (int i = 0; i < form->field_count && !rc; i++) {
		char key[sizeof(GT_FIELD_KEY) + GT_FIELD_NAME];

		snprintf(key, sizeof(key), GT_FIELD_KEY "%s", form->fields[i].name);
		t->given_input = i;
		rc = use_setting(t, key, GT_CSV_FEATURE, err);
	}
	t->given_input = -1;
	return rc ? rc : gt_csv_choose_inputs(t, err);
}

int gt_csv_choose_fields(struct gt_csv_table *t, struct gt_err *err)
{
	bool by_name = t->named && are_named(t->like), labelled = !t->request->inputs;
	size_t wanted = t->like                        ? count_known(t->like)
	                : labelled                     ? 0
	                : t->csv->width                ? t->csv->width
	                : gt_fields_wanted(t->request) ? 0
	                                               : (size_t)t->request->form.features;
	int rc = 0;

	t->columns = 0;
	t->given_input = -1;
	if (labelled)
		rc = t->field_count < 2 ? fail_one_field(t, err) : take_given_target(t, err);
	if (!rc)
		rc = use_setting(t, "skip", GT_CSV_SKIPPED, err);
	if (!rc && by_name)
		rc = place_by_name(t, err);
	else if (!rc && t->like && labelled)
		t->trained = field_at(t, t->like->target_place);
	else if (!rc && t->named && labelled)
		rc = check_names(t, err);
	if (!rc && labelled && !t->targets)
		rc = choose_target(t, err);
	for (size_t i = 0; i < t->field_count && !rc && !by_name; i++)
		if (t->fields[i].role == GT_CSV_IGNORED)
			rc = give_role(t, &t->fields[i], GT_CSV_FEATURE, err);
	if (rc)
		return rc;
	if (!t->columns)
		return fail_no_column(t, "a feature", err);
	if (wanted && t->columns != wanted)
		return fail_width(t, wanted, err);
	for (size_t i = 0; i < t->field_count; i++)
		if (t->fields[i].role >= GT_CSV_TARGET)
			t->fields[i].place += t->columns;
	t->csv->width = t->columns + t->targets;
	t->csv->source.target_place = target_place(t);
	rc = use_inputs(t, err);
	return rc ? rc : use_setting(t, "categories", GT_CSV_FEATURE, err);
}
