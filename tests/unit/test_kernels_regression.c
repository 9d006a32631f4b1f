/* test_kernels_regression.c - the losses of numbers and labels against plain loops. */
#include "lib/graph/ops/ops.h"
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

static void scalar(struct gt_tensor *t, enum gt_dtype f, double value)
{
	*t = test_tensor(f, 0, NULL);
	test_put(t, 0, value);
}

/* The losses, by the variants of the cases. */
static const struct gt_regression losses[] = { { GT_REGRESSION_MSE, 0 }, { GT_REGRESSION_L1, 0 },
	{ GT_REGRESSION_HUBER, 2.5 }, { GT_REGRESSION_SMOOTH_L1, 2.5 }, { GT_REGRESSION_BCE, 0 },
	{ GT_REGRESSION_VALUE, 0 } };

/* BCE has LABELS labels, each with a weight of its own. */
enum { LABELS = 3 };

static bool is_bce(const struct gt_call *c)
{
	return c->attrs.regression.kind == GT_REGRESSION_BCE;
}

static double weight_of(int64_t i)
{
	return 0.5 + (double)(i % LABELS);
}

/* Outputs [n, 1], or [n, LABELS] for BCE. */
static void outputs_make(struct gt_tensor *t, const struct gt_call *c, enum gt_dtype f, int64_t n)
{
	*t = test_tensor2(f, n, is_bce(c) ? LABELS : 1);
	test_random(t, 117, -5, 5);
}

static void targets_make(struct gt_tensor *t, const struct gt_call *c, enum gt_dtype f, int64_t n)
{
	*t = test_tensor1(f, is_bce(c) ? n * LABELS : n);
	test_random(t, 118, -5, 5);
	for (int64_t i = 0; is_bce(c) && i < n * LABELS; i++)
		test_put(t, i, test_get(t, i) > 0);
}

static void label_weights_make(struct gt_call *c, int i, enum gt_dtype f)
{
	if (!is_bce(c))
		return;
	c->inputs = i + 1;
	c->in[i] = test_tensor1(f, LABELS);
	for (int64_t k = 0; k < LABELS; k++)
		test_put(&c->in[i], k, weight_of(k));
}

static double share(double y)
{
	return 1 / (1 + exp(-y));
}

static double naive_term(const struct gt_regression *loss, double y, double target, double w)
{
	double d = y - target;
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
	case GT_REGRESSION_BCE:
		return -w * target * log(share(y)) - (1 - target) * log(1 - share(y));
	case GT_REGRESSION_VALUE:
		return y;
	}
	return NAN;
}

static double naive_slope(const struct gt_regression *loss, double y, double target, double w)
{
	double d = y - target;
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
	case GT_REGRESSION_BCE:
		return (1 - target) * share(y) - w * target * (1 - share(y));
	case GT_REGRESSION_VALUE:
		return 1;
	}
	return NAN;
}

static void regression_loss_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->attrs.regression = losses[d[VARIANT]];
	c->inputs = 3;
	c->outputs = 1;
	outputs_make(&c->in[0], c, f, d[0] * d[1]);
	targets_make(&c->in[1], c, f, d[0] * d[1]);
	scalar(&c->in[2], f, 0.125);
	label_weights_make(c, 3, f);
	scalar(&c->out[0], f, 0);
}

static void regression_loss_naive(struct gt_call *c)
{
	double sum = 0;

	EACH(i, c->in[1])
	{
		double y = test_get(&c->in[0], i), t = test_get(&c->in[1], i);

		sum += isnan(t) ? 0 : naive_term(&c->attrs.regression, y, t, weight_of(i));
	}
	test_put(&c->out[0], 0, 0.125 * sum);
}

static void regression_loss_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->attrs.regression = losses[d[VARIANT]];
	c->inputs = 4;
	c->outputs = 1;
	scalar(&c->in[0], f, 2);
	outputs_make(&c->in[1], c, f, d[0] * d[1]);
	targets_make(&c->in[2], c, f, d[0] * d[1]);
	scalar(&c->in[3], f, 0.125);
	label_weights_make(c, 4, f);
	outputs_make(&c->out[0], c, f, d[0] * d[1]);
}

static void regression_loss_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double y = test_get(&c->in[1], i), t = test_get(&c->in[2], i);
		double slope = naive_slope(&c->attrs.regression, y, t, weight_of(i));

		test_put(&c->out[0], i, isnan(t) ? 0 : 2 * 0.125 * slope);
	}
}

static void regress_stats_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->attrs.regression = losses[d[VARIANT]];
	c->inputs = 2;
	c->outputs = 1;
	outputs_make(&c->in[0], c, f, d[0] * d[1]);
	targets_make(&c->in[1], c, f, d[0] * d[1]);
	c->out[0] = test_tensor1(GT_F64, GT_REGRESS_STATS);
}

static void count_error(double sum[GT_REGRESS_STATS], double d, double t)
{
	sum[0] += d * d;
	sum[2] += fabs(d);
	sum[4] += t * t;
}

static void count_label(double sum[GT_REGRESS_STATS], double y, double t)
{
	sum[0] += (y > 0) == (t == 1);
	sum[2] += y > 0;
	sum[4] += y > 0 && t == 1;
}

static void regress_stats_naive(struct gt_call *c)
{
	double sum[GT_REGRESS_STATS] = { 0 };

	EACH(i, c->in[1])
	{
		double t = test_get(&c->in[1], i), y = test_get(&c->in[0], i);

		if (isnan(t))
			continue;
		if (is_bce(c))
			count_label(sum, y, t);
		else
			count_error(sum, y - t, t);
		sum[1]++;
		sum[3] += t;
		sum[5] += naive_term(&c->attrs.regression, y, t, 1);
	}
	for (int i = 0; i < GT_REGRESS_STATS; i++)
		test_put(&c->out[0], i, sum[i]);
}

#define EACH_LOSS(op, make, naive, overwrites)                                                     \
	{ op, make, naive, 1e-6, 0, overwrites, false },                                           \
	    { op, make, naive, 1e-6, 1, overwrites, false },                                       \
	    { op, make, naive, 1e-6, 2, overwrites, false },                                       \
	    { op, make, naive, 1e-6, 3, overwrites, false },                                       \
	    { op, make, naive, 1e-6, 4, overwrites, false },                                       \
	{                                                                                          \
		op, make, naive, 1e-6, 5, overwrites, false                                        \
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
	/* One loss of each op is enough, because how rows are divided depends on no loss. */
	for (size_t i = 0; i < COUNT(cases) && test_takes_row(2, 1); i += COUNT(losses))
		kernel_check(&cases[i], 1, KERNEL_LONG_ROWS);
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
