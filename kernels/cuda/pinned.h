/* pinned.h - pinned memory of the host, kept for later while the device is in use. */
#ifndef GT_KERNELS_CUDA_PINNED_H
#define GT_KERNELS_CUDA_PINNED_H

#include <stddef.h>

#include <cuda_runtime_api.h>

/*
 * Memory for a device, of at least one byte, with any contents, and back. cudaFreeHost() may wait
 * for all streams of the device: also for one that waits for a function of the host, which may wait
 * for another rank, whose thread is in here. So memory is kept for the next that asks for so many
 * bytes, and freed when the last stream of the device is gone.
 */
cudaError_t gt_cuda_pinned_take(int index, size_t bytes, void **out);
void gt_cuda_pinned_give(int index, void *p, size_t bytes);
void gt_cuda_pinned_free_all(int index);

#endif
