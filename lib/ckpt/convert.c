/* convert.c - elements of one type as elements of another: rounding, ranges. */
#include <stdint.h>
#include <string.h>

#include "lib/ckpt/convert.h"

/* ---- rounding ---- */

static uint32_t float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static float bits_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/*
 * A double as the float next to it whose last bit is 1 if anything was lost ("round to odd"):
 * rounding that to a shorter format then gives what one rounding of the double would.
 * Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008.
 */
static float round_to_odd(double d)
{
	float f = (float)d;
	uint32_t u = float_bits(f);

	if (d != d || (double)f == d || (u & 1))
		return f;
	return bits_float(__builtin_fabs((double)f) < __builtin_fabs(d) ? u + 1 : u - 1);
}

static uint16_t to_bf16(double d)
{
	uint32_t u = float_bits(round_to_odd(d));

	if (d != d)
		return 0x7fc0; /* PyTorch's NaN: c10/util/BFloat16.h */
	return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* The formats shorter than a float in exponent too. Codes are those of positive numbers. */
struct small {
	unsigned exponent_bits, fraction_bits;
	uint16_t over; /* the code past the largest number: infinity, or NaN where there is none */
	uint16_t nan;  /* PyTorch's */
};

static const struct small f16 = { 5, 10, 0x7c00, 0x7e00 };
static const struct small f8_e5m2 = { 5, 2, 0x7c, 0x7f };
static const struct small f8_e4m3 = { 4, 3, 0x7f, 0x7f };

/* What an exponent field of a float has to lose to become one of the format. */
static uint32_t rebias(const struct small *s)
{
	return 127 - ((1u << (s->exponent_bits - 1)) - 1);
}

/* Below its smallest normal number a format counts in equal steps: adding the power of two whose
 * last place, as a float, is that step rounds to it. */
static uint16_t to_small(const struct small *s, double d)
{
	float f = round_to_odd(d);
	uint32_t drop = 23 - s->fraction_bits, least = rebias(s) + 1, a = float_bits(f), code;
	uint16_t sign = (uint16_t)(a >> 31 << (s->exponent_bits + s->fraction_bits));

	a &= 0x7fffffff;
	if (d != d)
		return sign | s->nan;
	if (a < least << 23) {
		float magic = bits_float((least + drop) << 23);

		return sign | (uint16_t)(float_bits(bits_float(a) + magic) - float_bits(magic));
	}
	a += (1u << (drop - 1)) - 1 + (a >> drop & 1);
	code = (a - (rebias(s) << 23)) >> drop;
	return sign | (uint16_t)(code < s->over ? code : s->over);
}

static double from_small(const struct small *s, uint16_t bits)
{
	uint32_t sign = 1u << (s->exponent_bits + s->fraction_bits), code = bits & (sign - 1);
	uint32_t drop = 23 - s->fraction_bits;
	double magnitude;

	if (code >= s->over)
		magnitude =
		    code == s->over && s->over != s->nan ? __builtin_inf() : __builtin_nan("");
	else if (code >> s->fraction_bits)
		magnitude = bits_float((code << drop) + (rebias(s) << 23));
	else
		magnitude = code * (double)bits_float((rebias(s) + 1 - s->fraction_bits) << 23);
	return bits & sign ? -magnitude : magnitude;
}

/* ---- families ---- */

enum family { FAMILY_FLOAT, FAMILY_INT, FAMILY_COMPLEX };

static enum family family_of(enum gt_dtype dtype)
{
	if (gt_dtype_is_float(dtype))
		return FAMILY_FLOAT;
	return dtype == GT_C64 || dtype == GT_C128 ? FAMILY_COMPLEX : FAMILY_INT;
}

bool gt_convert_is_possible(enum gt_dtype from, enum gt_dtype to)
{
	return from == to || (family_of(from) == family_of(to) && family_of(to) != FAMILY_COMPLEX);
}

/* ---- runs of elements: load, store ---- */

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
		LOAD_EACH(uint16_t, from_small(&f16, x));
	case GT_BF16:
		LOAD_EACH(uint16_t, bits_float((uint32_t)x << 16));
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
		STORE_EACH(uint16_t, to_small(&f16, in[i]));
	case GT_BF16:
		STORE_EACH(uint16_t, to_bf16(in[i]));
	case GT_F8_E4M3:
		STORE_EACH(uint8_t, (uint8_t)to_small(&f8_e4m3, in[i]));
	case GT_F8_E5M2:
		STORE_EACH(uint8_t, (uint8_t)to_small(&f8_e5m2, in[i]));
	default:
		STORE_EACH(float, (float)in[i]);
	}
}

/* uint64 comes as int64: what is above INT64_MAX looks negative (see check_range()). */
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

int gt_convert_run(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err)
{
	union {
		double real[GT_CONVERT_RUN];
		int64_t integer[GT_CONVERT_RUN];
	} run;
	int rc = 0;

	if (from == to) {
		memcpy(dst, src, n * gt_dtype_size(to));
	} else if (family_of(to) == FAMILY_FLOAT) {
		load_floats(from, src, n, run.real);
		store_floats(to, dst, n, run.real);
	} else {
		load_ints(from, src, n, run.integer);
		rc = check_range(from, to, n, run.integer, err);
		if (!rc)
			store_ints(to, dst, n, run.integer);
	}
	return rc;
}
