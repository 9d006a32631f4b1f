/* pinned.h - a cache of pinned host memory, because freeing such memory may wait for the device. */
#ifndef GT_KERNELS_CUDA_RUNTIME_PINNED_H
#define GT_KERNELS_CUDA_RUNTIME_PINNED_H

#include <stddef.h>

#include <cuda_runtime_api.h>

/*
 * Memory that is given back is not freed at once. It is kept for the next caller that asks for the
 * same number of bytes on the same device. It is freed after the last stream of the device is
 * freed.
 *
 * The reason is a deadlock: cudaFreeHost() may wait for all streams of the device. A stream may
 * wait for a host call (host_call.h), and the host call may wait for another rank, which can be a
 * thread of the same process. If that thread is inside cudaFreeHost(), the thread waits for the
 * stream, and the stream waits for the thread.
 *
 * `index` is the index of the device. All functions may be called from any thread.
 */

/* Allocate pinned host memory, with undefined contents. *out is NULL after an error. */
cudaError_t gt_cuda_pinned_take(int index, size_t bytes, void **out);

/* Give back memory of gt_cuda_pinned_take(), with the same index and bytes. p may be NULL. If there
 * is no host memory to keep a record of `p`, free `p` at once, which may wait for the device. */
void gt_cuda_pinned_give(int index, void *p, size_t bytes);

/* Free all memory of the device that was given back. This may wait for streams of the device. */
void gt_cuda_pinned_free_all(int index);

#endif
