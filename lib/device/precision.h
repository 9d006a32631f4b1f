/* precision.h - the data types in which a model computes. */
#ifndef GT_DEVICE_PRECISION_H
#define GT_DEVICE_PRECISION_H

#include <stdbool.h>

#include "lib/device/dtype.h"

/* Zeroed: everything is float32. Weights, gradients and the optimizer's state always are. */
struct gt_precision {
	enum gt_dtype low; /* mixed precision: type of products and convolutions; else GT_F32 */
	bool low_sums;     /* embeddings, and sums of float32 and the low type, have the low type */
	bool tf32;         /* kernels may round float32 factors to TF32 */
	bool scaled;       /* training multiplies the loss by a scale */
};

#endif
