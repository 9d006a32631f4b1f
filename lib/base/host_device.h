/* host_device.h - mark functions that both the host and CUDA's kernels call. */
#ifndef GT_BASE_HOST_DEVICE_H
#define GT_BASE_HOST_DEVICE_H

/* GT_HOST_DEVICE stands before the type of an inline function: nvcc then compiles the function for
 * the host and for GPUs. Other compilers see nothing. */
#ifdef __CUDACC__
#define GT_HOST_DEVICE __host__ __device__
#else
#define GT_HOST_DEVICE
#endif

#endif
