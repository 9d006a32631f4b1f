/* fold.h - private: functions of PyTorch that are computed while a network is imported. */
#ifndef GT_MODEL_IMPORT_FOLD_H
#define GT_MODEL_IMPORT_FOLD_H

#include "lib/model/import/network.h"

/* A function of torch.ops.aten that is computed if the tensors whose elements it reads are
 * constants. */
struct gt_fold {
	const char *name; /* "arange.default" */
	gt_aten_emit *fold;
	enum gt_function function; /* for rows that compute it for each element */
	/* tensors whose elements are read; of the others, shapes and types are */
	enum gt_fold_reads { GT_FOLD_ALL, GT_FOLD_FIRST, GT_FOLD_NONE } reads;
};

/* The table of these functions, ended by a row of NULL. */
extern const struct gt_fold gt_fold_rows[];

/* Return the row for a target, or NULL. */
const struct gt_fold *gt_fold_find(const char *target);

/* ---- fold_math.c ---- */
gt_aten_emit gt_fold_arange, gt_fold_bitwise, gt_fold_clamp, gt_fold_copy, gt_fold_divide,
    gt_fold_floor_divide, gt_fold_full, gt_fold_full_like, gt_fold_function, gt_fold_linspace,
    gt_fold_logical, gt_fold_masked, gt_fold_not, gt_fold_overwrite, gt_fold_remainder,
    gt_fold_reverse_difference, gt_fold_same, gt_fold_sum, gt_fold_swapped, gt_fold_to,
    gt_fold_zero;

/* Bind the output of the node to c; set an error if c is NULL, as functions return it where shapes
 * do not fit. */
void gt_fold_finish(struct gt_import *im, struct gt_constant *c);
void *gt_fold_fail_shapes(struct gt_import *im);

/* Return the argument `self`, or NULL. */
struct gt_constant *gt_fold_self(struct gt_import *im);

/* Return a copy in a type, and a function of two constants; NULL if one is NULL. */
struct gt_constant *gt_fold_copy_of(
    struct gt_import *im, const struct gt_constant *c, enum gt_dtype dtype);
struct gt_constant *gt_fold_apply2(struct gt_import *im, enum gt_function f, enum gt_dtype dtype,
    struct gt_constant *a, struct gt_constant *b);

/* ---- fold_shape.c ---- */
gt_aten_emit gt_fold_cat, gt_fold_chunk, gt_fold_cumsum, gt_fold_diff, gt_fold_expand,
    gt_fold_expand_as, gt_fold_flatten, gt_fold_flip, gt_fold_gather, gt_fold_index,
    gt_fold_permute, gt_fold_reshape, gt_fold_select, gt_fold_slice, gt_fold_split, gt_fold_squeeze,
    gt_fold_stack, gt_fold_total, gt_fold_transpose, gt_fold_triangle, gt_fold_unbind,
    gt_fold_unsqueeze;

#endif
