/* pinned.h - a cache of pinned host memory, because freeing such memory may wait for the device. */
#ifndef GT_KERNELS_CUDA_RUNTIME_PINNED_H
#define GT_KERNELS_CUDA_RUNTIME_PINNED_H

#include <stddef.h>

#include <cuda_runtime_api.h>

/* Memory that is given back is kept for the next caller with the same size and device, until the
 * device's last stream is freed: cudaFreeHost() waits for streams, which could deadlock. Any thread
 * may call these functions. */

/* Allocate memory, with undefined contents. *out is NULL after an error. */
cudaError_t gt_cuda_pinned_take(int index, size_t bytes, void **out);

/* Give back memory, with the same index and bytes. NULL is fine. Without host memory to note it,
 * free it at once, which may wait for the device. */
void gt_cuda_pinned_give(int index, void *p, size_t bytes);

/* Free all memory that was given back. This may wait for the device. */
void gt_cuda_pinned_free_all(int index);

#endif
