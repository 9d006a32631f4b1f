/* test_divided_products.c - products with a ragged size, which are computed in two parts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "kernels/cuda/library/product.h"
#include "lib/base/half.h"
#include "lib/device/backend.h"
#include "tests/cudasim/cudasim.h"

/* BIG * BIG * RAGGED is just large enough to be divided; RAGGED is 7 above a multiple of 16. */
enum { BIG = 512, RAGGED = 1031, STRIDE = 1032 };

/* The types, and sizes m, n and k. ADDS is a gradient by weights, LOGITS a product with them. */
#define SIZES(a, b, c)  .m = (a), .n = (b), .k = (c)
#define STRIDES(a, y)   .a_stride = (a), .y_stride = (y)
#define HALF            .dtype = GT_F16
#define BRAIN           .dtype = GT_BF16
#define TF32            .dtype = GT_F32, .tf32 = true
#define ADDS            .dtype = GT_BF16, .wide = true, .trans_a = true
#define LOGITS(a, b, c) .trans_b = true, SIZES(a, b, c)

static const struct gt_backend *const b = &gt_cuda_backend;

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

/* The rows divide n, k, k, m, n, k and m. */
static const struct gt_product_shape divided[] = {
	{ BRAIN, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE) },
	{ HALF, SIZES(BIG, BIG, RAGGED), STRIDES(STRIDE, 0) },
	{ BRAIN, SIZES(BIG, BIG, RAGGED), STRIDES(STRIDE, BIG + 16) },
	{ ADDS, SIZES(RAGGED, BIG, BIG), STRIDES(STRIDE, 0) },
	{ TF32, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE) },
	{ TF32, SIZES(BIG, BIG, RAGGED), STRIDES(STRIDE, 0) },
	{ TF32, .trans_a = true, SIZES(RAGGED, BIG, BIG), STRIDES(STRIDE, BIG + 4) },
};

static const struct gt_product_shape whole[] = {
	/* no ragged size */
	{ BRAIN, LOGITS(BIG, STRIDE, BIG), STRIDES(0, STRIDE + 8) },
	/* rows that do not begin aligned */
	{ BRAIN, LOGITS(BIG, RAGGED, BIG) },
	{ BRAIN, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE + 1) },
	{ BRAIN, SIZES(BIG, BIG, RAGGED) },
	{ BRAIN, SIZES(BIG, RAGGED, BIG), STRIDES(0, STRIDE) },
	{ BRAIN, LOGITS(BIG, BIG, RAGGED), STRIDES(STRIDE, 0) },
	/* two ragged sizes */
	{ ADDS, .trans_b = true, SIZES(RAGGED, RAGGED, BIG), STRIDES(STRIDE, STRIDE) },
	/* small products, and a small size */
	{ BRAIN, LOGITS(BIG, RAGGED, BIG - 8), STRIDES(0, STRIDE) },
	{ BRAIN, LOGITS(BIG * 16, 15, BIG * 16), STRIDES(0, 16) },
	/* types and ends */
	{ .dtype = GT_F32, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE) },
	{ .dtype = GT_F64, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE) },
	{ BRAIN, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE), .bias = true },
	{ BRAIN, LOGITS(BIG, RAGGED, BIG), STRIDES(0, STRIDE), .end = GT_PRODUCT_GELU },
};

static struct gt_product *product_of(const struct gt_product_shape *shape)
{
	struct gt_product_shape s = *shape;
	struct gt_err err = GT_ERR_INIT;
	struct gt_product *p;

	s.untimed = true;
	ok(b->enter(0, &err), &err);
	ok(gt_product_new(&p, &s, &err), &err);
	return p;
}

/* ---- which products are divided, and their cost ---- */

static struct gt_call cost_of(const struct gt_product_shape *s, int64_t runs)
{
	struct gt_product *p = product_of(s);
	struct gt_call call = { 0 };

	gt_product_add_cost(p, runs, &call);
	gt_product_free(p);
	return call;
}

static void test_which_are_divided(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(divided) / sizeof(divided[0]); i++)
		if (cost_of(&divided[i], 1).launches != 2)
			fail_msg("product %zu should be divided", i);
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		struct gt_call call = cost_of(&whole[i], 3);

		if (call.launches != 3)
			fail_msg("product %zu should be whole", i);
		assert_true(call.more_bytes_read == 0 && call.more_bytes_written == 0);
	}
}

/* The rest of n reads all of a, that of m all of b; that of k writes y, which is then read. */
static void test_cost(void **state)
{
	struct gt_call n = cost_of(&divided[0], 2), k = cost_of(&divided[1], 1);
	struct gt_call m = cost_of(&divided[3], 1);

	(void)state;
	assert_int_equal(n.launches, 4);
	assert_true(n.more_bytes_read == 2 * 2 * BIG * BIG && n.more_bytes_written == 0);
	assert_true(m.more_bytes_read == 2 * BIG * BIG && m.more_bytes_written == 0);
	assert_true(k.more_bytes_read == 2 * BIG * BIG && k.more_bytes_written == 2 * BIG * BIG);
}

/* ---- their results: small whole numbers, so that all sums are exact in each type ---- */

struct matrix {
	enum gt_dtype dtype;
	int64_t rows, cols, row;
	char *host, *device;
};

static double get(const struct matrix *m, int64_t i, int64_t j)
{
	const char *at = m->host + (i * m->row + j) * (int64_t)gt_dtype_size(m->dtype);

	if (m->dtype == GT_F32)
		return *(const float *)at;
	return m->dtype == GT_F16 ? gt_float_of_f16(*(const uint16_t *)at)
	                          : gt_float_of_bf16(*(const uint16_t *)at);
}

static void put(struct matrix *m, int64_t i, int64_t j, float x)
{
	char *at = m->host + (i * m->row + j) * (int64_t)gt_dtype_size(m->dtype);

	if (m->dtype == GT_F32)
		*(float *)at = x;
	else
		*(uint16_t *)at = m->dtype == GT_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x);
}

static size_t bytes_of(const struct matrix *m)
{
	return (size_t)(m->rows * m->row) * gt_dtype_size(m->dtype);
}

/* -1, 0 or 1, and `gap` between rows. */
static struct matrix matrix_of(
    struct gt_device *d, enum gt_dtype dtype, int64_t rows, int64_t cols, int64_t row, float gap)
{
	struct matrix m = { dtype, rows, cols, row ? row : cols, NULL, NULL };
	struct gt_err err = GT_ERR_INIT;
	uint32_t x = (uint32_t)(rows + 3 * cols);

	m.host = malloc(bytes_of(&m));
	assert_non_null(m.host);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < m.row; j++) {
			x = x * 1664525 + 1013904223;
			put(&m, i, j, j < cols ? (float)((int)(x >> 24) % 3 - 1) : gap);
		}
	ok(gt_device_alloc(d, bytes_of(&m), (void **)&m.device, &err), &err);
	ok(gt_device_write(d, m.device, m.host, bytes_of(&m), &err), &err);
	return m;
}

static void release(struct gt_device *d, struct matrix *m)
{
	gt_device_free(d, m->device, bytes_of(m));
	free(m->host);
}

/* y [i, :] = a b, on the host. */
static void row_of(const struct gt_product_shape *s, const struct matrix *a, const struct matrix *w,
    int64_t i, double *y)
{
	memset(y, 0, (size_t)s->n * sizeof(*y));
	for (int64_t k = 0; k < s->k; k++) {
		double x = s->trans_a ? get(a, k, i) : get(a, i, k);

		for (int64_t j = 0; x != 0 && j < s->n; j++)
			y[j] += x * (s->trans_b ? get(w, j, k) : get(w, k, j));
	}
}

/* Some of the first rows, all of the last ones, and the gaps of y. */
static void check_rows(const struct gt_product_shape *s, const struct matrix *a,
    const struct matrix *w, const struct matrix *c, const struct matrix *y, double beta)
{
	double *want = malloc((size_t)s->n * sizeof(*want));

	assert_non_null(want);
	for (int64_t i = 0; i < s->m; i++) {
		if (i % 64 && i < s->m - 9)
			continue;
		row_of(s, a, w, i, want);
		for (int64_t j = 0; j < y->row; j++) {
			double x = j < s->n ? 2 * want[j] + beta * get(c, i, j) : get(c, i, j);

			if (get(y, i, j) != x)
				fail_msg(
				    "y[%d, %d] is %g, not %g", (int)i, (int)j, get(y, i, j), x);
		}
	}
	free(want);
}

/* y = 2 a b + beta c, where c is y's former content. */
static void check_run(const struct gt_product_shape *s, struct gt_device *d, double beta)
{
	enum gt_dtype wide = s->wide ? GT_F32 : s->dtype;
	struct matrix a = matrix_of(
	    d, s->dtype, s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, s->a_stride, NAN);
	struct matrix w =
	    matrix_of(d, s->dtype, s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, 0, 0);
	struct matrix c = matrix_of(d, wide, s->m, s->n, s->y_stride, 99);
	struct matrix y = matrix_of(d, wide, s->m, s->n, s->y_stride, 99);
	struct gt_product *p = product_of(s);
	struct gt_err err = GT_ERR_INIT;
	long queued = cudasim_products.queued;

	assert_int_equal(gt_product_workspace(p), 0); /* of the first algorithm */
	ok(gt_product_run(p, d->compute, y.device, a.device, w.device, beta != 0 ? y.device : NULL,
	       2, beta, NULL, &err),
	    &err);
	assert_int_equal(cudasim_products.queued - queued, 2);
	ok(gt_device_read(d, y.host, y.device, bytes_of(&y), &err), &err);
	check_rows(s, &a, &w, &c, &y, beta);
	gt_product_free(p);
	release(d, &y);
	release(d, &c);
	release(d, &w);
	release(d, &a);
}

/* Each size is divided with a beta of 0 and with one of 1. */
static void test_results(void **state)
{
	static const double betas[] = { 0, 0, 1, 0, 1, 1, 1 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;

	(void)state;
	ok(gt_device_open(&d, b, 0, &err), &err);
	for (size_t i = 0; i < sizeof(divided) / sizeof(divided[0]); i++)
		check_run(&divided[i], d, betas[i]);
	gt_device_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_are_divided),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_results),
	};

	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
