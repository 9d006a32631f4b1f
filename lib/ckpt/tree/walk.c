/* walk.c - the parts of a node, one by one. */
#include "lib/ckpt/tree/walk.h"

#include "lib/ckpt/tree/tree.h"

static bool take(struct gt_walk *w, enum gt_walk_part part, struct gt_tree **slot)
{
	w->part = part;
	w->slot = slot;
	w->node = *slot;
	return *slot != NULL;
}

/* Numbers from 0 on are keys and values in turn, those from `2 * count` on the other parts. */
static bool next_item(struct gt_tree *seq, struct gt_walk *w)
{
	while (w->next < 2 * seq->seq.count) {
		struct gt_tree_item *item = &seq->seq.items[w->next / 2];
		bool value = w->next % 2;

		w->index = w->next++ / 2;
		if (value ? take(w, GT_PART_VALUE, &item->value)
		          : take(w, GT_PART_KEY, (struct gt_tree **)&item->key))
			return true;
	}
	return w->next++ == 2 * seq->seq.count && take(w, GT_PART_ATTRIBUTES, &seq->seq.attributes);
}

static bool next_of_object(struct gt_tree *node, struct gt_walk *w)
{
	struct gt_tree **const slots[] = { &node->opaque.args, &node->opaque.items,
		&node->opaque.state };

	while (w->next < sizeof(slots) / sizeof(*slots)) {
		size_t i = w->next++;

		if (take(w, GT_PART_ARGS + i, slots[i]))
			return true;
	}
	return false;
}

bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w)
{
	struct gt_tree *parent = (struct gt_tree *)node; /* as much the caller's as its parts */

	if (gt_tree_is_seq(parent))
		return next_item(parent, w);
	if (parent->kind == GT_TREE_OPAQUE)
		return next_of_object(parent, w);
	return parent->kind == GT_TREE_TENSOR && !w->next++ &&
	       take(w, GT_PART_ATTRIBUTES, &parent->tensor.attributes);
}
