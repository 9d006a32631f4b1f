/* philox.cuh - random numbers from a key and a counter, for kernels with dropout. */
#ifndef GT_KERNELS_CUDA_PHILOX_CUH
#define GT_KERNELS_CUDA_PHILOX_CUH

#include "kernels/cuda/gpu.cuh"

/* Compute a block of Philox4x32-10: four random words from the key and the counter (block, stream,
 * step). lib/base/philox.h names the source, and explains how gtrain uses the key and the
 * counter. */
static __device__ void gt_draw_block(
    uint64_t key, uint64_t block, uint32_t stream, uint32_t step, uint32_t word[4])
{
	uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = stream, c3 = step;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	word[0] = c0;
	word[1] = c1;
	word[2] = c2;
	word[3] = c3;
}

/* Return word c mod 4 of a block. The array is not indexed by a variable, so the words can stay in
 * registers. */
static __device__ __forceinline__ uint32_t gt_drawn(const uint32_t word[4], uint64_t c)
{
	return c & 2 ? (c & 1 ? word[3] : word[2]) : (c & 1 ? word[1] : word[0]);
}

#endif
