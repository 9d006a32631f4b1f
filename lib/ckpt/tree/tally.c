/* tally.c - how much there is in a tree. */
#include "lib/ckpt/tree/tally.h"

#include "lib/base/index.h"
#include "lib/ckpt/tree/walk.h"

struct counter {
	struct gt_tally *out;
	struct gt_index storages; /* those that were met */
};

static int count_tensor(struct counter *c, const struct gt_storage *storage, struct gt_err *err)
{
	c->out->tensors++;
	if (gt_index_find(&c->storages, storage))
		return 0;
	c->out->storage_bytes += storage->size_bytes;
	return gt_index_add(&c->storages, storage, err) ? 0 : GT_ENOMEM;
}

static int count(struct counter *c, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_walk w = { 0 };
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR)
		return count_tensor(c, node->tensor.storage, err);
	while (!rc && gt_walk_next(node, &w))
		if (w.part != GT_PART_KEY && w.part != GT_PART_ATTRIBUTES)
			rc = count(c, w.node, err);
	return rc;
}

int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err)
{
	struct counter c = { .out = out };
	int rc;

	*out = (struct gt_tally){ 0 };
	rc = count(&c, root, err);
	gt_index_release(&c.storages);
	return rc;
}
