/* runs.h - inside ckpt: the elements of a tensor, some thousand at a time. */
#ifndef GT_CKPT_TREE_RUNS_H
#define GT_CKPT_TREE_RUNS_H

#include "lib/ckpt/ckpt.h"

enum { GT_RUN = 1024 }; /* elements at most */

/* What the elements of a type are to those who compute with them. */
enum gt_run_kind {
	GT_RUN_REAL,    /* doubles */
	GT_RUN_INTEGER, /* int64_t */
	GT_RUN_COMPLEX, /* pairs of doubles */
	GT_RUN_UNKNOWN
};

enum gt_run_kind gt_run_kind(enum gt_dtype dtype);

/* A walk through the elements of a tensor, in order. */
struct gt_runs {
	const struct gt_tree_tensor *t;
	bool contiguous;
	bool scattered; /* single elements far apart: looked at without mapping their pages */
	int64_t index[GT_TREE_MAX_DIMS], position; /* of the next element */
	unsigned char packed[GT_RUN * 16];
};

/* Begin at the element `first` (in order). The tensor's storage is not checked. */
void gt_runs_begin(struct gt_runs *r, const struct gt_tree_tensor *t, uint64_t first);

/* The next n <= GT_RUN elements, packed, in the byte order of the file: in the file's mapping or in
 * r->packed, until the next call. NULL with err set when the file cannot be read. */
const void *gt_runs_next(struct gt_runs *r, size_t n, struct gt_err *err);

/* Turn what gt_runs_next() gave into doubles (of GT_RUN_COMPLEX out gets 2 n, of large integers the
 * nearest), or that of GT_RUN_INTEGER into integers: of uint64 the value less 2^63, as that fits
 * and keeps differences. */
int gt_runs_real(
    const struct gt_runs *r, const void *run, size_t n, double *out, struct gt_err *err);
int gt_runs_integer(
    const struct gt_runs *r, const void *run, size_t n, int64_t *out, struct gt_err *err);

/*
 * The same elements in the order in which they lie in the storage, dimensions of one element or
 * none taken away, neighbours joined; each element that an expanded dimension (stride 0) repeats is
 * there once, and *repeats says how often it counts. For sums, minima and the like, which do not
 * ask for the order, and are quick only with it. `dims` gets shape and stride.
 */
void gt_ckpt_tensor_in_storage_order(struct gt_tree_tensor *out, const struct gt_tree_tensor *t,
    int64_t dims[2 * GT_TREE_MAX_DIMS], uint64_t *repeats);

/*
 * Compare the storages of tensors with their CRC-32, each once, by threads: before any element is
 * believed. Tensors marked in skip[count] (NULL: none) are left out. Errors: as gt_storage_check().
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err);

#endif
