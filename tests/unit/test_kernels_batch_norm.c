/* test_kernels_batch_norm.c - batch normalisation on one rank, against plain loops in float64. */
#include "tests/common/kernel_cases.h"

/* How a case runs: any of these together. In the gradient, NORM_RESIDUAL stands for the output that
 * is the residual's gradient, NORM_SUM for the other addend of dy, and NORM_OVER for that output
 * over dy. */
enum { NORM_RELU = 1, NORM_RESIDUAL = 2, NORM_SUM = 4, NORM_OVER = 8 };

static void batch_norm_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 7;
	c->outputs = 3;
	c->attrs.norm.eps = 1e-5;
	c->attrs.norm.momentum = 0.1;
	c->attrs.norm.relu = d[VARIANT] & NORM_RELU;
	kernel_image(&c->in[0], f, d, 31, 4, 6);
	kernel_channels(&c->in[1], f, d, 32, -1, 1);
	kernel_channels(&c->in[2], f, d, 33, -1, 1);
	kernel_channels(&c->in[3], f, d, 34, -1, 1);
	kernel_channels(&c->in[4], f, d, 35, 0.5, 1);
	c->in[5] = test_tensor(GT_I64, 0, NULL);
	test_put(&c->in[5], 0, 7);
	kernel_image(&c->in[6], f, d, 36, -1, 1);
	c->in[6].present = d[VARIANT] & NORM_RESIDUAL;
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
}

static void normalize_naive(struct gt_call *c, int64_t ch, double mean, double rstd)
{
	EACH_PIXEL(c->in[0])
	{
		int64_t at = test_at(&c->in[0], b, ch, h, w);
		double y = (test_get(&c->in[0], at) - mean) * rstd * test_get(&c->in[1], ch) +
		           test_get(&c->in[2], ch);

		y += c->in[6].present ? test_get(&c->in[6], at) : 0;
		test_put(&c->out[0], at, c->attrs.norm.relu ? fmax(0, y) : y);
	}
}

static void batch_norm_naive(struct gt_call *c)
{
	const int64_t *s = c->in[0].shape;
	double n = (double)(s[0] * s[2] * s[3]);

	for (int64_t ch = 0; ch < s[1]; ch++) {
		double mean = 0, square = 0, rstd;

		EACH_PIXEL(c->in[0])
		mean += test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) / n;
		EACH_PIXEL(c->in[0])
		square += pow(test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) - mean, 2);
		rstd = 1 / sqrt(square / n + c->attrs.norm.eps);
		normalize_naive(c, ch, mean, rstd);
		test_put(&c->out[1], ch, mean);
		test_put(&c->out[2], ch, rstd);
		test_put(&c->in[3], ch, 0.9 * test_get(&c->in[3], ch) + 0.1 * mean);
		test_put(&c->in[4], ch, 0.9 * test_get(&c->in[4], ch) + 0.1 * square / (n - 1));
	}
	test_put(&c->in[5], 0, 8);
}

static void batch_norm_eval_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	batch_norm_make(c, f, d);
	for (int i = 5; i < 7; i++)
		free(c->in[i].data);
	free(c->out[1].data);
	free(c->out[2].data);
	c->inputs = 5;
	c->outputs = 1;
}

static void batch_norm_eval_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		normalize_naive(c, ch, test_get(&c->in[3], ch),
		    1 / sqrt(test_get(&c->in[4], ch) + c->attrs.norm.eps));
}

static void batch_norm_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	const enum gt_dtype wide = gt_dtype_wide(f);

	c->inputs = 7;
	c->outputs = 4;
	kernel_image(&c->in[0], f, d, 41, -1, 1);
	kernel_image(&c->in[1], f, d, 42, -1, 1);
	kernel_channels(&c->in[2], wide, d, 43, -1, 1);
	kernel_channels(&c->in[3], wide, d, 44, -0.5, 0.5);
	kernel_channels(&c->in[4], wide, d, 45, 0.5, 2);
	kernel_image(&c->in[5], f, d, 46, -1, 1);
	c->in[5].present = d[VARIANT] & NORM_RELU;
	kernel_image(&c->in[6], f, d, 47, -1, 1);
	c->in[6].present = d[VARIANT] & NORM_SUM;
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[1] = test_tensor1(wide, d[1]);
	c->out[2] = test_tensor1(wide, d[1]);
	c->out[3] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[3].present = d[VARIANT] & NORM_RESIDUAL;
	if (d[VARIANT] & NORM_OVER) {
		free(c->out[3].data);
		c->out[3].data = c->in[0].data;
	}
}

/* Into out[3]: dy where relu let y through. */
static void residual_gradient_naive(struct gt_call *c)
{
	EACH(i, c->out[3])
	{
		double dy = test_get(&c->in[0], i);

		dy += c->in[6].present ? test_get(&c->in[6], i) : 0;
		test_put(&c->out[3], i, c->in[5].present && test_get(&c->in[5], i) <= 0 ? 0 : dy);
	}
}

static void batch_norm_grad_naive(struct gt_call *c)
{
	const int64_t *s = c->in[0].shape;
	double n = (double)(s[0] * s[2] * s[3]);

	residual_gradient_naive(c);
	for (int64_t ch = 0; ch < s[1]; ch++) {
		double sum = 0, dot = 0, mean = test_get(&c->in[3], ch),
		       rstd = test_get(&c->in[4], ch);

		EACH_PIXEL(c->in[0])
		{
			int64_t at = test_at(&c->in[0], b, ch, h, w);
			double dy = test_get(&c->out[3], at);

			sum += dy;
			dot += dy * (test_get(&c->in[1], at) - mean) * rstd;
		}
		EACH_PIXEL(c->in[0])
		{
			int64_t at = test_at(&c->in[0], b, ch, h, w);
			double dy = test_get(&c->out[3], at);
			double hat = (test_get(&c->in[1], at) - mean) * rstd;

			test_put(&c->out[0], at,
			    test_get(&c->in[2], ch) * rstd * (dy - sum / n - hat * dot / n));
		}
		test_put(&c->out[1], ch, dot);
		test_put(&c->out[2], ch, sum);
	}
}

/* w [C, B, 3, 3], plain. Variant 1: no bias of the convolution. */
static void batch_norm_fold_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 6;
	c->outputs = 2;
	c->attrs.norm.eps = 1e-5;
	c->in[0] = test_tensor4(f, d[1], d[0], 3, 3);
	c->in[0].layout = GT_PLAIN;
	test_random(&c->in[0], 51, -1, 1);
	for (int i = 1; i < 6; i++)
		kernel_channels(&c->in[i], f, d, (uint32_t)(51 + i), i == 4 ? 0.5 : -1, 1);
	c->in[5].present = d[VARIANT] == 0;
	c->out[0] = test_tensor4(f, d[1], d[0], 3, 3);
	c->out[0].layout = GT_PLAIN;
	c->out[1] = test_tensor1(f, d[1]);
}

static void batch_norm_fold_naive(struct gt_call *c)
{
	int64_t per = c->in[0].shape[1] * 9;

	for (int64_t o = 0; o < c->in[0].shape[0]; o++) {
		double scale = test_get(&c->in[1], o) / sqrt(test_get(&c->in[4], o) + 1e-5);
		double bias = c->in[5].present ? test_get(&c->in[5], o) : 0;

		for (int64_t i = 0; i < per; i++)
			test_put(&c->out[0], o * per + i, test_get(&c->in[0], o * per + i) * scale);
		test_put(&c->out[1], o,
		    test_get(&c->in[2], o) + (bias - test_get(&c->in[3], o)) * scale);
	}
}

static const struct kernel_case cases[] = {
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, 0, 0, true },
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, NORM_RELU, 0, true },
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, NORM_RESIDUAL, 7, true },
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, NORM_RESIDUAL | NORM_RELU, 7,
	    true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6, 0, 1, true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6, NORM_RELU, 1,
	    true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6,
	    NORM_RELU | NORM_RESIDUAL, 1, true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6,
	    NORM_RELU | NORM_RESIDUAL | NORM_SUM, 1, true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6,
	    NORM_RELU | NORM_RESIDUAL | NORM_SUM | NORM_OVER, 7, true },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6,
	    NORM_RELU | NORM_RESIDUAL | NORM_OVER, 2, true },
	{ "batch_norm_eval", batch_norm_eval_make, batch_norm_eval_naive, 2e-6, 0, 1, true },
	{ "batch_norm_eval", batch_norm_eval_make, batch_norm_eval_naive, 2e-6, NORM_RELU, 1,
	    true },
	{ "batch_norm_fold", batch_norm_fold_make, batch_norm_fold_naive, 1e-6, 0, 0, false },
	{ "batch_norm_fold", batch_norm_fold_make, batch_norm_fold_naive, 1e-6, 1, 0, false },
};

static void test_images(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_IMAGES);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

static void test_batch_norm_of_one_value(void **state)
{
	struct gt_call c = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	batch_norm_make(&c, GT_F32, (kernel_sizes){ 1, 4, 1, 1 });
	assert_int_equal(test_run(&gt_cpu_set_base, "batch_norm", GT_F32, &c, &err), GT_EINVAL);
	assert_string_equal(err.text, "1 value per channel has no variance");
	test_release(&c);
}

/* ---- the same bits as apart ---- */

static void expect_same(const struct gt_tensor *a, const struct gt_tensor *b, const char *set)
{
	EACH(i, *a)
	if (test_get(a, i) != test_get(b, i))
		fail_msg("%s %s: element %lld is %.9g, not %.9g", set, gt_dtype_name(a->dtype),
		    (long long)i, test_get(a, i), test_get(b, i));
}

/* Run an op on images of other calls; `b` may be NULL. */
static void run_between(const struct test_set *set, const char *op, const struct gt_tensor *a,
    const struct gt_tensor *b, const struct gt_tensor *out)
{
	struct gt_call c = { .inputs = b ? 2 : 1, .outputs = 1, .in = { *a }, .out = { *out } };

	if (b)
		c.in[1] = *b;
	c.in[0].present = c.in[1].present = c.out[0].present = true;
	test_launch(set->set, op, a->dtype, &c);
}

/* batch_norm, add, relu. Types of 16 bits are left out: there the sum is rounded only once. */
static void expect_forward(const struct test_set *set, enum gt_dtype f, kernel_sizes d)
{
	int64_t of_two[5];
	struct gt_call one = { 0 }, two = { 0 };

	memcpy(of_two, d, sizeof(of_two));
	of_two[VARIANT] = 0;
	batch_norm_make(&one, f, d);
	batch_norm_make(&two, f, of_two);
	test_launch(set->set, "batch_norm", f, &one);
	test_launch(set->set, "batch_norm", f, &two);
	run_between(set, "add", &two.out[0], &one.in[6], &two.in[6]);
	run_between(set, "relu", &two.in[6], NULL, &two.out[0]);
	for (int i = 0; i < 3; i++)
		expect_same(&one.out[i], &two.out[i], set->name);
	test_release(&one);
	test_release(&two);
}

/* add, relu_grad, batch_norm_grad. */
static void expect_backward(const struct test_set *set, enum gt_dtype f, kernel_sizes d)
{
	int64_t of_two[5];
	struct gt_call one = { 0 }, two = { 0 };

	memcpy(of_two, d, sizeof(of_two));
	of_two[VARIANT] = 0;
	batch_norm_grad_make(&one, f, d);
	batch_norm_grad_make(&two, f, of_two);
	run_between(set, "add", &one.in[0], &one.in[6], &two.in[6]);
	run_between(set, "relu_grad", &two.in[6], &one.in[5], &two.in[0]);
	test_launch(set->set, "batch_norm_grad", f, &one);
	test_launch(set->set, "batch_norm_grad", f, &two);
	for (int i = 0; i < 3; i++)
		expect_same(&one.out[i], &two.out[i], set->name);
	expect_same(&one.out[3], &two.in[0], set->name);
	test_release(&one);
	test_release(&two);
}

static void test_bits_are_those_of_three_ops(void **state)
{
	static kernel_sizes const sizes[] = { { 2, 3, 7, 7, 7 }, { 3, 64, 7, 7, 7 },
		{ 1, 131, 5, 3, 7 }, { 5, 16, 25, 27, 7 } };
	static enum gt_dtype const types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	omp_set_num_threads(1);
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < COUNT(sizes) * COUNT(types); i++) {
			const enum gt_dtype f = types[i % COUNT(types)];

			if (gt_dtype_wide(f) == f)
				expect_forward(&set[s], f, sizes[i / COUNT(types)]);
			expect_backward(&set[s], f, sizes[i / COUNT(types)]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_batch_norm_of_one_value),
		cmocka_unit_test(test_bits_are_those_of_three_ops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
