/* write_opaque.c - objects of classes we do not know, written as they were read. */
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"

/* ---- classes that stand for values of Python's own (see pickle.h) ---- */

/* The only argument, if it is a string: how bytes and long integers are kept. */
static const struct gt_tree *only_string(const struct gt_tree *node)
{
	const struct gt_tree *args = node->opaque.args;

	return args->seq.count == 1 && args->seq.items[0].value->kind == GT_TREE_STRING
	           ? args->seq.items[0].value
	           : NULL;
}

enum { INT_BYTES = 200 }; /* a name of a pickle has at most 255 digits */

/* Multiply by base, add a digit. */
static bool shift_in(unsigned char *magnitude, unsigned base, unsigned digit)
{
	unsigned carry = digit;

	for (int i = 0; i < INT_BYTES; i++) {
		carry += magnitude[i] * base;
		magnitude[i] = (unsigned char)carry;
		carry >>= 8;
	}
	return !carry;
}

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : 16;
}

/* "-0x1f", "123": as LONG1, two's complement. */
static int put_long(struct gt_pickle_writer *w, const struct gt_tree *text, struct gt_err *err)
{
	unsigned char bytes[INT_BYTES + 1] = { 0 };
	const char *p = text->string.bytes;
	bool negative = *p == '-';
	unsigned base = 10, carry = 1;
	int n = INT_BYTES;

	p += negative;
	if (p[0] == '0' && p[1] == 'x') {
		base = 16;
		p += 2;
	}
	for (; *p; p++)
		if (digit_of(*p) >= (int)base || !shift_in(bytes, base, (unsigned)digit_of(*p)))
			return gt_err_set(err, GT_ENOTSUP, "the integer '%.40s' cannot be written",
			    text->string.bytes);
	for (int i = 0; negative && i < INT_BYTES; i++) {
		carry += (unsigned char)~bytes[i];
		bytes[i] = (unsigned char)carry;
		carry >>= 8;
	}
	while (n > 1 && bytes[n - 1] == (negative ? 0xff : 0))
		n--;
	if ((bytes[n - 1] & 0x80) != (negative ? 0x80 : 0)) /* its sign must be the last bit */
		bytes[n++] = negative ? 0xff : 0;
	gt_pickle_put_op(w, GT_PICKLE_LONG1);
	gt_buf_add_le(&w->out, (uint64_t)n, 1);
	gt_buf_add(&w->out, bytes, (size_t)n);
	return 0;
}

/* Protocol 2 has no bytes: Python writes the characters that Latin-1 encodes as them. */
static int put_latin1(struct gt_pickle_writer *w, const struct gt_tree *text, struct gt_err *err)
{
	const unsigned char *p = (const unsigned char *)text->string.bytes;
	size_t n = text->string.length, length = n;

	for (size_t i = 0; i < n; i++)
		length += p[i] >> 7;
	if (length > UINT32_MAX)
		return gt_err_set(err, GT_ENOTSUP, "%zu bytes: protocol 2 has no room", n);
	gt_pickle_put_op(w, GT_PICKLE_BINUNICODE);
	gt_buf_add_le(&w->out, length, 4);
	for (size_t i = 0; i < n; i++) {
		const unsigned char two[] = { 0xc0 | p[i] >> 6, 0x80 | (p[i] & 0x3f) };

		gt_buf_add(&w->out, p[i] & 0x80 ? two : p + i, p[i] & 0x80 ? 2 : 1);
	}
	return 0;
}

static int put_bytes(struct gt_pickle_writer *w, const char *function, const char *encoding,
    const struct gt_tree *text, struct gt_err *err)
{
	int rc;

	gt_pickle_put_global(w, function);
	gt_pickle_put_op(w, GT_PICKLE_MARK);
	rc = put_latin1(w, text, err);
	gt_pickle_put_word(w, encoding);
	gt_pickle_put_op(w, GT_PICKLE_TUPLE);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	return rc;
}

/* set([...]), for which protocol 4 has opcodes and protocol 2 has none. */
static int put_set(struct gt_pickle_writer *w, const char *class_name, const struct gt_tree *items,
    struct gt_err *err)
{
	int rc;

	gt_pickle_put_global(w, class_name);
	gt_pickle_put_op(w, GT_PICKLE_EMPTY_LIST);
	rc = gt_pickle_put_items(w, items, err);
	gt_pickle_put_op(w, GT_PICKLE_TUPLE1);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	return rc;
}

/* ---- all others ---- */

/* The bytes after the class: arguments, and the call. */
static int put_call(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_tree args = *node->opaque.args;
	const struct gt_tree *keywords;
	int rc;

	if (node->opaque.made != GT_TREE_NEW_KEYWORDS || !args.seq.count) {
		rc = gt_pickle_put_node(w, node->opaque.args, err);
		gt_pickle_put_op(
		    w, node->opaque.made == GT_TREE_NEW ? GT_PICKLE_NEWOBJ : GT_PICKLE_REDUCE);
		return rc;
	}
	/* NEWOBJ_EX is of protocol 4; Python's unpickler takes it in any. */
	keywords = args.seq.items[--args.seq.count].value;
	rc = gt_pickle_put_node(w, &args, err);
	if (!rc)
		rc = gt_pickle_put_node(w, keywords, err);
	gt_pickle_put_op(w, GT_PICKLE_NEWOBJ_EX);
	return rc;
}

static int put_object(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	int rc = gt_pickle_put_class(w, node->opaque.class_name, err);

	if (!rc && node->opaque.args)
		rc = put_call(w, node, err);
	if (!rc && node->opaque.items)
		rc = gt_pickle_put_items(w, node->opaque.items, err);
	if (!rc && node->opaque.state) {
		rc = gt_pickle_put_node(w, node->opaque.state, err);
		gt_pickle_put_op(w, GT_PICKLE_BUILD);
	}
	return rc;
}

/* A call of another call's result. */
static int put_call_of_object(
    struct gt_pickle_writer *w, const struct gt_tree *args, struct gt_err *err)
{
	int rc = gt_pickle_put_node(w, args->seq.items[0].value, err);

	if (!rc)
		rc = gt_pickle_put_node(w, args->seq.items[1].value, err);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	return rc;
}

/* A storage that the reader left alone, having no bytes: ('storage', class, key, ...). Its key must
 * not become that of another. */
static int put_storage(struct gt_pickle_writer *w, const struct gt_tree *id, struct gt_err *err)
{
	int rc = 0;

	gt_pickle_put_op(w, GT_PICKLE_MARK);
	for (size_t i = 0; !rc && i < id->seq.count; i++) {
		const struct gt_tree *part = id->seq.items[i].value;

		if (i != 2) {
			rc = gt_pickle_put_node(w, part, err);
			continue;
		}
		gt_pickle_put_op(w, GT_PICKLE_BINUNICODE);
		gt_buf_add_le(&w->out, 1 + part->string.length, 4);
		gt_buf_puts(&w->out, "m");
		gt_buf_add(&w->out, part->string.bytes, part->string.length);
	}
	gt_pickle_put_op(w, GT_PICKLE_TUPLE);
	gt_pickle_put_op(w, GT_PICKLE_BINPERSID);
	return rc;
}

static bool is_list(const struct gt_tree *items)
{
	return items && items->kind == GT_TREE_LIST;
}

int gt_pickle_put_opaque(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	const char *name = node->opaque.class_name;
	const struct gt_tree *text = node->opaque.args ? only_string(node) : NULL;

	if (!strcmp(name, "(cycle)")) {
		gt_err_set(err, GT_ENOTSUP, "an object that contains itself cannot be written");
		return gt_err_hint(err, "select the state_dict in it, or the part that you need");
	}
	if (!strcmp(name, "(call)"))
		return put_call_of_object(w, node->opaque.args, err);
	if (node->opaque.made == GT_TREE_STORAGE)
		return put_storage(w, node->opaque.args, err);
	if (text && !strcmp(name, "builtins.int"))
		return put_long(w, text, err);
	if (text && !strcmp(name, "builtins.bytes"))
		return put_bytes(w, "_codecs\nencode\n", "latin1", text, err);
	if (text && !strcmp(name, "builtins.bytearray"))
		return put_bytes(w, "builtins\nbytearray\n", "latin-1", text, err);
	if (is_list(node->opaque.items) && !strcmp(name, "builtins.set"))
		return put_set(w, "builtins\nset\n", node->opaque.items, err);
	if (is_list(node->opaque.items) && !strcmp(name, "builtins.frozenset"))
		return put_set(w, "builtins\nfrozenset\n", node->opaque.items, err);
	return put_object(w, node, err);
}
