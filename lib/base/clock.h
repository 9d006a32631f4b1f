/* clock.h - seconds that never run backwards. */
#ifndef GT_BASE_CLOCK_H
#define GT_BASE_CLOCK_H

#include <time.h>

/* The start and the end of some work, by this clock. */
struct gt_span {
	double began, ended;
};

/* Seconds since an arbitrary moment, so only differences mean something. Allocates nothing. */
static inline double gt_clock_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

#endif
