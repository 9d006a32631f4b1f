/* sharding.h - parameters of which each rank holds a shard, cut along a dimension. */
#ifndef GT_GRAPH_SHARDING_H
#define GT_GRAPH_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#include "lib/graph/attrs.h"

/*
 * How a parameter is sharded: its dimension `dim` is seen as `blocks` blocks one after the other,
 * each of `units` units of the same size. Of every block, shard r of n holds the units from
 * units r / n to units (r + 1) / n (rounded down): as many as the others, or one more or less. A
 * matrix [in, 3 * heads * D] of queries, keys and values has 3 blocks whose units are heads. With 2
 * heads and 2 ranks its columns are q0 q1 k0 k1 v0 v1; rank 0 holds q0 k0 v0.
 */
struct gt_sharding {
	const char *name;
	int ndim, dim;
	int64_t shape[GT_MAX_DIMS]; /* of the whole parameter */
	int64_t blocks, units;
};

/* The first unit of a shard in each block; of shard `count`, the number of units. */
int64_t gt_sharding_first(const struct gt_sharding *s, int shard, int count);

/* The length of `dim` in a shard, and the elements of the shard. */
int64_t gt_sharding_length(const struct gt_sharding *s, int shard, int count);
int64_t gt_sharding_elements(const struct gt_sharding *s, int shard, int count);

/* Copy a shard out of the whole parameter, or into it; both in host memory, row-major, of elements
 * of `size` bytes. */
void gt_sharding_take(
    const struct gt_sharding *s, int shard, int count, void *to, const void *whole, size_t size);
void gt_sharding_put(
    const struct gt_sharding *s, int shard, int count, void *whole, const void *from, size_t size);

#endif
