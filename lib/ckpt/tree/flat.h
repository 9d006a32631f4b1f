/* flat.h - private: list the tensors of a dict, for formats that can store nothing else. */
#ifndef GT_CKPT_TREE_FLAT_H
#define GT_CKPT_TREE_FLAT_H

#include "lib/ckpt/write.h"

/* limit of the number of tensors, because a small file can name one very often */
enum { GT_FLAT_MAX = 1 << 18 };

struct gt_flat_tensor {
	const char *name; /* valid UTF-8 without zeros */
	const struct gt_tree_tensor *tensor;
	enum gt_dtype as;    /* type of the elements in the output */
	uint64_t size_bytes; /* size of the elements in the output, in bytes */
	/* the stored tensor with the same memory, type, shape, strides; NULL: this one is stored */
	const struct gt_flat_tensor *kept;
	size_t shard; /* used by a writer of several files: index of the file for this tensor */
};

struct gt_flat {
	struct gt_flat_tensor *tensors; /* in the order of the tree */
	size_t count;
};

/*
 * List the tensors of a dict; they are borrowed. GT_ENOTSUP, naming `format`, for other values or
 * too many.
 */
int gt_flat_list(struct gt_flat *out, const struct gt_tree *root, const char *format,
    const struct gt_ckpt_write_options *options, struct gt_err *err);
void gt_flat_release(struct gt_flat *flat);

/*
 * Compare two tensors, for sorting. Return 0 if they have the same memory, type, shape and strides.
 * Callers leave out empty tensors, because these share no memory.
 */
int gt_flat_compare(const struct gt_tree_tensor *x, const struct gt_tree_tensor *y);

/* Return whether a node is a string that is valid UTF-8 without zero bytes. */
bool gt_flat_is_text(const struct gt_tree *node);

#endif
