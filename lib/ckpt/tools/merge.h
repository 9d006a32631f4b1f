/* merge.h - merge checkpoints: the union of their tensors, or sums of equally named ones. */
#ifndef GT_CKPT_TOOLS_MERGE_H
#define GT_CKPT_TOOLS_MERGE_H

#include "lib/ckpt/tools/convert.h"

struct gt_merge_input {
	struct gt_tree *root;
	const char *path; /* for messages */
};

/*
 * Build the union of `count` state_dicts in the arena; tensors are borrowed. Append
 * lines about the result to `note`. GT_EFORMAT: equal names have different tensors.
 */
int gt_merge_union(struct gt_tree **out, const struct gt_merge_input *inputs, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err);

/*
 * The mean of checkpoints. Its tensors are in an unnamed temporary file, which gt_merge_release()
 * deletes.
 */
struct gt_merge_mean {
	struct gt_tree *root;  /* a dict of tensors, in the arena */
	struct gt_mapping map; /* the memory mapping of the file */
	struct gt_arena arena;
};

/* How elements are combined. */
struct gt_merge_how {
	const double *weights; /* [count], of the state_dicts; NULL: each has 1 */
	/* NULL: the result is the mean. Otherwise it is the state_dict of this tree, to which the
	 * differences of the others from it are added (task arithmetic). */
	const struct gt_merge_input *base;
	/* With `base`: each element of a difference is left out with this probability, and those
	 * that stay are divided by 1 - drop (DARE). */
	double drop;
	uint64_t seed; /* of these draws */
	/* With `base`, above 0: keep this share of each difference, its largest elements, and
	 * take the mean of those whose sign is that of their sum (TIES). 0: the sum of all. */
	double density;
	/* NULL: no; or the place between both state_dicts on the sphere, 0 for the first, 1 for
	 * the second (SLERP) */
	const double *slerp;
	const enum gt_dtype *as;      /* the type of floats in the result; NULL: theirs */
	struct gt_progress *progress; /* shows the bytes that are combined; may be NULL */
};

/*
 * Combine `count` state_dicts in a temporary file in `folder`. Call gt_merge_release() in every
 * case. Append lines about the result to `note`. GT_EFORMAT: names, types or shapes differ.
 */
int gt_merge_combine(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const struct gt_merge_how *how, const char *folder, struct gt_buf *note, struct gt_err *err);
void gt_merge_release(struct gt_merge_mean *mean);

#endif
