/* stats.h - statistics of the numbers in tensors: extremes, mean, spread, NaN, Inf, zeros. */
#ifndef GT_CKPT_TOOLS_STATS_H
#define GT_CKPT_TOOLS_STATS_H

#include "lib/ckpt/ckpt.h"

/*
 * min, max, mean and std are computed from the finite elements only, so one NaN does not hide the
 * other elements. std divides by n - 1, as torch.std() does. For complex numbers the magnitude is
 * used. A statistic that does not exist is NaN: the minimum of no elements, the std of less than
 * two.
 */
struct gt_stats {
	uint64_t count, nan, inf, zeros; /* elements: all, NaN, infinite ones, zeros */
	double min, max, mean, std;
	bool summed;  /* the tensor is all of its storage, which has a CRC-32 */
	uint32_t crc; /* if summed: of the bytes read; storage->crc is the expected sum */
};

/*
 * The stats of `count` tensors in out[count], by `threads` threads (0: one for each processor).
 * Every storage's CRC-32 is compared on the way. The result does not depend on the number of
 * threads: each piece of fixed size is summed in float64 about its own mean, and the pieces are
 * combined in order.
 *
 * Memory: about 1 MiB per thread, whatever the tensors; mapped pages are given back when done.
 * Errors: GT_EFORMAT for a damaged storage; GT_ENOTSUP for a tensor whose strides visit its storage
 * more than a thousand times over.
 * Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", Stanford STAN-CS-79-773, 1979.
 */
int gt_stats_of(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_err *err);

/* Like gt_stats_of(), but only for count, nan, inf and the sum; the other numbers are undefined.
 * Checksums are not compared; the caller has to do that. */
int gt_stats_scan(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_err *err);

#endif
