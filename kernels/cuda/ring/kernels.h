/* kernels.h - the work of a ring on its chunks: copy, add up, and tell the others. */
#ifndef GT_KERNELS_CUDA_RING_KERNELS_H
#define GT_KERNELS_CUDA_RING_KERNELS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/comm/ring/peers.h"

/* These kernels do nothing if *halt is set. *halt and the counters are host memory, given by their
 * addresses on the GPU. Errors: GT_EDEVICE. */

/* Copy `bytes` bytes from src to each of dst[dsts]. One of dst may be src. */
int gt_cuda_ring_copy(struct gt_stream *stream, const uint32_t *halt, void *const *dst, int dsts,
    const void *src, size_t bytes, struct gt_err *err);

int gt_cuda_ring_reduce(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err);

/* Set *counter to value. A reader that sees the new value also sees all earlier writes of the
 * stream. */
int gt_cuda_ring_post(struct gt_stream *stream, const uint32_t *halt, uint32_t *counter,
    uint32_t value, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
