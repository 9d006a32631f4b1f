/* dropout.c - dropout, drawn by counting: an element's place in the batch decides. */
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "lib/base/philox.h"
#include "lib/base/vphilox.h"

/*
 * Element e of sample i has the number c = (first + i * stride) * (elements per sample) + e and
 * draws word c mod 4 of the Philox block c / 4, whatever the size of a sample. For images e counts
 * in the order of the dimensions [C, H, W], also where the memory is channels-last.
 */
struct draw {
	uint64_t key;
	uint32_t stream, step;
	double p;
};

#define REAL_BITS 32
#include "kernels/cpu/dropout.inc"
#define REAL_BITS 64
#include "kernels/cpu/dropout.inc"

const struct gt_kernel GT_ISA(gt_cpu_dropout_kernels)[] = {
	GT_ROWS(dropout),
	{ .op = NULL },
};
