/* read.c - the machine that reads pickles: opcodes in, a tree out, nothing executed. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/ckpt/pickle/machine.h"

enum {
	MAX_PROTOCOL = 5,
	MEMORY_ANY = 16 << 20, /* bytes for a pickle of any size, */
	MEMORY_RATIO = 256,    /* and for each of its bytes: a node and its places in two lists */
	FIRST_BYTES = 64 << 10 /* of a file, that are copied at first */
};

/* ---- stack and memo ---- */

static int op_mark(struct gt_machine *m, unsigned char op)
{
	(void)op;
	if (m->mark_count == MAX_MARKS)
		return fail(m, "more than 1024 marks are open");
	if (gt_grow(&m->marks, m->mark_count, &m->mark_room, sizeof(*m->marks), m->err))
		return GT_ENOMEM;
	m->marks[m->mark_count++] = m->depth;
	return 0;
}

static int op_pop(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **values;
	size_t n;

	/* POP on a mark takes the mark: protocol 1 does that after a recursive tuple. */
	if (op == OP_POP_MARK || (m->mark_count && m->depth == last_mark(m)))
		return pop_mark(m, &values, &n);
	if (need(m, 1))
		return GT_EFORMAT;
	m->depth--;
	return 0;
}

static int op_dup(struct gt_machine *m, unsigned char op)
{
	(void)op;
	return need(m, 1) ? GT_EFORMAT : push(m, top(m));
}

static int take_index(struct gt_machine *m, unsigned char op, uint64_t *index)
{
	char text[NAME_MAX_BYTES], *end;
	int rc;

	if (op != OP_GET && op != OP_PUT)
		return take_number(m, op == OP_BINGET || op == OP_BINPUT ? 1 : 4, index);
	rc = take_name(m, text);
	if (rc)
		return rc;
	*index = strtoull(text, &end, 10);
	return end == text || *end ? fail(m, "text that is no index") : 0;
}

static int op_get(struct gt_machine *m, unsigned char op)
{
	uint64_t index;
	int rc = take_index(m, op, &index);

	if (rc)
		return rc;
	if (index >= m->memo_count || !m->memo[index])
		return gt_err_set(m->err, GT_EFORMAT, "memo %llu is read before it is written",
		    (unsigned long long)index);
	return push(m, m->memo[index]);
}

/* Indices count up from 0 or 1, one for each of some values: one above the number of values is a
 * lie, and refusing it bounds the memo. */
static int op_put(struct gt_machine *m, unsigned char op)
{
	uint64_t index = m->memo_count;
	int rc = op == OP_MEMOIZE ? 0 : take_index(m, op, &index);

	if (!rc)
		rc = need(m, 1);
	if (rc)
		return rc;
	if (index > m->pushes)
		return gt_err_set(
		    m->err, GT_EFORMAT, "memo %llu is out of range", (unsigned long long)index);
	while (m->memo_count <= index) {
		if (gt_grow(&m->memo, m->memo_count, &m->memo_room, sizeof(*m->memo), m->err))
			return GT_ENOMEM;
		m->memo[m->memo_count++] = NULL;
	}
	m->memo[index] = top(m);
	return 0;
}

/* ---- the pickle as a whole ---- */

static int op_proto(struct gt_machine *m, unsigned char op)
{
	uint64_t protocol;
	int rc = take_number(m, 1, &protocol);

	(void)op;
	if (!rc && protocol > MAX_PROTOCOL)
		return gt_err_set(m->err, GT_ENOTSUP, "pickle protocol %llu, the last known is %d",
		    (unsigned long long)protocol, MAX_PROTOCOL);
	return rc;
}

static int op_frame(struct gt_machine *m, unsigned char op)
{
	uint64_t length;
	int rc = take_number(m, 8, &length);

	(void)op;
	if (rc)
		return rc;
	if (m->frame_end)
		return fail(m, "a frame inside a frame");
	if (length > m->size - m->at)
		return fail(m, "a frame goes past the end: the file is cut or damaged");
	m->frame_end = length ? m->at + length : 0;
	return 0;
}

/* A frame ends between two opcodes, the last one with the pickle: readers that fetch by frames see
 * the same opcodes as others. */
static int check_frame(struct gt_machine *m)
{
	if (m->at > m->frame_end)
		return gt_err_set(
		    m->err, GT_EFORMAT, "its frame ends within it, at byte %zu", m->frame_end);
	if (m->stopped && m->at != m->frame_end)
		return gt_err_set(m->err, GT_EFORMAT,
		    "the pickle ends before its frame does, at byte %zu", m->frame_end);
	if (m->at == m->frame_end)
		m->frame_end = 0;
	return 0;
}

static int op_stop(struct gt_machine *m, unsigned char op)
{
	(void)op;
	if (m->depth != 1 || m->mark_count)
		return fail(m, "the pickle ends with other than one value");
	m->stopped = true;
	return 0;
}

static gt_opcode *const opcodes[256] = {
	[OP_MARK] = op_mark,
	[OP_STOP] = op_stop,
	[OP_POP] = op_pop,
	[OP_POP_MARK] = op_pop,
	[OP_DUP] = op_dup,
	[OP_FLOAT] = gt_op_text_float,
	[OP_INT] = gt_op_text_int,
	[OP_LONG] = gt_op_text_int,
	[OP_BININT] = gt_op_binint,
	[OP_BININT1] = gt_op_binint,
	[OP_BININT2] = gt_op_binint,
	[OP_NONE] = gt_op_const,
	[OP_NEWTRUE] = gt_op_const,
	[OP_NEWFALSE] = gt_op_const,
	[OP_LONG1] = gt_op_long,
	[OP_LONG4] = gt_op_long,
	[OP_BINFLOAT] = gt_op_binfloat,
	[OP_BINSTRING] = gt_op_string,
	[OP_SHORT_BINSTRING] = gt_op_string,
	[OP_BINUNICODE] = gt_op_unicode,
	[OP_SHORT_BINUNICODE] = gt_op_unicode,
	[OP_BINUNICODE8] = gt_op_unicode,
	[OP_BINBYTES] = gt_op_bytes,
	[OP_SHORT_BINBYTES] = gt_op_bytes,
	[OP_BINBYTES8] = gt_op_bytes,
	[OP_BYTEARRAY8] = gt_op_bytes,
	[OP_EMPTY_DICT] = gt_op_empty,
	[OP_EMPTY_LIST] = gt_op_empty,
	[OP_EMPTY_TUPLE] = gt_op_empty,
	[OP_TUPLE] = gt_op_marked_seq,
	[OP_LIST] = gt_op_marked_seq,
	[OP_TUPLE1] = gt_op_tuple_n,
	[OP_TUPLE2] = gt_op_tuple_n,
	[OP_TUPLE3] = gt_op_tuple_n,
	[OP_DICT] = gt_op_dict,
	[OP_APPEND] = gt_op_append,
	[OP_APPENDS] = gt_op_appends,
	[OP_ADDITEMS] = gt_op_appends,
	[OP_SETITEM] = gt_op_setitem,
	[OP_SETITEMS] = gt_op_setitems,
	[OP_EMPTY_SET] = gt_op_set,
	[OP_FROZENSET] = gt_op_set,
	[OP_GET] = op_get,
	[OP_BINGET] = op_get,
	[OP_LONG_BINGET] = op_get,
	[OP_PUT] = op_put,
	[OP_BINPUT] = op_put,
	[OP_LONG_BINPUT] = op_put,
	[OP_MEMOIZE] = op_put,
	[OP_GLOBAL] = gt_op_global,
	[OP_STACK_GLOBAL] = gt_op_stack_global,
	[OP_REDUCE] = gt_op_call,
	[OP_NEWOBJ] = gt_op_call,
	[OP_NEWOBJ_EX] = gt_op_newobj_ex,
	[OP_INST] = gt_op_inst,
	[OP_OBJ] = gt_op_inst,
	[OP_BUILD] = gt_op_build,
	[OP_BINPERSID] = gt_op_persistent,
	[OP_STRING] = gt_op_text_string,
	[OP_UNICODE] = gt_op_text_unicode,
	[OP_PERSID] = gt_op_refuse,
	[OP_EXT1] = gt_op_refuse,
	[OP_EXT2] = gt_op_refuse,
	[OP_EXT4] = gt_op_refuse,
	[OP_NEXT_BUFFER] = gt_op_refuse,
	[OP_READONLY_BUFFER] = gt_op_refuse,
	[OP_PROTO] = op_proto,
	[OP_FRAME] = op_frame,
};

/* Note an opcode that has put a string on the stack, or that is a frame. */
static int note(struct gt_machine *m, struct gt_pickle_layout *l)
{
	bool pushed = m->depth && m->origins[m->depth - 1] == m->op_at;

	if (pushed && top(m)->kind == GT_TREE_STRING) {
		if (gt_grow(&l->uses, l->use_count, &l->use_room, sizeof(*l->uses), m->err))
			return GT_ENOMEM;
		l->uses[l->use_count++] =
		    (struct gt_pickle_use){ m->op_at, m->at - m->op_at, top(m) };
	} else if (m->op == OP_FRAME) {
		if (gt_grow(&l->frames, l->frame_count, &l->frame_room, sizeof(*l->frames), m->err))
			return GT_ENOMEM;
		l->frames[l->frame_count++] = m->op_at;
	}
	return 0;
}

void gt_pickle_layout_release(struct gt_pickle_layout *layout)
{
	free(layout->uses);
	free(layout->frames);
	*layout = (struct gt_pickle_layout){ 0 };
}

/*
 * A value takes a small multiple of the bytes that the file spends on it. Only copies of copies
 * need more: a few bytes that fetch a list again and again.
 */
static void limit_memory(struct gt_machine *m, size_t before)
{
	m->arena->limit = before + MEMORY_ANY + MEMORY_RATIO * m->at;
}

/*
 * The copy of an operand counts against the limit of memory, so an operand larger than the limit is
 * never copied.
 */
int gt_machine_fill(struct gt_machine *m, uint64_t length)
{
	size_t size = m->have ? 2 * m->have : FIRST_BYTES;
	unsigned char *grown;
	int rc;

	if (length > memory_left(m))
		return too_much_memory(m);
	if (size < m->at + length)
		size = m->at + length;
	if (size > m->size)
		size = m->size;
	grown = gt_reallocarray(m->copy, size, 1, m->err);
	if (!grown)
		return GT_ENOMEM;
	m->bytes = m->copy = grown;
	rc = gt_map_peek(m->map, m->map_at + m->have, grown + m->have, size - m->have, m->err);
	if (!rc)
		m->have = size;
	return rc;
}

/* The next opcode with its operand. */
static int step(struct gt_machine *m)
{
	const unsigned char *p;
	int rc;

	if (m->at == m->size)
		return fail(m, "the pickle does not end: the file is cut");
	rc = take(m, 1, &p);
	if (rc)
		return rc;
	m->op = *p;
	if (!opcodes[m->op])
		return gt_err_set(m->err, GT_EFORMAT, "no known opcode: 0x%02x", m->op);
	return opcodes[m->op](m, m->op);
}

static int run(struct gt_machine *m)
{
	struct gt_pickle_layout *layout = m->hooks ? m->hooks->layout : NULL;
	size_t before = m->arena->used;
	int rc = 0;

	while (!rc && !m->stopped) {
		limit_memory(m, before);
		m->op_at = m->at;
		rc = step(m);
		if (!rc && m->frame_end)
			rc = check_frame(m);
		if (!rc && layout)
			rc = note(m, layout);
	}
	if (rc)
		gt_err_prefix(m->err, "pickle: byte %zu", m->op_at);
	return rc;
}

/* Run a machine that has its bytes, and release all of it but those. */
static int read_root(struct gt_machine *m, struct gt_tree **out, size_t *used)
{
	size_t limit = m->arena->limit;
	int rc = run(m);

	m->arena->limit = limit;
	*out = NULL;
	if (!rc) {
		*used = m->at;
		*out = m->stack[0];
		rc = gt_tree_check(*out, m->arena, m->err);
		if (rc) {
			*out = NULL;
			gt_err_prefix(m->err, "pickle");
		}
	}
	free(m->stack);
	free(m->origins);
	free(m->marks);
	free(m->memo);
	return rc;
}

int gt_pickle_read(struct gt_tree **out, struct gt_arena *arena, const unsigned char *bytes,
    size_t size, size_t *used, const struct gt_pickle_hooks *hooks, struct gt_err *err)
{
	struct gt_machine m = { .arena = arena,
		.hooks = hooks,
		.bytes = bytes,
		.have = size,
		.size = size,
		.err = err };

	return read_root(&m, out, used);
}

int gt_pickle_read_file(struct gt_tree **out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, const unsigned char **copy, size_t *used, const struct gt_pickle_hooks *hooks,
    struct gt_err *err)
{
	struct gt_machine m = { .arena = arena,
		.hooks = hooks,
		.size = map->size - at,
		.map = map,
		.map_at = at,
		.err = err };
	int rc = read_root(&m, out, used);
	unsigned char *kept = rc || !copy ? NULL : gt_arena_alloc(arena, *used, err);

	if (copy)
		*copy = kept;
	if (kept)
		memcpy(kept, m.copy, *used);
	free(m.copy);
	return rc || !copy || kept ? rc : GT_ENOMEM;
}
