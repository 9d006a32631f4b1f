/* driver.h - functions of the NVIDIA driver that CUDA's run-time library does not have. */
#ifndef GT_KERNELS_CUDA_RUNTIME_DRIVER_H
#define GT_KERNELS_CUDA_RUNTIME_DRIVER_H

#include "kernels/cuda/cuda.h"

/* Find a function of the driver by its name, in the version of CUDA 12.0 or of an older toolkit.
 * `index` is for errors: GT_EDEVICE. */
int gt_cuda_driver_function(void **out, const char *name, int index, struct gt_err *err);

/* identify() of gt_cuda_backend (lib/device/backend.h): a text that no other device has. */
int gt_cuda_identify(int index, char *text, size_t size, struct gt_err *err);

#endif
