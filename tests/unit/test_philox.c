/* test_philox.c - counted random numbers: known answers, ranges, moments. */
#include "lib/base/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/base/normals.h"

enum { DRAWS = 1 << 17, SEED = 20240229 };

/* Source: tests/kat_vectors of Random123 1.14, the lines of philox4x32 with 10 rounds. */
static void known_answers(void **state)
{
	static const struct {
		uint32_t counter[4];
		uint64_t key;
		uint32_t out[4];
	} cases[] = {
		{ { 0 }, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { ~0u, ~0u, ~0u, ~0u }, ~0ull,
		    { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, 0x299f31d0a4093822,
		    { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t out[4];

		gt_philox(cases[i].key, cases[i].counter, out);
		assert_memory_equal(out, cases[i].out, sizeof(out));
	}
}

static void u64_is_words_of_the_block_at_its_counter(void **state)
{
	const uint32_t counter[4] = { 0x89abcdef, 0x01234567, GT_RNG_SHUFFLE, 9 };
	uint32_t out[4];

	(void)state;
	gt_philox(SEED, counter, out);
	assert_true(gt_philox_u64(SEED, 0x0123456789abcdef, GT_RNG_SHUFFLE, 9) ==
	            ((uint64_t)out[1] << 32 | out[0]));
}

/* A change in any one argument gives other bits. */
static void every_argument_counts(void **state)
{
	uint64_t base = gt_philox_u64(1, 2, 3, 4);

	(void)state;
	assert_true(base != gt_philox_u64(2, 2, 3, 4));
	assert_true(base != gt_philox_u64(1, 3, 3, 4));
	assert_true(base != gt_philox_u64(1, 2 + (1ull << 32), 3, 4));
	assert_true(base != gt_philox_u64(1, 2, 4, 4));
	assert_true(base != gt_philox_u64(1, 2, 3, 5));
}

static void ends_of_the_ranges(void **state)
{
	(void)state;
	assert_true(gt_philox_float(0) == 0.0f);
	assert_true(gt_philox_float(UINT32_MAX) == 1.0f - 0x1p-24f);
	assert_true(gt_philox_double(0) == 0.0);
	assert_true(gt_philox_double(UINT64_MAX) == 1.0 - 0x1p-53);
	assert_int_equal(gt_philox_below(0, 10), 0);
	assert_int_equal(gt_philox_below(UINT64_MAX, 10), 9);
	assert_int_equal(gt_philox_below(UINT64_MAX, 1), 0);
	assert_true(gt_philox_below(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
}

/* Chi-squared over n bins: mean n-1, standard deviation sqrt(2(n-1)); five of them are allowed. */
static void assert_uniform(const int *bins, int n)
{
	double expected = (double)DRAWS / n, chi = 0;

	for (int i = 0; i < n; i++)
		chi += (bins[i] - expected) * (bins[i] - expected) / expected;
	if (fabs(chi - (n - 1)) > 5 * sqrt(2.0 * (n - 1)))
		fail_msg("chi-squared %g over %d bins, seed %d", chi, n, SEED);
}

static void below_and_float_are_uniform(void **state)
{
	static const int widths[] = { 2, 3, 7, 10, 64, 100 };

	(void)state;
	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
		int n = widths[w], below[100] = { 0 }, single[100] = { 0 };

		for (uint64_t i = 0; i < DRAWS; i++) {
			uint64_t bits = gt_philox_u64(SEED, i, GT_RNG_DATA, (uint32_t)n);

			below[gt_philox_below(bits, (uint64_t)n)]++;
			single[(int)(gt_philox_float((uint32_t)bits) * (float)n)]++;
		}
		assert_uniform(below, n);
		assert_uniform(single, n);
	}
}

/* The first four moments of a standard normal, each within five standard errors. */
static void normal_has_the_moments_of_one(void **state)
{
	static const double moment[5] = { 1, 0, 1, 0, 3 }, variance[5] = { 0, 1, 2, 15, 96 };
	static float normals[DRAWS];
	double sum[5] = { 0 };

	(void)state;
	gt_draw_normals(&(struct gt_philox_draw){ SEED, 0, GT_RNG_DATA, 1 }, DRAWS, normals);
	for (int i = 0; i < DRAWS; i++) {
		double power = 1;

		for (int k = 1; k <= 4; k++)
			sum[k] += power *= normals[i];
	}
	for (int k = 1; k <= 4; k++)
		if (fabs(sum[k] / DRAWS - moment[k]) > 5 * sqrt(variance[k] / DRAWS))
			fail_msg("moment %d is %g, seed %d", k, sum[k] / DRAWS, SEED);
}

/* Box and Muller by the C library's functions, from the words of single blocks. */
static double compute_normal(const struct gt_philox_draw *d, int64_t i)
{
	uint64_t block = d->block + (uint64_t)i / 4;
	const uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), d->stream,
		d->step };
	double radius, angle;
	uint32_t w[4];

	gt_philox(d->key, counter, w);
	radius = sqrt(-2 * log((w[i % 4 & 2] + 0.5) * 0x1p-32));
	angle = w[i % 4 | 1] * (6.283185307179586 * 0x1p-32);
	return radius * (i % 2 ? sin(angle) : cos(angle));
}

static void draws_are_functions_of_their_blocks(void **state)
{
	static const struct gt_philox_draw draws[] = { { SEED, 0, 3, 0 },
		{ ~0ull, UINT32_MAX - 9, 4, 5 } };
	static const int64_t counts[] = { 1, 255, 256, 257, DRAWS };
	static float normals[DRAWS + 1], uniforms[DRAWS + 1];

	(void)state;
	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			int64_t n = counts[c];

			normals[n] = uniforms[n] = -7;
			gt_draw_normals(&draws[k], n, normals);
			gt_draw_uniforms(&draws[k], n, uniforms);
			assert_true(normals[n] == -7 && uniforms[n] == -7);
			for (int64_t i = 0; i < n; i++) {
				double want = compute_normal(&draws[k], i);
				uint64_t bits =
				    gt_philox_u64(draws[k].key, draws[k].block + (uint64_t)i / 4,
				        draws[k].stream, draws[k].step);

				if (!(fabs(normals[i] - want) <= fabs(want) * 0x1p-23))
					fail_msg("normal %d of %d: %.9g is not %.9g", (int)i,
					    (int)n, normals[i], want);
				if (i % 4 < 2)
					assert_true(
					    uniforms[i] ==
					    gt_philox_float((uint32_t)(bits >> 32 * (i % 4))));
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(u64_is_words_of_the_block_at_its_counter),
		cmocka_unit_test(every_argument_counts),
		cmocka_unit_test(ends_of_the_ranges),
		cmocka_unit_test(below_and_float_are_uniform),
		cmocka_unit_test(normal_has_the_moments_of_one),
		cmocka_unit_test(draws_are_functions_of_their_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
