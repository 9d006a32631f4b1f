/* tally.h - how much there is in a tree. */
#ifndef GT_CKPT_TREE_TALLY_H
#define GT_CKPT_TREE_TALLY_H

#include "lib/ckpt/ckpt.h"

struct gt_tally {
	uint64_t tensors;       /* each as often as it is mentioned */
	uint64_t storage_bytes; /* every storage once */
};

/* Count the tensors of a tree, however many; what objects are made with, hold and remember counts,
 * attributes of dicts and of tensors do not, as in an inventory. GT_ENOMEM. */
int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err);

#endif
