/* blocks.h - types in which weights are stored that are not trained: 16 bits, or quantized. */
#ifndef GT_BASE_BLOCKS_H
#define GT_BASE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/half.h"

/*
 * A row of a matrix is stored as blocks, one after the other. A block of a 16-bit type is one
 * element. A block of a quantized type has 32 elements, little-endian:
 *
 *   q8_0   34 bytes: float16 d, then int8 q[32]; element e is d q[e]
 *   q4_0   18 bytes: float16 d, then 16 bytes; byte i has the numbers of the elements i, in its low
 *          four bits, and i + 16; element e is d (q - 8)
 *
 * Source: ggml, src/ggml-common.h and src/ggml-quants.c. Elements are the same to the last bit.
 */
enum gt_block {
	GT_BLOCK_NONE, /* elements are stored one by one, as their type says */
	GT_BLOCK_BF16,
	GT_BLOCK_F16,
	GT_BLOCK_Q8_0,
	GT_BLOCK_Q4_0,
	GT_BLOCKS
};

enum {
	GT_BLOCK_MOST = 32, /* the most elements in a block */
	GT_Q8_0_BYTES = 34,
	GT_Q4_0_BYTES = 18
};

struct gt_block_type {
	unsigned elements, bytes; /* of a block */
	/* from this size on, an element becomes infinite, or makes the scale of its block so */
	float limit;
	void (*encode)(const float *in, unsigned char *block);
};

/* By enum gt_block, from GT_BLOCK_BF16 on. */
extern const struct gt_block_type gt_block_types[GT_BLOCKS];

/* Names by enum gt_block, ended by NULL. GT_BLOCK_NONE is fp32. */
extern const char *const gt_block_names[GT_BLOCKS + 1];

/* Return whether the elements of a block share a scale. */
static inline bool gt_block_is_quantized(enum gt_block block)
{
	return gt_block_types[block].elements > 1;
}

/* Return the type for rows of `columns` elements: `wanted`, or if they are not whole blocks of it,
 * float16. */
enum gt_block gt_block_for(enum gt_block wanted, int64_t columns);

/* Return the bytes of a row, whose elements are whole blocks. */
size_t gt_block_row_bytes(enum gt_block block, int64_t columns);

void gt_encode_q8_0(const float *in, unsigned char *block);
void gt_encode_q4_0(const float *in, unsigned char *block);

/* Return the scale of a quantized block. */
static inline float gt_block_scale(const unsigned char *block)
{
	return gt_float_of_f16((uint16_t)(block[0] | block[1] << 8));
}

/* Decode a block. Inline, so that kernels have it in the instructions of their own set. */
static inline void gt_decode_q8_0(const unsigned char *block, float *out)
{
	const float d = gt_block_scale(block);

	for (int e = 0; e < 32; e++)
		out[e] = d * (float)(signed char)block[2 + e];
}

static inline void gt_decode_q4_0(const unsigned char *block, float *out)
{
	const float d = gt_block_scale(block);

	for (int e = 0; e < 16; e++)
		out[e] = d * (float)((block[2 + e] & 15) - 8);
	for (int e = 0; e < 16; e++)
		out[16 + e] = d * (float)((block[2 + e] >> 4) - 8);
}

#endif
