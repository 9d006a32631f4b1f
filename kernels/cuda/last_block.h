/* last_block.h - counters that tell a block of a kernel whether it is the last to end. */
#ifndef GT_KERNELS_CUDA_LAST_BLOCK_H
#define GT_KERNELS_CUDA_LAST_BLOCK_H

#include "kernels/cuda/cuda.h"

/* The counters follow the stream's scratch memory. They are zero when no kernel of the stream runs,
 * because the last block sets them to zero again. */
enum { GT_CUDA_BLOCK_COUNTERS = 256, GT_CUDA_BLOCK_COUNTER_BYTES = GT_CUDA_BLOCK_COUNTERS * 4 };

static inline unsigned *gt_cuda_block_counters(const struct gt_stream *stream)
{
	return (unsigned *)((char *)stream->scratch + GT_CUDA_SCRATCH_BYTES);
}

#endif
