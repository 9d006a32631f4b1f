/* normals.c - standard normal numbers and uniform ones, drawn by vector instructions. */
#include "lib/base/normals.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/vphilox.h"

/*
 * The loops here are vectorized by the compiler, once per instruction set. All of them compute the
 * same bits: each operation is rounded by itself, and none is a function of the C library, whose
 * versions differ in the last bit.
 */
#define ALWAYS static inline __attribute__((always_inline))

/* (double)w, by a conversion of signed numbers, which all instruction sets have. */
ALWAYS double word_to_double(uint32_t w)
{
	return (double)(int32_t)(w ^ 0x80000000u) + 0x1p31;
}

/*
 * The logarithm of u in (0, 1], with an error below 2 units of the last place. u = m 2^e, with m in
 * (1 / sqrt 2, sqrt 2], and log m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.1716: the series
 * ends where a term is below 2^-56 of the first.
 */
ALWAYS double compute_log(double u)
{
	static const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
	uint64_t bits;
	double m, e, s, z, series;

	memcpy(&bits, &u, sizeof(bits));
	e = (double)((int32_t)(bits >> 52) - 1023);
	bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
	memcpy(&m, &bits, sizeof(m));
	e = m > 0x1.6a09e667f3bcdp+0 ? e + 1 : e;
	m = m > 0x1.6a09e667f3bcdp+0 ? m * 0.5 : m;
	s = (m - 1) / (m + 1);
	z = s * s;
	series = 1.0 / 21;
	series = series * z + 1.0 / 19;
	series = series * z + 1.0 / 17;
	series = series * z + 1.0 / 15;
	series = series * z + 1.0 / 13;
	series = series * z + 1.0 / 11;
	series = series * z + 1.0 / 9;
	series = series * z + 1.0 / 7;
	series = series * z + 1.0 / 5;
	series = series * z + 1.0 / 3;
	s = s + s;
	return e * ln2_high + (s + (s * (z * series) + e * ln2_low));
}

/* sin x for |x| <= pi / 4: Taylor's series up to x^17. */
ALWAYS double compute_sine(double x)
{
	double z = x * x, series = 1.0 / 355687428096000;

	series = series * z - 1.0 / 1307674368000;
	series = series * z + 1.0 / 6227020800;
	series = series * z - 1.0 / 39916800;
	series = series * z + 1.0 / 362880;
	series = series * z - 1.0 / 5040;
	series = series * z + 1.0 / 120;
	series = series * z - 1.0 / 6;
	return x + x * (z * series);
}

/* cos x for |x| <= pi / 4: Taylor's series up to x^18. */
ALWAYS double compute_cosine(double x)
{
	double z = x * x, series = -1.0 / 6402373705728000;

	series = series * z + 1.0 / 20922789888000;
	series = series * z - 1.0 / 87178291200;
	series = series * z + 1.0 / 479001600;
	series = series * z - 1.0 / 3628800;
	series = series * z + 1.0 / 40320;
	series = series * z - 1.0 / 720;
	series = series * z + 1.0 / 24;
	return 1 - (0.5 * z - z * z * series);
}

/*
 * Two normal numbers of two words: radius sqrt(-2 log u) for u in (0, 1), and an angle of v / 2^32
 * turns. The nearest quarter of a turn q is taken off v exactly, and turns the rest's cosine and
 * sine: q = 1 gives -sin and cos, q = 2 -cos and -sin, q = 3 sin and -cos.
 */
ALWAYS void convert_to_normals(
    const uint32_t word[restrict GT_VPHILOX_WORDS], float out[restrict GT_VPHILOX_WORDS])
{
	for (int i = 0; i < GT_VPHILOX_WORDS; i += 2) {
		double u = (word_to_double(word[i]) + 0.5) * 0x1p-32;
		double r = sqrt(-2.0 * compute_log(u));
		uint32_t v = word[i + 1], q = (v + 0x20000000u) >> 30;
		double x = (double)(int32_t)(v - (q << 30)) * (0x1.921fb54442d18p+2 * 0x1p-32);
		double sine = compute_sine(x), cosine = compute_cosine(x);
		double first = q & 1 ? -sine : cosine, second = q & 1 ? cosine : sine;

		out[i] = (float)(r * (q & 2 ? -first : first));
		out[i + 1] = (float)(r * (q & 2 ? -second : second));
	}
}

ALWAYS void convert_to_uniforms(
    const uint32_t word[restrict GT_VPHILOX_WORDS], float out[restrict GT_VPHILOX_WORDS])
{
	for (int i = 0; i < GT_VPHILOX_WORDS; i++)
		out[i] = gt_philox_float(word[i]);
}

ALWAYS void draw(const struct gt_philox_draw *d, int64_t count, float *out, bool normal)
{
	for (int64_t i = 0; i < count; i += GT_VPHILOX_WORDS) {
		uint32_t word[GT_VPHILOX_WORDS];
		float part[GT_VPHILOX_WORDS];
		int64_t some = count - i < GT_VPHILOX_WORDS ? count - i : GT_VPHILOX_WORDS;

		gt_vphilox(word, d->key, d->block + (uint64_t)i / 4, d->stream, d->step);
		if (normal)
			convert_to_normals(word, part);
		else
			convert_to_uniforms(word, part);
		memcpy(out + i, part, (size_t)some * sizeof(*out));
	}
}

/* The functions of an instruction set. */
struct draws {
	void (*normals)(const struct gt_philox_draw *d, int64_t count, float *out);
	void (*uniforms)(const struct gt_philox_draw *d, int64_t count, float *out);
};

#define DRAWS(set, attribute)                                                                      \
	attribute static void set##_normals(                                                       \
	    const struct gt_philox_draw *d, int64_t count, float *out)                             \
	{                                                                                          \
		draw(d, count, out, true);                                                         \
	}                                                                                          \
	attribute static void set##_uniforms(                                                      \
	    const struct gt_philox_draw *d, int64_t count, float *out)                             \
	{                                                                                          \
		draw(d, count, out, false);                                                        \
	}                                                                                          \
	static const struct draws set = { set##_normals, set##_uniforms };

/* clang has the width of vectors as an option of whole files alone. */
#ifdef __clang__
#define AVX512 "avx512f,avx512dq,avx512vl"
#else
#define AVX512 "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif

DRAWS(base, )
#ifdef __x86_64__
DRAWS(avx2, __attribute__((target("avx2"))))
DRAWS(avx512, __attribute__((target(AVX512))))
#endif

static const struct draws *choose_draws(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return &avx512;
	if (__builtin_cpu_supports("avx2"))
		return &avx2;
#endif
	return &base;
}

void gt_draw_normals(const struct gt_philox_draw *d, int64_t count, float *out)
{
	choose_draws()->normals(d, count, out);
}

void gt_draw_uniforms(const struct gt_philox_draw *d, int64_t count, float *out)
{
	choose_draws()->uniforms(d, count, out);
}
