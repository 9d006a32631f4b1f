/* sharding.h - how a parameter is cut into shards along one dimension, one shard for each rank. */
#ifndef GT_GRAPH_SHARDING_H
#define GT_GRAPH_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#include "lib/graph/attrs.h"

/*
 * A parameter is divided along dimension `dim`, which consists of `blocks` blocks of `units` equal
 * units each. Shard r of n holds the units floor(units * r / n) to floor(units * (r + 1) / n) - 1
 * of every block.
 *
 * Example: a matrix [in, 3 * heads * D] for queries, keys and values has 3 blocks of columns, and a
 * unit is the D columns of one head. With 2 heads the columns are q0 q1 k0 k1 v0 v1. With 2 ranks,
 * rank 0 holds q0 k0 v0, and rank 1 holds q1 k1 v1.
 */
struct gt_sharding {
	const char *name; /* name of the parameter */
	int ndim, dim;
	int64_t shape[GT_MAX_DIMS]; /* shape of the whole parameter */
	int64_t blocks, units;
};

/* Return the first unit of shard `shard` of `count` in each block; if they are equal, `units`. */
int64_t gt_sharding_first(const struct gt_sharding *s, int shard, int count);

/* Return the size of dimension `dim` in a shard. */
int64_t gt_sharding_length(const struct gt_sharding *s, int shard, int count);

/* Elements of an array: `rows` rows of `length` elements each, `stride` elements apart. */
struct gt_slice {
	int64_t first, length, stride, rows;
};

int64_t gt_slice_elements(const struct gt_slice *s);

/* Return the number of the slice's elements below the index. */
int64_t gt_slice_below(const struct gt_slice *s, int64_t index);

/* Copy the elements of the slice, `size` bytes each, to consecutive ones, in host memory. */
void gt_slice_pack(const struct gt_slice *s, void *to, const void *whole, size_t size);
/* Reverse this for a window, which has the elements [first, first + count) of the array. */
void gt_slice_unpack(const struct gt_slice *s, void *window, int64_t first, int64_t count,
    const void *from, size_t size);

/* Return the elements of a shard as a slice of the whole parameter, which is row-major. */
struct gt_slice gt_sharding_slice(const struct gt_sharding *s, int shard, int count);

#endif
