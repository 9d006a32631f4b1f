/* vmath.h - exp, log, tanh, erf, sin, cos, ... in float32, in a form that compilers vectorize. */
#ifndef GT_KERNELS_CPU_VMATH_H
#define GT_KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/*
 * The functions have no branches, tables or calls, so compilers can vectorize loops that call them.
 * They return limits for infinite arguments, and NaN for NaN. gt_vlog() returns NaN for negative
 * arguments, gt_vexp() may return subnormals. Largest errors in ULP (tests/unit/test_vmath.c):
 *
 *   gt_vexp 1.0    gt_vlog 1.1    gt_vtanh 2.5    gt_verf 1.5    gt_vexpm1 2.0    gt_vlog1p 2.0
 *
 * The error of gt_vsin and gt_vcos is at most 2e-7, and at most 2 ULP where |x| < 1; for |x| > 2^30
 * they return some number in [-1, 1].
 *
 * The comment beside a polynomial is the function that it approximates; the coefficients are
 * gtrain's own minimax fits.
 */

/* always inlined, so that loops can be vectorized */
#define GT_VMATH static inline __attribute__((always_inline, unused))

GT_VMATH float gt_float_of(int32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

GT_VMATH int32_t gt_bits_of(float x)
{
	int32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* A number for rounding: gt_bits_of(x + GT_ROUNDER) - gt_bits_of(GT_ROUNDER) is the integer nearest
 * to x, if |x| < 2^22. */
#define GT_ROUNDER 0x1.8p23f
/* The sum of both is log 2. GT_LN2_HIGH has few bits: its product with an exponent is exact. */
#define GT_LN2_HIGH 0x1.62e4p-1f
#define GT_LN2_LOW  0x1.7f7d1cp-20f

/* Split x into *n * log(2) + r, where |r| <= log(2) / 2. Return e^r - 1. */
GT_VMATH float gt_vexp_reduce(float x, int32_t *n)
{
	float t = x * 0x1.715476p0f + GT_ROUNDER;
	float k = t - GT_ROUNDER;
	float r = (x - k * GT_LN2_HIGH) - k * GT_LN2_LOW;
	float q = 0.00138131433f; /* (e^r - 1 - r) / r^2 */

	q = q * r + 0.00836941895f;
	q = q * r + 0.0416684568f;
	q = q * r + 0.166665148f;
	q = q * r + 0.499999931f;
	*n = gt_bits_of(t) - gt_bits_of(GT_ROUNDER);
	return r * r * q + r;
}

/* Return 2^n for -126 <= n <= 127. */
GT_VMATH float gt_power_of_two(int32_t n)
{
	return gt_float_of((int32_t)(((uint32_t)n + 127u) << 23));
}

GT_VMATH float gt_vexp(float x)
{
	float r;
	int32_t n;

	x = x > 89.0f ? 89.0f : x;
	x = x < -104.0f ? -104.0f : x;
	r = gt_vexp_reduce(x, &n);
	/* Multiply twice, because 2^n itself may be outside the range of float. If x is NaN, then r
	 * is NaN, and the value of n does not matter. */
	return (1.0f + r) * gt_power_of_two(n >> 1) * gt_power_of_two(n - (n >> 1));
}

GT_VMATH float gt_vlog(float x)
{
	float scaled = x < 0x1p-126f ? x * 0x1p23f : x; /* makes subnormals normal */
	uint32_t bits = (uint32_t)gt_bits_of(scaled);
	/* scaled = 2^n * (1 + f), where 1 + f is in [sqrt(1/2), sqrt(2)) */
	int32_t n = (int32_t)(bits - 0x3f3504f3u) >> 23;
	float f, k, p, y;

	f = gt_float_of((int32_t)(bits - ((uint32_t)n << 23))) - 1.0f;
	k = (float)n - (x < 0x1p-126f ? 23.0f : 0.0f);
	p = -0.076344601f; /* (log(1 + f) - f + f^2 / 2) / f^3 */
	p = p * f + 0.127615625f;
	p = p * f - 0.131601893f;
	p = p * f + 0.142017604f;
	p = p * f - 0.166233569f;
	p = p * f + 0.200012268f;
	p = p * f - 0.25000821f;
	p = p * f + 0.333333317f;
	y = f * f * (p * f - 0.5f) + k * GT_LN2_LOW;
	y = k * GT_LN2_HIGH + (f + y);
	y = x < INFINITY ? y : x; /* log x = x for infinity and NaN */
	y = x == 0.0f ? -INFINITY : y;
	return x < 0.0f ? NAN : y;
}

GT_VMATH float gt_vtanh(float x)
{
	float a = fabsf(x), e, scale;
	int32_t n;

	/* tanh a = (e^(2a) - 1) / (e^(2a) + 1). Compute e^(2a) - 1 directly: to round e^(2a)
	 * before the subtraction would lose the digits of a small a. */
	a = a > 10.0f ? 10.0f : a;
	e = gt_vexp_reduce(2.0f * a, &n);
	scale = gt_power_of_two(n);
	e = e * scale + (scale - 1.0f);
	return copysignf(e / (e + 2.0f), x);
}

GT_VMATH float gt_verf(float x)
{
	float a = fabsf(x), z = x * x, s, l;

	a = a > 4.0f ? 4.0f : a;
	s = -0.000611129287f; /* for a < 0.9: erf(x) / x - 1, as a polynomial in x^2 */
	s = s * z + 0.00501622854f;
	s = s * z - 0.026781957f;
	s = s * z + 0.1128223f;
	s = s * z - 0.376125324f;
	s = s * z + 0.128379155f;
	s = s * x + x;
	l = 0.000198280551f; /* for a >= 0.9: log(1 - erf(a)), as a polynomial in a */
	l = l * a - 0.00306630615f;
	l = l * a + 0.0223193857f;
	l = l * a - 0.104124321f;
	l = l * a - 0.636961642f;
	l = l * a - 1.1278072f;
	l = l * a - 0.000163708085f;
	l = copysignf(1.0f - gt_vexp(l), x);
	return a < 0.9f ? s : l;
}

/* Return e^x - 1 without losing the digits of a small x. */
GT_VMATH float gt_vexpm1(float x)
{
	float r, high, low;
	int32_t n;

	x = x > 89.0f ? 89.0f : x;
	x = x < -30.0f ? -30.0f : x;
	r = gt_vexp_reduce(x, &n);
	/* (1 + r) * high * low - 1, where high * low = 2^n may be outside the range of float */
	high = gt_power_of_two(n >> 1);
	low = gt_power_of_two(n - (n >> 1));
	return (r * high + (high - gt_power_of_two((n >> 1) - n))) * low;
}

/* Return log(1 + x): the logarithm of the rounded sum, and a term for the digits that it lost. */
GT_VMATH float gt_vlog1p(float x)
{
	float u = 1.0f + x, lost = x - (u - 1.0f), y = gt_vlog(u);

	return u > 0 && u < INFINITY ? y + lost / u : y;
}

/* Return sin(x + quarters * pi / 2). x = n * pi / 2 + r is reduced in double, with pi / 2 as a sum
 * of two numbers, the first of which has 33 bits. */
GT_VMATH float gt_vsin_quarters(float x, int64_t quarters)
{
	const double rounder = 0x1.8p52;
	double t = (double)x * 0x1.45f306dc9c883p-1 + rounder, k = t - rounder;
	float r = (float)(((double)x - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34);
	float z, s, c, y;
	int64_t n;

	r = r > 0.8f ? 0.8f : r; /* where |x| > 2^30 */
	r = r < -0.8f ? -0.8f : r;
	z = r * r;
	memcpy(&n, &t, sizeof(n));
	n += quarters;
	s = r + r * z * (-0.16666655f + z * (0.008332176f - z * 0.00019516978f));
	c = 1.0f - 0.5f * z + z * z * (0.041666646f + z * (-0.0013887364f + z * 2.443809e-05f));
	y = n & 1 ? c : s;
	return n & 2 ? -y : y;
}

GT_VMATH float gt_vsin(float x)
{
	return gt_vsin_quarters(x, 0);
}

GT_VMATH float gt_vcos(float x)
{
	return gt_vsin_quarters(x, 1);
}

#endif
