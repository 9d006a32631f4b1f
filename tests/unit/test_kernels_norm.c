/* test_kernels_norm.c - normalisation and sums over rows, against plain loops in float64. */
#include "tests/common/kernel_cases.h"

/* ---- rows ---- */

static void layer_norm_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 3;
	c->attrs.norm.eps = 1e-5;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor1(f, d[1]);
	c->in[2] = test_tensor1(f, d[1]);
	for (int i = 0; i < 3; i++)
		test_random(&c->in[i], (uint32_t)(11 + i), -1, 3);
	c->in[2].present = d[VARIANT] == 0;
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[0]);
	c->out[2] = test_tensor1(f, d[0]);
}

static void moments(const struct gt_tensor *x, int64_t row, double eps, double *mean, double *rstd)
{
	int64_t n = gt_tensor_last(x);
	double square = 0;

	*mean = 0;
	for (int64_t j = 0; j < n; j++)
		*mean += test_get(x, row * n + j) / (double)n;
	for (int64_t j = 0; j < n; j++)
		square += pow(test_get(x, row * n + j) - *mean, 2) / (double)n;
	*rstd = 1 / sqrt(square + eps);
}

static void layer_norm_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);

	for (int64_t r = 0; r < gt_tensor_rows(&c->in[0]); r++) {
		double mean, rstd;

		moments(&c->in[0], r, c->attrs.norm.eps, &mean, &rstd);
		test_put(&c->out[1], r, mean);
		test_put(&c->out[2], r, rstd);
		for (int64_t j = 0; j < n; j++)
			test_put(&c->out[0], r * n + j,
			    (test_get(&c->in[0], r * n + j) - mean) * rstd *
			            test_get(&c->in[1], j) +
			        (c->in[2].present ? test_get(&c->in[2], j) : 0));
	}
}

/* Variant 1: without bias, 2: nor a gradient to add, which dx may overwrite. */
static void layer_norm_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 7;
	c->outputs = 3;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	c->in[2] = test_tensor1(f, d[1]);
	c->in[3] = test_tensor1(f, d[0]);
	c->in[4] = test_tensor1(f, d[0]);
	c->in[5] = test_tensor2(f, d[0], d[1]);
	c->in[6] = test_tensor1(f, d[1]);
	for (int i = 0; i < 7; i++)
		test_random(&c->in[i], (uint32_t)(21 + i), i == 4 ? 0.5 : -1, 1);
	c->in[5].present = d[VARIANT] < 2;
	c->in[6].present = d[VARIANT] == 0;
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
	c->out[2].present = d[VARIANT] == 0;
}

static void naive_gradients(struct gt_call *c)
{
	const struct gt_tensor *dy = &c->in[0], *x = &c->in[1];
	int64_t rows = gt_tensor_rows(x), n = gt_tensor_last(x);

	for (int64_t j = 0; j < n; j++) {
		double dw = 0, db = 0;

		for (int64_t r = 0; r < rows; r++) {
			double h = (test_get(x, r * n + j) - test_get(&c->in[3], r)) *
			           test_get(&c->in[4], r);

			dw += test_get(dy, r * n + j) * h;
			db += test_get(dy, r * n + j);
		}
		test_put(&c->out[1], j, dw);
		test_put(&c->out[2], j, db);
	}
	for (int64_t r = 0; r < rows; r++) {
		double sum = 0, dot = 0, mean = test_get(&c->in[3], r),
		       rstd = test_get(&c->in[4], r);

		for (int64_t j = 0; j < n; j++) {
			double g = test_get(dy, r * n + j) * test_get(&c->in[2], j);

			sum += g / (double)n;
			dot += g * (test_get(x, r * n + j) - mean) * rstd / (double)n;
		}
		for (int64_t j = 0; j < n; j++)
			test_put(&c->out[0], r * n + j,
			    rstd * (test_get(dy, r * n + j) * test_get(&c->in[2], j) - sum -
			               (test_get(x, r * n + j) - mean) * rstd * dot));
	}
}

static void layer_norm_grad_naive(struct gt_call *c)
{
	struct gt_tensor acc = c->in[5];

	/* dx may take the memory of the gradient to add. */
	if (acc.present) {
		acc = test_tensor2(acc.dtype, acc.shape[0], acc.shape[1]);
		memcpy(acc.data, c->in[5].data,
		    (size_t)gt_tensor_elements(&acc) * gt_dtype_size(acc.dtype));
	}
	naive_gradients(c);
	for (int64_t i = 0; acc.present && i < gt_tensor_elements(&acc); i++)
		test_put(&c->out[0], i, test_get(&c->out[0], i) + test_get(&acc, i));
	if (acc.present)
		free(acc.data);
}

/* Variant 1: without bias. */
static void add_layer_norm_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 4;
	c->outputs = 4;
	c->attrs.norm.eps = 1e-5;
	for (int i = 0; i < 2; i++)
		c->in[i] = test_tensor2(f, d[0], d[1]);
	for (int i = 2; i < 4; i++)
		c->in[i] = test_tensor1(f, d[1]);
	for (int i = 0; i < 4; i++)
		test_random(&c->in[i], (uint32_t)(71 + i), -1, 2);
	c->in[3].present = d[VARIANT] == 0;
	for (int i = 0; i < 4; i++)
		c->out[i] = i < 2 ? test_tensor2(f, d[0], d[1]) : test_tensor1(f, d[0]);
}

static void add_layer_norm_naive(struct gt_call *c)
{
	struct gt_call norm = { .attrs = c->attrs,
		.in = { c->out[1], c->in[2], c->in[3] },
		.out = { c->out[0], c->out[2], c->out[3] } };

	EACH(i, c->in[0])
	test_put(&c->out[1], i, test_get(&c->in[0], i) + test_get(&c->in[1], i));
	layer_norm_naive(&norm);
}

/* As layer_norm_grad where all tensors have one type. */
static void add_layer_norm_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	layer_norm_grad_make(c, f, d);
	c->outputs = 4;
}

/* ---- sums ---- */

static void bias_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	if (d[VARIANT] == 4) {
		kernel_image(&c->in[0], f, d, 61, -1, 1);
	} else {
		c->in[0] = test_tensor2(f, d[0], d[1]);
		test_random(&c->in[0], 61, -1, 1);
	}
	c->out[0] = test_tensor1(f, d[1]);
}

static void bias_grad_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_elements(&c->out[0]);

	EACH(j, c->out[0])
	test_put(&c->out[0], j, 0);
	EACH(i, c->in[0])
	test_put(&c->out[0], i % n, test_get(&c->out[0], i % n) + test_get(&c->in[0], i));
}

/* ---- rms_norm ---- */

static void rms_norm_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 2;
	c->attrs.norm.eps = 1e-5;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor1(f, d[1]);
	for (int i = 0; i < 2; i++)
		test_random(&c->in[i], (uint32_t)(51 + i), -1, 3);
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[0]);
}

static void rms_norm_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);

	EACH(r, c->out[1])
	{
		double square = 0;

		for (int64_t j = 0; j < n; j++)
			square += pow(test_get(&c->in[0], r * n + j), 2) / (double)n;
		test_put(&c->out[1], r, 1 / sqrt(square + 1e-5));
	}
	EACH(i, c->out[0])
	test_put(&c->out[0], i,
	    test_get(&c->in[0], i) * test_get(&c->out[1], i / n) * test_get(&c->in[1], i % n));
}

static void rms_norm_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 4;
	c->outputs = 2;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	c->in[2] = test_tensor1(f, d[1]);
	c->in[3] = test_tensor1(f, d[0]);
	for (int i = 0; i < 4; i++)
		test_random(&c->in[i], (uint32_t)(61 + i), i == 3 ? 0.5 : -1, 1);
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[1]);
}

static void rms_norm_grad_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]), rows = gt_tensor_rows(&c->in[0]);

	for (int64_t j = 0; j < n; j++) {
		double dw = 0;

		for (int64_t r = 0; r < rows; r++)
			dw += test_get(&c->in[0], r * n + j) * test_get(&c->in[1], r * n + j) *
			      test_get(&c->in[3], r);
		test_put(&c->out[1], j, dw);
	}
	for (int64_t r = 0; r < rows; r++) {
		double s = test_get(&c->in[3], r), dot = 0;

		for (int64_t i = r * n; i < (r + 1) * n; i++)
			dot += test_get(&c->in[0], i) * test_get(&c->in[2], i % n) *
			       test_get(&c->in[1], i) / (double)n;
		for (int64_t i = r * n; i < (r + 1) * n; i++)
			test_put(&c->out[0], i,
			    s * test_get(&c->in[0], i) * test_get(&c->in[2], i % n) -
			        s * s * s * test_get(&c->in[1], i) * dot);
	}
}

static const struct kernel_case row_cases[] = {
	{ "rms_norm", rms_norm_make, rms_norm_naive, 5e-6, 0, 0, true },
	{ "rms_norm_grad", rms_norm_grad_make, rms_norm_grad_naive, 2e-5, 0, 0, true },
	{ "layer_norm", layer_norm_make, layer_norm_naive, 5e-6, 0, 0, true },
	{ "layer_norm", layer_norm_make, layer_norm_naive, 5e-6, 1, 0, true },
	{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 0, 6, false },
	{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 1, 6, false },
	{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 2, 0, false },
	{ "add_layer_norm", add_layer_norm_make, add_layer_norm_naive, 5e-6, 0, 1, true },
	{ "add_layer_norm", add_layer_norm_make, add_layer_norm_naive, 5e-6, 1, 1, true },
	{ "add_layer_norm_grad", add_layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 0, 6,
	    false },
	{ "add_layer_norm_grad", add_layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 1, 6,
	    false },
	{ "add_layer_norm_grad", add_layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 2, 0,
	    false },
	{ "bias_grad", bias_grad_make, bias_grad_naive, 2e-5, 2, 0, true },
};

static const struct kernel_case image_cases[] = {
	{ "bias_grad", bias_grad_make, bias_grad_naive, 2e-5, 4, 0, true },
};

static void test_rows(void **state)
{
	(void)state;
	kernel_check(row_cases, COUNT(row_cases), KERNEL_ROWS);
}

/* More columns than shared memory has room for. */
static void test_long_rows(void **state)
{
	static const struct kernel_case cases[] = {
		{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 2e-5, 0, 6,
		    false },
		{ "add_layer_norm_grad", add_layer_norm_grad_make, layer_norm_grad_naive, 2e-5, 0,
		    6, false },
	};

	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_LONG_ROWS);
}

static void test_images(void **state)
{
	(void)state;
	kernel_check(image_cases, COUNT(image_cases), KERNEL_IMAGES);
}

static void test_tables_are_covered(void **state)
{
	(void)state;
	kernel_check_covered(row_cases, COUNT(row_cases), NULL);
	kernel_check_covered(image_cases, COUNT(image_cases), NULL);
}

/* ---- the same bits as apart ---- */

static void expect_same(const struct gt_tensor *a, const struct gt_tensor *b, const char *what)
{
	EACH(i, *a)
	if (test_get(a, i) != test_get(b, i))
		fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, test_get(a, i),
		    test_get(b, i));
}

/* Let the matrices of a call have another type; vectors, such as weights, keep theirs. */
static void retype_matrices(struct gt_call *c, enum gt_dtype f)
{
	struct gt_tensor *all[GT_MAX_INPUTS + GT_MAX_OUTPUTS];
	int count = 0;

	for (int i = 0; i < c->inputs; i++)
		all[count++] = &c->in[i];
	for (int i = 0; i < c->outputs; i++)
		all[count++] = &c->out[i];
	while (count--) {
		struct gt_tensor *t = all[count], to;

		if (!t->present || t->ndim != 2 || t->dtype == f)
			continue;
		to = test_tensor2(f, t->shape[0], t->shape[1]);
		EACH(e, *t)
		test_put(&to, e, test_get(t, e));
		free(t->data);
		*t = to;
	}
}

/* add, then layer_norm. */
static void expect_sum_and_norm(const struct test_set *set, enum gt_dtype f, kernel_sizes d)
{
	enum gt_dtype wide = gt_dtype_wide(f);
	struct gt_call one = { 0 }, add = { .inputs = 2, .outputs = 1 }, norm = { 0 };

	add_layer_norm_make(&one, wide, d);
	retype_matrices(&one, f);
	for (int i = 0; i < 2; i++)
		add.in[i] = one.in[i];
	layer_norm_make(&norm, wide, d);
	for (int i = 1; i < 3; i++)
		memcpy(norm.in[i].data, one.in[i + 1].data, (size_t)d[1] * gt_dtype_size(wide));
	retype_matrices(&norm, f);
	add.out[0] = norm.in[0];
	test_launch(set->set, "add", f, &add);
	test_launch(set->set, "layer_norm", f, &norm);
	test_launch(set->set, "add_layer_norm", f, &one);
	expect_same(&one.out[1], &norm.in[0], "the sum");
	for (int i = 0; i < 3; i++)
		expect_same(&one.out[i ? i + 1 : 0], &norm.out[i], set->name);
	test_release(&one);
	test_release(&norm);
}

/* layer_norm_grad, then add. */
static void expect_gradients(const struct test_set *set, enum gt_dtype f, kernel_sizes d)
{
	struct gt_call one = { 0 }, add = { .inputs = 2, .outputs = 1 }, grad = { 0 };

	layer_norm_grad_make(&grad, gt_dtype_wide(f), d);
	retype_matrices(&grad, f);
	grad.in[5].present = false;
	add_layer_norm_grad_make(&one, gt_dtype_wide(f), d);
	retype_matrices(&one, f);
	add.in[0] = one.in[5];
	add.in[1] = grad.out[0];
	add.out[0] = test_tensor2(f, d[0], d[1]);
	test_launch(set->set, "layer_norm_grad", f, &grad);
	test_launch(set->set, "add", f, &add);
	test_launch(set->set, "add_layer_norm_grad", f, &one);
	for (int i = 1; i < 3; i++)
		expect_same(&one.out[i], &grad.out[i], "a gradient of vectors");
	expect_same(&one.out[0], &add.out[0], set->name);
	free(add.out[0].data);
	test_release(&one);
	test_release(&grad);
}

static void test_bits_are_those_of_two_ops(void **state)
{
	static kernel_sizes const sizes[] = { { 3, 7 }, { 70, 64 }, { 9, 131 }, { 5, 768 } };
	static enum gt_dtype const types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	omp_set_num_threads(1);
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < COUNT(sizes) * COUNT(types); i++) {
			const enum gt_dtype f = types[i % COUNT(types)];

			expect_sum_and_norm(&set[s], f, sizes[i / COUNT(types)]);
			expect_gradients(&set[s], f, sizes[i / COUNT(types)]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_long_rows),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_tables_are_covered),
		cmocka_unit_test(test_bits_are_those_of_two_ops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
