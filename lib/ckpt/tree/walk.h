/* walk.h - inside ckpt: what a node holds, part by part: the one walk over trees. */
#ifndef GT_CKPT_TREE_WALK_H
#define GT_CKPT_TREE_WALK_H

#include "lib/ckpt/ckpt.h"

/* What a part is to the node that holds it. */
enum gt_walk_part {
	GT_PART_KEY,        /* of an item of a dict */
	GT_PART_VALUE,      /* of an item of a dict, list or tuple */
	GT_PART_ATTRIBUTES, /* of a dict or a tensor */
	GT_PART_ARGS,       /* of an opaque object: what it is made with, */
	GT_PART_ITEMS,      /* what it holds, */
	GT_PART_STATE       /* what it remembers */
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
 * and at once for leaves. Parts that are not there are passed over. Who wants all of a tree calls
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
 * which ends, because trees are checked before they are used (tree.h); but a node that is mentioned
 * twice is met twice.
 */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w);

#endif
