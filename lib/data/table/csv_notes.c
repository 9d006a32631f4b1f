/* csv_notes.c - notes about a table: how it was read, and what may be meant otherwise. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

enum { NOTE = 600 };

/* Add to a note, behind "; " unless the note is empty. */
__attribute__((format(printf, 2, 3))) static void add_note(char note[NOTE], const char *format, ...)
{
	size_t used = strlen(note);
	va_list args;

	used += (size_t)snprintf(note + used, NOTE - used, "%s", used ? "; " : "");
	if (used >= NOTE)
		return;
	va_start(args, format);
	vsnprintf(note + used, NOTE - used, format, args);
	va_end(args);
}

/* ---- the line about the reading ---- */

/* "'price'" or "column 2": the target here, or in training. */
static const char *describe_target(const struct gt_csv_table *t, bool training, char text[128])
{
	const struct gt_csv_field *f = training ? t->trained : t->target;
	const char *name = training ? t->like->target.name : t->csv->source.target.name;

	if (t->named && name)
		snprintf(text, 128, "'%.60s'", name);
	else
		snprintf(text, 128, "column %zu", (size_t)(f - t->fields));
	return text;
}

static void note_task(const struct gt_csv_table *t, char note[NOTE])
{
	char here[128], there[128], guess[240];

	if (t->summary.count && *gt_target_describe_guess(&t->summary, guess, sizeof(guess)))
		add_note(note, "%s", guess);
	if (t->summary.count || t->csv->source.info.form.target != GT_SAMPLE_NUMBER ||
	    !t->request->new_classes)
		return;
	if (gt_csv_is_other_target(t))
		add_note(note,
		    "the target is %s, not %s as in the training: its mean and standard "
		    "deviation are measured anew",
		    describe_target(t, false, here), describe_target(t, true, there));
	else if (t->like && t->like->form.target == GT_SAMPLE_NUMBER)
		add_note(note, "regression, as in the training%s",
		    t->standardise ? ": the target keeps the mean and standard deviation from there"
		                   : "");
}

static size_t count_missing(const struct gt_csv_table *t, size_t place)
{
	size_t count = 0;

	for (size_t r = 0; r < t->rows; r++)
		count += isnan(t->csv->cells[r * t->csv->width + place]);
	return count;
}

/* Tell how many words columns have, and how many numbers are filled in. */
static void note_columns(const struct gt_csv_table *t, char note[NOTE])
{
	enum gt_data_missing missing = t->csv->source.missing;
	char name[128];

	for (size_t i = 0; i < t->field_count; i++) {
		const struct gt_csv_field *f = &t->fields[i];
		size_t filled;

		if (f->role != GT_CSV_FEATURE || strlen(note) > NOTE - 200)
			continue;
		gt_csv_field_name(t, f, name);
		if (f->has_words && !t->like)
			add_note(note, "%s has categories (%zu words)", name, f->count);
		filled = gt_data_fills_numbers(missing) ? count_missing(t, f->place) : 0;
		if (filled)
			add_note(note, "missing=%s: %zu value%s of %s filled in",
			    gt_data_missing_names[missing], filled, filled > 1 ? "s" : "", name);
	}
}

static void note_reading(const struct gt_csv_table *t, char note[NOTE])
{
	const struct gt_csv_field *first = NULL;
	size_t ignored = 0;
	char name[128];

	if (t->header == GT_CSV_HEADER_AUTO)
		add_note(note, "%s",
		    t->named ? "the first row names the columns"
		             : "the first row is read as values; if it names the columns, add "
		               "header=yes");
	if (t->decimal == ',' && !t->given_decimal)
		add_note(note, "numbers have a decimal comma, as with decimal=comma");
	note_task(t, note);
	for (size_t i = t->field_count; i-- > 0;)
		if (t->fields[i].role == GT_CSV_IGNORED) {
			first = &t->fields[i];
			ignored++;
		}
	if (first)
		add_note(note, "%s%s: ignored, as the model was not trained with %s",
		    gt_csv_field_name(t, first, name), ignored > 1 ? " and others" : "",
		    ignored > 1 ? "them" : "it");
	if (t->dropped)
		add_note(note, "missing=drop: %zu of %zu rows are left out", t->dropped,
		    t->rows + t->dropped);
	note_columns(t, note);
}

/* ---- the warning about differences from the training ---- */

static void note_differences(const struct gt_csv_table *t, char note[NOTE])
{
	const struct gt_data_description *like = t->like;
	char here[128], there[128];
	bool scaled = false;

	for (int k = 0; like && k < like->column_count; k++)
		scaled |= like->columns[k].mean != 0 || like->columns[k].std != 1;
	if (scaled && !t->standardise)
		add_note(note, "standardise=no, but the model was trained on standardized columns");
	if (t->target && gt_csv_is_other_target(t) && !t->request->new_classes)
		add_note(note, "the target is %s, but the model was trained on %s",
		    describe_target(t, false, here), describe_target(t, true, there));
}

/* ---- the warning about columns ---- */

/* Whether a column seems to number the rows: its name says so, or it has numbers, and either it is
 * the first one, whole and without a name, as an index of pandas, or it rises and has no name or
 * one that ends in "id". */
static bool is_index(const struct gt_csv_table *t, const struct gt_csv_field *f)
{
	const char *name = f->head;
	const double *cell = t->csv->cells + f->place, *before = cell;
	size_t length = strlen(name);
	bool id = length > 2 &&
	          (!strcasecmp(name + length - 3, "_id") || !strcmp(name + length - 2, "Id"));
	bool whole = true, rising = t->rows > 1;

	if (!strcasecmp(name, "id") || !strcasecmp(name, "index") || !strcmp(name, "Unnamed: 0"))
		return true;
	if (f->has_words || (length && !id))
		return false;
	for (size_t r = 0; r < t->rows; r++, before = cell, cell += t->csv->width) {
		whole &= floor(*cell) == *cell;
		rising &= !r || *cell > *before;
	}
	return rising || (whole && !length && f == t->fields);
}

static void warn_columns(const struct gt_csv_table *t, char note[NOTE])
{
	const struct gt_csv_field *other = gt_csv_find_target_name(t);
	char name[128], key[64];

	if (!t->fitted || !t->named)
		return;
	if (other && t->target && !t->like && !gt_spec_value(t->spec, "target") &&
	    !gt_csv_is_target_name(t->target->head))
		add_note(note, "the target is %s, the last one; if it is '%.60s', add target=%s",
		    gt_csv_field_name(t, t->target, name), other->head,
		    gt_csv_field_key(t, other, key));
	for (size_t i = 0; i < t->field_count; i++) {
		const struct gt_csv_field *f = &t->fields[i];

		if (f->role == GT_CSV_FEATURE && is_index(t, f))
			add_note(note,
			    "%s seems to number the rows, but is used as a feature: skip=%s leaves "
			    "it out",
			    gt_csv_field_name(t, f, name), gt_csv_field_key(t, f, key));
	}
}

int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err)
{
	struct gt_data_info *info = &t->csv->source.info;
	const char **out[] = { &info->interpretation, &info->overruled, &info->note };
	void (*const write[])(
	    const struct gt_csv_table *, char *) = { note_reading, note_differences, warn_columns };

	for (size_t i = 0; i < sizeof(out) / sizeof(*out); i++) {
		char note[NOTE] = "";

		write[i](t, note);
		*out[i] = *note ? gt_arena_strdup(&t->csv->source.names, note, err) : NULL;
		if (*note && !*out[i])
			return GT_ENOMEM;
	}
	return 0;
}
