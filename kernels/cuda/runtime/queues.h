/* queues.h - CUDA's streams, kept so that each has a hardware queue of its own. */
#ifndef GT_KERNELS_CUDA_RUNTIME_QUEUES_H
#define GT_KERNELS_CUDA_RUNTIME_QUEUES_H

#include <cuda_runtime_api.h>

/*
 * A GPU has 1 to 32 hardware queues for a process (CUDA C++ Programming Guide, "CUDA Environment
 * Variables", CUDA_DEVICE_MAX_CONNECTIONS). NVIDIA does not document which queue a stream gets.
 * On an H200, each new stream seemed to get the next one in turn (see below).
 * A stream that waits for another rank holds up all later work of its hardware queue. So two
 * streams of ranks that are threads on one GPU must not have the same queue.
 *
 * Counting the streams that are in use is not enough, if streams are freed and others created.
 * Example with 4 hardware queues; the letters are streams:
 *
 *   create A B C      A in queue 0, B in 1, C in 2
 *   free B C          A in queue 0
 *   create D E F      D in queue 3, E in 0, F in 1: E and A share a queue
 *
 * So a stream that is given back is kept until the process ends, and taken again before a new one
 * is created: D and E are the old B and C, and F is the first one that CUDA puts into queue 3. The
 * default stream is never freed either, and keeps its queue. When streams were not kept, ranks on
 * an H200 waited for each other until their timeout (tests/unit/test_zero.c).
 *
 * `index` is the index of the device. All functions may be called from any thread.
 */

/* Take a stream that does not wait for the default stream, nor the default stream for it. Device
 * `index` must be the current device of the calling thread. *out is NULL after an error. */
cudaError_t gt_cuda_queue_take(int index, cudaStream_t *out);

/* Give back a stream of gt_cuda_queue_take(), with the same index. Wait for its work first. If the
 * device has failed, so that the work never ends, the stream is destroyed instead of kept. */
void gt_cuda_queue_give(int index, cudaStream_t queue);

#endif
