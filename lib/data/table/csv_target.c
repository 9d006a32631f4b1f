/* csv_target.c - the targets of a table: classes, numbers, or labels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

static double *target_of(const struct gt_csv_table *t, size_t row)
{
	return &t->csv->cells[row * t->csv->width + t->target->place];
}

/* ---- the task ---- */

bool gt_csv_is_regression(const struct gt_csv_table *t)
{
	if (t->task != GT_CSV_TASK_AUTO)
		return t->task == GT_CSV_REGRESSION;
	return t->like && !t->request->new_classes && t->like->form.target == GT_SAMPLE_NUMBER;
}

/* Guess the task from the numbers of the targets. */
static int guess_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	enum gt_target_guess guess;
	char name[128];

	if (gt_target_summarize(
	        &t->summary, target_of(t, 0), t->rows, t->csv->width, t->request, err))
		return err->code;
	guess = gt_target_guess(&t->summary);
	if (t->fitted && guess == GT_TARGET_SPARSE)
		return gt_target_fail_sparse(
		    &t->summary, gt_csv_field_name(t, t->target, name), err);
	*regression = t->fitted ? guess == GT_TARGET_NUMBERS : t->summary.fractions;
	return 0;
}

/* Choose the task of targets that are numbers: as the spec says, as in training, or guessed. Where
 * the data may have new classes, whole numbers do not end a regression. */
static int choose_task(struct gt_csv_table *t, bool *regression, struct gt_err *err)
{
	bool trained = t->like && t->like->form.target == GT_SAMPLE_NUMBER;

	*regression = gt_csv_is_regression(t);
	if (t->task != GT_CSV_TASK_AUTO)
		return 0;
	if (!t->like || (t->request->new_classes && !trained))
		return guess_task(t, regression, err);
	*regression = trained;
	return 0;
}

/* ---- classes ---- */

/* Words are the classes 0, 1, ... in the order of their bytes. The line of the first row of each
 * is for messages. */
static int take_words(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	struct gt_csv_field *f = t->target;
	long *lines = gt_arena_alloc(&s->names, f->count * sizeof(*lines), err);

	if (!lines || gt_csv_sort_words(t, f, &s->class_names, err))
		return GT_ENOMEM;
	for (size_t i = 0; i < f->count; i++)
		lines[f->words[i]->number] = f->words[i]->line;
	s->class_lines = lines;
	s->info.form.classes = (int)f->count;
	return 0;
}

static int fail_number(
    const struct gt_csv_table *t, size_t row, enum gt_csv_form fault, struct gt_err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", *target_of(t, row));
	return gt_csv_fail(t, t->target, fault, text, t->lines[row], err);
}

/* Whole numbers are classes themselves, but for the ignored one. */
static int take_classes(struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_data_description *like = t->request->new_classes ? NULL : t->like;
	bool numbered = like && like->form.target != GT_SAMPLE_NUMBER && like->form.classes &&
	                !like->class_names;
	int *classes = &t->csv->source.info.form.classes;

	for (size_t r = 0; r < t->rows; r++) {
		double *value = target_of(t, r);

		if (gt_target_is_ignored(t->request, *value)) {
			*value = GT_DATA_IGNORE;
			continue;
		}
		if (*value != floor(*value))
			return fail_number(t, r, GT_CSV_FRACTION, err);
		if (*value < 0 || *value >= GT_CSV_MAX_CLASSES)
			return fail_number(t, r, GT_CSV_RANGE, err);
		if (numbered && *value >= like->form.classes)
			return fail_number(t, r, GT_CSV_UNKNOWN_CLASS, err);
		*classes = (int)*value >= *classes ? (int)*value + 1 : *classes;
	}
	return 0;
}

/* ---- numbers ---- */

/* Numbers stay as they are in the file until they are read. A target of another name is on another
 * scale, which is measured where the model may change. */
static void take_numbers(struct gt_csv_table *t)
{
	struct gt_source *s = &t->csv->source;
	bool known = t->like && t->like->form.target == GT_SAMPLE_NUMBER;
	bool anew = known && gt_csv_is_other_target(t) && t->request->new_classes;

	s->info.form.target = GT_SAMPLE_NUMBER;
	s->info.form.classes = 1;
	s->info.other_classes |= anew;
	t->csv->target_known = (known && !anew) || !t->standardise;
	if (known && !anew && t->standardise) {
		s->target.mean = t->like->target.mean;
		s->target.std = t->like->target.std;
	}
}

/* ---- labels ---- */

static int name_labels(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	const char **names = gt_arena_alloc(&s->names, t->targets * sizeof(*names), err);
	char name[128];

	s->info.form.target = GT_SAMPLE_LABELS;
	s->info.form.classes = (int)t->targets;
	s->class_names = names;
	for (struct gt_csv_field *f = t->fields; names && f < t->fields + t->field_count; f++) {
		if (f->role != GT_CSV_LABEL)
			continue;
		names[f->place - t->columns] = gt_arena_strdup(
		    &s->names, t->named ? f->head : gt_csv_field_name(t, f, name), err);
		if (!names[f->place - t->columns])
			return GT_ENOMEM;
	}
	return names ? 0 : GT_ENOMEM;
}

/* ---- all targets ---- */

bool gt_csv_is_other_target(const struct gt_csv_table *t)
{
	const char *trained = t->like ? t->like->target.name : NULL;

	if (t->named && trained)
		return strcmp(t->target->head, trained) != 0;
	return t->trained && t->target != t->trained;
}

int gt_csv_finish_targets(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_source *s = &t->csv->source;
	bool regression = false;
	int rc;

	s->target = (struct gt_data_column){ .std = 1 };
	if (!t->target)
		return name_labels(t, err);
	if (t->named) {
		s->target.name = gt_arena_strdup(&s->names, t->target->head, err);
		if (!s->target.name)
			return GT_ENOMEM;
	}
	if (t->target->has_words)
		return take_words(t, err);
	rc = choose_task(t, &regression, err);
	if (rc || !regression)
		return rc ? rc : take_classes(t, err);
	take_numbers(t);
	return 0;
}
