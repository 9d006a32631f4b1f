/* objects.c - the opcodes of classes and objects: kept by name, never imported or called. */
#include <stdio.h>

#include "lib/ckpt/pickle/machine.h"

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

static void rename_today(const char **module, const char **name)
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

/* Add a global to the list, if the caller asked for one. */
static int note_global(struct gt_machine *m, const char *name, bool called)
{
	struct gt_pickle_globals *g = m->hooks ? m->hooks->globals : NULL;

	if (!g)
		return 0;
	if (gt_grow(&g->items, g->count, &g->room, sizeof(*g->items), m->err))
		return GT_ENOMEM;
	g->items[g->count++] = (struct gt_pickle_global){ name, m->op_at, called };
	return 0;
}

/*
 * A few bytes that refer to the memo name a class once more, so a small file could fill memory with
 * names: the memory of all names is limited by the file's size.
 */
static int push_global(struct gt_machine *m, const char *module, const char *name)
{
	char full[2 * GT_PICKLE_NAME_BYTES];
	struct gt_tree *node;
	int n;

	if (!gt_pickle_is_name(module) || !gt_pickle_is_name(name))
		return gt_machine_fail(
		    m, "the name of a class is empty or holds a control character");
	rename_today(&module, &name);
	n = snprintf(full, sizeof(full), "%s.%s", module, name);
	m->name_bytes += (size_t)n;
	if (m->name_bytes / 16 > m->size + GT_PICKLE_NAME_BYTES)
		return gt_machine_fail(
		    m, "the names of classes take more than the file could hold");
	node = gt_tree_opaque(m->arena, full, m->err);
	if (!node || note_global(m, node->opaque.class_name, false))
		return GT_ENOMEM;
	return gt_machine_push(m, node);
}

int gt_op_global(struct gt_machine *m, unsigned char op)
{
	char module[GT_PICKLE_NAME_BYTES], name[GT_PICKLE_NAME_BYTES];
	int rc = gt_machine_take_name(m, module);

	(void)op;
	if (!rc)
		rc = gt_machine_take_name(m, name);
	return rc ? rc : push_global(m, module, name);
}

static bool is_name(const struct gt_tree *node)
{
	return node->kind == GT_TREE_STRING && node->string.length < GT_PICKLE_NAME_BYTES &&
	       strlen(node->string.bytes) == node->string.length;
}

int gt_op_stack_global(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *module, *name;
	int rc = gt_machine_need(m, 2);

	(void)op;
	if (rc)
		return rc;
	name = m->stack[--m->depth];
	module = m->stack[--m->depth];
	if (!is_name(module) || !is_name(name))
		return gt_machine_fail(m, "a class whose name is no text");
	return push_global(m, module->string.bytes, name->string.bytes);
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
static int call(struct gt_machine *m, struct gt_tree *class_name, struct gt_tree *args)
{
	struct gt_tree *made = NULL;
	int rc = 0;

	if (class_name->kind != GT_TREE_OPAQUE)
		return gt_machine_fail(m, "a call of a value that is not a class");
	if (!class_name->opaque.args && note_global(m, class_name->opaque.class_name, true))
		return GT_ENOMEM;
	if (args->kind != GT_TREE_TUPLE)
		return gt_machine_fail(m, "a call whose arguments are no tuple");
	if (class_name->opaque.args)
		return push_call_of_object(m, class_name, args);
	if (m->hooks && m->hooks->call)
		rc = m->hooks->call(
		    m->hooks->self, class_name->opaque.class_name, args, &made, m->err);
	if (!rc && !made)
		rc = gt_pickle_builtin(m, class_name->opaque.class_name, args, &made);
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

int gt_op_call(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *args;
	int rc = gt_machine_need(m, 2);

	if (rc)
		return rc;
	m->depth -= 2;
	args = m->stack[m->depth + 1];
	rc = call(m, m->stack[m->depth], args);
	if (!rc && op == GT_PICKLE_NEWOBJ)
		note_new(m, args, GT_TREE_NEW);
	return rc;
}

/* Keyword arguments stay visible as the last argument. */
int gt_op_newobj_ex(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *args, *keywords;
	int rc = gt_machine_need(m, 3);

	(void)op;
	if (rc)
		return rc;
	m->depth -= 3;
	args = m->stack[m->depth + 1];
	keywords = m->stack[m->depth + 2];
	if (args->kind != GT_TREE_TUPLE || keywords->kind != GT_TREE_DICT)
		return gt_machine_fail(m, "a call whose arguments are no tuple and dict");
	if (keywords->seq.count && gt_tree_push(args, NULL, keywords, m->arena, m->err))
		return GT_ENOMEM;
	rc = call(m, m->stack[m->depth], args);
	if (!rc)
		note_new(m, args, keywords->seq.count ? GT_TREE_NEW_KEYWORDS : GT_TREE_NEW);
	return rc;
}

/* Protocols 0 and 1: a class (in the line, or first above the mark), arguments above the mark. */
int gt_op_inst(struct gt_machine *m, unsigned char op)
{
	struct gt_tree **values, *class_name, *args;
	size_t n;
	int rc = op == GT_PICKLE_INST ? gt_op_global(m, op) : 0;

	if (rc)
		return rc;
	class_name = op == GT_PICKLE_INST ? m->stack[--m->depth] : NULL;
	rc = gt_machine_pop_mark(m, &values, &n);
	if (rc)
		return rc;
	if (!class_name) {
		if (!n)
			return gt_machine_fail(m, "a call without a class");
		class_name = *values++;
		n--;
	}
	rc = gt_machine_push_seq(m, GT_TREE_TUPLE, values, n);
	if (rc)
		return rc;
	args = m->stack[--m->depth];
	rc = call(m, class_name, args);
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
int gt_op_build(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *state, *node;
	int rc = gt_machine_need(m, 2);

	(void)op;
	if (rc)
		return rc;
	state = m->stack[--m->depth];
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

int gt_op_persistent(struct gt_machine *m, unsigned char op)
{
	struct gt_tree *made = NULL;
	int rc = gt_machine_need(m, 1);

	(void)op;
	if (rc)
		return rc;
	if (m->hooks && m->hooks->persistent)
		rc = m->hooks->persistent(m->hooks->self, m->stack[--m->depth], &made, m->err);
	if (!rc && !made)
		rc = gt_machine_fail(m, "a persistent id of a kind that torch does not write");
	return rc ? rc : gt_machine_push(m, made);
}

/* Opcodes that refer to data outside the file. */
int gt_op_unsupported(struct gt_machine *m, unsigned char op)
{
	const char *what;

	switch (op) {
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
