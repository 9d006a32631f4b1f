/* stats.h - statistics of tensors: minimum, maximum, mean, standard deviation, NaN, Inf, zeros. */
#ifndef GT_CKPT_TOOLS_STATS_H
#define GT_CKPT_TOOLS_STATS_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/*
 * Statistics of the finite elements, for complex numbers of their magnitudes. std divides by n -
 * 1. A statistic that is not defined is NaN.
 */
struct gt_stats {
	uint64_t count, nan, inf, zeros; /* numbers of elements: all, NaN, infinite, zero */
	double min, max, mean, std;
	/* `crc` is set: the tensor fills its storage, which has a CRC-32 */
	bool summed;
	uint32_t crc; /* CRC-32 of the bytes that were read; it should equal storage->crc */
};

/*
 * Compute the statistics of `count` tensors, and check their storages. `threads` 0: one per
 * processor, at most 16. Bytes are counted on `progress`, which may be NULL.
 */
int gt_stats_of(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err);

/*
 * Compute only count, nan, inf, summed and crc; the caller compares `crc`.
 */
int gt_stats_scan(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err);

#endif
