/* text.c - values of templates as text, and the characters of strings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/jinja/inside.h"

/* ---- characters ---- */

/* Strings come from JSON and from the template. Only the latter may be ill-formed; then each byte
 * counts as a character. */
size_t gt_jinja_step(const char *p, size_t left)
{
	uint32_t code;
	int step = gt_text_utf8((const unsigned char *)p, left, &code);

	return step ? (size_t)step : 1;
}

size_t gt_jinja_length(const char *text, size_t size)
{
	size_t count = 0;

	for (size_t at = 0; at < size; count++)
		at += gt_jinja_step(text + at, size - at);
	return count;
}

size_t gt_jinja_offset(const char *text, size_t size, size_t index)
{
	size_t at = 0;

	while (index-- && at < size)
		at += gt_jinja_step(text + at, size - at);
	return at;
}

/* White space as Python's str.strip() removes it. */
static bool is_space(uint32_t c)
{
	return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F) || c == 0x85 ||
	       c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
	       c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Whether the character of these bytes is removed. */
static bool is_stripped(const char *p, size_t size, const struct gt_jinja_value *set)
{
	uint32_t code = 0;

	if (set)
		return memmem(set->text, set->size, p, size) != NULL;
	return gt_text_utf8((const unsigned char *)p, size, &code) && is_space(code);
}

/* The bytes of the last character. */
static size_t last_step(const char *p, size_t size)
{
	size_t n = 1;

	while (n < size && n < 4 && ((unsigned char)p[size - n] & 0xC0) == 0x80)
		n++;
	return gt_jinja_step(p + size - n, n) == n ? n : 1;
}

/* Each character that is looked for in a set counts by itself, white space all together. */
int gt_jinja_strip(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_value *set, bool left, bool right, struct gt_err *err)
{
	const size_t steps = set ? 1 + gt_jinja_bytes_cost(set->size) : 0, size = v->size;
	size_t n;
	int rc = 0;

	for (; left && v->size; v->text += n, v->size -= n) {
		n = gt_jinja_step(v->text, v->size);
		rc = gt_jinja_spend(r, steps, err);
		if (rc || !is_stripped(v->text, n, set))
			break;
	}
	for (; !rc && right && v->size; v->size -= n) {
		n = last_step(v->text, v->size);
		rc = gt_jinja_spend(r, steps, err);
		if (rc || !is_stripped(v->text + v->size - n, n, set))
			break;
	}
	return rc ? rc : gt_jinja_spend(r, gt_jinja_bytes_cost(size - v->size), err);
}

/* ---- str() and repr() ---- */

/* The digits of a number that is not 0, as "d.ddde+x" with as few digits as give the same number.
 * The text [32] has room for 17. */
static void shortest(char text[32], double x)
{
	for (int digits = 0; digits < 17; digits++) {
		snprintf(text, 32, "%.*e", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
}

/* As Python's repr(): exponents from 1e16 on, and below 1e-4. */
void gt_jinja_append_real(struct gt_buf *b, double x)
{
	char text[32], *e;
	int exponent, digits;

	if (!isfinite(x)) {
		gt_buf_puts(b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
		return;
	}
	shortest(text, x);
	e = strchr(text, 'e');
	exponent = atoi(e + 1);
	digits = (int)(e - text) - (*text == '-');
	digits -= digits > 1; /* the point */
	if (x == 0 || (exponent >= -4 && exponent < 16)) {
		int after = digits - 1 - exponent;

		gt_buf_printf(b, "%.*f", after < 1 ? 1 : after, x);
		return;
	}
	*e = '\0';
	gt_buf_printf(b, "%se%c%02d", text, exponent < 0 ? '-' : '+', abs(exponent));
}

/* Python prefers the quote that the string has not. Printable characters stand for themselves. */
static void append_quoted(struct gt_buf *b, const struct gt_jinja_value *v)
{
	bool single = memchr(v->text, '\'', v->size) && !memchr(v->text, '"', v->size);
	char quote = single ? '"' : '\'';

	gt_buf_add(b, &quote, 1);
	for (size_t i = 0; i < v->size; i++) {
		unsigned char c = (unsigned char)v->text[i];

		if (c == '\n' || c == '\r' || c == '\t')
			gt_buf_puts(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
		else if (c < ' ' || c == 127)
			gt_buf_printf(b, "\\x%02x", c);
		else if (c == '\\' || c == (unsigned char)quote)
			gt_buf_printf(b, "\\%c", c);
		else
			gt_buf_add(b, &c, 1);
	}
	gt_buf_add(b, &quote, 1);
}

static int append_repr(
    struct gt_buf *b, const struct gt_jinja_value *v, int depth, struct gt_err *err);

static int append_items(
    struct gt_buf *b, const struct gt_jinja_list *l, int depth, struct gt_err *err)
{
	int rc = 0;

	gt_buf_puts(b, l->tuple ? "(" : "[");
	for (size_t i = 0; !rc && i < l->count; i++) {
		gt_buf_puts(b, i ? ", " : "");
		rc = append_repr(b, &l->items[i], depth + 1, err);
	}
	gt_buf_puts(b, !l->tuple ? "]" : l->count == 1 ? ",)" : ")");
	return rc;
}

static int append_pairs(
    struct gt_buf *b, const struct gt_jinja_dict *d, int depth, struct gt_err *err)
{
	int rc = 0;

	gt_buf_puts(b, "{");
	for (size_t i = 0; !rc && i < d->count; i++) {
		gt_buf_puts(b, i ? ", " : "");
		append_quoted(b, &d->pairs[i].key);
		gt_buf_puts(b, ": ");
		rc = append_repr(b, &d->pairs[i].value, depth + 1, err);
	}
	gt_buf_puts(b, "}");
	return rc;
}

/* Append a value as Python's repr(). */
static int append_repr(
    struct gt_buf *b, const struct gt_jinja_value *v, int depth, struct gt_err *err)
{
	if (depth > 2 * GT_JINJA_MAX_DEPTH || b->length > GT_JINJA_MAX_OUTPUT)
		return gt_err_set(err, GT_ENOTSUP, "a value is too large to be printed");
	if (v->kind == GT_JINJA_STRING)
		append_quoted(b, v);
	else if (v->kind == GT_JINJA_LIST)
		return append_items(b, v->list, depth, err);
	else if (v->kind == GT_JINJA_DICT)
		return append_pairs(b, v->dict, depth, err);
	else if (v->kind == GT_JINJA_UNDEFINED)
		gt_buf_puts(b, "Undefined");
	else
		return gt_jinja_append(b, v, err);
	return 0;
}

int gt_jinja_append(struct gt_buf *b, const struct gt_jinja_value *v, struct gt_err *err)
{
	switch (v->kind) {
	case GT_JINJA_UNDEFINED:
		return 0;
	case GT_JINJA_NONE:
		gt_buf_puts(b, "None");
		return 0;
	case GT_JINJA_BOOL:
		gt_buf_puts(b, v->truth ? "True" : "False");
		return 0;
	case GT_JINJA_INT:
		gt_buf_printf(b, "%lld", (long long)v->integer);
		return 0;
	case GT_JINJA_REAL:
		gt_jinja_append_real(b, v->real);
		return 0;
	case GT_JINJA_STRING:
		if (v->size > GT_JINJA_MAX_OUTPUT)
			return gt_err_set(err, GT_ENOTSUP, "a value is too large to be printed");
		gt_buf_add(b, v->text, v->size);
		return 0;
	case GT_JINJA_LIST:
	case GT_JINJA_DICT:
		return append_repr(b, v, 0, err);
	default:
		return gt_err_set(err, GT_ENOTSUP, "%s cannot be printed", gt_jinja_kind_name(v));
	}
}
