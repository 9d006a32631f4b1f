/* test_kernels_head.c - linear_cross_entropy against plain loops, whatever its chunks. */
#include "lib/base/half.h"
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

enum { WIDTH = 7 };
enum variant { GRADIENTS, LOSS, STATISTICS };

static const double weight = 0.125, dloss = 2;

static void scalar(struct gt_tensor *t, enum gt_dtype f, double value)
{
	*t = test_tensor(f, 0, NULL);
	test_put(t, 0, value);
}

/* d: rows and classes. Every third row does not count, but the first one does. */
static void head_make_width(struct gt_call *c, enum gt_dtype f, kernel_sizes d, int64_t width)
{
	enum gt_dtype wide = gt_dtype_wide(f);

	c->inputs = 5;
	c->outputs = 4;
	c->attrs.head.rows = 32;
	c->in[0] = test_tensor2(f, d[0], width);
	test_random(&c->in[0], 131, -1, 1);
	c->in[1] = test_tensor2(f, d[1], width);
	test_random(&c->in[1], 132, -1, 1);
	c->in[2] = test_tensor1(GT_I32, d[0]);
	test_random_int(&c->in[2], 133, 0, d[1]);
	for (int64_t i = 1; i < d[0]; i += 3)
		test_put(&c->in[2], i, -100);
	if (d[VARIANT] == STATISTICS) {
		c->out[1] = test_tensor1(GT_F64, 4);
		return;
	}
	scalar(&c->in[3], wide, weight);
	scalar(&c->out[0], wide, 0);
	if (d[VARIANT] == LOSS)
		return;
	scalar(&c->in[4], wide, dloss);
	c->out[2] = test_tensor2(f, d[0], width);
	c->out[3] = test_tensor2(wide, d[1], width);
}

static void head_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	head_make_width(c, f, d, WIDTH);
}

/* ---- plain loops ---- */

struct row {
	double *logits, lse;
	int64_t target;
};

static void row_of(struct row *out, const struct gt_call *c, int64_t r)
{
	int64_t classes = gt_tensor_rows(&c->in[1]), width = gt_tensor_last(&c->in[1]);
	double sum = 0;

	for (int64_t j = 0; j < classes; j++) {
		out->logits[j] = 0;
		for (int64_t k = 0; k < width; k++)
			out->logits[j] +=
			    test_get(&c->in[0], r * width + k) * test_get(&c->in[1], j * width + k);
		sum += exp(out->logits[j]);
	}
	out->lse = log(sum);
	out->target = (int64_t)test_get(&c->in[2], r);
}

static void add_statistics(struct gt_call *c, const struct row *row)
{
	int64_t before = 0;
	double own = row->logits[row->target];
	double add[4] = { row->lse - own, 1, 0, 0 };

	for (int64_t j = 0; j < gt_tensor_rows(&c->in[1]); j++)
		before += row->logits[j] > own || (row->logits[j] == own && j < row->target);
	add[2] = before < 1;
	add[3] = before < 5;
	for (int i = 0; i < 4; i++)
		test_put(&c->out[1], i, test_get(&c->out[1], i) + add[i]);
}

static void add_gradients(struct gt_call *c, const struct row *row, int64_t r)
{
	int64_t width = gt_tensor_last(&c->in[1]);

	for (int64_t j = 0; j < gt_tensor_rows(&c->in[1]); j++) {
		double d = dloss * weight * (exp(row->logits[j] - row->lse) - (j == row->target));

		for (int64_t k = 0; k < width; k++) {
			int64_t x = r * width + k, w = j * width + k;

			test_put(
			    &c->out[2], x, test_get(&c->out[2], x) + d * test_get(&c->in[1], w));
			test_put(
			    &c->out[3], w, test_get(&c->out[3], w) + d * test_get(&c->in[0], x));
		}
	}
}

static void head_naive(struct gt_call *c)
{
	struct row row = { .logits =
		               test_alloc((size_t)gt_tensor_rows(&c->in[1]) * sizeof(double)) };

	for (int i = 0; i < c->outputs; i++)
		for (int64_t e = 0; c->out[i].present && e < gt_tensor_elements(&c->out[i]); e++)
			test_put(&c->out[i], e, 0);
	for (int64_t r = 0; r < gt_tensor_rows(&c->in[0]); r++) {
		row_of(&row, c, r);
		if (row.target < 0)
			continue;
		if (c->out[0].present)
			test_put(&c->out[0], 0,
			    test_get(&c->out[0], 0) + weight * (row.lse - row.logits[row.target]));
		else
			add_statistics(c, &row);
		if (c->out[2].present)
			add_gradients(c, &row, r);
	}
	free(row.logits);
}

/* ---- the tables ---- */

static const struct kernel_case cases[] = {
	{ "linear_cross_entropy", head_make, head_naive, 2e-6, GRADIENTS, 0, true },
	{ "linear_cross_entropy", head_make, head_naive, 2e-6, LOSS, 0, true },
	{ "linear_cross_entropy", head_make, head_naive, 2e-6, STATISTICS, 0, false },
};

static void test_head(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

/* ---- other sizes and types ---- */

/* A share of the largest element, or of 1: rounding the logits moves a gradient by a share of
 * itself, and rounding their gradients by another. */
static void expect_close(
    const struct gt_tensor *got, const struct gt_tensor *want, double tolerance, const char *what)
{
	double largest = 0;

	if (!want->present)
		return;
	EACH(i, *want)
	largest = fmax(largest, fabs(test_get(want, i)));
	EACH(i, *want)
	if (!(fabs(test_get(got, i) - test_get(want, i)) <= tolerance * largest))
		fail_msg("%s: element %lld is %g, not %g, of at most %g", what, (long long)i,
		    test_get(got, i), test_get(want, i), largest);
}

/* Of float32, oneDNN may cut a sum over so many classes by threads. */
static void test_long_rows(void **state)
{
	static const int64_t sizes[][5] = { { 3, 1024 }, { 2, 1025 }, { 19, 2057 }, { 2, 5003 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 6 * (int)COUNT(sizes); k++) {
		enum gt_dtype f = k & 1 ? GT_F32 : GT_F64;
		kernel_sizes d = { sizes[k / 6][0], sizes[k / 6][1], [VARIANT] = k / 2 % 3 };
		struct gt_call want = { 0 };
		struct gt_err err = GT_ERR_INIT;

		head_make(&want, GT_F64, d);
		head_naive(&want);
		for (int s = 0; s < sets; s++) {
			struct gt_call c = { 0 };

			head_make(&c, f, d);
			assert_int_equal(
			    test_run(set[s].set, "linear_cross_entropy", f, &c, &err), 0);
			for (int i = 0; i < 4; i++)
				expect_close(
				    &c.out[i], &want.out[i], k & 1 ? 2e-6 : 1e-12, set[s].name);
			test_release(&c);
		}
		test_release(&want);
	}
}

static void check_half(const struct test_set *set, enum gt_dtype half, kernel_sizes d)
{
	struct gt_call low = { 0 }, wide = { 0 };
	struct gt_err err = GT_ERR_INIT;
	char what[64];

	head_make(&low, half, d);
	head_make(&wide, GT_F64, d);
	for (int i = 0; i < 2; i++)
		EACH(e, low.in[i])
	test_put(&wide.in[i], e, test_get(&low.in[i], e));
	head_naive(&wide);
	if (test_row(set->set, "linear_cross_entropy", half, &low)) {
		if (test_run(set->set, "linear_cross_entropy", half, &low, &err))
			fail_msg("%s", err.text);
		snprintf(what, sizeof(what), "%s, %lld rows of %lld classes", gt_dtype_name(half),
		    (long long)d[0], (long long)d[1]);
		for (int i = 0; i < 4; i += i ? 1 : 2) /* not the statistics: ranks may change */
			expect_close(
			    &low.out[i], &wide.out[i], half == GT_BF16 ? 8e-3 : 1e-3, what);
	}
	test_release(&low);
	test_release(&wide);
}

static void test_types_of_16_bits(void **state)
{
	static const int64_t sizes[][5] = { { 1, 1 }, { 33, 17 }, { 70, 67 }, { 3, 1031 },
		{ 301, 129 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < sets * (int)COUNT(sizes); k++) {
		check_half(&set[k / COUNT(sizes)], GT_BF16, sizes[k % COUNT(sizes)]);
		check_half(&set[k / COUNT(sizes)], GT_F16, sizes[k % COUNT(sizes)]);
	}
}

/* ---- exponentials in place of logits: kernels/cuda/loss/exp_logits.cuh ---- */

/* Rows of width 8 n in bfloat16. With `far`, the largest logits of some rows are hundreds above
 * those at their targets, so that they are computed again. A library's product would round such
 * logits to whole numbers: these tolerances are for exponentials alone. */
static void check_exponentials(const struct test_set *set, const int64_t *sizes, bool far)
{
	kernel_sizes d = { sizes[0], sizes[1], [VARIANT] = GRADIENTS };
	struct gt_call low = { 0 }, wide = { 0 };
	struct gt_err err = GT_ERR_INIT;

	head_make_width(&low, GT_BF16, d, sizes[2]);
	head_make_width(&wide, GT_F64, d, sizes[2]);
	EACH(e, low.in[0])
	if (far && e / sizes[2] % 2 == 0)
		test_put(&low.in[0], e, 30 * test_get(&low.in[0], e));
	for (int i = 0; i < 2; i++)
		EACH(e, low.in[i])
	test_put(&wide.in[i], e, test_get(&low.in[i], e));
	head_naive(&wide);
	low.untimed = true;
	if (test_run(set->set, "linear_cross_entropy", GT_BF16, &low, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 4; i += i ? 1 : 2)
		expect_close(&low.out[i], &wide.out[i], i ? 8e-3 : 1e-4, far ? "far" : "near");
	test_release(&low);
	test_release(&wide);
}

static void test_exponentials(void **state)
{
	static const int64_t sizes[][3] = { { 1, 1, 8 }, { 2, 130, 16 }, { 70, 257, 40 },
		{ 33, 1031, 72 }, { 131, 127, 32 } };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (int i = 0; i < 2 * (int)COUNT(sizes) && !test_device_is_cpu(); i++)
		check_exponentials(&set[0], sizes[i / 2], i % 2);
}

/* Numbers that are not finite in a row's input, in a row that does not count, and in a class: no
 * loss is a number then, but rows and classes that have nothing to do with them keep theirs. */
static void test_exponentials_not_finite(void **state)
{
	static const struct {
		double value;
		int input;
		int64_t row;
		bool loss, others; /* whether the loss, and dx of row 3, are numbers */
	} wrong[] = { { NAN, 0, 0, false, true }, { INFINITY, 0, 0, false, true },
		{ NAN, 0, 1, true, true }, { NAN, 1, 5, false, false } };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t i = 0; i < COUNT(wrong) && !test_device_is_cpu(); i++) {
		kernel_sizes d = { 9, 40, [VARIANT] = GRADIENTS };
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		head_make_width(&c, GT_BF16, d, 8);
		EACH(k, c.in[2])
		if (test_get(&c.in[2], k) == 5)
			test_put(&c.in[2], k, 6);
		test_put(&c.in[wrong[i].input], wrong[i].row * 8 + 3, wrong[i].value);
		c.untimed = true;
		assert_int_equal(
		    test_run(set[0].set, "linear_cross_entropy", GT_BF16, &c, &err), 0);
		assert_int_equal(isfinite(test_get(&c.out[0], 0)) != 0, wrong[i].loss);
		for (int64_t k = 0; k < 8; k++)
			assert_int_equal(
			    isfinite(test_get(&c.out[2], 3 * 8 + k)) != 0, wrong[i].others);
		test_release(&c);
	}
}

/* Factors rounded to TF32 have the digits of float16, whose tolerance this is. A CPU takes no
 * notice of the mark. cuBLASLt may also compute without tensor cores, and then rounds nothing: all
 * rows are whole 16 bytes, and its first proposal is taken, not the fastest. */
static void test_tf32(void **state)
{
	kernel_sizes d = { 72, 68, [VARIANT] = GRADIENTS };
	struct gt_call c = { 0 }, want = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct test_set set[3];
	bool cpu = test_device_is_cpu();

	(void)state;
	test_sets(set);
	head_make(&c, GT_F32, d);
	head_make(&want, GT_F64, d);
	head_naive(&want);
	c.attrs.head.tf32 = true;
	c.untimed = true;
	assert_int_equal(test_run(set[0].set, "linear_cross_entropy", GT_F32, &c, &err), 0);
	for (int i = 0; i < 4; i += i ? 1 : 2) {
		double far = test_distance(&c.out[i], &want.out[i]);

		if (!(far <= (cpu ? 2e-6 : 1e-3)) ||
		    (!cpu && i && far < 1e-5)) /* in the loss, errors even out */
			fail_msg("output %d is %g away", i, far);
	}
	test_release(&c);
	test_release(&want);
}

/* A GPU divides products of so many classes, which are not a multiple of 8 (product.h). Plain loops
 * would take seconds, so float32 on the CPU is the measure. Logits z are rounded to float16, so
 * exp(z) is off by z 2^-11: an H200 was 1.02e-3 off. Simulated GPUs also count the products
 * (calls.c). */
static void test_divided_products(void **state)
{
	kernel_sizes d = { 529, 1031, [VARIANT] = GRADIENTS };
	struct gt_call low = { 0 }, want = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct test_set set[3];

	(void)state;
	test_sets(set);
	if (test_device_is_cpu())
		return;
	head_make_width(&low, GT_F16, d, 512);
	head_make_width(&want, GT_F32, d, 512);
	for (int i = 0; i < 2; i++) {
		EACH(e, low.in[i])
		test_put(&low.in[i], e, test_get(&low.in[i], e) / 8);
		EACH(e, low.in[i])
		test_put(&want.in[i], e, test_get(&low.in[i], e));
	}
	low.attrs.head.rows = want.attrs.head.rows = 512;
	low.untimed = true;
	if (test_run(set[0].set, "linear_cross_entropy", GT_F16, &low, &err) ||
	    test_run(&gt_cpu_set_base, "linear_cross_entropy", GT_F32, &want, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 4; i += i ? 1 : 2)
		expect_close(&low.out[i], &want.out[i], 3e-3, "divided products");
	test_release(&low);
	test_release(&want);
}

/* ---- chunks ---- */

/* Where few rows are left, and none; one chunk for all; more room than rows. */
static void test_chunks(void **state)
{
	static const int64_t chunks[] = { 16, 32, 48, 96, 1024 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < sets * 3 * (int)COUNT(chunks); k++) {
		const struct test_set *s = &set[k / 3 / (int)COUNT(chunks)];
		kernel_sizes d = { 96, 67, [VARIANT] = k % 3 };
		struct gt_call c = { 0 }, want = { 0 };
		struct gt_err err = GT_ERR_INIT;

		head_make(&c, GT_F64, d);
		head_make(&want, GT_F64, d);
		head_naive(&want);
		c.attrs.head.rows = chunks[k / 3 % (int)COUNT(chunks)];
		assert_int_equal(test_run(s->set, "linear_cross_entropy", GT_F64, &c, &err), 0);
		for (int i = 0; i < 4; i++)
			expect_close(&c.out[i], &want.out[i], 1e-12, s->name);
		test_release(&c);
		test_release(&want);
	}
}

/* No row counts: the loss and the gradients are 0. */
static void test_nothing_counts(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < sets; k++) {
		kernel_sizes d = { 40, 19, [VARIANT] = GRADIENTS };
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		head_make(&c, GT_F32, d);
		EACH(i, c.in[2])
		test_put(&c.in[2], i, -1);
		assert_int_equal(test_run(set[k].set, "linear_cross_entropy", GT_F32, &c, &err), 0);
		assert_true(test_get(&c.out[0], 0) == 0);
		for (int i = 2; i < 4; i++)
			EACH(e, c.out[i])
		assert_true(test_get(&c.out[i], e) == 0);
		test_release(&c);
	}
}

/* Targets from outside are refused by name; the row is counted over all chunks. */
static void test_out_of_range(void **state)
{
	static const struct {
		int64_t at, classes;
		int32_t value;
		const char *text;
	} bad[] = {
		{ 2, 5, 5, "cross_entropy: target 5 of row 2 is not one of 5 classes" },
		{ 45, 1031, 1031,
		    "cross_entropy: target 1031 of row 45 is not one of 1031 classes" },
		{ 69, 17, INT32_MAX,
		    "cross_entropy: target 2147483647 of row 69 is not one of 17 classes" },
	};
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < (int)COUNT(bad) && !test_device_is_cpu(); i++) {
		kernel_sizes d = { 70, bad[i].classes, [VARIANT] = GRADIENTS };
		struct gt_call c = { 0 };

		head_make_width(&c, GT_BF16, d, 8);
		c.untimed = true;
		test_put(&c.in[2], bad[i].at, bad[i].value);
		test_refuses(&set[0], "linear_cross_entropy", GT_BF16, &c, bad[i].text);
		test_release(&c);
	}
	for (int k = 0; k < sets * 3 * (int)COUNT(bad); k++) {
		const struct test_set *s = &set[k / 3 / (int)COUNT(bad)];
		int i = k / 3 % (int)COUNT(bad);
		kernel_sizes d = { 70, bad[i].classes, [VARIANT] = k % 3 };
		struct gt_call c = { 0 };

		head_make(&c, GT_F32, d);
		test_put(&c.in[2], bad[i].at, bad[i].value);
		test_refuses(s, "linear_cross_entropy", GT_F32, &c, bad[i].text);
		test_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_long_rows),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_types_of_16_bits),
		cmocka_unit_test(test_exponentials),
		cmocka_unit_test(test_exponentials_not_finite),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_divided_products),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_nothing_counts),
		cmocka_unit_test(test_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
