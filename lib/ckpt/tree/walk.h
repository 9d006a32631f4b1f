/* walk.h - inside ckpt: the parts of a node, one by one: the only walk over trees. */
#ifndef GT_CKPT_TREE_WALK_H
#define GT_CKPT_TREE_WALK_H

#include "lib/ckpt/ckpt.h"

/* The relation of a part to the node that holds it. */
enum gt_walk_part {
	GT_PART_KEY,        /* of an item of a dict */
	GT_PART_VALUE,      /* of an item of a dict, list or tuple */
	GT_PART_ATTRIBUTES, /* of a dict or a tensor */
	GT_PART_ARGS,       /* of an opaque object: its arguments, */
	GT_PART_ITEMS,      /* its items, */
	GT_PART_STATE       /* its state */
};

struct gt_walk {
	enum gt_walk_part part;
	struct gt_tree *node;  /* the part itself, */
	struct gt_tree **slot; /* and the place where its parent keeps it, to put another there */
	size_t index;          /* of the item, for keys and values */
	size_t next;           /* gt_walk_next()'s own; 0: from the first part on */
};

/*
 * The next part of a node, in the order above, keys and values in turn; false after the last one,
 * and at once for leaves. Missing parts are skipped. A function that visits a whole tree calls
 * itself for each part:
 *
 *	static void count(const struct gt_tree *node, size_t *nodes)
 *	{
 *		struct gt_walk w = { 0 };
 *
 *		++*nodes;
 *		while (gt_walk_next(node, &w))
 *			count(w.node, nodes);
 *	}
 *
 * This ends, because trees are checked before they are used (tree.h). A node that is mentioned
 * twice is visited twice.
 */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w);

#endif
