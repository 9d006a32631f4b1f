/* fault.h - faults that kernels find in their data: the kinds, and the words for each. */
#ifndef GT_GRAPH_FAULT_H
#define GT_GRAPH_FAULT_H

#include <stdint.h>

#include "lib/base/err.h"

/*
 * A CPU kernel returns the error from run(). A GPU kernel stores the fault in a slot that the host
 * reads when it waits (kernels/cuda/fault.cuh). The text is the same for both.
 */
enum gt_fault_kind {        /* and its values */
	GT_FAULT_ID,        /* an id, its sample, its position, rows of the table */
	GT_FAULT_POSITIONS, /* tokens, tokens before these, positions there are */
	GT_FAULT_CACHE,     /* tokens, tokens before these, capacity of the cache */
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
