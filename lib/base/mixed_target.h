/* mixed_target.h - the target of a mixture of two samples (mixup): two classes and a weight. */
#ifndef GT_BASE_MIXED_TARGET_H
#define GT_BASE_MIXED_TARGET_H

#include <stdint.h>

/* A row of targets for mixup, which are int32 [rows, GT_MIXED_TARGET_WORDS]. A negative class is
 * left out of the loss; the other one keeps its weight. */
struct gt_mixed_target {
	int32_t classes[2];
	float weight; /* weight of classes[0], from 0 to 1; classes[1] has 1 - weight */
};

enum { GT_MIXED_TARGET_WORDS = sizeof(struct gt_mixed_target) / sizeof(int32_t) };

#endif
