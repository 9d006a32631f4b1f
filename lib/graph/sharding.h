/* sharding.h - parameters of which each rank holds a shard, cut along a dimension. */
#ifndef GT_GRAPH_SHARDING_H
#define GT_GRAPH_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#include "lib/graph/attrs.h"

/*
 * How a parameter is sharded. Its dimension `dim` consists of `blocks` consecutive blocks, each
 * with `units` units of the same size. Shard r of n holds, in every block, the units from units r /
 * n up to units (r + 1) / n, both rounded down. So the sizes of shards differ by at most one unit
 * per block. A matrix [in, 3 * heads * D] of queries, keys and values has 3 blocks whose units are
 * heads. With 2 heads and 2 ranks its columns are q0 q1 k0 k1 v0 v1; rank 0 holds q0 k0 v0.
 */
struct gt_sharding {
	const char *name;
	int ndim, dim;
	int64_t shape[GT_MAX_DIMS]; /* of the whole parameter */
	int64_t blocks, units;
};

/* The first unit of a shard in each block. If `shard` is `count`, it is the number of units. */
int64_t gt_sharding_first(const struct gt_sharding *s, int shard, int count);

/* The length of `dim` in a shard. */
int64_t gt_sharding_length(const struct gt_sharding *s, int shard, int count);

/*
 * Some elements of an array: `rows` rows of `length` consecutive elements. The first row begins at
 * `first`, and each next row `stride` elements later. rows 0: no elements.
 */
struct gt_slice {
	int64_t first, length, stride, rows;
};

int64_t gt_slice_elements(const struct gt_slice *s);

/* Pack these elements of `whole` to `to`; or unpack them from `from` to `whole`. All is in host
 * memory; an element has `size` bytes. */
void gt_slice_take(const struct gt_slice *s, void *to, const void *whole, size_t size);
void gt_slice_put(const struct gt_slice *s, void *whole, const void *from, size_t size);

/* The elements of a shard in the whole parameter, row-major. */
struct gt_slice gt_sharding_slice(const struct gt_sharding *s, int shard, int count);

#endif
