/* memory.h - inside graph: offsets of temporaries, which share memory if lifetimes allow. */
#ifndef GT_GRAPH_MEMORY_H
#define GT_GRAPH_MEMORY_H

#include <stddef.h>

#include "lib/base/err.h"

/* A block of memory that is needed from step `first` to step `last`, both included. */
struct gt_lifetime {
	size_t bytes;
	int first, last;
	size_t offset; /* found by gt_memory_plan() */
};

/*
 * Give every block an offset, a multiple of GT_DEVICE_ALIGN, so that no two blocks that live at the
 * same time overlap; *total is the memory that all of them need. Greedy by size: the largest first,
 * each at the lowest offset where it fits. Source: Pisarchyk and Lee, "Efficient memory management
 * for deep neural net inference", arXiv 2001.03288 ("greedy by size for offset calculation").
 *
 * Example: four blocks, placed in the order A, C, B, D.
 *
 *   block  bytes  steps   offset                           step  0  1  2  3  4
 *   A        512   0-1         0  nothing is placed yet    512..767  -  B  B  D  D
 *   B        256   1-2       512  A and C live at 0..511     0..511  A  A  C  C  -
 *   C        512   2-3         0  A has died
 *   D        256   3-4       512  C lives at step 3, B has died
 *
 * *total is 768, for 1536 bytes of blocks; at step 1, A and B together already need 768 bytes.
 */
int gt_memory_plan(struct gt_lifetime *blocks, size_t count, size_t *total, struct gt_err *err);

#endif
