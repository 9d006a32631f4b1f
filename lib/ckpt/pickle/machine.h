/* machine.h - private: the state of the machine that reads pickles, and helpers for opcodes. */
#ifndef GT_CKPT_PICKLE_MACHINE_H
#define GT_CKPT_PICKLE_MACHINE_H

#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The machine reads opcodes with operands: bytes that follow, and values that are taken off the
 * stack. The memo is a table of values to fetch again; a mark is a position on the stack.
 * gt_pickle_read() adds the offset to error texts.
 */

enum {
	/* size of a buffer for the name of a module or class, in bytes */
	GT_PICKLE_NAME_BYTES = 512,
	/* size of the table of recent integers: if an integer occurs again, its node is shared */
	GT_PICKLE_RECENT_INTS = 512,
	GT_PICKLE_MAX_MARKS = 1 << 10, /* number of marks that may be open at the same time */
	/* number of values that may be pushed; limits memory and time */
	GT_PICKLE_MAX_PUSHES = 1 << 24
};

/* The state of the machine. A field NAME_capacity is the number of elements allocated for NAME. */
struct gt_machine {
	struct gt_arena *arena;
	const struct gt_pickle_hooks *hooks;
	const unsigned char *bytes; /* the start of the pickle */
	/* have: number of bytes available in `bytes`; size: maximum size of the pickle, in bytes */
	size_t have, size;
	/* the file with the bytes that are not available yet; or NULL */
	const struct gt_mapping *map;
	uint64_t map_at;     /* offset of the pickle in the file */
	unsigned char *copy; /* equal to `bytes` if they are copied from a file; otherwise NULL */
	size_t at;           /* offset of the next byte to read */
	size_t op_at;        /* offset of the current opcode */
	unsigned char op;    /* the current opcode */
	/*
	 * [count], the values that the current opcode has taken off the stack. They stay in the
	 * memory of the stack until the next push.
	 */
	struct gt_tree **args;
	size_t count;
	/*
	 * offset of the end of the current frame; 0: no frame. A frame is a block of opcodes; the
	 * opcode FRAME before the block gives its length.
	 */
	size_t frame_end;
	struct gt_tree **stack; /* [depth], the last value is the top */
	size_t *origins; /* [depth], for each value, the offset of the opcode that pushed it */
	size_t depth, stack_capacity, origin_capacity;
	/* depths of the stack at the marks; values below the last mark cannot be taken */
	size_t *marks;
	size_t mark_count, mark_capacity;
	struct gt_tree **memo; /* entries that are not set are NULL */
	size_t memo_count, memo_capacity;
	/* pushes: number of values pushed; name_bytes: total length of the names of all globals
	 * (classes and functions that the pickle names) */
	size_t pushes, name_bytes;
	/* nodes of None, False and True, and of recent integers; several places of the tree share
	 * them, so they are never changed */
	struct gt_tree *none, *truth[2], *recent[GT_PICKLE_RECENT_INTS];
	bool stopped; /* the opcode STOP was executed */
	struct gt_err *err;
};

/*
 * Execute the opcode `op`, with operands from the bytes and from `args` (the table in
 * pickle/read.c).
 */
typedef int gt_opcode(struct gt_machine *m);

/* handlers in pickle/scalars.c */
gt_opcode gt_op_const, gt_op_binint, gt_op_binfloat, gt_op_long, gt_op_text_int, gt_op_text_float,
    gt_op_unicode, gt_op_bytes, gt_op_string, gt_op_text_string, gt_op_text_unicode;

/* handlers in pickle/objects.c */
gt_opcode gt_op_empty, gt_op_seq, gt_op_appends, gt_op_setitems, gt_op_dict, gt_op_set;

gt_opcode gt_op_global, gt_op_stack_global, gt_op_call, gt_op_newobj_ex, gt_op_inst, gt_op_build,
    gt_op_persistent, gt_op_unsupported;

/*
 * Decode the text of STRING, a quoted string of Python, into `out` of n bytes. Return false if the
 * quotes are missing.
 */
bool gt_pickle_unquote(const unsigned char *p, size_t n, unsigned char *out, size_t *count);

/*
 * Decode the text of UNICODE into UTF-8: Latin-1, and all else as \u0000 or \U00000000. `out` has
 * 2 n + 4 bytes. Return false if an escape is no character.
 */
bool gt_pickle_unescape(const unsigned char *p, size_t n, unsigned char *out, size_t *count);

/* Replace the names of a global of Python 2 by those of Python 3, where they differ. */
void gt_pickle_rename_today(const char **module, const char **name);

/* Set the error to GT_EFORMAT with the text `what`. Return GT_EFORMAT. */
static inline int gt_machine_fail(struct gt_machine *m, const char *what)
{
	gt_err_set(m->err, GT_EFORMAT, "%s", what);
	return GT_EFORMAT;
}

/* Copy the next `length` bytes, which the file has, to m->bytes, which may move. */
int gt_machine_fill(struct gt_machine *m, uint64_t length);

/* Take the next `length` bytes: set *p to their address, which is valid until the next take. */
static inline int gt_machine_take(struct gt_machine *m, uint64_t length, const unsigned char **p)
{
	if (length > m->size - m->at) {
		gt_err_set(m->err, GT_EFORMAT,
		    "%llu bytes are announced, %zu are left: the file is cut or damaged",
		    (unsigned long long)length, m->size - m->at);
		return GT_EFORMAT;
	}
	if (length > m->have - m->at) {
		int rc = gt_machine_fill(m, length);

		if (rc)
			return rc;
	}
	*p = m->bytes + m->at;
	m->at += length;
	return 0;
}

/* Take an unsigned little-endian number of `width` bytes. */
static inline int gt_machine_take_number(struct gt_machine *m, size_t width, uint64_t *value)
{
	const unsigned char *p;
	int rc = gt_machine_take(m, width, &p);

	if (!rc)
		*value = gt_get_le(p, width);
	return rc;
}

/* Return the number of bytes that may still be allocated. A larger operand is an error. */
static inline size_t gt_machine_memory_left(const struct gt_machine *m)
{
	const struct gt_arena *a = m->arena;

	return !a->limit ? SIZE_MAX : a->limit > a->used ? a->limit - a->used : 0;
}

/* Set the error for an operand that needs too much memory. Return GT_EFORMAT. */
static inline int gt_machine_too_much(struct gt_machine *m)
{
	gt_err_set(
	    m->err, GT_EFORMAT, "more than %zu bytes of memory are asked for", m->arena->limit);
	return GT_EFORMAT;
}

/* Take a length of `width` bytes, and then a block of this length. */
static inline int gt_machine_take_block(
    struct gt_machine *m, size_t width, const unsigned char **p, size_t *length)
{
	uint64_t n = 0;
	int rc = gt_machine_take_number(m, width, &n);

	*length = n;
	if (!rc)
		rc = gt_machine_take(m, n, p);
	return !rc && n > gt_machine_memory_left(m) ? gt_machine_too_much(m) : rc;
}

/* Take a line of text. *length does not count the line break. */
static inline int gt_machine_take_line(
    struct gt_machine *m, const unsigned char **p, size_t *length)
{
	const unsigned char *end;
	size_t seen = 0;

	while (!(end = memchr(m->bytes + m->at + seen, '\n', m->have - m->at - seen))) {
		int rc;

		seen = m->have - m->at;
		if (m->have == m->size)
			return gt_machine_fail(m, "a line of text does not end");
		rc = gt_machine_fill(m, seen + 1);
		if (rc)
			return rc;
	}
	*p = m->bytes + m->at;
	*length = (size_t)(end - *p);
	m->at += *length + 1;
	return 0;
}

/* Take a line and copy it to text[GT_PICKLE_NAME_BYTES], zero-terminated. */
static inline int gt_machine_take_name(struct gt_machine *m, char *text)
{
	const unsigned char *p;
	size_t length;
	int rc = gt_machine_take_line(m, &p, &length);

	if (rc)
		return rc;
	if (length >= GT_PICKLE_NAME_BYTES || memchr(p, 0, length))
		return gt_machine_fail(m, "a line of text is too long or holds a zero");
	memcpy(text, p, length);
	text[length] = '\0';
	return 0;
}

/* Push a value. If `node` is NULL, an earlier allocation failed: return GT_ENOMEM. */
static inline int gt_machine_push(struct gt_machine *m, struct gt_tree *node)
{
	if (!node || gt_grow(&m->stack, m->depth, &m->stack_capacity, sizeof(*m->stack), m->err) ||
	    gt_grow(&m->origins, m->depth, &m->origin_capacity, sizeof(*m->origins), m->err))
		return GT_ENOMEM;
	if (++m->pushes > GT_PICKLE_MAX_PUSHES)
		return gt_machine_fail(m, "more than 16777216 values: no checkpoint has as many");
	m->origins[m->depth] = m->op_at;
	m->stack[m->depth++] = node;
	return 0;
}

/* Return the depth of the stack at the last mark, or 0 if there is no mark. */
static inline size_t gt_machine_last_mark(const struct gt_machine *m)
{
	return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

/* Return GT_EFORMAT if there are fewer than n values above the last mark. */
static inline int gt_machine_need(struct gt_machine *m, size_t n)
{
	if (m->depth - gt_machine_last_mark(m) < n)
		return gt_machine_fail(m, "the stack has too few values");
	return 0;
}

/* Return the last value on the stack, which must not be empty. */
static inline struct gt_tree *gt_machine_top(struct gt_machine *m)
{
	return m->stack[m->depth - 1];
}

/* Take n values off the stack into m->args. */
static inline int gt_machine_pop(struct gt_machine *m, size_t n)
{
	int rc = gt_machine_need(m, n);

	if (rc || !n)
		return rc;
	m->depth -= n;
	m->args = m->stack + m->depth;
	m->count = n;
	return 0;
}

/* Remove the last mark, and take the values above it off the stack into m->args. */
static inline int gt_machine_pop_mark(struct gt_machine *m)
{
	size_t base = gt_machine_last_mark(m);

	if (!m->mark_count)
		return gt_machine_fail(m, "no mark on the stack");
	m->mark_count--;
	m->args = base ? m->stack + base : m->stack; /* m->stack may be NULL */
	m->count = m->depth - base;
	m->depth = base;
	return 0;
}

/* Append *value, with *key if not NULL, to `seq`; both point into the stack. */
static inline int gt_machine_keep_item(
    struct gt_machine *m, struct gt_tree *seq, struct gt_tree **key, struct gt_tree **value)
{
	struct gt_tree_item *item;

	if (gt_tree_push(seq, key ? *key : NULL, *value, m->arena, m->err))
		return GT_ENOMEM;
	item = &seq->seq.items[seq->seq.count - 1];
	item->key_at = key ? m->origins[key - m->stack] : 0;
	item->value_at = m->origins[value - m->stack];
	return 0;
}

/* Push a tuple or list of n values, which lie on the stack. */
static inline int gt_machine_push_seq(
    struct gt_machine *m, enum gt_tree_kind kind, struct gt_tree **values, size_t n)
{
	struct gt_tree *seq = gt_tree_new(m->arena, kind, m->err);

	if (seq && gt_tree_reserve(seq, n, m->arena, m->err))
		return GT_ENOMEM;
	for (size_t i = 0; seq && i < n; i++)
		if (gt_machine_keep_item(m, seq, NULL, values + i))
			return GT_ENOMEM;
	return gt_machine_push(m, seq);
}

/* Return an object of the class `class_name` with `args`; NULL if memory runs out. */
static inline struct gt_tree *gt_machine_object_of(
    struct gt_machine *m, const struct gt_tree *class_name, struct gt_tree *args)
{
	struct gt_tree *node = gt_tree_new(m->arena, GT_TREE_OPAQUE, m->err);

	if (node) {
		node->opaque.class_name = class_name->opaque.class_name;
		node->opaque.args = args;
	}
	return node;
}

/* Return an object with one argument; class_name is borrowed. NULL if memory runs out. */
static inline struct gt_tree *gt_machine_boxed(
    struct gt_machine *m, const char *class_name, struct gt_tree *value)
{
	struct gt_tree *node = gt_tree_new(m->arena, GT_TREE_OPAQUE, m->err);
	struct gt_tree *args = node ? gt_tree_tuple(m->arena, m->err) : NULL;

	if (!args || gt_tree_push(args, NULL, value, m->arena, m->err))
		return NULL;
	node->opaque.class_name = class_name;
	node->opaque.args = args;
	return node;
}

#endif
