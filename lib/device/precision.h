/* precision.h - the data types in which a model computes. */
#ifndef GT_DEVICE_PRECISION_H
#define GT_DEVICE_PRECISION_H

#include <stdbool.h>

#include "lib/device/dtype.h"

/* In a zeroed struct, everything is computed in float32. Weights, their gradients and the
 * optimizer's state are float32 with any precision. */
struct gt_precision {
	/* Mixed precision: the low type (bfloat16 or float16), in which products and convolutions
	 * are computed. GT_F32: no mixed precision. */
	enum gt_dtype low;
	/* true: embeddings also have the low type, and so do sums of one float32 value and one
	 * value of the low type; false: they are float32 */
	bool low_sums;
	bool tf32; /* float32 factors of products and convolutions may be rounded to TF32 */
	/* in training, the loss is multiplied by a scale before the backward pass */
	bool scaled;
};

#endif
