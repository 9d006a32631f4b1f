/* objects.c - the opcodes of containers, classes and objects: kept by name, never called. */
#include <stdio.h>

#include "lib/ckpt/pickle/machine.h"

/* ---- lists, tuples, dicts and sets ---- */

int gt_op_empty(struct gt_machine *m)
{
	enum gt_tree_kind kind = m->op == GT_PICKLE_EMPTY_DICT   ? GT_TREE_DICT
	                         : m->op == GT_PICKLE_EMPTY_LIST ? GT_TREE_LIST
	                                                         : GT_TREE_TUPLE;

	return gt_machine_push(m, gt_tree_new(m->arena, kind, m->err));
}

int gt_op_seq(struct gt_machine *m)
{
	return gt_machine_push_seq(
	    m, m->op == GT_PICKLE_LIST ? GT_TREE_LIST : GT_TREE_TUPLE, m->args, m->count);
}

/*
 * The node that receives items at the top of the stack: the container itself, or an opaque one's
 * `items`.
 */
static int container(struct gt_machine *m, enum gt_tree_kind kind, struct gt_tree **out)
{
	struct gt_tree *node;
	int rc = gt_machine_need(m, 1);

	if (rc)
		return rc;
	node = gt_machine_top(m);
	if (node->kind == GT_TREE_OPAQUE && node->opaque.args) {
		if (!node->opaque.items)
			node->opaque.items = gt_tree_new(m->arena, kind, m->err);
		node = node->opaque.items;
		if (!node)
			return GT_ENOMEM;
	}
	if (node->kind != kind)
		return gt_machine_fail(m, kind == GT_TREE_DICT
		                              ? "a key set in a value that is not a dict"
		                              : "an item appended to a value that is not a list");
	*out = node;
	return 0;
}

/*
 * Room for all items at once: picklers write up to a thousand together (CPython, Lib/pickle.py,
 * _BATCHSIZE).
 */
int gt_op_appends(struct gt_machine *m)
{
	struct gt_tree *list;
	int rc = container(m, GT_TREE_LIST, &list);

	if (!rc)
		rc = gt_tree_reserve(list, m->count, m->arena, m->err);
	for (size_t i = 0; !rc && i < m->count; i++)
		rc = gt_machine_keep_item(m, list, NULL, m->args + i);
	return rc;
}

static int set_pairs(struct gt_machine *m, struct gt_tree *dict)
{
	int rc = m->count % 2 ? gt_machine_fail(m, "a key without a value")
	                      : gt_tree_reserve(dict, m->count / 2, m->arena, m->err);

	for (size_t i = 0; !rc && i < m->count; i += 2)
		rc = gt_machine_keep_item(m, dict, m->args + i, m->args + i + 1);
	return rc;
}

int gt_op_setitems(struct gt_machine *m)
{
	struct gt_tree *dict;
	int rc = container(m, GT_TREE_DICT, &dict);

	return rc ? rc : set_pairs(m, dict);
}

int gt_op_dict(struct gt_machine *m)
{
	struct gt_tree *dict = gt_tree_dict(m->arena, m->err);
	int rc = dict ? set_pairs(m, dict) : GT_ENOMEM;

	return rc ? rc : gt_machine_push(m, dict);
}

/* A set is an opaque node whose items are a list. */
static int push_set(struct gt_machine *m, const char *class_name)
{
	struct gt_tree *node = gt_tree_opaque(m->arena, class_name, m->err);

	if (!node || gt_machine_push_seq(m, GT_TREE_LIST, m->args, m->count))
		return GT_ENOMEM;
	node->opaque.items = gt_machine_top(m);
	node->opaque.args = gt_tree_tuple(m->arena, m->err);
	m->depth--;
	return node->opaque.args ? gt_machine_push(m, node) : GT_ENOMEM;
}

int gt_op_set(struct gt_machine *m)
{
	if (m->op == GT_PICKLE_FROZENSET)
		return push_set(m, "builtins.frozenset");
	m->count = 0;
	return push_set(m, "builtins.set");
}

/* ---- classes ---- */

/*
 * Python 2's names that Python 3 changed; pickles up to protocol 2 have them from both. Of modules
 * that we give their new name all names have to be new, or neither Python would know the pair when
 * it is written again; others Python 3 knows by their old names itself.
 * Source: CPython, Lib/_compat_pickle.py, NAME_MAPPING and IMPORT_MAPPING.
 */
static const struct {
	const char *module, *name, *new_module, *new_name; /* no name: all others */
} renamed[] = {
	{ "__builtin__", "xrange", "builtins", "range" },
	{ "__builtin__", "reduce", "functools", "reduce" },
	{ "__builtin__", "intern", "sys", "intern" },
	{ "__builtin__", "unichr", "builtins", "chr" },
	{ "__builtin__", "unicode", "builtins", "str" },
	{ "__builtin__", "basestring", "builtins", "str" },
	{ "__builtin__", "long", "builtins", "int" },
	{ "__builtin__", NULL, "builtins", NULL },
	{ "copy_reg", NULL, "copyreg", NULL },
};

void gt_pickle_rename_today(const char **module, const char **name)
{
	for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++) {
		if (strcmp(*module, renamed[i].module) ||
		    (renamed[i].name && strcmp(*name, renamed[i].name)))
			continue;
		*module = renamed[i].new_module;
		if (renamed[i].new_name)
			*name = renamed[i].new_name;
		return;
	}
}

/*
 * A few bytes that refer to the memo name a class once more, so a small file could fill memory with
 * names: the memory of all names is limited by the file's size.
 */
static int make_global(
    struct gt_machine *m, const char *module, const char *name, struct gt_tree **out)
{
	char full[2 * GT_PICKLE_NAME_BYTES];
	int n;

	if (!gt_pickle_is_name(module) || !gt_pickle_is_name(name))
		return gt_machine_fail(
		    m, "the name of a class is empty or holds a control character");
	gt_pickle_rename_today(&module, &name);
	n = snprintf(full, sizeof(full), "%s.%s", module, name);
	m->name_bytes += (size_t)n;
	if (m->name_bytes / 16 > m->size + GT_PICKLE_NAME_BYTES)
		return gt_machine_fail(
		    m, "the names of classes take more than the file could hold");
	*out = gt_tree_opaque(m->arena, full, m->err);
	return *out ? 0 : GT_ENOMEM;
}

/* Two lines. */
static int take_global(struct gt_machine *m, struct gt_tree **out)
{
	char module[GT_PICKLE_NAME_BYTES], name[GT_PICKLE_NAME_BYTES];
	int rc = gt_machine_take_name(m, module);

	if (!rc)
		rc = gt_machine_take_name(m, name);
	return rc ? rc : make_global(m, module, name, out);
}

int gt_op_global(struct gt_machine *m)
{
	struct gt_tree *class;
	int rc = take_global(m, &class);

	return rc ? rc : gt_machine_push(m, class);
}

static bool is_name(const struct gt_tree *node)
{
	return gt_tree_is_text(node) && node->string.length < GT_PICKLE_NAME_BYTES;
}

int gt_op_stack_global(struct gt_machine *m)
{
	struct gt_tree *class;
	int rc;

	if (!is_name(m->args[0]) || !is_name(m->args[1]))
		return gt_machine_fail(m, "a class whose name is no text");
	rc = make_global(m, m->args[0]->string.bytes, m->args[1]->string.bytes, &class);
	return rc ? rc : gt_machine_push(m, class);
}

/* ---- calls by which Python's own pickler writes values that have no opcode ---- */

/*
 * Protocol 2 has no sets and no bytes: they are calls. So are objects of classes that the pickler
 * makes by the helpers of module copyreg. Each gets the node it would have in a later protocol.
 * Source: CPython, Lib/pickle.py, Lib/copyreg.py.
 */

/* builtins.set([...]), builtins.frozenset([...]) */
static int make_set(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	struct gt_tree *items = gt_tree_value(args, 0);

	if (items && items->kind != GT_TREE_LIST)
		return 0;
	*out = gt_tree_opaque(m->arena, name, m->err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->opaque.args = gt_tree_tuple(m->arena, m->err);
	(*out)->opaque.items = items ? items : gt_tree_list(m->arena, m->err);
	return (*out)->opaque.args && (*out)->opaque.items ? 0 : GT_ENOMEM;
}

/*
 * The bytes that text up to U+00FF stands for; NULL, *wide set, when it has others. Example:
 * U+00E9 is c3 a9 in UTF-8. The first byte's low bits are the two highest of the code: 3 << 6 |
 * 0x29 is e9. Text has been checked to be UTF-8, so a first byte up to c3 has one byte behind it.
 */
static struct gt_tree *from_latin1(struct gt_machine *m, const struct gt_tree *text, bool *wide)
{
	const unsigned char *p = (const unsigned char *)text->string.bytes;
	size_t length = text->string.length, n = 0;
	unsigned char *out = gt_arena_alloc(m->arena, length + 1, m->err);
	struct gt_tree *node = out ? gt_tree_new(m->arena, GT_TREE_STRING, m->err) : NULL;

	for (size_t i = 0; node && i < length; i++) {
		if (p[i] < 0x80) {
			out[n++] = p[i];
		} else if (p[i] <= 0xc3 && i + 1 < length) {
			out[n++] = (unsigned char)(p[i] << 6 | (p[i + 1] & 0x3f));
			i++;
		} else {
			*wide = true;
			return NULL;
		}
	}
	if (node) {
		node->string.bytes = (char *)out;
		node->string.length = n;
	}
	return node;
}

static int make_boxed(
    struct gt_machine *m, const char *name, const struct gt_tree *text, struct gt_tree **out)
{
	bool wide = false;
	struct gt_tree *bytes =
	    text ? from_latin1(m, text, &wide) : gt_tree_bytes(m->arena, "", 0, m->err);

	if (!bytes)
		return wide ? 0 : GT_ENOMEM;
	*out = gt_machine_boxed(m, name, bytes);
	return *out ? 0 : GT_ENOMEM;
}

/* _codecs.encode(text, "latin1") */
static int make_bytes(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	(void)name;
	if (!gt_tree_is(gt_tree_value(args, 0), GT_TREE_STRING) ||
	    !(gt_tree_is_string(gt_tree_value(args, 1), "latin1") ||
	        gt_tree_is_string(gt_tree_value(args, 1), "latin-1")))
		return 0;
	return make_boxed(m, "builtins.bytes", gt_tree_value(args, 0), out);
}

/* builtins.bytes(), builtins.bytearray(), builtins.bytearray(text, "latin-1"), (bytes) */
static int make_empty_bytes(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	const struct gt_tree *from = gt_tree_value(args, 0);

	if (!from)
		return make_boxed(m, name, NULL, out);
	if (from->kind == GT_TREE_STRING && gt_tree_is_string(gt_tree_value(args, 1), "latin-1"))
		return make_boxed(m, name, from, out);
	if (!gt_tree_is_object_of(from, "builtins.bytes") ||
	    !gt_tree_is(gt_tree_value(from->opaque.args, 0), GT_TREE_STRING))
		return 0;
	*out = gt_machine_boxed(m, name, gt_tree_value(from->opaque.args, 0));
	return *out ? 0 : GT_ENOMEM;
}

/* copyreg._reconstructor(class, base, state): an object of a subclass of `base`, made of `state`;
 * None for builtins.object. Protocols 0 and 1 write all objects so. */
static int reconstruct(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	struct gt_tree *base = gt_tree_value(args, 1), *state = gt_tree_value(args, 2), *none;

	(void)name;
	if (!gt_tree_is_class(gt_tree_value(args, 0)) || !gt_tree_is_class(base) || !state)
		return 0;
	none = gt_tree_tuple(m->arena, m->err);
	*out = none ? gt_machine_object_of(m, gt_tree_value(args, 0), none) : NULL;
	if (!*out)
		return GT_ENOMEM;
	(*out)->opaque.made = GT_TREE_NEW;
	if (state->kind == GT_TREE_DICT || state->kind == GT_TREE_LIST)
		(*out)->opaque.items = state;
	else if (state->kind != GT_TREE_NONE)
		return gt_tree_push(none, NULL, state, m->arena, m->err);
	return 0;
}

/* copyreg.__newobj__(class, ...) and copyreg.__newobj_ex__(class, args, kwargs) */
static int new_object(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	struct gt_tree *rest = gt_tree_value(args, 1);
	int rc = 0;

	if (!gt_tree_is_class(gt_tree_value(args, 0)))
		return 0;
	if (!strcmp(name, "copyreg.__newobj_ex__")) {
		if (!gt_tree_is(rest, GT_TREE_TUPLE))
			return 0;
	} else {
		rest = gt_tree_tuple(m->arena, m->err);
		for (size_t i = 1; rest && !rc && i < args->seq.count; i++)
			rc = gt_tree_push(rest, NULL, gt_tree_value(args, i), m->arena, m->err);
	}
	if (!rest || rc)
		return GT_ENOMEM;
	if (m->hooks && m->hooks->call)
		rc = m->hooks->call(
		    m->hooks->self, gt_tree_value(args, 0)->opaque.class_name, rest, out, m->err);
	if (!rc && !*out) {
		*out = gt_machine_object_of(m, gt_tree_value(args, 0), rest);
		if (*out)
			(*out)->opaque.made = GT_TREE_NEW;
	}
	return rc ? rc : *out ? 0 : GT_ENOMEM;
}

static const struct {
	const char *name;
	int (*make)(
	    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out);
} makers[] = {
	{ "builtins.set", make_set },
	{ "builtins.frozenset", make_set },
	{ "builtins.bytes", make_empty_bytes },
	{ "builtins.bytearray", make_empty_bytes },
	{ "_codecs.encode", make_bytes },
	{ "copyreg._reconstructor", reconstruct },
	{ "copyreg.__newobj__", new_object },
	{ "copyreg.__newobj_ex__", new_object },
};

/* The value that one of Python's own callables makes; NULL for others. */
static int make_builtin(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		if (!strcmp(makers[i].name, name))
			return makers[i].make(m, name, args, out);
	return 0;
}

/* ---- calls ---- */

/*
 * A call whose callable is itself the result of a call (a method, a class made at run time):
 * "(call)" with both.
 */
static int push_call_of_object(struct gt_machine *m, struct gt_tree *object, struct gt_tree *args)
{
	struct gt_tree *node = gt_tree_opaque(m->arena, "(call)", m->err);
	struct gt_tree *both = node ? gt_tree_tuple(m->arena, m->err) : NULL;

	if (!both || gt_tree_push(both, NULL, object, m->arena, m->err) ||
	    gt_tree_push(both, NULL, args, m->arena, m->err))
		return GT_ENOMEM;
	node->opaque.args = both;
	return gt_machine_push(m, node);
}

/*
 * Build the result of calling `class_name` with `args`: the format's own object, a built-in value,
 * or an opaque object.
 */
static int call_class(struct gt_machine *m, struct gt_tree *class_name, struct gt_tree *args)
{
	struct gt_tree *made = NULL;
	int rc = 0;

	if (class_name->kind != GT_TREE_OPAQUE)
		return gt_machine_fail(m, "a call of a value that is not a class");
	if (args->kind != GT_TREE_TUPLE)
		return gt_machine_fail(m, "a call whose arguments are no tuple");
	if (class_name->opaque.args)
		return push_call_of_object(m, class_name, args);
	if (m->hooks && m->hooks->call)
		rc = m->hooks->call(
		    m->hooks->self, class_name->opaque.class_name, args, &made, m->err);
	if (!rc && !made)
		rc = make_builtin(m, class_name->opaque.class_name, args, &made);
	if (rc)
		return gt_err_prefix(m->err, "%s", class_name->opaque.class_name);
	if (made)
		return gt_machine_push(m, made);
	return gt_machine_push(m, gt_machine_object_of(m, class_name, args));
}

/* Say how an opaque object came to be, if it is one that these arguments have just made. */
static void note_new(struct gt_machine *m, const struct gt_tree *args, enum gt_tree_made made)
{
	struct gt_tree *node = gt_machine_top(m);

	if (node->kind == GT_TREE_OPAQUE && node->opaque.args == args)
		node->opaque.made = made;
}

int gt_op_call(struct gt_machine *m)
{
	struct gt_tree *args = m->args[1];
	int rc = call_class(m, m->args[0], args);

	if (!rc && m->op == GT_PICKLE_NEWOBJ)
		note_new(m, args, GT_TREE_NEW);
	return rc;
}

/* Keyword arguments stay visible as the last argument. */
int gt_op_newobj_ex(struct gt_machine *m)
{
	struct gt_tree *args = m->args[1], *keywords = m->args[2];
	int rc;

	if (args->kind != GT_TREE_TUPLE || keywords->kind != GT_TREE_DICT)
		return gt_machine_fail(m, "a call whose arguments are no tuple and dict");
	if (keywords->seq.count && gt_tree_push(args, NULL, keywords, m->arena, m->err))
		return GT_ENOMEM;
	rc = call_class(m, m->args[0], args);
	if (!rc)
		note_new(m, args, keywords->seq.count ? GT_TREE_NEW_KEYWORDS : GT_TREE_NEW);
	return rc;
}

/* Protocols 0 and 1: a class (in the line, or first above the mark), arguments above the mark. */
int gt_op_inst(struct gt_machine *m)
{
	bool in_line = m->op == GT_PICKLE_INST;
	struct gt_tree *class = NULL, *args;
	size_t n = m->count - !in_line;
	int rc = 0;

	if (in_line)
		rc = take_global(m, &class);
	else if (!m->count)
		rc = gt_machine_fail(m, "a call without a class");
	else
		class = m->args[0];
	if (!rc)
		rc = gt_machine_push_seq(m, GT_TREE_TUPLE, in_line ? m->args : m->args + 1, n);
	if (rc)
		return rc;
	/*
	 * The tuple was pushed so that its items get their origins; it is an argument, not a
	 * value.
	 */
	args = m->stack[--m->depth];
	rc = call_class(m, class, args);
	/*
	 * Without arguments Python calls class.__new__(class), as for NEWOBJ (CPython,
	 * Lib/pickle.py, _instantiate()).
	 */
	if (!rc && !n)
		note_new(m, args, GT_TREE_NEW);
	return rc;
}

/* ---- state ---- */

/* Before 0.4 a Parameter's state was (requires_grad, volatile, hooks); today it is attributes. */
static void set_tensor_state(struct gt_tree_tensor *t, struct gt_tree *state)
{
	const struct gt_tree_item *items = state->seq.items;

	if (state->kind == GT_TREE_TUPLE && state->seq.count == 3 &&
	    items[0].value->kind == GT_TREE_BOOL)
		t->requires_grad = items[0].value->boolean;
	else
		t->attributes = state;
}

/* The state of an object, kept: a dict's (`_metadata` of a state_dict), an opaque object's, a
 * tensor's. */
int gt_op_build(struct gt_machine *m)
{
	struct gt_tree *state = m->args[0], *node;
	int rc = gt_machine_need(m, 1);

	if (rc)
		return rc;
	node = gt_machine_top(m);
	if (node->kind == GT_TREE_OPAQUE && node->opaque.args)
		node->opaque.state = state;
	else if (node->kind == GT_TREE_DICT)
		node->seq.attributes = state;
	else if (node->kind == GT_TREE_TENSOR)
		set_tensor_state(&node->tensor, state);
	else
		return gt_machine_fail(m, "a state for a value that is not an object");
	return 0;
}

/* ---- objects outside the pickle ---- */

int gt_op_persistent(struct gt_machine *m)
{
	struct gt_tree *made = NULL;
	int rc = 0;

	if (m->hooks && m->hooks->persistent)
		rc = m->hooks->persistent(m->hooks->self, m->args[0], &made, m->err);
	if (!rc && !made)
		rc = gt_machine_fail(m, "a persistent id of a kind that torch does not write");
	return rc ? rc : gt_machine_push(m, made);
}

/* Opcodes that refer to data outside the file. */
int gt_op_unsupported(struct gt_machine *m)
{
	const char *what;

	switch (m->op) {
	case GT_PICKLE_PERSID:
		what = "a persistent id as text (PERSID): protocol 0 cannot hold tensors";
		break;
	case GT_PICKLE_EXT1:
	case GT_PICKLE_EXT2:
	case GT_PICKLE_EXT4:
		what = "a class by a number of the writer's own registry (EXT)";
		break;
	default:
		what = "a buffer that is kept outside the file (NEXT_BUFFER, READONLY_BUFFER)";
	}
	return gt_err_set(m->err, GT_ENOTSUP, "%s", what);
}
