/* scaling.h - compare the speed of training on several ranks with the limits of the machine. */
#ifndef GT_TRAIN_REPORT_SCALING_H
#define GT_TRAIN_REPORT_SCALING_H

#include <stdbool.h>
#include <stdint.h>

/* The measured speed of a run. */
struct gt_scaling_run {
	int ranks;
	int64_t samples;      /* samples of a step, of all ranks */
	double samples_per_s; /* of all ranks */
	double data_wait;     /* fraction of the time in which the run waited for data, below 1 */
};

/* The limits of the machine for a run. */
struct gt_scaling_limits {
	/* processors or GPUs that the ranks use, in units of those of the run of one rank */
	double devices;
	/* the ranks and their threads, or other programs, use more processors or GPUs than there
	 * are */
	bool oversubscribed;
	double allreduce_s; /* seconds of an all-reduce of the gradients; 0 for one rank */
	/* A run is degraded below this fraction of the expected rate. */
	double bound;
};

/* The verdict on a run: normal, or the main reason why it is slower than expected. */
enum gt_scaling_verdict {
	GT_SCALING_NORMAL,
	GT_SCALING_DATA_WAIT,
	GT_SCALING_OVERSUBSCRIBED,
	GT_SCALING_COMMUNICATION,
	GT_SCALING_UNKNOWN, /* none of these: the run has one rank */
	GT_SCALING_VERDICTS
};

/* The words "normal", "data wait", "oversubscription", "communication" and "no known cause",
 * indexed by enum gt_scaling_verdict. */
extern const char *const gt_scaling_names[GT_SCALING_VERDICTS];

/*
 * Return the samples per second that the machine should give to `run`, by the run `one` of one rank
 * with the same precision:
 *
 *   step time = samples / (devices * rate of one rank without waiting for data) + all-reduce
 *
 * So nothing waits for data, every device is as fast as the first, and the all-reduce hides behind
 * no computation.
 */
double gt_scaling_expected(const struct gt_scaling_run *one, const struct gt_scaling_run *run,
    const struct gt_scaling_limits *limits);

/*
 * Return the verdict on `run`, whose expected rate is `expected_per_s`. A degraded run waits for
 * data if this is at least half of the time that it loses per step. Otherwise it shares processors
 * or GPUs, or, if its ranks have them for themselves, they spend the time in communication.
 */
enum gt_scaling_verdict gt_scaling_find_verdict(const struct gt_scaling_run *run,
    double expected_per_s, const struct gt_scaling_limits *limits);

#endif
