/* clock.h - a monotonic clock and the time of day, in seconds. */
#ifndef GT_BASE_CLOCK_H
#define GT_BASE_CLOCK_H

#include <time.h>

/* The times when some work began and ended, from gt_clock_s(). */
struct gt_span {
	double began, ended; /* seconds */
};

/* Return the time in seconds since an arbitrary moment. Only the difference of two times has a
 * meaning. This function never allocates memory. */
static inline double gt_clock_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Return the time in seconds since 1970 (UTC), which jumps when the system's clock is set. This
 * function never allocates memory. */
static inline double gt_clock_wall_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

#endif
