/* measure.h - measure how long work takes: the median time of several rounds. */
#ifndef GT_BASE_MEASURE_H
#define GT_BASE_MEASURE_H

#include <stdint.h>

#include "lib/base/err.h"

enum { GT_MEASURE_MAX_ROUNDS = 100 };

/* Do the work `times` times, and return when all of it is done. */
typedef int gt_measure_fn(void *self, int64_t times, struct gt_err *err);

struct gt_measure {
	int rounds;     /* 1 to GT_MEASURE_MAX_ROUNDS */
	double seconds; /* length of a round; longer if doing the work once takes longer */
};

/* Warm up, find how often the work fits into a round, and time the rounds. *each_s is the median
 * over the rounds of the time for doing the work once. Errors: those of the work. */
int gt_measure(double *each_s, const struct gt_measure *m, gt_measure_fn *work, void *self,
    struct gt_err *err);

/* The middle of `count` numbers (the lower one of two), which it sorts. */
double gt_measure_median(double *values, int count);

#endif
