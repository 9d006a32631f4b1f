/* pickle_write.c - trees as pickles of protocol 2. */
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/pickle.h"
#include "lib/ckpt/tree.h"

static void put_number(struct gt_pickle_writer *w, uint64_t value, size_t width)
{
	unsigned char bytes[8];

	gt_put_le(bytes, value, width);
	fwrite(bytes, 1, width, w->stream);
}

void gt_pickle_put_op(struct gt_pickle_writer *w, enum gt_pickle_op op)
{
	putc((int)op, w->stream);
}

void gt_pickle_put_int(struct gt_pickle_writer *w, int64_t value)
{
	if (value >= INT32_MIN && value <= INT32_MAX) {
		gt_pickle_put_op(w, OP_BININT);
		put_number(w, (uint64_t)value, 4);
	} else {
		gt_pickle_put_op(w, OP_LONG1);
		put_number(w, 8, 1);
		put_number(w, (uint64_t)value, 8);
	}
}

static void put_float(struct gt_pickle_writer *w, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	gt_pickle_put_op(w, OP_BINFLOAT);
	put_number(w, __builtin_bswap64(bits), 8); /* big-endian, alone among the opcodes */
}

void gt_pickle_put_text(struct gt_pickle_writer *w, const char *text, size_t length)
{
	gt_pickle_put_op(w, OP_BINUNICODE);
	put_number(w, length, 4);
	fwrite(text, 1, length, w->stream);
}

/* True when the memo has it: then it is fetched. Else it takes the next place, if there is one. */
static bool recall(struct gt_pickle_writer *w, const char *name, bool *store)
{
	for (int i = 0; i < w->memo_count; i++) {
		if (strcmp(w->memo[i], name))
			continue;
		gt_pickle_put_op(w, OP_BINGET);
		put_number(w, (uint64_t)i, 1);
		return true;
	}
	*store = w->memo_count < (int)(sizeof(w->memo) / sizeof(*w->memo));
	return false;
}

static void memorize(struct gt_pickle_writer *w, const char *name)
{
	gt_pickle_put_op(w, OP_BINPUT);
	put_number(w, (uint64_t)w->memo_count, 1);
	w->memo[w->memo_count++] = name;
}

void gt_pickle_put_global(struct gt_pickle_writer *w, const char *name)
{
	bool store;

	if (recall(w, name, &store))
		return;
	gt_pickle_put_op(w, OP_GLOBAL);
	fputs(name, w->stream);
	if (store)
		memorize(w, name);
}

void gt_pickle_put_word(struct gt_pickle_writer *w, const char *text)
{
	bool store;

	if (recall(w, text, &store))
		return;
	gt_pickle_put_text(w, text, strlen(text));
	if (store)
		memorize(w, text);
}

static int write_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

static int write_list(struct gt_pickle_writer *w, const struct gt_tree *list, struct gt_err *err)
{
	int rc = 0;

	gt_pickle_put_op(w, OP_EMPTY_LIST);
	if (!list->seq.count)
		return 0;
	gt_pickle_put_op(w, OP_MARK);
	for (size_t i = 0; !rc && i < list->seq.count; i++)
		rc = write_node(w, list->seq.items[i].value, err);
	gt_pickle_put_op(w, OP_APPENDS);
	return rc;
}

static int write_tuple(struct gt_pickle_writer *w, const struct gt_tree *tuple, struct gt_err *err)
{
	int rc = 0;

	if (!tuple->seq.count) {
		gt_pickle_put_op(w, OP_EMPTY_TUPLE);
		return 0;
	}
	gt_pickle_put_op(w, OP_MARK);
	for (size_t i = 0; !rc && i < tuple->seq.count; i++)
		rc = write_node(w, tuple->seq.items[i].value, err);
	gt_pickle_put_op(w, OP_TUPLE);
	return rc;
}

static int write_dict(struct gt_pickle_writer *w, const struct gt_tree *dict, struct gt_err *err)
{
	int rc = 0;

	gt_pickle_put_op(w, OP_EMPTY_DICT);
	if (!dict->seq.count)
		return 0;
	gt_pickle_put_op(w, OP_MARK);
	for (size_t i = 0; !rc && i < dict->seq.count; i++) {
		rc = write_node(w, dict->seq.items[i].key, err);
		if (!rc)
			rc = write_node(w, dict->seq.items[i].value, err);
	}
	gt_pickle_put_op(w, OP_SETITEMS);
	return rc;
}

static int write_string(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	if (node->string.length > UINT32_MAX)
		return gt_err_set(err, GT_ENOTSUP, "a string of %zu bytes: protocol 2 has 4 GiB",
		    node->string.length);
	gt_pickle_put_text(w, node->string.bytes, node->string.length);
	return 0;
}

static int write_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	switch (node->kind) {
	case GT_TREE_NONE:
		gt_pickle_put_op(w, OP_NONE);
		return 0;
	case GT_TREE_BOOL:
		gt_pickle_put_op(w, node->boolean ? OP_NEWTRUE : OP_NEWFALSE);
		return 0;
	case GT_TREE_INT:
		gt_pickle_put_int(w, node->integer);
		return 0;
	case GT_TREE_FLOAT:
		put_float(w, node->real);
		return 0;
	case GT_TREE_STRING:
		return write_string(w, node, err);
	case GT_TREE_LIST:
		return write_list(w, node, err);
	case GT_TREE_TUPLE:
		return write_tuple(w, node, err);
	case GT_TREE_DICT:
		return write_dict(w, node, err);
	case GT_TREE_TENSOR:
		return w->tensor(w, &node->tensor, err);
	case GT_TREE_OPAQUE:
		break;
	}
	return gt_err_set(
	    err, GT_ENOTSUP, "an object of class '%s' cannot be written", node->opaque.class_name);
}

int gt_pickle_write(struct gt_pickle_writer *w, const struct gt_tree *root, struct gt_err *err)
{
	int rc;

	gt_pickle_put_op(w, OP_PROTO);
	put_number(w, 2, 1);
	rc = write_node(w, root, err);
	gt_pickle_put_op(w, OP_STOP);
	return rc;
}
