/* measure.c - how long work takes: repeated until a clock can tell, the median of rounds. */
#include "lib/base/measure.h"

#include <stdlib.h>

#include "lib/base/clock.h"

enum { MOST_TIMES = 1 << 20 };

static int time_work(
    double *taken_s, int64_t times, gt_measure_fn *work, void *self, struct gt_err *err)
{
	double began = gt_clock_s();
	int rc = work(self, times, err);

	*taken_s = gt_clock_s() - began;
	return rc;
}

/* Return how often the work fits into a round: it is repeated until it takes a tenth of a round. */
static int count_times(
    int64_t *times, const struct gt_measure *m, gt_measure_fn *work, void *self, struct gt_err *err)
{
	double taken_s = 0, fits;
	int rc = 0;

	for (*times = 1;; *times *= 4) {
		rc = time_work(&taken_s, *times, work, self, err);
		if (rc || taken_s >= m->seconds / 10 || *times >= MOST_TIMES)
			break;
	}
	fits = taken_s > 0 ? m->seconds / taken_s * (double)*times : MOST_TIMES;
	*times = fits < 1 ? 1 : fits < MOST_TIMES ? (int64_t)fits : MOST_TIMES;
	return rc;
}

int gt_measure(
    double *each_s, const struct gt_measure *m, gt_measure_fn *work, void *self, struct gt_err *err)
{
	enum { WARM_UP = 3 }; /* a plan needs three runs: run, captured, replayed */
	double round_s[GT_MEASURE_MAX_ROUNDS];
	int64_t times = 1;
	int rc = work(self, WARM_UP, err);

	if (!rc)
		rc = count_times(&times, m, work, self, err);
	for (int i = 0; !rc && i < m->rounds; i++)
		rc = time_work(&round_s[i], times, work, self, err);
	if (!rc)
		*each_s = gt_measure_median(round_s, m->rounds) / (double)times;
	return rc;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gt_measure_median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_size);
	return values[(count - 1) / 2];
}
