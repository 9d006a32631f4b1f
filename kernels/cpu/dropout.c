/* dropout.c - dropout, drawn by counting: which elements drop depends on nothing but their place in the batch. */
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "lib/base/philox.h"

/*
 * Element e of sample i has the number c = (first + i * stride) * (elements per sample) + e and draws word c mod 4 of
 * the Philox block c / 4, whatever the size of a sample. For images e counts in the order of the dimensions
 * [C, H, W], also where the memory is channels-last.
 */
enum { TILE_BLOCKS = 64, TILE = 4 * TILE_BLOCKS };

struct draw {
	uint64_t key;
	uint32_t stream, step;
	double p;
};

/* The words of TILE_BLOCKS Philox blocks from `block` on. */
static void draw_tile(uint32_t word[TILE], const struct draw *d, uint64_t block)
{
#pragma omp simd
	for (int b = 0; b < TILE_BLOCKS; b++) {
		uint64_t at = block + (uint64_t)b;
		const uint32_t counter[4] = { (uint32_t)at, (uint32_t)(at >> 32), d->stream,
			d->step };
		uint32_t out[4];

		gt_philox(d->key, counter, out);
		word[4 * b] = out[0];
		word[4 * b + 1] = out[1];
		word[4 * b + 2] = out[2];
		word[4 * b + 3] = out[3];
	}
}

#define REAL_BITS 32
#include "kernels/cpu/dropout.inc"
#define REAL_BITS 64
#include "kernels/cpu/dropout.inc"

const struct gt_kernel GT_ISA(gt_cpu_dropout_kernels)[] = {
	GT_ROWS(dropout),
	{ .op = NULL },
};
