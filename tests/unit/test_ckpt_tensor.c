/* test_ckpt_tensor.c - strided reading, conversion and rounding of stored tensors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/tree/tree.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* A storage that lasts as long as the block it is used in. */
#define STORAGE(data, size) (&(struct gt_storage){ .bytes = data, .size_bytes = size, .key = "" })

static struct gt_tree_tensor scalar(
    enum gt_dtype dtype, const void *data, struct gt_storage *storage)
{
	*storage = *STORAGE(data, gt_dtype_size(dtype));
	return (struct gt_tree_tensor){ .dtype = dtype, .storage = storage };
}

static uint16_t narrow(double value, enum gt_dtype to)
{
	struct gt_storage s;
	struct gt_tree_tensor t = scalar(GT_F64, &value, &s);
	uint16_t out = 0;

	assert_int_equal(gt_ckpt_tensor_read(&t, to, &out, GT_ERR_IGNORED), 0);
	return out;
}

static double widen(uint16_t bits, enum gt_dtype from)
{
	struct gt_storage s;
	struct gt_tree_tensor t = scalar(from, &bits, &s); /* one byte: the first */
	double out;

	assert_int_equal(gt_ckpt_tensor_read(&t, GT_F64, &out, GT_ERR_IGNORED), 0);
	return out;
}

/* Every finite value goes there and back; halfway between neighbours goes to the even one, and the
 * smallest step off halfway to the nearer. The formats are ordered like their bits; after the
 * largest number comes infinity or, in float8_e4m3fn, NaN. */
static void check_rounding(enum gt_dtype dtype, uint16_t infinity)
{
	uint16_t sign = gt_dtype_size(dtype) == 1 ? 0x80 : 0x8000;

	for (uint16_t bits = 0; bits < infinity; bits++) {
		double low = widen(bits, dtype), high = widen(bits + 1, dtype), middle;

		assert_int_equal(narrow(low, dtype), bits);
		assert_int_equal(narrow(-low, dtype), bits | sign);
		if (bits + 1 == infinity)
			high = 2 * low - widen(bits - 1, dtype);
		middle = low + (high - low) / 2;
		assert_int_equal(narrow(middle, dtype), bits & 1 ? bits + 1 : bits);
		assert_int_equal(narrow(nextafter(middle, low), dtype), bits);
		assert_int_equal(narrow(nextafter(middle, INFINITY), dtype), bits + 1);
	}
	assert_int_equal(narrow(INFINITY, dtype), infinity);
	assert_int_equal(narrow(1e300, dtype), infinity);
	assert_int_equal(narrow(-1e300, dtype), infinity | sign);
	assert_true(isnan(widen(narrow(NAN, dtype), dtype)));
	assert_true(
	    dtype == GT_F8_E4M3 ? isnan(widen(infinity, dtype)) : isinf(widen(infinity, dtype)));
	assert_int_equal(narrow(5e-324, dtype), 0);
}

static void test_round_f16(void **state)
{
	(void)state;
	check_rounding(GT_F16, 0x7c00);
}

static void test_round_bf16(void **state)
{
	(void)state;
	check_rounding(GT_BF16, 0x7f80);
}

/* The largest, the smallest normal, the smallest: as the OCP specification lists them. */
static void test_round_f8(void **state)
{
	(void)state;
	check_rounding(GT_F8_E4M3, 0x7f);
	check_rounding(GT_F8_E5M2, 0x7c);
	assert_true(widen(0x7e, GT_F8_E4M3) == 448 && widen(0x7b, GT_F8_E5M2) == 57344);
	assert_true(widen(0x08, GT_F8_E4M3) == 0x1p-6 && widen(0x04, GT_F8_E5M2) == 0x1p-14);
	assert_true(widen(0x01, GT_F8_E4M3) == 0x1p-9 && widen(0x01, GT_F8_E5M2) == 0x1p-16);
	assert_true(isnan(widen(0xff, GT_F8_E4M3)) && isnan(widen(0x7d, GT_F8_E5M2)));
}

static void test_strides(void **state)
{
	static const float data[24] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		17, 18, 19, 20, 21, 22, 23 };
	static const struct {
		int ndim;
		int64_t shape[3], stride[3], offset;
		double expected[6];
	} cases[] = {
		{ 2, { 2, 3 }, { 3, 1 }, 0, { 0, 1, 2, 3, 4, 5 } },
		{ 2, { 3, 2 }, { 1, 3 }, 1, { 1, 4, 2, 5, 3, 6 } },
		{ 2, { 2, 3 }, { 0, 1 }, 4, { 4, 5, 6, 4, 5, 6 } },
		{ 3, { 2, 1, 3 }, { 12, INT64_MAX, 2 }, 0, { 0, 2, 4, 12, 14, 16 } },
		{ 1, { 6 }, { 1 }, 18, { 18, 19, 20, 21, 22, 23 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_tree_tensor t = { .ndim = cases[i].ndim,
			.shape = cases[i].shape,
			.stride = cases[i].stride,
			.offset = cases[i].offset,
			.storage = STORAGE(data, sizeof(data)) };
		double out[6];

		assert_int_equal(gt_ckpt_tensor_check(&t, GT_ERR_IGNORED), 0);
		assert_int_equal(gt_ckpt_tensor_read(&t, GT_F64, out, GT_ERR_IGNORED), 0);
		assert_memory_equal(out, cases[i].expected, sizeof(out));
	}
}

/* More elements than one run of the converter, and strides that are not those of memory. */
static void test_long(void **state)
{
	enum { ROWS = 37, COLUMNS = 41 };
	static int32_t data[ROWS * COLUMNS];
	static int64_t out[ROWS * COLUMNS];
	const int64_t shape[] = { COLUMNS, ROWS }, stride[] = { 1, COLUMNS };
	struct gt_tree_tensor t = { .dtype = GT_I32,
		.ndim = 2,
		.shape = shape,
		.stride = stride,
		.storage = STORAGE(data, sizeof(data)) };

	(void)state;
	for (int i = 0; i < ROWS * COLUMNS; i++)
		data[i] = i - 700;
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_I64, out, GT_ERR_IGNORED), 0);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		assert_int_equal(out[i], i % ROWS * COLUMNS + i / ROWS - 700);
}

static void test_swapped(void **state)
{
	static const unsigned char f32[] = { 0x3f, 0xc0, 0, 0 }, i16[] = { 0x12, 0x34 };
	static const unsigned char c64[] = { 0x3f, 0x80, 0, 0, 0x40, 0, 0, 0 };
	struct gt_storage s;
	struct gt_tree_tensor t = scalar(GT_F32, f32, &s);
	double real;
	int64_t integer;
	float complex[2];

	(void)state;
	t.storage->swapped = true;
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_F64, &real, GT_ERR_IGNORED), 0);
	assert_true(real == 1.5);
	t = scalar(GT_I16, i16, &s);
	t.storage->swapped = true;
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_I64, &integer, GT_ERR_IGNORED), 0);
	assert_int_equal(integer, 0x1234);
	t = scalar(GT_C64, c64, &s);
	t.storage->swapped = true;
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_C64, complex, GT_ERR_IGNORED), 0);
	assert_true(complex[0] == 1 && complex[1] == 2);
}

static void test_integers(void **state)
{
	static const struct {
		enum gt_dtype to;
		int64_t value;
		int rc;
	} cases[] = {
		{ GT_I32, INT32_MAX, 0 },
		{ GT_I32, INT32_MIN, 0 },
		{ GT_I32, (int64_t)INT32_MAX + 1, GT_EINVAL },
		{ GT_I16, -32769, GT_EINVAL },
		{ GT_I8, -128, 0 },
		{ GT_U8, 255, 0 },
		{ GT_U8, -1, GT_EINVAL },
		{ GT_U8, 256, GT_EINVAL },
		{ GT_U16, 65535, 0 },
		{ GT_U16, 65536, GT_EINVAL },
		{ GT_U32, UINT32_MAX, 0 },
		{ GT_U32, (int64_t)UINT32_MAX + 1, GT_EINVAL },
		{ GT_U64, INT64_MAX, 0 },
		{ GT_U64, -1, GT_EINVAL },
		{ GT_BOOL, 1, 0 },
		{ GT_BOOL, 2, GT_EINVAL },
		{ GT_F32, 1, GT_ENOTSUP },
		{ GT_C64, 1, GT_ENOTSUP },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_storage s, s2;
		struct gt_tree_tensor t = scalar(GT_I64, &cases[i].value, &s), back;
		unsigned char out[16];
		int64_t again;

		assert_int_equal(
		    gt_ckpt_tensor_read(&t, cases[i].to, out, GT_ERR_IGNORED), cases[i].rc);
		if (cases[i].rc)
			continue;
		back = scalar(cases[i].to, out, &s2);
		assert_int_equal(gt_ckpt_tensor_read(&back, GT_I64, &again, GT_ERR_IGNORED), 0);
		assert_int_equal(again, cases[i].value);
	}
}

/* The half of uint64 that no other integer type has. */
static void test_large_unsigned(void **state)
{
	const uint64_t value = UINT64_MAX - 1;
	struct gt_storage s;
	struct gt_tree_tensor t = scalar(GT_U64, &value, &s);
	struct gt_err err = GT_ERR_INIT;
	uint64_t same;
	int64_t out;

	(void)state;
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_I64, &out, &err), GT_EINVAL);
	assert_string_equal(err.text, "the value 18446744073709551614 does not fit int64");
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_U64, &same, &err), 0);
	assert_true(same == value);
}

static void test_check(void **state)
{
	static const struct {
		int ndim;
		int64_t shape[3], stride[3], offset;
		int rc;
	} cases[] = {
		{ 1, { 4 }, { 1 }, 0, 0 },
		{ 1, { 5 }, { 1 }, 0, GT_EFORMAT },
		{ 1, { 4 }, { 1 }, 1, GT_EFORMAT },
		{ 1, { 2 }, { 3 }, 0, 0 },
		{ 1, { 2 }, { 4 }, 0, GT_EFORMAT },
		{ 1, { 2 }, { -1 }, 1, GT_EFORMAT },
		{ 1, { -1 }, { 1 }, 0, GT_EFORMAT },
		{ 1, { 1 }, { 1 }, -1, GT_EFORMAT },
		{ 0, { 0 }, { 0 }, 3, 0 },
		{ 0, { 0 }, { 0 }, 4, GT_EFORMAT },
		{ 0, { 0 }, { 0 }, INT64_MAX, GT_EFORMAT },
		{ 1, { 0 }, { 1 }, 77, 0 },
		{ 2, { INT64_MAX, 2 }, { 0, 0 }, 0, GT_EFORMAT },
		{ 2, { INT64_MAX / 8, 1 }, { 0, 0 }, 0, GT_EFORMAT },
		{ 3, { INT64_MAX, INT64_MAX, 0 }, { 0, 0, 0 }, 0, GT_EFORMAT },
		{ 2, { 3, 3 }, { INT64_MAX, 1 }, 0, GT_EFORMAT },
		{ 2, { 2, 2 }, { INT64_MAX, 1 }, 0, GT_EFORMAT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_tree_tensor t = { .ndim = cases[i].ndim,
			.shape = cases[i].shape,
			.stride = cases[i].stride,
			.offset = cases[i].offset,
			.storage = STORAGE(NULL, 16) };

		assert_int_equal(gt_ckpt_tensor_check(&t, GT_ERR_IGNORED), cases[i].rc);
	}
}

static void test_scalars(void **state)
{
	const float whole = 10, part = 2.5;
	const int16_t integer = -3;
	struct gt_storage s;
	struct gt_tree t = { .kind = GT_TREE_TENSOR, .tensor = scalar(GT_F32, &whole, &s) };
	int64_t i = 99;
	double d = 99;

	(void)state;
	assert_true(gt_tree_as_int(&t, &i) && i == 10);
	assert_true(gt_tree_as_float(&t, &d) && d == 10);
	t.tensor = scalar(GT_F32, &part, &s);
	assert_true(!gt_tree_as_int(&t, &i) && i == 10);
	assert_true(gt_tree_as_float(&t, &d) && d == 2.5);
	t.tensor = scalar(GT_I16, &integer, &s);
	assert_true(gt_tree_as_int(&t, &i) && i == -3);
	assert_true(gt_tree_as_float(&t, &d) && d == -3);
	t = (struct gt_tree){ .kind = GT_TREE_FLOAT, .real = 0x1p63 };
	assert_true(!gt_tree_as_int(&t, &i) && i == -3);
	t.real = NAN;
	assert_false(gt_tree_as_int(&t, &i));
	t = (struct gt_tree){ .kind = GT_TREE_STRING };
	assert_true(!gt_tree_as_int(&t, &i) && !gt_tree_as_float(&t, &d) && d == -3);
	assert_true(!gt_tree_as_int(NULL, &i) && !gt_tree_as_float(NULL, &d));
}

/* A damaged scalar is an error, not a missing value. */
static void test_damaged_scalar(void **state)
{
	const float whole = 10;
	const _Complex float complex = 1;
	struct gt_err err = GT_ERR_INIT;
	struct gt_storage s;
	struct gt_tree t = { .kind = GT_TREE_TENSOR, .tensor = scalar(GT_F32, &whole, &s) };
	int64_t i = 99;
	double d = 99;

	(void)state;
	s.name = "data/0";
	s.has_crc = true;
	s.crc = 0xdeadbeef;
	assert_int_equal(gt_tree_read_int(&t, &i, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "'data/0' is damaged"));
	assert_int_equal(gt_tree_read_float(&t, &d, &err), GT_EFORMAT);
	assert_true(!gt_tree_as_int(&t, &i) && !gt_tree_as_float(&t, &d) && i == 99 && d == 99);
	s.has_crc = false;
	assert_int_equal(gt_tree_read_int(&t, &i, &err), 1);
	assert_int_equal(gt_tree_read_float(&t, &d, &err), 1);
	assert_true(i == 10 && d == 10);
	t.tensor = scalar(GT_C64, &complex, &s);
	assert_int_equal(gt_tree_read_int(&t, &i, &err), 0);
	assert_int_equal(gt_tree_read_int(NULL, &i, &err), 0);
}

/* ---- repeated elements ---- */

static void test_repeats(void **state)
{
	struct gt_storage small = { .size_bytes = 16 }, large = { .size_bytes = 2 << 20 };
	const uint64_t gib = 1 << 30;
	const struct {
		struct {
			const struct gt_storage *storage;
			uint64_t bytes;
		} uses[3];
		int expected;
	} cases[] = {
		{ { { &small, gib } }, 0 },
		{ { { &small, gib + 1 } }, GT_ENOTSUP },
		{ { { &small, gib / 2 }, { &large, 16 }, { &small, gib / 2 } }, 0 },
		{ { { &large, gib }, { &small, gib }, { &large, 1 } }, 0 },
		{ { { &large, gib }, { &large, gib }, { &large, 1025 } }, GT_ENOTSUP },
		{ { { &large, UINT64_MAX }, { &small, 2 }, { &small, 2 } }, GT_ENOTSUP },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_repeats repeats = { 0 };
		int rc = 0;

		for (size_t k = 0; k < 3 && !rc; k++)
			if (cases[i].uses[k].storage)
				rc = gt_repeats_add(&repeats, cases[i].uses[k].storage,
				    cases[i].uses[k].bytes, &err);
		assert_int_equal(gt_repeats_end(&repeats, rc, &err), cases[i].expected);
	}
	assert_int_equal(gt_repeats_end(&(struct gt_repeats){ 0 }, 0, GT_ERR_IGNORED), 0);
	assert_int_equal(
	    gt_repeats_end(&(struct gt_repeats){ 0 }, GT_ENOMEM, GT_ERR_IGNORED), GT_ENOMEM);
}

/* Tensors of more elements than are compared at a time. */
static void test_same(void **state)
{
	enum { ROWS = 3, COLUMNS = 700, N = ROWS * COLUMNS };
	static float first[N], second[N];
	static uint16_t narrow_first[N];
	static const int64_t shape[2] = { ROWS, COLUMNS }, flat[1] = { N };
	static const int64_t stride[2] = { COLUMNS, 1 }, turned[2] = { 1, ROWS };
	struct gt_tree_tensor a = { .dtype = GT_F32,
		.ndim = 2,
		.shape = shape,
		.stride = stride,
		.storage = STORAGE(first, sizeof(first)) };
	struct gt_tree_tensor b = a, c = a;

	(void)state;
	for (int i = 0; i < N; i++) {
		first[i] = (float)(i % 200);
		narrow_first[i] = narrow(first[i], GT_BF16);
	}
	memcpy(second, first, sizeof(second));
	assert_int_equal(gt_ckpt_tensor_same(&a, &a, GT_F32, GT_ERR_IGNORED), 1);
	b.storage = STORAGE(second, sizeof(second));
	assert_int_equal(gt_ckpt_tensor_same(&a, &b, GT_F32, GT_ERR_IGNORED), 1);
	second[N - 1] = nextafterf(second[N - 1], 0);
	assert_int_equal(gt_ckpt_tensor_same(&a, &b, GT_F32, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_ckpt_tensor_same(&a, &b, GT_BF16, GT_ERR_IGNORED), 1);
	c.dtype = GT_BF16;
	c.storage = STORAGE(narrow_first, sizeof(narrow_first));
	assert_int_equal(gt_ckpt_tensor_same(&a, &c, GT_F32, GT_ERR_IGNORED), 1);
	assert_int_equal(gt_ckpt_tensor_same(&c, &b, GT_F32, GT_ERR_IGNORED), 0);
	/* the same storage, in another order or another shape */
	c = a;
	c.stride = turned;
	assert_int_equal(gt_ckpt_tensor_same(&a, &c, GT_F32, GT_ERR_IGNORED), 0);
	c = a;
	c.ndim = 1;
	c.shape = flat;
	c.stride = turned;
	assert_int_equal(gt_ckpt_tensor_same(&a, &c, GT_F32, GT_ERR_IGNORED), 0);
	/* -0 and 0 are equal numbers of other bits */
	memcpy(second, first, sizeof(second));
	second[0] = -0.0F;
	assert_int_equal(gt_ckpt_tensor_same(&a, &b, GT_F32, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_ckpt_tensor_same(&a, &b, GT_I32, GT_ERR_IGNORED), GT_ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_f16),
		cmocka_unit_test(test_round_bf16),
		cmocka_unit_test(test_round_f8),
		cmocka_unit_test(test_strides),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_swapped),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_large_unsigned),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_damaged_scalar),
		cmocka_unit_test(test_repeats),
		cmocka_unit_test(test_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
