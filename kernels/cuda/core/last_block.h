/* last_block.h - counters that tell a thread block whether it is the last block to finish. */
#ifndef GT_KERNELS_CUDA_CORE_LAST_BLOCK_H
#define GT_KERNELS_CUDA_CORE_LAST_BLOCK_H

#include "kernels/cuda/cuda.h"

/* Each stream has GT_CUDA_BLOCK_COUNTERS counters in device memory, directly after its scratch
 * memory. All counters are 0 when a kernel starts, and must be 0 when it ends: the last block of
 * the kernel resets them. */
enum { GT_CUDA_BLOCK_COUNTERS = 256, GT_CUDA_BLOCK_COUNTER_BYTES = GT_CUDA_BLOCK_COUNTERS * 4 };

/* Return the address of the counters [GT_CUDA_BLOCK_COUNTERS] of a stream, in device memory. */
static inline unsigned *gt_cuda_block_counters(const struct gt_stream *stream)
{
	return (unsigned *)((char *)stream->scratch + GT_CUDA_SCRATCH_BYTES);
}

#endif
