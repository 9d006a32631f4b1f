/* test_vmath.c - the vector functions against libm in float64, over the whole range of floats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/cpu/vmath.h"

/* Distance of got from want in units of want's last place (of the smallest subnormal near zero). */
static double ulps(float got, double want)
{
	int exponent;

	if ((double)got == want || (isnan(got) && isnan(want)))
		return 0;
	if (fabs(want) > (double)0x1.fffffep127f)
		return isinf(got) && (got > 0) == (want > 0) ? 0 : INFINITY;
	frexp(want, &exponent);
	return fabs((double)got - want) / ldexp(1, exponent > -125 ? exponent - 24 : -149);
}

static float call_exp(float x)
{
	return gt_vexp(x);
}

static float call_log(float x)
{
	return gt_vlog(x);
}

static float call_tanh(float x)
{
	return gt_vtanh(x);
}

static float call_erf(float x)
{
	return gt_verf(x);
}

static float call_expm1(float x)
{
	return gt_vexpm1(x);
}

static float call_log1p(float x)
{
	return gt_vlog1p(x);
}

static const struct {
	const char *name;
	float (*f)(float);
	double (*g)(double);
	double limit; /* ulp, as vmath.h promises */
} functions[] = {
	{ "exp", call_exp, exp, 1.0 },
	{ "log", call_log, log, 1.1 },
	{ "tanh", call_tanh, tanh, 2.5 },
	{ "erf", call_erf, erf, 1.5 },
	{ "expm1", call_expm1, expm1, 2.0 },
	{ "log1p", call_log1p, log1p, 2.0 },
};

static void test_accuracy(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		double worst = 0;
		float where = 0;

		/* Every 1999th of all bit patterns: both signs, subnormals, infinities, NaN. */
		for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1999) {
			float x = gt_float_of((int32_t)(uint32_t)bits);
			double e = ulps(functions[i].f(x), functions[i].g((double)x));

			if (!(e <= worst)) {
				worst = e;
				where = x;
			}
		}
		print_message("%s: %.2f ulp at %.9g\n", functions[i].name, worst, (double)where);
		assert_true(worst <= functions[i].limit);
	}
}

/* Sine and cosine cross zero at numbers that are no floats, so errors are measured beside 1; near
 * 0, where a sine is about x, in its last place. */
static void test_sine_and_cosine(void **state)
{
	(void)state;
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1999) {
		float x = gt_float_of((int32_t)(uint32_t)bits), s = gt_vsin(x), c = gt_vcos(x);

		if (!(fabsf(x) <= 0x1p30f)) {
			assert_true(isnan(s) == !isfinite(x) && isnan(c) == !isfinite(x));
			continue;
		}
		if (!(fabs(s - sin(x)) <= 2e-7 && fabs(c - cos(x)) <= 2e-7) ||
		    (fabsf(x) < 1 && ulps(s, sin(x)) > 2))
			fail_msg("of %.9g: %.9g and %.9g", (double)x, (double)s, (double)c);
	}
}

static void test_limits(void **state)
{
	(void)state;
	assert_true(gt_vexp(-INFINITY) == 0.0f && gt_vexp(INFINITY) == INFINITY);
	assert_true(gt_vexp(0.0f) == 1.0f && isnan(gt_vexp(NAN)));
	assert_true(gt_vlog(0.0f) == -INFINITY && gt_vlog(INFINITY) == INFINITY);
	assert_true(gt_vlog(1.0f) == 0.0f && isnan(gt_vlog(-1.0f)) && isnan(gt_vlog(NAN)));
	assert_true(
	    gt_vtanh(INFINITY) == 1.0f && gt_vtanh(-INFINITY) == -1.0f && isnan(gt_vtanh(NAN)));
	assert_true(
	    gt_verf(INFINITY) == 1.0f && gt_verf(-INFINITY) == -1.0f && isnan(gt_verf(NAN)));
	assert_true(signbit(gt_vtanh(-0.0f)) && signbit(gt_verf(-0.0f)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accuracy),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_sine_and_cosine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
