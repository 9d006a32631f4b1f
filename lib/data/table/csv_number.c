/* csv_number.c - numbers in the fields of a table: decimal point or comma, missing values. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* Convert a text that is a number from its first to its last character. A number with a decimal
 * comma is converted from a copy, which has a point. */
static bool convert_number(const char *s, char decimal, double *value)
{
	char copy[128], *end, *comma;

	if (decimal == ',' && strchr(s, '.'))
		return false;
	if (decimal == ',' && strchr(s, ',') && strlen(s) < sizeof(copy)) {
		strcpy(copy, s);
		comma = strchr(copy, ',');
		*comma = '.';
		s = copy;
	}
	errno = 0;
	*value = strtod(s, &end);
	return end != s && !*end;
}

bool gt_csv_parse_number(const struct gt_csv_table *t, const char *s, double *value)
{
	return convert_number(s, t->head.decimal, value) && isfinite(*value) &&
	       (errno != ERANGE || fabs(*value) < 1) &&
	       fabs(*value) <= 3.4028234663852886e38; /* FLT_MAX */
}

bool gt_csv_looks_like_number(const struct gt_csv_table *t, const char *s)
{
	double value;

	return convert_number(s, t->head.decimal, &value);
}

/* Whether a text begins with a digit, after spaces, a sign, a point or a comma. */
static bool has_digit(const char *s)
{
	return isdigit((unsigned char)s[strspn(s, " +-.,")]);
}

bool gt_csv_is_number(const struct gt_csv_table *t, const char *s)
{
	return has_digit(s) && gt_csv_looks_like_number(t, s);
}

bool gt_csv_is_beyond(const struct gt_csv_table *t, const char *s)
{
	double value;

	return gt_csv_is_number(t, s) && !gt_csv_parse_number(t, s, &value);
}

int gt_csv_hint_unit(const struct gt_csv_table *t, struct gt_err *err)
{
	return gt_err_hint(err, t->like || t->request->inputs ? "leave out the row"
	                                                      : "write the column in another unit");
}

/* Words that may stand in a column of numbers, in upper or lower case, and whether they always mean
 * a missing value. "none" does not, as it may be a category or a class. */
static const struct {
	const char *text;
	bool missing;
} values[] = { { "", true }, { "na", true }, { "n/a", true }, { "nan", true }, { "null", true },
	{ "none", false }, { "inf", false }, { "infinity", false } };

enum { VALUES = sizeof(values) / sizeof(*values) };

/* The index of a word in `values`; VALUES if it is not there. */
static size_t find_value(const char *s)
{
	size_t i = 0;

	while (i < VALUES && strcasecmp(s, values[i].text) != 0)
		i++;
	return i;
}

bool gt_csv_is_missing(const char *s)
{
	size_t i = find_value(s);

	return i < VALUES && values[i].missing;
}

bool gt_csv_is_name(const char *s)
{
	return find_value(s + strspn(s, "+-.")) == VALUES && !has_digit(s);
}

/* ---- the decimal comma ---- */

enum { DECIMAL_ROWS = 1000 };

/* The forms of numbers that occur in a field of the first rows. */
struct forms {
	bool point;   /* 1.5 */
	bool comma;   /* 1,5 */
	bool grouped; /* 1,037: a decimal comma, or a separator of thousands */
	bool other;   /* not a number */
};

/* Whether a text may be a whole number with commas between thousands: 1,037 but not 0,123. */
static bool is_grouped(const char *s)
{
	size_t digits;

	s += strspn(s, "+-");
	digits = strspn(s, "0123456789");
	if (digits < 1 || digits > 3 || *s == '0')
		return false;
	for (s += digits; *s == ','; s += 4)
		if (strspn(s + 1, "0123456789") != 3)
			return false;
	return !*s;
}

static void note_form(struct forms *f, const char *s, bool first)
{
	double value;

	if (gt_csv_is_missing(s))
		return;
	if (!strchr(s, ',') && has_digit(s) && convert_number(s, '.', &value))
		f->point |= strchr(s, '.') != NULL;
	else if (strchr(s, ',') && is_grouped(s))
		f->grouped = true;
	else if (strchr(s, ',') && has_digit(s) && convert_number(s, ',', &value))
		f->comma = true;
	else
		f->other |= !first; /* the first row may have names */
}

/* The decimal is a comma if a field has numbers with one and nothing else, and no field has numbers
 * with a point. In 1,037 the comma may also separate thousands, so such a number decides nothing.
 * Where nothing decides, the decimal is `usual`.
 */
static char choose_decimal(const struct forms *forms, size_t fields, char usual)
{
	bool comma = false, point = false;

	for (size_t i = 0; i < fields; i++) {
		comma |= forms[i].comma && !forms[i].point && !forms[i].other;
		point |= forms[i].point && !forms[i].comma && !forms[i].grouped && !forms[i].other;
	}
	return comma == point ? usual : comma ? ',' : '.';
}

int gt_csv_find_decimal(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err)
{
	struct gt_csv_reader ahead = gt_csv_look_ahead(r);
	struct forms *forms = gt_calloc(t->head.fields, sizeof(*forms), err);
	struct gt_err bad = GT_ERR_INIT;
	bool comma = t->request->like && t->request->like->dialect.decimal == ',';

	if (!forms)
		return GT_ENOMEM;
	for (int row = 0; row < DECIMAL_ROWS && gt_csv_next_row(&ahead, &bad) > 0; row++)
		for (size_t i = 0; i < t->head.fields && i < ahead.count; i++)
			note_form(&forms[i], ahead.fields[i], !row);
	t->head.decimal = choose_decimal(forms, t->head.fields, comma ? ',' : '.');
	gt_csv_release(&ahead);
	free(forms);
	return 0;
}

/* ---- words that people read as numbers ---- */

/* The length of digits with separators at the start of a text: 1037, 1,037.50 or 12,5. Between two
 * separators there are three digits, so a date such as 01.02.2024 is none: 0. */
static size_t count_number(const char *s)
{
	size_t length = strspn(s, "0123456789"), group = 0; /* digits behind a separator */

	while (length && (s[length] == ',' || s[length] == '.')) {
		if (group && group != 3)
			return 0;
		group = strspn(s + length + 1, "0123456789");
		if (!group)
			return 0;
		length += 1 + group;
	}
	return length;
}

/* Whether a text is digits with separators between them, and perhaps a sign, a currency or a per
 * cent sign: $1,037.50 or 12%. */
static bool is_decorated(const char *s)
{
	static const char *const signs[] = { "$", "\xE2\x82\xAC", "\xC2\xA3" }; /* $, euro, pound */
	size_t digits;

	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (!strncmp(s, signs[i], strlen(signs[i])))
			s += strlen(signs[i]);
	s += strspn(s, " +-");
	digits = count_number(s);
	if (!digits)
		return false;
	s += digits;
	s += strspn(s, " ");
	return !*s || !strcmp(s, "%");
}

bool gt_csv_is_decorated(const struct gt_csv_table *t, const char *s)
{
	return is_decorated(s) && !gt_csv_looks_like_number(t, s);
}

int gt_csv_hint_decorated(
    const struct gt_csv_table *t, const char *s, size_t field, struct gt_err *err)
{
	char more[160] = "", key[64];
	double value;

	if (!t->like && !t->request->inputs && field == t->goal.field)
		snprintf(more, sizeof(more), "; task=classification makes classes of them");
	else if (!t->like && !t->request->inputs)
		snprintf(more, sizeof(more), "; categories=%s reads them as words",
		    gt_csv_field_key(t, field, key, sizeof(key)));
	if (t->head.decimal == ',')
		return gt_err_hint(err,
		    "this table has decimal commas (decimal=comma): write numbers as digits with a "
		    "decimal comma, without other signs%s",
		    more);
	if (convert_number(s, ',', &value))
		return gt_err_hint(err,
		    "if numbers have a decimal comma, add decimal=comma; otherwise write them "
		    "without commas%s",
		    more);
	return gt_err_hint(
	    err, "write numbers as digits with a decimal point, without other signs%s", more);
}
