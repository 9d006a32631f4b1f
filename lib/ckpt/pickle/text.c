/* text.c - the opcodes of text: UTF-8, Python 2's strings, protocol 0's lines. */
#include "lib/base/text.h"
#include "lib/ckpt/pickle/machine.h"

/* ---- UTF-8 ---- */

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

/* The UTF-8 of a code point, a surrogate's too; returns its bytes, at most 4. */
static size_t put_utf8(unsigned char *out, uint32_t c)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (unsigned char)(0x80 | (c & 0x3f));
	out[0] = (unsigned char)(first[n] | c);
	return n;
}

/* ---- by length ---- */

int gt_op_unicode(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	size_t n;
	int rc = gt_machine_take_block(m,
	    op == GT_PICKLE_SHORT_BINUNICODE ? 1
	    : op == GT_PICKLE_BINUNICODE     ? 4
	                                     : 8,
	    &p, &n);

	if (rc)
		return rc;
	if (!is_python_text(p, n))
		return gt_machine_fail(m, "text that is not UTF-8");
	return gt_machine_push(m, gt_tree_bytes(m->arena, p, n, m->err));
}

static int push_boxed(struct gt_machine *m, const char *class_name, const void *bytes, size_t n)
{
	struct gt_tree *node = gt_tree_bytes(m->arena, bytes, n, m->err);

	return node ? gt_machine_push(m, gt_machine_boxed(m, class_name, node)) : GT_ENOMEM;
}

int gt_op_bytes(struct gt_machine *m, unsigned char op)
{
	size_t width = op == GT_PICKLE_SHORT_BINBYTES ? 1 : op == GT_PICKLE_BINBYTES ? 4 : 8, n;
	const unsigned char *p;
	int rc = gt_machine_take_block(m, width, &p, &n);

	if (rc)
		return rc;
	return push_boxed(
	    m, op == GT_PICKLE_BYTEARRAY8 ? "builtins.bytearray" : "builtins.bytes", p, n);
}

/* A string of Python 2 is text if it can be. */
static int push_string(struct gt_machine *m, const void *bytes, size_t n)
{
	if (gt_text_utf8_bytes(bytes, n) == n)
		return gt_machine_push(m, gt_tree_bytes(m->arena, bytes, n, m->err));
	return push_boxed(m, "builtins.bytes", bytes, n);
}

int gt_op_string(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	size_t n;
	int rc = gt_machine_take_block(m, op == GT_PICKLE_SHORT_BINSTRING ? 1 : 4, &p, &n);

	return rc ? rc : push_string(m, p, n);
}

/* ---- protocol 0: by line ---- */

/* The number in `digits` hexadecimal or octal digits; false when there are others. */
static bool read_digits(
    const unsigned char *p, size_t room, size_t digits, uint32_t base, uint32_t *out)
{
	if (room < digits)
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
static size_t unescape(const unsigned char *p, size_t room, unsigned char *out)
{
	static const char names[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
	const char *at = memchr(names, p[0], sizeof(names) - 1);
	uint32_t value;

	if (at) {
		*out = (unsigned char)means[at - names];
		return 1;
	}
	if (p[0] == 'x' && read_digits(p + 1, room - 1, 2, 16, &value)) {
		*out = (unsigned char)value;
		return 3;
	}
	for (size_t n = 3; n; n--) {
		if (!read_digits(p, room, n, 8, &value))
			continue;
		*out = (unsigned char)value;
		return n;
	}
	return 0;
}

/* 'text\n' or "text\n", as repr() gives it. */
int gt_op_text_string(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	unsigned char *out;
	size_t n, count = 0;
	int rc = gt_machine_take_line(m, &p, &n);

	(void)op;
	if (rc)
		return rc;
	if (n < 2 || p[0] != p[n - 1] || (p[0] != '\'' && p[0] != '"'))
		return gt_machine_fail(m, "a string without its quotes");
	out = gt_arena_alloc(m->arena, n, m->err);
	if (!out)
		return GT_ENOMEM;
	for (size_t i = 1; i < n - 1; i++) {
		size_t used = 0;

		if (p[i] == '\\' && i + 1 < n - 1)
			used = unescape(p + i + 1, n - 2 - i, out + count);
		if (!used)
			out[count] = p[i];
		i += used;
		count++;
	}
	return push_string(m, out, count);
}

/* Latin-1 with \u0000 and \U00000000 for all else: codec "raw-unicode-escape". */
int gt_op_text_unicode(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	unsigned char *out;
	size_t n, count = 0;
	int rc = gt_machine_take_line(m, &p, &n);

	(void)op;
	if (rc)
		return rc;
	out = gt_arena_alloc(m->arena, 2 * n + 4, m->err);
	if (!out)
		return GT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t digits = p[i] != '\\' || i + 1 == n ? 0
		                : p[i + 1] == 'u'          ? 4
		                : p[i + 1] == 'U'          ? 8
		                                           : 0;
		uint32_t c = p[i];

		if (digits) {
			if (!read_digits(p + i + 2, n - i - 2, digits, 16, &c) || c > 0x10ffff)
				return gt_machine_fail(m, "an escape in text that is no character");
			i += digits + 1;
		}
		count += put_utf8(out + count, c);
	}
	return gt_machine_push(m, gt_tree_bytes(m->arena, out, count, m->err));
}
