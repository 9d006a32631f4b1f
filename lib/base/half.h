/* half.h - conversions between float and the 16-bit types float16 and bfloat16. */
#ifndef GT_BASE_HALF_H
#define GT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

/*
 * In the names of the functions below, f16 is the half precision of IEEE 754: 1 sign bit, 5 bits of
 * exponent, 10 bits of fraction. Its largest number is 65504, and its smallest positive number is
 * 2^-24. bf16 is bfloat16: the upper 16 bits of a float.
 *
 * A float is rounded once, to nearest even. A number that is too large becomes infinity, and a NaN
 * gets the same bits as in PyTorch (c10/util/BFloat16.h and c10/util/Half.h). The functions have no
 * branches: they compute all cases and select one. So the compiler can vectorise loops that call
 * them.
 */

/* gt_float_bits() returns the 32 bits of a float, gt_float_of_bits() the float with these bits. */
static inline uint32_t gt_float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float gt_float_of_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline uint16_t gt_bf16_of_float(float f)
{
	uint32_t u = gt_float_bits(f);
	uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;

	return (uint16_t)(f != f ? 0x7fc0 : rounded);
}

static inline float gt_float_of_bf16(uint16_t h)
{
	return gt_float_of_bits((uint32_t)h << 16);
}

/* The f16 numbers below 2^-14 are the multiples of 2^-24, and so are the float32 numbers between
 * 0.5 and 1. So adding 0.5 to a float below 2^-14 rounds it to a multiple of 2^-24. The bits of the
 * sum minus the bits of 0.5 are the bits of the f16 number (`subnormal`). */
static inline uint16_t gt_f16_of_float(float f)
{
	uint32_t u = gt_float_bits(f), a = u & 0x7fffffff;
	uint32_t subnormal = gt_float_bits(gt_float_of_bits(a) + 0.5f) - gt_float_bits(0.5f);
	uint32_t h = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;

	h = a < 0x38800000 ? subnormal : h; /* 2^-14 */
	h = a >= 0x47800000 ? 0x7c00 : h;   /* 65536 */
	h = a > 0x7f800000 ? 0x7e00 : h;    /* NaN */
	return (uint16_t)(h | (u >> 16 & 0x8000));
}

static inline float gt_float_of_f16(uint16_t h)
{
	uint32_t a = h & 0x7fff, u = (a << 13) + 0x38000000;

	u = a < 0x400 ? gt_float_bits((float)(int32_t)a * 0x1p-24f) : u;
	u = a >= 0x7c00 ? a << 13 | 0x7f800000 : u;
	return gt_float_of_bits(u | (uint32_t)(h & 0x8000) << 16);
}

#endif
