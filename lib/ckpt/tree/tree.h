/* tree.h - private: create, walk and check the tree of nodes that a checkpoint is read into. */
#ifndef GT_CKPT_TREE_TREE_H
#define GT_CKPT_TREE_TREE_H

#include <string.h>

#include "lib/ckpt/ckpt.h"

/*
 * The limits of a tree (struct gt_tree in lib/ckpt/ckpt.h). They guarantee that a recursive walk of
 * the tree ends, and that it does not use too much stack.
 */
enum {
	/* Levels of nested containers; 40 levels of nn.Module need about 120. */
	GT_TREE_MAX_DEPTH = 128,
	/*
	 * Number of nodes that a walk of the tree visits. A node that occurs several times in the
	 * tree counts each time. A long string counts as one more node for each 256 bytes. This
	 * limit is also the largest value that the bit field gt_tree.visits can hold.
	 */
	GT_TREE_MAX_VISITS = (1 << 24) - 1,
	/*
	 * Number of repeated visits. If a container occurs twice in the tree, a walk visits its
	 * nodes again; these second visits are repeated visits. They cost time, but no bytes in the
	 * file.
	 */
	GT_TREE_MAX_REPEATS = 1 << 18
};

/* Create a node of `kind` with all other fields zero. NULL with err set if memory runs out. */
struct gt_tree *gt_tree_new(struct gt_arena *a, enum gt_tree_kind kind, struct gt_err *err);

/* Create a string node with a copy of `length` bytes, which may contain zeros. */
struct gt_tree *gt_tree_bytes(
    struct gt_arena *a, const void *bytes, size_t length, struct gt_err *err);

/* Create an opaque node with a copy of `class_name`, without arguments or state. */
struct gt_tree *gt_tree_opaque(struct gt_arena *a, const char *class_name, struct gt_err *err);

/* Append an item to a dict, list or tuple. `key` is NULL for a list or tuple. */
int gt_tree_push(struct gt_tree *seq, const struct gt_tree *key, struct gt_tree *value,
    struct gt_arena *a, struct gt_err *err);

/* Allocate memory for n more items of a dict, list or tuple. */
int gt_tree_reserve(struct gt_tree *seq, size_t n, struct gt_arena *a, struct gt_err *err);

/* ---- tests for the kind of a node ---- */

/* Return whether `node` is not NULL and has this kind. */
static inline bool gt_tree_is(const struct gt_tree *node, enum gt_tree_kind kind)
{
	return node && node->kind == kind;
}

/*
 * Return whether `node` is a dict, list or tuple, so that its `seq` may be read. `node` may be
 * NULL.
 */
bool gt_tree_is_seq(const struct gt_tree *node);

/* Return whether `node` is a string equal to `text`. `node` may be NULL. */
bool gt_tree_is_string(const struct gt_tree *node, const char *text);

/* Return whether `node` is a string without zero bytes, so that it is also a C string. */
static inline bool gt_tree_is_text(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_STRING) &&
	       strlen(node->string.bytes) == node->string.length;
}

/* Return whether `node` is an integer of 0 or more. */
static inline bool gt_tree_is_count(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_INT) && node->integer >= 0;
}

/* Return whether `node` is a class or function itself, and not an object of a class. */
static inline bool gt_tree_is_class(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_OPAQUE) && !node->opaque.args;
}

/* Return whether `node` is the class or function `name`. */
static inline bool gt_tree_is_class_named(const struct gt_tree *node, const char *name)
{
	return gt_tree_is_class(node) && !strcmp(node->opaque.class_name, name);
}

/* Return whether `node` is an object of class `class_name`. */
static inline bool gt_tree_is_object_of(const struct gt_tree *node, const char *class_name)
{
	return gt_tree_is(node, GT_TREE_OPAQUE) && node->opaque.args &&
	       !strcmp(node->opaque.class_name, class_name);
}

/*
 * Return the value of item i of a dict, list or tuple, or NULL if there are fewer items. `seq` may
 * also be the arguments of an opaque object: they are a tuple.
 */
static inline struct gt_tree *gt_tree_value(const struct gt_tree *seq, size_t i)
{
	return i < seq->seq.count ? seq->seq.items[i].value : NULL;
}

/* ---- the parts of a node: all functions that walk trees use gt_walk_next() ---- */

/* The relation of a part to the node that holds it. */
enum gt_walk_part {
	GT_PART_KEY,        /* the key of an item of a dict */
	GT_PART_VALUE,      /* the value of an item of a dict, list or tuple */
	GT_PART_ATTRIBUTES, /* the attributes of a dict or a tensor */
	GT_PART_ARGS,       /* the arguments of an opaque object */
	GT_PART_ITEMS,      /* the items of an opaque object */
	GT_PART_STATE       /* the state of an opaque object */
};

/* A position in a walk over the parts of one node. */
struct gt_walk {
	enum gt_walk_part part;
	struct gt_tree *node; /* the part */
	/* the pointer to the part in its parent; change this pointer to replace the part */
	struct gt_tree **slot;
	size_t index; /* for keys and values: index of the item */
	size_t next;  /* private to gt_walk_next(); 0 at the start */
};

/* Set *w to the next part of a node. Return false after the last part. */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w);

struct gt_buf;

/* Append the key of a dict as Python would print it, cut at about 4 KiB. */
void gt_tree_put_key(struct gt_buf *out, const struct gt_tree *key);

struct gt_name_list;
/* Add a key to a list of names, as gt_tree_put_key() writes the key. */
void gt_tree_list_key(struct gt_name_list *list, const struct gt_tree *key);

/*
 * Append a step to a path for messages: a dot, except at the front, and `key`, or `index` if it is
 * neither string nor integer. Long keys are cut.
 */
void gt_tree_put_step(struct gt_buf *path, const struct gt_tree *key, size_t index);

/*
 * Check limits and unique keys. Replace cycles by opaque nodes in `a`; if `a` is NULL, they are
 * GT_EINVAL.
 */
int gt_tree_check(struct gt_tree *root, struct gt_arena *a, struct gt_err *err);

/* Release the mapped pages of a range of a storage, and pages read ahead around them. */
void gt_storage_forget(const struct gt_storage *storage, uint64_t start, uint64_t size);

/* Copy the bytes of a mapped storage into the arena, before gtrain parses them. */
int gt_storage_copy(struct gt_storage *storage, struct gt_arena *arena, struct gt_err *err);

/*
 * Return an address that storages have in common if they share their bytes.
 */
static inline const void *gt_storage_address(const struct gt_storage *storage)
{
	return storage->read ? (const void *)storage : storage->bytes;
}

/* Compare `crc` with the CRC-32 that the file gives for the storage. GT_EFORMAT: they differ. */
int gt_storage_compare(struct gt_storage *storage, uint32_t crc, struct gt_err *err);

/*
 * Check that shape, stride and offset are valid, and all elements inside the storage. GT_EFORMAT.
 */
int gt_ckpt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err);

/*
 * A limit of the bytes that are visited for each stored byte: strides and shared storages can make
 * a small file stand for very many elements.
 */
struct gt_repeats {
	uint64_t visited;         /* bytes that will be visited */
	uint64_t stored;          /* bytes of all storages; each storage counts once */
	struct gt_index storages; /* storages that have been counted */
};

/*
 * Zero a struct gt_repeats, add each tensor, and call gt_repeats_end() with the last result.
 * GT_ENOTSUP: over 1 GiB and over 1024 times the stored bytes.
 */
int gt_repeats_add(
    struct gt_repeats *r, const struct gt_storage *storage, uint64_t bytes, struct gt_err *err);
int gt_repeats_end(struct gt_repeats *r, int rc, struct gt_err *err);

/*
 * Compute stride[ndim], in elements, of a contiguous row-major tensor of shape[ndim]. Return false
 * if a dimension is negative or the number of elements overflows.
 */
bool gt_ckpt_tensor_contiguous_stride(int ndim, const int64_t *shape, int64_t *stride);

/*
 * gt_ckpt_tensor_is_contiguous() returns whether the elements are contiguous and in row-major
 * order. gt_ckpt_tensor_is_whole() returns whether they also fill their storage.
 */
bool gt_ckpt_tensor_is_contiguous(const struct gt_tree_tensor *t);
bool gt_ckpt_tensor_is_whole(const struct gt_tree_tensor *t);

/* Return the number of bytes of all elements of the tensor together. */
uint64_t gt_ckpt_tensor_bytes(const struct gt_tree_tensor *t);

/*
 * Reverse the bytes of each of `count` elements in place. For complex numbers, reverse the real and
 * the imaginary part separately.
 */
void gt_ckpt_tensor_swap(enum gt_dtype dtype, void *elements, size_t count);

#endif
