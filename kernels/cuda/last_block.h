/* last_block.h - counters by which a block finds out whether it is the last block to finish. */
#ifndef GT_KERNELS_CUDA_LAST_BLOCK_H
#define GT_KERNELS_CUDA_LAST_BLOCK_H

#include "kernels/cuda/cuda.h"

/* Each stream has GT_CUDA_BLOCK_COUNTERS counters in device memory, directly after its scratch
 * memory. A kernel finds all counters 0 and must leave them 0: its last block resets them. */
enum { GT_CUDA_BLOCK_COUNTERS = 256, GT_CUDA_BLOCK_COUNTER_BYTES = GT_CUDA_BLOCK_COUNTERS * 4 };

/* Return the counters of a stream [GT_CUDA_BLOCK_COUNTERS], in device memory. */

static inline unsigned *gt_cuda_block_counters(const struct gt_stream *stream)
{
	return (unsigned *)((char *)stream->scratch + GT_CUDA_SCRATCH_BYTES);
}

#endif
