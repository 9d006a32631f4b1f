/* driver.h - functions of the NVIDIA driver that CUDA's run-time library does not have. */
#ifndef GT_KERNELS_CUDA_DRIVER_H
#define GT_KERNELS_CUDA_DRIVER_H

#include "kernels/cuda/cuda.h"

/* Find a function of the driver's library by its name, such as "cuDeviceGet". gtrain is not linked
 * to that library. With a toolkit from version 12.5 on, *out is the function as CUDA 12.0 has it;
 * with an older toolkit, as that toolkit has it. Error messages name the GPU `index`. Errors:
 * GT_EDEVICE. */
int gt_cuda_driver_function(void **out, const char *name, int index, struct gt_err *err);

/* A member of gt_cuda_backend, described in lib/device/backend.h. */
int gt_cuda_identify(int index, char *text, size_t size, struct gt_err *err);

#endif
