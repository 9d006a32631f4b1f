/* test_kernels_regression.c - the losses of numbers against plain loops. */
#include "lib/graph/ops/ops.h"
#include "tests/common/kernel_cases.h"

static void scalar(struct gt_tensor *t, enum gt_dtype f, double value)
{
	*t = test_tensor(f, 0, NULL);
	test_put(t, 0, value);
}

static void numbers_make(struct gt_tensor *t, enum gt_dtype f, int64_t n)
{
	*t = test_tensor1(f, n);
	test_random(t, 118, -5, 5);
}

/* The losses, by the variants of the cases. */
static const struct gt_regression losses[] = { { GT_REGRESSION_MSE, 0 }, { GT_REGRESSION_L1, 0 },
	{ GT_REGRESSION_HUBER, 2.5 }, { GT_REGRESSION_SMOOTH_L1, 2.5 } };

static double naive_term(const struct gt_regression *loss, double d)
{
	double quadratic =
	    fabs(d) < loss->delta ? d * d / 2 : loss->delta * (fabs(d) - loss->delta / 2);

	switch (loss->kind) {
	case GT_REGRESSION_MSE:
		return d * d;
	case GT_REGRESSION_L1:
		return fabs(d);
	case GT_REGRESSION_HUBER:
		return quadratic;
	case GT_REGRESSION_SMOOTH_L1:
		return quadratic / loss->delta;
	}
	return NAN;
}

static double naive_slope(const struct gt_regression *loss, double d)
{
	double bounded = fmax(-loss->delta, fmin(loss->delta, d));

	switch (loss->kind) {
	case GT_REGRESSION_MSE:
		return 2 * d;
	case GT_REGRESSION_L1:
		return copysign(d != 0, d);
	case GT_REGRESSION_HUBER:
		return bounded;
	case GT_REGRESSION_SMOOTH_L1:
		return bounded / loss->delta;
	}
	return NAN;
}

static void regression_loss_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0] * d[1], 1);
	test_random(&c->in[0], 117, -5, 5);
	numbers_make(&c->in[1], f, d[0] * d[1]);
	scalar(&c->in[2], f, 0.125);
	scalar(&c->out[0], f, 0);
	c->attrs.regression = losses[d[VARIANT]];
}

static void regression_loss_naive(struct gt_call *c)
{
	double sum = 0;

	EACH(i, c->in[1])
	{
		double d = test_get(&c->in[0], i) - test_get(&c->in[1], i);

		sum += isnan(d) ? 0 : naive_term(&c->attrs.regression, d);
	}
	test_put(&c->out[0], 0, 0.125 * sum);
}

static void regression_loss_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 4;
	c->outputs = 1;
	scalar(&c->in[0], f, 2);
	c->in[1] = test_tensor2(f, d[0] * d[1], 1);
	test_random(&c->in[1], 117, -5, 5);
	numbers_make(&c->in[2], f, d[0] * d[1]);
	scalar(&c->in[3], f, 0.125);
	c->attrs.regression = losses[d[VARIANT]];
	c->out[0] = test_tensor2(f, d[0] * d[1], 1);
}

static void regression_loss_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double d = test_get(&c->in[1], i) - test_get(&c->in[2], i);

		test_put(
		    &c->out[0], i, isnan(d) ? 0 : 2 * 0.125 * naive_slope(&c->attrs.regression, d));
	}
}

static void regress_stats_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0] * d[1], 1);
	test_random(&c->in[0], 117, -5, 5);
	numbers_make(&c->in[1], f, d[0] * d[1]);
	c->out[0] = test_tensor1(GT_F64, GT_REGRESS_STATS);
	c->attrs.regression = losses[d[VARIANT]];
}

static void regress_stats_naive(struct gt_call *c)
{
	double sum[GT_REGRESS_STATS] = { 0 };

	EACH(i, c->in[1])
	{
		double t = test_get(&c->in[1], i), d = test_get(&c->in[0], i) - t;

		if (isnan(t))
			continue;
		sum[0] += d * d;
		sum[1]++;
		sum[2] += fabs(d);
		sum[3] += t;
		sum[4] += t * t;
		sum[5] += naive_term(&c->attrs.regression, d);
	}
	for (int i = 0; i < GT_REGRESS_STATS; i++)
		test_put(&c->out[0], i, sum[i]);
}

#define EACH_LOSS(op, make, naive, overwrites)                                                     \
	{ op, make, naive, 1e-6, 0, overwrites, false },                                           \
	    { op, make, naive, 1e-6, 1, overwrites, false },                                       \
	    { op, make, naive, 1e-6, 2, overwrites, false },                                       \
	{                                                                                          \
		op, make, naive, 1e-6, 3, overwrites, false                                        \
	}

static const struct kernel_case cases[] = {
	EACH_LOSS("regression_loss", regression_loss_make, regression_loss_naive, 0),
	EACH_LOSS("regression_loss_grad", regression_loss_grad_make, regression_loss_grad_naive, 2),
	EACH_LOSS("regress_stats", regress_stats_make, regress_stats_naive, 0),
};

static void test_errors(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
	kernel_check(cases, COUNT(cases), KERNEL_LONG_ROWS);
}

/* A target that is NaN, as the bits of -100 are, does not count. */
static void test_missing_numbers(void **state)
{
	static const struct {
		const char *op;
		void (*make)(struct gt_call *, enum gt_dtype, kernel_sizes);
		void (*naive)(struct gt_call *);
		int target;
	} ops[] = { { "regression_loss", regression_loss_make, regression_loss_naive, 1 },
		{ "regression_loss_grad", regression_loss_grad_make, regression_loss_grad_naive,
		    2 },
		{ "regress_stats", regress_stats_make, regress_stats_naive, 1 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t k = 0; k < COUNT(ops) * (size_t)sets * COUNT(losses); k++) {
		size_t o = k % COUNT(ops), s = k / COUNT(ops) % (size_t)sets;
		kernel_sizes sizes = { 3, 7, 0, 0, (int64_t)(k / COUNT(ops) / (size_t)sets) };
		struct gt_call c[2] = { { .inputs = 0 } };
		struct gt_err err = GT_ERR_INIT;

		for (int i = 0; i < 2; i++) {
			int32_t ignore = -100;

			ops[o].make(&c[i], GT_F32, sizes);
			memcpy((float *)c[i].in[ops[o].target].data + 4, &ignore, sizeof(ignore));
			test_put(&c[i].in[ops[o].target], 20, NAN);
		}
		ops[o].naive(&c[1]);
		assert_int_equal(test_run(set[s].set, ops[o].op, GT_F32, &c[0], &err), 0);
		EACH(i, c[1].out[0])
		assert_true(fabs(test_get(&c[0].out[0], i) - test_get(&c[1].out[0], i)) < 1e-4);
		test_release(&c[0]);
		test_release(&c[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_missing_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
