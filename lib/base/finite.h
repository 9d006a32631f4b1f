/* finite.h - check whether all numbers of an array are finite, using only integer operations. */
#ifndef GT_BASE_FINITE_H
#define GT_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* gt_finite_TYPE(p, n) returns whether none of the n numbers at p, which need not be aligned, is
 * NaN or infinite: the exponent (in e4m3 with the fraction) is all ones, so adding 1 at its lowest
 * bit carries into the cleared sign. There are no branches, and -ffast-math changes no integers. */
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
