/* vphilox.h - Philox random numbers: many blocks at once, in code that compilers can vectorize. */
#ifndef GT_BASE_VPHILOX_H
#define GT_BASE_VPHILOX_H

#include <stdint.h>

#include "lib/base/philox.h"

/* blocks of four random words, and words, of a call */
enum { GT_VPHILOX_BLOCKS = 64, GT_VPHILOX_WORDS = 4 * GT_VPHILOX_BLOCKS };

/*
 * Compute consecutive blocks: word[4 * b + i] is word i of gt_philox() for the key and the counter
 * words
 *
 *   low half of (block + b), high half of (block + b), stream, step
 */
static inline void gt_vphilox(uint32_t word[restrict GT_VPHILOX_WORDS], uint64_t key,
    uint64_t block, uint32_t stream, uint32_t step)
{
#pragma omp simd
	for (int b = 0; b < GT_VPHILOX_BLOCKS; b++) {
		uint64_t at = block + (uint64_t)b;
		uint32_t c0 = (uint32_t)at, c1 = (uint32_t)(at >> 32), c2 = stream, c3 = step;
		uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

#pragma GCC unroll 10
		for (int round = 0; round < GT_PHILOX_ROUNDS; round++)
			gt_philox_round(&c0, &c1, &c2, &c3, &k0, &k1);
		word[4 * b] = c0;
		word[4 * b + 1] = c1;
		word[4 * b + 2] = c2;
		word[4 * b + 3] = c3;
	}
}

#endif
