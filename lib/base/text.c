/* text.c - parse and print numbers, sizes and times. */
#include "lib/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gt_text_parse_int(int64_t *out, const char *s)
{
	char *end;
	long long value;

	/* strtoll() skips blanks first, which would let " 5" pass. */
	if (!*s || strspn(s, "+-0123456789") != strlen(s))
		return false;
	errno = 0;
	value = strtoll(s, &end, 10);
	if (errno || end == s || *end)
		return false;
	*out = value;
	return true;
}

/* Read a decimal number, and set *end to the text after it. Words and hexadecimal are not
 * decimal. */
static bool parse_decimal(double *out, const char *s, char **end)
{
	size_t digits = strspn(s, "+-.0123456789");
	double value;

	if (!digits || (s[digits] | 0x20) == 'x')
		return false;
	errno = 0;
	value = strtod(s, end);
	if (*end == s || !isfinite(value))
		return false;
	*out = value;
	return true;
}

bool gt_text_parse_double(double *out, const char *s)
{
	char *end;
	double value;

	if (!parse_decimal(&value, s, &end) || *end)
		return false;
	*out = value;
	return true;
}

/* Parse a number that may end in one of the letters of `units`, each worth scale[i]. */
static bool parse_scaled(double *out, const char *s, const char *units, const double *scale)
{
	char *end;
	const char *unit;
	double value;

	if (!parse_decimal(&value, s, &end) || signbit(value))
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return false;
		value *= scale[unit - units];
	}
	*out = value;
	return true;
}

bool gt_text_parse_size(int64_t *out_bytes, const char *s)
{
	static const double scale[] = { 0x1p10, 0x1p10, 0x1p20, 0x1p20, 0x1p30, 0x1p30 };
	double value;
	int64_t bytes;
	bool exact = gt_text_parse_int(&bytes, s); /* this is exact beyond 2^53, too */

	if (!exact &&
	    (!parse_scaled(&value, s, "KkMmGg", scale) || value >= 0x1p63 || value != floor(value)))
		return false;
	bytes = exact ? bytes : (int64_t)value;
	if (bytes >= 0)
		*out_bytes = bytes;
	return bytes >= 0;
}

bool gt_text_parse_duration(double *out_seconds, const char *s)
{
	static const double scale[] = { 1, 60, 3600 };

	return parse_scaled(out_seconds, s, "smh", scale);
}

double gt_text_real(double value)
{
	return isnan(value) ? fabs(value) : value;
}

/* Write three digits and their unit: 1.25, 17.2, 124. */
static char *print_scaled(char *out, double value, const char *unit)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	char digits[GT_TEXT_SIZE];

	snprintf(digits, sizeof(digits), "%.*f", decimals, gt_text_real(value));
	if (decimals) { /* remove zeros at the end: 1.50 becomes 1.5 */
		size_t end = strlen(digits);

		while (digits[end - 1] == '0')
			end--;
		if (digits[end - 1] == '.')
			end--;
		digits[end] = '\0';
	}
	snprintf(out, GT_TEXT_SIZE, "%.20s%s", digits, unit);
	return out;
}

char *gt_text_bytes(char out[GT_TEXT_SIZE], uint64_t bytes)
{
	static const char *const unit[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	double value = (double)bytes;
	size_t i = 0;

	while (value >= (i ? 999.5 : 1024) && i + 1 < sizeof(unit) / sizeof(*unit)) {
		value /= 1024;
		i++;
	}
	return print_scaled(out, value, unit[i]);
}

char *gt_text_count(char out[GT_TEXT_SIZE], double count)
{
	static const char *const unit[] = { "", "k", "M", "G", "T", "P", "E" };
	size_t i = 0;

	while (count >= 999.5 && i + 1 < sizeof(unit) / sizeof(*unit)) {
		count /= 1000;
		i++;
	}
	return print_scaled(out, count, unit[i]);
}

char *gt_text_number(char out[GT_TEXT_SIZE], double value)
{
	char text[GT_TEXT_SIZE];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return strcpy(out, text);
}

char *gt_text_duration(char out[GT_TEXT_SIZE], double seconds)
{
	long long s;

	if (!(seconds >= 0) || seconds > 1e12) {
		strcpy(out, "-:--");
		return out;
	}
	s = llround(seconds);
	if (s >= 86400)
		snprintf(out, GT_TEXT_SIZE, "%lldd %02lld:%02lld:%02lld", s / 86400, s / 3600 % 24,
		    s / 60 % 60, s % 60);
	else if (s >= 3600)
		snprintf(out, GT_TEXT_SIZE, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(out, GT_TEXT_SIZE, "%lld:%02lld", s / 60, s % 60);
	return out;
}

int gt_text_utf8(const unsigned char *p, size_t left, uint32_t *code)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	int length = p[0] < 0x80       ? 1
	             : p[0] >> 5 == 6  ? 2
	             : p[0] >> 4 == 14 ? 3
	             : p[0] >> 3 == 30 ? 4
	                               : 0;
	uint32_t c;

	if (!length || (size_t)length > left)
		return 0;
	c = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
	for (int i = 1; i < length; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3F);
	}
	if (c < least[length] || c >= 0x110000 || (c >= 0xD800 && c < 0xE000))
		return 0;
	*code = c;
	return length;
}

int gt_text_put_utf8(unsigned char *out, uint32_t code)
{
	static const unsigned char head[] = { 0, 0xC0, 0xE0, 0xF0 };
	int tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;

	out[0] = (unsigned char)(head[tail] | code >> (6 * tail));
	for (int i = 1; i <= tail; i++)
		out[i] = (unsigned char)(0x80 | (code >> (6 * (tail - i)) & 0x3F));
	return tail + 1;
}

/* Return whether `second` may follow `lead` in a code point: the legal bytes are one range. */
static bool may_follow_lead(unsigned char lead, unsigned char second)
{
	unsigned char min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
	unsigned char max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;

	return second >= min && second <= max;
}

bool gt_text_utf8_is_begun(const unsigned char *p, size_t size)
{
	size_t length = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;

	if (p[0] < 0xC2 || p[0] > 0xF4 || size >= length ||
	    (size > 1 && !may_follow_lead(p[0], p[1])))
		return false;
	for (size_t i = 2; i < size; i++)
		if (p[i] >> 6 != 2)
			return false;
	return true;
}

size_t gt_text_utf8_damaged(const unsigned char *p, size_t left)
{
	size_t count = 1;

	while (count < left && gt_text_utf8_is_begun(p, count + 1))
		count++;
	return count;
}

size_t gt_text_utf8_bytes(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	size_t at = 0;
	uint64_t eight;
	uint32_t code;
	int length;

	while (at < size) {
		if (size - at >= 8) {
			memcpy(&eight, p + at, 8);
			if (!(eight & 0x8080808080808080u)) { /* ASCII */
				at += 8;
				continue;
			}
		}
		length = gt_text_utf8(p + at, size - at, &code);
		if (!length)
			return at;
		at += (size_t)length;
	}
	return size;
}

bool gt_text_is_plain(const void *bytes, size_t size)
{
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < size; i++)
		if (byte[i] < ' ' && !memchr("\t\n\r\f", byte[i], 4))
			return false;
	return size > 0;
}

bool gt_text_is_utf8(const char *s)
{
	size_t size = strlen(s);

	return gt_text_utf8_bytes(s, size) == size;
}

bool gt_text_is_surrogate(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	return size >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] <= 0xbf && p[2] >> 6 == 2;
}

bool gt_text_ends_with(const char *s, const char *ending)
{
	size_t n = strlen(s), m = strlen(ending);

	return n >= m && !strcmp(s + n - m, ending);
}
