/* driver.h - functions of the NVIDIA driver that CUDA's run-time library does not have. */
#ifndef GT_KERNELS_CUDA_RUNTIME_DRIVER_H
#define GT_KERNELS_CUDA_RUNTIME_DRIVER_H

#include "kernels/cuda/cuda.h"

/* Find a function of the driver's library by its name, such as "cuDeviceGet". gtrain is not linked
 * to that library. Several versions of a function can exist. If gtrain is compiled with a toolkit
 * of version 12.5 or above, *out is the version of CUDA 12.0. With an older toolkit, *out is the
 * version of that toolkit. Error messages name the GPU `index`. Errors: GT_EDEVICE. */
int gt_cuda_driver_function(void **out, const char *name, int index, struct gt_err *err);

/* Write a text that identifies a device among all devices of all hosts to text[size]. This is the
 * function `identify` of gt_cuda_backend (lib/device/backend.h). */
int gt_cuda_identify(int index, char *text, size_t size, struct gt_err *err);

#endif
