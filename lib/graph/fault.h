/* fault.h - faults that kernels find in their data: the kinds, and the words for each. */
#ifndef GT_GRAPH_FAULT_H
#define GT_GRAPH_FAULT_H

#include <stdint.h>

#include "lib/base/err.h"

/*
 * A kernel of the CPU returns such an error from run(). One of a GPU stores the fault where the
 * host looks when it waits (kernels/cuda/fault.cuh). Users read the same words.
 */
enum gt_fault_kind {        /* and its values */
	GT_FAULT_ID,        /* an id, its sample, its position, rows of the table */
	GT_FAULT_POSITIONS, /* tokens, tokens before these, positions there are */
	GT_FAULT_CACHE,     /* tokens, tokens before these, room of the cache */
	GT_FAULT_TARGET     /* a target, its row, classes */
};

enum { GT_FAULT_VALUES = 4 };

struct gt_fault {
	enum gt_fault_kind kind;
	int64_t values[GT_FAULT_VALUES];
};

/* Store the text and hint of a fault. Returns GT_EINVAL. */
int gt_fault_set(struct gt_err *err, const struct gt_fault *fault);

#endif
