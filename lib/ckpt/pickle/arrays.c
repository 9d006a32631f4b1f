/* arrays.c - a state_dict whose values are numpy's arrays, as one of tensors. */
#include <stdlib.h>

#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/tree.h"

enum { MAX_NESTING = 8 };

/* An array that a tensor has replaced. The old node is kept, to put it back. */
struct replaced {
	struct gt_tree_item *item;
	struct gt_tree *array;
};

struct list {
	struct replaced *items;
	size_t count, capacity;
};

static int replace_arrays(
    struct list *l, struct gt_tree *dict, int depth, struct gt_arena *arena, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < dict->seq.count && !rc; i++) {
		struct gt_tree_item *item = &dict->seq.items[i];
		struct gt_tree *tensor = NULL;

		if (item->value->kind == GT_TREE_DICT && depth < MAX_NESTING)
			rc = replace_arrays(l, item->value, depth + 1, arena, err);
		else
			rc = gt_pickle_numpy(&tensor, item->value, arena, err);
		if (rc || !tensor)
			continue;
		rc = gt_grow(&l->items, l->count, &l->capacity, sizeof(*l->items), err);
		if (rc)
			continue;
		l->items[l->count++] = (struct replaced){ item, item->value };
		tensor->tensor.storage->location = "cpu";
		item->value = tensor;
	}
	return rc;
}

/* Weights have a matrix among them; the states of random numbers are arrays of one dimension. */
static bool is_model(const struct gt_tree *dict, const struct gt_tree *root)
{
	bool matrix = false;

	for (size_t i = 0; gt_tree_is(dict, GT_TREE_DICT) && i < dict->seq.count; i++) {
		const struct gt_tree *value = dict->seq.items[i].value;

		matrix |= value->kind == GT_TREE_TENSOR && value->tensor.ndim > 1;
	}
	return gt_tree_is(dict, GT_TREE_DICT) && (matrix || dict == root);
}

int gt_pickle_state_dict(struct gt_tree *root, struct gt_arena *arena, struct gt_err *err)
{
	struct list l = { 0 };
	int rc;

	if (root->kind != GT_TREE_DICT || gt_state_dict_node(root))
		return 0;
	rc = replace_arrays(&l, root, 0, arena, err);
	if (!rc && !is_model(gt_state_dict_node(root), root))
		while (l.count--)
			l.items[l.count].item->value = l.items[l.count].array;
	free(l.items);
	return rc;
}
