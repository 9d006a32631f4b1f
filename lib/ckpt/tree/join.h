/* join.h - private: a tensor whose elements lie in boxes of other tensors, joined while read. */
#ifndef GT_CKPT_TREE_JOIN_H
#define GT_CKPT_TREE_JOIN_H

#include "lib/ckpt/ckpt.h"

/* A box of a tensor of ndim dimensions, and the tensor that has its elements. */
struct gt_join_box {
	/* [ndim] each: index of the first element of the box, and its shape */
	const int64_t *offset, *size;
	/* has as many elements as the box, in the same order; they are converted to the type of the
	 * whole, if it is another one (gt_cast_supported()) */
	const struct gt_tree_tensor *tensor;
};

/* A tensor that is to be joined. In a checkpoint, `compared` is shared by all of its tensors. */
struct gt_join {
	const char *name; /* of the tensor, for errors */
	enum gt_dtype dtype;
	int ndim;
	const int64_t *shape;            /* [ndim] */
	const struct gt_join_box *boxes; /* [count], in any order */
	size_t count;
	uint64_t *compared; /* counts the comparisons of boxes, which are limited */
};

/*
 * Check that the boxes lie within the tensor, do not overlap and have all of its elements.
 * GT_EFORMAT; GT_ENOTSUP: there are too many boxes to compare.
 */
int gt_join_check(const struct gt_join *join, struct gt_err *err);

/*
 * Do the same, and set *out to a storage of the elements in row-major order. It reads them from the
 * boxes when it is read. All is in the arena; the boxes' tensors, shapes and offsets are borrowed.
 */
int gt_join_storage(struct gt_storage **out, const struct gt_join *join, struct gt_arena *arena,
    struct gt_err *err);

/* Set *out to a plain tensor that has the elements of `tensor` in row-major order, as `dtype`. All
 * is in the arena; `tensor` is borrowed. */
int gt_join_one(struct gt_tree **out, const char *name, const struct gt_tree_tensor *tensor,
    enum gt_dtype dtype, struct gt_arena *arena, struct gt_err *err);

#endif
