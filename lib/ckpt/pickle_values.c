/* pickle_values.c - the opcodes of numbers, text and bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ckpt/pickle_machine.h"

enum { INT_MAX_BYTES = 64 };

/* ---- scalars ---- */

int gt_op_const(struct gt_machine *m, unsigned char op)
{
	if (op == OP_NONE)
		return push(m, gt_tree_none(m->arena, m->err));
	return push(m, gt_tree_bool(m->arena, op == OP_NEWTRUE, m->err));
}

int gt_op_binint(struct gt_machine *m, unsigned char op)
{
	size_t width = op == OP_BININT ? 4 : op == OP_BININT2 ? 2 : 1;
	uint64_t value;
	int rc = take_number(m, width, &value);

	if (rc)
		return rc;
	return push(
	    m, gt_tree_int(m->arena, op == OP_BININT ? (int32_t)value : (int64_t)value, m->err));
}

int gt_op_binfloat(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	uint64_t bits;
	double value;
	int rc = take(m, 8, &p);

	(void)op;
	if (rc)
		return rc;
	bits = __builtin_bswap64(gt_get_le(p, 8));
	memcpy(&value, &bits, sizeof(value));
	return push(m, gt_tree_float(m->arena, value, m->err));
}

/* An opaque node with one string as its argument. */
static struct gt_tree *boxed(
    struct gt_machine *m, const char *class_name, const void *text, size_t length)
{
	struct gt_tree *node = gt_tree_opaque(m->arena, class_name, m->err);
	struct gt_tree *args = node ? gt_tree_tuple(m->arena, m->err) : NULL;
	struct gt_tree *string = args ? gt_tree_bytes(m->arena, text, length, m->err) : NULL;

	if (!string || gt_tree_push(args, NULL, string, m->arena, m->err))
		return NULL;
	node->opaque.args = args;
	return node;
}

/* Two's complement of up to INT_MAX_BYTES, least significant byte first, as hexadecimal text. */
static struct gt_tree *big_int(struct gt_machine *m, const unsigned char *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	unsigned char magnitude[INT_MAX_BYTES];
	char text[3 + 2 * INT_MAX_BYTES], *s = text;
	bool negative = p[n - 1] & 0x80;
	unsigned carry = 1;

	for (size_t i = 0; i < n; i++) { /* -x is ~x + 1 */
		unsigned byte = negative ? (unsigned char)~p[i] + carry : p[i];

		magnitude[i] = (unsigned char)byte;
		carry = byte >> 8;
	}
	if (negative)
		*s++ = '-';
	*s++ = '0';
	*s++ = 'x';
	while (n > 1 && !magnitude[n - 1])
		n--;
	if (magnitude[n - 1] < 16)
		*s++ = digit[magnitude[--n]];
	while (n--) {
		*s++ = digit[magnitude[n] >> 4];
		*s++ = digit[magnitude[n] & 15];
	}
	return boxed(m, "builtins.int", text, (size_t)(s - text));
}

int gt_op_long(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	uint64_t value;
	size_t n;
	int rc = take_block(m, op == OP_LONG1 ? 1 : 4, &p, &n);

	if (rc)
		return rc;
	if (n > INT_MAX_BYTES)
		return fail(m, "an integer of more than 64 bytes");
	if (n > 8)
		return push(m, big_int(m, p, n));
	value = gt_get_le(p, n);
	if (n && n < 8 && p[n - 1] & 0x80)
		value |= ~(uint64_t)0 << 8 * n;
	return push(m, gt_tree_int(m->arena, (int64_t)value, m->err));
}

/* Decimal text: "12\n", "12L\n", and protocol 0's bools "00\n", "01\n". */
int gt_op_text_int(struct gt_machine *m, unsigned char op)
{
	char text[NAME_MAX_BYTES], *end;
	long long value;
	int rc = take_line(m, text);

	if (rc)
		return rc;
	if (op == OP_INT && (!strcmp(text, "00") || !strcmp(text, "01")))
		return push(m, gt_tree_bool(m->arena, text[1] == '1', m->err));
	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || strcmp(end, op == OP_LONG && *end ? "L" : ""))
		return fail(m, "text that is no integer");
	if (errno == ERANGE)
		return push(m, boxed(m, "builtins.int", text, (size_t)(end - text)));
	return push(m, gt_tree_int(m->arena, value, m->err));
}

int gt_op_text_float(struct gt_machine *m, unsigned char op)
{
	char text[NAME_MAX_BYTES], *end;
	double value;
	int rc = take_line(m, text);

	(void)op;
	if (rc)
		return rc;
	value = strtod(text, &end);
	if (end == text || *end)
		return fail(m, "text that is no number");
	return push(m, gt_tree_float(m->arena, value, m->err));
}

/* ---- text and bytes ---- */

/* The length of the UTF-8 sequence at p, 0 when it is none. Source: RFC 3629, section 4. */
static size_t utf8_sequence(const unsigned char *p, size_t room)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] > 0xf4 || n > room)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static bool is_utf8(const unsigned char *p, size_t length)
{
	size_t n;

	for (; length; p += n, length -= n) {
		n = utf8_sequence(p, length);
		if (!n)
			return false;
	}
	return true;
}

int gt_op_unicode(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	size_t n;
	int rc = take_block(m, op == OP_SHORT_BINUNICODE ? 1 : op == OP_BINUNICODE ? 4 : 8, &p, &n);

	if (rc)
		return rc;
	if (!is_utf8(p, n))
		return fail(m, "text that is not UTF-8");
	return push(m, gt_tree_bytes(m->arena, p, n, m->err));
}

int gt_op_bytes(struct gt_machine *m, unsigned char op)
{
	size_t width = op == OP_SHORT_BINBYTES ? 1 : op == OP_BINBYTES ? 4 : 8, n;
	const unsigned char *p;
	int rc = take_block(m, width, &p, &n);

	if (rc)
		return rc;
	return push(
	    m, boxed(m, op == OP_BYTEARRAY8 ? "builtins.bytearray" : "builtins.bytes", p, n));
}

int gt_op_string(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	size_t n;
	int rc = take_block(m, op == OP_SHORT_BINSTRING ? 1 : 4, &p, &n);

	if (rc)
		return rc;
	if (is_utf8(p, n))
		return push(m, gt_tree_bytes(m->arena, p, n, m->err));
	return push(m, boxed(m, "builtins.bytes", p, n));
}
