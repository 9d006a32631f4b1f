/* csv_number.c - the forms of the values of a table: numbers, words, missing values. */
#include "lib/data/table/csv_number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"

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

/* Whether a text is digits, points and commas, perhaps with a sign, a currency or per cent sign. */
static bool is_decorated(const char *s)
{
	static const char *const signs[] = { "$", "\xE2\x82\xAC", "\xC2\xA3" }; /* $, euro, pound */

	if (gt_csv_is_date(s))
		return false;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (!strncmp(s, signs[i], strlen(signs[i])))
			s += strlen(signs[i]);
	s += strspn(s, " +-");
	if (!isdigit((unsigned char)*s))
		return false;
	s += strspn(s, DIGITS ".,");
	s += strspn(s, " ");
	return !*s || !strcmp(s, "%");
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

bool gt_csv_is_date(const char *s)
{
	size_t first = strspn(s, DIGITS), second, third;
	const char *next = s + first;
	char mark = *next;

	if (!mark || !strchr("-./", mark))
		return false;
	second = strspn(next + 1, DIGITS);
	next += 1 + second;
	if (*next != mark || second < 1 || second > 2)
		return false;
	third = strspn(next + 1, DIGITS);
	return first == 4 ? third == 1 || third == 2
	                  : (first == 1 || first == 2) && (third == 2 || third == 4);
}

/* ---- the decimal comma ---- */

enum { DECIMAL_ROWS = 1000 };

/* Whether a text may be a whole number with commas between thousands: 1,037 but not 0,123. */
static bool is_grouped(const char *s)
{
	size_t digits;

	s += strspn(s, "+-");
	digits = strspn(s, DIGITS);
	if (digits < 1 || digits > 3 || *s == '0')
		return false;
	for (s += digits; *s == ','; s += 4)
		if (strspn(s + 1, DIGITS) != 3)
			return false;
	return !*s;
}

/* The decimal is a comma if numbers have one, and no number has a point. In 1,037 the comma may
 * also separate thousands, so such a number decides nothing. */
char gt_csv_guess_decimal(struct gt_csv_reader *r, char usual)
{
	struct gt_err ignored = GT_ERR_INIT; /* the row is read again */
	bool comma = false, point = false;
	double value;

	for (int row = 0; row < DECIMAL_ROWS && gt_csv_next_row(r, &ignored) > 0; row++)
		for (size_t i = 0; i < r->count; i++) {
			const char *s = r->fields[i];

			if (strchr(s, '.'))
				point |= convert_number(s, '.', &value);
			else if (strchr(s, ',') && !is_grouped(s))
				comma |= convert_number(s, ',', &value);
		}
	return comma == point ? usual : comma ? ',' : '.';
}
