/* csv_target.c - the targets of a table: classes, or numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

static enum gt_csv_form parse_target(const struct gt_csv_table *t, size_t row, double *value)
{
	return gt_csv_parse(t->rows.targets[row], t->head.decimal, value);
}

static bool is_number(const struct gt_csv_table *t, size_t row)
{
	double value;

	return parse_target(t, row, &value) == GT_CSV_NUMBER;
}

static bool is_ignored(const struct gt_csv_table *t, double value)
{
	return t->request->ignores && value == t->request->ignored;
}

/* ---- errors ---- */

/* Add the place of a target to an error, and return the error's code. */
static int prefix_target(const struct gt_csv_table *t, size_t row, struct gt_err *err)
{
	char name[128];

	return gt_err_prefix(
	    err, "line %ld, %s", t->rows.lines[row], gt_csv_field_name(t, t->goal.field, name));
}

static int fail_target(
    const struct gt_csv_table *t, size_t row, const char *why, struct gt_err *err)
{
	double value;

	if (parse_target(t, row, &value) == GT_CSV_BEYOND) {
		gt_csv_fail_beyond(t, t->rows.targets[row], err);
		return prefix_target(t, row, err);
	}
	gt_err_set(err, GT_EFORMAT, "the target '%.60s' %s", t->rows.targets[row], why);
	gt_err_hint(err, "targets are classes: whole numbers from 0, or words; all of one sort. "
	                 "task=regression takes numbers as they are");
	return prefix_target(t, row, err);
}

/* Fail for targets that are numbers and words. */
static int fail_mixed(const struct gt_csv_table *t, size_t row, struct gt_err *err)
{
	bool header =
	    row == 1 && !is_number(t, 0) && !t->head.names && t->set.header == GT_CSV_HEADER_AUTO;
	double value;

	if (parse_target(t, 0, &value) == GT_CSV_BEYOND)
		return fail_target(t, 0, "", err);
	if (parse_target(t, row, &value) == GT_CSV_BEYOND)
		return fail_target(t, row, "", err);
	gt_err_set(err, GT_EFORMAT, "the target '%.60s' is a %s, but line %ld has the %s '%.60s'",
	    t->rows.targets[row], is_number(t, row) ? "number" : "word", t->rows.lines[0],
	    is_number(t, 0) ? "number" : "word", t->rows.targets[0]);
	if (header)
		gt_err_hint(err, "if line %ld names the columns, add header=yes", t->rows.lines[0]);
	else
		gt_err_hint(
		    err, "targets are numbers, or words, which are classes; all of one sort");
	return prefix_target(t, row, err);
}

/* ---- classes ---- */

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Keep the names of the classes, and, for messages, the line of the first row of each class. */
static int keep_classes(struct gt_csv_table *t, char **names, size_t count, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	const char **kept = gt_arena_alloc(&s->names, count * sizeof(*kept), err);
	long *lines = gt_arena_alloc(&s->names, count * sizeof(*lines), err);

	if (!kept || !lines)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		kept[i] = gt_arena_strdup(&s->names, names[i], err);
		if (!kept[i])
			return GT_ENOMEM;
	}
	for (size_t i = t->rows.count; i-- > 0;)
		lines[t->csv->targets[i]] = t->rows.lines[i];
	s->class_names = kept;
	s->class_lines = lines;
	return 0;
}

/* Fail for classes that nearly each row has of its own, or numbers that are none here: 1,037. */
static int check_classes(
    const struct gt_csv_table *t, char *const *classes, size_t count, struct gt_err *err)
{
	const char *hint = "select the column of classes with target=COLUMN; task=classification "
	                   "uses this one all the same";
	char name[128];
	double value;
	size_t i = 0;

	gt_csv_field_name(t, t->goal.field, name);
	if (count > GT_CSV_MAX_CLASSES) {
		gt_err_set(err, GT_EFORMAT, "%s: %zu different classes, at most %d are allowed",
		    name, count, GT_CSV_MAX_CLASSES);
		return gt_err_hint(err, "%s", hint);
	}
	if (t->set.task != GT_CSV_TASK_AUTO || !gt_csv_is_fitted(t))
		return 0;
	while (i < count && gt_csv_parse(classes[i], t->head.decimal, &value) == GT_CSV_DECORATED)
		i++;
	if (i == count) {
		gt_err_set(err, GT_EFORMAT, "%s: the target '%.60s' is not a number", name,
		    t->rows.targets[0]);
		return gt_csv_hint_decorated(t, t->rows.targets[0], t->goal.field, err);
	}
	if (count < GT_CSV_MANY_WORDS || 2 * count <= t->rows.count)
		return 0;
	gt_err_set(err, GT_EFORMAT, "%s, the target, has %zu different classes in %zu rows", name,
	    count, t->rows.count);
	return gt_err_hint(err, "%s", hint);
}

/* Sorted distinct words become classes 0, 1, ... . */
static int number_words(struct gt_csv_table *t, struct gt_err *err)
{
	char **sorted = gt_calloc(t->rows.count, sizeof(*sorted), err);
	size_t classes = 0;
	int rc;

	if (!sorted)
		return GT_ENOMEM;
	memcpy(sorted, t->rows.targets, t->rows.count * sizeof(*sorted));
	qsort(sorted, t->rows.count, sizeof(*sorted), compare_words);
	for (size_t i = 0; i < t->rows.count; i++)
		if (!classes || strcmp(sorted[classes - 1], sorted[i]))
			sorted[classes++] = sorted[i];
	for (size_t i = 0; i < t->rows.count; i++) {
		char **found =
		    bsearch(&t->rows.targets[i], sorted, classes, sizeof(*sorted), compare_words);

		t->csv->targets[i] = (int32_t)(found - sorted);
	}
	t->csv->source.info.form.classes = (int)classes;
	rc = check_classes(t, sorted, classes, err);
	if (!rc)
		rc = keep_classes(t, sorted, classes, err);
	free(sorted);
	return rc;
}

/* Fail for a class that the training data lack. */
static int fail_unknown(const struct gt_csv_table *t, size_t row, int classes, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "class %.60s is not among the %d classes that the model was trained on",
	    t->rows.targets[row], classes);
	gt_err_hint(err, "the classes are 0 to %d", classes - 1);
	return prefix_target(t, row, err);
}

/* Whole numbers are classes themselves, but for the ignored one. */
static int take_numbers(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->request->new_classes ? NULL : t->like;
	bool numbered = like && like->form.target != GT_SAMPLE_NUMBER && like->form.classes &&
	                !like->class_names;
	int *classes = &t->csv->source.info.form.classes;

	*classes = 0;
	for (size_t i = 0; i < t->rows.count; i++) {
		double value = 0;

		parse_target(t, i, &value);
		t->csv->targets[i] = GT_DATA_IGNORE;
		if (is_ignored(t, value))
			continue;
		if (value != floor(value))
			return fail_target(t, i, "is not a whole number", err);
		if (value < 0 || value >= GT_CSV_MAX_CLASSES)
			return fail_target(t, i, "is out of range", err);
		if (numbered && value >= like->form.classes)
			return fail_unknown(t, i, like->form.classes, err);
		t->csv->targets[i] = (int32_t)value;
		*classes = (int)value >= *classes ? (int)value + 1 : *classes;
	}
	return 0;
}

static int take_classes(struct gt_csv_table *t, struct gt_err *err)
{
	t->csv->targets = gt_calloc(t->rows.count, sizeof(*t->csv->targets), err);
	if (!t->csv->targets)
		return GT_ENOMEM;
	for (size_t i = 1; i < t->rows.count; i++)
		if (is_number(t, i) != is_number(t, 0))
			return fail_mixed(t, i, err);
	return is_number(t, 0) ? take_numbers(t, err) : number_words(t, err);
}

/* ---- numbers ---- */

/* A target of another name is on another scale, which is measured where the model may change. */
static void choose_scale(struct gt_csv_table *t)
{
	struct gt_source *s = &t->csv->source;
	bool known = t->like && t->like->form.target == GT_SAMPLE_NUMBER;
	bool anew = known && t->goal.other && t->request->new_classes;

	s->info.other_classes |= anew;
	t->csv->target_known = (known && !anew) || !t->set.standardise;
	if (known && !anew && t->set.standardise) {
		s->target.mean = t->like->target.mean;
		s->target.std = t->like->target.std;
	}
}

/* Numbers stay as they are written; they are put on their scale when they are read. */
static int take_values(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;

	t->csv->numbers = gt_calloc(t->rows.count, sizeof(*t->csv->numbers), err);
	if (!t->csv->numbers)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->rows.count; i++) {
		enum gt_csv_form form = parse_target(t, i, &t->csv->numbers[i]);

		if (form == GT_CSV_NUMBER)
			continue;
		fail_target(t, i, "is not a number", err);
		return form == GT_CSV_BEYOND
		           ? err->code
		           : gt_err_hint(err, "task=classification takes words as classes");
	}
	s->info.form.target = GT_SAMPLE_NUMBER;
	s->info.form.classes = 1;
	choose_scale(t);
	return 0;
}

/* ---- the task ---- */

/* Guess the task from targets to train on, which are all numbers. */
static int guess_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	double *values = gt_calloc(t->rows.count, sizeof(*values), err);
	enum gt_target_guess guess;
	char name[128];
	size_t count = 0;
	int rc;

	if (!values)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->rows.count; i++) {
		parse_target(t, i, &values[count]);
		count += !is_ignored(t, values[count]);
	}
	rc = gt_target_summarize(&t->goal.summary, values, count, err);
	free(values);
	if (rc)
		return rc;
	guess = gt_target_guess(&t->goal.summary);
	if (gt_csv_is_fitted(t) && guess == GT_TARGET_SPARSE)
		return gt_target_fail_sparse(
		    &t->goal.summary, gt_csv_field_name(t, t->goal.field, name), err);
	*regression = gt_csv_is_fitted(t) ? guess == GT_TARGET_NUMBERS : t->goal.summary.fractions;
	return 0;
}

/* The kind of the targets: as the spec says, as in training, or guessed from their texts. Where the
 * data may have new classes, words end a regression, but whole numbers do not. */
static int choose_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	size_t numbers = 0;

	*regression = t->set.task == GT_CSV_REGRESSION;
	if (t->set.task != GT_CSV_TASK_AUTO)
		return 0;
	while (numbers < t->rows.count && is_number(t, numbers))
		numbers++;
	if (t->like && (!t->request->new_classes || (t->like->form.target == GT_SAMPLE_NUMBER &&
	                                                numbers == t->rows.count))) {
		*regression = t->like->form.target == GT_SAMPLE_NUMBER;
		return 0;
	}
	return numbers == t->rows.count ? guess_task(t, regression, err) : 0;
}

/* Keep the target's name, and find whether the target is another one than in training. */
static int keep_name(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	const char *name = t->head.names ? t->head.names[t->goal.field] : NULL;

	s->target = (struct gt_data_column){ .std = 1 };
	if (name && t->like && t->like->target.name)
		t->goal.other = strcmp(name, t->like->target.name) != 0;
	else
		t->goal.other =
		    t->goal.trained < t->head.fields && t->goal.field != t->goal.trained;
	if (name)
		s->target.name = gt_arena_strdup(&s->names, name, err);
	return name && !s->target.name ? GT_ENOMEM : 0;
}

static int check_missing(const struct gt_csv_table *t, struct gt_err *err)
{
	for (size_t i = 0; i < t->rows.count; i++)
		if (gt_csv_is_missing(t->rows.targets[i], false)) {
			fail_target(t, i, "is missing", err);
			return gt_csv_hint_missing(t, err);
		}
	return 0;
}

int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err)
{
	bool regression = false;
	int rc = check_missing(t, err);

	if (!rc)
		rc = gt_csv_check_values(t, err);
	if (!rc)
		rc = keep_name(t, err);
	if (!rc)
		rc = choose_task(t, &regression, err);
	if (rc)
		return rc;
	return regression ? take_values(t, err) : take_classes(t, err);
}
