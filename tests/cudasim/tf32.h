/* tf32.h - the rounding of float32 to TF32, as cvt.rna.tf32.f32 does it. */
#ifndef GT_TESTS_CUDASIM_TF32_H
#define GT_TESTS_CUDASIM_TF32_H

#include <stdint.h>
#include <string.h>

/*
 * TF32 has the 8 bits of exponent of float32 and the first 10 bits of its mantissa. Round to the
 * nearest, ties away from zero: the relative error is at most 2^-11. Infinities and NaN stay.
 * Source: PTX ISA, "Alternate Floating-Point Data Formats" and "cvt".
 */
static inline float cudasim_tf32(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if ((bits & 0x7f800000) != 0x7f800000)
		bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

#endif
