/* python.c - calls by which Python's own pickler writes values that have no opcode. */
#include "lib/ckpt/pickle/machine.h"
#include "lib/ckpt/tree/tree.h"

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

/* The bytes that text up to U+00FF stands for; NULL, *wide set, when it has others. */
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

int gt_pickle_builtin(
    struct gt_machine *m, const char *name, struct gt_tree *args, struct gt_tree **out)
{
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		if (!strcmp(makers[i].name, name))
			return makers[i].make(m, name, args, out);
	return 0;
}
