/* test_token_sampler.c - drawing tokens: which are left in, how often each is drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/err.h"
#include "lib/base/philox.h"
#include "lib/train/token_sampler.h"

enum { FEW = 6, MANY = 1000 };

/* Probabilities 0.4, 0.2, 0.2, 0.1, 0.05, 0.05, in another order. */
static const double few[FEW] = { 0.05, 0.2, 0.4, 0.1, 0.2, 0.05 };

static void logits_of(float *logits, const double *p, int n)
{
	for (int i = 0; i < n; i++)
		logits[i] = (float)log(p[i]) + 3;
}

/* Which tokens are left in, worked out by hand; a 1 in `kept` per token. */
static void test_kept(void **state)
{
	static const struct {
		double temperature;
		int64_t top_k;
		double top_p;
		const char *kept;
	} cases[] = {
		{ 1, 0, 1, "111111" },
		{ 1, 6, 1, "111111" },
		{ 1, 99, 1, "111111" },
		{ 1, 1, 1, "001000" },
		{ 1, 2, 1, "011010" }, /* equals of the last */
		{ 1, 3, 1, "011010" },
		{ 1, 4, 1, "011110" },
		{ 1, 0, 0, "001000" },
		{ 1, 0, 0.39, "001000" },
		{ 1, 0, 0.41, "011000" }, /* the first of equals */
		{ 1, 0, 0.59, "011000" },
		{ 1, 0, 0.61, "011010" },
		{ 1, 0, 0.81, "011110" },
		{ 1, 0, 0.91, "111110" },
		{ 1, 0, 0.96, "111111" },
		{ 1, 3, 0.49, "001000" }, /* of the tokens that top-k left: 0.5, 0.25, 0.25 */
		{ 1, 3, 0.51, "011000" },
		{ 1, 3, 0.76, "011010" },
		{ 0.5, 0, 0.6, "001000" }, /* 0.16 of 0.255 */
		{ 2, 0, 0.41, "011000" },  /* 0.63 of 2.29, 0.45 each */
		{ 2, 0, 0.5, "011010" },
	};
	float logits[FEW];

	(void)state;
	logits_of(logits, few, FEW);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct gt_sampling o = { .temperature = cases[i].temperature,
			.top_k = cases[i].top_k,
			.top_p = cases[i].top_p };
		struct gt_token_sampler s;
		double sum = 0, total;

		assert_int_equal(gt_token_sampler_init(&s, FEW, &o, GT_ERR_IGNORED), 0);
		total = gt_token_sampler_weigh(&s, logits);
		for (int k = 0; k < FEW; k++) {
			double weight = cases[i].kept[k] == '1'
			                    ? pow(few[k] / 0.4, 1 / cases[i].temperature)
			                    : 0;

			if (!(fabs(s.weights[k] - weight) < 1e-6))
				fail_msg("case %d: token %d counts %g, not %g", (int)i, k,
				    s.weights[k], weight);
			sum += s.weights[k];
		}
		assert_true(fabs(sum - total) < 1e-9);
		gt_token_sampler_release(&s);
	}
}

static int descending(const void *x, const void *y)
{
	float a = *(const float *)x, b = *(const float *)y;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* Top-k and top-p of many random logits against a sort. */
static void test_against_sort(void **state)
{
	(void)state;
	for (int n = 0; n < 40; n++) {
		const struct gt_sampling o = {
			.temperature = 1, .top_k = n % 4 ? n * 17 : 0, .top_p = n % 3 ? n / 40.0 : 1
		};
		float logits[MANY], sorted[MANY];
		struct gt_token_sampler s;
		double all = 0, sum = 0;
		int max = o.top_k ? (int)o.top_k : MANY, kept = 0, seen = 0;

		for (int i = 0; i < MANY; i++)
			sorted[i] = logits[i] =
			    (float)(8 * gt_philox_double(gt_philox_u64(
			                    3, (uint64_t)i, GT_RNG_DATA, (uint32_t)n)));
		qsort(sorted, MANY, sizeof(*sorted), descending);
		for (int i = 0; i < max; i++)
			all += exp((double)sorted[i]);
		do
			sum += exp((double)sorted[kept++]);
		while (kept < max && (o.top_p == 1 || sum < o.top_p * all));
		assert_int_equal(gt_token_sampler_init(&s, MANY, &o, GT_ERR_IGNORED), 0);
		gt_token_sampler_weigh(&s, logits);
		for (int i = 0; i < MANY; i++) {
			seen += s.weights[i] > 0;
			assert_int_equal(s.weights[i] > 0, logits[i] >= sorted[kept - 1]);
		}
		assert_int_equal(seen, kept);
		gt_token_sampler_release(&s);
	}
}

/* Tokens come as often as their probabilities say: within five standard deviations. */
static void test_frequencies(void **state)
{
	const struct gt_sampling o = { .temperature = 1, .top_p = 0.75, .seed = 11 };
	const double left[FEW] = { 0, 0.25, 0.5, 0, 0.25, 0 };
	enum { DRAWS = 20000 };
	int counts[FEW] = { 0 };
	struct gt_token_sampler s;
	float logits[FEW];

	(void)state;
	logits_of(logits, few, FEW);
	assert_int_equal(gt_token_sampler_init(&s, FEW, &o, GT_ERR_IGNORED), 0);
	for (int i = 0; i < DRAWS; i++)
		counts[gt_token_sampler_draw(&s, logits, i)]++;
	for (int k = 0; k < FEW; k++)
		assert_true(
		    fabs(counts[k] - DRAWS * left[k]) <= 5 * sqrt(DRAWS * left[k] * (1 - left[k])));
	gt_token_sampler_release(&s);
}

/* Temperature 0, and one that is 0 in float32, take the likeliest. */
static void test_likeliest(void **state)
{
	static const double temperatures[] = { 0, 1e-300, 1e-40, 1e-6 };
	float logits[FEW];

	(void)state;
	logits_of(logits, few, FEW);
	for (size_t i = 0; i < sizeof(temperatures) / sizeof(temperatures[0]); i++) {
		const struct gt_sampling o = { .temperature = temperatures[i], .top_p = 1 };
		struct gt_token_sampler s;

		assert_int_equal(gt_token_sampler_init(&s, FEW, &o, GT_ERR_IGNORED), 0);
		for (int k = 0; k < 20; k++)
			assert_int_equal(gt_token_sampler_draw(&s, logits, k), 2);
		if (temperatures[i] > 0)
			assert_true(gt_token_sampler_weigh(&s, logits) == 1);
		gt_token_sampler_release(&s);
	}
}

/* Weights are numbers, however far logits are apart and whatever the temperature is. */
static void test_far_apart(void **state)
{
	static const double temperatures[] = { 1e-300, 1, 1e38, 1e39, 1e300, DBL_MAX };
	static const float logits[] = { -FLT_MAX, 0, FLT_MAX, -1 };
	enum { LOGITS = sizeof(logits) / sizeof(logits[0]) };

	(void)state;
	for (size_t i = 0; i < sizeof(temperatures) / sizeof(temperatures[0]); i++) {
		const struct gt_sampling o = { .temperature = temperatures[i], .top_p = 1 };
		struct gt_token_sampler s;
		double total;

		assert_int_equal(gt_token_sampler_init(&s, LOGITS, &o, GT_ERR_IGNORED), 0);
		total = gt_token_sampler_weigh(&s, logits);
		assert_true(total >= 1 && total <= LOGITS);
		for (int k = 0; k < LOGITS; k++) {
			double weight = exp(((double)logits[k] - FLT_MAX) / o.temperature);

			if (!(fabs(s.weights[k] - weight) < 1e-6))
				fail_msg("temperature %g: token %d counts %g, not %g",
				    o.temperature, k, s.weights[k], weight);
		}
		gt_token_sampler_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_against_sort),
		cmocka_unit_test(test_frequencies),
		cmocka_unit_test(test_likeliest),
		cmocka_unit_test(test_far_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
