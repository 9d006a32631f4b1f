/* test_kernels_elementwise.c - elementwise kernels and dropout, against plain loops in float64. */
#include "tests/common/kernel_cases.h"

static void elementwise_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	for (int i = 0; i < 2; i++) {
		c->in[i] = test_tensor2(f, d[0], d[1]);
		test_random(&c->in[i], (uint32_t)(1 + i), -4, 4);
	}
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void unary_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	elementwise_make(c, f, d);
	free(c->in[1].data);
	c->inputs = 1;
}

static void fill_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	unary_make(c, f, d);
	free(c->in[0].data);
	c->inputs = 0;
	c->attrs.fill.value = 2.5;
}

static void accumulate_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	elementwise_make(c, f, d);
	free(c->out[0].data);
	c->outputs = 0;
}

static void gelu_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	unary_make(c, f, d);
	c->attrs.gelu.kind = (enum gt_gelu)d[VARIANT];
}

static void gelu_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	elementwise_make(c, f, d);
	c->attrs.gelu.kind = (enum gt_gelu)d[VARIANT];
}

static void bias_add_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	unary_make(c, f, d);
	c->inputs = 2;
	c->in[1] = test_tensor1(f, d[1]);
	test_random(&c->in[1], 2, -4, 4);
}

static void bias_add_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i,
	    test_get(&c->in[0], i) + test_get(&c->in[1], i % gt_tensor_last(&c->in[0])));
}

static void add_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i) + test_get(&c->in[1], i));
}

static void accumulate_naive(struct gt_call *c)
{
	EACH(i, c->in[0])
	test_put(&c->in[0], i, test_get(&c->in[0], i) + test_get(&c->in[1], i));
}

static void copy_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i));
}

static void fill_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, 2.5);
}

static void relu_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, fmax(0, test_get(&c->in[0], i)));
}

static void relu_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[1], i) > 0 ? test_get(&c->in[0], i) : 0);
}

static double gelu_of(double x, enum gt_gelu kind)
{
	if (kind == GT_GELU_TANH)
		return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	return x / 2 * (1 + erf(x / sqrt(2)));
}

static void gelu_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, gelu_of(test_get(&c->in[0], i), c->attrs.gelu.kind));
}

/* The slope from the tanh and erf forms, another arrangement than the kernel's. */
static void gelu_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double x = test_get(&c->in[1], i), k = sqrt(2 / M_PI), t, slope;

		if (c->attrs.gelu.kind == GT_GELU_TANH) {
			t = tanh(k * (x + 0.044715 * x * x * x));
			slope = (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
		} else {
			slope = (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
		}
		test_put(&c->out[0], i, test_get(&c->in[0], i) * slope);
	}
}

/* Variant 1: images; 2: rows from the middle of the first sample on, of samples of three rows. */
enum { DROPOUT_PLAIN, DROPOUT_IMAGES, DROPOUT_ROWS };

static void dropout_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	static const int64_t rng[4] = { 0x123456789abcdef, 77, 5, 3 };

	c->inputs = 2;
	c->outputs = 1;
	c->attrs.dropout.p = 0.3;
	c->attrs.dropout.stream = 9;
	c->in[0] = test_tensor(f, d[VARIANT] == DROPOUT_IMAGES ? 4 : 2, d);
	c->out[0] = test_tensor(f, d[VARIANT] == DROPOUT_IMAGES ? 4 : 2, d);
	if (d[VARIANT] == DROPOUT_ROWS) {
		c->attrs.dropout.first = d[1];
		c->attrs.dropout.sample = 3 * d[1];
	}
	test_random(&c->in[0], 121, 1, 2);
	c->in[1] = test_tensor1(GT_I64, 4);
	memcpy(c->in[1].data, rng, sizeof(rng));
}

static void dropout_naive(struct gt_call *c)
{
	const struct gt_tensor *t = &c->in[0];
	const int64_t *s = t->shape;
	int64_t first = c->attrs.dropout.first, rows = c->attrs.dropout.sample;
	int64_t per = rows ? rows : gt_tensor_elements(t) / s[0];

	EACH(i, c->out[0])
	{
		int64_t of_all = first + i;
		uint64_t n = (uint64_t)((5 + of_all / per * 3) * per + of_all % per), block = n / 4;
		uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), 9, 77 }, word[4];
		int64_t at = i;

		if (t->ndim == 4)
			at =
			    test_at(t, i / per, i % per / (s[2] * s[3]), i / s[3] % s[2], i % s[3]);
		gt_philox(0x123456789abcdef, counter, word);
		test_put(&c->out[0], at,
		    gt_philox_float(word[n % 4]) < 0.3f ? 0 : test_get(t, at) / (1 - 0.3));
	}
}

/* Variant 1: the gradient, with another input and another output. */
static void swiglu_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = d[VARIANT] ? 3 : 2;
	c->outputs = d[VARIANT] ? 2 : 1;
	for (int i = 0; i < c->inputs; i++) {
		c->in[i] = test_tensor2(f, d[0], d[1]);
		test_random(&c->in[i], (uint32_t)(131 + i), -4, 4);
	}
	for (int i = 0; i < c->outputs; i++)
		c->out[i] = test_tensor2(f, d[0], d[1]);
}

static void swiglu_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double a = test_get(&c->in[0], i);

		test_put(&c->out[0], i, a * (1 + tanh(a / 2)) / 2 * test_get(&c->in[1], i));
	}
}

static void swiglu_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double dy = test_get(&c->in[0], i), a = test_get(&c->in[1], i), t = tanh(a / 2);

		test_put(&c->out[0], i,
		    dy * test_get(&c->in[2], i) * ((1 + t) / 2 + a * (1 - t * t) / 4));
		test_put(&c->out[1], i, dy * a * (1 + t) / 2);
	}
}

static const struct kernel_case cases[] = {
	{ "swiglu", swiglu_make, swiglu_naive, 1e-6, 0, 0, true },
	{ "swiglu_grad", swiglu_make, swiglu_grad_naive, 2e-6, 1, 0, true },
	{ "add", elementwise_make, add_naive, 1e-6, 0, 2, true },
	{ "bias_add", bias_add_make, bias_add_naive, 1e-6, 0, 1, true },
	{ "accumulate", accumulate_make, accumulate_naive, 1e-6, 0, 0, false },
	{ "copy", unary_make, copy_naive, 0, 0, 0, false },
	{ "fill", fill_make, fill_naive, 0, 0, 0, false },
	{ "relu", unary_make, relu_naive, 0, 0, 1, true },
	{ "relu_grad", elementwise_make, relu_grad_naive, 0, 0, 1, false },
	{ "gelu", gelu_make, gelu_naive, 1e-6, GT_GELU_TANH, 0, true },
	{ "gelu", gelu_make, gelu_naive, 1e-6, GT_GELU_ERF, 0, true },
	{ "gelu_grad", gelu_grad_make, gelu_grad_naive, 2e-6, GT_GELU_TANH, 1, true },
	{ "gelu_grad", gelu_grad_make, gelu_grad_naive, 2e-6, GT_GELU_ERF, 1, true },
	{ "dropout", dropout_make, dropout_naive, 1e-6, DROPOUT_PLAIN, 1, false },
	{ "dropout", dropout_make, dropout_naive, 1e-6, DROPOUT_ROWS, 1, false },
};

static const struct kernel_case image_cases[] = {
	{ "dropout", dropout_make, dropout_naive, 1e-6, DROPOUT_IMAGES, 1, false },
};

static void test_rows(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_images(void **state)
{
	(void)state;
	kernel_check(image_cases, COUNT(image_cases), KERNEL_IMAGES);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_table_is_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
