/* write.c - trees as pickles of protocol 2: scalars, containers, shared nodes. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"

/* ---- opcodes and their operands ---- */

void gt_pickle_put_op(struct gt_pickle_writer *w, enum gt_pickle_op op)
{
	gt_buf_add(&w->out, &(unsigned char){ op }, 1);
}

void gt_pickle_put_bool(struct gt_pickle_writer *w, bool value)
{
	gt_pickle_put_op(w, value ? GT_PICKLE_NEWTRUE : GT_PICKLE_NEWFALSE);
}

void gt_pickle_put_int(struct gt_pickle_writer *w, int64_t value)
{
	if (value >= INT32_MIN && value <= INT32_MAX) {
		gt_pickle_put_op(w, GT_PICKLE_BININT);
		gt_buf_add_le(&w->out, (uint64_t)value, 4);
	} else {
		gt_pickle_put_op(w, GT_PICKLE_LONG1);
		gt_buf_add_le(&w->out, 8, 1);
		gt_buf_add_le(&w->out, (uint64_t)value, 8);
	}
}

static void put_float(struct gt_pickle_writer *w, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	gt_pickle_put_op(w, GT_PICKLE_BINFLOAT);
	/* big-endian, alone among the opcodes */
	gt_buf_add_le(&w->out, __builtin_bswap64(bits), 8);
}

void gt_pickle_put_text(struct gt_pickle_writer *w, const char *text, size_t length)
{
	gt_pickle_put_op(w, GT_PICKLE_BINUNICODE);
	gt_buf_add_le(&w->out, length, 4);
	gt_buf_add(&w->out, text, length);
}

/* ---- the memo ---- */

static void put_memo_get(struct gt_pickle_writer *w, uint32_t index)
{
	gt_pickle_put_op(w, index < 256 ? GT_PICKLE_BINGET : GT_PICKLE_LONG_BINGET);
	gt_buf_add_le(&w->out, index, index < 256 ? 1 : 4);
}

static uint32_t store(struct gt_pickle_writer *w)
{
	uint32_t index = w->memo_count++;

	gt_pickle_put_op(w, index < 256 ? GT_PICKLE_BINPUT : GT_PICKLE_LONG_BINPUT);
	gt_buf_add_le(&w->out, index, index < 256 ? 1 : 4);
	return index;
}

/* True when the memo has the name: then it is fetched. */
static bool recall(struct gt_pickle_writer *w, const char *name)
{
	for (int i = 0; i < w->name_count; i++) {
		if (strcmp(w->names[i].text, name))
			continue;
		put_memo_get(w, w->names[i].index);
		return true;
	}
	return false;
}

/* Put the name just written into the memo, if there is a place. */
static void memorize(struct gt_pickle_writer *w, const char *name)
{
	if (w->name_count < GT_PICKLE_NAMES) {
		w->names[w->name_count].text = name;
		w->names[w->name_count++].index = store(w);
	}
}

void gt_pickle_put_global(struct gt_pickle_writer *w, const char *name)
{
	if (recall(w, name))
		return;
	gt_pickle_put_op(w, GT_PICKLE_GLOBAL);
	gt_buf_puts(&w->out, name);
	memorize(w, name);
}

void gt_pickle_put_word(struct gt_pickle_writer *w, const char *text)
{
	if (recall(w, text))
		return;
	gt_pickle_put_text(w, text, strlen(text));
	memorize(w, text);
}

void gt_pickle_put_ordered_dict(struct gt_pickle_writer *w)
{
	gt_pickle_put_global(w, "collections\nOrderedDict\n");
	gt_pickle_put_op(w, GT_PICKLE_EMPTY_TUPLE);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
}

/*
 * Return whether `text` can name a module or a class: it is not empty and has no control
 * characters. The opcode GLOBAL contains a name as a line of text. If a name contained a line
 * break, a reader would take the text after the line break for opcodes.
 */
bool gt_pickle_is_name(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			return false;
	return *text;
}

int gt_pickle_put_class(struct gt_pickle_writer *w, const char *name, struct gt_err *err)
{
	const char *dot = strrchr(name, '.');

	if (!dot || dot == name || !dot[1] || !gt_pickle_is_name(name))
		return gt_err_set(
		    err, GT_ENOTSUP, "an object of class '%.200s' cannot be written", name);
	gt_pickle_put_op(w, GT_PICKLE_GLOBAL);
	gt_buf_add(&w->out, name, (size_t)(dot - name));
	gt_buf_printf(&w->out, "\n%s\n", dot + 1);
	return 0;
}

/* ---- nodes that the tree mentions more than once ---- */

struct gt_pickle_node {
	const struct gt_tree *node;
	bool shared, stored;
	uint32_t index; /* index in the memo, if `stored` is true */
};

static int compare_nodes(const void *a, const void *b)
{
	const struct gt_pickle_node *x = a, *y = b;

	return ((uintptr_t)x->node > (uintptr_t)y->node) -
	       ((uintptr_t)x->node < (uintptr_t)y->node);
}

/*
 * Values that programs can tell apart by identity, or that are large. Numbers and strings are
 * written again: readers see no difference.
 */
static bool has_identity(const struct gt_tree *node)
{
	return gt_tree_is_seq(node) || node->kind == GT_TREE_TENSOR || node->kind == GT_TREE_OPAQUE;
}

/*
 * Find the nodes that the tree mentions more than once: only these get a place in the memo.
 * Python's own pickler gives one to every object, because it does not look ahead. Recursion ends:
 * the tree has passed gt_tree_check(), which limits its depth and cuts cycles.
 */
static int survey(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_pickle_node *entry, *found;
	struct gt_walk part = { 0 };
	int rc = 0;

	if (!has_identity(node))
		return 0;
	entry = gt_arena_alloc(&w->arena, sizeof(*entry), err);
	if (!entry)
		return GT_ENOMEM;
	entry->node = node;
	found = gt_index_add(&w->nodes, entry, err);
	if (!found)
		return GT_ENOMEM;
	if (found != entry) {
		found->shared = true;
		return 0;
	}
	while (!rc && gt_walk_next(node, &part))
		rc = survey(w, part.node, err);
	return rc;
}

/* ---- nodes ---- */

static int put_items(struct gt_pickle_writer *w, const struct gt_tree *seq, struct gt_err *err)
{
	int rc = 0;

	if (!seq->seq.count)
		return 0;
	gt_pickle_put_op(w, GT_PICKLE_MARK);
	for (size_t i = 0; !rc && i < seq->seq.count; i++) {
		if (seq->kind == GT_TREE_DICT)
			rc = gt_pickle_put_node(w, seq->seq.items[i].key, err);
		if (!rc)
			rc = gt_pickle_put_node(w, seq->seq.items[i].value, err);
	}
	gt_pickle_put_op(w, seq->kind == GT_TREE_DICT ? GT_PICKLE_SETITEMS : GT_PICKLE_APPENDS);
	return rc;
}

static int put_tuple(struct gt_pickle_writer *w, const struct gt_tree *tuple, struct gt_err *err)
{
	int rc = 0;

	if (!tuple->seq.count) {
		gt_pickle_put_op(w, GT_PICKLE_EMPTY_TUPLE);
		return 0;
	}
	gt_pickle_put_op(w, GT_PICKLE_MARK);
	for (size_t i = 0; !rc && i < tuple->seq.count; i++)
		rc = gt_pickle_put_node(w, tuple->seq.items[i].value, err);
	gt_pickle_put_op(w, GT_PICKLE_TUPLE);
	return rc;
}

static int put_size(struct gt_pickle_writer *w, const struct gt_tree *size, struct gt_err *err)
{
	int rc;

	gt_pickle_put_global(w, "torch\nSize\n");
	rc = put_tuple(w, size, err);
	gt_pickle_put_op(w, GT_PICKLE_TUPLE1);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	return rc;
}

static int put_dict(struct gt_pickle_writer *w, const struct gt_tree *dict, struct gt_err *err)
{
	/* A plain dict cannot hold attributes. */
	bool ordered = dict->seq.ordered || dict->seq.attributes;
	int rc = 0;

	if (dict->seq.defaults && !dict->seq.attributes) {
		gt_pickle_put_global(w, "collections\ndefaultdict\n");
		rc = put_tuple(w, dict->seq.defaults, err);
		gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	} else if (ordered) {
		gt_pickle_put_ordered_dict(w);
	} else {
		gt_pickle_put_op(w, GT_PICKLE_EMPTY_DICT);
	}
	if (!rc)
		rc = put_items(w, dict, err);
	if (rc || !dict->seq.attributes)
		return rc;
	rc = gt_pickle_put_node(w, dict->seq.attributes, err);
	gt_pickle_put_op(w, GT_PICKLE_BUILD);
	return rc;
}

static int put_string(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	if (node->string.length > UINT32_MAX)
		return gt_err_set(err, GT_ENOTSUP, "a string of %zu bytes: protocol 2 has 4 GiB",
		    node->string.length);
	gt_pickle_put_text(w, node->string.bytes, node->string.length);
	return 0;
}

/* ---- classes that stand for values of Python's own (see pickle/read.c) ---- */

/* The only argument, if it is a string: how bytes and long integers are kept. */
static const struct gt_tree *only_string(const struct gt_tree *node)
{
	const struct gt_tree *args = node->opaque.args;

	return args->seq.count == 1 && args->seq.items[0].value->kind == GT_TREE_STRING
	           ? args->seq.items[0].value
	           : NULL;
}

enum { INT_BYTES = 200 }; /* a name of a pickle has at most 255 digits */

/*
 * Multiply by base, add a digit; false when the number does not fit. Least significant byte
 * first. Example: "300" in base 10 goes from 3 to 30 to 300, the bytes 2c 01.
 */
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
	/* Two's complement: invert all bits, add one. `carry` begins as that one. */
	for (int i = 0; negative && i < INT_BYTES; i++) {
		carry += (unsigned char)~bytes[i];
		bytes[i] = (unsigned char)carry;
		carry >>= 8;
	}
	while (n > 1 && bytes[n - 1] == (negative ? 0xff : 0))
		n--;
	if ((bytes[n - 1] & 0x80) != (negative ? 0x80 : 0)) /* the last bit must be the sign */
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
		unsigned char utf8[4];

		gt_buf_add(&w->out, utf8, (size_t)gt_text_put_utf8(utf8, p[i]));
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
	rc = put_items(w, items, err);
	gt_pickle_put_op(w, GT_PICKLE_TUPLE1);
	gt_pickle_put_op(w, GT_PICKLE_REDUCE);
	return rc;
}

/* ---- objects of classes we do not know, written as they were read ---- */

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
		rc = put_items(w, node->opaque.items, err);
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
static int put_lone_storage(
    struct gt_pickle_writer *w, const struct gt_tree *id, struct gt_err *err)
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

static bool is_list_node(const struct gt_tree *items)
{
	return items && items->kind == GT_TREE_LIST;
}

static int put_opaque(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	const char *name = node->opaque.class_name;
	const struct gt_tree *text = node->opaque.args ? only_string(node) : NULL;

	if (!strcmp(name, "(cycle)")) {
		gt_err_set(err, GT_ENOTSUP, "an object that contains itself cannot be written");
		return gt_err_hint(err, "select the state_dict in it, or the part that you need");
	}
	if (node->opaque.made == GT_TREE_UNREAD) {
		gt_err_set(err, GT_ENOTSUP, "%.80s cannot be written", name);
		return gt_err_hint(err, "'gtrain ckpt convert' leaves it out");
	}
	if (!strcmp(name, "(call)"))
		return put_call_of_object(w, node->opaque.args, err);
	if (node->opaque.made == GT_TREE_STORAGE)
		return put_lone_storage(w, node->opaque.args, err);
	if (text && !strcmp(name, "builtins.int"))
		return put_long(w, text, err);
	if (text && !strcmp(name, "builtins.bytes"))
		return put_bytes(w, "_codecs\nencode\n", "latin1", text, err);
	if (text && !strcmp(name, "builtins.bytearray"))
		return put_bytes(w, "builtins\nbytearray\n", "latin-1", text, err);
	if (is_list_node(node->opaque.items) && !strcmp(name, "builtins.set"))
		return put_set(w, "builtins\nset\n", node->opaque.items, err);
	if (is_list_node(node->opaque.items) && !strcmp(name, "builtins.frozenset"))
		return put_set(w, "builtins\nfrozenset\n", node->opaque.items, err);
	return put_object(w, node, err);
}

/* ---- any node ---- */

static int put_new(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	switch (node->kind) {
	case GT_TREE_NONE:
		gt_pickle_put_op(w, GT_PICKLE_NONE);
		return 0;
	case GT_TREE_BOOL:
		gt_pickle_put_bool(w, node->boolean);
		return 0;
	case GT_TREE_INT:
		gt_pickle_put_int(w, node->integer);
		return 0;
	case GT_TREE_FLOAT:
		put_float(w, node->real);
		return 0;
	case GT_TREE_STRING:
		return put_string(w, node, err);
	case GT_TREE_LIST:
		gt_pickle_put_op(w, GT_PICKLE_EMPTY_LIST);
		return put_items(w, node, err);
	case GT_TREE_TUPLE:
		return node->seq.is_size ? put_size(w, node, err) : put_tuple(w, node, err);
	case GT_TREE_DICT:
		return put_dict(w, node, err);
	case GT_TREE_TENSOR:
		return w->tensor(w, &node->tensor, err);
	default:
		return put_opaque(w, node, err);
	}
}

int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_pickle_node like = { .node = node }, *found = NULL;
	int rc;

	if (has_identity(node))
		found = gt_index_find(&w->nodes, &like);
	if (found && found->stored) {
		put_memo_get(w, found->index);
		return 0;
	}
	rc = put_new(w, node, err);
	if (!rc && found && found->shared) {
		found->stored = true;
		found->index = store(w);
	}
	return rc;
}

int gt_pickle_write(struct gt_pickle_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err)
{
	int rc;

	*bytes = NULL;
	w->nodes.compare = compare_nodes;
	rc = survey(w, root, err);
	gt_pickle_put_op(w, GT_PICKLE_PROTO);
	gt_buf_add_le(&w->out, 2, 1);
	if (!rc)
		rc = gt_pickle_put_node(w, root, err);
	gt_pickle_put_op(w, GT_PICKLE_STOP);
	if (!rc)
		rc = gt_buf_take(&w->out, bytes, size, err);
	gt_buf_release(&w->out);
	gt_index_release(&w->nodes);
	gt_arena_release(&w->arena);
	return rc;
}
