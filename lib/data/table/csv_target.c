/* csv_target.c - the targets of a table: classes, or numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* Words that are this number of classes or more are refused if they are more than half of the
 * rows. */
enum { MANY_CLASSES = 20 };

static bool is_number(const struct gt_csv_table *t, const char *s)
{
	double value;

	return gt_csv_parse_number(t, s, &value);
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that stay when the table is gone; NULL with err set. */
static const char *const *keep_names(
    struct gt_source *s, char **names, size_t count, struct gt_err *err)
{
	const char **kept = gt_arena_alloc(&s->names, (count + 1) * sizeof(*kept), err);

	for (size_t i = 0; kept && i < count; i++) {
		kept[i] = gt_arena_strdup(&s->names, names[i], err);
		if (!kept[i])
			return NULL;
	}
	return kept;
}

static int too_many_classes(size_t classes, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "%zu different classes, at most %d are allowed", classes,
	    GT_CSV_MAX_CLASSES);
	return gt_err_hint(err, "select the column of classes with target=COLUMN");
}

/* The first row, from `row` on, that has a word as its target; rows.count if all have numbers. */
static size_t first_word(const struct gt_csv_table *t, size_t row)
{
	while (row < t->rows.count && is_number(t, t->rows.targets[row]))
		row++;
	return row;
}

/* Set the error for a class that the training data lack. */
static int unknown_number(const struct gt_csv_table *t, size_t row, struct gt_err *err)
{
	char name[128];

	gt_err_set(err, GT_EFORMAT,
	    "line %ld, %s: class %.60s is not among the %d classes that the model was trained on",
	    t->rows.lines[row], gt_csv_field_name(t, t->goal.field, name, sizeof(name)),
	    t->rows.targets[row], t->like->form.classes);
	return gt_err_hint(err, "the classes are 0 to %d", t->like->form.classes - 1);
}

/* The line of the first row of each class, for messages. */
static int keep_lines(struct gt_csv_table *t, int classes, struct gt_err *err)
{
	long *lines = gt_arena_alloc(&t->csv->source.names, (size_t)classes * sizeof(*lines), err);

	if (!lines)
		return GT_ENOMEM;
	for (size_t i = t->rows.count; i-- > 0;)
		lines[t->csv->targets[i]] = t->rows.lines[i];
	t->csv->source.class_lines = lines;
	return 0;
}

/* Classes that nearly each row has of its own; or numbers that are none here, such as 1,037. */
static int check_classes(
    const struct gt_csv_table *t, char *const *classes, size_t count, struct gt_err *err)
{
	char name[128];
	size_t i = 0;

	if (t->set.task != GT_CSV_TASK_AUTO || !gt_csv_is_fitted(t))
		return 0;
	while (i < count && gt_csv_is_decorated(t, classes[i]))
		i++;
	if (i < count && (count < MANY_CLASSES || 2 * count <= t->rows.count))
		return 0;
	gt_csv_field_name(t, t->goal.field, name, sizeof(name));
	if (i == count) {
		gt_err_set(err, GT_EFORMAT, "%s: the target '%.60s' is not a number", name,
		    t->rows.targets[0]);
		return gt_csv_hint_decorated(t, t->rows.targets[0], t->goal.field, err);
	}
	gt_err_set(err, GT_EFORMAT, "%s, the target, has %zu different classes in %zu rows", name,
	    count, t->rows.count);
	return gt_err_hint(err,
	    "select the column of classes with target=COLUMN; task=classification uses this one "
	    "all the same");
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
	if (!rc && classes > GT_CSV_MAX_CLASSES) {
		rc = too_many_classes(classes, err);
	} else if (!rc) {
		t->csv->source.class_names = keep_names(&t->csv->source, sorted, classes, err);
		rc = t->csv->source.class_names ? keep_lines(t, (int)classes, err) : GT_ENOMEM;
	}
	free(sorted);
	return rc;
}

static int bad_target(const struct gt_csv_table *t, size_t row, const char *why, struct gt_err *err)
{
	char name[128];

	gt_err_set(err, GT_EFORMAT, "line %ld, %s: the target '%.60s' %s", t->rows.lines[row],
	    gt_csv_field_name(t, t->goal.field, name, sizeof(name)), t->rows.targets[row], why);
	return gt_err_hint(err,
	    "targets are classes: whole numbers from 0, or words; all of one sort. "
	    "task=regression takes numbers as they are");
}

/* Mean and standard deviation of a target are stored as numbers in the range of float32. */
static int fail_beyond(const struct gt_csv_table *t, size_t row, struct gt_err *err)
{
	bad_target(t, row, GT_CSV_BEYOND, err);
	return gt_csv_hint_unit(t, err);
}

/* Set the error for targets that are numbers and words, of which the first is a number. */
static int bad_word(const struct gt_csv_table *t, size_t row, struct gt_err *err)
{
	char name[128];

	if (gt_csv_is_beyond(t, t->rows.targets[row]))
		return fail_beyond(t, row, err);
	gt_err_set(err, GT_EFORMAT,
	    "line %ld, %s: the target '%.60s' is a word, but line %ld has the "
	    "number '%.60s'",
	    t->rows.lines[row], gt_csv_field_name(t, t->goal.field, name, sizeof(name)),
	    t->rows.targets[row], t->rows.lines[0], t->rows.targets[0]);
	return gt_err_hint(
	    err, "targets are numbers, or words, which are classes; all of one sort");
}

/* Whole numbers are classes themselves. */
static int take_numbers(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->request->new_classes ? NULL : t->like;
	bool numbered = like && !like->form.regression && like->form.classes && !like->class_names;
	size_t word = first_word(t, 0);
	int classes = 0;

	if (word < t->rows.count)
		return bad_word(t, word, err);
	for (size_t i = 0; i < t->rows.count; i++) {
		double value;

		gt_csv_parse_number(t, t->rows.targets[i], &value);
		if (value != floor(value))
			return bad_target(t, i, "is not a whole number", err);
		if (value < 0 || value >= GT_CSV_MAX_CLASSES)
			return bad_target(t, i, "is out of range", err);
		if (numbered && value >= like->form.classes)
			return unknown_number(t, i, err);
		t->csv->targets[i] = (int32_t)value;
		classes = (int)value >= classes ? (int)value + 1 : classes;
	}
	t->csv->source.info.form.classes = classes;
	return 0;
}

/* Summarize targets that are all numbers. */
static int summarize(struct gt_csv_table *t, struct gt_err *err)
{
	double *values = gt_calloc(t->rows.count, sizeof(*values), err);
	int rc;

	if (!values)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->rows.count; i++)
		gt_csv_parse_number(t, t->rows.targets[i], &values[i]);
	rc = gt_target_summarize(&t->goal.summary, values, t->rows.count, err);
	free(values);
	return rc;
}

/* Targets of data to train on, which are all numbers. */
static int guess_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	char name[128];
	int rc = summarize(t, err);

	if (rc)
		return rc;
	*regression = t->goal.summary.fractions;
	if (!gt_csv_is_fitted(t))
		return 0;
	*regression = gt_target_guess(&t->goal.summary) == GT_TARGET_NUMBERS;
	if (gt_target_guess(&t->goal.summary) != GT_TARGET_SPARSE)
		return 0;
	return gt_target_fail_sparse(
	    &t->goal.summary, gt_csv_field_name(t, t->goal.field, name, sizeof(name)), err);
}

/* The kind of the targets: as the spec says, as in training, or guessed from their texts. Where the
 * data may have new classes, words end a regression, but whole numbers do not. */
static int choose_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	bool numbers = first_word(t, 0) == t->rows.count;

	*regression = t->set.task == GT_CSV_REGRESSION;
	if (t->set.task != GT_CSV_TASK_AUTO)
		return 0;
	if (t->like && (!t->request->new_classes || (t->like->form.regression && numbers))) {
		*regression = t->like->form.regression;
		return 0;
	}
	return numbers ? guess_task(t, regression, err) : 0;
}

/* A model that is trained on one value learns nothing. */
static int check_values(const struct gt_csv_table *t, struct gt_err *err)
{
	size_t row = 1;

	while (row < t->rows.count && !strcmp(t->rows.targets[row], t->rows.targets[0]))
		row++;
	return row == t->rows.count && gt_csv_is_fitted(t) ? gt_csv_fail_one_value(t, err) : 0;
}

/* A target of another name is on another scale, which is measured where the model may change. */
static void choose_scale(struct gt_csv_table *t)
{
	struct gt_source *s = &t->csv->source;
	bool known = t->like && t->like->form.regression, anew;

	anew = known && t->goal.other && t->request->new_classes;
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
		if (gt_csv_is_beyond(t, t->rows.targets[i]))
			return fail_beyond(t, i, err);
		if (!gt_csv_parse_number(t, t->rows.targets[i], &t->csv->numbers[i])) {
			bad_target(t, i, "is not a number", err);
			return gt_err_hint(err, "task=classification takes words as classes");
		}
	}
	s->info.form.regression = true;
	s->info.form.classes = 1;
	choose_scale(t);
	return 0;
}

static int take_words(struct gt_csv_table *t, struct gt_err *err)
{
	for (size_t i = 0; i < t->rows.count; i++) {
		if (!is_number(t, t->rows.targets[i]))
			continue;
		if (gt_csv_is_beyond(t, t->rows.targets[0]))
			return fail_beyond(t, 0, err);
		bad_target(t, i, "stands among words", err);
		/* A header that was not recognised. */
		if (i == 1 && !t->head.names && t->set.header == GT_CSV_HEADER_AUTO &&
		    first_word(t, 1) == t->rows.count)
			gt_err_hint(
			    err, "if line %ld names the columns, add header=yes", t->rows.lines[0]);
		return err->code;
	}
	return number_words(t, err);
}

static int check_none_missing(const struct gt_csv_table *t, struct gt_err *err)
{
	for (size_t i = 0; i < t->rows.count; i++)
		if (gt_csv_is_missing(t->rows.targets[i])) {
			bad_target(t, i, "is missing", err);
			return gt_csv_hint_missing(t, err);
		}
	return 0;
}

static int keep_name(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;

	s->target = (struct gt_data_column){ .std = 1 };
	if (t->head.names) {
		s->target.name = gt_arena_strdup(&s->names, t->head.names[t->goal.field], err);
		if (!s->target.name)
			return GT_ENOMEM;
	}
	if (t->head.names && t->like && t->like->target.name)
		t->goal.other = strcmp(s->target.name, t->like->target.name) != 0;
	else
		t->goal.other =
		    t->goal.trained < t->head.fields && t->goal.field != t->goal.trained;
	return 0;
}

int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err)
{
	bool regression = false;
	int rc = check_none_missing(t, err);

	if (!rc)
		rc = check_values(t, err);
	if (!rc)
		rc = keep_name(t, err);
	if (!rc)
		rc = choose_task(t, &regression, err);
	if (rc)
		return rc;
	if (regression)
		return take_values(t, err);
	t->csv->targets = gt_calloc(t->rows.count, sizeof(*t->csv->targets), err);
	if (!t->csv->targets)
		return GT_ENOMEM;
	return is_number(t, t->rows.targets[0]) ? take_numbers(t, err) : take_words(t, err);
}
