/* regression.h - the losses of numbers: the term of a target, and its derivative. */
#ifndef GT_BASE_REGRESSION_H
#define GT_BASE_REGRESSION_H

#include "lib/base/host_device.h"

/*
 * The term of a target for the error d = output - target:
 *
 *   MSE         d^2
 *   L1          |d|
 *   HUBER       d^2 / 2 if |d| < delta, else delta (|d| - delta / 2)
 *   SMOOTH_L1   HUBER / delta
 *
 * PyTorch has them as MSELoss, L1Loss, HuberLoss and SmoothL1Loss, whose beta is delta here.
 */
enum gt_regression_kind {
	GT_REGRESSION_MSE,
	GT_REGRESSION_L1,
	GT_REGRESSION_HUBER,
	GT_REGRESSION_SMOOTH_L1
};

/* A loss of numbers; zeroed: MSE. */
struct gt_regression {
	enum gt_regression_kind kind;
	double delta; /* HUBER and SMOOTH_L1: above 0 */
};

/* Return the term for the error d; NaN if d is NaN. */
static inline GT_HOST_DEVICE double gt_regression_term(struct gt_regression loss, double d)
{
	double size = d < 0 ? -d : d, delta = loss.delta;
	double unit = loss.kind == GT_REGRESSION_SMOOTH_L1 ? 1 / delta : 1;

	if (loss.kind == GT_REGRESSION_MSE)
		return d * d;
	if (loss.kind == GT_REGRESSION_L1)
		return size;
	return unit * (size < delta ? d * d / 2 : delta * (size - delta / 2));
}

/* Return the derivative of the term by d; 0 where L1 has none. */
static inline GT_HOST_DEVICE double gt_regression_slope(struct gt_regression loss, double d)
{
	double sign = d > 0 ? 1 : d < 0 ? -1 : d, delta = loss.delta;
	double unit = loss.kind == GT_REGRESSION_SMOOTH_L1 ? 1 / delta : 1;

	if (loss.kind == GT_REGRESSION_MSE)
		return 2 * d;
	if (loss.kind == GT_REGRESSION_L1)
		return sign;
	return unit * (-delta < d && d < delta ? d : delta * sign);
}

#endif
