/* test_kernels_softmax.c - softmax, its logarithm and gradients, against plain loops in float64. */
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

/* Variant 1: the logarithm. */
static void softmax_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = c->outputs = 1;
	c->attrs.softmax.log = d[VARIANT];
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[0], 11, -8, 8);
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void softmax_naive(struct gt_call *c)
{
	const struct gt_tensor *x = &c->in[0];
	int64_t n = gt_tensor_last(x);

	for (int64_t r = 0; r < gt_tensor_rows(x); r++) {
		double sum = 0;

		for (int64_t j = 0; j < n; j++)
			sum += exp(test_get(x, r * n + j));
		for (int64_t j = 0; j < n; j++) {
			double y = test_get(x, r * n + j) - log(sum);

			test_put(&c->out[0], r * n + j, c->attrs.softmax.log ? y : exp(y));
		}
	}
}

static void softmax_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->attrs.softmax.log = d[VARIANT];
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[0], 13, d[VARIANT] ? -6 : 0, d[VARIANT] ? 0 : 0.1);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[1], 14, -1, 1);
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void softmax_grad_naive(struct gt_call *c)
{
	const struct gt_tensor *y = &c->in[0], *dy = &c->in[1];
	bool is_log = c->attrs.softmax.log;
	int64_t n = gt_tensor_last(y);

	for (int64_t r = 0; r < gt_tensor_rows(y); r++) {
		double sum = 0;

		for (int64_t i = r * n; i < (r + 1) * n; i++)
			sum += test_get(dy, i) * (is_log ? 1 : test_get(y, i));
		for (int64_t i = r * n; i < (r + 1) * n; i++)
			test_put(&c->out[0], i,
			    is_log ? test_get(dy, i) - exp(test_get(y, i)) * sum
			           : test_get(y, i) * (test_get(dy, i) - sum));
	}
}

/* The last two differ in the input that is overwritten. Gradients of rows of 60000 are differences
 * from sums of so many numbers: see kernel_cases.h. */
static const struct kernel_case cases[] = {
	{ "softmax", softmax_make, softmax_naive, 2e-6, 0, 1, true },
	{ "softmax", softmax_make, softmax_naive, 2e-6, 1, 1, true },
	{ "softmax_grad", softmax_grad_make, softmax_grad_naive, 2e-5, 0, 2, true },
	{ "softmax_grad", softmax_grad_make, softmax_grad_naive, 2e-5, 1, 2, false },
	{ "softmax_grad", softmax_grad_make, softmax_grad_naive, 2e-5, 0, 1, true },
	{ "softmax_grad", softmax_grad_make, softmax_grad_naive, 2e-5, 1, 1, false },
};

static void test_rows(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
	kernel_check(cases, 4, KERNEL_LONG_ROWS);
}

static void test_half_rows(void **state)
{
	(void)state;
	kernel_check_half(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

/* Rows with infinities have PyTorch's results: -infinity is a probability of 0, a row of -infinity
 * alone and one with infinity or NaN are NaN, and large numbers are no infinities. */
static void check_special(const struct test_set *set, enum gt_dtype f, bool is_log)
{
	enum { ROWS = 6, COLUMNS = 67 };
	struct gt_call c = { .inputs = 1, .outputs = 1, .attrs.softmax.log = is_log };
	static const double first[ROWS] = { -INFINITY, 0, INFINITY, NAN, -INFINITY, 60000 };
	static const double others[ROWS] = { -INFINITY, -INFINITY, 1, 1, 1, -60000 };

	c.in[0] = test_tensor2(f, ROWS, COLUMNS);
	c.out[0] = test_tensor2(f, ROWS, COLUMNS);
	EACH(i, c.in[0])
	test_put(&c.in[0], i, (i % COLUMNS ? others : first)[i / COLUMNS]);
	test_launch(set->set, "softmax", f, &c);
	EACH(i, c.out[0])
	{
		static const double p[ROWS][2] = { { NAN, NAN }, { 1, 0 }, { NAN, NAN },
			{ NAN, NAN }, { 0, 1.0 / (COLUMNS - 1) }, { 1, 0 } };
		int64_t row = i / COLUMNS;
		double got = test_get(&c.out[0], i), want = p[row][i % COLUMNS > 0];

		if (is_log)
			want = row == 5 && i % COLUMNS ? -120000 : log(want);
		if (is_log && f == GT_F16 && row == 5 && i % COLUMNS)
			want = -INFINITY;
		if (!(isnan(want) ? isnan(got)
		                  : got == want || fabs(got - want) <= 0x1p-8 * fabs(want)))
			fail_msg("%s %s%s: row %d, column %d is %g, not %g", set->name,
			    gt_dtype_name(f), is_log ? " log" : "", (int)row, (int)(i % COLUMNS),
			    got, want);
	}
	test_release(&c);
}

static void test_special_rows(void **state)
{
	static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < 2 * COUNT(types); i++)
			check_special(&set[s], types[i / 2], i % 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_half_rows),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_special_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
