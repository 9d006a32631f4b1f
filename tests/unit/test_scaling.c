/* test_scaling.c - the expected rate of a run on several ranks, and the reason if it is slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>

#include "lib/train/report/scaling.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* One rank reads 100 samples per second, and 125 if it did not wait for data. */
static const struct gt_scaling_run one = {
	.ranks = 1, .samples = 100, .samples_per_s = 100, .data_wait = 0.2
};

static const struct expected_case {
	const char *what;
	struct gt_scaling_run run;
	struct gt_scaling_limits limits;
	double expected_per_s;
} expected_cases[] = {
	{ "one rank that does not wait for data", { 1, 100, 0, 0 }, { .devices = 1 }, 125 },
	{ "two ranks on two devices", { 2, 250, 0, 0 }, { .devices = 2 }, 250 },
	{ "two ranks on one device", { 2, 250, 0, 0 }, { .devices = 1 }, 125 },
	{ "three ranks on two devices", { 3, 250, 0, 0 }, { .devices = 2 }, 250 },
	{ "a step of 1 s and an all-reduce of 1 s", { 2, 250, 0, 0 },
	    { .devices = 2, .allreduce_s = 1 }, 125 },
	{ "the all-reduce counts less in a longer step", { 2, 750, 0, 0 },
	    { .devices = 2, .allreduce_s = 1 }, 187.5 },
	{ "the run's own rate and waiting do not matter", { 2, 250, 7, 0.9 }, { .devices = 2 },
	    250 },
};

static void expected_rates(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(expected_cases); i++) {
		const struct expected_case *c = &expected_cases[i];
		double found = gt_scaling_expected(&one, &c->run, &c->limits);

		if (fabs(found - c->expected_per_s) > 1e-9 * c->expected_per_s)
			fail_msg("%s: %g, wanted %g", c->what, found, c->expected_per_s);
	}
}

/* All are expected to read 100 samples per second, in steps of 1 s. */
static const struct verdict_case {
	const char *what;
	struct gt_scaling_run run;
	struct gt_scaling_limits limits;
	enum gt_scaling_verdict verdict;
} verdict_cases[] = {
	{ "as expected", { 2, 100, 100, 0 }, { .bound = 1 }, GT_SCALING_NORMAL },
	{ "better", { 2, 100, 130, 0 }, { .bound = 1, .oversubscribed = true }, GT_SCALING_NORMAL },
	{ "at the bound", { 2, 100, 80, 0.1 }, { .bound = 0.8 }, GT_SCALING_NORMAL },
	{ "no bound", { 2, 100, 1, 0.9 }, { .bound = 0 }, GT_SCALING_NORMAL },
	{ "below the bound", { 2, 100, 79, 0 }, { .bound = 0.8 }, GT_SCALING_COMMUNICATION },
	{ "all ranks share a processor", { 2, 100, 79, 0 },
	    { .bound = 0.8, .oversubscribed = true }, GT_SCALING_OVERSUBSCRIBED },
	{ "one rank", { 1, 100, 79, 0 }, { .bound = 0.8 }, GT_SCALING_UNKNOWN },
	{ "one rank on a busy machine", { 1, 100, 79, 0 }, { .bound = 0.8, .oversubscribed = true },
	    GT_SCALING_OVERSUBSCRIBED },
	{ "of 2 s, 1 s is lost, and half of that is waiting", { 2, 100, 50, 0.25 },
	    { .bound = 0.8, .oversubscribed = true }, GT_SCALING_DATA_WAIT },
	{ "of 2 s, 1 s is lost, and less than half of that is waiting", { 2, 100, 50, 0.24 },
	    { .bound = 0.8 }, GT_SCALING_COMMUNICATION },
	{ "one rank waits", { 1, 100, 50, 0.5 }, { .bound = 0.8 }, GT_SCALING_DATA_WAIT },
};

static void verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(verdict_cases); i++) {
		const struct verdict_case *c = &verdict_cases[i];
		enum gt_scaling_verdict found = gt_scaling_find_verdict(&c->run, 100, &c->limits);

		if (found != c->verdict)
			fail_msg("%s: %s, wanted %s", c->what, gt_scaling_names[found],
			    gt_scaling_names[c->verdict]);
	}
}

static void every_verdict_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < GT_SCALING_VERDICTS; i++)
		assert_non_null(gt_scaling_names[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expected_rates),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(every_verdict_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
