/* memory.h - private: compute offsets of temporary blocks that share memory over time. */
#ifndef GT_GRAPH_MEMORY_H
#define GT_GRAPH_MEMORY_H

#include <stddef.h>

#include "lib/base/err.h"

/* A block of memory that a plan needs from step `first` to step `last`, both included. */
struct gt_lifetime {
	size_t bytes;
	int first, last;
	size_t offset; /* in bytes, set by gt_memory_plan() */
};

/*
 * First round the `bytes` of each block up to a multiple of GT_DEVICE_ALIGN. Then set the `offset`
 * of each block. Offsets are multiples of GT_DEVICE_ALIGN, too. Two blocks that are needed at the
 * same step never overlap. Set *total to the number of bytes that all blocks need together. Errors:
 * GT_ENOMEM.
 *
 * The method is greedy: take the blocks by size, the largest first, and put each at the lowest
 * offset where it fits. Source: Pisarchyk and Lee, "Efficient memory management for deep neural net
 * inference", arXiv 2001.03288 ("greedy by size for offset calculation").
 *
 * Example: four blocks, placed in the order A, C, B, D.
 *
 *   block  bytes  steps   offset
 *   A        512   0-1         0  nothing is placed yet
 *   B        256   1-2       512  A and C use 0..511
 *   C        512   2-3         0  A is no longer needed
 *   D        256   3-4       512  C uses 0..511 at step 3, B is no longer needed
 *
 *   in use at step   0  1  2  3  4
 *   bytes 512..767   -  B  B  D  D
 *   bytes   0..511   A  A  C  C  -
 *
 * *total is 768 bytes, although the blocks have 1536 bytes. A smaller total is not possible: at
 * step 1, A and B need 768 bytes at the same time.
 */
int gt_memory_plan(struct gt_lifetime *blocks, size_t count, size_t *total, struct gt_err *err);

#endif
