/* memory.h - private: compute offsets of temporary blocks that share memory over time. */
#ifndef GT_GRAPH_MEMORY_H
#define GT_GRAPH_MEMORY_H

#include <stddef.h>

#include "lib/base/err.h"

/* A block of memory that a plan needs from step `first` to step `last`, both included. */
struct gt_lifetime {
	size_t bytes;
	int first, last;
	size_t offset; /* the result, in bytes */
};

/* Set the offset of each block, so that blocks needed at the same step do not overlap, and *total
 * to the bytes of all together. Offsets are multiples of GT_DEVICE_ALIGN. Errors: GT_ENOMEM. */
int gt_memory_plan(struct gt_lifetime *blocks, size_t count, size_t *total, struct gt_err *err);

#endif
