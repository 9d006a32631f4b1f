/* blocks.c - elements of weights as blocks of a 16-bit or quantized type. */
#include "lib/base/blocks.h"

#include <math.h>

static void put_u16(unsigned char *to, uint16_t value)
{
	to[0] = (unsigned char)value;
	to[1] = (unsigned char)(value >> 8);
}

/* Kernels read 16-bit elements as the host stores them. */
static void encode_bf16(const float *in, unsigned char *block)
{
	const uint16_t h = gt_bf16_of_float(*in);

	memcpy(block, &h, sizeof(h));
}

static void encode_f16(const float *in, unsigned char *block)
{
	const uint16_t h = gt_f16_of_float(*in);

	memcpy(block, &h, sizeof(h));
}

/* The largest element becomes 127 or -127. */
void gt_encode_q8_0(const float *in, unsigned char *block)
{
	float largest = 0, d, inverse;

	for (int e = 0; e < 32; e++)
		largest = fmaxf(largest, fabsf(in[e]));
	d = largest / 127;
	inverse = d != 0 ? 1 / d : 0;
	put_u16(block, gt_f16_of_float(d));
	for (int e = 0; e < 32; e++) {
		const float q = roundf(in[e] * inverse);

		/* Where d is too small for its inverse, or an element is not finite: zero. */
		block[2 + e] = q >= -127 && q <= 127 ? (unsigned char)(signed char)q : 0;
	}
}

/* Return the number of an element, 0 to 15. NaN is 8, which stands for zero. */
static unsigned nibble_of(float x)
{
	const float q = x + 8.5f;

	return !(q == q) ? 8 : q < 0 ? 0 : q >= 16 ? 15 : (unsigned)q;
}

/* The element that is furthest from zero becomes -8, whatever its sign. */
void gt_encode_q4_0(const float *in, unsigned char *block)
{
	float largest = 0, furthest = 0, d, inverse;

	for (int e = 0; e < 32; e++)
		if (fabsf(in[e]) > largest) {
			largest = fabsf(in[e]);
			furthest = in[e];
		}
	d = furthest / -8;
	inverse = d != 0 ? 1 / d : 0;
	put_u16(block, gt_f16_of_float(d));
	for (int e = 0; e < 16; e++)
		block[2 + e] = (unsigned char)(nibble_of(in[e] * inverse) |
		                               nibble_of(in[e + 16] * inverse) << 4);
}

/* Halfway from the largest number of a 16-bit type to the next power of two. */
#define BF16_LIMIT 0x1.ffp127f
#define F16_LIMIT  65520.0f

const struct gt_block_type gt_block_types[GT_BLOCKS] = {
	[GT_BLOCK_BF16] = { 1, 2, BF16_LIMIT, encode_bf16 },
	[GT_BLOCK_F16] = { 1, 2, F16_LIMIT, encode_f16 },
	[GT_BLOCK_Q8_0] = { GT_BLOCK_MOST, GT_Q8_0_BYTES, F16_LIMIT * 127, gt_encode_q8_0 },
	[GT_BLOCK_Q4_0] = { GT_BLOCK_MOST, GT_Q4_0_BYTES, F16_LIMIT * 8, gt_encode_q4_0 },
};

const char *const gt_block_names[GT_BLOCKS + 1] = {
	[GT_BLOCK_NONE] = "fp32",
	[GT_BLOCK_BF16] = "bf16",
	[GT_BLOCK_F16] = "fp16",
	[GT_BLOCK_Q8_0] = "q8_0",
	[GT_BLOCK_Q4_0] = "q4_0",
};

enum gt_block gt_block_for(enum gt_block wanted, int64_t columns)
{
	return columns % gt_block_types[wanted].elements ? GT_BLOCK_F16 : wanted;
}

size_t gt_block_row_bytes(enum gt_block block, int64_t columns)
{
	const struct gt_block_type *type = &gt_block_types[block];

	return (size_t)(columns / type->elements) * type->bytes;
}
