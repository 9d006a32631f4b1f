/* write.c - trees as pickles of protocol 2: scalars, containers, shared nodes. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/tree/walk.h"

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

static void fetch(struct gt_pickle_writer *w, uint32_t index)
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
		fetch(w, w->names[i].index);
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
	uint32_t index; /* in the memo, once stored */
};

static int compare_nodes(const void *a, const void *b)
{
	const struct gt_pickle_node *x = a, *y = b;

	return ((uintptr_t)x->node > (uintptr_t)y->node) -
	       ((uintptr_t)x->node < (uintptr_t)y->node);
}

static bool has_identity(const struct gt_tree *node)
{
	return gt_tree_is_seq(node) || node->kind == GT_TREE_TENSOR || node->kind == GT_TREE_OPAQUE;
}

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

int gt_pickle_put_items(struct gt_pickle_writer *w, const struct gt_tree *seq, struct gt_err *err)
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
		rc = gt_pickle_put_items(w, dict, err);
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
		return gt_pickle_put_items(w, node, err);
	case GT_TREE_TUPLE:
		return node->seq.is_size ? put_size(w, node, err) : put_tuple(w, node, err);
	case GT_TREE_DICT:
		return put_dict(w, node, err);
	case GT_TREE_TENSOR:
		return w->tensor(w, &node->tensor, err);
	default:
		return gt_pickle_put_opaque(w, node, err);
	}
}

int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_pickle_node like = { .node = node }, *found = NULL;
	int rc;

	if (has_identity(node))
		found = gt_index_find(&w->nodes, &like);
	if (found && found->stored) {
		fetch(w, found->index);
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
