/* test_half.c - half precision and bfloat16 against rounding by arithmetic. */
#include "lib/base/half.h"
#include "tests/common/calls.h"

/* x rounded to `digits` significant bits, numbers from 2^least on, by float64's own rounding. */
static double rounded(double x, int digits, int least, double largest)
{
	int exponent;
	double step, y;

	if (x == 0 || isnan(x) || isinf(x))
		return x;
	frexp(x, &exponent);
	step = ldexp(1, (exponent - 1 < least ? least : exponent - 1) - (digits - 1));
	y = rint(x / step) * step;
	return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

static double as_f16(double x)
{
	return rounded(x, 11, -14, 65504);
}

static double as_bf16(double x)
{
	return rounded(x, 8, -126, ldexp(255, 120));
}

static bool same(double got, double want)
{
	return isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
}

static void check(float x)
{
	double f16 = gt_float_of_f16(gt_f16_of_float(x));
	double bf16 = gt_float_of_bf16(gt_bf16_of_float(x));

	if (!same(f16, as_f16(x)) || !same(bf16, as_bf16(x)))
		fail_msg("%.9g is %.9g and %.9g, not %.9g and %.9g", (double)x, f16, bf16,
		    as_f16(x), as_bf16(x));
}

/* Every exponent, with fractions that end in halves, ones and random bits; the special ones. */
static void one_by_one(void **state)
{
	(void)state;
	for (uint32_t high = 0; high < 1u << 16; high++) {
		static const uint32_t ends[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
		uint32_t random = (uint32_t)gt_philox_u64(1, high, 0, 0) & 0xffff;

		for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
			check(gt_float_of_bits(high << 16 | ends[i]));
		check(gt_float_of_bits(high << 16 | random));
		check(gt_float_of_bits(high << 16 | (random & 0xe000) | 0x1000)); /* f16 halfway */
	}
}

/* All there are come back. */
static void there_and_back(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 1u << 16; h++) {
		float f16 = gt_float_of_f16((uint16_t)h), bf16 = gt_float_of_bf16((uint16_t)h);

		if (!isnan(f16))
			assert_int_equal(gt_f16_of_float(f16), h);
		if (!isnan(bf16))
			assert_int_equal(gt_bf16_of_float(bf16), h);
	}
}

static void ranges(void **state)
{
	enum { COUNT = 100003 };
	float *x = test_alloc(COUNT * sizeof(*x)), *back = test_alloc(COUNT * sizeof(*back));
	uint16_t *half = test_alloc(COUNT * sizeof(*half));
	struct test_set set[3];

	(void)state;
	for (int64_t i = 0; i < COUNT; i++)
		x[i] = gt_float_of_bits((uint32_t)gt_philox_u64(2, (uint64_t)i, 0, 0));
	for (int s = test_sets(set); s-- > 0;) {
		const struct gt_range_kernels *r = set[s].set->ranges;

		for (int64_t n = 1; n <= COUNT; n = n * 5 + 2) {
			r->narrow(NULL, half, x, n, GT_F16, GT_ERR_IGNORED);
			r->widen(NULL, back, half, n, GT_F16, GT_ERR_IGNORED);
			for (int64_t i = 0; i < n; i++)
				assert_true(same(back[i], as_f16(x[i])));
			r->narrow(NULL, half, x, n, GT_BF16, GT_ERR_IGNORED);
			r->widen(NULL, back, half, n, GT_BF16, GT_ERR_IGNORED);
			for (int64_t i = 0; i < n; i++)
				assert_true(same(back[i], as_bf16(x[i])));
		}
	}
	free(x);
	free(back);
	free(half);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_by_one),
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
