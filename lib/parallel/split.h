/* split.h - parameters that ranks hold in parts, cut along a dimension. */
#ifndef GT_PARALLEL_SPLIT_H
#define GT_PARALLEL_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/graph/attrs.h"

/*
 * How a parameter is cut: its dimension `dim` is seen as `blocks` blocks one after the other, each
 * of `units` units of the same size. Of every block, part r of n holds the units from units r / n
 * to units (r + 1) / n (rounded down): as many as the others, or one more or less. A matrix
 * [in, 3 * heads * D] of queries, keys and values has 3 blocks whose units are heads.
 */
struct gt_split {
	const char *name;
	int ndim, dim;
	int64_t shape[GT_MAX_DIMS]; /* of the whole */
	int64_t blocks, units;
};

/* The first unit of a part in each block; of part `parts`, the number of units. */
int64_t gt_split_first(const struct gt_split *s, int part, int parts);

/* How long `dim` is in a part, and how many elements the part has. */
int64_t gt_split_length(const struct gt_split *s, int part, int parts);
int64_t gt_split_count(const struct gt_split *s, int part, int parts);

/* Copy a part out of the whole, or into it; both row-major, of elements of this size. */
void gt_split_take(
    const struct gt_split *s, int part, int parts, void *to, const void *whole, size_t size);
void gt_split_put(
    const struct gt_split *s, int part, int parts, void *whole, const void *from, size_t size);

#endif
