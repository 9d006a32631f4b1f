/* classify.h - inside ckpt: the class of a part of a checkpoint: model, state_dict, optimizer. */
#ifndef GT_CKPT_TREE_CLASSIFY_H
#define GT_CKPT_TREE_CLASSIFY_H

#include "lib/ckpt/ckpt.h"

/*
 * Nothing in a file says "this dict is a state_dict". A table of rules decides; the first rule that
 * applies counts (classify.c). All commands use this class.
 */
enum gt_class {
	GT_CLASS_OTHER,
	GT_CLASS_MODEL,      /* a pickled nn.Module, or one of TorchScript */
	GT_CLASS_OPTIMIZER,  /* the result of torch.optim's state_dict() */
	GT_CLASS_STATE_DICT, /* names of tensors, and maybe other values */
	GT_CLASS_TENSORS,    /* tensors alone, whose names might mean anything */
	GT_CLASS_MIXED       /* some tensors among other values */
};

/*
 * The counts of a dict's values. Entries are the values that a state_dict has: tensors (those that
 * we do not interpret, too), None, and `_extra_state` of modules.
 */
struct gt_content {
	const struct gt_tree *dict; /* the node, or the entries of an object of a subclass; NULL */
	size_t tensors, dotted;     /* of these, with a dot in their names */
	size_t others, simple;      /* no entries; of these, numbers and strings */
	bool weight;                /* a tensor has this name */
	const char *other; /* the key of one of the others, a simple one if all are; or NULL */
};

/* `root`: it is the whole checkpoint. `content` may be NULL. */
enum gt_class gt_classify(const struct gt_tree *node, bool root, struct gt_content *content);

/* Whether a state_dict has such an item as one of its entries. */
bool gt_class_is_entry(const struct gt_tree_item *item);

/* A dict, or the entries of an object whose class derives from dict; else NULL. */
const struct gt_tree *gt_class_dict(const struct gt_tree *node);

/* ---- the state_dict inside (state_dict.c) ---- */

/* The dict or the module that gt_state_dict_find() takes, or NULL. */
const struct gt_tree *gt_state_dict_node(const struct gt_tree *root);

/* The prefixes that wrappers such as DistributedDataParallel put before names, ended by NULL. */
extern const char *const gt_state_dict_wrappers[];

/* A name without the prefixes at its front, in any order and number; it never becomes empty. Sets
 * met[i] where the i-th came off. */
const char *gt_state_dict_strip(const char *name, const char *const *prefixes, bool *met);

#endif
