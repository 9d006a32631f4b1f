/* flatten.c - nested dicts and lists as flat names, in PyTorch's way. */
#include "lib/ckpt/dcp/flatten.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/join.h"
#include "lib/ckpt/tree/tree.h"

/*
 * Every dict is taken apart. A list is taken apart if a tensor or a dict is in it, at any depth of
 * lists; other lists, and all tuples, are one value. Keys become strings, so that an optimizer's
 * state {0: ...} is state.0. Source: torch/distributed/checkpoint/_traverse.py and _nested_dict.py,
 * since PyTorch 2.4.
 */

enum { NAMES_MAX = 64 << 20 }; /* bytes of all names, which repeat those of their containers */

struct walk {
	struct gt_dcp_values *out;
	uint64_t name_bytes;
	const struct gt_tree *path[GT_TREE_MAX_DEPTH]; /* keys; of lists, integers */
	size_t depth;
	struct gt_buf name;
	bool in_optimizer, at_step;
};

/* Whether a value is stored as it is. Recursion ends at the depth of the tree. */
static bool is_leaf(const struct gt_tree *node)
{
	if (node->kind != GT_TREE_LIST)
		return node->kind != GT_TREE_DICT;
	for (size_t i = 0; i < node->seq.count; i++) {
		const struct gt_tree *item = gt_tree_value(node, i);

		if (item->kind == GT_TREE_TENSOR || !is_leaf(item))
			return false;
	}
	return true;
}

/* ---- values ---- */

/* A tensor as torch.Tensor.detach() has it, in row-major order. */
static struct gt_tree *plain_tensor(
    const char *name, const struct gt_tree_tensor *t, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_tree *node;

	if (!gt_ckpt_tensor_is_contiguous(t))
		return gt_join_one(&node, name, t, t->dtype, arena, err) ? NULL : node;
	node = gt_tree_tensor(arena, t->dtype, t->ndim, t->shape, NULL, err);
	if (!node)
		return NULL;
	node->tensor.raw = t->raw;
	node->tensor.offset = t->offset;
	node->tensor.storage = t->storage;
	return node;
}

static struct gt_tree *copy_path(const struct walk *w, struct gt_err *err)
{
	struct gt_arena *arena = &w->out->arena;
	struct gt_tree *path = gt_tree_tuple(arena, err);

	for (size_t i = 0; path && i < w->depth; i++)
		if (gt_tree_push(path, NULL, (struct gt_tree *)w->path[i], arena, err))
			return NULL;
	return path;
}

static int add_entry(struct walk *w, const struct gt_tree *value, struct gt_err *err)
{
	struct gt_dcp_values *out = w->out;
	struct gt_dcp_value e = { .value = (struct gt_tree *)value };
	bool is_tensor = value->kind == GT_TREE_TENSOR;
	int rc = gt_grow(&out->items, out->count, &out->capacity, sizeof(e), err);

	if (!rc)
		rc = gt_buf_check(&w->name, err);
	w->name_bytes += w->name.length;
	if (!rc && w->name_bytes > NAMES_MAX)
		rc = gt_err_set(err, GT_ENOTSUP, "names of more than %d bytes in all", NAMES_MAX);
	if (rc)
		return rc;
	e.name = gt_arena_strdup(&out->arena, gt_buf_text(&w->name), err);
	e.path = copy_path(w, err);
	if (is_tensor && !value->tensor.storage_class && e.name)
		e.value = plain_tensor(e.name, &value->tensor, &out->arena, err);
	if (!e.name || !e.path || !e.value)
		return GT_ENOMEM;
	e.is_number = w->in_optimizer && (w->at_step || (is_tensor && !value->tensor.ndim));
	out->items[out->count++] = e;
	return 0;
}

/* ---- the walk ---- */

static int flatten_node(struct walk *w, const struct gt_tree *node, struct gt_err *err);

/* The key of a dict as Python's str() prints it, or the index of a list. */
static struct gt_tree *step_of(
    struct walk *w, const struct gt_tree *node, size_t i, struct gt_err *err)
{
	const struct gt_tree *key = node->seq.items[i].key;
	struct gt_arena *arena = &w->out->arena;
	char text[24];

	if (node->kind == GT_TREE_LIST)
		return gt_tree_int(arena, (int64_t)i, err);
	if (gt_tree_is_text(key))
		return (struct gt_tree *)key;
	if (key->kind == GT_TREE_INT) {
		snprintf(text, sizeof(text), "%" PRId64, key->integer);
		return gt_tree_string(arena, text, err);
	}
	gt_err_set(err, GT_ENOTSUP,
	    "'%.200s' has a key that is no text and no integer: a distributed checkpoint cannot "
	    "hold it",
	    gt_buf_text(&w->name));
	return NULL;
}

static int flatten_items(struct walk *w, const struct gt_tree *node, struct gt_err *err)
{
	size_t before = w->name.length;
	bool at_step = w->at_step;
	int rc = 0;

	for (size_t i = 0; i < node->seq.count && !rc; i++) {
		const struct gt_tree *step = step_of(w, node, i, err);

		if (!step)
			return err->code;
		w->path[w->depth++] = step;
		if (step->kind == GT_TREE_INT)
			gt_buf_printf(&w->name, "%s%" PRId64, before ? "." : "", step->integer);
		else
			gt_buf_printf(&w->name, "%s%s", before ? "." : "", step->string.bytes);
		w->at_step = at_step || gt_tree_is_string(step, "step");
		rc = flatten_node(w, gt_tree_value(node, i), err);
		gt_buf_cut(&w->name, before);
		w->depth--;
	}
	w->at_step = at_step;
	return rc;
}

static int flatten_node(struct walk *w, const struct gt_tree *node, struct gt_err *err)
{
	bool in_optimizer = w->in_optimizer;
	int rc;

	if (is_leaf(node))
		return add_entry(w, node, err);
	if (node->kind == GT_TREE_DICT && gt_classify(node, false, NULL) == GT_CLASS_OPTIMIZER)
		w->in_optimizer = true;
	rc = flatten_items(w, node, err);
	w->in_optimizer = in_optimizer;
	return rc;
}

static int check_names(const struct gt_dcp_values *flat, struct gt_err *err)
{
	struct gt_index names = { .compare = gt_index_by_name };
	int rc = 0;

	for (size_t i = 0; i < flat->count && !rc; i++) {
		const void *found = gt_index_add(&names, &flat->items[i], err);

		if (!found)
			rc = GT_ENOMEM;
		else if (found != &flat->items[i])
			rc = gt_err_set(err, GT_ENOTSUP,
			    "two values have the path '%.200s' when its keys are joined by dots",
			    flat->items[i].name);
	}
	gt_index_release(&names);
	return rc;
}

int gt_dcp_flatten(struct gt_dcp_values *out, const struct gt_tree *root, struct gt_err *err)
{
	struct walk w = { .out = out };
	int rc;

	*out = (struct gt_dcp_values){ 0 };
	if (root->kind != GT_TREE_DICT) {
		gt_err_set(err, GT_ENOTSUP,
		    "a distributed checkpoint is a dict, and this checkpoint is none");
		return gt_err_hint(err, "`gtrain ckpt select` writes a part that is one");
	}
	rc = gt_tree_check((struct gt_tree *)root, NULL, err);
	if (!rc)
		rc = flatten_node(&w, root, err);
	gt_buf_release(&w.name);
	return rc ? rc : check_names(out, err);
}

void gt_dcp_values_release(struct gt_dcp_values *flat)
{
	free(flat->items);
	gt_arena_release(&flat->arena);
}
