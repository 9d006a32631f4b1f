/* mixed_target.h - the target of a mixture of two samples (mixup): two classes and a weight. */
#ifndef GT_BASE_MIXED_TARGET_H
#define GT_BASE_MIXED_TARGET_H

#include <stdint.h>

/*
 * The target of one sample in training with mixup. The targets of a batch are an int32 tensor of
 * the shape [rows, GT_MIXED_TARGET_WORDS]. Each row is one struct gt_mixed_target: its third word
 * contains the bits of `weight`, a float32. The data loader writes the rows, and the loss functions
 * read them.
 *
 * If a class is negative, it is left out of the loss; the weight of the other class stays the same.
 */
struct gt_mixed_target {
	int32_t classes[2];
	float weight; /* weight of classes[0], from 0 to 1; classes[1] has the weight 1 - weight */
};

enum { GT_MIXED_TARGET_WORDS = sizeof(struct gt_mixed_target) / sizeof(int32_t) };

#endif
