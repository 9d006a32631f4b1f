/* sharding.h - how a parameter is cut into shards along one dimension, one shard for each rank. */
#ifndef GT_GRAPH_SHARDING_H
#define GT_GRAPH_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#include "lib/graph/attrs.h"

/*
 * How a parameter is divided into shards, one for each rank. Dimension `dim` consists of `blocks`
 * consecutive blocks. Each block consists of `units` units of the same size. There are n shards,
 * numbered from 0. The units of each block are numbered from 0, too. Shard r holds these units of
 * every block:
 *
 *   units floor(units * r / n) to floor(units * (r + 1) / n) - 1
 *
 * So the sizes of shards differ by at most one unit per block.
 *
 * Example: a matrix [in, 3 * heads * D] that computes queries, keys and values. It has 3 blocks of
 * columns, and a unit is the D columns of one head. With 2 heads the columns are q0 q1 k0 k1 v0 v1.
 * With 2 ranks, rank 0 holds q0 k0 v0, and rank 1 holds q1 k1 v1.
 */
struct gt_sharding {
	const char *name; /* name of the parameter */
	int ndim, dim;
	int64_t shape[GT_MAX_DIMS]; /* shape of the whole parameter */
	int64_t blocks, units;
};

/* In the functions below, `shard` is the index of a shard, and `count` the number of shards. */

/* Return the index of the first unit of a shard in each block. If `shard` equals `count`, return
 * the number of units. */
int64_t gt_sharding_first(const struct gt_sharding *s, int shard, int count);

/* Return the size of dimension `dim` in a shard. */
int64_t gt_sharding_length(const struct gt_sharding *s, int shard, int count);

/*
 * Some elements of an array: `rows` rows of `length` consecutive elements. The first row begins at
 * element `first`. Each next row begins `stride` elements later. If `rows` is 0, the slice has no
 * elements.
 */
struct gt_slice {
	int64_t first, length, stride, rows;
};

/* Return the number of elements of a slice. */
int64_t gt_slice_elements(const struct gt_slice *s);

/* Return the number of elements of a slice whose index in the array is less than `index`. */
int64_t gt_slice_below(const struct gt_slice *s, int64_t index);

/* Pack the elements of the slice: copy them from `whole` to consecutive elements of `to`. All data
 * are in host memory. An element has `size` bytes. */
void gt_slice_pack(const struct gt_slice *s, void *to, const void *whole, size_t size);
/* Unpack, the reverse of gt_slice_pack(), but only for a window: `window` has the elements [first,
 * first + count) of the array. Copy consecutive elements of `from` to the elements of the slice in
 * the window. */
void gt_slice_unpack(const struct gt_slice *s, void *window, int64_t first, int64_t count,
    const void *from, size_t size);

/* Return the elements of a shard as a slice of the whole parameter, which is row-major. */
struct gt_slice gt_sharding_slice(const struct gt_sharding *s, int shard, int count);

#endif
