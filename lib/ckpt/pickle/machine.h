/* machine.h - inside ckpt: the pickle machine's state, and the helpers its opcodes share. */
#ifndef GT_CKPT_PICKLE_MACHINE_H
#define GT_CKPT_PICKLE_MACHINE_H

#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"

/* Errors of these functions do not name the place: gt_pickle_read() puts the byte before the
 * text. */

enum {
	GT_PICKLE_NAME_BYTES = 512,    /* bytes of the name of a module or class */
	GT_PICKLE_RECENT_INTS = 512,   /* integers whose nodes are shared by later uses */
	GT_PICKLE_MAX_MARKS = 1 << 10, /* marks that are open at the same time */
	GT_PICKLE_MAX_PUSHES = 1 << 24 /* values pushed to the stack; this bounds memory and time */
};

struct gt_machine {
	struct gt_arena *arena;
	const struct gt_pickle_hooks *hooks;
	const unsigned char *bytes;
	size_t have, size;            /* bytes read so far; the limit for the pickle */
	const struct gt_mapping *map; /* the file with the other bytes; or NULL */
	uint64_t map_at;              /* offset of the pickle in the file */
	unsigned char *copy;          /* `bytes`, if copied from a file */
	size_t at;                    /* the next byte */
	size_t op_at;                 /* offset of the current opcode */
	unsigned char op;             /* the current opcode */
	/* the values that the opcode takes off the stack. They stay in the stack's memory until the
	 * next push. */
	struct gt_tree **args;
	size_t count;
	size_t frame_end; /* end of the current frame; 0: none */
	struct gt_tree **stack;
	size_t *origins; /* [depth], the opcode that pushed each value */
	size_t depth, stack_room, origin_room;
	size_t *marks; /* depths of the stack; nothing below the last one can be taken */
	size_t mark_count, mark_room;
	struct gt_tree **memo; /* holes are NULL */
	size_t memo_count, memo_room;
	size_t pushes, name_bytes;
	struct gt_tree *none, *truth[2],
	    *recent[GT_PICKLE_RECENT_INTS]; /* shared nodes, which are never changed */
	bool stopped;
	struct gt_err *err;
};

/* A handler takes its operands from the bytes and from `args`, whose number is in the table of
 * pickle/read.c. Opcodes that share a handler differ in `op`. */
typedef int gt_opcode(struct gt_machine *m);

/* pickle/scalars.c */
gt_opcode gt_op_const, gt_op_binint, gt_op_binfloat, gt_op_long, gt_op_text_int, gt_op_text_float,
    gt_op_unicode, gt_op_bytes, gt_op_string, gt_op_text_string, gt_op_text_unicode;

/* pickle/objects.c */
gt_opcode gt_op_empty, gt_op_seq, gt_op_appends, gt_op_setitems, gt_op_dict, gt_op_set;

gt_opcode gt_op_global, gt_op_stack_global, gt_op_call, gt_op_newobj_ex, gt_op_inst, gt_op_build,
    gt_op_persistent, gt_op_unsupported;

static inline int gt_machine_fail(struct gt_machine *m, const char *what)
{
	gt_err_set(m->err, GT_EFORMAT, "%s", what);
	return GT_EFORMAT;
}

/* Copy more of the file: at least `length` bytes from m->at on, which the file has. Invalidates
 * m->bytes. (pickle/read.c) */
int gt_machine_fill(struct gt_machine *m, uint64_t length);

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

/* An unsigned number of `width` bytes. */
static inline int gt_machine_take_number(struct gt_machine *m, size_t width, uint64_t *value)
{
	const unsigned char *p;
	int rc = gt_machine_take(m, width, &p);

	if (!rc)
		*value = gt_get_le(p, width);
	return rc;
}

/* The number of bytes that may still be allocated. Larger operands are not read. */
static inline size_t gt_machine_memory_left(const struct gt_machine *m)
{
	const struct gt_arena *a = m->arena;

	return !a->limit ? SIZE_MAX : a->limit > a->used ? a->limit - a->used : 0;
}

static inline int gt_machine_too_much(struct gt_machine *m)
{
	gt_err_set(
	    m->err, GT_EFORMAT, "more than %zu bytes of memory are asked for", m->arena->limit);
	return GT_EFORMAT;
}

/* Take a length of `width` bytes, then as many bytes. */
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

/* A line, without its end. */
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

/* A line, copied to `text` of GT_PICKLE_NAME_BYTES. */
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

static inline int gt_machine_push(struct gt_machine *m, struct gt_tree *node)
{
	if (!node || gt_grow(&m->stack, m->depth, &m->stack_room, sizeof(*m->stack), m->err) ||
	    gt_grow(&m->origins, m->depth, &m->origin_room, sizeof(*m->origins), m->err))
		return GT_ENOMEM;
	if (++m->pushes > GT_PICKLE_MAX_PUSHES)
		return gt_machine_fail(m, "more than 16777216 values: no checkpoint has as many");
	m->origins[m->depth] = m->op_at;
	m->stack[m->depth++] = node;
	return 0;
}

static inline size_t gt_machine_last_mark(const struct gt_machine *m)
{
	return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

static inline int gt_machine_need(struct gt_machine *m, size_t n)
{
	if (m->depth - gt_machine_last_mark(m) < n)
		return gt_machine_fail(m, "the stack has too few values");
	return 0;
}

static inline struct gt_tree *gt_machine_top(struct gt_machine *m)
{
	return m->stack[m->depth - 1];
}

/* Take n values off the stack. */
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

/* Close the last mark, and take the values above it off the stack. */
static inline int gt_machine_pop_mark(struct gt_machine *m)
{
	size_t base = gt_machine_last_mark(m);

	if (!m->mark_count)
		return gt_machine_fail(m, "no mark on the stack");
	m->mark_count--;
	m->args = base ? m->stack + base : m->stack; /* there may be no stack yet */
	m->count = m->depth - base;
	m->depth = base;
	return 0;
}

/* Append a value that has just left the stack, with its key (NULL for none), to a container. */
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

/* A tuple or list of values that have just left the stack; it has memory for exactly these
 * values. */
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

/* An opaque object of a class and the arguments it was made of. */
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

/* An opaque node with one value as its argument. `class_name` is a constant. */
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
