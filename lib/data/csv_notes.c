/* csv_notes.c - the notes of a table: how its columns and its target were read. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/csv.h"

enum { NOTE_BYTES = 600 };

static void add(char text[NOTE_BYTES], const char *separator, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add to a note, behind the separator unless the note is empty. */
static void add(char text[NOTE_BYTES], const char *separator, const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	used += (size_t)snprintf(text + used, NOTE_BYTES - used, "%s", used ? separator : "");
	if (used >= NOTE_BYTES)
		return;
	va_start(args, format);
	vsnprintf(text + used, NOTE_BYTES - used, format, args);
	va_end(args);
}

/* A header that was not recognised would be a row of values. */
static void note_header(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	if (t->header != GT_CSV_HEADER_AUTO)
		return;
	add(text, "; ", "%s",
	    t->names ? "the first row names the columns"
	             : "the first row is read as values; if it names the columns, add header=yes");
}

/* "'price'" or "column 2": the target here, or in training. */
static const char *describe_target(const struct gt_csv_table *t, bool training, char text[128])
{
	const char *name = training ? t->like->target.name : t->csv->source.target.name;

	if (!name || (training && !t->names))
		snprintf(text, 128, "column %zu", training ? t->trained_target : t->target);
	else
		snprintf(text, 128, "'%.60s'", name);
	return text;
}

static void note_task(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	char here[128], there[128], guess[240];

	if (!t->csv->source.info.regression)
		return;
	if (t->other_target && t->request->new_classes)
		add(text, "; ",
		    "the target is %s, not %s as in the training: its mean and standard "
		    "deviation are measured anew",
		    describe_target(t, false, here), describe_target(t, true, there));
	else if (t->like && t->like->regression && t->request->new_classes)
		add(text, "; ", "regression, as in the training%s",
		    t->standardise ? ": the target keeps the mean and standard deviation from there"
		                   : "");
	else if (!t->like && t->task == GT_CSV_TASK_AUTO)
		add(text, "; ", "%s", gt_target_describe_guess(&t->summary, guess, sizeof(guess)));
}

static void note_decimal(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	if (t->decimal == ',' && t->decimals == GT_CSV_DECIMAL_AUTO)
		add(text, "; ", "numbers have a decimal comma, as with decimal=comma");
}

static void note_missing(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	if (t->dropped)
		add(text, "; ", "missing=drop: %zu of %zu rows are left out", t->dropped,
		    t->rows + t->dropped);
}

static void note_ignored(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	char name[128], more[40] = "";

	if (!t->ignored)
		return;
	if (t->ignored > 1)
		snprintf(more, sizeof(more), " and %zu more", t->ignored - 1);
	add(text, "; ", "%s%s: ignored, as the model was not trained with %s",
	    gt_csv_field_name(t, t->first_ignored, name, sizeof(name)), more,
	    t->ignored > 1 ? "them" : "it");
}

/* Columns that were found to have words. */
static void note_categories(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	const struct gt_source *s = &t->csv->source;
	bool named = false;

	for (int k = 0; k < s->column_count && !t->like; k++) {
		const struct gt_data_column *c = &s->columns[k];
		char number[24];

		if (!c->count || strlen(text) + (c->name ? strlen(c->name) : 0) + 60 > NOTE_BYTES)
			continue;
		snprintf(number, sizeof(number), "%d", k);
		add(text, named ? ", " : "; ", "%s%s (%d words)",
		    named ? "" : "categories: ", c->name ? c->name : number, c->count);
		named = true;
	}
}

/* Numbers that lose digits. */
static void note_digits(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	char name[128];

	if (t->same[0] == t->same[1])
		return;
	add(text, "; ",
	    "standardise=no: %s has different numbers that are the same as float32, such as %.15g "
	    "and %.15g; leave out standardise=no, or subtract a constant from the column",
	    gt_csv_field_name(t, t->same_field, name, sizeof(name)), t->same[0], t->same[1]);
}

/* Settings that differ from those of the training. */
static void note_differences(const struct gt_csv_table *t, char text[NOTE_BYTES])
{
	const struct gt_data_description *like = t->like;
	char here[128], there[128];
	bool scaled = false;

	for (int k = 0; like && k < like->column_count; k++)
		scaled |= like->columns[k].mean != 0 || like->columns[k].std != 1;
	if (scaled && !t->standardise)
		add(text, "; ",
		    "standardise=no, but the model was trained on standardized columns");
	if (t->other_target && !t->request->new_classes)
		add(text, "; ", "the target is %s, but the model was trained on %s",
		    describe_target(t, false, here), describe_target(t, true, there));
}

static int keep(struct gt_csv_table *t, const char **out, const char *text, struct gt_err *err)
{
	*out = *text ? gt_arena_strdup(&t->csv->source.names, text, err) : NULL;
	return *text && !*out ? GT_ENOMEM : 0;
}

int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_data_info *info = &t->csv->source.info;
	char text[NOTE_BYTES] = "", overruled[NOTE_BYTES] = "", warnings[NOTE_BYTES] = "";
	int rc;

	note_header(t, text);
	note_decimal(t, text);
	note_task(t, text);
	note_ignored(t, text);
	note_missing(t, text);
	note_categories(t, text);
	note_differences(t, overruled);
	gt_csv_warn_columns(t, warnings, NOTE_BYTES);
	note_digits(t, warnings);
	rc = keep(t, &info->interpretation, text, err);
	if (!rc)
		rc = keep(t, &info->note, warnings, err);
	return rc ? rc : keep(t, &info->overruled, overruled, err);
}
