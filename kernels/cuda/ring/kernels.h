/* kernels.h - kernels of a ring of GPUs: copy a chunk, reduce a chunk, and set a counter. */
#ifndef GT_KERNELS_CUDA_RING_KERNELS_H
#define GT_KERNELS_CUDA_RING_KERNELS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/comm/ring/peers.h"

/*
 * Each function queues one kernel on `stream`. The kernel does nothing if *halt is not 0 when it
 * runs. `halt` and `counter` are addresses on the GPU of words in host memory. Errors: GT_EDEVICE.
 */

/* Copy `bytes` bytes from src to each of dst[dsts]; dsts is 1 or 2. One dst may be equal to src. */
int gt_cuda_ring_copy(struct gt_stream *stream, const uint32_t *halt, void *const *dst, int dsts,
    const void *src, size_t bytes, struct gt_err *err);

/* Do one step of a reduction: see struct gt_reduce_step. */
int gt_cuda_ring_reduce(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err);

/* Set *counter to `value`. A reader that sees the new value also sees all earlier writes of the
 * stream. */
int gt_cuda_ring_post(struct gt_stream *stream, const uint32_t *halt, uint32_t *counter,
    uint32_t value, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
