/* pinned.h - a cache of pinned host memory, because freeing it may wait for the device. */
#ifndef GT_KERNELS_CUDA_PINNED_H
#define GT_KERNELS_CUDA_PINNED_H

#include <stddef.h>

#include <cuda_runtime_api.h>

/*
 * gt_cuda_pinned_take() returns pinned memory for a device, with undefined contents;
 * gt_cuda_pinned_give() takes it back. It is not freed then, but kept for the next caller that asks
 * for as many bytes, until the last stream of the device is freed. The reason: cudaFreeHost() may
 * wait for all streams of the device. One of them may wait for a function of the host, which waits
 * for another rank. If that rank's thread were inside cudaFreeHost(), neither could go on.
 */
cudaError_t gt_cuda_pinned_take(int index, size_t bytes, void **out);
void gt_cuda_pinned_give(int index, void *p, size_t bytes);
void gt_cuda_pinned_free_all(int index);

#endif
