/* philox.cuh - random numbers from a key and a counter, for kernels with dropout. */
#ifndef GT_KERNELS_CUDA_CORE_PHILOX_CUH
#define GT_KERNELS_CUDA_CORE_PHILOX_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "lib/base/philox.h"

/* Compute four random words from the key and the counter (lib/base/philox.h). */
static __device__ void gt_draw_block(
    uint64_t key, uint64_t block, uint32_t stream, uint32_t step, uint32_t word[4])
{
	const uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), stream, step };

	gt_philox(key, counter, word);
}

/* Return word c mod 4, without an index, so that words stay in registers. */
static __device__ __forceinline__ uint32_t gt_drawn(const uint32_t word[4], uint64_t c)
{
	return c & 2 ? (c & 1 ? word[3] : word[2]) : (c & 1 ? word[1] : word[0]);
}

#endif
