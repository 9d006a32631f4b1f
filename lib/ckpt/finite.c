/* finite.c - whether numbers are finite, by their bits alone. */
#include "lib/ckpt/finite.h"

#include <stdint.h>
#include <string.h>

/*
 * What is not finite has all bits of its exponent set (float8_e4m3fn: and of its fraction). So the
 * lowest of these, added to the number without its sign, carries into the sign's place; and the
 * carries of many numbers can be collected without a branch.
 */
#define ALL_FINITE(name, type, lowest)                                                             \
	static bool name(const unsigned char *p, size_t n)                                         \
	{                                                                                          \
		const type sign = (type)((type)1 << (8 * sizeof(type) - 1));                       \
		type carries = 0;                                                                  \
                                                                                                   \
		for (size_t i = 0; i < n; i++) {                                                   \
			type x;                                                                    \
                                                                                                   \
			memcpy(&x, p + i * sizeof(x), sizeof(x));                                  \
			carries = (type)(carries | ((x & (type)~sign) + (lowest)));                \
		}                                                                                  \
		return !(carries & sign);                                                          \
	}

ALL_FINITE(finite_f64, uint64_t, UINT64_C(1) << 52)
ALL_FINITE(finite_f32, uint32_t, UINT32_C(1) << 23)
ALL_FINITE(finite_f16, uint16_t, 1 << 10)
ALL_FINITE(finite_bf16, uint16_t, 1 << 7)
ALL_FINITE(finite_e5m2, uint8_t, 1 << 2)
ALL_FINITE(finite_e4m3, uint8_t, 1)

bool gt_all_finite(enum gt_dtype dtype, const void *elements, size_t n)
{
	switch (dtype) {
	case GT_F64:
		return finite_f64(elements, n);
	case GT_C128:
		return finite_f64(elements, 2 * n);
	case GT_F32:
		return finite_f32(elements, n);
	case GT_C64:
		return finite_f32(elements, 2 * n);
	case GT_F16:
		return finite_f16(elements, n);
	case GT_BF16:
		return finite_bf16(elements, n);
	case GT_F8_E5M2:
		return finite_e5m2(elements, n);
	case GT_F8_E4M3:
		return finite_e4m3(elements, n);
	default: /* integers */
		return true;
	}
}
