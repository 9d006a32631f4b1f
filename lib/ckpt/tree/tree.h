/* tree.h - inside ckpt: making nodes of any kind, and the check every tree passes before use. */
#ifndef GT_CKPT_TREE_TREE_H
#define GT_CKPT_TREE_TREE_H

#include <string.h>

#include "lib/ckpt/ckpt.h"

/* The limits of a tree, so that every walker can recurse and end. */
enum {
	GT_TREE_MAX_DEPTH = 128, /* nested containers: 40 levels of nn.Module are about 120 */
	/* Nodes met by a walk that visits shared ones each time; gt_tree.visits holds as many. */
	GT_TREE_MAX_VISITS = (1 << 24) - 1,
	/*
	 * Visits of items of shared containers after the first visit. They cost a walker time, but
	 * no bytes in the file.
	 */
	GT_TREE_MAX_REPEATS = 1 << 18
};

/* A node of `kind`, everything else zero; NULL with err set if memory runs out. */
struct gt_tree *gt_tree_new(struct gt_arena *a, enum gt_tree_kind kind, struct gt_err *err);

/* A string node of `length` bytes copied, which may hold zeros. */
struct gt_tree *gt_tree_bytes(
    struct gt_arena *a, const void *bytes, size_t length, struct gt_err *err);

/* An opaque node "class_name" (copied) without arguments or state. */
struct gt_tree *gt_tree_opaque(struct gt_arena *a, const char *class_name, struct gt_err *err);

/* Append to a dict (key not NULL), list or tuple. */
int gt_tree_push(struct gt_tree *seq, const struct gt_tree *key, struct gt_tree *value,
    struct gt_arena *a, struct gt_err *err);

/* Make room for n more items. */
int gt_tree_reserve(struct gt_tree *seq, size_t n, struct gt_arena *a, struct gt_err *err);

/* ---- kinds of nodes; NULL is of no kind ---- */

static inline bool gt_tree_is(const struct gt_tree *node, enum gt_tree_kind kind)
{
	return node && node->kind == kind;
}

/* Whether `node` is a dict, list or tuple: its `seq` may be read. */
bool gt_tree_is_seq(const struct gt_tree *node);

/* Whether `node` is a string of exactly these bytes. */
bool gt_tree_is_string(const struct gt_tree *node, const char *text);

/* A string without zero bytes, which C can hold. */
static inline bool gt_tree_is_text(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_STRING) &&
	       strlen(node->string.bytes) == node->string.length;
}

/* An integer of 0 or more. */
static inline bool gt_tree_is_count(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_INT) && node->integer >= 0;
}

/* A class or function, mentioned by its name. */
static inline bool gt_tree_is_class(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_OPAQUE) && !node->opaque.args;
}

static inline bool gt_tree_is_class_named(const struct gt_tree *node, const char *name)
{
	return gt_tree_is_class(node) && !strcmp(node->opaque.class_name, name);
}

/* An object of this class, with its arguments. */
static inline bool gt_tree_is_object_of(const struct gt_tree *node, const char *class_name)
{
	return gt_tree_is(node, GT_TREE_OPAQUE) && node->opaque.args &&
	       !strcmp(node->opaque.class_name, class_name);
}

/* The i-th value of a dict, list or tuple, such as a call's arguments; NULL past the last one. */
static inline struct gt_tree *gt_tree_value(const struct gt_tree *seq, size_t i)
{
	return i < seq->seq.count ? seq->seq.items[i].value : NULL;
}

/* ---- the parts of a node, one by one: the only walk over trees ---- */

/* The relation of a part to the node that holds it. */
enum gt_walk_part {
	GT_PART_KEY,        /* the key of an item of a dict */
	GT_PART_VALUE,      /* the value of an item of a dict, list or tuple */
	GT_PART_ATTRIBUTES, /* of a dict or a tensor */
	GT_PART_ARGS,       /* of an opaque object: its arguments, */
	GT_PART_ITEMS,      /* its items, */
	GT_PART_STATE       /* its state */
};

struct gt_walk {
	enum gt_walk_part part;
	struct gt_tree *node; /* the part itself */
	/* the pointer to it in its parent, through which it can be replaced */
	struct gt_tree **slot;
	size_t index; /* of the item, for keys and values */
	size_t next;  /* private to gt_walk_next(); 0: start with the first part */
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
 * This ends, because trees are checked before they are used. A node that is mentioned
 * twice is visited twice.
 */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w);

/*
 * Check that a walk of the tree ends: no deeper than GT_TREE_MAX_DEPTH, no more than
 * GT_TREE_MAX_VISITS nodes when shared ones count each time, at most GT_TREE_MAX_REPEATS repeated
 * visits, and no dict with one key twice. With an arena `a`, a reference to an enclosing object is
 * replaced by an opaque node of class "(cycle)". If `a` is NULL, the tree is not changed and a
 * cycle is an error. Errors: GT_EFORMAT, GT_ENOMEM.
 */
int gt_tree_check(struct gt_tree *root, struct gt_arena *a, struct gt_err *err);

/*
 * Release the mapped pages of [start, start + size) of a storage, and the pages read ahead with
 * them. If another thread still uses pages at the edges, they are read again.
 */
void gt_storage_forget(const struct gt_storage *storage, uint64_t start, uint64_t size);

/* Copy the storage's bytes into the arena, where no other process changes them, unless they are in
 * memory already. This is for storages that hold metadata about other storages. */
int gt_storage_copy(struct gt_storage *storage, struct gt_arena *arena, struct gt_err *err);

/*
 * The second half of gt_storage_check(), for a caller that has computed the sum while it read the
 * bytes.
 */
int gt_storage_compare(struct gt_storage *storage, uint32_t crc, struct gt_err *err);

/*
 * Check shape, stride and offset of a tensor against storage_bytes: dimensions not negative, no
 * overflow in the count or the extent, every element inside. GT_EFORMAT names the fault.
 */
int gt_ckpt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err);

/*
 * Strides of 0, strides that overlap, and tensors that share a storage make much of a small file.
 * Zero a gt_repeats, add the bytes of elements that are to be visited in each storage, end it.
 * gt_repeats_end() hands on the code of a failed addition, else it returns GT_ENOTSUP when the
 * bytes come to more than 1 GiB and to more than 1024 times those of the storages, each counted
 * once: no trained model does, and a program that writes or reads so many elements would fill a
 * disk or never end.
 */
struct gt_repeats {
	uint64_t visited, stored;
	struct gt_index storages;
};

int gt_repeats_add(
    struct gt_repeats *r, const struct gt_storage *storage, uint64_t bytes, struct gt_err *err);
int gt_repeats_end(struct gt_repeats *r, int rc, struct gt_err *err);

/* Set stride to that of contiguous memory (row-major); false when the count overflows. */
bool gt_ckpt_tensor_contiguous_stride(int ndim, const int64_t *shape, int64_t *stride);

/* Whether the elements stand one after the other, in order; and are all of their storage. */
bool gt_ckpt_tensor_is_contiguous(const struct gt_tree_tensor *t);
bool gt_ckpt_tensor_is_whole(const struct gt_tree_tensor *t);

/* Bytes of the elements. */
uint64_t gt_ckpt_tensor_bytes(const struct gt_tree_tensor *t);

/* Reverse the bytes of `count` elements in place; complex numbers as two halves each. */
void gt_ckpt_tensor_swap(enum gt_dtype dtype, void *elements, size_t count);

#endif
