/* test_fused.c - products fused with other ops, with epilogues and without, against plain loops. */
#include "tests/common/calls.h"
#include "tests/cudasim/cudasim.h"

/* Sums of up to 100 products of numbers below 1, and one rounding, relative to the largest; gelu's
 * gradient multiplies by numbers that may be rounded before. */
static double tolerance_of(enum gt_dtype dtype)
{
	return dtype == GT_BF16  ? 0x1p-7
	       : dtype == GT_F16 ? 0x1p-10
	       : dtype == GT_F32 ? 3e-6
	                         : 1e-12;
}

static const enum gt_dtype dtypes[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };

struct sizes {
	int64_t m, n, k;
};

/* The last ones have no auxiliary matrix in the library: 8 does not divide the columns. */
static const struct sizes sizes[] = { { 5, 8, 3 }, { 66, 72, 100 }, { 1, 16, 1 }, { 7, 9, 10 },
	{ 130, 1, 5 } };
enum { SIZES = sizeof(sizes) / sizeof(*sizes), DTYPES = sizeof(dtypes) / sizeof(*dtypes) };

static struct test_set device(void)
{
	struct test_set set[3];

	assert_int_equal(test_sets(set), 1);
	return set[0];
}

/* Inputs 0 and 1 of a product. */
static struct gt_call product(enum gt_dtype f, const struct sizes *s, bool ta, bool tb)
{
	struct gt_call c = { .inputs = 2, .outputs = 1 };

	c.attrs.matmul.trans_a = ta;
	c.attrs.matmul.trans_b = tb;
	c.in[0] = ta ? test_tensor2(f, s->k, s->m) : test_tensor2(f, s->m, s->k);
	c.in[1] = tb ? test_tensor2(f, s->n, s->k) : test_tensor2(f, s->k, s->n);
	for (int i = 0; i < 2; i++)
		test_random(&c.in[i], (uint32_t)i, -1, 1);
	return c;
}

static double element(const struct gt_call *c, const struct sizes *s, int64_t i, int64_t j)
{
	double sum = 0;

	for (int64_t k = 0; k < s->k; k++)
		sum += test_get(&c->in[0], c->attrs.matmul.trans_a ? k * s->m + i : i * s->k + k) *
		       test_get(&c->in[1], c->attrs.matmul.trans_b ? j * s->k + k : k * s->n + j);
	return sum;
}

static double gelu(double x)
{
	return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
	double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));

	return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static void launch(const char *op, enum gt_dtype f, struct gt_call *c)
{
	struct test_set set = device();

	for (uint64_t seed = 1; seed < 3; seed++) {
		cudasim_seed(seed);
		test_launch(set.set, op, f, c);
	}
}

static void release(struct gt_call *c, struct gt_tensor *wanted, int count)
{
	for (int i = 0; i < count; i++)
		free(wanted[i].data);
	test_release(c);
}

/* Variants: with a bias, with b transposed, with the input of gelu. */
static void check_gelu(enum gt_dtype f, const struct sizes *s, unsigned variant)
{
	struct gt_call c = product(f, s, false, variant & 2);
	struct gt_tensor want[] = { test_tensor2(GT_F64, s->m, s->n),
		test_tensor2(GT_F64, s->m, s->n) };

	c.inputs = 3;
	c.outputs = 2;
	c.in[2] = test_tensor1(f, s->n);
	test_random(&c.in[2], 9, -1, 1);
	c.in[2].present = variant & 1;
	for (int i = 0; i < 2; i++)
		c.out[i] = test_tensor2(f, s->m, s->n);
	c.out[1].present = variant & 4;
	for (int64_t i = 0; i < s->m * s->n; i++) {
		double x = element(&c, s, i / s->n, i % s->n);

		x += variant & 1 ? test_get(&c.in[2], i % s->n) : 0;
		test_put(&want[0], i, gelu(x));
		test_put(&want[1], i, x);
	}
	launch("matmul_gelu", f, &c);
	assert_near(&c.out[0], &want[0], tolerance_of(f), "gelu %s %lld", gt_dtype_name(f),
	    (long long)s->m);
	if (variant & 4)
		assert_near(&c.out[1], &want[1], tolerance_of(f), "what gelu is given");
	release(&c, want, 2);
}

static void test_gelu(void **state)
{
	(void)state;
	for (int i = 0; i < SIZES * DTYPES; i++)
		for (unsigned variant = 0; variant < 8; variant++)
			check_gelu(dtypes[i / SIZES], &sizes[i % SIZES], variant);
}

static void check_gelu_grad(enum gt_dtype f, const struct sizes *s, bool tb)
{
	struct gt_call c = product(f, s, false, tb);
	struct gt_tensor want = test_tensor2(GT_F64, s->m, s->n);

	c.inputs = 3;
	c.in[2] = test_tensor2(f, s->m, s->n);
	test_random(&c.in[2], 9, -3, 3);
	c.out[0] = test_tensor2(f, s->m, s->n);
	for (int64_t i = 0; i < s->m * s->n; i++)
		test_put(&want, i,
		    element(&c, s, i / s->n, i % s->n) * gelu_slope(test_get(&c.in[2], i)));
	launch("matmul_gelu_grad", f, &c);
	assert_near(&c.out[0], &want, tolerance_of(f), "gelu_grad %s %lld", gt_dtype_name(f),
	    (long long)s->m);
	release(&c, &want, 1);
}

static void test_gelu_grad(void **state)
{
	(void)state;
	for (int i = 0; i < SIZES * DTYPES; i++)
		for (int tb = 0; tb < 2; tb++)
			check_gelu_grad(dtypes[i / SIZES], &sizes[i % SIZES], tb);
}

/* Which side is summed up: 0, 1, or none. */
static void check_weight_grad(enum gt_dtype f, const struct sizes *s, int side)
{
	enum gt_dtype wide = gt_dtype_wide(f);
	struct gt_call c = product(f, s, true, false);
	int64_t width = side ? s->n : s->m;
	struct gt_tensor want[] = { test_tensor2(GT_F64, s->m, s->n), test_tensor1(GT_F64, width) };

	c.inputs = 4;
	c.outputs = 2;
	c.out[0] = test_tensor2(wide, s->m, s->n);
	c.out[1] = test_tensor1(wide, width);
	c.out[1].present = side < 2;
	if (side < 2) {
		c.in[2 + side] = test_tensor1(f, width);
		test_random(&c.in[2 + side], 3, 0, 1);
	}
	for (int64_t i = 0; i < s->m * s->n; i++)
		test_put(&want[0], i, element(&c, s, i / s->n, i % s->n));
	for (int64_t j = 0; side < 2 && j < width; j++) {
		double sum = 0;

		for (int64_t k = 0; k < s->k; k++)
			sum += test_get(&c.in[side], k * width + j);
		test_put(&want[1], j, sum);
	}
	launch("weight_grad", f, &c);
	/* Not rounded to 16 bits. */
	assert_near(&c.out[0], &want[0], tolerance_of(wide), "weight_grad %s %lld",
	    gt_dtype_name(f), (long long)s->m);
	if (side < 2)
		assert_near(&c.out[1], &want[1], 1e-5, "sums of side %d", side);
	release(&c, want, 2);
}

static void test_weight_grad(void **state)
{
	(void)state;
	for (int i = 0; i < SIZES * DTYPES; i++)
		for (int side = 0; side < 3; side++)
			check_weight_grad(dtypes[i / SIZES], &sizes[i % SIZES], side);
}

/* How many kernels a row says that it queues. */
static int launches(const char *op, enum gt_dtype f, struct gt_call *c)
{
	struct gt_err err = GT_ERR_INIT;
	struct test_set set = device();
	const struct gt_kernel *k = test_row(set.set, op, f, c);
	struct gt_call asked = *c;

	asked.kernel = k;
	assert_int_equal(k->prepare(&asked, &err), 0);
	k->release(&asked);
	return asked.launches;
}

/* Where the library has the epilogue, there is one kernel; else, as for float32 here, the others
 * stand in. */
static void test_epilogues_are_used(void **state)
{
	(void)state;
	for (int low = 0; low < 2; low++) {
		enum gt_dtype f = low ? GT_BF16 : GT_F32;
		struct gt_call c = product(f, &sizes[0], false, false),
		               grad = product(f, &sizes[0], true, false);

		c.inputs = 3;
		c.in[2] = test_tensor1(f, 8);
		c.outputs = 2;
		c.out[0] = test_tensor2(f, 5, 8);
		c.out[1] = test_tensor2(f, 5, 8);
		assert_int_equal(launches("matmul_gelu", f, &c), low ? 1 : 2);
		free(c.in[2].data);
		c.in[2] = test_tensor2(f, 5, 8);
		assert_int_equal(launches("matmul_gelu_grad", f, &c), low ? 1 : 2);
		grad.inputs = 4;
		grad.in[3] = test_tensor1(f, 8);
		grad.outputs = 2;
		grad.out[0] = test_tensor2(GT_F32, 5, 8);
		grad.out[1] = test_tensor1(GT_F32, 8);
		assert_int_equal(launches("weight_grad", f, &grad), low ? 1 : 3);
		test_release(&c);
		test_release(&grad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gelu),
		cmocka_unit_test(test_gelu_grad),
		cmocka_unit_test(test_weight_grad),
		cmocka_unit_test(test_epilogues_are_used),
	};

	setenv("GTRAIN_TEST_BACKEND", "cuda", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
