/* stats.h - statistics of tensors: minimum, maximum, mean, standard deviation, NaN, Inf, zeros. */
#ifndef GT_CKPT_TOOLS_STATS_H
#define GT_CKPT_TOOLS_STATS_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/*
 * min, max, mean and std are computed from the finite elements only; so a single NaN does not hide
 * the other elements. std is the standard deviation; it divides by n - 1, as torch.std() does. For
 * complex numbers, the statistics are computed from the magnitudes. A statistic that is not defined
 * is NaN: for example the minimum of no elements, or the std of fewer than two elements.
 */
struct gt_stats {
	uint64_t count, nan, inf, zeros; /* numbers of elements: all, NaN, infinite, zero */
	double min, max, mean, std;
	/* true: `crc` is set. It is false in three cases: the tensor does not fill its storage; the
	 * storage has no CRC-32; the storage had been checked before gt_stats_of() was called. */
	bool summed;
	uint32_t crc; /* CRC-32 of the bytes that were read; it should equal storage->crc */
};

/*
 * Compute the statistics of `count` tensors, and write them to out[count]. `threads` is the number
 * of threads (0: one per processor, at most 16). If a storage has a CRC-32, the function also
 * compares its bytes with this CRC-32. The result does not depend on the number of threads: tensors
 * are split into pieces of a fixed size, and the sums of the pieces are combined in order. Each
 * piece is summed in float64 relative to its own mean.
 *
 * Memory: about 1 MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged storage; GT_ENOTSUP if strides repeat the same bytes more than a
 * thousand times, so that the tensors have far more elements than their storages (gt_repeats_end(),
 * tree/tree.h).
 * Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", Stanford STAN-CS-79-773, 1979.
 */
int gt_stats_of(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_err *err);

/*
 * Compute only the fields count, nan, inf, summed and crc, as gt_stats_of() does; the other fields
 * are undefined. `crc` is not compared with the CRC-32 of the storage; the caller has to compare
 * them. The bytes are counted on the progress line `progress`, which may be NULL.
 */
int gt_stats_scan(struct gt_stats *out, const struct gt_tree_tensor *const *tensors, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err);

#endif
