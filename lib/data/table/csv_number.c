/* csv_number.c - the forms of the values of a table: numbers, words, missing values. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
	*value = strtod(s, &end);
	return end != s && !*end;
}

/* Whether a text begins with a digit, after spaces, a sign, a point or a comma. */
static bool has_digit(const char *s)
{
	return isdigit((unsigned char)s[strspn(s, " +-.,")]);
}

/* Whether a text is digits, commas and points, perhaps with a sign, currency or per cent sign. Two
 * points and no comma are a date, such as 31.1.2024. */
static bool is_decorated(const char *s)
{
	s += strspn(s, " +-$\xE2\x82\xAC\xC2\xA3"); /* the bytes of the dollar, euro and pound */
	if (!isdigit((unsigned char)*s) || (strchr(s, '.') != strrchr(s, '.') && !strchr(s, ',')))
		return false;
	s += strspn(s, "0123456789.,");
	return !s[strspn(s, " %")];
}

enum gt_csv_form gt_csv_parse(const char *s, char decimal, double *value)
{
	if (!convert_number(s, decimal, value))
		return is_decorated(s) ? GT_CSV_DECORATED : GT_CSV_WORD;
	if (fabs(*value) <= 3.4028234663852886e38) /* FLT_MAX */
		return GT_CSV_NUMBER;
	return has_digit(s) ? GT_CSV_BEYOND : GT_CSV_INFINITE;
}

bool gt_csv_is_missing(const char *s, bool beside_numbers)
{
	/* The last four may also be a category or a class. */
	static const char *const words[] = { "", "na", "n/a", "nan", "null", "none", "#n/a", "?",
		"-" };
	size_t count = beside_numbers ? 9 : 5;

	for (size_t i = 0; i < count; i++)
		if (!strcasecmp(s, words[i]))
			return true;
	return false;
}

bool gt_csv_is_name(const char *s, char decimal)
{
	double value;

	return gt_csv_parse(s, decimal, &value) == GT_CSV_WORD && !has_digit(s) &&
	       !gt_csv_is_missing(s, true);
}

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

/* In 1,037 the comma may also separate thousands, so such a number decides nothing. */
void gt_csv_note_decimal(const char *s, bool *point, bool *comma)
{
	double value;

	if (strchr(s, '.'))
		*point |= convert_number(s, '.', &value);
	else if (strchr(s, ',') && !is_grouped(s))
		*comma |= convert_number(s, ',', &value);
}
