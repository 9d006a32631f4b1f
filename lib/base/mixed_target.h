/* mixed_target.h - the target of a mixture of two samples: their classes and weights. */
#ifndef GT_BASE_MIXED_TARGET_H
#define GT_BASE_MIXED_TARGET_H

#include <stdint.h>

/*
 * One row of a tensor of int32 [rows, GT_MIXED_TARGET_WORDS], which holds the bits of the float32.
 * The loader writes it, and losses read it. A negative class does not count; the weight of the
 * other one stays as it is.
 */
struct gt_mixed_target {
	int32_t classes[2];
	float weight; /* of classes[0], from 0 to 1; that of classes[1] is 1 less it */
};

enum { GT_MIXED_TARGET_WORDS = sizeof(struct gt_mixed_target) / sizeof(int32_t) };

#endif
