/* test_kernels_norm_sync.c - the parts of a batch normalisation of ranks, against plain loops. */
#include "tests/common/kernel_cases.h"

enum { RANKS = 3 };

static double values_per_channel(const struct gt_tensor *x)
{
	return (double)(x->shape[0] * x->shape[2] * x->shape[3]);
}

/* ---- forward ---- */

static void moments_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	kernel_image(&c->in[0], f, d, 31, 4, 6);
	c->out[0] = test_tensor1(GT_F64, 1 + 2 * d[1]);
}

static void moments_naive(struct gt_call *c)
{
	int64_t channels = c->in[0].shape[1];
	double n = values_per_channel(&c->in[0]);

	test_put(&c->out[0], 0, n);
	for (int64_t ch = 0; ch < channels; ch++) {
		double mean = 0, square = 0;

		EACH_PIXEL(c->in[0])
		mean += test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) / n;
		EACH_PIXEL(c->in[0])
		square += pow(test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) - mean, 2);
		test_put(&c->out[0], 1 + ch, mean);
		test_put(&c->out[0], 1 + channels + ch, square);
	}
}

/* Ranks of 3, 5 and 7 values. */
static void combine_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 4;
	c->outputs = 2;
	c->attrs.norm.eps = 1e-5;
	c->attrs.norm.momentum = 0.1;
	kernel_channels(&c->in[0], f, d, 34, -1, 1);
	kernel_channels(&c->in[1], f, d, 35, 0.5, 1);
	c->in[2] = test_tensor(GT_I64, 0, NULL);
	test_put(&c->in[2], 0, 7);
	c->in[3] = test_tensor2(GT_F64, RANKS, 1 + 2 * d[1]);
	test_random(&c->in[3], 36, 1, 4);
	for (int r = 0; r < RANKS; r++)
		test_put(&c->in[3], r * (1 + 2 * d[1]), 3 + 2 * r);
	c->out[0] = test_tensor1(f, d[1]);
	c->out[1] = test_tensor1(f, d[1]);
}

/* By sums of squares around 0, which float64 stands here. */
static void combine_naive(struct gt_call *c)
{
	int64_t channels = gt_tensor_elements(&c->in[0]);
	const double *row = c->in[3].data;

	for (int64_t ch = 0; ch < channels; ch++) {
		double n = 0, sum = 0, square = 0, mean, var;

		for (int r = 0; r < RANKS; r++) {
			const double *at = row + r * (1 + 2 * channels);

			n += at[0];
			sum += at[0] * at[1 + ch];
			square += at[1 + channels + ch] + at[0] * at[1 + ch] * at[1 + ch];
		}
		mean = sum / n;
		var = square / n - mean * mean;
		test_put(&c->out[0], ch, mean);
		test_put(&c->out[1], ch, 1 / sqrt(var + 1e-5));
		test_put(&c->in[0], ch, 0.9 * test_get(&c->in[0], ch) + 0.1 * mean);
		test_put(&c->in[1], ch, 0.9 * test_get(&c->in[1], ch) + 0.1 * var * n / (n - 1));
	}
	test_put(&c->in[2], 0, 8);
}

/* As in test_kernels_batch_norm.c. */
enum { NORM_RELU = 1, NORM_RESIDUAL = 2, NORM_SUM = 4, NORM_OVER = 8 };

static void apply_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 6;
	c->outputs = 1;
	c->attrs.norm.relu = d[VARIANT] & NORM_RELU;
	kernel_image(&c->in[0], f, d, 41, -1, 1);
	for (int i = 1; i < 5; i++)
		kernel_channels(&c->in[i], f, d, (uint32_t)(41 + i), i == 4 ? 0.5 : -1, 1);
	kernel_image(&c->in[5], f, d, 46, -1, 1);
	c->in[5].present = d[VARIANT] & NORM_RESIDUAL;
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
}

static void apply_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
		{
			int64_t at = test_at(&c->in[0], b, ch, h, w);
			double y = (test_get(&c->in[0], at) - test_get(&c->in[3], ch)) *
			               test_get(&c->in[4], ch) * test_get(&c->in[1], ch) +
			           test_get(&c->in[2], ch);

			y += c->in[5].present ? test_get(&c->in[5], at) : 0;
			test_put(&c->out[0], at, c->attrs.norm.relu ? fmax(0, y) : y);
		}
}

/* ---- backward ---- */

static void grad_sums_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 6;
	c->outputs = 4;
	kernel_image(&c->in[0], f, d, 41, -1, 1);
	kernel_image(&c->in[1], f, d, 42, -1, 1);
	kernel_channels(&c->in[2], f, d, 44, -0.5, 0.5);
	kernel_channels(&c->in[3], f, d, 45, 0.5, 2);
	kernel_image(&c->in[4], f, d, 46, -1, 1);
	c->in[4].present = d[VARIANT] & NORM_RELU;
	kernel_image(&c->in[5], f, d, 47, -1, 1);
	c->in[5].present = d[VARIANT] & NORM_SUM;
	c->out[0] = test_tensor1(GT_F64, 1 + 2 * d[1]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
	c->out[3] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[3].present = d[VARIANT] & NORM_RESIDUAL;
	if (d[VARIANT] & NORM_OVER) {
		free(c->out[3].data);
		c->out[3].data = c->in[0].data;
	}
}

/* dy where relu let y through; without relu y is left out. */
static double passed(const struct gt_tensor *dy, const struct gt_tensor *y, int64_t at)
{
	return y->present && test_get(y, at) <= 0 ? 0 : test_get(dy, at);
}

static void grad_sums_naive(struct gt_call *c)
{
	int64_t channels = c->in[1].shape[1];

	test_put(&c->out[0], 0, values_per_channel(&c->in[1]));
	for (int64_t ch = 0; ch < channels; ch++) {
		double sum = 0, dot = 0;

		EACH_PIXEL(c->in[1])
		{
			int64_t at = test_at(&c->in[1], b, ch, h, w);
			double dy = passed(&c->in[0], &c->in[4], at);

			dy += c->in[5].present ? passed(&c->in[5], &c->in[4], at) : 0;
			test_put(&c->out[3], at, dy);
			sum += dy;
			dot += dy * (test_get(&c->in[1], at) - test_get(&c->in[2], ch));
		}
		test_put(&c->out[0], 1 + ch, sum);
		test_put(&c->out[0], 1 + channels + ch, dot);
		test_put(&c->out[1], ch, dot * test_get(&c->in[3], ch));
		test_put(&c->out[2], ch, sum);
	}
}

static void grad_apply_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 7;
	c->outputs = 1;
	kernel_image(&c->in[0], f, d, 51, -1, 1);
	kernel_image(&c->in[1], f, d, 52, -1, 1);
	kernel_channels(&c->in[2], f, d, 53, -1, 1);
	kernel_channels(&c->in[3], f, d, 54, -0.5, 0.5);
	kernel_channels(&c->in[4], f, d, 55, 0.5, 2);
	c->in[5] = test_tensor1(GT_F64, 1 + 2 * d[1]);
	test_random(&c->in[5], 56, -5, 5);
	test_put(&c->in[5], 0, 7);
	kernel_image(&c->in[6], f, d, 57, -1, 1);
	c->in[6].present = d[VARIANT] == 1;
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
}

static void grad_apply_naive(struct gt_call *c)
{
	int64_t channels = c->in[1].shape[1];
	double n = test_get(&c->in[5], 0);

	for (int64_t ch = 0; ch < channels; ch++) {
		double rstd = test_get(&c->in[4], ch);

		EACH_PIXEL(c->in[1])
		{
			int64_t at = test_at(&c->in[1], b, ch, h, w);
			double hat = (test_get(&c->in[1], at) - test_get(&c->in[3], ch)) * rstd;
			double dot = test_get(&c->in[5], 1 + channels + ch) * rstd / n;

			test_put(&c->out[0], at,
			    test_get(&c->in[2], ch) * rstd *
			        (passed(&c->in[0], &c->in[6], at) -
			            test_get(&c->in[5], 1 + ch) / n - hat * dot));
		}
	}
}

static const struct kernel_case cases[] = {
	{ "batch_norm_moments", moments_make, moments_naive, 2e-6, 0, 0, true },
	{ "batch_norm_combine", combine_make, combine_naive, 1e-6, 0, 0, false },
	{ "batch_norm_apply", apply_make, apply_naive, 1e-6, 0, 1, true },
	{ "batch_norm_apply", apply_make, apply_naive, 1e-6, NORM_RELU, 1, true },
	{ "batch_norm_apply", apply_make, apply_naive, 1e-6, NORM_RELU | NORM_RESIDUAL, 6, true },
	{ "batch_norm_grad_sums", grad_sums_make, grad_sums_naive, 2e-5, 0, 0, true },
	{ "batch_norm_grad_sums", grad_sums_make, grad_sums_naive, 2e-5, NORM_RELU, 0, true },
	{ "batch_norm_grad_sums", grad_sums_make, grad_sums_naive, 2e-5, NORM_RELU | NORM_RESIDUAL,
	    0, true },
	{ "batch_norm_grad_sums", grad_sums_make, grad_sums_naive, 2e-5,
	    NORM_RELU | NORM_RESIDUAL | NORM_SUM, 0, true },
	{ "batch_norm_grad_sums", grad_sums_make, grad_sums_naive, 2e-5,
	    NORM_RELU | NORM_RESIDUAL | NORM_SUM | NORM_OVER, 0, true },
	{ "batch_norm_grad_apply", grad_apply_make, grad_apply_naive, 2e-6, 0, 1, true },
	{ "batch_norm_grad_apply", grad_apply_make, grad_apply_naive, 2e-6, 0, 2, true },
	{ "batch_norm_grad_apply", grad_apply_make, grad_apply_naive, 2e-6, 1, 1, false },
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

/* Statistics of one rank are those of batch_norm, to the bit. */
static void test_one_rank_is_batch_norm(void **state)
{
	static const char *const parts[] = { "batch_norm_moments", "batch_norm_combine",
		"batch_norm_apply" };
	const int64_t d[] = { 5, 65, 13, 7, 1 };
	struct gt_call whole = { 0 }, part[3] = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	moments_make(&part[0], GT_F32, d);
	combine_make(&part[1], GT_F32, d);
	apply_make(&part[2], GT_F32, d);
	whole = (struct gt_call){ .inputs = 6,
		.outputs = 3,
		.attrs = part[1].attrs,
		.in = { part[0].in[0], part[2].in[1], part[2].in[2] } };
	whole.attrs.norm.relu = true;
	kernel_channels(&whole.in[3], GT_F32, d, 34, -1, 1);
	kernel_channels(&whole.in[4], GT_F32, d, 35, 0.5, 1);
	whole.in[5] = test_tensor(GT_I64, 0, NULL);
	whole.out[0] = test_tensor4(GT_F32, d[0], d[1], d[2], d[3]);
	whole.out[1] = test_tensor1(GT_F32, d[1]);
	whole.out[2] = test_tensor1(GT_F32, d[1]);
	assert_int_equal(test_run(&gt_cpu_set_base, "batch_norm", GT_F32, &whole, &err), 0);
	for (int i = 0; i < 3; i++) {
		if (i == 1) {
			part[1].in[3].shape[0] = 1;
			memcpy(part[1].in[3].data, part[0].out[0].data,
			    (size_t)(1 + 2 * d[1]) * sizeof(double));
		}
		if (i == 2) {
			memcpy(part[2].in[0].data, part[0].in[0].data,
			    (size_t)gt_tensor_elements(&part[0].in[0]) * sizeof(float));
			for (int k = 0; k < 2; k++)
				memcpy(part[2].in[3 + k].data, part[1].out[k].data,
				    (size_t)d[1] * sizeof(float));
		}
		assert_int_equal(test_run(&gt_cpu_set_base, parts[i], GT_F32, &part[i], &err), 0);
	}
	assert_near(&part[2].out[0], &whole.out[0], 0, "y");
	for (int k = 0; k < 2; k++) {
		assert_near(&part[1].out[k], &whole.out[1 + k], 0, "statistics %d", k);
		assert_near(&part[1].in[k], &whole.in[3 + k], 0, "running statistics %d", k);
	}
	for (int i = 0; i < 3; i++) {
		whole.in[i].data = NULL;
		test_release(&part[i]);
	}
	test_release(&whole);
}

static void test_one_value_has_no_variance(void **state)
{
	struct gt_call c = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	combine_make(&c, GT_F32, (kernel_sizes){ 1, 4, 1, 1 });
	c.in[3].shape[0] = 1;
	test_put(&c.in[3], 0, 1);
	assert_int_equal(
	    test_run(&gt_cpu_set_base, "batch_norm_combine", GT_F32, &c, &err), GT_EINVAL);
	assert_string_equal(err.text, "1 value per channel has no variance");
	test_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_one_rank_is_batch_norm),
		cmocka_unit_test(test_one_value_has_no_variance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
