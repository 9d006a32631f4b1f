/* kernel_cases.c - run cases of kernels and compare their results with the expected ones. */
#include "tests/common/kernel_cases.h"

#include "lib/base/half.h"

static const int64_t row_sizes[][5] = { { 1, 1 }, { 3, 17 }, { 65, 3 }, { 17, 65 }, { 5, 768 },
	{ 301, 129 }, { 70, 264 }, { 13, 1032 } };
static const int64_t long_row_sizes[][5] = { { 3, 1024 }, { 2, 1025 }, { 1, 2056 }, { 3, 50257 },
	{ 2, 60000 } };
static const int64_t image_sizes[][5] = { { 2, 1, 2, 3 }, { 1, 3, 5, 7 }, { 2, 17, 4, 3 },
	{ 3, 65, 3, 5 }, { 5, 16, 25, 27 } };
static const int64_t token_sizes[][5] = { { 1, 1, 1, 1 }, { 3, 5, 17, 7 }, { 2, 3, 65, 65 },
	{ 4, 65, 150, 33 } };

static const struct {
	const int64_t (*sizes)[5];
	size_t count, nan; /* which is large enough to lose a NaN in */
} kinds[] = {
	[KERNEL_ROWS] = { row_sizes, COUNT(row_sizes), 3 },
	[KERNEL_LONG_ROWS] = { long_row_sizes, COUNT(long_row_sizes), 1 },
	[KERNEL_IMAGES] = { image_sizes, COUNT(image_sizes), 2 },
	[KERNEL_TOKENS] = { token_sizes, COUNT(token_sizes), 1 },
};

void kernel_image(
    struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, uint32_t seed, double low, double high)
{
	*t = test_tensor4(f, d[0], d[1], d[2], d[3]);
	test_random(t, seed, low, high);
}

void kernel_channels(
    struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, uint32_t seed, double low, double high)
{
	*t = test_tensor1(f, d[1]);
	test_random(t, seed, low, high);
}

static void compare(const struct kernel_case *o, const char *set, const struct gt_tensor *got,
    const struct gt_tensor *want, double tolerance)
{
	if (!want->present)
		return;
	EACH(i, *want)
	{
		double g = test_get(got, i), w = test_get(want, i);

		if (!(fabs(g - w) <= tolerance * (1 + fabs(w))))
			fail_msg("%s (%d) %s %s, %lld elements: element %lld is %.9g, not %.9g",
			    o->op, o->variant, set, gt_dtype_name(got->dtype),
			    (long long)gt_tensor_elements(got), (long long)i, g, w);
	}
}

/*
 * Of output i in float32. The gradients of batch_norm's weight and bias are sums as in
 * kernel_cases.h. If a CPU adds 64 rows at a time in float32 by fused multiply-adds, the error of
 * the weight's gradient is 2.2e-6 relative to 1 + |value|, where the value is -0.15. That is 1.3e-7
 * of the root of the sum of squares.
 */
static double tolerance_of(const struct kernel_case *o, int i)
{
	return i && !strcmp(o->op, "batch_norm_grad") ? 2e-5 : o->tolerance;
}

/* Run with some threads and compare all that the op may have written. */
static void run_and_compare(const struct kernel_case *o, const struct test_set *set,
    struct gt_call *c, const struct gt_call *want, int threads)
{
	bool is_real = c->in[0].dtype == GT_F32 || c->in[0].dtype == GT_F64;
	enum gt_dtype f = is_real || !c->outputs ? c->in[0].dtype : c->out[0].dtype;
	const double f64_tolerance = 1e-11;
	struct gt_err err = GT_ERR_INIT;

	omp_set_num_threads(threads);
	if (test_run(set->set, o->op, f, c, &err))
		fail_msg("%s %s: %s", o->op, set->name, err.text);
	for (int i = 0; i < c->outputs; i++)
		compare(o, set->name, &c->out[i], &want->out[i],
		    f == GT_F64 ? f64_tolerance : tolerance_of(o, i));
	for (int i = 0; i < c->inputs; i++)
		if (i + 1 != o->overwrites)
			compare(o, set->name, &c->in[i], &want->in[i],
			    f == GT_F64 ? f64_tolerance : o->tolerance);
}

static void same_bits(const struct kernel_case *o, const struct gt_call *a, const struct gt_call *b)
{
	for (int i = 0; i < a->outputs; i++)
		if (a->out[i].present &&
		    memcmp(a->out[i].data, b->out[i].data,
		        (size_t)gt_tensor_elements(&a->out[i]) * gt_dtype_size(a->out[i].dtype)))
			fail_msg("%s: output %d depends on the number of threads", o->op, i);
}

/* Compare the results of each instruction set with the expected ones. Inputs are those of
 * `given`. */
static void check_sets(
    const struct kernel_case *o, const struct gt_call *given, const struct gt_call *want)
{
	struct test_set set[3];
	int sets = test_sets(set);

	for (int s = 0; s < sets; s++) {
		struct gt_call one, two;

		if (test_lacks(&set[s], o->op, given->in[0].dtype, given))
			continue;
		test_copy(&one, given);
		test_copy(&two, given);
		if (o->overwrites) {
			free(two.out[0].data);
			two.out[0].data = two.in[o->overwrites - 1].data;
		}
		run_and_compare(o, &set[s], &one, want, 1);
		run_and_compare(o, &set[s], &two, want, 2);
		same_bits(o, &one, &two);
		test_release(&one);
		test_release(&two);
	}
}

/* To draw the inputs takes longer than to run a kernel, so that is done once for each type. */
static void check_case(const struct kernel_case *o, kernel_sizes d)
{
	struct gt_call want = { 0 };

	o->make(&want, GT_F64, d);
	o->naive(&want);
	for (int type = 0; type < 2; type++) {
		struct gt_call given = { 0 };

		o->make(&given, type ? GT_F32 : GT_F64, d);
		check_sets(o, &given, &want);
		test_release(&given);
	}
	test_release(&want);
}

static void check_nan(const struct kernel_case *o, kernel_sizes d)
{
	struct test_set set[3];
	int sets = test_sets(set);

	for (int k = 0; k < 2 * sets; k++) {
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;
		int seen = 0;

		o->make(&c, k % 2 ? GT_F32 : GT_F64, d);
		if (test_lacks(&set[k / 2], o->op, c.in[0].dtype, &c)) {
			test_release(&c);
			continue;
		}
		test_put(&c.in[0], 5, NAN);
		assert_int_equal(test_run(set[k / 2].set, o->op, c.in[0].dtype, &c, &err), 0);
		EACH(e, c.out[0])
		seen += isnan(test_get(&c.out[0], e)) != 0;
		if (!seen)
			fail_msg("%s (%d) %s loses NaN", o->op, o->variant, set[k / 2].name);
		test_release(&c);
	}
}

void kernel_check(const struct kernel_case *cases, size_t count, enum kernel_kind kind)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < kinds[kind].count; j++) {
			int64_t d[5];

			memcpy(d, kinds[kind].sizes[j], sizeof(d));
			d[VARIANT] = cases[i].variant;
			check_case(&cases[i], d);
			if (cases[i].keeps_nan && j == kinds[kind].nan)
				check_nan(&cases[i], d);
		}
}

/* ---- types of 16 bits ---- */

static double rounded(double x, enum gt_dtype dtype)
{
	if (dtype == GT_BF16)
		return (double)gt_float_of_bf16(gt_bf16_of_float((float)x));
	if (dtype == GT_F16)
		return (double)gt_float_of_f16(gt_f16_of_float((float)x));
	return x;
}

/* Outputs of `low` are those of `wide`, rounded. */
static void compare_half(
    const struct kernel_case *o, const struct gt_call *low, const struct gt_call *wide)
{
	for (int i = 0; i < low->outputs; i++)
		EACH(e, low->out[i])
		{
			double got = test_get(&low->out[i], e);
			double want = rounded(test_get(&wide->out[i], e), low->out[i].dtype);

			if (got != want && !(isnan(got) && isnan(want)))
				fail_msg("%s %s: output %d, element %lld is %.9g, not %.9g", o->op,
				    gt_dtype_name(low->in[0].dtype), i, (long long)e, got, want);
		}
}

static void check_half(const struct kernel_case *o, kernel_sizes d, enum gt_dtype half)
{
	struct test_set set[3];
	int sets = test_sets(set);

	for (int s = 0; s < sets; s++) {
		struct gt_call low = { 0 }, wide = { 0 };
		struct gt_err err = GT_ERR_INIT;

		o->make(&low, half, d);
		if (!test_row(set[s].set, o->op, half, &low)) {
			test_release(&low);
			continue;
		}
		o->make(&wide, GT_F32, d);
		for (int i = 0; i < low.inputs; i++)
			EACH(e, low.in[i])
		test_put(&wide.in[i], e, test_get(&low.in[i], e));
		assert_int_equal(test_run(set[s].set, o->op, GT_F32, &wide, &err), 0);
		assert_int_equal(test_run(set[s].set, o->op, half, &low, &err), 0);
		compare_half(o, &low, &wide);
		test_release(&low);
		test_release(&wide);
	}
}

void kernel_check_half(const struct kernel_case *cases, size_t count, enum kernel_kind kind)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < 2 * kinds[kind].count; j++) {
			int64_t d[5];

			memcpy(d, kinds[kind].sizes[j / 2], sizeof(d));
			d[VARIANT] = cases[i].variant;
			check_half(&cases[i], d, j % 2 ? GT_BF16 : GT_F16);
		}
}

static bool stands_in(const struct kernel_case *cases, size_t count, const char *op)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(cases[i].op, op))
			return true;
	return false;
}

void kernel_check_covered(const struct kernel_case *cases, size_t count, const char *also)
{
	struct test_set set[3];

	test_sets(set);
	for (int i = 0; set[0].set->tables[i]; i++) {
		const struct gt_kernel *table = set[0].set->tables[i];

		/* Types of 16 bits have tests of their own: test_kernels_half.c. */
		if (!stands_in(cases, count, table->op) ||
		    gt_dtype_wide(table->dtype) != table->dtype)
			continue;
		for (const struct gt_kernel *k = table; k->op; k++)
			if (!stands_in(cases, count, k->op) && !(also && !strcmp(also, k->op)))
				fail_msg("no test of '%s'", k->op);
	}
}
