/* read.c - the machine that reads pickles: opcodes in, a tree out, nothing executed. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/ckpt/pickle/machine.h"

/*
 * A pickle is a program for a small stack machine. gtrain's machine executes the opcodes, but only
 * builds a tree (struct gt_tree, lib/ckpt/ckpt.h): where Python imports a global (a class or a
 * function) and calls it, gtrain stores the name ("module.name") and the arguments. The memo is a
 * table of the machine: an opcode can store a value in it, and later opcodes can fetch that value
 * again. Numbers in a pickle are little-endian, except in BINFLOAT.
 * Source: CPython, Lib/pickletools.py (opcodes of protocols 0 to 5).
 *
 * Values for which enum gt_tree_kind (ckpt.h) has no kind become opaque nodes:
 *
 *   value                            class name                      other fields
 *   a global that is not called      its name, e.g. torch.float32    args NULL
 *   bytes                            builtins.bytes                  args (string)
 *   an int beyond 64 bits            builtins.int                    args (text for int(text, 0))
 *   a set                            builtins.set or frozenset       items
 *   a call of the result of a call   (call)                          args (callee, arguments)
 *
 * Older protocols of pickle write some of these values as a call. gtrain turns these calls into the
 * same nodes. The module names `__builtin__` and `copy_reg` of Python 2 are replaced by
 * `builtins` and `copyreg`, the names of these modules in Python 3. Nodes for None, a bool or a
 * small int may be in several places of the tree. A string of Python 2 consists of bytes. It
 * becomes a string node if the bytes are UTF-8, and otherwise a node for `bytes`.
 */

enum {
	MAX_PROTOCOL = 5,
	MEMORY_ANY = 16 << 20, /* bytes for a pickle of any size, */
	MEMORY_RATIO = 256,    /* and for each of its bytes: a node and its places in two lists */
	FIRST_BYTES = 64 << 10 /* bytes of a file that are copied at first */
};

/* ---- stack and memo ---- */

static int op_mark(struct gt_machine *m)
{
	if (m->mark_count == GT_PICKLE_MAX_MARKS)
		return gt_machine_fail(m, "more than 1024 marks are open");
	if (gt_grow(&m->marks, m->mark_count, &m->mark_capacity, sizeof(*m->marks), m->err))
		return GT_ENOMEM;
	m->marks[m->mark_count++] = m->depth;
	return 0;
}

static int op_pop(struct gt_machine *m)
{
	/* POP on a mark takes the mark: protocol 1 does that after a recursive tuple. */
	if (m->op == GT_PICKLE_POP_MARK || (m->mark_count && m->depth == gt_machine_last_mark(m)))
		return gt_machine_pop_mark(m);
	return gt_machine_pop(m, 1);
}

static int op_dup(struct gt_machine *m)
{
	return gt_machine_need(m, 1) ? GT_EFORMAT : gt_machine_push(m, gt_machine_top(m));
}

static int take_index(struct gt_machine *m, uint64_t *index)
{
	char text[GT_PICKLE_NAME_BYTES], *end;
	int rc;

	if (m->op != GT_PICKLE_GET && m->op != GT_PICKLE_PUT)
		return gt_machine_take_number(
		    m, m->op == GT_PICKLE_BINGET || m->op == GT_PICKLE_BINPUT ? 1 : 4, index);
	rc = gt_machine_take_name(m, text);
	if (rc)
		return rc;
	*index = strtoull(text, &end, 10);
	return end == text || *end ? gt_machine_fail(m, "text that is no index") : 0;
}

static int op_get(struct gt_machine *m)
{
	uint64_t index;
	int rc = take_index(m, &index);

	if (rc)
		return rc;
	if (index >= m->memo_count || !m->memo[index])
		return gt_err_set(m->err, GT_EFORMAT, "memo %llu is read before it is written",
		    (unsigned long long)index);
	return gt_machine_push(m, m->memo[index]);
}

/* Indices count up from 0 or 1, one for each of some values: one above the number of values is a
 * lie, and refusing it bounds the memo. */
static int op_put(struct gt_machine *m)
{
	uint64_t index = m->memo_count;
	int rc = m->op == GT_PICKLE_MEMOIZE ? 0 : take_index(m, &index);

	if (!rc)
		rc = gt_machine_need(m, 1);
	if (rc)
		return rc;
	if (index > m->pushes)
		return gt_err_set(
		    m->err, GT_EFORMAT, "memo %llu is out of range", (unsigned long long)index);
	while (m->memo_count <= index) {
		if (gt_grow(&m->memo, m->memo_count, &m->memo_capacity, sizeof(*m->memo), m->err))
			return GT_ENOMEM;
		m->memo[m->memo_count++] = NULL;
	}
	m->memo[index] = gt_machine_top(m);
	return 0;
}

/* ---- the pickle as a whole ---- */

static int op_proto(struct gt_machine *m)
{
	uint64_t protocol;
	int rc = gt_machine_take_number(m, 1, &protocol);

	if (!rc && protocol > MAX_PROTOCOL)
		return gt_err_set(m->err, GT_ENOTSUP, "pickle protocol %llu, the last known is %d",
		    (unsigned long long)protocol, MAX_PROTOCOL);
	return rc;
}

/*
 * A frame says how many bytes a reader can fetch at once (PEP 3154). This reader does not need
 * it, but checks it, because a frame that lies makes Python fail or read other opcodes.
 */
static int op_frame(struct gt_machine *m)
{
	uint64_t length;
	int rc = gt_machine_take_number(m, 8, &length);

	if (rc)
		return rc;
	if (m->frame_end)
		return gt_machine_fail(m, "a frame inside a frame");
	if (length > m->size - m->at)
		return gt_machine_fail(m, "a frame goes past the end: the file is cut or damaged");
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

static int op_stop(struct gt_machine *m)
{
	if (m->depth != 1 || m->mark_count)
		return gt_machine_fail(m, "the pickle ends with other than one value");
	m->stopped = true;
	return 0;
}

enum { MARKED = -1 };

static const struct {
	gt_opcode *run;
	int pops; /* values taken off the stack first; MARKED: all above the last mark */
} opcodes[256] = {
	[GT_PICKLE_MARK] = { op_mark, 0 },
	[GT_PICKLE_STOP] = { op_stop, 0 },
	[GT_PICKLE_POP] = { op_pop, 0 },
	[GT_PICKLE_POP_MARK] = { op_pop, 0 },
	[GT_PICKLE_DUP] = { op_dup, 0 },
	[GT_PICKLE_FLOAT] = { gt_op_text_float, 0 },
	[GT_PICKLE_INT] = { gt_op_text_int, 0 },
	[GT_PICKLE_LONG] = { gt_op_text_int, 0 },
	[GT_PICKLE_BININT] = { gt_op_binint, 0 },
	[GT_PICKLE_BININT1] = { gt_op_binint, 0 },
	[GT_PICKLE_BININT2] = { gt_op_binint, 0 },
	[GT_PICKLE_NONE] = { gt_op_const, 0 },
	[GT_PICKLE_NEWTRUE] = { gt_op_const, 0 },
	[GT_PICKLE_NEWFALSE] = { gt_op_const, 0 },
	[GT_PICKLE_LONG1] = { gt_op_long, 0 },
	[GT_PICKLE_LONG4] = { gt_op_long, 0 },
	[GT_PICKLE_BINFLOAT] = { gt_op_binfloat, 0 },
	[GT_PICKLE_BINSTRING] = { gt_op_string, 0 },
	[GT_PICKLE_SHORT_BINSTRING] = { gt_op_string, 0 },
	[GT_PICKLE_BINUNICODE] = { gt_op_unicode, 0 },
	[GT_PICKLE_SHORT_BINUNICODE] = { gt_op_unicode, 0 },
	[GT_PICKLE_BINUNICODE8] = { gt_op_unicode, 0 },
	[GT_PICKLE_BINBYTES] = { gt_op_bytes, 0 },
	[GT_PICKLE_SHORT_BINBYTES] = { gt_op_bytes, 0 },
	[GT_PICKLE_BINBYTES8] = { gt_op_bytes, 0 },
	[GT_PICKLE_BYTEARRAY8] = { gt_op_bytes, 0 },
	[GT_PICKLE_EMPTY_DICT] = { gt_op_empty, 0 },
	[GT_PICKLE_EMPTY_LIST] = { gt_op_empty, 0 },
	[GT_PICKLE_EMPTY_TUPLE] = { gt_op_empty, 0 },
	[GT_PICKLE_TUPLE] = { gt_op_seq, MARKED },
	[GT_PICKLE_LIST] = { gt_op_seq, MARKED },
	[GT_PICKLE_TUPLE1] = { gt_op_seq, 1 },
	[GT_PICKLE_TUPLE2] = { gt_op_seq, 2 },
	[GT_PICKLE_TUPLE3] = { gt_op_seq, 3 },
	[GT_PICKLE_DICT] = { gt_op_dict, MARKED },
	[GT_PICKLE_APPEND] = { gt_op_appends, 1 },
	[GT_PICKLE_APPENDS] = { gt_op_appends, MARKED },
	[GT_PICKLE_ADDITEMS] = { gt_op_appends, MARKED },
	[GT_PICKLE_SETITEM] = { gt_op_setitems, 2 },
	[GT_PICKLE_SETITEMS] = { gt_op_setitems, MARKED },
	[GT_PICKLE_EMPTY_SET] = { gt_op_set, 0 },
	[GT_PICKLE_FROZENSET] = { gt_op_set, MARKED },
	[GT_PICKLE_GET] = { op_get, 0 },
	[GT_PICKLE_BINGET] = { op_get, 0 },
	[GT_PICKLE_LONG_BINGET] = { op_get, 0 },
	[GT_PICKLE_PUT] = { op_put, 0 },
	[GT_PICKLE_BINPUT] = { op_put, 0 },
	[GT_PICKLE_LONG_BINPUT] = { op_put, 0 },
	[GT_PICKLE_MEMOIZE] = { op_put, 0 },
	[GT_PICKLE_GLOBAL] = { gt_op_global, 0 },
	[GT_PICKLE_STACK_GLOBAL] = { gt_op_stack_global, 2 },
	[GT_PICKLE_REDUCE] = { gt_op_call, 2 },
	[GT_PICKLE_NEWOBJ] = { gt_op_call, 2 },
	[GT_PICKLE_NEWOBJ_EX] = { gt_op_newobj_ex, 3 },
	[GT_PICKLE_INST] = { gt_op_inst, MARKED },
	[GT_PICKLE_OBJ] = { gt_op_inst, MARKED },
	[GT_PICKLE_BUILD] = { gt_op_build, 1 },
	[GT_PICKLE_BINPERSID] = { gt_op_persistent, 1 },
	[GT_PICKLE_STRING] = { gt_op_text_string, 0 },
	[GT_PICKLE_UNICODE] = { gt_op_text_unicode, 0 },
	[GT_PICKLE_PERSID] = { gt_op_unsupported, 0 },
	[GT_PICKLE_EXT1] = { gt_op_unsupported, 0 },
	[GT_PICKLE_EXT2] = { gt_op_unsupported, 0 },
	[GT_PICKLE_EXT4] = { gt_op_unsupported, 0 },
	[GT_PICKLE_NEXT_BUFFER] = { gt_op_unsupported, 0 },
	[GT_PICKLE_READONLY_BUFFER] = { gt_op_unsupported, 0 },
	[GT_PICKLE_PROTO] = { op_proto, 0 },
	[GT_PICKLE_FRAME] = { op_frame, 0 },
};

/*
 * Note an opcode that has put a string on the stack, or that is a frame. The origin of the top
 * value is compared, because an opcode such as POP uncovers a string that an earlier one put
 * there.
 */
static int note_string_or_frame(struct gt_machine *m, struct gt_pickle_layout *l)
{
	bool pushed = m->depth && m->origins[m->depth - 1] == m->op_at;

	if (pushed && gt_machine_top(m)->kind == GT_TREE_STRING) {
		if (gt_grow(&l->uses, l->use_count, &l->use_capacity, sizeof(*l->uses), m->err))
			return GT_ENOMEM;
		l->uses[l->use_count++] =
		    (struct gt_pickle_use){ m->op_at, m->at - m->op_at, gt_machine_top(m) };
	} else if (m->op == GT_PICKLE_FRAME) {
		if (gt_grow(
		        &l->frames, l->frame_count, &l->frame_capacity, sizeof(*l->frames), m->err))
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
 * need more: a few bytes that fetch a list again and again. The limit grows with the bytes that
 * the machine has consumed, not with the file: bytes that were not looked at lend no memory.
 */
static void limit_memory(struct gt_machine *m, size_t before)
{
	m->arena->limit = before + MEMORY_ANY + MEMORY_RATIO * m->at;
}

/*
 * The copy of an operand counts against the limit of memory, so an operand larger than the limit
 * is never copied. The copy doubles, so its bytes are moved a constant number of times on
 * average. It stops at the end of the file, not of the pickle, whose length only its STOP says.
 */
int gt_machine_fill(struct gt_machine *m, uint64_t length)
{
	size_t size = m->have ? 2 * m->have : FIRST_BYTES;
	unsigned char *grown;
	int rc;

	if (length > gt_machine_memory_left(m))
		return gt_machine_too_much(m);
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
static int run_opcode(struct gt_machine *m)
{
	const unsigned char *p;
	int rc;

	if (m->at == m->size)
		return gt_machine_fail(m, "the pickle does not end: the file is cut");
	rc = gt_machine_take(m, 1, &p);
	if (rc)
		return rc;
	m->op = *p;
	if (!opcodes[m->op].run)
		return gt_err_set(m->err, GT_EFORMAT, "no known opcode: 0x%02x", m->op);
	rc = opcodes[m->op].pops == MARKED ? gt_machine_pop_mark(m)
	                                   : gt_machine_pop(m, (size_t)opcodes[m->op].pops);
	return rc ? rc : opcodes[m->op].run(m);
}

/*
 * Example: a pickle of {"a": (1, 2)}. A bar stands for a mark.
 *
 *   opcode           stack afterwards         memo
 *   PROTO 2
 *   EMPTY_DICT       {}
 *   BINPUT 0         {}                       0: {}
 *   MARK             {} |
 *   BINUNICODE "a"   {} | "a"
 *   BININT1 1        {} | "a" 1
 *   BININT1 2        {} | "a" 1 2
 *   TUPLE2           {} | "a" (1, 2)                  run_opcode() pops 2, the handler pushes 1
 *   SETITEMS         {"a": (1, 2)}            0: the same node, now with its item
 *   STOP                                              the one value left is the result
 */
static int run_pickle(struct gt_machine *m)
{
	struct gt_pickle_layout *layout = m->hooks ? m->hooks->layout : NULL;
	size_t before = m->arena->used;
	int rc = 0;

	while (!rc && !m->stopped) {
		limit_memory(m, before);
		m->op_at = m->at;
		rc = run_opcode(m);
		if (!rc && m->frame_end)
			rc = check_frame(m);
		if (!rc && layout)
			rc = note_string_or_frame(m, layout);
	}
	if (rc)
		gt_err_prefix(m->err, "pickle: byte %zu", m->op_at);
	return rc;
}

/* Run a machine that has its bytes, and release all of it but those. */
static int read_root(struct gt_machine *m, struct gt_tree **out, size_t *used)
{
	size_t limit = m->arena->limit;
	int rc = run_pickle(m);

	/* The arena is the caller's, so the limit of this pickle must not outlive it. */
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
	/* The machine's copy may be twice as long as the pickle, so only the pickle is kept. */
	unsigned char *kept = rc || !copy ? NULL : gt_arena_alloc(arena, *used, err);

	if (copy)
		*copy = kept;
	if (kept)
		memcpy(kept, m.copy, *used);
	free(m.copy);
	return rc || !copy || kept ? rc : GT_ENOMEM;
}
