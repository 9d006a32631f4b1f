/* decode.h - decode rows of weights that are stored in blocks. */
#ifndef GT_KERNELS_CPU_DECODE_H
#define GT_KERNELS_CPU_DECODE_H

#include "kernels/cpu/narrow.h"
#include "lib/base/blocks.h"

/* Decode a row of n elements, whole blocks, to float32. */
static inline void gt_decode_row(
    float *restrict to, const unsigned char *restrict row, int64_t n, enum gt_block block)
{
	const struct gt_block_type *type = &gt_block_types[block];

	if (block == GT_BLOCK_BF16 || block == GT_BLOCK_F16) {
		gt_widen(to, (const uint16_t *)row, n, block == GT_BLOCK_BF16 ? GT_BF16 : GT_F16);
		return;
	}
	for (int64_t i = 0; i < n; i += type->elements, row += type->bytes)
		if (block == GT_BLOCK_Q8_0)
			gt_decode_q8_0(row, to + i);
		else
			gt_decode_q4_0(row, to + i);
}

#endif
