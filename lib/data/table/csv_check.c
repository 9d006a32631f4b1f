/* csv_check.c - tables that were probably not meant this way, and notes: how one was read. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* ---- errors ---- */

/* A column whose words are all numbers in another form. */
static bool is_decorated(const struct gt_csv_table *t, const struct gt_csv_column *c)
{
	double value;

	for (size_t i = 0; i < c->count; i++)
		if (*c->words[i].text &&
		    gt_csv_parse(c->words[i].text, t->head.decimal, &value) != GT_CSV_DECORATED)
			return false;
	return true;
}

int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err)
{
	char name[128], key[64];

	for (size_t i = 0; i < t->head.fields && gt_csv_is_fitted(t) && !t->like; i++) {
		const struct gt_csv_column *c = gt_csv_column(t, i);

		if (!c || !c->text || c->categories)
			continue;
		gt_csv_field_name(t, i, name);
		gt_csv_field_key(t, i, key);
		if (is_decorated(t, c)) {
			gt_err_set(err, GT_EFORMAT, "%s: '%.60s' is not a number", name, c->first);
			return gt_csv_hint_decorated(t, c->first, i, err);
		}
		if (c->count < GT_CSV_MANY_WORDS || 2 * c->count <= t->rows.count)
			continue;
		gt_err_set(err, GT_EFORMAT,
		    "%s has %zu different words in %zu rows, such as '%.40s': too few rows share a "
		    "word",
		    name, c->count, t->rows.count, c->first);
		return gt_err_hint(err,
		    "skip=%s leaves the column out; categories=%s uses its words all the same", key,
		    key);
	}
	return 0;
}

static bool is_target_name(const char *name)
{
	return !strcasecmp(name, "label") || !strcasecmp(name, "labels") ||
	       !strcasecmp(name, "target") || !strcasecmp(name, "class");
}

/* A column, other than the target, with a usual name of targets; `fields` if there is none. */
static size_t find_target_name(const struct gt_csv_table *t)
{
	size_t i = 0;

	while (i < t->head.fields &&
	       !(t->head.names && gt_csv_column(t, i) && is_target_name(t->head.names[i])))
		i++;
	return i;
}

int gt_csv_check_values(const struct gt_csv_table *t, struct gt_err *err)
{
	size_t row = 1, other = find_target_name(t);
	char name[128], key[64];

	while (row < t->rows.count && !strcmp(t->rows.targets[row], t->rows.targets[0]))
		row++;
	if (row < t->rows.count || !gt_csv_is_fitted(t))
		return 0;
	gt_err_set(err, GT_EFORMAT, "%s is the target, but has the same value, '%.60s', in %s",
	    gt_csv_field_name(t, t->goal.field, name), t->rows.targets[0],
	    t->rows.count > 1 ? "all rows" : "the only row");
	if (other < t->head.fields)
		return gt_err_hint(err, "if the target is '%.60s', add target=%s",
		    t->head.names[other], gt_csv_field_key(t, other, key));
	return gt_err_hint(err, "target=COLUMN names another column");
}

/* Whether numbers that stand `step` apart differ, but not as float32. */
static bool are_lost(const double *x, size_t count, size_t step)
{
	bool vary = false;

	for (size_t i = 1; i < count; i++) {
		if ((float)x[i * step] != (float)x[0])
			return false;
		vary |= x[i * step] != x[0];
	}
	return vary;
}

/* Standardized numbers keep their digits. */
int gt_csv_check_digits(const struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_csv *c = t->csv;
	char name[128];

	for (size_t i = 0; i < t->head.fields; i++) {
		const struct gt_csv_column *column = gt_csv_column(t, i);
		bool lost = false;

		if (i == t->goal.field)
			lost = c->numbers && are_lost(c->numbers, t->rows.count, 1);
		else if (column && !column->text)
			lost =
			    are_lost(c->cells + t->head.place[i], t->rows.count, t->column_count);
		if (!lost || t->set.standardise || !gt_csv_is_trained_on(t))
			continue;
		gt_err_set(err, GT_EFORMAT,
		    "%s: float32 has one number for all its numbers, so standardise=no makes them "
		    "equal",
		    gt_csv_field_name(t, i, name));
		return gt_err_hint(
		    err, "leave out standardise=no, or subtract a constant from the column");
	}
	return 0;
}

/* ---- notes ---- */

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

static bool has_whole_numbers(const struct gt_csv_table *t, const double *cell)
{
	size_t r = 0;

	while (r < t->rows.count && floor(cell[r * t->column_count]) == cell[r * t->column_count])
		r++;
	return r == t->rows.count;
}

/* Whether a column seems to number the rows: its name says so; it is the first one and has no name,
 * as an index of pandas; or its numbers rise and it has no name or one that ends in "id". */
static bool is_index(const struct gt_csv_table *t, size_t field)
{
	const char *name = t->head.names[field];
	const double *cell = t->csv->cells + t->head.place[field];
	size_t length = strlen(name), r = 1;

	if (!strcasecmp(name, "id") || !strcasecmp(name, "index") || !strcmp(name, "Unnamed: 0"))
		return true;
	if (!length && field == 0 && has_whole_numbers(t, cell))
		return !gt_csv_column(t, field)->text;
	if (length && (length < 3 || (strcasecmp(name + length - 3, "_id") != 0 &&
	                                 strcmp(name + length - 2, "Id") != 0)))
		return false;
	while (r < t->rows.count && cell[r * t->column_count] > cell[(r - 1) * t->column_count])
		r++;
	return r > 1 && r == t->rows.count && !gt_csv_column(t, field)->text;
}

static void warn_columns(const struct gt_csv_table *t, char note[NOTE])
{
	size_t other = find_target_name(t);
	char name[128], key[64];

	if (!gt_csv_is_fitted(t) || !t->head.names)
		return;
	if (other < t->head.fields && !t->like && !t->goal.label_count &&
	    !gt_spec_value(t->spec, "target") && !is_target_name(t->head.names[t->goal.field]))
		add_note(note, "the target is %s, the last one; if it is '%.60s', add target=%s",
		    gt_csv_field_name(t, t->goal.field, name), t->head.names[other],
		    gt_csv_field_key(t, other, key));
	for (size_t i = 0; i < t->head.fields; i++)
		if (gt_csv_column(t, i) && is_index(t, i))
			add_note(note,
			    "%s seems to number the rows, but is used as a feature: skip=%s leaves "
			    "it out",
			    gt_csv_field_name(t, i, name), gt_csv_field_key(t, i, key));
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

static void note_task(const struct gt_csv_table *t, char note[NOTE])
{
	char here[128], there[128], guess[240];
	bool guessed = !t->like && t->set.task == GT_CSV_TASK_AUTO && t->goal.summary.count;

	if (guessed && *gt_target_describe_guess(&t->goal.summary, guess, sizeof(guess)))
		add_note(note, "%s", guess);
	if (guessed || t->csv->source.info.form.target != GT_SAMPLE_NUMBER ||
	    !t->request->new_classes)
		return;
	if (t->goal.other)
		add_note(note,
		    "the target is %s, not %s as in the training: its mean and standard "
		    "deviation are measured anew",
		    describe_target(t, false, here), describe_target(t, true, there));
	else if (t->like && t->like->form.target == GT_SAMPLE_NUMBER)
		add_note(note, "regression, as in the training%s",
		    t->set.standardise
		        ? ": the target keeps the mean and standard deviation from there"
		        : "");
}

/* Tell how many words a column has, whether they are dates, and how many numbers are filled in. */
static void note_columns(const struct gt_csv_table *t, char note[NOTE])
{
	enum gt_data_missing missing = t->csv->source.missing;
	char name[128];

	for (size_t i = 0; i < t->head.fields; i++) {
		const struct gt_csv_column *c = gt_csv_column(t, i);

		if (!c || strlen(note) > NOTE - 200)
			continue;
		gt_csv_field_name(t, i, name);
		if (c->text && !t->like)
			add_note(note, "%s has categories (%zu %s)", name, c->count,
			    gt_csv_is_date(c->first) ? "dates, read as words" : "words");
		if (c->filled)
			add_note(note, "missing=%s: %zu value%s of %s filled in",
			    gt_data_missing_names[missing], c->filled, c->filled > 1 ? "s" : "",
			    name);
	}
}

static void note_reading(const struct gt_csv_table *t, char note[NOTE])
{
	char name[128];

	if (t->set.header == GT_CSV_HEADER_AUTO)
		add_note(note, "%s",
		    t->head.names ? "the first row names the columns"
		                  : "the first row is read as values; if it names the columns, add "
		                    "header=yes");
	if (t->head.decimal == ',' && t->set.decimal == GT_CSV_DECIMAL_AUTO)
		add_note(note, "numbers have a decimal comma, as with decimal=comma");
	note_task(t, note);
	if (t->head.ignored)
		add_note(note, "%s%s: ignored, as the model was not trained with %s",
		    gt_csv_field_name(t, t->head.first_ignored, name),
		    t->head.ignored > 1 ? " and others" : "", t->head.ignored > 1 ? "them" : "it");
	if (t->rows.dropped)
		add_note(note, "missing=drop: %zu of %zu rows are left out", t->rows.dropped,
		    t->rows.count + t->rows.dropped);
	note_columns(t, note);
}

/* Settings that differ from those of the training. */
static void note_differences(const struct gt_csv_table *t, char note[NOTE])
{
	const struct gt_data_description *like = t->like;
	char here[128], there[128];
	bool scaled = false;

	for (int k = 0; like && k < like->column_count; k++)
		scaled |= like->columns[k].mean != 0 || like->columns[k].std != 1;
	if (scaled && !t->set.standardise)
		add_note(note, "standardise=no, but the model was trained on standardized columns");
	if (t->goal.other && !t->request->new_classes)
		add_note(note, "the target is %s, but the model was trained on %s",
		    describe_target(t, false, here), describe_target(t, true, there));
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
