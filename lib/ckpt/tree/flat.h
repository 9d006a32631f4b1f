/* flat.h - inside ckpt: a dict of tensors as a list, for formats that hold nothing else. */
#ifndef GT_CKPT_TREE_FLAT_H
#define GT_CKPT_TREE_FLAT_H

#include "lib/ckpt/write.h"

/* Tensors in one checkpoint. Small files can name one tensor very often. */
enum { GT_FLAT_MAX = 1 << 18 };

struct gt_flat_tensor {
	const char *name; /* valid UTF-8 without zeros */
	const struct gt_tree_tensor *tensor;
	enum gt_dtype as;    /* its type in the output */
	uint64_t size_bytes; /* bytes of its elements in the output */
	/* The tensor with the same memory, type and shape whose name sorts first; NULL if it is
	 * this one. */
	const struct gt_flat_tensor *kept;
	size_t shard; /* private to a writer: the number of its file */
};

struct gt_flat {
	struct gt_flat_tensor *tensors; /* in the tree's order */
	size_t count;
};

/*
 * List the tensors of `root`; they and their names are borrowed. GT_ENOTSUP, naming the key and
 * `format`, where the root is not a dict or holds other values than tensors, as a checkpoint with
 * an optimizer does (the hint says so); or where there are more than GT_FLAT_MAX.
 */
int gt_flat_list(struct gt_flat *out, const struct gt_tree *root, const char *format,
    const struct gt_ckpt_write_options *options, struct gt_err *err);
void gt_flat_release(struct gt_flat *flat);

/* Compare two tensors, for sorting: 0 if they are one tensor with two names. Callers leave out
 * empty tensors, which share nothing. */
int gt_flat_compare(const struct gt_tree_tensor *x, const struct gt_tree_tensor *y);

/* Whether a node is a string of valid UTF-8 without zeros. */
bool gt_flat_is_text(const struct gt_tree *node);

#endif
