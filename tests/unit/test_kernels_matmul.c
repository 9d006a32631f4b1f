/* test_kernels_matmul.c - matrix products against naive loops in float64. */
#include "tests/common/calls.h"
#include "tests/common/device.h"

/* Sums of up to 1000 products of numbers below 1: float32 keeps 24 bits, of which a sum loses
 * few. */
#define F32_TOLERANCE 3e-6
#define F64_TOLERANCE 1e-13
/* One rounding of a sum in float32, relative to the largest. */
#define BF16_TOLERANCE 0x1p-8
#define F16_TOLERANCE  0x1p-11

/* cuBLASLt's kernels for rows that are not whole 16 bytes may round more than once: on an H200, a
 * bfloat16 product with a bias and rows of 65 elements was 1.1 * 2^-8 away. */
static double tolerance_of(enum gt_dtype dtype)
{
	static const double tolerances[] = { [GT_F32] = F32_TOLERANCE,
		[GT_F64] = F64_TOLERANCE,
		[GT_BF16] = BF16_TOLERANCE,
		[GT_F16] = F16_TOLERANCE };

	return tolerances[dtype] * (test_device_is_cpu() ? 1 : 1.5);
}

/* Uniform in [-1, 1). */
static void fill(struct gt_tensor *t, uint32_t seed)
{
	test_random(t, seed, -1, 1);
}

struct matmul_case {
	int64_t m, n, k;
};

static struct gt_call matmul_call(
    enum gt_dtype dtype, const struct matmul_case *c, bool ta, bool tb, bool bias)
{
	struct gt_call call = { .inputs = bias ? 3 : 2, .outputs = 1 };

	call.attrs.matmul.trans_a = ta;
	call.attrs.matmul.trans_b = tb;
	call.in[0] = ta ? test_tensor2(dtype, c->k, c->m) : test_tensor3(dtype, 1, c->m, c->k);
	call.in[1] = tb ? test_tensor2(dtype, c->n, c->k) : test_tensor2(dtype, c->k, c->n);
	if (bias)
		call.in[2] = test_tensor1(dtype, c->n);
	call.out[0] = test_tensor2(dtype, c->m, c->n);
	for (int i = 0; i < call.inputs; i++)
		fill(&call.in[i], (uint32_t)i);
	return call;
}

static void matmul_naive(
    const struct gt_call *call, const struct matmul_case *c, struct gt_tensor *y)
{
	for (int64_t i = 0; i < c->m; i++)
		for (int64_t j = 0; j < c->n; j++) {
			double sum = call->inputs > 2 ? test_get(&call->in[2], j) : 0;

			for (int64_t k = 0; k < c->k; k++)
				sum +=
				    test_get(&call->in[0],
				        call->attrs.matmul.trans_a ? k * c->m + i : i * c->k + k) *
				    test_get(&call->in[1],
				        call->attrs.matmul.trans_b ? j * c->k + k : k * c->n + j);
			test_put(y, i * c->n + j, sum);
		}
}

static void test_matmul(void **state)
{
	static const struct matmul_case cases[] = { { 1, 1, 1 }, { 3, 17, 65 }, { 17, 3, 1 },
		{ 65, 65, 3 }, { 1, 65, 17 }, { 65, 1, 130 }, { 48, 64, 32 }, { 96, 65, 128 } };
	static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]) * 24; n++) {
		const struct matmul_case *c = &cases[n / 24];
		enum gt_dtype dtype = types[n % 4];
		bool bias = n / 4 % 2, ta = n / 8 % 3 == 1, tb = n / 8 % 3 == 2;
		struct gt_call call = matmul_call(dtype, c, ta, tb, bias);
		struct gt_tensor want = test_tensor2(GT_F64, c->m, c->n);

		matmul_naive(&call, c, &want);
		if (dtype != GT_F16 || !test_device_is_cpu()) { /* the CPU has no products of it */
			test_launch(set[0].set, "matmul", dtype, &call);
			assert_near(&call.out[0], &want, tolerance_of(dtype),
			    "%s m %d n %d k %d ta %d tb %d bias %d\n", gt_dtype_name(dtype),
			    (int)c->m, (int)c->n, (int)c->k, ta, tb, bias);
		}
		free(want.data);
		test_release(&call);
	}
}

/* Whether every row of the factors and of the result begins at 16 bytes, transposed or not. */
static bool has_aligned_rows(const struct matmul_case *c)
{
	enum { ELEMENTS = 16 / sizeof(float) };

	return c->m % ELEMENTS == 0 && c->n % ELEMENTS == 0 && c->k % ELEMENTS == 0;
}

/*
 * Factors rounded to TF32. Each may lose 2^-11 of itself where it is rounded, 2^-10 where a library
 * cuts it off; so a product may lose 2^-9, and so may a sum, of the sum of its terms without signs.
 * F32_TOLERANCE is for sums in float32. Without the mark nothing is rounded (test_matmul); a CPU
 * takes no notice of it. cuBLASLt may compute a product whose rows are not aligned without tensor
 * cores, and then rounds nothing.
 */
static void check_tf32(const struct matmul_case *c, bool ta, bool tb, bool bias)
{
	struct gt_call call = matmul_call(GT_F32, c, ta, tb, bias);
	struct gt_call sizes = matmul_call(GT_F32, c, ta, tb, bias);
	struct gt_tensor want = test_tensor2(GT_F64, c->m, c->n), max = want;
	struct test_set set[3];
	bool cpu = test_device_is_cpu();

	test_sets(set);
	max.data = test_alloc((size_t)(c->m * c->n) * sizeof(double));
	for (int k = 0; k < sizes.inputs; k++)
		for (int64_t i = 0; i < gt_tensor_elements(&sizes.in[k]); i++)
			test_put(&sizes.in[k], i, fabs(test_get(&sizes.in[k], i)));
	matmul_naive(&call, c, &want);
	matmul_naive(&sizes, c, &max);
	call.attrs.matmul.tf32 = true;
	test_launch(set[0].set, "matmul", GT_F32, &call);
	for (int64_t i = 0; i < c->m * c->n; i++) {
		double bound = ((cpu ? 0 : 0x1p-9) + F32_TOLERANCE) * test_get(&max, i);

		if (!(fabs(test_get(&call.out[0], i) - test_get(&want, i)) <= bound))
			fail_msg("m %d n %d k %d ta %d tb %d: element %d", (int)c->m, (int)c->n,
			    (int)c->k, ta, tb, (int)i);
	}
	if (!cpu && has_aligned_rows(c) && test_distance(&call.out[0], &want) < 10 * F32_TOLERANCE)
		fail_msg("m %d n %d k %d: nothing was rounded", (int)c->m, (int)c->n, (int)c->k);
	free(want.data);
	free(max.data);
	test_release(&sizes);
	test_release(&call);
}

static void test_tf32(void **state)
{
	static const struct matmul_case cases[] = { { 3, 17, 65 }, { 17, 4, 9 }, { 65, 65, 33 },
		{ 48, 64, 32 }, { 96, 65, 128 } };

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]) * 6; n++)
		check_tf32(&cases[n / 6], n % 3 == 1, n % 3 == 2, n / 3 % 2);
}

/* A product of one row where any order of a sum will do: the row of each set's own table. */
static struct gt_call one_row_call(
    enum gt_dtype dtype, const struct matmul_case *c, bool tb, bool bias)
{
	struct gt_call call = matmul_call(dtype, c, false, tb, bias);

	call.attrs.matmul.relaxed = true;
	return call;
}

static void same_bits(
    const struct gt_call *a, const struct gt_call *b, const char *set, const struct matmul_case *c)
{
	if (memcmp(a->out[0].data, b->out[0].data, (size_t)c->n * gt_dtype_size(a->out[0].dtype)))
		fail_msg("%s, n %d k %d: the bits depend on the number of threads", set, (int)c->n,
		    (int)c->k);
}

static void check_one_row(const struct test_set *set, enum gt_dtype dtype,
    const struct matmul_case *c, bool tb, bool bias)
{
	struct gt_tensor want = test_tensor2(GT_F64, 1, c->n);
	struct gt_call one = one_row_call(dtype, c, tb, bias);

	matmul_naive(&one, c, &want);
	omp_set_num_threads(1);
	test_launch(set->set, "matmul", dtype, &one);
	assert_near(&one.out[0], &want, dtype == GT_F32 ? F32_TOLERANCE : F64_TOLERANCE,
	    "%s %s n %d k %d tb %d bias %d\n", set->name, gt_dtype_name(dtype), (int)c->n,
	    (int)c->k, tb, bias);
	for (int threads = 2; threads < 5; threads++) {
		struct gt_call more = one_row_call(dtype, c, tb, bias);

		omp_set_num_threads(threads);
		test_launch(set->set, "matmul", dtype, &more);
		same_bits(&one, &more, set->name, c);
		test_release(&more);
	}
	free(want.data);
	test_release(&one);
}

static void test_one_row(void **state)
{
	/* The last five are large enough for several threads. */
	static const struct matmul_case cases[] = { { 1, 1, 1 }, { 1, 3, 17 }, { 1, 65, 8 },
		{ 1, 130, 7 }, { 1, 63, 64 }, { 1, 515, 131 }, { 1, 129, 768 }, { 1, 768, 61 },
		{ 1, 1300, 26 }, { 1, 26, 1300 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]) * 8; n++)
			check_one_row(
			    &set[s], n % 2 ? GT_F64 : GT_F32, &cases[n / 8], n / 2 % 2, n / 4 % 2);
}

/* Training's sums keep their order: only a relaxed product of one row is taken by these kernels. */
static void test_who_takes_one_row(void **state)
{
	static const struct matmul_case one = { 1, 5, 7 }, two = { 2, 5, 7 };
	static const struct {
		const struct matmul_case *c;
		bool ta, relaxed, taken;
	} rows[] = { { &one, false, true, true }, { &one, false, false, false },
		{ &two, false, true, false }, { &one, true, true, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_call call = matmul_call(GT_F32, rows[i].c, rows[i].ta, false, false);
		/* the table behind that of weights in blocks */
		const struct gt_kernel *k, *gemv = gt_cpu_set_base.tables[1];

		call.attrs.matmul.relaxed = rows[i].relaxed;
		k = test_row(&gt_cpu_set_base, "matmul", GT_F32, &call);
		assert_int_equal(k == gemv, rows[i].taken);
		test_release(&call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_one_row),
		cmocka_unit_test(test_who_takes_one_row),
	};
	const struct CMUnitTest on_devices[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_one_row),
	};

	/* A GPU's choice of algorithms is not to be kept in the user's cache. */
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	return test_device_is_cpu() ? cmocka_run_group_tests(tests, NULL, NULL)
	                            : cmocka_run_group_tests(on_devices, NULL, NULL);
}
