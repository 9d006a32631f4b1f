/* classify.h - private: classify the nodes of a tree: model, state_dict, optimizer state, other. */
#ifndef GT_CKPT_TREE_CLASSIFY_H
#define GT_CKPT_TREE_CLASSIFY_H

#include "lib/ckpt/ckpt.h"

/*
 * A file does not say which of its dicts are state_dicts. A table of rules decides it (classify.c);
 * the first rule that applies gives the class of a node. All commands use this class.
 */
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
 * Counts of the values of a dict. A value is an entry if a state_dict may contain it, and if its
 * key is a string without zero bytes. A state_dict may contain:
 *   - tensors, also those that gtrain does not interpret;
 *   - None;
 *   - the `_extra_state` of a module, a value that the module saves besides its tensors;
 *   - any value with a dot in its key, if the dict has the attribute `_metadata`, which
 *     nn.Module.state_dict() adds.
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
	/*
	 * The key of one value that is not an entry; preferably of a value that is not a bool,
	 * number or string. NULL if all values are entries, or if the key is not a string.
	 */
	const char *other;
};

/*
 * Return the class of a node. `root` is true if the node is the root of the checkpoint. *content is
 * set to the counts of the node; `content` may be NULL.
 */
enum gt_class gt_classify(const struct gt_tree *node, bool root, struct gt_content *content);

/*
 * Return whether an item of a dict is an entry, as defined for struct gt_content. `by_modules` is
 * the field of struct gt_content for this dict.
 */
bool gt_class_is_entry(const struct gt_tree_item *item, bool by_modules);

/*
 * Return the node if it is a dict, or the items of an object whose class derives from dict. Return
 * NULL for other nodes.
 */
const struct gt_tree *gt_class_dict(const struct gt_tree *node);

/* ---- the state_dict in a checkpoint (state_dict.c) ---- */

/* Return the dict or the module in which gt_state_dict_find() finds the tensors, or NULL. */
const struct gt_tree *gt_state_dict_node(const struct gt_tree *root);

/* The prefixes that wrappers such as DistributedDataParallel put before names; ended by NULL. */
extern const char *const gt_state_dict_wrappers[];

/*
 * Remove the prefixes of wrappers from a name: "module." at the front and behind another wrapper;
 * those of torch.compile, of FSDP and of activation checkpointing anywhere, as such a wrapper can
 * be around any module: "model._orig_mod.module.a._checkpoint_wrapped_module.w" becomes
 * "model.a.w". Return `name` itself or a new text in the arena, which is never empty; NULL with err
 * set if memory runs out. Set met[i] to true if wrapper i was removed.
 */
const char *gt_state_dict_unwrap(
    const char *name, bool *met, struct gt_arena *arena, struct gt_err *err);

/*
 * Remove the prefixes at the front of a name until the rest begins with none of them, and return
 * the rest. `prefixes` ends with NULL. The rest points into `name` and is never empty: a prefix
 * that is the whole rest is kept. Set met[i] to true if prefix i was removed.
 */
const char *gt_state_dict_strip(const char *name, const char *const *prefixes, bool *met);

#endif
