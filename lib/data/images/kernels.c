/* kernels.c - the arithmetic of resizing: plain C, SSE2 and AVX2, with the same results. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/images/resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * Vectors multiply integers of 16 bits and add pairs of the products (pmaddwd). A weight has 22
 * bits, and is divided for that:
 *
 *   weight = high * 2^15 + low,   0 <= high < 2^7,   0 <= low < 2^15
 *   sum of pixel * weight = (sum of pixel * high) * 2^15 + (sum of pixel * low)
 *
 * All of it is whole numbers, so nothing is rounded on the way. The weights of an output add up to
 * 2^22 or a little more, hence the first sum is below 2^15 and the second below 2^31.
 */
enum { LOW_BITS = 15, LOW_MASK = (1 << LOW_BITS) - 1, HALF = 1 << (GT_WEIGHT_BITS - 1) };

/*
 * Across, outputs are taken in groups of 8, and their taps in quads. Vector v of a group has output
 * v in its low 128 bits and output v + 4 in its high ones: 8 numbers, which are the weights of two
 * taps, [a b a b a b a b], for red, green, blue and nothing. A quad has 4 such vectors:
 *
 *   [low 0 and 1] [high 0 and 1] [low 2 and 3] [high 2 and 3]
 */
enum { GROUP = 8, VECTORS = 4, LANES = 2, NUMBERS = 8, QUAD = 4 * LANES * NUMBERS };

static size_t packed_filter_place(int output)
{
	size_t group = (size_t)output / GROUP, in_group = (size_t)output % GROUP;

	return (group * VECTORS + in_group % VECTORS) * LANES + in_group / VECTORS;
}

static void pack_tap(const struct gt_filter *f, int output, int tap)
{
	int32_t weight = f->weights[(size_t)output * (size_t)f->max_taps + (size_t)tap];
	size_t vector = packed_filter_place(output) / LANES,
	       lane = packed_filter_place(output) % LANES;
	int16_t *to = f->quad_weights + (vector * (size_t)f->quads + (size_t)tap / 4) * QUAD;

	to += (size_t)(tap % 4 / 2 * 2 * LANES + (int)lane) * NUMBERS;
	for (int i = tap % 2; i < NUMBERS; i += 2) {
		to[i] = (int16_t)(weight & LOW_MASK);
		to[LANES * NUMBERS + i] = (int16_t)(weight >> LOW_BITS);
	}
}

int gt_filter_pack_across(struct gt_filter *f, struct gt_err *err)
{
	size_t groups = ((size_t)f->count + GROUP - 1) / GROUP, bytes;
	void *weights = NULL;

	for (int i = 0; i < f->count; i++)
		if (f->taps[i] > 4 * f->quads)
			f->quads = (f->taps[i] + 3) / 4;
	bytes = groups * VECTORS * (size_t)f->quads * QUAD * sizeof(*f->quad_weights);
	f->starts = gt_calloc(groups * GROUP, sizeof(*f->starts), err);
	if (!f->starts)
		return GT_ENOMEM;
	if (posix_memalign(&weights, 64, bytes))
		return gt_err_set(err, GT_ENOMEM, "out of memory: %zu bytes wanted", bytes);
	f->quad_weights = memset(weights, 0, bytes);
	for (int i = 0; i < f->count; i++) {
		f->starts[packed_filter_place(i)] = 3 * f->first[i];
		for (int k = 0; k < f->taps[i]; k++)
			pack_tap(f, i, k);
	}
	return 0;
}

/* Down, two taps are a number of 32 bits, with the first in the low half. */
static size_t pairs_of(const struct gt_filter *f)
{
	return ((size_t)f->max_taps + 1) / 2;
}

int gt_filter_pack_down(struct gt_filter *f, struct gt_err *err)
{
	size_t pairs = pairs_of(f), outputs = (size_t)f->count;

	f->pair_weights = gt_calloc(outputs * pairs, 2 * sizeof(*f->pair_weights), err);
	for (size_t i = 0; f->pair_weights && i < outputs; i++) {
		const int32_t *weights = f->weights + i * (size_t)f->max_taps;
		int32_t *to = f->pair_weights + i * pairs * 2;

		for (int k = 0; k < f->taps[i]; k++) {
			to[k / 2 * 2] |= (weights[k] & LOW_MASK) << (k % 2 * 16);
			to[k / 2 * 2 + 1] |= weights[k] >> LOW_BITS << (k % 2 * 16);
		}
	}
	return f->pair_weights ? 0 : GT_ENOMEM;
}

/* ---- plain C ---- */

static uint8_t rounded(int32_t sum)
{
	sum >>= GT_WEIGHT_BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void across_rgb_plain(const struct gt_filter *f, const uint8_t *row, uint8_t *out)
{
	for (int x = 0; x < f->count; x++, out += 3) {
		const int32_t *weights = f->weights + (size_t)x * (size_t)f->max_taps;
		const uint8_t *p = row + (size_t)f->first[x] * 3;
		int32_t red = HALF, green = HALF, blue = HALF;

		for (int k = 0; k < f->taps[x]; k++, p += 3) {
			red += p[0] * weights[k];
			green += p[1] * weights[k];
			blue += p[2] * weights[k];
		}
		out[0] = rounded(red);
		out[1] = rounded(green);
		out[2] = rounded(blue);
	}
}

/* Compute out[from] to out[n - 1] in plain C. */
static void down_from(const struct gt_filter *f, int output, const uint8_t *const *rows,
    size_t from, size_t n, uint8_t *out)
{
	const int32_t *weights = f->weights + (size_t)output * (size_t)f->max_taps;

	for (size_t i = from; i < n; i++) {
		int32_t sum = HALF;

		for (int k = 0; k < f->taps[output]; k++)
			sum += rows[k][i] * weights[k];
		out[i] = rounded(sum);
	}
}

static void down_plain(
    const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n, uint8_t *out)
{
	down_from(f, output, rows, 0, n, out);
}

static bool always(void)
{
	return true;
}

static const struct gt_resize_kernel plain = { "plain", always, across_rgb_plain, down_plain };

#if defined(__x86_64__)

/* ---- SSE2, which every x86-64 has ---- */

static inline __m128i whole_sse2(__m128i low, __m128i high)
{
	return _mm_srai_epi32(_mm_add_epi32(low, _mm_slli_epi32(high, LOW_BITS)), GT_WEIGHT_BITS);
}

static inline __m128i bytes_sse2(const __m128i sums[4])
{
	return _mm_packus_epi16(
	    _mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
}

/* One output, [red green blue nothing]. */
static inline __m128i output_sse2(const uint8_t *p, const int16_t *weights, int quads)
{
	__m128i low = _mm_set1_epi32(HALF), high = _mm_setzero_si128();

	for (int q = 0; q < quads; q++, weights += QUAD)
		for (int i = 0; i < 2; i++, p += 6) {
			const __m128i *w = (const __m128i *)weights + 2 * LANES * i;
			/* r0 g0 b0 r1 g1 b1; then r0 r1 g0 g1 b0 b1 and two that do not count */
			__m128i x = _mm_unpacklo_epi8(
			    _mm_loadl_epi64((const __m128i *)p), _mm_setzero_si128());

			x = _mm_unpacklo_epi16(x, _mm_srli_si128(x, 6));
			low = _mm_add_epi32(low, _mm_madd_epi16(x, w[0]));
			high = _mm_add_epi32(high, _mm_madd_epi16(x, w[LANES]));
		}
	return whole_sse2(low, high);
}

static void across_rgb_sse2(const struct gt_filter *f, const uint8_t *row, uint8_t *out)
{
	const size_t vector = (size_t)f->quads * QUAD;

	for (int x = 0; x < f->count; x += 4) {
		__m128i sums[4], pixels;

		for (int i = 0; i < 4; i++) {
			size_t place = packed_filter_place(x + i);

			sums[i] = output_sse2(row + f->starts[place],
			    f->quad_weights + place / LANES * vector + place % LANES * NUMBERS,
			    f->quads);
		}
		pixels = bytes_sse2(sums);
		for (int i = 0; i < 4; i++, out += 3) {
			int pixel = _mm_cvtsi128_si32(pixels);

			memcpy(out, &pixel, 4);
			pixels = _mm_srli_si128(pixels, 4);
		}
	}
}

static void down_sse2(
    const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n, uint8_t *out)
{
	const int32_t *weights = f->pair_weights + (size_t)output * pairs_of(f) * 2;
	const __m128i zero = _mm_setzero_si128();
	int taps = f->taps[output];
	size_t at = 0;

	for (; at + 16 <= n; at += 16) {
		__m128i low[4], high[4];

		for (int i = 0; i < 4; i++) {
			low[i] = _mm_set1_epi32(HALF);
			high[i] = zero;
		}
		for (int k = 0; k < taps; k += 2) {
			const uint8_t *next = rows[k + 1 < taps ? k + 1 : k];
			__m128i a = _mm_loadu_si128((const __m128i *)(rows[k] + at));
			__m128i b = _mm_loadu_si128((const __m128i *)(next + at));
			__m128i ab[2] = { _mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b) };

			for (int i = 0; i < 4; i++) {
				__m128i x = i % 2 ? _mm_unpackhi_epi8(ab[i / 2], zero)
				                  : _mm_unpacklo_epi8(ab[i / 2], zero);

				low[i] = _mm_add_epi32(
				    low[i], _mm_madd_epi16(x, _mm_set1_epi32(weights[k])));
				high[i] = _mm_add_epi32(
				    high[i], _mm_madd_epi16(x, _mm_set1_epi32(weights[k + 1])));
			}
		}
		for (int i = 0; i < 4; i++)
			low[i] = whole_sse2(low[i], high[i]);
		_mm_storeu_si128((__m128i *)(out + at), bytes_sse2(low));
	}
	down_from(f, output, rows, at, n, out);
}

static const struct gt_resize_kernel sse2 = { "sse2", always, across_rgb_sse2, down_sse2 };

/* ---- AVX2 ---- */

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i whole_avx2(__m256i low, __m256i high)
{
	return _mm256_srai_epi32(
	    _mm256_add_epi32(low, _mm256_slli_epi32(high, LOW_BITS)), GT_WEIGHT_BITS);
}

AVX2 static inline __m256i bytes_avx2(const __m256i sums[4])
{
	return _mm256_packus_epi16(
	    _mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3]));
}

/* Two outputs, [red green blue nothing] each, whose pixels begin at p and q. */
AVX2 static inline __m256i outputs_avx2(
    const uint8_t *p, const uint8_t *q, const int16_t *weights, int quads)
{
	/* Select from r0 g0 b0 r1 g1 b1 r2 ...: taps 0 and 1, then taps 2 and 3, as numbers of 16
	 * bits. */
	const __m256i first = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1,
	    -1, 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
	const __m256i second = _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1,
	    -1, -1, 6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
	__m256i low = _mm256_set1_epi32(HALF), high = _mm256_setzero_si256();

	for (int k = 0; k < quads; k++, p += 12, q += 12, weights += QUAD) {
		const __m256i *w = (const __m256i *)weights;
		__m256i x = _mm256_inserti128_si256(
		    _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
		    _mm_loadu_si128((const __m128i *)q), 1);
		__m256i a = _mm256_shuffle_epi8(x, first), b = _mm256_shuffle_epi8(x, second);

		low = _mm256_add_epi32(low, _mm256_madd_epi16(a, w[0]));
		high = _mm256_add_epi32(high, _mm256_madd_epi16(a, w[1]));
		low = _mm256_add_epi32(low, _mm256_madd_epi16(b, w[2]));
		high = _mm256_add_epi32(high, _mm256_madd_epi16(b, w[3]));
	}
	return whole_avx2(low, high);
}

/* `quads` is that of f, where the compiler knows it. */
AVX2 static inline void across_quads_avx2(
    const struct gt_filter *f, const uint8_t *row, uint8_t *out, int quads)
{
	/* RGB without the nothing, at the front of each half. */
	const __m256i dense = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1,
	    -1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
	const int16_t *weights = f->quad_weights;
	const int32_t *starts = f->starts;

	for (int x = 0; x < f->count; x += GROUP, out += GROUP * 3) {
		__m256i sums[VECTORS], pixels;

#pragma GCC unroll 4
		for (int v = 0; v < VECTORS; v++, starts += LANES, weights += quads * QUAD)
			sums[v] = outputs_avx2(row + starts[0], row + starts[1], weights, quads);
		pixels = _mm256_shuffle_epi8(bytes_avx2(sums), dense);
		_mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(pixels));
		_mm_storeu_si128((__m128i *)(out + 12), _mm256_extracti128_si256(pixels, 1));
	}
}

AVX2 static void across_rgb_avx2(const struct gt_filter *f, const uint8_t *row, uint8_t *out)
{
	if (f->quads == 1)
		across_quads_avx2(f, row, out, 1);
	else
		across_quads_avx2(f, row, out, f->quads);
}

AVX2 static void down_avx2(
    const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n, uint8_t *out)
{
	const int32_t *weights = f->pair_weights + (size_t)output * pairs_of(f) * 2;
	const __m256i zero = _mm256_setzero_si256();
	int taps = f->taps[output];
	size_t at = 0;

	for (; at + 32 <= n; at += 32) {
		__m256i low[4], high[4];

		for (int i = 0; i < 4; i++) {
			low[i] = _mm256_set1_epi32(HALF);
			high[i] = zero;
		}
		for (int k = 0; k < taps; k += 2) {
			const uint8_t *next = rows[k + 1 < taps ? k + 1 : k];
			__m256i a = _mm256_loadu_si256((const __m256i *)(rows[k] + at));
			__m256i b = _mm256_loadu_si256((const __m256i *)(next + at));
			__m256i ab[2] = { _mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b) };

#pragma GCC unroll 4
			for (int i = 0; i < 4; i++) {
				__m256i x = i % 2 ? _mm256_unpackhi_epi8(ab[i / 2], zero)
				                  : _mm256_unpacklo_epi8(ab[i / 2], zero);

				low[i] = _mm256_add_epi32(
				    low[i], _mm256_madd_epi16(x, _mm256_set1_epi32(weights[k])));
				high[i] = _mm256_add_epi32(high[i],
				    _mm256_madd_epi16(x, _mm256_set1_epi32(weights[k + 1])));
			}
		}
		for (int i = 0; i < 4; i++)
			low[i] = whole_avx2(low[i], high[i]);
		_mm256_storeu_si256((__m256i *)(out + at), bytes_avx2(low));
	}
	down_from(f, output, rows, at, n, out);
}

static bool has_avx2(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2");
}

static const struct gt_resize_kernel avx2 = { "avx2", has_avx2, across_rgb_avx2, down_avx2 };

const struct gt_resize_kernel *const gt_resize_kernels[] = { &avx2, &sse2, &plain, NULL };

#else

const struct gt_resize_kernel *const gt_resize_kernels[] = { &plain, NULL };

#endif
