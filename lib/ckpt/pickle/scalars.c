/* scalars.c - the opcodes of None, bools, numbers and text. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/text.h"
#include "lib/ckpt/pickle/machine.h"

/* ---- None, bools and numbers ---- */

/* A node that is never changed can stand in many places: most values of a checkpoint's pickle are
 * numbers of shapes and strides that come again and again. */
static int push_bool(struct gt_machine *m, bool value)
{
	struct gt_tree **node = &m->truth[value];

	if (!*node)
		*node = gt_tree_bool(m->arena, value, m->err);
	return gt_machine_push(m, *node);
}

int gt_op_const(struct gt_machine *m)
{
	if (m->op != GT_PICKLE_NONE)
		return push_bool(m, m->op == GT_PICKLE_NEWTRUE);
	if (!m->none)
		m->none = gt_tree_none(m->arena, m->err);
	return gt_machine_push(m, m->none);
}

/*
 * The table is direct-mapped by Fibonacci hashing (Knuth, TAOCP 3, section 6.4): the factor is
 * 2^64 divided by the golden ratio, and the 9 highest bits are an index below
 * GT_PICKLE_RECENT_INTS. A value that finds another one in its place takes it; the node of the
 * other lives on in the tree.
 */
static int push_int(struct gt_machine *m, int64_t value)
{
	struct gt_tree **node = &m->recent[(uint64_t)value * 0x9e3779b97f4a7c15 >> 55];

	if (!*node || (*node)->integer != value)
		*node = gt_tree_int(m->arena, value, m->err);
	return gt_machine_push(m, *node);
}

int gt_op_binint(struct gt_machine *m)
{
	size_t width = m->op == GT_PICKLE_BININT ? 4 : m->op == GT_PICKLE_BININT2 ? 2 : 1;
	uint64_t value;
	int rc = gt_machine_take_number(m, width, &value);

	return rc ? rc : push_int(m, m->op == GT_PICKLE_BININT ? (int32_t)value : (int64_t)value);
}

int gt_op_binfloat(struct gt_machine *m)
{
	const unsigned char *p;
	uint64_t bits;
	double value;
	int rc = gt_machine_take(m, 8, &p);

	if (rc)
		return rc;
	bits = __builtin_bswap64(gt_get_le(p, 8));
	memcpy(&value, &bits, sizeof(value));
	return gt_machine_push(m, gt_tree_float(m->arena, value, m->err));
}

static int push_boxed(struct gt_machine *m, const char *class_name, const void *bytes, size_t n)
{
	struct gt_tree *node = gt_tree_bytes(m->arena, bytes, n, m->err);

	return node ? gt_machine_push(m, gt_machine_boxed(m, class_name, node)) : GT_ENOMEM;
}

/*
 * Two's complement, least significant byte first, as hexadecimal text. Example, with 2 bytes: 00
 * ff is -256. Inverted they are ff 00; adding one carries through the first byte, which was 00,
 * into the second: 00 01, so the text is "-0x100".
 */
static int push_hexadecimal(struct gt_machine *m, const unsigned char *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	bool negative = p[n - 1] & 0x80, leading = true;
	char *text = gt_arena_alloc(m->arena, 3 + 2 * n, m->err), *s = text;
	size_t carries =
	    0; /* -x is ~x + 1: the one reaches all bytes up to the first that is not 0 */

	if (!text)
		return GT_ENOMEM;
	while (negative && carries < n - 1 && !p[carries])
		carries++;
	if (negative)
		*s++ = '-';
	*s++ = '0';
	*s++ = 'x';
	for (size_t i = n; i-- > 0;) {
		unsigned byte = negative ? (unsigned char)~p[i] + (i <= carries) : p[i];

		byte &= 0xff;
		if (!leading || byte >> 4)
			*s++ = digit[byte >> 4];
		leading = leading && !(byte >> 4);
		if (!leading || byte || !i)
			*s++ = digit[byte & 15];
		leading = leading && !byte;
	}
	return push_boxed(m, "builtins.int", text, (size_t)(s - text));
}

int gt_op_long(struct gt_machine *m)
{
	const unsigned char *p;
	uint64_t value;
	size_t n;
	int rc = gt_machine_take_block(m, m->op == GT_PICKLE_LONG1 ? 1 : 4, &p, &n);

	if (rc)
		return rc;
	if (n > 8)
		return push_hexadecimal(m, p, n);
	value = gt_get_le(p, n);
	if (n && n < 8 && p[n - 1] & 0x80)
		value |= ~(uint64_t)0 << 8 * n;
	return push_int(m, (int64_t)value);
}

/* Decimal text: "12\n", "12L\n", and protocol 0's bools "00\n", "01\n". */
int gt_op_text_int(struct gt_machine *m)
{
	const unsigned char *p;
	char text[24];
	size_t n, sign, digits = 0;
	int rc = gt_machine_take_line(m, &p, &n);

	if (rc)
		return rc;
	if (m->op == GT_PICKLE_INT && n == 2 && p[0] == '0' && (p[1] == '0' || p[1] == '1'))
		return push_bool(m, p[1] == '1');
	sign = n && (*p == '-' || *p == '+');
	while (sign + digits < n && p[sign + digits] >= '0' && p[sign + digits] <= '9')
		digits++;
	if (!digits || (sign + digits != n &&
	                   (m->op != GT_PICKLE_LONG || sign + digits != n - 1 || p[n - 1] != 'L')))
		return gt_machine_fail(m, "text that is no integer");
	n = sign + digits;
	if (n < sizeof(text)) {
		long long value;

		memcpy(text, p, n);
		text[n] = '\0';
		errno = 0;
		value = strtoll(text, NULL, 10);
		if (errno != ERANGE)
			return push_int(m, value);
	}
	return push_boxed(m, "builtins.int", p, n);
}

int gt_op_text_float(struct gt_machine *m)
{
	char text[GT_PICKLE_NAME_BYTES], *end;
	double value;
	int rc = gt_machine_take_name(m, text);

	if (rc)
		return rc;
	value = strtod(text, &end);
	if (end == text || *end)
		return gt_machine_fail(m, "text that is no number");
	return gt_machine_push(m, gt_tree_float(m->arena, value, m->err));
}

/* ---- text: UTF-8, Python 2's strings, protocol 0's lines ---- */

/* Python's strings may hold single surrogates, and pickles write them as if they were characters.
 * Source: CPython, Lib/pickle.py ('surrogatepass'). */
static bool is_python_text(const unsigned char *p, size_t n)
{
	for (size_t at = 0;; at += 3) {
		at += gt_text_utf8_bytes(p + at, n - at);
		if (at == n || !gt_text_is_surrogate(p + at, n - at))
			return at == n;
	}
}

/* ---- by length ---- */

int gt_op_unicode(struct gt_machine *m)
{
	const unsigned char *p;
	size_t n;
	int rc = gt_machine_take_block(m,
	    m->op == GT_PICKLE_SHORT_BINUNICODE ? 1
	    : m->op == GT_PICKLE_BINUNICODE     ? 4
	                                        : 8,
	    &p, &n);

	if (rc)
		return rc;
	if (!is_python_text(p, n))
		return gt_machine_fail(m, "text that is not UTF-8");
	return gt_machine_push(m, gt_tree_bytes(m->arena, p, n, m->err));
}

int gt_op_bytes(struct gt_machine *m)
{
	size_t width = m->op == GT_PICKLE_SHORT_BINBYTES ? 1
	               : m->op == GT_PICKLE_BINBYTES     ? 4
	                                                 : 8,
	       n;
	const unsigned char *p;
	int rc = gt_machine_take_block(m, width, &p, &n);

	if (rc)
		return rc;
	return push_boxed(
	    m, m->op == GT_PICKLE_BYTEARRAY8 ? "builtins.bytearray" : "builtins.bytes", p, n);
}

/* A string of Python 2 is text if it can be. */
static int push_string(struct gt_machine *m, const void *bytes, size_t n)
{
	if (gt_text_utf8_bytes(bytes, n) == n)
		return gt_machine_push(m, gt_tree_bytes(m->arena, bytes, n, m->err));
	return push_boxed(m, "builtins.bytes", bytes, n);
}

int gt_op_string(struct gt_machine *m)
{
	const unsigned char *p;
	size_t n;
	int rc = gt_machine_take_block(m, m->op == GT_PICKLE_SHORT_BINSTRING ? 1 : 4, &p, &n);

	return rc ? rc : push_string(m, p, n);
}

/* ---- protocol 0: by line ---- */

/* The number in `digits` hexadecimal or octal digits; false when there are others. */
static bool read_digits(
    const unsigned char *p, size_t left, size_t digits, uint32_t base, uint32_t *out)
{
	if (left < digits)
		return false;
	*out = 0;
	for (size_t i = 0; i < digits; i++) {
		uint32_t c = p[i], lower = c | 0x20;
		uint32_t digit = c >= '0' && c <= '9' ? c - '0' : lower - 'a' + 10;

		if (digit >= base || (c > '9' && lower < 'a') || c < '0')
			return false;
		*out = *out * base + digit;
	}
	return true;
}

/* One escape of a Python string literal, behind its backslash. Returns the bytes it took. */
static size_t unescape(const unsigned char *p, size_t left, unsigned char *out)
{
	static const char names[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
	const char *at = memchr(names, p[0], sizeof(names) - 1);
	uint32_t value;

	if (at) {
		*out = (unsigned char)means[at - names];
		return 1;
	}
	if (p[0] == 'x' && read_digits(p + 1, left - 1, 2, 16, &value)) {
		*out = (unsigned char)value;
		return 3;
	}
	for (size_t n = 3; n; n--) {
		if (!read_digits(p, left, n, 8, &value))
			continue;
		*out = (unsigned char)value;
		return n;
	}
	return 0;
}

bool gt_pickle_unquote(const unsigned char *p, size_t n, unsigned char *out, size_t *count)
{
	*count = 0;
	if (n < 2 || p[0] != p[n - 1] || (p[0] != '\'' && p[0] != '"'))
		return false;
	for (size_t i = 1; i < n - 1; i++) {
		size_t used = 0;

		if (p[i] == '\\' && i + 1 < n - 1)
			used = unescape(p + i + 1, n - 2 - i, out + *count);
		if (!used)
			out[*count] = p[i];
		i += used;
		++*count;
	}
	return true;
}

/* 'text\n' or "text\n", as repr() gives it. */
int gt_op_text_string(struct gt_machine *m)
{
	const unsigned char *p;
	unsigned char *out;
	size_t n, count;
	int rc = gt_machine_take_line(m, &p, &n);

	if (rc)
		return rc;
	out = gt_arena_alloc(m->arena, n + 1, m->err);
	if (!out)
		return GT_ENOMEM;
	if (!gt_pickle_unquote(p, n, out, &count))
		return gt_machine_fail(m, "a string without its quotes");
	return push_string(m, out, count);
}

bool gt_pickle_unescape(const unsigned char *p, size_t n, unsigned char *out, size_t *count)
{
	*count = 0;
	for (size_t i = 0; i < n; i++) {
		size_t digits = p[i] != '\\' || i + 1 == n ? 0
		                : p[i + 1] == 'u'          ? 4
		                : p[i + 1] == 'U'          ? 8
		                                           : 0;
		uint32_t c = p[i];

		if (digits) {
			if (!read_digits(p + i + 2, n - i - 2, digits, 16, &c) || c > 0x10ffff)
				return false;
			i += digits + 1;
		}
		*count += (size_t)gt_text_put_utf8(out + *count, c);
	}
	return true;
}

int gt_op_text_unicode(struct gt_machine *m)
{
	const unsigned char *p;
	unsigned char *out;
	size_t n, count;
	int rc = gt_machine_take_line(m, &p, &n);

	if (rc)
		return rc;
	out = gt_arena_alloc(m->arena, 2 * n + 4, m->err);
	if (!out)
		return GT_ENOMEM;
	if (!gt_pickle_unescape(p, n, out, &count))
		return gt_machine_fail(m, "an escape in text that is no character");
	return gt_machine_push(m, gt_tree_bytes(m->arena, out, count, m->err));
}
