/* meter.h - show the bytes that several threads have processed on a progress line. */
#ifndef GT_BASE_METER_H
#define GT_BASE_METER_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/err.h"
#include "lib/base/progress.h"

/* A meter counts the bytes of a job that a thread pool does. Any thread may count, but only the
 * thread that began the job draws, because a progress line belongs to one thread. */
struct gt_meter {
	struct gt_progress *progress; /* NULL: nothing is shown */
	struct gt_progress outer;
	pthread_t drawer;
	double began; /* gt_clock_s() at gt_meter_begin() */
	atomic_uint_least64_t bytes;
};

/* Begin a job of `total_bytes` bytes. `progress` may be NULL. The line begins
 * with `unit`, such as "reading, MiB". */
void gt_meter_begin(
    struct gt_meter *m, struct gt_progress *progress, const char *unit, uint64_t total_bytes);

/* Count bytes that were processed. */
void gt_meter_add(struct gt_meter *m, uint64_t bytes);

/* Do gt_copy_range() (copy.h), and count the bytes. */
int gt_meter_copy(struct gt_meter *m, int out, uint64_t out_at, int in, uint64_t in_at,
    uint64_t size, bool write_back, struct gt_err *err);

/* Erase the line. */
void gt_meter_end(struct gt_meter *m);

#endif
