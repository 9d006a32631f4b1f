/* tally.c - how much there is in a tree. */
#include "lib/ckpt/tree/tally.h"

#include <search.h>

#include "lib/ckpt/tree/tree.h"

struct counter {
	struct gt_tally *out;
	void *storages; /* those that were met, for tsearch() */
};

static int compare_storages(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

static int count_tensor(struct counter *c, const struct gt_tree_tensor *t, struct gt_err *err)
{
	c->out->tensors++;
	if (tfind(t->storage, &c->storages, compare_storages))
		return 0;
	if (!tsearch(t->storage, &c->storages, compare_storages))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the storages of the tree");
	c->out->storage_bytes += t->storage->size_bytes;
	return 0;
}

/* The tree's depth and the visits it takes are limited (tree.h). */
static int count(struct counter *c, const struct gt_tree *node, struct gt_err *err)
{
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR)
		return count_tensor(c, &node->tensor, err);
	if (gt_tree_is_seq(node)) {
		for (size_t i = 0; !rc && i < node->seq.count; i++)
			rc = count(c, node->seq.items[i].value, err);
	} else if (node->kind == GT_TREE_OPAQUE) {
		const struct gt_tree *const parts[] = { node->opaque.args, node->opaque.items,
			node->opaque.state };

		for (size_t i = 0; !rc && i < sizeof(parts) / sizeof(*parts); i++)
			rc = parts[i] ? count(c, parts[i], err) : 0;
	}
	return rc;
}

static void keep(void *storage)
{
	(void)storage; /* the tree's */
}

int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err)
{
	struct counter c = { .out = out };
	int rc;

	*out = (struct gt_tally){ 0 };
	rc = count(&c, root, err);
	tdestroy(c.storages, keep);
	return rc;
}
