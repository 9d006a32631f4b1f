/* measure.h - measure how long work takes: the median time of several rounds. */
#ifndef GT_BASE_MEASURE_H
#define GT_BASE_MEASURE_H

#include <stdint.h>

#include "lib/base/err.h"

enum { GT_MEASURE_MAX_ROUNDS = 100 };

/* Do the work `times` times, and return when it is complete. `self` is the argument of
 * gt_measure(). */
typedef int gt_measure_fn(void *self, int64_t times, struct gt_err *err);

struct gt_measure {
	int rounds; /* number of rounds, 1 to GT_MEASURE_MAX_ROUNDS */
	/* approximate duration of a round; each round does the work 1 to 2^20 times */
	double seconds;
};

/*
 * Measure how long `work` takes. First do the work without measuring it, to warm up. Then find how
 * many times the work fits into a round, and measure the rounds. Each round gives a time for doing
 * the work once. Set *each_s to the median of these times, in seconds. Errors: the errors of
 * `work`.
 */
int gt_measure(double *each_s, const struct gt_measure *m, gt_measure_fn *work, void *self,
    struct gt_err *err);

/* Sort `count` numbers in place, and return their median. If `count` is even, return the lower one
 * of the two middle numbers. */
double gt_measure_median(double *values, int count);

#endif
