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

#endif
