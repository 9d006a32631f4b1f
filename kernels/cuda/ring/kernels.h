/* kernels.h - CUDA kernels for a ring of GPUs: copy a chunk, reduce a chunk, set a counter. */
#ifndef GT_KERNELS_CUDA_RING_KERNELS_H
#define GT_KERNELS_CUDA_RING_KERNELS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/comm/ring/peers.h"

/*
 * The ring algorithm (lib/comm/ring/peers.h) cuts buffers into chunks, and needs these kernels.
 * Each function queues one kernel on `stream`, or none if there is nothing to copy or to reduce. If
 * *halt is not 0 when the kernel runs, the kernel does nothing. `halt` and `counter` are the GPU's
 * addresses of words in host memory. Errors: GT_EDEVICE.
 */

/* Copy `bytes` bytes from `src` to each of the `dsts` addresses in `dst`; `dsts` is 1 or 2. One of
 * these addresses may be equal to `src`. */
int gt_cuda_ring_copy(struct gt_stream *stream, const uint32_t *halt, void *const *dst, int dsts,
    const void *src, size_t bytes, struct gt_err *err);

/* Do one step of a reduction (struct gt_reduce_step, lib/comm/ring/peers.h): add the received
 * partial results to this rank's elements, or take the maximum, and write the results. */
int gt_cuda_ring_reduce(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err);

/* Set *counter to `value`. A reader of *counter that sees the new value also sees everything that
 * earlier work of the stream has written. */
int gt_cuda_ring_post(struct gt_stream *stream, const uint32_t *halt, uint32_t *counter,
    uint32_t value, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
