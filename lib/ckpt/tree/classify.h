/* classify.h - private: classify the nodes of a tree: model, state_dict, optimizer state, other. */
#ifndef GT_CKPT_TREE_CLASSIFY_H
#define GT_CKPT_TREE_CLASSIFY_H

#include "lib/ckpt/ckpt.h"

/* The class of a node is decided by a table of rules (classify.c). */
enum gt_class {
	GT_CLASS_OTHER,      /* none of the classes below */
	GT_CLASS_MODEL,      /* a pickled nn.Module, or a TorchScript module */
	GT_CLASS_OPTIMIZER,  /* the result of state_dict() of an optimizer of torch.optim */
	GT_CLASS_STATE_DICT, /* a dict from names to tensors, possibly with other values */
	/* a dict that contains only tensors; it is not certain that the keys name parameters */
	GT_CLASS_TENSORS,
	GT_CLASS_MIXED /* a dict with some tensors and other values */
};

/*
 * Counts of the values of a dict. An entry is a value that a state_dict may contain
 * (tree/classify.c), under a text as key.
 */
struct gt_content {
	/* the node itself, or the items of an object whose class derives from dict; NULL: the node
	 * is neither */
	const struct gt_tree *dict;
	bool by_modules; /* the dict has `_metadata`, so nn.Module.state_dict() has made it */
	/* tensors: number of tensors that gtrain interprets; dotted: number of these tensors whose
	 * names contain a dot */
	size_t tensors, dotted;
	/* others: number of values that are not entries; simple: number of these values that are
	 * bools, numbers or strings */
	size_t others, simple;
	bool weight; /* one of the tensors is named "weight" */
	/* key of a value that is not an entry, rather of one that is not simple; may be NULL */
	const char *other;
};

/*
 * Return the class of a node, and its counts if `content` is not NULL. `root`: it is the root of
 * the checkpoint.
 */
enum gt_class gt_classify(const struct gt_tree *node, bool root, struct gt_content *content);

/* Return whether an item is an entry (struct gt_content). */
bool gt_class_is_entry(const struct gt_tree_item *item, bool by_modules);

/* Return the node if it is a dict, the items of an object derived from dict, or NULL. */
const struct gt_tree *gt_class_dict(const struct gt_tree *node);

/* ---- the state_dict in a checkpoint (state_dict.c) ---- */

/* Return the dict or the module in which gt_state_dict_find() finds the tensors, or NULL. */
const struct gt_tree *gt_state_dict_node(const struct gt_tree *root);

/* The prefixes that wrappers such as DistributedDataParallel put before names; ended by NULL. */
extern const char *const gt_state_dict_wrappers[];

/*
 * Remove the prefixes of wrappers. Return `name` or a text in the arena; NULL with err set. Set
 * met[i] if wrapper i was removed.
 */
const char *gt_state_dict_unwrap(
    const char *name, bool *met, struct gt_arena *arena, struct gt_err *err);

/*
 * Remove prefixes at the front. The rest points into `name` and is never empty. Set met[i] if
 * prefix i was removed.
 */
const char *gt_state_dict_strip(const char *name, const char *const *prefixes, bool *met);

#endif
