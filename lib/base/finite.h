/* finite.h - check whether all numbers of an array are finite, using only integer operations. */
#ifndef GT_BASE_FINITE_H
#define GT_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * gt_finite_TYPE(p, n) returns true if none of the n numbers at p is NaN or infinite. The numbers
 * are contiguous, in the byte order of this machine, and need not be aligned. The functions are so
 * fast that the time to read the memory is the limit.
 *
 * A number is not finite if a group of its bits is all ones: the exponent, or, in float8_e4m3fn,
 * the exponent and the fraction. The function clears the sign, and adds 1 at the lowest bit of this
 * group. The carry reaches the sign bit only if the number is not finite. The sums of all numbers
 * are combined by OR, so the loop has no branch. All operations are on integers, so compiler
 * options such as -ffast-math do not change the result.
 *
 * GT_ALL_FINITE() defines one function. `type` is an unsigned integer of the same size as a number,
 * and `lowest` is the value of the bit at which 1 is added.
 */
#define GT_ALL_FINITE(name, type, lowest)                                                          \
	static inline bool name(const void *p, size_t n)                                           \
	{                                                                                          \
		const type sign = (type)((type)1 << (8 * sizeof(type) - 1));                       \
		type carries = 0;                                                                  \
                                                                                                   \
		for (size_t i = 0; i < n; i++) {                                                   \
			type x;                                                                    \
                                                                                                   \
			memcpy(&x, (const unsigned char *)p + i * sizeof(x), sizeof(x));           \
			carries = (type)(carries | ((x & (type)~sign) + (lowest)));                \
		}                                                                                  \
		return !(carries & sign);                                                          \
	}

GT_ALL_FINITE(gt_finite_f64, uint64_t, UINT64_C(1) << 52)
GT_ALL_FINITE(gt_finite_f32, uint32_t, UINT32_C(1) << 23)
GT_ALL_FINITE(gt_finite_f16, uint16_t, 1 << 10)
GT_ALL_FINITE(gt_finite_bf16, uint16_t, 1 << 7)
GT_ALL_FINITE(gt_finite_e5m2, uint8_t, 1 << 2)
GT_ALL_FINITE(gt_finite_e4m3, uint8_t, 1)

#endif
