/* test_ckpt_stats.c - statistics of tensors against plain loops, and any number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/ckpt/tools/stats.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/zip/crc.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct gt_storage storage_of(const void *bytes, size_t size)
{
	return (struct gt_storage){
		.bytes = bytes, .size_bytes = size, .key = "0", .name = "r", .location = "cpu"
	};
}

static struct gt_stats stats_of(struct gt_storage *s, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const int64_t *stride, int64_t offset, size_t threads)
{
	struct gt_tree_tensor t = { .dtype = dtype,
		.ndim = ndim,
		.shape = shape,
		.stride = stride,
		.offset = offset,
		.storage = s };
	const struct gt_tree_tensor *tensors[] = { &t };
	struct gt_stats out;
	struct gt_err err = GT_ERR_INIT;

	if (gt_stats_of(&out, tensors, 1, threads, NULL, &err))
		fail_msg("%s", err.text);
	return out;
}

static struct gt_stats flat(const void *bytes, enum gt_dtype dtype, size_t count)
{
	struct gt_storage s = storage_of(bytes, count * gt_dtype_size(dtype));
	int64_t shape = (int64_t)count, stride = 1;

	return stats_of(&s, dtype, 1, &shape, &stride, 0, 1);
}

static void same(double a, double b)
{
	if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-14 * fabs(b)))
		fail_msg("%.17g is not %.17g", a, b);
}

static void expect(
    const struct gt_stats *s, uint64_t nan, uint64_t inf, uint64_t zeros, const double four[4])
{
	assert_int_equal(s->nan, nan);
	assert_int_equal(s->inf, inf);
	assert_int_equal(s->zeros, zeros);
	same(s->min, four[0]);
	same(s->max, four[1]);
	same(s->mean, four[2]);
	same(s->std, four[3]);
}

/* The same numbers in every type that holds them: -2, 0, 1, 5; their squared distances from 1 are
 * 9, 1, 0, 16. */
static void test_types(void **state)
{
	static const float f32[] = { -2, 0, 1, 5 };
	static const double f64[] = { -2, 0, 1, 5 };
	static const uint16_t f16[] = { 0xc000, 0x8000, 0x3c00, 0x4500 };
	static const uint16_t bf16[] = { 0xc000, 0x0000, 0x3f80, 0x40a0 };
	static const int8_t i8[] = { -2, 0, 1, 5 };
	static const int16_t i16[] = { -2, 0, 1, 5 };
	static const int32_t i32[] = { -2, 0, 1, 5 };
	static const int64_t i64[] = { -2, 0, 1, 5 };
	static const double wanted[] = { -2, 5, 1, 2.943920288775949 };
	const struct {
		enum gt_dtype dtype;
		const void *bytes;
	} cases[] = { { GT_F32, f32 }, { GT_F64, f64 }, { GT_F16, f16 }, { GT_BF16, bf16 },
		{ GT_I8, i8 }, { GT_I16, i16 }, { GT_I32, i32 }, { GT_I64, i64 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_stats s = flat(cases[i].bytes, cases[i].dtype, 4);

		assert_int_equal(s.count, 4);
		expect(&s, 0, 0, 1, wanted);
	}
}

static void test_odd_types(void **state)
{
	static const uint64_t u64[] = { 0, UINT64_MAX };
	static const uint8_t bools[] = { 0, 1, 1, 1 };
	static const float c64[] = { 3, 4, 0, 0, -5, 12, NAN, 1, INFINITY, 0 };
	struct gt_stats s = flat(u64, GT_U64, 2);

	(void)state;
	expect(&s, 0, 0, 1, (double[]){ 0, 0x1p64, 0x1p63, 0x1p63 * sqrt(2) });
	s = flat(bools, GT_BOOL, 4);
	expect(&s, 0, 0, 1, (double[]){ 0, 1, 0.75, 0.5 });
	s = flat(c64, GT_C64, 5); /* by magnitude: 5, 0, 13 */
	expect(&s, 1, 1, 1, (double[]){ 0, 13, 6, sqrt((1 + 36 + 49) / 2.0) });
}

static void test_what_is_not_finite(void **state)
{
	static const float mixed[] = { NAN, 1, INFINITY, 3, -INFINITY, -NAN };
	static const float none[] = { NAN, INFINITY };
	static const float one[] = { 7 };
	static const uint16_t halves[] = { 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x8001 };
	struct gt_stats s = flat(mixed, GT_F32, 6);

	(void)state;
	expect(&s, 2, 2, 0, (double[]){ 1, 3, 2, sqrt(2) });
	s = flat(none, GT_F32, 2);
	expect(&s, 1, 1, 0, (double[]){ NAN, NAN, NAN, NAN });
	s = flat(one, GT_F32, 1);
	expect(&s, 0, 0, 0, (double[]){ 7, 7, 7, NAN });
	s = flat(one, GT_F32, 0);
	expect(&s, 0, 0, 0, (double[]){ NAN, NAN, NAN, NAN });
	s = flat(halves, GT_F16, 5);
	expect(&s, 1, 2, 0, (double[]){ -0x1p-24, 0x1p-24, 0, 0x1p-24 * sqrt(2) });
}

/* A mean far from zero costs the naive formula all its digits. */
static void test_large_mean(void **state)
{
	double x[5000];
	struct gt_stats s;

	(void)state;
	for (size_t i = 0; i < COUNT(x); i++)
		x[i] = 1e9 + (double)(i % 2);
	s = flat(x, GT_F64, COUNT(x));
	same(s.mean, 1e9 + 0.5);
	if (fabs(s.std - sqrt(0.25 * 5000 / 4999)) > 1e-12)
		fail_msg("std %.17g", s.std);
}

/* Strides of every kind, against a loop over the elements. */
static void test_strides(void **state)
{
	static const struct {
		int ndim;
		int64_t shape[3], stride[3], offset;
	} cases[] = {
		{ 2, { 4, 6 }, { 6, 1 }, 0 },        /* contiguous */
		{ 2, { 6, 4 }, { 1, 6 }, 0 },        /* transposed */
		{ 2, { 3, 2 }, { 6, 2 }, 7 },        /* a piece with gaps */
		{ 3, { 5, 4, 6 }, { 0, 6, 1 }, 0 },  /* expanded */
		{ 3, { 4, 3, 1 }, { 6, 0, 17 }, 2 }, /* expanded inside */
		{ 2, { 5, 3 }, { 1, 1 }, 3 },        /* overlapping */
		{ 3, { 2, 0, 3 }, { 1, 1, 1 }, 0 },  /* none */
		{ 0, { 0 }, { 0 }, 23 },             /* a scalar */
	};
	float x[24];
	struct gt_storage storage = storage_of(x, sizeof(x));

	(void)state;
	for (int i = 0; i < 24; i++)
		x[i] = (float)((i * 7) % 5 - 2);
	for (size_t c = 0; c < COUNT(cases); c++) {
		struct gt_stats s = stats_of(&storage, GT_F32, cases[c].ndim, cases[c].shape,
		    cases[c].stride, cases[c].offset, 1);
		int64_t n[3] = { 1, 1, 1 };
		double sum = 0, squares = 0, count = 0, zeros = 0;

		for (int i = 0; i < cases[c].ndim; i++)
			n[i] = cases[c].shape[i];
		for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
			int64_t at[] = { i / (n[1] * n[2]), i / n[2] % n[1], i % n[2] };
			int64_t k = cases[c].offset;

			for (int d = 0; d < cases[c].ndim; d++)
				k += at[d] * cases[c].stride[d];
			sum += (double)x[k];
			squares += (double)x[k] * (double)x[k];
			zeros += x[k] == 0;
			count++;
		}
		assert_int_equal(s.count, count);
		assert_int_equal(s.zeros, zeros);
		same(s.mean, count > 0 ? sum / count : NAN);
		if (count > 1 &&
		    fabs(s.std * s.std - (squares - sum * sum / count) / (count - 1)) > 1e-12)
			fail_msg("case %zu: std %.17g", c, s.std);
	}
}

/* Every bit is the same for any number of threads, and close to a plain sum. */
static void test_threads(void **state)
{
	enum { N = 3 << 20 };
	float *x = malloc(N * sizeof(*x));
	struct gt_storage storage = storage_of(x, N * sizeof(*x));
	int64_t shape = N, stride = 1;
	unsigned seed = 1;
	double sum = 0, squares = 0;
	struct gt_stats first = { 0 };

	(void)state;
	assert_non_null(x);
	for (size_t i = 0; i < N; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = (float)(seed >> 8) * 0x1p-24f;
		sum += (double)x[i];
		squares += (double)x[i] * (double)x[i];
	}
	for (size_t threads = 1; threads <= 7; threads++) {
		struct gt_stats s = stats_of(&storage, GT_F32, 1, &shape, &stride, 0, threads);

		if (threads == 1)
			first = s;
		assert_memory_equal(&s, &first, sizeof(s));
	}
	assert_true(fabs(first.mean - sum / N) < 1e-12);
	assert_true(fabs(first.std - sqrt((squares - sum * sum / N) / (N - 1))) < 1e-10);
	free(x);
}

/* The checksum of a storage is compared, whether one tensor is all of it or not. */
static void test_checksum(void **state)
{
	float x[4000] = { 1, 2, 3 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		for (int good = 0; good < 2; good++) {
			int64_t shape = whole ? 4000 : 100, stride = 1;
			struct gt_storage s = storage_of(x, sizeof(x));
			struct gt_tree_tensor t = { .dtype = GT_F32,
				.ndim = 1,
				.shape = &shape,
				.stride = &stride,
				.storage = &s };
			const struct gt_tree_tensor *both[] = { &t, &t };
			struct gt_stats out[2];

			s.has_crc = true;
			s.crc = gt_crc32(0, x, sizeof(x)) ^ (good ? 0 : 4);
			assert_int_equal(
			    gt_stats_of(out, both, 2, 2, NULL, &err), good ? 0 : GT_EFORMAT);
			if (!good)
				assert_non_null(strstr(err.text, "'r' is damaged: its CRC-32 is"));
			assert_int_equal(s.checked, good);
		}
	}
}

/* ---- scans ---- */

static bool is_finite(enum gt_dtype dtype, const void *bytes)
{
	struct gt_stats s = flat(bytes, dtype, 1);

	return !s.nan && !s.inf;
}

/* One number among ones, at the start, the end, and where a vector unit is done; all numbers of
 * 8 and of 16 bits. */
static void expect_finite(enum gt_dtype dtype, const void *number, const void *one)
{
	static const size_t places[] = { 0, 1, 31, 64, 69 };
	size_t size = gt_dtype_size(dtype);
	unsigned char x[70 * 16 + 1];
	bool wanted = is_finite(dtype, number);

	for (size_t k = 0; k < COUNT(places); k++) {
		for (size_t i = 0; i < 70; i++) /* unaligned, too */
			memcpy(x + 1 + i * size, i == places[k] ? number : one, size);
		if (gt_cast_finite(dtype, x + 1, 70) != wanted)
			fail_msg("%s at %zu: not %d", gt_dtype_name(dtype), places[k], wanted);
		assert_true(gt_cast_finite(dtype, x + 1, places[k]));
	}
}

static void test_finite(void **state)
{
	static const float f32[] = { 0, -0.f, 1, -2, 0x1p-149f, 3.4028235e38f, -3.4028235e38f,
		INFINITY, -INFINITY, NAN, -NAN };
	static const double f64[] = { 0, -1, 0x1p-1074, 0x1.fffffffffffffp1023,
		-0x1.fffffffffffffp1023, INFINITY, -INFINITY, NAN, -NAN };
	static const int64_t i64[] = { 0, -1, INT64_MIN, INT64_MAX };
	static const uint64_t one = 0;

	(void)state;
	for (uint32_t bits = 0; bits < 1 << 16; bits++) {
		uint16_t half = (uint16_t)bits;
		uint8_t byte = (uint8_t)bits;

		expect_finite(GT_F16, &half, &one);
		expect_finite(GT_BF16, &half, &one);
		if (bits < 1 << 8) {
			expect_finite(GT_F8_E4M3, &byte, &one);
			expect_finite(GT_F8_E5M2, &byte, &one);
			expect_finite(GT_U8, &byte, &one);
		}
	}
	for (size_t i = 0; i < COUNT(f32); i++) {
		float pair[2][2] = { { 1, f32[i] }, { f32[i], 1 } }, ones[2] = { 1, 1 };

		expect_finite(GT_F32, &f32[i], &one);
		expect_finite(GT_C64, pair[0], ones);
		expect_finite(GT_C64, pair[1], ones);
	}
	for (size_t i = 0; i < COUNT(f64); i++) {
		double pair[2][2] = { { 1, f64[i] }, { f64[i], 1 } }, ones[2] = { 1, 1 };

		expect_finite(GT_F64, &f64[i], &one);
		expect_finite(GT_C128, pair[0], ones);
		expect_finite(GT_C128, pair[1], ones);
	}
	for (size_t i = 0; i < COUNT(i64); i++)
		expect_finite(GT_I64, &i64[i], &one);
}

/* A scan counts what the stats count, whatever the type and the layout; it makes the sum of a
 * storage that one tensor is, and compares nothing. */
static void test_scan(void **state)
{
	static const enum gt_dtype dtypes[] = { GT_F32, GT_F64, GT_F16, GT_BF16, GT_C64, GT_C128,
		GT_F8_E4M3, GT_F8_E5M2, GT_I32, GT_U8 };
	enum { ROWS = 70, COLUMNS = 50 };
	unsigned char x[ROWS * COLUMNS * 16];
	uint32_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (unsigned char)((random = random * 1664525 + 1013904223) >> 24);
	for (size_t k = 0; k < 4 * COUNT(dtypes); k++) {
		enum gt_dtype dtype = dtypes[k / 4];
		bool turned = k & 1, swapped = k & 2;
		struct gt_storage s = storage_of(x, ROWS * COLUMNS * gt_dtype_size(dtype));
		int64_t shape[] = { ROWS, COLUMNS / (turned ? 2 : 1) };
		int64_t stride[] = { turned ? 1 : COLUMNS, turned ? ROWS : 1 };
		struct gt_tree_tensor t = {
			.dtype = dtype, .ndim = 2, .shape = shape, .stride = stride, .storage = &s
		};
		const struct gt_tree_tensor *both[] = { &t, &t };
		struct gt_err err = GT_ERR_INIT;
		struct gt_stats scans[2];
		struct gt_stats stats;

		s.swapped = swapped;
		s.has_crc = true;
		s.crc = 7;
		assert_int_equal(gt_stats_scan(scans, both, 2, 2, NULL, &err), 0);
		s.has_crc = false;
		assert_int_equal(gt_stats_of(&stats, both, 1, 1, NULL, &err), 0);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(scans[i].count, stats.count);
			assert_int_equal(scans[i].nan, stats.nan);
			assert_int_equal(scans[i].inf, stats.inf);
			assert_int_equal(scans[i].summed, !turned);
			if (!turned)
				assert_int_equal(scans[i].crc, gt_crc32(0, x, s.size_bytes));
		}
		assert_false(s.checked);
	}
}

/* A small file must not keep us busy for ever: 2^40 elements in 4 bytes. */
static void test_endless_views(void **state)
{
	float x[2] = { 3, 4 };
	struct gt_storage s = storage_of(x, sizeof(x));
	int64_t shape[] = { 1 << 20, 1 << 20 }, stride[] = { 0, 0 };
	struct gt_stats stats = stats_of(&s, GT_F32, 2, shape, stride, 0, 1);
	int64_t window[] = { 2000, 2000 }, one[] = { 1, 1 };
	float y[3999] = { 0 };
	struct gt_storage wide = storage_of(y, sizeof(y));
	struct gt_tree_tensor t = {
		.dtype = GT_F32, .ndim = 2, .shape = window, .stride = one, .storage = &wide
	};
	const struct gt_tree_tensor *tensors[] = { &t };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(stats.count, (uint64_t)1 << 40);
	same(stats.mean, 3);
	same(stats.std, 0);
	assert_int_equal(
	    gt_stats_of(&stats, tensors, 1, 1, NULL, &err), 0); /* 1000 times: still fine */
	window[0] = window[1] = 1 << 20;
	wide.size_bytes = 4 << 20;
	assert_int_equal(gt_stats_of(&stats, tensors, 1, 1, NULL, &err), GT_ENOTSUP);
	assert_non_null(strstr(err.text, "more than 1024 times"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_odd_types),
		cmocka_unit_test(test_what_is_not_finite),
		cmocka_unit_test(test_large_mean),
		cmocka_unit_test(test_strides),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_checksum),
		cmocka_unit_test(test_finite),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_endless_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
