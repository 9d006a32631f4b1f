/* kernels.h - CUDA kernels for a ring of GPUs: copy a chunk, reduce a chunk, set a counter. */
#ifndef GT_KERNELS_CUDA_RING_KERNELS_H
#define GT_KERNELS_CUDA_RING_KERNELS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/comm/ring/peers.h"

/* Each function queues a kernel, or none without work. The kernel does nothing if *halt is not 0.
 * `halt` and `counter` are the GPU's addresses of host memory. Errors: GT_EDEVICE. */

/* Copy to 1 or 2 addresses, one of which may be src. */
int gt_cuda_ring_copy(struct gt_stream *stream, const uint32_t *halt, void *const *dst, int dsts,
    const void *src, size_t bytes, struct gt_err *err);

/* Do one step of a reduction (lib/comm/ring/peers.h). */
int gt_cuda_ring_reduce(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err);

/* Set *counter. A reader of the new value sees all earlier writes of the stream. */
int gt_cuda_ring_post(struct gt_stream *stream, const uint32_t *halt, uint32_t *counter,
    uint32_t value, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
