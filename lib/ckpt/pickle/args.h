/* args.h - inside ckpt: reading the arguments that a pickle passes to a call. */
#ifndef GT_CKPT_PICKLE_ARGS_H
#define GT_CKPT_PICKLE_ARGS_H

#include <string.h>

#include "lib/ckpt/tree/tree.h"

/* The i-th value of a tuple or list, or NULL, which every check below refuses. */
static inline struct gt_tree *arg(const struct gt_tree *args, size_t i)
{
	return i < args->seq.count ? args->seq.items[i].value : NULL;
}

static inline bool is_kind(const struct gt_tree *node, enum gt_tree_kind kind)
{
	return node && node->kind == kind;
}

/* A class or function, mentioned by its name. */
static inline bool is_class(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_OPAQUE) && !node->opaque.args;
}

static inline bool is_class_named(const struct gt_tree *node, const char *name)
{
	return is_class(node) && !strcmp(node->opaque.class_name, name);
}

/* An object of this class, with its arguments. */
static inline bool is_object_of(const struct gt_tree *node, const char *class_name)
{
	return is_kind(node, GT_TREE_OPAQUE) && node->opaque.args &&
	       !strcmp(node->opaque.class_name, class_name);
}

static inline bool is_count(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_INT) && node->integer >= 0;
}

/* A string that C can hold. */
static inline bool is_text(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_STRING) && strlen(node->string.bytes) == node->string.length;
}

#endif
