/* vmath_exp.h - exp() without branches, so that loops over it become vector code. */
#ifndef GT_KERNELS_CPU_VMATH_EXP_H
#define GT_KERNELS_CPU_VMATH_EXP_H

#include <stdint.h>
#include <string.h>

/*
 * e^x within 2 units in the last place where the result is normal; 0 below -87.33 (results that would be
 * subnormal and -inf), inf above 88.72, NaN for NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by the Taylor polynomial of degree 7, whose remainder there
 * (r^8 / 8!) is below 6e-9. ln 2 is taken off in two pieces, the first with 9 trailing zero bits, so that
 * n * LN2_HIGH is exact (Cody and Waite, "Software manual for the elementary functions", 1980). 2^n is
 * made in two factors, as n reaches 128.
 */
static inline float gt_expf(float x)
{
	const float ROUND = 0x1.8p23f; /* adding it rounds to an integer, kept in the low bits */
	const float LN2_HIGH = 0x1.62e4p-1f, LN2_LOW = 0x1.7f7d1cp-20f;
	float clamped = x > 89.0f ? 89.0f : x; /* NaN stays */
	float shifted, n, r, e, half1, half2;
	int32_t bits, n1, n2;

	clamped = clamped < -88.0f ? -88.0f : clamped;
	shifted = clamped * 0x1.715476p+0f + ROUND;
	n = shifted - ROUND;
	r = clamped - n * LN2_HIGH;
	r = r - n * LN2_LOW;
	e = 1.0f / 5040;
	e = e * r + 1.0f / 720;
	e = e * r + 1.0f / 120;
	e = e * r + 1.0f / 24;
	e = e * r + 1.0f / 6;
	e = e * r + 0.5f;
	e = e * r + 1.0f;
	e = e * r + 1.0f;
	memcpy(&bits, &shifted, sizeof(bits));
	bits -= 0x4B400000; /* of ROUND: what is left is n */
	n1 = bits >> 1;
	n2 = bits - n1;
	n1 = (int32_t)((uint32_t)(n1 + 127) << 23);
	n2 = (int32_t)((uint32_t)(n2 + 127) << 23);
	memcpy(&half1, &n1, sizeof(half1));
	memcpy(&half2, &n2, sizeof(half2));
	e = e * half1 * half2;
	return x < -0x1.5d58ap+6f ? 0.0f : e;
}

#endif
