/* turns.h - counters that tell a block of a kernel whether it is the last to end. */
#ifndef GT_KERNELS_CUDA_TURNS_H
#define GT_KERNELS_CUDA_TURNS_H

#include "kernels/cuda/cuda.h"

/* They lie behind the stream's scratch memory, and are zero whenever no kernel of the stream runs:
 * the last block sets them back. */
enum { GT_CUDA_TURNS = 256, GT_CUDA_TURN_BYTES = GT_CUDA_TURNS * 4 };

static inline unsigned *gt_cuda_turns(const struct gt_stream *stream)
{
	return (unsigned *)((char *)stream->scratch + GT_CUDA_SCRATCH_BYTES);
}

#endif
