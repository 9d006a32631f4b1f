/* packed.c - weights that are stored in blocks (lib/base/blocks.h): products, and all elements. */
#include <math.h>
#include <omp.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/dnnl_api.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

/*
 * A product of few rows reads each block once, as it is stored, so that the speed of memory
 * decides. Each thread has a range of rows of the weight. Products of 16-bit types are sums in
 * float32 of float32 factors. For quantized types, the numbers of a are rounded to 16 bits: the
 * largest of each block becomes 32767 or -32767. Then the product of two blocks is a sum of whole
 * numbers, which is exact, times both scales. The bound of the error is that of this rounding,
 * largest / 65534 for each number, and of the sum of the blocks in float32.
 *
 * For more rows, as of a prompt, panels of the weight are decoded to float32, and multiplied by
 * oneDNN.
 */
enum {
	FEW_ROWS = 4,           /* the most rows that read blocks as they are */
	PANEL_BYTES = 16 << 20, /* decoded rows have up to so many bytes */
	LANES = GT_VECTOR_BYTES / sizeof(float),
	VECTORS = 4,         /* that a product takes together */
	LINE = 16,           /* float32 numbers of a line of the cache */
	NOTICE_BYTES = 1024, /* bytes from a prefetch to its use */
	LARGEST = 32767,
	SCALES = 64, /* blocks whose scales are converted together */
};

typedef float vector __attribute__((vector_size(GT_VECTOR_BYTES), may_alias, aligned(4)));
typedef int32_t int_vector __attribute__((vector_size(GT_VECTOR_BYTES)));
#define INLINE __attribute__((always_inline)) static inline

/* A row of the first factor. Quantized: `q` [k], in blocks with a scale each, and 8 times the sum
 * of a block; these two have whole vectors. */
struct row {
	const float *x;
	const int16_t *q;
	const float *scale, *offset;
};

/* A product of some hundred numbers has only a few vectors, so that this counts: compilers would
 * add one lane after the other. */
INLINE float sum_of_lanes(vector v)
{
#if defined(__AVX512F__)
	return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
	__m128 x =
	    _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
#else
	return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/* ---- 16 bits; `block` is a constant where these are called ---- */

INLINE float widen_one(uint16_t h, enum gt_block block)
{
	return block == GT_BLOCK_BF16 ? gt_float_of_bf16(h) : gt_float_of_f16(h);
}

INLINE vector widen_vector(const uint16_t *from, enum gt_block block)
{
#if defined(__AVX512F__)
	const __m256i half = _mm256_loadu_si256((const __m256i *)from);

	return block == GT_BLOCK_BF16 ? (vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)
	                              : (vector)_mm512_cvtph_ps(half);
#elif defined(__AVX2__) && defined(__F16C__)
	const __m128i half = _mm_loadu_si128((const __m128i *)from);

	return block == GT_BLOCK_BF16 ? (vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)
	                              : (vector)_mm256_cvtph_ps(half);
#else
	vector x;

	for (int l = 0; l < LANES; l++)
		x[l] = widen_one(from[l], block);
	return x;
#endif
}

/* The product of a row of the weight and a row of a. */
INLINE float dot_half(const unsigned char *w, const struct row *a, int64_t k, enum gt_block block)
{
	const uint16_t *half = (const uint16_t *)w;
	vector sums[VECTORS] = { 0 };
	int64_t p = 0;
	float sum;

	for (; p + VECTORS * LANES <= k; p += VECTORS * LANES)
		for (int i = 0; i < VECTORS; i++) {
			const uint16_t *from = half + p + i * LANES;

			if (i % 2 == 0) /* two vectors of a are a line of the weight, or less */
				__builtin_prefetch((const char *)from + NOTICE_BYTES);
			sums[i] +=
			    *(const vector *)(a->x + p + i * LANES) * widen_vector(from, block);
		}
	sum = sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
	for (; p < k; p++)
		sum += a->x[p] * widen_one(half[p], block);
	return sum;
}

/* ---- quantized ---- */

/* The products of a block's 32 numbers and a, added up in any lanes. The numbers of q4_0 are 0 to
 * 15 here: 8 times the sum of a is subtracted from the sum of all blocks. The sums have up to 24
 * bits for q4_0, 27 for q8_0. */
#if defined(__AVX512BW__)
INLINE int_vector multiply_q8_0(const unsigned char *w, const int16_t *a)
{
	const __m512i q = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)w));

	return (int_vector)_mm512_madd_epi16(q, _mm512_loadu_si512(a));
}

INLINE int_vector multiply_q4_0(const unsigned char *w, const int16_t *a)
{
	const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)w));
	__m512i q =
	    _mm512_inserti64x4(_mm512_castsi256_si512(bytes), _mm256_srli_epi16(bytes, 4), 1);

	q = _mm512_and_si512(q, _mm512_set1_epi16(15));
	return (int_vector)_mm512_madd_epi16(q, _mm512_loadu_si512(a));
}
#elif defined(__AVX2__)
INLINE int_vector multiply_halves(__m256i low, __m256i high, const int16_t *a)
{
	const __m256i *at = (const __m256i *)a;

	return (int_vector)_mm256_add_epi32(_mm256_madd_epi16(low, _mm256_loadu_si256(at)),
	    _mm256_madd_epi16(high, _mm256_loadu_si256(at + 1)));
}

INLINE int_vector multiply_q8_0(const unsigned char *w, const int16_t *a)
{
	const __m128i *at = (const __m128i *)w;

	return multiply_halves(_mm256_cvtepi8_epi16(_mm_loadu_si128(at)),
	    _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1)), a);
}

INLINE int_vector multiply_q4_0(const unsigned char *w, const int16_t *a)
{
	const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)w));
	const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi16(15));

	return multiply_halves(low, _mm256_srli_epi16(bytes, 4), a);
}
#else
INLINE int_vector multiply_q8_0(const unsigned char *w, const int16_t *a)
{
	int32_t sum = 0;

	for (int e = 0; e < 32; e++)
		sum += (int16_t)(signed char)w[e] * a[e];
	return (int_vector){ sum };
}

INLINE int_vector multiply_q4_0(const unsigned char *w, const int16_t *a)
{
	int32_t sum = 0;

	for (int e = 0; e < 16; e++)
		sum += (w[e] & 15) * a[e] + (w[e] >> 4) * a[16 + e];
	return (int_vector){ sum };
}
#endif

/* The scales of some blocks of a row of the weight, times those of a. They are converted together,
 * which takes less time than one by one. Returns the sum of scale * offset. */
INLINE float multiply_scales(float scales[SCALES], const unsigned char *w, int bytes,
    const float *a, const float *offset, int64_t count)
{
	uint16_t half[SCALES] = { 0 };
	vector sum = { 0 };

	for (int64_t i = 0; i < count; i++)
		memcpy(&half[i], w + i * bytes, sizeof(*half));
	for (int64_t i = 0; i < count; i += LANES) {
		const vector scale =
		    widen_vector(half + i, GT_BLOCK_F16) * *(const vector *)(a + i);

		*(vector *)(scales + i) = scale;
		sum += scale * *(const vector *)(offset + i);
	}
	return sum_of_lanes(sum);
}

/* The product of a row of the weight and a row of a; `block` is a constant where this is called. */
INLINE float dot_blocks(const unsigned char *w, const struct row *a, int64_t k, enum gt_block block)
{
	const int bytes = block == GT_BLOCK_Q8_0 ? GT_Q8_0_BYTES : GT_Q4_0_BYTES;
	const int64_t blocks = k / GT_BLOCK_MOST;
	const int16_t *q = a->q;
	vector sums[2] = { 0 };
	float scales[SCALES], offset = 0;

	for (int64_t first = 0; first < blocks; first += SCALES) {
		const int64_t count = gt_min(SCALES, blocks - first);

		offset +=
		    multiply_scales(scales, w, bytes, a->scale + first, a->offset + first, count);
		for (int64_t i = 0; i < count; i++, w += bytes, q += GT_BLOCK_MOST) {
			const int_vector products = block == GT_BLOCK_Q8_0
			                                ? multiply_q8_0(w + 2, q)
			                                : multiply_q4_0(w + 2, q);

			__builtin_prefetch(w + NOTICE_BYTES);
			sums[i % 2] += scales[i] * __builtin_convertvector(products, vector);
		}
	}
	return sum_of_lanes(sums[0] + sums[1]) - (block == GT_BLOCK_Q4_0 ? offset : 0);
}

/* ---- rows of the first factor ---- */

/* Round 32 numbers to whole ones. A number that is not finite makes the scale NaN, and so every
 * product. Numbers below 1e-30 are zero: their inverse would not be finite. */
static float quantize_block(int16_t *restrict q, const float *restrict x)
{
	float largest = 0, not_finite = 0, inverse;

#pragma omp simd reduction(max : largest) reduction(+ : not_finite)
	for (int e = 0; e < GT_BLOCK_MOST; e++) {
		const float size = fabsf(x[e]);

		largest = size > largest ? size : largest;
		not_finite += 0 * x[e];
	}
	inverse = largest > 1e-30f && not_finite == 0 ? LARGEST / largest : 0;
#pragma omp simd
	for (int e = 0; e < GT_BLOCK_MOST; e++) {
		const float rounded = (x[e] * inverse + GT_ROUNDER) - GT_ROUNDER;

		q[e] = (int16_t)(not_finite == 0 ? rounded : 0);
	}
	return inverse > 0 ? largest / LARGEST : not_finite;
}

/* Bytes of a quantized row, which begins at a line of the cache, and then of its scales. */
static size_t row_bytes(int64_t k)
{
	return (size_t)(gt_ceil_div(k, 2 * LINE) * 2 * LINE) * sizeof(int16_t);
}

static size_t scale_bytes(int64_t k)
{
	return (size_t)(gt_ceil_div(k / GT_BLOCK_MOST, LINE) * LINE) * sizeof(float);
}

/* Bytes of a quantized row with its scales and offsets. */
static size_t quantized_bytes(int64_t k)
{
	return row_bytes(k) + 2 * scale_bytes(k);
}

static void quantize_row(struct row *row, char *workspace, int64_t k)
{
	int16_t *q = (int16_t *)workspace;
	float *scale = (float *)(workspace + row_bytes(k));
	float *offset = (float *)(workspace + row_bytes(k) + scale_bytes(k));

	memset(scale, 0, 2 * scale_bytes(k));
	for (int64_t i = 0; i < k / GT_BLOCK_MOST; i++) {
		int32_t sum = 0;

		scale[i] = quantize_block(q + i * GT_BLOCK_MOST, row->x + i * GT_BLOCK_MOST);
		for (int e = 0; e < GT_BLOCK_MOST; e++)
			sum += q[i * GT_BLOCK_MOST + e];
		offset[i] = 8 * (float)sum;
	}
	row->q = q;
	row->scale = scale;
	row->offset = offset;
}

/* ---- few rows ---- */

/* A product of m rows of a and n rows of the weight. */
struct product {
	enum gt_block block;
	int64_t m, n, k;
	const unsigned char *w;
	size_t w_bytes; /* a row of the weight has so many bytes */
	const float *a, *bias;
	float *y;
};

static float dot_bf16(const unsigned char *w, const struct row *a, int64_t k)
{
	return dot_half(w, a, k, GT_BLOCK_BF16);
}

static float dot_f16(const unsigned char *w, const struct row *a, int64_t k)
{
	return dot_half(w, a, k, GT_BLOCK_F16);
}

static float dot_q8_0(const unsigned char *w, const struct row *a, int64_t k)
{
	return dot_blocks(w, a, k, GT_BLOCK_Q8_0);
}

static float dot_q4_0(const unsigned char *w, const struct row *a, int64_t k)
{
	return dot_blocks(w, a, k, GT_BLOCK_Q4_0);
}

static float (*const dots[GT_BLOCKS])(const unsigned char *w, const struct row *a, int64_t k) = {
	[GT_BLOCK_BF16] = dot_bf16,
	[GT_BLOCK_F16] = dot_f16,
	[GT_BLOCK_Q8_0] = dot_q8_0,
	[GT_BLOCK_Q4_0] = dot_q4_0,
};

static void multiply_range(
    const struct product *p, const struct row rows[FEW_ROWS], int64_t from, int64_t to)
{
	for (int64_t r = from; r < to; r++)
		for (int64_t i = 0; i < p->m; i++)
			p->y[i * p->n + r] =
			    dots[p->block](p->w + (size_t)r * p->w_bytes, &rows[i], p->k) +
			    (p->bias ? p->bias[r] : 0);
}

static void multiply_few(const struct product *p, char *workspace)
{
	const int64_t blocks = gt_ceil_div(p->n, GT_COLUMN_BLOCK);
	const int threads =
	    p->n * p->k < GT_FORK_MIN ? 1 : (int)gt_min(blocks, omp_get_max_threads());
	struct row rows[FEW_ROWS];

	for (int64_t i = 0; i < p->m; i++) {
		rows[i] = (struct row){ .x = p->a + i * p->k };
		if (gt_block_is_quantized(p->block))
			quantize_row(&rows[i], workspace + (size_t)i * quantized_bytes(p->k), p->k);
	}
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
	for (int i = 0; i < threads; i++)
		multiply_range(p, rows, blocks * i / threads * GT_COLUMN_BLOCK,
		    gt_min(p->n, blocks * (i + 1) / threads * GT_COLUMN_BLOCK));
}

/* ---- many rows ---- */

/* Rows of the weight that are decoded together. */
static int64_t panel_rows(int64_t n, int64_t k)
{
	const int64_t rows = PANEL_BYTES / (k * (int64_t)sizeof(float)) / LINE * LINE;

	return gt_min(n, gt_max(rows, LINE));
}

static int multiply_panels(
    const struct product *p, float *panel, const struct gt_call *call, struct gt_err *err)
{
	const int64_t most = panel_rows(p->n, p->k);
	int rc = 0;

	for (int64_t i = 0; p->bias && i < p->m; i++)
		memcpy(p->y + i * p->n, p->bias, (size_t)p->n * sizeof(float));
	for (int64_t r = 0; !rc && r < p->n; r += most) {
		const int64_t rows = gt_min(most, p->n - r);
		const struct gt_cpu_product part = { .dtype = GT_F32,
			.trans_b = true,
			.add = p->bias,
			.m = p->m,
			.n = rows,
			.k = p->k,
			.y_stride = p->n };

#pragma omp parallel for schedule(static) if (rows * p->k >= GT_FORK_MIN)
		for (int64_t i = 0; i < rows; i++)
			gt_decode_row(
			    panel + i * p->k, p->w + (size_t)(r + i) * p->w_bytes, p->k, p->block);
		rc = gt_cpu_multiply(&part, p->y + r, p->a, panel, call, err);
	}
	return rc;
}

/* ---- the rows of the table ---- */

static struct product product_of(const struct gt_call *call)
{
	const struct gt_tensor *bias = gt_optional_input(call, 2);
	struct product p = { .block = call->attrs.matmul.block,
		.m = gt_tensor_rows(&call->in[0]),
		.n = call->in[1].shape[0],
		.k = gt_tensor_last(&call->in[0]),
		.w = call->in[1].data,
		.w_bytes = (size_t)call->in[1].shape[1],
		.a = call->in[0].data,
		.bias = bias ? bias->data : NULL,
		.y = call->out[0].data };

	return p;
}

static bool is_packed(const struct gt_call *call)
{
	return call->attrs.matmul.block;
}

static int prepare_packed(struct gt_call *call, struct gt_err *err)
{
	const struct product p = product_of(call);

	if (p.m > FEW_ROWS) {
		call->workspace_bytes = (size_t)(panel_rows(p.n, p.k) * p.k) * sizeof(float);
		return gt_dnnl_api_load(err);
	}
	if (gt_block_is_quantized(p.block))
		call->workspace_bytes = (size_t)p.m * quantized_bytes(p.k);
	return 0;
}

static int run_packed(struct gt_call *call, struct gt_err *err)
{
	const struct product p = product_of(call);

	if (p.m > FEW_ROWS)
		return multiply_panels(&p, call->workspace, call, err);
	multiply_few(&p, call->workspace);
	return 0;
}

/* ---- all elements ---- */

enum { NARROWED = 8 * GT_BLOCK_MOST }; /* elements that are decoded and rounded together */

static void decode_narrow(const struct gt_call *call, uint16_t *to, const unsigned char *row)
{
	const enum gt_block block = call->attrs.decode.block;
	const int64_t columns = call->attrs.decode.columns;
	float part[NARROWED];

	for (int64_t i = 0; i < columns; i += NARROWED) {
		const int64_t n = gt_min(NARROWED, columns - i);

		gt_decode_row(part, row + gt_block_row_bytes(block, i), n, block);
		gt_narrow(to + i, part, n, call->out[0].dtype);
	}
}

static int run_decode(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *x = &call->in[0], *y = &call->out[0];
	const int64_t columns = call->attrs.decode.columns;

	(void)err;
#pragma omp parallel for schedule(static) if (x->shape[0] * columns >= GT_FORK_MIN)
	for (int64_t i = 0; i < x->shape[0]; i++) {
		const unsigned char *row = (const unsigned char *)x->data + i * x->shape[1];

		if (y->dtype == GT_F32)
			gt_decode_row(
			    (float *)y->data + i * columns, row, columns, call->attrs.decode.block);
		else
			decode_narrow(call, (uint16_t *)y->data + i * columns, row);
	}
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_packed_kernels)[] = {
	{ "matmul", GT_F32, is_packed, prepare_packed, .run = run_packed },
	{ "decode", GT_F32, .run = run_decode },
	{ "decode", GT_BF16, .run = run_decode },
	{ "decode", GT_F16, .run = run_decode },
	{ .op = NULL },
};
