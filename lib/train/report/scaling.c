/* scaling.c - the expected rate of a training run, and the reason if it is slower. */
#include "lib/train/report/scaling.h"

const char *const gt_scaling_names[GT_SCALING_VERDICTS] = {
	[GT_SCALING_NORMAL] = "normal",
	[GT_SCALING_DATA_WAIT] = "data wait",
	[GT_SCALING_OVERSUBSCRIBED] = "oversubscription",
	[GT_SCALING_COMMUNICATION] = "communication",
	[GT_SCALING_UNKNOWN] = "no known cause",
};

double gt_scaling_expected(const struct gt_scaling_run *one, const struct gt_scaling_run *run,
    const struct gt_scaling_limits *limits)
{
	double one_per_s = one->samples_per_s / (1 - one->data_wait);
	double step_s = (double)run->samples / (one_per_s * limits->devices) + limits->allreduce_s;

	return (double)run->samples / step_s;
}

enum gt_scaling_verdict gt_scaling_find_verdict(
    const struct gt_scaling_run *run, double expected_per_s, const struct gt_scaling_limits *limits)
{
	double samples = (double)run->samples, step_s = samples / run->samples_per_s;
	double lost_s = step_s - samples / expected_per_s;

	if (run->samples_per_s >= limits->bound * expected_per_s)
		return GT_SCALING_NORMAL;
	if (run->data_wait * step_s >= lost_s / 2)
		return GT_SCALING_DATA_WAIT;
	if (limits->oversubscribed)
		return GT_SCALING_OVERSUBSCRIBED;
	return run->ranks > 1 ? GT_SCALING_COMMUNICATION : GT_SCALING_UNKNOWN;
}
