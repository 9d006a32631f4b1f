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

/*
 * Set *w to the next part of a node. The order is that of enum gt_walk_part; the key and the value
 * of one item follow each other. Parts that are NULL are skipped. Return false after the last part;
 * a leaf has no parts. A function that visits a whole tree calls itself for each part:
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
 * The recursion ends, because trees are checked before they are used. A node that occurs twice
 * in the tree is visited twice.
 */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w);

struct gt_buf;

/*
 * Append the key of a dict as text: 'name', 1, 2.5, None, (1, 'a'), torch.float32. An object in a
 * key is written with its arguments. In a string, a zero byte is written as \0, and a backslash
 * stands before ' and \. Text beyond about 4 KiB is cut.
 */
void gt_tree_put_key(struct gt_buf *out, const struct gt_tree *key);

struct gt_name_list;
/* Add a key to a list of names, as gt_tree_put_key() writes the key. */
void gt_tree_list_key(struct gt_name_list *list, const struct gt_tree *key);

/* Append a step to a path for messages, such as "model.layers.0": a dot, except at the front, and
 * the step. The step is `key` if it is a string or an integer, otherwise `index`. `key` may be
 * NULL. Long keys are cut: otherwise a small file with one long key could give many long paths. */
void gt_tree_put_step(struct gt_buf *path, const struct gt_tree *key, size_t index);

/*
 * Check that a walk of the tree ends: it is at most GT_TREE_MAX_DEPTH levels deep, it visits at
 * most GT_TREE_MAX_VISITS nodes, and at most GT_TREE_MAX_REPEATS of the visits are repeated visits.
 * Also check that no dict has the same string or the same integer as a key twice. If `a` is not
 * NULL, replace each reference to an enclosing object by an opaque node of class "(cycle)". If `a`
 * is NULL, the tree is not changed, and a reference to an enclosing object is an error. Errors:
 * GT_EFORMAT; GT_EINVAL for a reference to an enclosing object; GT_ENOMEM.
 */
int gt_tree_check(struct gt_tree *root, struct gt_arena *a, struct gt_err *err);

/*
 * Release the mapped pages of the bytes [start, start + size) of a storage, and pages around them
 * that the system has read ahead. If another thread still uses some of these pages, the system
 * reads them again from the file.
 */
void gt_storage_forget(const struct gt_storage *storage, uint64_t start, uint64_t size);

/*
 * If the bytes of the storage are in a mapped file, copy them into the arena, where no other
 * process can change them. Use this for storages with data that gtrain parses, such as a header.
 */
int gt_storage_copy(struct gt_storage *storage, struct gt_arena *arena, struct gt_err *err);

/*
 * Return an address that storages have in common if they share their bytes.
 */
static inline const void *gt_storage_address(const struct gt_storage *storage)
{
	return storage->read ? (const void *)storage : storage->bytes;
}

/*
 * Compare `crc` with the CRC-32 that the file gives for the storage. Use this function if `crc` was
 * computed while the bytes were read for another purpose. gt_storage_check() computes the CRC-32
 * and then calls this function. Errors: GT_EFORMAT.
 */
int gt_storage_compare(struct gt_storage *storage, uint32_t crc, struct gt_err *err);

/*
 * Check shape, stride and offset of a tensor against storage->size_bytes: dimensions and strides
 * are not negative, no product overflows, and every element is inside the storage. Errors:
 * GT_EFORMAT; the message names the fault.
 */
int gt_ckpt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err);

/*
 * Strides of 0, overlapping strides, and tensors that share a storage can make a small file stand
 * for very many elements. A program that reads or writes all elements would fill a disk or never
 * end. struct gt_repeats limits the number of bytes that are visited for each byte that is stored.
 * No trained model reaches this limit.
 */
struct gt_repeats {
	uint64_t visited;         /* bytes that will be visited */
	uint64_t stored;          /* bytes of all storages; each storage counts once */
	struct gt_index storages; /* storages that have been counted */
};

/*
 * Zero a struct gt_repeats. Call gt_repeats_add() for each tensor, with its storage and the number
 * of bytes that will be visited in this storage. Then call gt_repeats_end() in every case. `rc` is
 * the result of the last gt_repeats_add(). If `rc` is an error, gt_repeats_end() returns `rc`.
 * Otherwise gt_repeats_end() returns GT_ENOTSUP if the visited bytes are more than 1 GiB and also
 * more than 1024 times the bytes of the storages; each storage counts once.
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
