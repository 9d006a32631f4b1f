/* values.c - the opcodes of None, bools and numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ckpt/pickle/machine.h"

/* A node that is never changed can stand in many places: most values of a checkpoint's pickle are
 * numbers of shapes and strides that come again and again. */
int gt_op_const(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **node =
	    op == GT_PICKLE_NONE ? &m->none : &m->truth[op == GT_PICKLE_NEWTRUE];

	if (!*node)
		*node = op == GT_PICKLE_NONE
		            ? gt_tree_none(m->arena, m->err)
		            : gt_tree_bool(m->arena, op == GT_PICKLE_NEWTRUE, m->err);
	return gt_machine_push(m, *node);
}

static int push_int(struct gt_machine *m, int64_t value)
{
	struct gt_tree **node = &m->recent[(uint64_t)value * 0x9e3779b97f4a7c15 >> 55];

	if (!*node || (*node)->integer != value)
		*node = gt_tree_int(m->arena, value, m->err);
	return gt_machine_push(m, *node);
}

int gt_op_binint(struct gt_machine *m, unsigned char op)
{
	size_t width = op == GT_PICKLE_BININT ? 4 : op == GT_PICKLE_BININT2 ? 2 : 1;
	uint64_t value;
	int rc = gt_machine_take_number(m, width, &value);

	return rc ? rc : push_int(m, op == GT_PICKLE_BININT ? (int32_t)value : (int64_t)value);
}

int gt_op_binfloat(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	uint64_t bits;
	double value;
	int rc = gt_machine_take(m, 8, &p);

	(void)op;
	if (rc)
		return rc;
	bits = __builtin_bswap64(gt_get_le(p, 8));
	memcpy(&value, &bits, sizeof(value));
	return gt_machine_push(m, gt_tree_float(m->arena, value, m->err));
}

static int push_big_int(struct gt_machine *m, const void *text, size_t length)
{
	struct gt_tree *node = gt_tree_bytes(m->arena, text, length, m->err);

	return node ? gt_machine_push(m, gt_machine_boxed(m, "builtins.int", node)) : GT_ENOMEM;
}

/* Two's complement, least significant byte first, as hexadecimal text. */
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
	return push_big_int(m, text, (size_t)(s - text));
}

int gt_op_long(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	uint64_t value;
	size_t n;
	int rc = gt_machine_take_block(m, op == GT_PICKLE_LONG1 ? 1 : 4, &p, &n);

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
int gt_op_text_int(struct gt_machine *m, unsigned char op)
{
	const unsigned char *p;
	char text[24];
	size_t n, sign, digits = 0;
	int rc = gt_machine_take_line(m, &p, &n);

	if (rc)
		return rc;
	if (op == GT_PICKLE_INT && n == 2 && p[0] == '0' && (p[1] == '0' || p[1] == '1'))
		return gt_op_const(m, p[1] == '1' ? GT_PICKLE_NEWTRUE : GT_PICKLE_NEWFALSE);
	sign = n && (*p == '-' || *p == '+');
	while (sign + digits < n && p[sign + digits] >= '0' && p[sign + digits] <= '9')
		digits++;
	if (!digits || (sign + digits != n &&
	                   (op != GT_PICKLE_LONG || sign + digits != n - 1 || p[n - 1] != 'L')))
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
	return push_big_int(m, p, n);
}

int gt_op_text_float(struct gt_machine *m, unsigned char op)
{
	char text[GT_PICKLE_NAME_BYTES], *end;
	double value;
	int rc = gt_machine_take_name(m, text);

	(void)op;
	if (rc)
		return rc;
	value = strtod(text, &end);
	if (end == text || *end)
		return gt_machine_fail(m, "text that is no number");
	return gt_machine_push(m, gt_tree_float(m->arena, value, m->err));
}
