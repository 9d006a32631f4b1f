/* fault.h - faults (invalid values) that kernels find in their input, and their error texts. */
#ifndef GT_GRAPH_FAULT_H
#define GT_GRAPH_FAULT_H

#include <stdint.h>

#include "lib/base/err.h"

/* The kinds of faults, each with gt_fault.values. A CPU kernel's run() returns the fault. A GPU
 * kernel stores it for the host's next wait (kernels/cuda/core/fault.cuh). */
enum gt_fault_kind {
	/* An id outside the table. Values: id, sample, position, rows of the table. */
	GT_FAULT_ID,
	/* A position table that is too short. Values: tokens, earlier tokens, rows. */
	GT_FAULT_POSITIONS,
	/* A full cache of keys and values. Values: tokens, earlier tokens, capacity in tokens. */
	GT_FAULT_CACHE,
	/* A target that is no class. Values: target, row, number of classes. */
	GT_FAULT_TARGET,
	/* An index outside of a row. Values: index, row, elements of the row. */
	GT_FAULT_INDEX,
	/* Ends of groups that descend, or that are too large. Values: end, group, the end before
	 * it, rows. */
	GT_FAULT_GROUP
};

enum { GT_FAULT_VALUES = 4 };

struct gt_fault {
	enum gt_fault_kind kind;
	int64_t values[GT_FAULT_VALUES];
};

/* Set the error's text and hint. Returns GT_EINVAL. */
int gt_fault_set(struct gt_err *err, const struct gt_fault *fault);

#endif
