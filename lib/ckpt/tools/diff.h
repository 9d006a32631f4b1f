/* diff.h - the differences between two checkpoints, of any formats. */
#ifndef GT_CKPT_TOOLS_DIFF_H
#define GT_CKPT_TOOLS_DIFF_H

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/tools/inventory.h"

enum gt_diff_kind {
	GT_DIFF_ONLY_A,
	GT_DIFF_ONLY_B,
	GT_DIFF_SHAPE,   /* of tensors: their values cannot be compared */
	GT_DIFF_DTYPE,   /* and maybe values, see `differing` */
	GT_DIFF_NUMBERS, /* of tensors with the same dtype and shape */
	GT_DIFF_VALUE    /* of a value that is not a tensor */
};

struct gt_diff_row {
	const char *key;
	enum gt_diff_kind kind;
	const struct gt_tree *a,
	    *b; /* NULL on the side that lacks it; with only_tensors, NULL for tensors */
	const struct gt_tree_tensor *tensor_a, *tensor_b; /* of tensors */
	/* elements that differ by more than the tolerance; all elements */
	uint64_t differing, count;
	uint64_t one_nan; /* elements that are NaN on one side only; `differing` includes them */
	double max_abs;   /* of |a - b|, NaN left out */
	double max_rel;   /* of |a - b| / max(|a|, |b|), of elements that differ */
};

struct gt_diff {
	struct gt_diff_row *rows; /* by key */
	size_t count;
	size_t tensors, values; /* numbers of tensors and values found in both */
	/* of state_dicts: the key where each was found and the prefix removed; or "" */
	const char *note[2];
	/* number of names found in both once wrappers and prefixes are removed; 0 if removing them
	 * finds no more */
	size_t agree;
	size_t capacity;
	struct gt_arena arena;
};

struct gt_diff_options {
	double tolerance; /* |a - b| <= tolerance is the same */
	bool state_dict;  /* compare only the state_dicts of gt_state_dict_find(), by name */
	size_t threads;   /* 0: one per processor */
};

/* An open file, and its name in messages. */
struct gt_diff_side {
	const struct gt_ckpt *ckpt;
	const char *path;
};

/*
 * Compare two checkpoints by the keys of gt_inventory_make(), tensors and other values. Elements
 * are compared as numbers: 0 is -0, infinity is itself, and NaN is NaN in the same place. Floats of
 * different widths are compared as numbers, and integers exactly. Each side's bytes are compared
 * with its own checksums first. Then all elements are read: two tensors can differ although their
 * CRC-32 is the same.
 *
 * Memory: about 1 MiB per thread. Errors: GT_EFORMAT for a damaged file, or one without state_dict
 * where that is asked for; GT_ENOTSUP for a tensor whose strides visit its storage more than a
 * thousand times over; GT_ENOMEM.
 */
int gt_diff_make(struct gt_diff *out, const struct gt_diff_side *a, const struct gt_diff_side *b,
    const struct gt_diff_options *options, struct gt_err *err);
void gt_diff_release(struct gt_diff *diff);

#endif
