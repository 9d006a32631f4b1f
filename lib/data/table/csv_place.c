/* csv_place.c - the fields of a table: which one is the target, and which ones are columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- names ---- */

static int compare_fields(const void *a, const void *b)
{
	char **x = *(char ***)a, **y = *(char ***)b;
	int order = strcmp(*x, *y);

	return order ? order : (x > y) - (x < y);
}

/* Sort pointers to t->head.names by the names, and then by their places. */
static int sort_names(struct gt_csv_table *t, struct gt_err *err)
{
	t->head.sorted = gt_arena_alloc(&t->arena, t->head.fields * sizeof(*t->head.sorted), err);
	if (!t->head.sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->head.fields; i++)
		t->head.sorted[i] = &t->head.names[i];
	qsort(t->head.sorted, t->head.fields, sizeof(*t->head.sorted), compare_fields);
	return 0;
}

/* The position in head.sorted of the first field with this name; head.fields if none has it. */
static size_t find_name(const struct gt_csv_table *t, const char *name)
{
	size_t low = 0, high = t->head.names ? t->head.fields : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(*t->head.sorted[mid], name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return t->head.names && low < t->head.fields && !strcmp(*t->head.sorted[low], name)
	           ? low
	           : t->head.fields;
}

/* Set the error `code` for two fields of one name: GT_EINVAL if a setting has this name, GT_EFORMAT
 * if the file is at fault. */
static int two_fields(const struct gt_csv_table *t, enum gt_code code, char **first, char **second,
    struct gt_err *err)
{
	gt_err_set(err, code, "columns %td and %td have the same name, '%.100s'",
	    first - t->head.names, second - t->head.names, *first);
	return gt_err_hint(err, "rename one of them");
}

/* Find the only field with a name; *field is head.fields if no field has it. If two fields have
 * it, `code` is the error. */
static int find_unique(const struct gt_csv_table *t, const char *name, enum gt_code code,
    size_t *field, struct gt_err *err)
{
	size_t at = find_name(t, name);

	*field =
	    at < t->head.fields ? (size_t)(t->head.sorted[at] - t->head.names) : t->head.fields;
	if (at + 1 < t->head.fields && !strcmp(*t->head.sorted[at + 1], name))
		return two_fields(t, code, t->head.sorted[at], t->head.sorted[at + 1], err);
	return 0;
}

static int no_field(
    const struct gt_csv_table *t, const char *wanted, const char *role, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "there is no column '%.100s' %s", wanted, role);
	if (!t->head.names)
		return gt_err_hint(
		    err, "the file has no header line; columns are 0 to %zu", t->head.fields - 1);
	return gt_err_hint(err, "columns: %s%s%s%s%s; or a number from 0 to %zu", t->head.names[0],
	    t->head.fields > 1 ? ", " : "", t->head.fields > 1 ? t->head.names[1] : "",
	    t->head.fields > 2 ? ", ... " : "",
	    t->head.fields > 2 ? t->head.names[t->head.fields - 1] : "", t->head.fields - 1);
}

/* Find a field by its name, or by its number from 0. */
static int find_field(const struct gt_csv_table *t, const char *wanted, const char *role,
    size_t *field, struct gt_err *err)
{
	char *end;
	unsigned long n;
	int rc = find_unique(t, wanted, GT_EINVAL, field, err);

	if (rc)
		return gt_err_hint(err, "name a column by its number, from 0");
	if (*field < t->head.fields)
		return 0;
	n = strtoul(wanted, &end, 10);
	if (*wanted < '0' || *wanted > '9' || *end || n >= t->head.fields)
		return no_field(t, wanted, role, err);
	*field = n;
	return 0;
}

/* ---- settings ---- */

/* Call `use` for each field in a setting's list, NAME/NAME/... */
static int each_field(struct gt_csv_table *t, const char *key, const char *role,
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

/* The fault of a field that a setting names. */
static int wrong_field(
    const struct gt_csv_table *t, size_t field, const char *why, struct gt_err *err)
{
	char name[128];

	return gt_err_set(
	    err, GT_EINVAL, "%s %s", gt_csv_field_name(t, field, name, sizeof(name)), why);
}

static int skip_field(struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	t->head.place[field] = GT_CSV_NOWHERE;
	return field == t->goal.field ? wrong_field(t, field, "is the target", err) : 0;
}

/* Columns of the data that the model was trained on have their types already. */
static int ask_field(struct gt_csv_table *t, size_t field, struct gt_err *err)
{
	int place = t->head.place[field];

	if (field == t->goal.field)
		return wrong_field(t, field, "is the target", err);
	if (place == GT_CSV_NOWHERE)
		return wrong_field(t, field, "is not used as a feature", err);
	if (t->like && !(t->like->columns && t->like->columns[place].count))
		return wrong_field(
		    t, field, "had numbers in the data that the model was trained on", err);
	t->head.asked[field] = true;
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

int gt_csv_names_are_known(struct gt_csv_table *t, bool *known, struct gt_err *err)
{
	const struct gt_data_description *like = known_names(t);
	int rc = like ? sort_names(t, err) : 0;

	*known = like && !rc;
	for (int k = 0; *known && k < known_columns(like); k++)
		*known = find_name(t, known_name(like, k)) < t->head.fields;
	return rc;
}

static int no_known_field(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "there is no column '%.100s', but the model was trained with it", name);
	return gt_err_hint(err,
	    "add the column, or name it so if it has another name here; a model trained with "
	    "skip=%.60s does without it",
	    name);
}

/* Set the place of each known column to its number plus 1. */
static int mark_known(
    struct gt_csv_table *t, const struct gt_data_description *like, struct gt_err *err)
{
	for (int k = 0; k < known_columns(like); k++) {
		size_t i;
		int rc = find_unique(t, known_name(like, k), GT_EFORMAT, &i, err);

		if (rc)
			return rc;
		if (i == t->head.fields)
			return no_known_field(known_name(like, k), err);
		if (i == t->goal.field)
			return wrong_field(t, i,
			    "is the target, but the model was trained with it as a feature", err);
		if (t->head.place[i] == GT_CSV_NOWHERE)
			return wrong_field(
			    t, i, "is skipped, but the model was trained with it", err);
		if (t->head.place[i])
			return gt_err_set(err, GT_EFORMAT,
			    "the model was trained with two columns named '%.100s'",
			    known_name(like, k));
		t->head.place[i] = k + 1;
	}
	return 0;
}

/* Known columns may be in any order, among others, which are ignored. */
static void place_by_name(struct gt_csv_table *t, const struct gt_data_description *like)
{
	t->head.ignored = 0;
	for (size_t i = 0; i < t->head.fields; i++) {
		if (!t->head.place[i] && i != t->goal.field && !t->head.ignored++)
			t->head.first_ignored = i;
		t->head.place[i] = t->head.place[i] > 0 ? t->head.place[i] - 1 : GT_CSV_NOWHERE;
	}
	t->column_count = (size_t)known_columns(like);
}

/* ---- without known names ---- */

/* All fields but the target and those that are skipped. */
static int place_in_order(struct gt_csv_table *t, struct gt_err *err)
{
	t->column_count = 0;
	for (size_t i = 0; i < t->head.fields; i++) {
		bool used = i != t->goal.field && t->head.place[i] != GT_CSV_NOWHERE;

		t->head.place[i] = used ? (int)t->column_count++ : GT_CSV_NOWHERE;
	}
	if (!t->column_count)
		return gt_err_set(err, GT_EINVAL, "no column is left to be a feature");
	return 0;
}

/* Other data for the model are read by these names, so each of them has to name one column. */
static int check_names(const struct gt_csv_table *t, struct gt_err *err)
{
	char **last = NULL;

	for (size_t i = 0; t->head.names && i < t->head.fields; i++) {
		size_t field = (size_t)(t->head.sorted[i] - t->head.names);

		if (t->head.place[field] == GT_CSV_NOWHERE && field != t->goal.field)
			continue;
		if (last && !strcmp(*last, *t->head.sorted[i])) {
			two_fields(t, GT_EFORMAT, last, t->head.sorted[i], err);
			return gt_err_hint(err,
			    "rename one of them, or leave one out by its number: skip=%zu", field);
		}
		last = t->head.sorted[i];
	}
	return 0;
}

/* ---- the target ---- */

/* The field at a place, from 1, among those that are not skipped; head.fields if there is none. */
static size_t field_at(const struct gt_csv_table *t, int place)
{
	size_t field = 0;

	for (; field < t->head.fields; field++)
		if (t->head.place[field] != GT_CSV_NOWHERE && !--place)
			break;
	return field;
}

/* The place of the target, from 1, among the fields that are not skipped. */
static int target_place(const struct gt_csv_table *t)
{
	int place = 1;

	for (size_t i = 0; i < t->goal.field; i++)
		place += t->head.place[i] != GT_CSV_NOWHERE;
	return place;
}

/* The place of the target among the known columns, from 1, for data without a header. The target of
 * the training keeps its place there. That of another target is the one in this file; it is 0 if
 * the known columns are in another order here. */
static int place_among_known(const struct gt_csv_table *t, const struct gt_data_description *like)
{
	int column = 0, place = 0;

	if (like->target.name && !strcmp(like->target.name, t->head.names[t->goal.field]))
		return like->target_place;
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
	int rc = name ? find_unique(t, name, GT_EFORMAT, &t->goal.field, err) : 0;

	if (rc || (name && t->goal.field < t->head.fields && !t->head.place[t->goal.field]))
		return rc;
	t->goal.field = t->goal.trained;
	if (t->goal.field < t->head.fields)
		return 0;
	for (t->goal.field = t->head.fields; t->goal.field-- > 0;)
		if (!t->head.place[t->goal.field])
			return 0;
	return gt_err_set(err, gt_spec_value(t->spec, "skip") ? GT_EINVAL : GT_EFORMAT,
	    "no column is left to be the target");
}

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

static int one_field(const struct gt_csv_table *t, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(*t->head.first);

	gt_err_set(err, GT_EFORMAT, "the rows have 1 field");
	if (word)
		return gt_csv_hint_separator(word, err);
	return gt_err_hint(err,
	    "a row needs at least a feature and a class, divided by a comma; sep= names another "
	    "separator");
}

static int place_labelled(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->head.names ? known_names(t) : NULL;
	const char *target = gt_spec_value(t->spec, "target");
	int rc;

	if (t->head.fields < 2)
		return one_field(t, err);
	rc = target ? find_field(t, target, "to be the target", &t->goal.field, err) : 0;
	if (!rc)
		rc = each_field(t, "skip", "to skip", skip_field, err);
	if (!rc && like)
		rc = mark_known(t, like, err);
	else if (!rc && t->like && t->like->target_place)
		t->goal.trained = field_at(t, t->like->target_place);
	if (!rc && !target)
		rc = choose_target(t, err);
	if (rc)
		return rc;
	if (like) {
		place_by_name(t, like);
		t->csv->source.target_place = place_among_known(t, like);
		return 0;
	}
	t->csv->source.target_place = target_place(t);
	rc = place_in_order(t, err);
	if (!rc && t->like && t->column_count != (size_t)known_columns(t->like))
		rc = gt_err_set(err, GT_EFORMAT,
		    "rows of %zu feature%s, but the model was trained on %d", t->column_count,
		    t->column_count == 1 ? "" : "s", known_columns(t->like));
	return rc || t->like ? rc : check_names(t, err);
}

/* Rows of one field suggest that another character separates the fields. */
static int hint_separator(const struct gt_csv_table *t, size_t wanted, struct gt_err *err)
{
	const char *word = gt_csv_guess_separator(*t->head.first);

	if (t->head.fields > 1 || wanted < 2)
		return err->code;
	return gt_err_hint(err, "if another character separates the fields, name it: {read} sep=%s",
	    word                      ? word
	    : t->set.separator == ',' ? "semicolon"
	                              : "comma");
}

static int place_inputs(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_request *request = t->request;
	const struct gt_data_description *like = known_names(t);
	bool known = request->like && request->like->form.features;
	size_t wanted =
	    known ? (size_t)known_columns(request->like) : (size_t)request->form.features;
	int rc;

	if (t->head.names && like) {
		rc = mark_known(t, like, err);
		if (!rc)
			place_by_name(t, like);
		return rc ? hint_separator(t, wanted, err) : 0;
	}
	if (!wanted || t->head.fields == wanted)
		return place_in_order(t, err);
	gt_err_set(err, GT_EFORMAT,
	    "rows of %zu field%s, but the model was trained with %zu columns", t->head.fields,
	    t->head.fields == 1 ? "" : "s", wanted);
	if (t->head.fields < wanted)
		return hint_separator(t, wanted, err);
	if (t->head.fields == wanted + 1 && known && request->like->target_place)
		return gt_err_hint(err,
		    "if the rows have the target, leave it out: column %d, counted from 0",
		    request->like->target_place - 1);
	return gt_err_hint(err, "leave out columns that are no features%s",
	    like ? ", or write the names of the columns in the first line" : "");
}

int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err)
{
	int rc = t->head.names ? sort_names(t, err) : 0;

	t->head.place = gt_arena_alloc(&t->arena, t->head.fields * sizeof(*t->head.place), err);
	t->head.asked = gt_arena_alloc(&t->arena, t->head.fields * sizeof(*t->head.asked), err);
	if (rc || !t->head.place || !t->head.asked)
		return GT_ENOMEM;
	t->goal.field = SIZE_MAX;
	t->goal.trained = t->head.fields;
	if (t->request->inputs)
		return place_inputs(t, err);
	rc = place_labelled(t, err);
	return rc ? rc : each_field(t, "categories", "to have categories", ask_field, err);
}
