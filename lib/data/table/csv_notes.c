/* csv_notes.c - the notes of a table: how its columns and its target were read. */
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* A header that was not recognised would be a row of values. */
static void note_header(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	if (t->set.header != GT_CSV_HEADER_AUTO)
		return;
	gt_csv_note(text, "%s",
	    t->head.names
	        ? "the first row names the columns"
	        : "the first row is read as values; if it names the columns, add header=yes");
}

/* "'price'" or "column 2": the target here, or in training. */
static const char *describe_target(const struct gt_csv_table *t, bool training, char text[128])
{
	const char *name = training ? t->like->target.name : t->csv->source.target.name;

	if (!name || (training && !t->head.names))
		snprintf(text, 128, "column %zu", training ? t->goal.trained : t->goal.field);
	else
		snprintf(text, 128, "'%.60s'", name);
	return text;
}

static void note_task(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	char here[128], there[128], guess[240];
	bool guessed = !t->like && t->set.task == GT_CSV_TASK_AUTO && t->goal.summary.count;

	if (guessed && *gt_target_describe_guess(&t->goal.summary, guess, sizeof(guess)))
		gt_csv_note(text, "%s", guess);
	if (guessed || !t->csv->source.info.form.regression)
		return;
	if (t->goal.other && t->request->new_classes)
		gt_csv_note(text,
		    "the target is %s, not %s as in the training: its mean and standard "
		    "deviation are measured anew",
		    describe_target(t, false, here), describe_target(t, true, there));
	else if (t->like && t->like->form.regression && t->request->new_classes)
		gt_csv_note(text, "regression, as in the training%s",
		    t->set.standardise
		        ? ": the target keeps the mean and standard deviation from there"
		        : "");
}

static void note_decimal(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	if (t->head.decimal == ',' && t->set.decimal == GT_CSV_DECIMAL_AUTO)
		gt_csv_note(text, "numbers have a decimal comma, as with decimal=comma");
}

static void note_missing(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	if (t->rows.dropped)
		gt_csv_note(text, "missing=drop: %zu of %zu rows are left out", t->rows.dropped,
		    t->rows.count + t->rows.dropped);
}

static void note_ignored(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	char name[128], more[40] = "";

	if (!t->head.ignored)
		return;
	if (t->head.ignored > 1)
		snprintf(more, sizeof(more), " and %zu more", t->head.ignored - 1);
	gt_csv_note(text, "%s%s: ignored, as the model was not trained with %s",
	    gt_csv_field_name(t, t->head.first_ignored, name, sizeof(name)), more,
	    t->head.ignored > 1 ? "them" : "it");
}

/* Columns that were found to have words. */
static void note_categories(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	const struct gt_source *s = &t->csv->source;
	char list[GT_CSV_NOTE] = "";
	size_t used = 0;

	for (int k = 0; k < s->column_count && !t->like; k++) {
		const struct gt_data_column *c = &s->columns[k];
		char number[24];
		const char *name = c->name ? c->name : number;

		snprintf(number, sizeof(number), "%d", k);
		if (c->count && strlen(text) + used + strlen(name) + 60 < GT_CSV_NOTE)
			used += (size_t)snprintf(list + used, sizeof(list) - used,
			    "%s%s (%d words)", used ? ", " : "", name, c->count);
	}
	if (used)
		gt_csv_note(text, "categories: %s", list);
}

/* Settings that differ from those of the training. */
static void note_differences(const struct gt_csv_table *t, char text[GT_CSV_NOTE])
{
	const struct gt_data_description *like = t->like;
	char here[128], there[128];
	bool scaled = false;

	for (int k = 0; like && k < like->column_count; k++)
		scaled |= like->columns[k].mean != 0 || like->columns[k].std != 1;
	if (scaled && !t->set.standardise)
		gt_csv_note(
		    text, "standardise=no, but the model was trained on standardized columns");
	if (t->goal.other && !t->request->new_classes)
		gt_csv_note(text, "the target is %s, but the model was trained on %s",
		    describe_target(t, false, here), describe_target(t, true, there));
}

int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_data_info *info = &t->csv->source.info;
	char text[GT_CSV_NOTE] = "", overruled[GT_CSV_NOTE] = "", warnings[GT_CSV_NOTE] = "";
	int rc;

	note_header(t, text);
	note_decimal(t, text);
	note_task(t, text);
	note_ignored(t, text);
	note_missing(t, text);
	note_categories(t, text);
	note_differences(t, overruled);
	gt_csv_warn_columns(t, warnings);
	rc = gt_csv_keep(t, &info->interpretation, *text ? text : NULL, err);
	if (!rc)
		rc = gt_csv_keep(t, &info->note, *warnings ? warnings : NULL, err);
	return rc ? rc : gt_csv_keep(t, &info->overruled, *overruled ? overruled : NULL, err);
}
