/* map_ways.h - choose between the interpreter of map.cu and a compiled program. */
#ifndef GT_KERNELS_CUDA_ELEMENTWISE_MAP_WAYS_H
#define GT_KERNELS_CUDA_ELEMENTWISE_MAP_WAYS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Choose for a call of map with 1 to 2^31 elements. call->state becomes a struct gt_nvrtc_kernel,
 * borrowed, or NULL: the call is interpreted. */
int gt_map_choose(struct gt_call *call, struct gt_err *err);

/* Add to *count, in device memory, the number of elements whose bits differ in x and in y, which
 * has x's type and size (map.cu). A NaN differs from no other NaN. */
int gt_map_count_differences(struct gt_stream *stream, unsigned *count, const struct gt_tensor *x,
    const void *y, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
