/* types.c - the types of GGUF's tensors: how blocks of quantized elements are decoded. */
#include <string.h>

#include "lib/base/blocks.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/gguf/gguf.h"

/*
 * A block has a scale d, and types with an offset a minimum m: an element is d q + m, for its
 * number q of 2 to 8 bits. Blocks of 256 elements ("K") have scales and minima of 4 to 8 bits for
 * each 16 or 32 elements, which d and dmin scale. The bits of an element are spread over the block:
 * its low bits in one array, its high bits in another. In the functions below, e counts elements.
 * Products are rounded in the order of ggml, so that the values are the same to the last bit.
 * q8_0 and q4_0 are in lib/base/blocks.h, for kernels compute with them, too.
 * Source: ggml, src/ggml-common.h (the layouts) and src/ggml-quants.c.
 */

enum { SMALL = GT_BLOCK_MOST, K = 256 };

static float half_at(const unsigned char *p)
{
	return gt_float_of_f16((uint16_t)gt_get_le(p, 2));
}

/* ---- blocks of 32 ---- */

/* Four bits of an element: the first half of the block is in the low ones. */
static int nibble_of(const unsigned char *bytes, int e)
{
	return bytes[e % 16] >> (e < 16 ? 0 : 4) & 15;
}

static int fifth_bit(const unsigned char *bytes, int e)
{
	return (bytes[e / 8] >> e % 8 & 1) << 4;
}

static void decode_q4_1(const unsigned char *block, float *out)
{
	const float d = half_at(block), m = half_at(block + 2);

	for (int e = 0; e < SMALL; e++)
		out[e] = d * (float)nibble_of(block + 4, e) + m;
}

static void decode_q5_0(const unsigned char *block, float *out)
{
	const float d = half_at(block);

	for (int e = 0; e < SMALL; e++)
		out[e] = d * (float)((nibble_of(block + 6, e) | fifth_bit(block + 2, e)) - 16);
}

static void decode_q5_1(const unsigned char *block, float *out)
{
	const float d = half_at(block), m = half_at(block + 2);

	for (int e = 0; e < SMALL; e++)
		out[e] = d * (float)(nibble_of(block + 8, e) | fifth_bit(block + 4, e)) + m;
}

/* ---- blocks of 256 ---- */

/* Two bits of an element: 128 elements share 32 bytes. */
static int pair_of(const unsigned char *bytes, int e)
{
	return bytes[e / 128 * 32 + e % 32] >> 2 * (e % 128 / 32) & 3;
}

static void decode_q2_k(const unsigned char *block, float *out)
{
	const unsigned char *scales = block, *q = block + 16;
	const float d = half_at(block + 80), dmin = half_at(block + 82);

	for (int e = 0; e < K; e++) {
		const int scale = scales[e / 16];

		out[e] =
		    d * (float)(scale & 15) * (float)pair_of(q, e) - dmin * (float)(scale >> 4);
	}
}

/* One of 16 scales of 6 bits: 8 bytes have the low four bits, 4 bytes the high two. */
static int scale_of_q3(const unsigned char *scales, int i)
{
	const int low = scales[i % 8] >> (i < 8 ? 0 : 4) & 15;
	const int high = scales[8 + i % 4] >> 2 * (i / 4) & 3;

	return (low | high << 4) - 32;
}

static void decode_q3_k(const unsigned char *block, float *out)
{
	const unsigned char *high = block, *q = block + 32, *scales = block + 96;
	const float d = half_at(block + 108);

	for (int e = 0; e < K; e++) {
		const int below = high[e % 32] >> e / 32 & 1 ? 0 : 4;

		out[e] = d * (float)scale_of_q3(scales, e / 16) * (float)(pair_of(q, e) - below);
	}
}

/* One of 8 scales and 8 minima of 6 bits in 12 bytes: those of the last four have their high two
 * bits in the bytes of the first four. */
static void find_scale_and_min(const unsigned char *bytes, int i, float *scale, float *min)
{
	const int low = i < 4;

	*scale = (float)(low ? bytes[i] & 63 : (bytes[i + 4] & 15) | (bytes[i - 4] >> 2 & 48));
	*min = (float)(low ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | (bytes[i] >> 2 & 48));
}

/* Q4_K, and with the fifth bits in `high` Q5_K. */
static void decode_q45_k(
    const unsigned char *block, const unsigned char *high, const unsigned char *q, float *out)
{
	const float d = half_at(block), dmin = half_at(block + 2);
	float scale, min;

	for (int i = 0; i < K / 32; i++) {
		find_scale_and_min(block + 4, i, &scale, &min);
		scale *= d;
		min *= dmin;
		for (int e = 0; e < 32; e++) {
			int value = q[i / 2 * 32 + e] >> 4 * (i % 2) & 15;

			if (high)
				value |= (high[e] >> i & 1) << 4;
			out[i * 32 + e] = scale * (float)value - min;
		}
	}
}

static void decode_q4_k(const unsigned char *block, float *out)
{
	decode_q45_k(block, NULL, block + 16, out);
}

static void decode_q5_k(const unsigned char *block, float *out)
{
	decode_q45_k(block, block + 16, block + 48, out);
}

static void decode_q6_k(const unsigned char *block, float *out)
{
	const unsigned char *low = block, *high = block + 128, *scales = block + 192;
	const float d = half_at(block + 208);

	for (int e = 0; e < K; e++) {
		const int q = low[e / 128 * 64 + e % 64] >> 4 * (e % 128 / 64) & 15;

		out[e] = d * (float)(signed char)scales[e / 16] *
		         (float)((q | pair_of(high, e) << 4) - 32);
	}
}

/* ---- the table ---- */

/* clang-format off */
static const struct gt_gguf_type types[] = {
	{ 0, "f32", 1, 4, GT_F32, NULL, NULL },
	{ 1, "f16", 1, 2, GT_F16, NULL, NULL },
	{ 30, "bf16", 1, 2, GT_BF16, NULL, NULL },
	{ 28, "f64", 1, 8, GT_F64, NULL, NULL },
	{ 24, "i8", 1, 1, GT_I8, NULL, NULL },
	{ 25, "i16", 1, 2, GT_I16, NULL, NULL },
	{ 26, "i32", 1, 4, GT_I32, NULL, NULL },
	{ 27, "i64", 1, 8, GT_I64, NULL, NULL },
	{ 2, "q4_0", SMALL, GT_Q4_0_BYTES, GT_F32, gt_decode_q4_0, gt_encode_q4_0 },
	{ 3, "q4_1", SMALL, 20, GT_F32, decode_q4_1, NULL },
	{ 6, "q5_0", SMALL, 22, GT_F32, decode_q5_0, NULL },
	{ 7, "q5_1", SMALL, 24, GT_F32, decode_q5_1, NULL },
	{ 8, "q8_0", SMALL, GT_Q8_0_BYTES, GT_F32, gt_decode_q8_0, gt_encode_q8_0 },
	{ 10, "q2_K", K, 84, GT_F32, decode_q2_k, NULL },
	{ 11, "q3_K", K, 110, GT_F32, decode_q3_k, NULL },
	{ 12, "q4_K", K, 144, GT_F32, decode_q4_k, NULL },
	{ 13, "q5_K", K, 176, GT_F32, decode_q5_k, NULL },
	{ 14, "q6_K", K, 210, GT_F32, decode_q6_k, NULL },
	/* refused by name */
	{ .id = 4, .name = "q4_2" }, { .id = 5, .name = "q4_3" }, { .id = 9, .name = "q8_1" },
	{ .id = 15, .name = "q8_K" }, { .id = 16, .name = "iq2_xxs" },
	{ .id = 17, .name = "iq2_xs" }, { .id = 18, .name = "iq3_xxs" },
	{ .id = 19, .name = "iq1_s" }, { .id = 20, .name = "iq4_nl" },
	{ .id = 21, .name = "iq3_s" }, { .id = 22, .name = "iq2_s" },
	{ .id = 23, .name = "iq4_xs" }, { .id = 29, .name = "iq1_m" },
	{ .id = 31, .name = "q4_0_4_4" }, { .id = 32, .name = "q4_0_4_8" },
	{ .id = 33, .name = "q4_0_8_8" }, { .id = 34, .name = "tq1_0" },
	{ .id = 35, .name = "tq2_0" }, { .id = 36, .name = "iq4_nl_4_4" },
	{ .id = 37, .name = "iq4_nl_4_8" }, { .id = 38, .name = "iq4_nl_8_8" },
	{ .id = 39, .name = "mxfp4" }, { .id = 40, .name = "nvfp4" }, { .id = 41, .name = "q1_0" },
};
/* clang-format on */

enum { TYPES = sizeof(types) / sizeof(*types) };

const struct gt_gguf_type *gt_gguf_type_of(uint32_t id)
{
	for (int i = 0; i < TYPES; i++)
		if (types[i].id == id)
			return &types[i];
	return NULL;
}

const struct gt_gguf_type *gt_gguf_type_named(const char *name)
{
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}
