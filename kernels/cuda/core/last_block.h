/* last_block.h - counters that tell a thread block whether it is the last block to finish. */
#ifndef GT_KERNELS_CUDA_CORE_LAST_BLOCK_H
#define GT_KERNELS_CUDA_CORE_LAST_BLOCK_H

#include "kernels/cuda/cuda.h"

/* Counters of each stream, after its scratch memory. They are 0 before and after each kernel, whose
 * last block resets them. */
enum { GT_CUDA_BLOCK_COUNTERS = 256, GT_CUDA_BLOCK_COUNTER_BYTES = GT_CUDA_BLOCK_COUNTERS * 4 };

/* Return the stream's counters, in device memory. */
static inline unsigned *gt_cuda_block_counters(const struct gt_stream *stream)
{
	return (unsigned *)((char *)stream->scratch + GT_CUDA_SCRATCH_BYTES);
}

#endif
