/* fault.h - faults (invalid values) that kernels find in their input, and their error texts. */
#ifndef GT_GRAPH_FAULT_H
#define GT_GRAPH_FAULT_H

#include <stdint.h>

#include "lib/base/err.h"

/*
 * The kinds of faults. The comment above each kind describes the fault, and then lists the elements
 * of gt_fault.values for this kind, in order. In a CPU kernel, run() returns the fault as an error.
 * A GPU kernel stores the fault in a slot, which the host reads when it waits for the GPU
 * (kernels/cuda/core/fault.cuh). The error text is the same for CPU and GPU.
 */
enum gt_fault_kind {
	/* embedding: a token id is not an index of a row of the table. Values: token id, index of
	 * the sample, position in the sample, number of rows of the table. */
	GT_FAULT_ID,
	/* embedding: the position table is too short for all tokens. Values: number of tokens,
	 * number of earlier tokens, number of rows of the position table. */
	GT_FAULT_POSITIONS,
	/* attention: the cache of keys and values is too small for all tokens. Values: number of
	 * tokens, number of earlier tokens, capacity of the cache in tokens. */
	GT_FAULT_CACHE,
	/* cross_entropy: a target is not the index of a class. Values: target, row of the target,
	 * number of classes. */
	GT_FAULT_TARGET
};

enum { GT_FAULT_VALUES = 4 }; /* largest number of values of a fault */

struct gt_fault {
	enum gt_fault_kind kind;
	int64_t values[GT_FAULT_VALUES];
};

/* Store the text and the hint of a fault in *err, and return GT_EINVAL. */
int gt_fault_set(struct gt_err *err, const struct gt_fault *fault);

#endif
