/* csv_place.c - the fields of a table: which one is the target, and which ones are columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

const struct gt_csv_column *gt_csv_column(const struct gt_csv_table *t, size_t field)
{
	int place = t->head.place[field];

	return place == GT_CSV_NOWHERE ? NULL : &t->columns[place];
}

/* ---- names ---- */

/* The first field with a name, from the field `from` on and then from field 0; `fields` if none has
 * it. Names that are looked up in the order of the file are found at once. */
static size_t find_name(const struct gt_csv_table *t, const char *name, size_t from)
{
	for (size_t i = 0; i < t->head.fields; i++) {
		size_t field = (from + i) % t->head.fields;

		if (!strcmp(t->head.first[field], name))
			return field;
	}
	return t->head.fields;
}

size_t gt_csv_find_name(const struct gt_csv_table *t, const char *name)
{
	return t->head.names ? find_name(t, name, 0) : t->head.fields;
}

/* Fail for two fields of one name. */
static int fail_twice(const struct gt_csv_table *t, size_t first, size_t second, enum gt_code code,
    struct gt_err *err)
{
	gt_err_set(err, code, "columns %zu and %zu have the same name, '%.100s'", first, second,
	    t->head.first[first]);
	if (t->request->inputs)
		return gt_err_hint(err, "rename one of them, or leave it out");
	return gt_err_hint(
	    err, "rename one of them, or name it by its number, from 0: skip=%zu", second);
}

/* Find a field by its name, or by its number from 0. */
static int find_field(const struct gt_csv_table *t, const char *wanted, const char *role,
    size_t *field, struct gt_err *err)
{
	size_t fields = t->head.fields, again;
	char *end;

	*field = t->head.names ? find_name(t, wanted, 0) : fields;
	if (*field < fields) {
		again = find_name(t, wanted, *field + 1);
		return again == *field ? 0 : fail_twice(t, *field, again, GT_EINVAL, err);
	}
	*field = strtoul(wanted, &end, 10);
	if (*wanted >= '0' && *wanted <= '9' && !*end && *field < fields)
		return 0;
	gt_err_set(err, GT_EINVAL, "there is no column '%.100s' %s", wanted, role);
	if (t->head.names)
		return gt_err_hint(err, "columns: '%s' to '%s', or 0 to %zu", t->head.names[0],
		    t->head.names[fields - 1], fields - 1);
	return gt_err_hint(err, "the file has no header line; columns are 0 to %zu", fields - 1);
}

static int compare_field_names(const void *a, const void *b)
{
	char **x = *(char ***)a, **y = *(char ***)b;
	int order = strcmp(*x, *y);

	return order ? order : (x > y) - (x < y);
}

/* Columns are found by their names, so no two fields that may be used have the same name. */
static int check_names(const struct gt_csv_table *t, struct gt_err *err)
{
	char ***sorted = gt_calloc(t->head.fields, sizeof(*sorted), err);
	size_t count = 0;
	int rc = sorted ? 0 : GT_ENOMEM;

	for (size_t i = 0; sorted && i < t->head.fields; i++)
		if (!t->head.skipped[i])
			sorted[count++] = &t->head.names[i];
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), compare_field_names);
	for (size_t i = 1; i < count && !rc; i++)
		if (!strcmp(*sorted[i - 1], *sorted[i]))
			rc = fail_twice(t, (size_t)(sorted[i - 1] - t->head.names),
			    (size_t)(sorted[i] - t->head.names), GT_EFORMAT, err);
	free(sorted);
	return rc;
}

/* ---- settings ---- */

int gt_csv_use_fields(struct gt_csv_table *t, const char *key, const char *role,
    int (*use)(struct gt_csv_table *t, size_t field, struct gt_err *err), struct gt_err *err)
{
	const char *list = gt_spec_value(t->spec, key);
	char *copy = list ? gt_strdup(list, err) : NULL, *rest = copy, *name;
	int rc = list && !copy ? GT_ENOMEM : 0;

	while (!rc && (name = strsep(&rest, "/"))) {
		size_t field;

		rc = find_field(t, name, role, &field, err);
		if (!rc && use(t, field, err))
			rc = gt_err_prefix(err, "data option '%s=%s'", key, list);
	}
	free(copy);
	return rc;
}

/* Fail for a field that a setting names. */
static int fail_field(
    const struct gt_csv_table *t, size_t field, const char *why, struct gt_err *err)
{
	char name[128];

	return gt_err_set(err, GT_EINVAL, "%s %s", gt_csv_field_name(t, field, name), why);
}

static int skip_field(struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	t->head.skipped[field] = true;
	if (field == t->goal.field)
		return fail_field(t, field, "is the target", err);
	return gt_csv_is_label(t, field) ? fail_field(t, field, "is a label", err) : 0;
}

/* Columns of the data that the model was trained on have their types already. */
static int take_categories(struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	int place = t->head.place[field];

	if (field == t->goal.field || gt_csv_is_label(t, field))
		return fail_field(t, field, "is the target", err);
	if (place == GT_CSV_NOWHERE)
		return fail_field(t, field, "is not used as a feature", err);
	if (t->like && !(t->like->columns && t->like->columns[place].count))
		return fail_field(
		    t, field, "had numbers in the data that the model was trained on", err);
	t->columns[place].categories = true;
	return 0;
}

/* ---- columns that a model was trained on ---- */

/* The name of a column; NULL: it has none. */
static const char *known_name(const struct gt_data_description *like, int column)
{
	if (like->columns)
		return like->columns[column].name;
	return like->feature_names ? like->feature_names[column] : NULL;
}

static int known_columns(const struct gt_data_description *like)
{
	return like->columns ? like->column_count : like->form.features;
}

/* The data that the model was trained on, if their columns have names. */
static const struct gt_data_description *known_names(const struct gt_csv_table *t)
{
	const struct gt_data_description *like = t->request->inputs ? t->request->like : t->like;

	if (!like || !like->form.features)
		return NULL;
	for (int k = 0; k < known_columns(like); k++)
		if (!known_name(like, k))
			return NULL;
	return like;
}

bool gt_csv_names_are_known(const struct gt_csv_table *t)
{
	const struct gt_data_description *like = known_names(t);
	size_t field = 0;

	for (int k = 0; like && k < known_columns(like) && field < t->head.fields; k++)
		field = find_name(t, known_name(like, k), field);
	return like && field < t->head.fields;
}

static int fail_unknown(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "there is no column '%.100s', but the model was trained with it", name);
	return gt_err_hint(err, "add the column, or name it so if it has another name here");
}

/* Known columns may be in any order, among others. */
static int place_known(
    struct gt_csv_table *t, const struct gt_data_description *like, struct gt_err *err)
{
	size_t i = 0;
	int rc = check_names(t, err);

	for (int k = 0; k < known_columns(like) && !rc; k++) {
		i = find_name(t, known_name(like, k), i);
		if (i == t->head.fields)
			rc = fail_unknown(known_name(like, k), err);
		else if (i == t->goal.field || gt_csv_is_label(t, i))
			rc = fail_field(t, i,
			    "is the target, but the model was trained with it as a feature", err);
		else if (t->head.skipped[i])
			rc = fail_field(t, i, "is skipped, but the model was trained with it", err);
		else if (t->head.place[i] != GT_CSV_NOWHERE)
			rc = gt_err_set(err, GT_EFORMAT,
			    "the model was trained with two columns named '%.100s'",
			    known_name(like, k));
		else
			t->head.place[i] = k;
	}
	return rc;
}

/* Fields that are no known columns are ignored, but for the target. */
static void count_ignored(struct gt_csv_table *t)
{
	t->head.ignored = 0;
	for (size_t i = 0; i < t->head.fields; i++)
		if (t->head.place[i] == GT_CSV_NOWHERE && i != t->goal.field &&
		    !gt_csv_is_label(t, i) && !t->head.skipped[i] && !t->head.ignored++)
			t->head.first_ignored = i;
}

/* Without known names, all fields but the target and those that are skipped are columns. */
static size_t place_in_order(struct gt_csv_table *t)
{
	int columns = 0;

	for (size_t i = 0; i < t->head.fields; i++)
		if (i != t->goal.field && !gt_csv_is_label(t, i) && !t->head.skipped[i])
			t->head.place[i] = columns++;
	return (size_t)columns;
}

/* ---- the target ---- */

/* The field at a place, from 1, among those that are not skipped; `fields` if there is none. */
static size_t field_at(const struct gt_csv_table *t, int place)
{
	size_t field = 0;

	for (; field < t->head.fields; field++)
		if (!t->head.skipped[field] && !--place)
			break;
	return field;
}

/* The place of the target among the columns, from 1, for data without a header. The target of the
 * training keeps its place there. Otherwise it is the one in this file; it is 0 if the known
 * columns are in another order here. */
static int target_place(const struct gt_csv_table *t)
{
	const char *trained = t->like ? t->like->target.name : NULL;
	int column = 0, place = 0;

	if (t->goal.label_count)
		return 0;
	if (trained && t->head.names && !strcmp(trained, t->head.names[t->goal.field]))
		return t->like->target_place;
	for (size_t i = 0; i < t->head.fields; i++) {
		if (i == t->goal.field)
			place = column + 1;
		else if (t->head.place[i] != GT_CSV_NOWHERE && t->head.place[i] != column++)
			return 0;
	}
	return place;
}

/* The target is the column with the name of the target in training. Without names, it is the column
 * at the place of the target in training. Otherwise it is the last one that is neither skipped nor
 * a known column. */
static int choose_target(struct gt_csv_table *t, struct gt_err *err)
{
	const char *name = t->like && t->head.names ? t->like->target.name : NULL;
	size_t *field = &t->goal.field;

	*field = name ? find_name(t, name, 0) : t->goal.trained;
	if (*field == t->head.fields || t->head.skipped[*field] ||
	    t->head.place[*field] != GT_CSV_NOWHERE)
		*field = t->goal.trained;
	if (*field < t->head.fields)
		return 0;
	for (*field = t->head.fields; (*field)-- > 0;)
		if (!t->head.skipped[*field] && t->head.place[*field] == GT_CSV_NOWHERE)
			return 0;
	return gt_err_set(err, gt_spec_value(t->spec, "skip") ? GT_EINVAL : GT_EFORMAT,
	    "no column is left to be the target");
}

/* ---- all fields ---- */

const char *gt_csv_guess_separator(const char *text)
{
	size_t counts[256] = { 0 };
	const char *best = NULL;

	for (const char *s = text; *s; s++)
		if (gt_csv_separator_word(*s) &&
		    ++counts[(unsigned char)*s] > (best ? counts[(unsigned char)*best] : 0))
			best = s;
	return best ? gt_csv_separator_word(*best) : NULL;
}

static int fail_one_field(const struct gt_csv_table *t, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(*t->head.first);

	gt_err_set(err, GT_EFORMAT, "the rows have 1 field");
	return word ? gt_csv_hint_separator(word, err)
	            : gt_err_hint(err, "a row needs at least a feature and a target");
}

static int place_labelled(struct gt_csv_table *t, size_t *columns, struct gt_err *err)
{
	const struct gt_data_description *like = t->head.names ? known_names(t) : NULL;
	const char *target = gt_spec_value(t->spec, "target");
	int rc;

	if (t->head.fields < 2)
		return fail_one_field(t, err);
	rc = target ? find_field(t, target, "to be the target", &t->goal.field, err) : 0;
	if (!rc)
		rc = gt_csv_choose_labels(t, err);
	if (!rc)
		rc = gt_csv_use_fields(t, "skip", "to skip", skip_field, err);
	if (!rc && like)
		rc = place_known(t, like, err);
	else if (!rc && t->like && t->like->target_place)
		t->goal.trained = field_at(t, t->like->target_place);
	else if (!rc && !t->like && t->head.names)
		rc = check_names(t, err);
	if (!rc && !target && !t->goal.label_count)
		rc = choose_target(t, err);
	if (rc)
		return rc;
	*columns = like ? (size_t)known_columns(like) : place_in_order(t);
	t->csv->source.target_place = target_place(t);
	if (like)
		count_ignored(t);
	else if (t->like && *columns != (size_t)known_columns(t->like))
		return gt_err_set(err, GT_EFORMAT,
		    "rows of %zu feature%s, but the model was trained on %d", *columns,
		    *columns == 1 ? "" : "s", known_columns(t->like));
	return *columns ? 0 : gt_err_set(err, GT_EINVAL, "no column is left to be a feature");
}

/* Fail for inputs with another number of fields than the model has columns. */
static int fail_width(const struct gt_csv_table *t, size_t wanted, bool named, struct gt_err *err)
{
	const struct gt_data_description *like = t->request->like;
	size_t fields = t->head.fields;

	gt_err_set(err, GT_EFORMAT,
	    "rows of %zu field%s, but the model was trained with %zu columns", fields,
	    fields == 1 ? "" : "s", wanted);
	if (fields < wanted)
		return GT_EFORMAT;
	if (fields == wanted + 1 && like && like->form.features && like->target_place)
		return gt_err_hint(err,
		    "if the rows have the target, leave it out: column %d, counted from 0",
		    like->target_place - 1);
	return gt_err_hint(err, "leave out columns that are no features%s",
	    named ? ", or write the names of the columns in the first line" : "");
}

static int place_inputs(struct gt_csv_table *t, size_t *columns, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	const struct gt_data_description *like = known_names(t);
	bool known = request->like && request->like->form.features;
	size_t wanted =
	    known ? (size_t)known_columns(request->like) : (size_t)request->form.features;
	const char *word = gt_csv_guess_separator(*t->head.first);
	int rc = 0;

	*columns = wanted;
	if (t->head.names && like) {
		rc = place_known(t, like, err);
		if (!rc)
			count_ignored(t);
	} else if (wanted && t->head.fields != wanted) {
		rc = fail_width(t, wanted, like != NULL, err);
	} else {
		*columns = place_in_order(t);
	}
	if (rc && word && t->head.fields == 1 && wanted > 1)
		gt_err_hint(
		    err, "if another character separates the fields, add {read} sep=%s", word);
	return rc;
}

int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err)
{
	size_t fields = t->head.fields, columns = 0;
	int rc;

	t->head.place = gt_arena_alloc(&t->arena, fields * sizeof(*t->head.place), err);
	t->head.skipped = gt_arena_alloc(&t->arena, fields * sizeof(*t->head.skipped), err);
	if (!t->head.place || !t->head.skipped)
		return GT_ENOMEM;
	for (size_t i = 0; i < fields; i++)
		t->head.place[i] = GT_CSV_NOWHERE;
	t->goal.field = SIZE_MAX;
	t->goal.trained = fields;
	rc = t->request->inputs ? place_inputs(t, &columns, err) : place_labelled(t, &columns, err);
	if (rc)
		return rc;
	if (t->columns && columns != t->column_count) {
		gt_err_set(err, GT_EFORMAT, "%zu columns, but '%s' has %zu", columns,
		    t->request->inputs[0], t->column_count);
		return gt_err_hint(
		    err, "all tables need the columns that the model was trained with");
	}
	if (!t->columns)
		t->columns = gt_calloc(columns, sizeof(*t->columns), err);
	if (!t->columns)
		return GT_ENOMEM;
	t->column_count = columns;
	return t->request->inputs
	           ? 0
	           : gt_csv_use_fields(t, "categories", "to have categories", take_categories, err);
}
