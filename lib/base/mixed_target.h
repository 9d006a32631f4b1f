/* mixed_target.h - the training target of a mixture of two samples: two classes and a weight. */
#ifndef GT_BASE_MIXED_TARGET_H
#define GT_BASE_MIXED_TARGET_H

#include <stdint.h>

/*
 * One row of an int32 tensor [rows, GT_MIXED_TARGET_WORDS]; the last word holds the bits of the
 * float32 weight. The loader writes such rows, and losses read them. A negative class does not
 * count, and does not change the weight of the other class.
 */
struct gt_mixed_target {
	int32_t classes[2];
	float weight; /* weight of classes[0], from 0 to 1; classes[1] has the weight 1 - weight */
};

enum { GT_MIXED_TARGET_WORDS = sizeof(struct gt_mixed_target) / sizeof(int32_t) };

#endif
