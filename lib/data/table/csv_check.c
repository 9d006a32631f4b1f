/* csv_check.c - values and columns that are not read, and the hints what to do. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/data/table/csv.h"

/* ---- names ---- */

const char *gt_csv_field_name(
    const struct gt_csv_table *t, const struct gt_csv_field *f, char text[128])
{
	if (t->named && *f->head)
		snprintf(text, 128, "column '%.100s'", f->head);
	else
		snprintf(text, 128, "column %zu", (size_t)(f - t->fields));
	return text;
}

const char *gt_csv_field_key(
    const struct gt_csv_table *t, const struct gt_csv_field *f, char text[64])
{
	const char *name = t->named ? f->head : "";

	if (*name && strlen(name) < 64 && !strpbrk(name, ",/\\'\" "))
		snprintf(text, 64, "%s", name);
	else
		snprintf(text, 64, "%zu", (size_t)(f - t->fields));
	return text;
}

/* ---- values ---- */

#define DIGITS_HINT                                                                                \
	"write numbers as digits with a decimal point (decimal=point) or a decimal comma "         \
	"(decimal=comma), without other signs"
#define CLASS_HINT "classes are words, or whole numbers from 0; task=regression takes any numbers"
#define SORT_HINT                                                                                  \
	"targets are numbers, or words, which are classes; all of one sort. target=COLUMN names "  \
	"another column"

/* The text of each fault follows the value. The hints are for columns to train on, for data for a
 * model, and for targets and missing labels. */
static const struct {
	const char *text, *hint, *given_hint, *target_hint;
} faults[GT_CSV_FAULTS] = {
	[GT_CSV_WORD] = { "is not a number",
	    "if the value is missing, leave the field empty; target=COLUMN names the target",
	    "write a number, or leave out the row", SORT_HINT },
	[GT_CSV_DECORATED] = { "is not a number", DIGITS_HINT, DIGITS_HINT, DIGITS_HINT },
	[GT_CSV_INFINITE] = { "is not a number", "numbers are finite", "numbers are finite",
	    "numbers are finite" },
	[GT_CSV_BEYOND] = { "is beyond the range of float32, +-3.4e38",
	    "write the column in another unit", "leave out the row",
	    "write the column in another unit" },
	[GT_CSV_NUMBER] = { NULL, "a column has numbers or words, not both", NULL, SORT_HINT },
	[GT_CSV_MISSING] = { NULL,
	    "missing=mean or missing=median fills in numbers and words, missing=category words; "
	    "missing=drop leaves out such rows",
	    "fill it in or leave out the row",
	    "fill it in or leave out the row, as missing=drop does" },
	[GT_CSV_UNKNOWN_WORD] = { "is not among the words that the model was trained with", NULL,
	    "change the word, or leave out the row", NULL },
	[GT_CSV_FRACTION] = { "is not a whole number", NULL, NULL, CLASS_HINT },
	[GT_CSV_RANGE] = { "is out of range", NULL, NULL, CLASS_HINT },
	[GT_CSV_UNKNOWN_CLASS] = { "is not among the classes that the model was trained on", NULL,
	    NULL, "the classes are numbered from 0, as in training" },
	[GT_CSV_NO_LABEL] = { "is not 1 or 0", NULL, NULL, NULL },
};

static void add_hint(const struct gt_csv_table *t, const struct gt_csv_field *f,
    enum gt_csv_form fault, const char *value, struct gt_err *err)
{
	const char *separator = gt_csv_guess_separator(value);
	char key[64];

	gt_csv_field_key(t, f, key);
	if (fault == GT_CSV_NUMBER && t->rows == 1 && !t->named && !t->header)
		gt_err_hint(err, "if line %ld names the columns, add header=yes", f->line);
	else if (fault == GT_CSV_WORD && t->field_count == 1 && separator)
		gt_err_hint(
		    err, "if a %s separates the fields, add {read} sep=%s", separator, separator);
	else if (fault == GT_CSV_MISSING && f->role == GT_CSV_FEATURE && !t->given)
		gt_err_hint(err, "%s; skip=%s leaves out the column", faults[fault].hint, key);
	else if (f->role == GT_CSV_LABEL && fault != GT_CSV_MISSING)
		gt_err_hint(err, "a label is 1 if it holds, else 0");
	else if (f->role >= GT_CSV_TARGET || t->given)
		gt_err_hint(err, "%s",
		    f->role >= GT_CSV_TARGET ? faults[fault].target_hint
		                             : faults[fault].given_hint);
	else
		gt_err_hint(err,
		    "%s; categories=%s reads the column as words; skip=%s leaves it out",
		    faults[fault].hint, key, key);
}

int gt_csv_fail(const struct gt_csv_table *t, const struct gt_csv_field *f, enum gt_csv_form fault,
    const char *value, long line, struct gt_err *err)
{
	const char *noun = f->role == GT_CSV_TARGET  ? "the target "
	                   : f->role == GT_CSV_LABEL ? "the label "
	                                             : "";
	char name[128];

	if (fault == GT_CSV_MISSING)
		gt_err_set(err, GT_EFORMAT, "%sis missing%s%.60s%s", *noun ? noun : "the value ",
		    *value ? " ('" : "", value, *value ? "')" : "");
	else if (fault == GT_CSV_NUMBER)
		gt_err_set(err, GT_EFORMAT, "%s'%.60s' is a number, but line %ld has '%.60s'", noun,
		    value, f->line, f->first);
	else
		gt_err_set(err, GT_EFORMAT, "%s'%.60s' %s", noun, value, faults[fault].text);
	add_hint(t, f, fault, value, err);
	return gt_err_prefix(err, "line %ld, %s", line, gt_csv_field_name(t, f, name));
}

/* ---- columns ---- */

bool gt_csv_is_target_name(const char *name)
{
	static const char *const names[] = { "label", "labels", "target", "class" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

const struct gt_csv_field *gt_csv_find_target_name(const struct gt_csv_table *t)
{
	for (size_t i = 0; i < t->field_count && t->named; i++)
		if (t->fields[i].role == GT_CSV_FEATURE && gt_csv_is_target_name(t->fields[i].head))
			return &t->fields[i];
	return NULL;
}

/* Fail for words that are all numbers in another form, or that differ in most rows. */
static int check_words(
    const struct gt_csv_table *t, const struct gt_csv_field *f, struct gt_err *err)
{
	char name[128], key[64];
	size_t i = 0;
	double value;

	while (i < f->count && (!*f->words[i]->text || gt_csv_parse(f->words[i]->text, t->decimal,
	                                                   &value) == GT_CSV_DECORATED))
		i++;
	if (i == f->count)
		return gt_csv_fail(t, f, GT_CSV_DECORATED, f->first, f->line, err);
	if (f->count < GT_CSV_MANY_WORDS || 2 * f->count <= t->rows)
		return 0;
	gt_csv_field_key(t, f, key);
	if (f->role == GT_CSV_TARGET) {
		gt_err_set(err, GT_EFORMAT, "%s, the target, has %zu different classes in %zu rows",
		    gt_csv_field_name(t, f, name), f->count, t->rows);
		return gt_err_hint(err, "select the column of classes with target=COLUMN; "
		                        "task=classification uses this one all the same");
	}
	gt_err_set(err, GT_EFORMAT,
	    "%s has %zu different words in %zu rows, such as '%.40s': too few rows share a word",
	    gt_csv_field_name(t, f, name), f->count, t->rows, f->first);
	return gt_err_hint(err,
	    "skip=%s leaves the column out; categories=%s uses its words all the same", key, key);
}

/* Whether a field has one number in all rows, as float32 or as float64. */
static bool is_constant(const struct gt_csv_table *t, size_t place, bool single)
{
	const double *cell = t->csv->cells + place, first = *cell;
	size_t r = 0;

	while (r < t->rows && (single ? (float)*cell == (float)first : *cell == first)) {
		cell += t->csv->width;
		r++;
	}
	return r == t->rows;
}

/* Fail for numbers of which float32 holds all as one, if they are not standardized before. */
static int check_digits(
    const struct gt_csv_table *t, const struct gt_csv_field *f, struct gt_err *err)
{
	char name[128];

	if (!is_constant(t, f->place, true) || is_constant(t, f->place, false))
		return 0;
	gt_err_set(err, GT_EFORMAT,
	    "%s: float32 has one number for all its numbers, so standardise=no makes them equal",
	    gt_csv_field_name(t, f, name));
	return gt_err_hint(err, "leave out standardise=no, or subtract a constant from the column");
}

/* Fail if the target, or each label, has one value, of which a model learns nothing. */
static int check_targets(const struct gt_csv_table *t, struct gt_err *err)
{
	const struct gt_csv_field *f = t->target, *other = gt_csv_find_target_name(t);
	char name[128], key[64];

	for (size_t i = 0; i < t->targets; i++)
		if (!is_constant(t, t->columns + i, false))
			return 0;
	if (!f) {
		gt_err_set(err, GT_EFORMAT, "each label has the same value in all rows");
		return gt_err_hint(err, "labels=COLUMN/... names other columns");
	}
	gt_err_set(err, GT_EFORMAT, "%s is the target, but has the same value, '%.60s', in %s",
	    gt_csv_field_name(t, f, name), f->has_words ? f->words[0]->text : f->first,
	    t->rows > 1 ? "all rows" : "the only row");
	if (other)
		return gt_err_hint(err, "if the target is '%.60s', add target=%s", other->head,
		    gt_csv_field_key(t, other, key));
	return gt_err_hint(err, "target=COLUMN names another column");
}

int gt_csv_check_fields(const struct gt_csv_table *t, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < t->field_count && !rc; i++) {
		const struct gt_csv_field *f = &t->fields[i];
		bool meant = f->categories ||
		             (f == t->target ? t->task != GT_CSV_TASK_AUTO : t->like != NULL);

		if (f->role < GT_CSV_FEATURE)
			continue;
		if (f->has_words && t->fitted && !meant)
			rc = check_words(t, f, err);
		else if (!f->has_words && !t->standardise && t->trained_on)
			rc = check_digits(t, f, err);
	}
	return !rc && t->fitted ? check_targets(t, err) : rc;
}
