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
	/* only tensors, and nothing shows that their keys are names of parameters */
	GT_CLASS_TENSORS,
	GT_CLASS_MIXED /* some tensors among other values */
};

/*
 * The counts of a dict's values. Entries are the values that a state_dict may have: tensors
 * (including tensors that gtrain does not interpret), None, and `_extra_state` of modules.
 */
struct gt_content {
	/* the node, or the entries of an object whose class derives from dict; or NULL */
	const struct gt_tree *dict;
	/* number of tensors; number of those with a dot in their names */
	size_t tensors, dotted;
	/* values that are not entries; numbers and strings among them */
	size_t others, simple;
	bool weight; /* a tensor is named "weight" */
	/* the key of one of the other values, which is simple only if all of them are; or NULL */
	const char *other;
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

/* Return a name without the prefixes at its front; they may be there in any order and number. The
 * result is never empty. Sets met[i] if prefix i was removed. */
const char *gt_state_dict_strip(const char *name, const char *const *prefixes, bool *met);

#endif
