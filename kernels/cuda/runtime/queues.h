/* queues.h - CUDA's streams, kept so that each has a hardware queue of its own. */
#ifndef GT_KERNELS_CUDA_RUNTIME_QUEUES_H
#define GT_KERNELS_CUDA_RUNTIME_QUEUES_H

#include <cuda_runtime_api.h>

/* Streams that are given back are kept and taken again, so that each stream in use has its own
 * hardware queue. Any thread may call these functions. */

/* Take a stream of the current device, `index`, that does not wait for the default stream. */
cudaError_t gt_cuda_queue_take(int index, cudaStream_t *out);

/* Give back an idle stream. If the device has failed, the stream is destroyed. */
void gt_cuda_queue_give(int index, cudaStream_t queue);

#endif
