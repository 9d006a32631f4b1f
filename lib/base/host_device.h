/* host_device.h - mark functions that both the host and CUDA's kernels call. */
#ifndef GT_BASE_HOST_DEVICE_H
#define GT_BASE_HOST_DEVICE_H

/* GT_HOST_DEVICE before an inline function makes nvcc compile it for GPUs, too. */
#ifdef __CUDACC__
#define GT_HOST_DEVICE __host__ __device__
#else
#define GT_HOST_DEVICE
#endif

#endif
