/* measure.h - measure how long work takes: the median time of several rounds. */
#ifndef GT_BASE_MEASURE_H
#define GT_BASE_MEASURE_H

#include <stdint.h>

#include "lib/base/err.h"

enum { GT_MEASURE_MAX_ROUNDS = 100 };

/* Do the work so many times, and wait until it is done. */
typedef int gt_measure_fn(void *self, int64_t times, struct gt_err *err);

struct gt_measure {
	int rounds;     /* 1 to GT_MEASURE_MAX_ROUNDS */
	double seconds; /* approximate duration of a round, of 1 to 2^20 times */
};

/* Warm up, find how often the work fits into a round, and set *each_s to the median of the rounds'
 * times for doing it once, in seconds. */
int gt_measure(double *each_s, const struct gt_measure *m, gt_measure_fn *work, void *self,
    struct gt_err *err);

/* Sort numbers in place, and return their median, of two the lower one. */
double gt_measure_median(double *values, int count);

#endif
