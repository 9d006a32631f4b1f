/* tally.h - how much there is in a tree. */
#ifndef GT_CKPT_TREE_TALLY_H
#define GT_CKPT_TREE_TALLY_H

#include "lib/ckpt/ckpt.h"

struct gt_tally {
	uint64_t tensors;       /* each as often as it is mentioned */
	uint64_t storage_bytes; /* every storage once */
};

/*
 * Count the tensors of a tree, however many. As in an inventory, tensors in objects' arguments,
 * items and state count; those in attributes of dicts and tensors do not. GT_ENOMEM.
 */
int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err);

#endif
