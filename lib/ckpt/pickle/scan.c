/* scan.c - the globals of every prefix of a pickle that Python would run. */
#include "lib/ckpt/pickle/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/ckpt/pickle/scan_state.h"

/*
 * An attack needs no value: Python has run all opcodes before the one at which it fails. So this
 * machine checks only the rules that stop Python's own (CPython, Lib/pickle.py and
 * Modules/_pickle.c): operands that are there, values on the stack, entries of the memo. Of values
 * it keeps the strings that can be names, and the globals; all others are alike.
 */

enum {
	NAME_BYTES_FREE = 1 << 20, /* bytes of all names together, plus */
	NAME_BYTES_RATIO = 16      /* this number for each byte of the file */
};

/* A global, and its place in out->items. */
struct known {
	struct gt_pickle_named named;
	uint32_t index;
};

/* ---- names ---- */

/* Copy bytes that can be the name of a module or a class; else the copy is "". */
static void copy_name(char *out, const unsigned char *p, uint64_t n)
{
	out[0] = '\0';
	if (!p || n >= GT_PICKLE_NAME_BYTES || memchr(p, 0, n))
		return;
	memcpy(out, p, n);
	out[n] = '\0';
	if (!gt_pickle_is_name(out))
		out[0] = '\0';
}

static int take_two_lines(struct gt_scan *s)
{
	int rc = gt_scan_take_line(s);

	if (rc || s->ended)
		return rc;
	copy_name(s->module, s->bytes, s->length);
	return gt_scan_take_line(s);
}

static int find_global(struct gt_scan *s, const char *full, struct known **out)
{
	struct known *g = *out = gt_index_find(&s->names, &full);

	if (g)
		return 0;
	s->name_bytes += strlen(full);
	if (s->name_bytes > NAME_BYTES_FREE + NAME_BYTES_RATIO * s->size)
		return gt_scan_end_by_limit(s);
	g = gt_arena_alloc(s->arena, sizeof(*g), s->err);
	if (!g || gt_grow(&s->out->items, s->out->count, &s->out->capacity, sizeof(*s->out->items),
	              s->err))
		return GT_ENOMEM;
	g->index = (uint32_t)s->out->count;
	g->named =
	    (struct gt_pickle_named){ gt_arena_strdup(s->arena, full, s->err), .at = s->op_at };
	if (!g->named.name || !gt_index_add(&s->names, g, s->err))
		return GT_ENOMEM;
	s->out->items[s->out->count++] = &g->named;
	*out = g;
	return 0;
}

/* The global of two names; the scan ends where one is no name. */
static int name_global(
    struct gt_scan *s, const char *module, const char *name, struct gt_scan_value *v)
{
	char full[2 * GT_PICKLE_NAME_BYTES];
	struct known *g;
	int rc;

	*v = gt_scan_other;
	if (!*module || !*name)
		return gt_scan_end(s);
	gt_pickle_rename_today(&module, &name);
	snprintf(full, sizeof(full), "%s.%s", module, name);
	rc = find_global(s, full, &g);
	if (rc || s->ended)
		return rc;
	g->named.count++;
	*v = (struct gt_scan_value){ GT_SCAN_GLOBAL, g->index };
	return 0;
}

/* The global of two lines. */
static int name_lines(struct gt_scan *s, struct gt_scan_value *v)
{
	char name[GT_PICKLE_NAME_BYTES];

	copy_name(name, s->bytes, s->length);
	return name_global(s, s->module, name, v);
}

static void note_call(struct gt_scan *s, struct gt_scan_value v)
{
	if (v.kind == GT_SCAN_GLOBAL)
		s->out->items[v.index]->called = true;
}

/* ---- opcodes ---- */

/* The number of a line, as int() takes it. */
static bool read_memo_index(const struct gt_scan *s, uint64_t *index)
{
	char text[32], *end;

	if (!s->bytes || s->length >= sizeof(text))
		return false;
	memcpy(text, s->bytes, s->length);
	text[s->length] = '\0';
	*index = strtoull(text, &end, 10);
	return end != text && !end[strspn(end, " \t\r\f\v")];
}
static int op_nothing(struct gt_scan *s)
{
	(void)s;
	return 0;
}

static int op_push(struct gt_scan *s)
{
	return gt_scan_push(s, gt_scan_other);
}

/* A buffer of at least n bytes. */
static int reserve(struct gt_scan *s, unsigned char **buffer, size_t *capacity, size_t n)
{
	unsigned char *grown;

	if (n <= *capacity)
		return 0;
	grown = gt_reallocarray(*buffer, n, 1, s->err);
	if (!grown)
		return GT_ENOMEM;
	*buffer = grown;
	*capacity = n;
	return 0;
}

/*
 * Up to protocol 2, bytes are written as text that is encoded in Latin-1 again, so a pickle in them
 * is UTF-8 here.
 */
static int show_latin1(struct gt_scan *s, const unsigned char *p, size_t n)
{
	size_t count = 0, at = 0;

	if (reserve(s, &s->latin1, &s->latin1_capacity, n))
		return GT_ENOMEM;
	while (at < n && (p[at] < 0x80 || (at + 1 < n && (p[at] & 0xfe) == 0xc2))) {
		bool two = p[at] >= 0x80;

		s->latin1[count++] = (unsigned char)(two ? p[at] << 6 | (p[at + 1] & 0x3f) : p[at]);
		at += two ? 2 : 1;
	}
	return count < at ? s->text(s->self, s->latin1, count, s->err) : 0;
}

/* Push a string of `length` bytes, n of them in memory: a name, perhaps, or a pickle itself. */
static int push_text(struct gt_scan *s, const unsigned char *bytes, size_t n, uint64_t length)
{
	char name[GT_PICKLE_NAME_BYTES];
	int rc = s->text(s->self, bytes, n, s->err);

	if (!rc && s->op != GT_PICKLE_STRING)
		rc = show_latin1(s, bytes, n);
	if (rc)
		return rc;
	copy_name(name, bytes, length);
	if (!*name)
		return gt_scan_push(s, gt_scan_other);
	if (s->text_count == GT_SCAN_ENTRIES_MAX)
		return gt_scan_end_by_limit(s);
	if (gt_grow(&s->texts, s->text_count, &s->text_capacity, sizeof(*s->texts), s->err))
		return GT_ENOMEM;
	s->texts[s->text_count] = gt_arena_strdup(s->arena, name, s->err);
	if (!s->texts[s->text_count])
		return GT_ENOMEM;
	return gt_scan_push(s, (struct gt_scan_value){ GT_SCAN_NAME, (uint32_t)s->text_count++ });
}

/* A string whose bytes stand in the pickle as they are. */
static int op_block(struct gt_scan *s)
{
	return push_text(s, s->bytes, s->shown, s->length);
}

/* A string of protocol 0, with escapes. */
static int op_escaped(struct gt_scan *s)
{
	size_t n;

	if (!s->bytes)
		return gt_scan_push(s, gt_scan_other);
	if (reserve(s, &s->decoded, &s->decoded_capacity, 2 * s->shown + 4))
		return GT_ENOMEM;
	if (s->op == GT_PICKLE_STRING ? !gt_pickle_unquote(s->bytes, s->shown, s->decoded, &n)
	                              : !gt_pickle_unescape(s->bytes, s->shown, s->decoded, &n))
		return gt_scan_end(s);
	return push_text(s, s->decoded, n, n);
}

/* POP on a mark takes the mark. */
static int op_pop(struct gt_scan *s)
{
	if (s->mark_count && s->depth == gt_scan_base(s))
		gt_scan_pop_mark(s);
	else
		gt_scan_pop(s, 1);
	return 0;
}

static int op_dup(struct gt_scan *s)
{
	struct gt_scan_value v;

	return gt_scan_top(s, &v) ? gt_scan_push(s, v) : gt_scan_end(s);
}

/* ('module', class, ...), as old torch files wrote a class, will stand for that class. */
static int op_tuple(struct gt_scan *s)
{
	const struct gt_scan_value *v = s->args;

	if (s->arg_count > 1 && v[0].kind == GT_SCAN_NAME &&
	    !strcmp(s->texts[v[0].index], "module") && v[1].kind == GT_SCAN_GLOBAL)
		return gt_scan_push(s, (struct gt_scan_value){ GT_SCAN_CLASS_ID, v[1].index });
	return gt_scan_push(s, gt_scan_other);
}

static int op_persistent(struct gt_scan *s)
{
	struct gt_scan_value id = s->args[0];

	return gt_scan_push(s, id.kind == GT_SCAN_CLASS_ID
	                           ? (struct gt_scan_value){ GT_SCAN_GLOBAL, id.index }
	                           : gt_scan_other);
}

/* Items that are put into the value below them. */
static int op_fill(struct gt_scan *s)
{
	struct gt_scan_value v;

	return gt_scan_top(s, &v) ? 0 : gt_scan_end(s);
}

static int op_build(struct gt_scan *s)
{
	struct gt_scan_value v;

	if (!gt_scan_top(s, &v))
		return gt_scan_end(s);
	if (v.kind == GT_SCAN_GLOBAL)
		s->out->items[v.index]->changed = true;
	return 0;
}

/* The number of a line; Python fails where it is none. */
static int op_get_line(struct gt_scan *s)
{
	uint64_t index;

	return read_memo_index(s, &index) ? gt_scan_get_memo(s, index) : gt_scan_end(s);
}

static int op_put_line(struct gt_scan *s)
{
	uint64_t index;

	return read_memo_index(s, &index) ? gt_scan_put_memo(s, index) : gt_scan_end(s);
}

static int op_get(struct gt_scan *s)
{
	return gt_scan_get_memo(s, s->number);
}

static int op_put(struct gt_scan *s)
{
	return gt_scan_put_memo(s, s->number);
}

static int op_memoize(struct gt_scan *s)
{
	return gt_scan_put_memo(s, s->memo_entries);
}

static int op_global(struct gt_scan *s)
{
	struct gt_scan_value v;
	int rc = name_lines(s, &v);

	return rc || s->ended ? rc : gt_scan_push(s, v);
}

static int op_stack_global(struct gt_scan *s)
{
	struct gt_scan_value module = s->args[0], name = s->args[1], v;
	int rc;

	if (module.kind != GT_SCAN_NAME || name.kind != GT_SCAN_NAME)
		return gt_scan_end(s);
	rc = name_global(s, s->texts[module.index], s->texts[name.index], &v);
	return rc || s->ended ? rc : gt_scan_push(s, v);
}

/* REDUCE, NEWOBJ, NEWOBJ_EX, OBJ: the first value is called. */
static int op_call(struct gt_scan *s)
{
	if (!s->arg_count)
		return gt_scan_end(s);
	note_call(s, s->args[0]);
	return gt_scan_push(s, gt_scan_other);
}

static int op_inst(struct gt_scan *s)
{
	struct gt_scan_value v;
	int rc = name_lines(s, &v);

	if (rc || s->ended)
		return rc;
	note_call(s, v);
	return gt_scan_push(s, gt_scan_other);
}

static int op_proto(struct gt_scan *s)
{
	s->out->protocol = (unsigned)s->number;
	return 0;
}

static int op_stop(struct gt_scan *s)
{
	struct gt_scan_value v;

	if (gt_scan_top(s, &v))
		s->out->used = s->at;
	return gt_scan_end(s);
}

/* Operands that are no number of a fixed width. */
enum { BLOCK1 = -1, BLOCK4 = -4, BLOCK8 = -8, LINE = -2, LINES = -3 };
enum { MARKED = -1 };

/*
 * `torch`: torch.load(weights_only=True) knows the opcode.
 * Source: torch/_weights_only_unpickler.py, Unpickler.load(), of PyTorch's main branch after 2.7
 * (pytorch/pytorch 00f730b66e58).
 */
static const struct {
	int (*run)(struct gt_scan *s);
	int8_t operand;
	int8_t pops; /* values, or all above the last mark */
	bool torch;
} opcodes[256] = {
	[GT_PICKLE_MARK] = { gt_scan_push_mark, 0, 0, true },
	[GT_PICKLE_STOP] = { op_stop, 0, 0, true },
	[GT_PICKLE_POP] = { op_pop, 0, 0, false },
	[GT_PICKLE_POP_MARK] = { op_nothing, 0, MARKED, false },
	[GT_PICKLE_DUP] = { op_dup, 0, 0, false },
	[GT_PICKLE_FLOAT] = { op_push, LINE, 0, false },
	[GT_PICKLE_INT] = { op_push, LINE, 0, false },
	[GT_PICKLE_LONG] = { op_push, LINE, 0, false },
	[GT_PICKLE_BININT] = { op_push, 4, 0, true },
	[GT_PICKLE_BININT1] = { op_push, 1, 0, true },
	[GT_PICKLE_BININT2] = { op_push, 2, 0, true },
	[GT_PICKLE_NONE] = { op_push, 0, 0, true },
	[GT_PICKLE_NEWTRUE] = { op_push, 0, 0, true },
	[GT_PICKLE_NEWFALSE] = { op_push, 0, 0, true },
	[GT_PICKLE_LONG1] = { op_push, BLOCK1, 0, true },
	[GT_PICKLE_LONG4] = { op_push, BLOCK4, 0, false },
	[GT_PICKLE_BINFLOAT] = { op_push, 8, 0, true },
	[GT_PICKLE_BINSTRING] = { op_block, BLOCK4, 0, false },
	[GT_PICKLE_SHORT_BINSTRING] = { op_block, BLOCK1, 0, true },
	[GT_PICKLE_BINUNICODE] = { op_block, BLOCK4, 0, true },
	[GT_PICKLE_SHORT_BINUNICODE] = { op_block, BLOCK1, 0, false },
	[GT_PICKLE_BINUNICODE8] = { op_block, BLOCK8, 0, false },
	[GT_PICKLE_BINBYTES] = { op_block, BLOCK4, 0, false },
	[GT_PICKLE_SHORT_BINBYTES] = { op_block, BLOCK1, 0, false },
	[GT_PICKLE_BINBYTES8] = { op_block, BLOCK8, 0, false },
	[GT_PICKLE_BYTEARRAY8] = { op_block, BLOCK8, 0, false },
	[GT_PICKLE_STRING] = { op_escaped, LINE, 0, false },
	[GT_PICKLE_UNICODE] = { op_escaped, LINE, 0, false },
	[GT_PICKLE_EMPTY_DICT] = { op_push, 0, 0, true },
	[GT_PICKLE_EMPTY_LIST] = { op_push, 0, 0, true },
	[GT_PICKLE_EMPTY_TUPLE] = { op_push, 0, 0, true },
	[GT_PICKLE_EMPTY_SET] = { op_push, 0, 0, true },
	[GT_PICKLE_TUPLE] = { op_tuple, 0, MARKED, true },
	[GT_PICKLE_TUPLE1] = { op_tuple, 0, 1, true },
	[GT_PICKLE_TUPLE2] = { op_tuple, 0, 2, true },
	[GT_PICKLE_TUPLE3] = { op_tuple, 0, 3, true },
	[GT_PICKLE_LIST] = { op_push, 0, MARKED, false },
	[GT_PICKLE_DICT] = { op_push, 0, MARKED, false },
	[GT_PICKLE_FROZENSET] = { op_push, 0, MARKED, false },
	[GT_PICKLE_APPEND] = { op_fill, 0, 1, true },
	[GT_PICKLE_APPENDS] = { op_fill, 0, MARKED, true },
	[GT_PICKLE_ADDITEMS] = { op_fill, 0, MARKED, false },
	[GT_PICKLE_SETITEM] = { op_fill, 0, 2, true },
	[GT_PICKLE_SETITEMS] = { op_fill, 0, MARKED, true },
	[GT_PICKLE_GET] = { op_get_line, LINE, 0, false },
	[GT_PICKLE_BINGET] = { op_get, 1, 0, true },
	[GT_PICKLE_LONG_BINGET] = { op_get, 4, 0, true },
	[GT_PICKLE_PUT] = { op_put_line, LINE, 0, false },
	[GT_PICKLE_BINPUT] = { op_put, 1, 0, true },
	[GT_PICKLE_LONG_BINPUT] = { op_put, 4, 0, true },
	[GT_PICKLE_MEMOIZE] = { op_memoize, 0, 0, false },
	[GT_PICKLE_GLOBAL] = { op_global, LINES, 0, true },
	[GT_PICKLE_STACK_GLOBAL] = { op_stack_global, 0, 2, false },
	[GT_PICKLE_REDUCE] = { op_call, 0, 2, true },
	[GT_PICKLE_NEWOBJ] = { op_call, 0, 2, true },
	[GT_PICKLE_NEWOBJ_EX] = { op_call, 0, 3, false },
	[GT_PICKLE_INST] = { op_inst, LINES, MARKED, false },
	[GT_PICKLE_OBJ] = { op_call, 0, MARKED, false },
	[GT_PICKLE_BUILD] = { op_build, 0, 1, true },
	[GT_PICKLE_PERSID] = { op_push, LINE, 0, false },
	[GT_PICKLE_BINPERSID] = { op_persistent, 0, 1, true },
	[GT_PICKLE_EXT1] = { op_push, 1, 0, false },
	[GT_PICKLE_EXT2] = { op_push, 2, 0, false },
	[GT_PICKLE_EXT4] = { op_push, 4, 0, false },
	[GT_PICKLE_NEXT_BUFFER] = { op_push, 0, 0, false },
	[GT_PICKLE_READONLY_BUFFER] = { op_nothing, 0, 0, false },
	[GT_PICKLE_PROTO] = { op_proto, 1, 0, true },
	[GT_PICKLE_FRAME] = { op_nothing, 8, 0, false },
};

static int take_operand(struct gt_scan *s, int8_t operand)
{
	switch (operand) {
	case 0:
		return 0;
	case LINE:
		return gt_scan_take_line(s);
	case LINES:
		return take_two_lines(s);
	case BLOCK1:
	case BLOCK4:
	case BLOCK8:
		return gt_scan_take_block(s, (size_t)-operand);
	default:
		return gt_scan_take_number(s, (size_t)operand);
	}
}

/* The next opcode. An operand is read before values are taken, as Python does. */
static int scan_opcode(struct gt_scan *s)
{
	int rc;

	s->op_at = s->at;
	rc = gt_scan_take_number(s, 1);
	if (rc || s->ended)
		return rc;
	s->op = (unsigned char)s->number;
	if (!opcodes[s->op].run)
		return gt_scan_end(s);
	s->out->at = s->op_at;
	if (!opcodes[s->op].torch && !s->out->refused) {
		s->out->refused = s->op;
		s->out->refused_at = s->op_at;
	}
	rc = take_operand(s, opcodes[s->op].operand);
	if (rc || s->ended)
		return rc;
	if (opcodes[s->op].pops == MARKED)
		gt_scan_pop_mark(s);
	else
		gt_scan_pop(s, (size_t)opcodes[s->op].pops);
	return s->ended ? 0 : opcodes[s->op].run(s);
}

/*
 * Run the opcodes of a pickle that begins at offset `at` of a file, as Python's unpickler would, up
 * to STOP or to the first fault of the pickle. gt_pickle_read() builds values and refuses pickles
 * that have none here; this function keeps names alone, so that it gets as far as Python. Call
 * gt_pickle_scan_release() in every case. A pickle that breaks off is no error. Errors: GT_EIO,
 * GT_ENOMEM.
 */
int gt_pickle_scan(struct gt_pickle_scan *out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, gt_pickle_text *text, void *self, struct gt_err *err)
{
	struct gt_scan s = { .out = out,
		.arena = arena,
		.text = text,
		.self = self,
		.map = map,
		.start = at,
		.size = map->size - at,
		.far.compare = gt_compare_numbers,
		.names.compare = gt_index_by_name,
		.err = err };
	int rc = 0;

	*out = (struct gt_pickle_scan){ 0 };
	while (!rc && !s.ended)
		rc = scan_opcode(&s);
	gt_index_release(&s.far);
	gt_index_release(&s.names);
	free(s.window);
	free(s.decoded);
	free(s.latin1);
	free(s.stack);
	free(s.marks);
	free(s.memo);
	free(s.texts);
	return rc;
}

void gt_pickle_scan_release(struct gt_pickle_scan *scan)
{
	free(scan->items);
	*scan = (struct gt_pickle_scan){ 0 };
}
