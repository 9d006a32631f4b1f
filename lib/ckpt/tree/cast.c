/* cast.c - runs of elements, from one type to another, and as numbers. */
#include "lib/ckpt/tree/cast.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/finite.h"
#include "lib/base/half.h"

/* ---- rounding ---- */

/*
 * A double as the float next to it whose last bit is 1 if anything was lost ("round to odd"):
 * rounding that to a shorter format then equals a single rounding of the double.
 * Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008.
 */
static float round_to_odd(double d)
{
	float f = (float)d;
	uint32_t u = gt_float_bits(f);

	if (d != d || (double)f == d || (u & 1))
		return f;
	return gt_float_of_bits(__builtin_fabs((double)f) < __builtin_fabs(d) ? u + 1 : u - 1);
}

/* The float8 formats. Codes are those of positive numbers. */
struct small {
	unsigned exponent_bits, fraction_bits;
	uint8_t over; /* the code past the largest number: infinity, or NaN where there is none */
	uint8_t nan;  /* PyTorch's */
};

static const struct small f8_e5m2 = { 5, 2, 0x7c, 0x7f };
static const struct small f8_e4m3 = { 4, 3, 0x7f, 0x7f };

/* The difference between the exponent bias of float and that of the format. */
static uint32_t rebias(const struct small *s)
{
	return 127 - ((1u << (s->exponent_bits - 1)) - 1);
}

/* Below its smallest normal number a format counts in equal steps: adding the power of two whose
 * last place, as a float, is that step rounds to it. */
static uint8_t to_small(const struct small *s, double d)
{
	float f = round_to_odd(d);
	uint32_t drop = 23 - s->fraction_bits, least = rebias(s) + 1, a = gt_float_bits(f), code;
	uint8_t sign = (uint8_t)(a >> 31 << (s->exponent_bits + s->fraction_bits));

	a &= 0x7fffffff;
	if (d != d)
		return sign | s->nan;
	if (a < least << 23) {
		float magic = gt_float_of_bits((least + drop) << 23);

		return sign |
		       (uint8_t)(gt_float_bits(gt_float_of_bits(a) + magic) - gt_float_bits(magic));
	}
	a += (1u << (drop - 1)) - 1 + (a >> drop & 1);
	code = (a - (rebias(s) << 23)) >> drop;
	return sign | (uint8_t)(code < s->over ? code : s->over);
}

static double from_small(const struct small *s, uint8_t bits)
{
	uint32_t sign = 1u << (s->exponent_bits + s->fraction_bits), code = bits & (sign - 1);
	uint32_t drop = 23 - s->fraction_bits;
	double magnitude;

	if (code >= s->over)
		magnitude =
		    code == s->over && s->over != s->nan ? __builtin_inf() : __builtin_nan("");
	else if (code >> s->fraction_bits)
		magnitude = gt_float_of_bits((code << drop) + (rebias(s) << 23));
	else
		magnitude =
		    code * (double)gt_float_of_bits((rebias(s) + 1 - s->fraction_bits) << 23);
	return bits & sign ? -magnitude : magnitude;
}

/* ---- runs of elements: gather, convert, store ---- */

enum { RUN = 512 }; /* elements converted at a time */

enum gt_cast_kind gt_cast_kind(enum gt_dtype dtype)
{
	if (gt_dtype_is_float(dtype))
		return GT_CAST_REAL;
	if (dtype >= GT_RAW8 && dtype <= GT_RAW64)
		return GT_CAST_RAW;
	return dtype == GT_C64 || dtype == GT_C128 ? GT_CAST_COMPLEX : GT_CAST_INTEGER;
}

/* for each i < n: *(TYPE *)p -> out[i]; memcpy, as nothing from a file is aligned */
#define LOAD_EACH(TYPE, EXPRESSION)                                                                \
	for (size_t i = 0; i < n; i++) {                                                           \
		TYPE x;                                                                            \
		memcpy(&x, (const unsigned char *)p + i * sizeof(x), sizeof(x));                   \
		out[i] = (EXPRESSION);                                                             \
	}                                                                                          \
	break

#define STORE_EACH(TYPE, EXPRESSION)                                                               \
	for (size_t i = 0; i < n; i++) {                                                           \
		TYPE x = (EXPRESSION);                                                             \
		memcpy((unsigned char *)p + i * sizeof(x), &x, sizeof(x));                         \
	}                                                                                          \
	break

static void load_floats(enum gt_dtype dtype, const void *p, size_t n, double *out)
{
	switch (dtype) {
	case GT_F64:
		LOAD_EACH(double, x);
	case GT_F16:
		LOAD_EACH(uint16_t, (double)gt_float_of_f16(x));
	case GT_BF16:
		LOAD_EACH(uint16_t, (double)gt_float_of_bf16(x));
	case GT_F8_E4M3:
		LOAD_EACH(uint8_t, from_small(&f8_e4m3, x));
	case GT_F8_E5M2:
		LOAD_EACH(uint8_t, from_small(&f8_e5m2, x));
	default:
		LOAD_EACH(float, x);
	}
}

static void store_floats(enum gt_dtype dtype, void *p, size_t n, const double *in)
{
	switch (dtype) {
	case GT_F64:
		STORE_EACH(double, in[i]);
	case GT_F16:
		STORE_EACH(uint16_t, gt_f16_of_float(round_to_odd(in[i])));
	case GT_BF16:
		STORE_EACH(uint16_t, gt_bf16_of_float(round_to_odd(in[i])));
	case GT_F8_E4M3:
		STORE_EACH(uint8_t, to_small(&f8_e4m3, in[i]));
	case GT_F8_E5M2:
		STORE_EACH(uint8_t, to_small(&f8_e5m2, in[i]));
	default:
		STORE_EACH(float, (float)in[i]);
	}
}

/* uint64 comes as int64: a value above INT64_MAX looks negative (see check_range()). */
static void load_ints(enum gt_dtype dtype, const void *p, size_t n, int64_t *out)
{
	switch (dtype) {
	case GT_I64:
	case GT_U64:
		LOAD_EACH(int64_t, x);
	case GT_I32:
		LOAD_EACH(int32_t, x);
	case GT_U32:
		LOAD_EACH(uint32_t, x);
	case GT_I16:
		LOAD_EACH(int16_t, x);
	case GT_U16:
		LOAD_EACH(uint16_t, x);
	case GT_I8:
		LOAD_EACH(int8_t, x);
	case GT_BOOL:
		LOAD_EACH(uint8_t, x != 0);
	default:
		LOAD_EACH(uint8_t, x);
	}
}

static void store_ints(enum gt_dtype dtype, void *p, size_t n, const int64_t *in)
{
	switch (dtype) {
	case GT_I64:
	case GT_U64:
		STORE_EACH(int64_t, in[i]);
	case GT_I32:
		STORE_EACH(int32_t, (int32_t)in[i]);
	case GT_U32:
		STORE_EACH(uint32_t, (uint32_t)in[i]);
	case GT_I16:
		STORE_EACH(int16_t, (int16_t)in[i]);
	case GT_U16:
		STORE_EACH(uint16_t, (uint16_t)in[i]);
	default:
		STORE_EACH(uint8_t, (uint8_t)in[i]);
	}
}

static const struct {
	int64_t low, high;
} ranges[GT_DTYPE_COUNT] = {
	[GT_I64] = { INT64_MIN, INT64_MAX },
	[GT_I32] = { INT32_MIN, INT32_MAX },
	[GT_I16] = { INT16_MIN, INT16_MAX },
	[GT_I8] = { INT8_MIN, INT8_MAX },
	[GT_U64] = { 0, INT64_MAX },
	[GT_U32] = { 0, UINT32_MAX },
	[GT_U16] = { 0, UINT16_MAX },
	[GT_U8] = { 0, UINT8_MAX },
	[GT_BOOL] = { 0, 1 },
};

static int check_range(
    enum gt_dtype from, enum gt_dtype to, size_t n, const int64_t *in, struct gt_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (from == GT_U64 && in[i] < 0)
			return gt_err_set(err, GT_EINVAL, "the value %llu does not fit %s",
			    (unsigned long long)in[i], gt_dtype_name(to));
		if (in[i] < ranges[to].low || in[i] > ranges[to].high)
			return gt_err_set(err, GT_EINVAL, "the value %lld does not fit %s",
			    (long long)in[i], gt_dtype_name(to));
	}
	return 0;
}

/* ---- between f32 and the short floats: the commonest conversions ---- */

#define EACH(FROM, TO, EXPRESSION)                                                                 \
	for (size_t i = 0; i < n; i++) {                                                           \
		FROM x;                                                                            \
		TO y;                                                                              \
		memcpy(&x, (const unsigned char *)src + i * sizeof(x), sizeof(x));                 \
		y = (EXPRESSION);                                                                  \
		memcpy((unsigned char *)dst + i * sizeof(y), &y, sizeof(y));                       \
	}

typedef void cast_run(const void *restrict src, void *restrict dst, size_t n);

static void f32_to_bf16(const void *restrict src, void *restrict dst, size_t n)
{
	EACH(float, uint16_t, gt_bf16_of_float(x))
}

static void f32_to_f16(const void *restrict src, void *restrict dst, size_t n)
{
	EACH(float, uint16_t, gt_f16_of_float(x))
}

static void bf16_to_f32(const void *restrict src, void *restrict dst, size_t n)
{
	EACH(uint16_t, float, gt_float_of_bf16(x))
}

static void f16_to_f32(const void *restrict src, void *restrict dst, size_t n)
{
	EACH(uint16_t, float, gt_float_of_f16(x))
}

static cast_run *const direct[GT_DTYPE_COUNT][GT_DTYPE_COUNT] = {
	[GT_F32] = { [GT_BF16] = f32_to_bf16, [GT_F16] = f32_to_f16 },
	[GT_BF16] = { [GT_F32] = bf16_to_f32 },
	[GT_F16] = { [GT_F32] = f16_to_f32 },
};

/* ---- the whole ---- */

bool gt_cast_supported(enum gt_dtype from, enum gt_dtype to)
{
	enum gt_cast_kind kind = gt_cast_kind(to);

	return from == to ||
	       (gt_cast_kind(from) == kind && kind != GT_CAST_COMPLEX && kind != GT_CAST_RAW);
}

/* By way of the widest type, at most RUN elements. */
static int cast_wide(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err)
{
	union {
		double real[RUN];
		int64_t integer[RUN];
	} run;
	int rc;

	if (gt_cast_kind(to) == GT_CAST_REAL) {
		load_floats(from, src, n, run.real);
		store_floats(to, dst, n, run.real);
		return 0;
	}
	load_ints(from, src, n, run.integer);
	rc = check_range(from, to, n, run.integer, err);
	if (!rc)
		store_ints(to, dst, n, run.integer);
	return rc;
}

/*
 * Convert n elements from the type `from` to the type `to`. src and dst have no gaps between
 * elements, may have any alignment, and must not overlap. Elements are in the byte order of the
 * host. Floats are rounded once, to nearest even. A number that is too large for `to` becomes
 * infinity, or NaN in float8_e4m3fn, which has no infinity. PyTorch does the same
 * (c10/util/Float8_e4m3fn.h); OCP's "8-bit Floating Point Specification", 1.0, section 5.2, calls
 * this "non-saturating". Of the integers, only 0 and 1 can be converted to bool.
 * Errors: GT_EINVAL for an integer that does not fit into `to`; GT_ENOTSUP if gt_cast_supported()
 * returns false.
 */
int gt_cast(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err)
{
	int rc = 0;

	if (!gt_cast_supported(from, to))
		return gt_err_set(err, GT_ENOTSUP, "cannot read a tensor of %s as %s",
		    gt_dtype_name(from), gt_dtype_name(to));
	if (from == to) {
		memcpy(dst, src, n * gt_dtype_size(to));
		return 0;
	}
	if (direct[from][to]) {
		direct[from][to](src, dst, n);
		return 0;
	}
	for (size_t done = 0; !rc && done < n; done += RUN)
		rc = cast_wide(from, (const unsigned char *)src + done * gt_dtype_size(from), to,
		    (unsigned char *)dst + done * gt_dtype_size(to),
		    n - done < RUN ? n - done : RUN, err);
	return rc;
}

/* ---- as numbers ---- */

void gt_cast_real(enum gt_dtype from, const void *src, size_t n, double *out)
{
	int64_t whole[RUN];

	if (gt_cast_kind(from) == GT_CAST_REAL)
		load_floats(from, src, n, out);
	else if (gt_cast_kind(from) == GT_CAST_COMPLEX)
		load_floats(from == GT_C64 ? GT_F32 : GT_F64, src, 2 * n, out);
	else
		for (size_t done = 0, m; done < n; done += m) {
			m = n - done < RUN ? n - done : RUN;
			load_ints(from, (const unsigned char *)src + done * gt_dtype_size(from), m,
			    whole);
			for (size_t i = 0; i < m; i++)
				out[done + i] =
				    from == GT_U64 ? (double)(uint64_t)whole[i] : (double)whole[i];
		}
}

void gt_cast_integer(enum gt_dtype from, const void *src, size_t n, int64_t *out)
{
	load_ints(from, src, n, out);
	for (size_t i = 0; from == GT_U64 && i < n; i++)
		out[i] ^= INT64_MIN;
}

bool gt_cast_finite(enum gt_dtype dtype, const void *elements, size_t n)
{
	switch (dtype) {
	case GT_F64:
		return gt_finite_f64(elements, n);
	case GT_C128:
		return gt_finite_f64(elements, 2 * n);
	case GT_F32:
		return gt_finite_f32(elements, n);
	case GT_C64:
		return gt_finite_f32(elements, 2 * n);
	case GT_F16:
		return gt_finite_f16(elements, n);
	case GT_BF16:
		return gt_finite_bf16(elements, n);
	case GT_F8_E5M2:
		return gt_finite_e5m2(elements, n);
	case GT_F8_E4M3:
		return gt_finite_e4m3(elements, n);
	default: /* integers */
		return true;
	}
}

/* Infinities have all bits of the exponent and no other but the sign. */
#define INFINITE(type, bits)                                                                       \
	for (size_t i = 0; i < n; i++) {                                                           \
		type x;                                                                            \
		memcpy(&x, (const unsigned char *)elements + i * sizeof(x), sizeof(x));            \
		found += (type)(x << 1) == (type)((bits) << 1);                                    \
	}                                                                                          \
	break

size_t gt_cast_infinite(enum gt_dtype dtype, const void *elements, size_t n)
{
	size_t found = 0;

	switch (dtype) {
	case GT_F8_E5M2:
		INFINITE(uint8_t, 0x7c);
	case GT_F16:
		INFINITE(uint16_t, 0x7c00);
	case GT_BF16:
		INFINITE(uint16_t, 0x7f80);
	case GT_F32:
		INFINITE(uint32_t, 0x7f800000u);
	case GT_F64:
		INFINITE(uint64_t, 0x7ff0000000000000u);
	default:
		break;
	}
	return found;
}
