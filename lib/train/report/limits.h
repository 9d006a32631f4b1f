/* limits.h - the rates that a device can reach, known or measured, and the time that they give. */
#ifndef GT_TRAIN_REPORT_LIMITS_H
#define GT_TRAIN_REPORT_LIMITS_H

#include "lib/device/backend.h"
#include "lib/device/precision.h"
#include "lib/plan/cost.h"

struct gt_limits {
	/* FLOP/s of products in the type of the precision, and of other ops; 0: not known */
	double product_per_s, vector_per_s;
	/* bytes/s by the bytes of an op; without points: not known */
	struct gt_curve memory;
	bool measured; /* else published, or computed from the device's units and clock */
};

/* Return the known peak rate of products in the type of the precision; 0: not known. */
double gt_limits_peak_flops(const struct gt_device *device, const struct gt_precision *precision);

/*
 * Find the limits of a device. If its backend knows the peak of products, the rate of memory is
 * that of the row of lib/plan's known devices. Otherwise measure a product of matrices, and
 * additions of ranges of several sizes, with the threads that the caller's kernels use, for about
 * 0.2 s. A rate that cannot be measured, because memory is short, is not known.
 */
void gt_limits_find(
    struct gt_limits *out, const struct gt_device *device, const struct gt_precision *precision);

/* Return the seconds that the limits give to one op, and which limit that is; 0 if it is not
 * known. */
double gt_limits_time(enum gt_cost_bound *bound, const struct gt_limits *limits, bool product,
    double flops, double bytes);

#endif
