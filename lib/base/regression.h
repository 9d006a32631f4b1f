/* regression.h - the losses of numbers and labels: the term of a target, and its derivative. */
#ifndef GT_BASE_REGRESSION_H
#define GT_BASE_REGRESSION_H

#include <math.h>
#include <stdbool.h>

#include "lib/base/host_device.h"

/*
 * The term of a target for the output y and the error d = y - target:
 *
 *   MSE         d^2
 *   L1          |d|
 *   HUBER       d^2 / 2 if |d| < delta, else delta (|d| - delta / 2)
 *   SMOOTH_L1   HUBER / delta
 *   BCE         -(w target log s(y) + (1 - target) log(1 - s(y))) with s(y) = 1 / (1 + exp(-y)),
 *               for labels: a target is 1 or 0. w is the weight of the label, 1 if it has none.
 *   VALUE       y, for a network that computes the loss itself: a target is not read
 *
 * PyTorch has them as MSELoss, L1Loss, HuberLoss, SmoothL1Loss, whose beta is delta here, and
 * BCEWithLogitsLoss, whose pos_weight is w here.
 */
enum gt_regression_kind {
	GT_REGRESSION_MSE,
	GT_REGRESSION_L1,
	GT_REGRESSION_HUBER,
	GT_REGRESSION_SMOOTH_L1,
	GT_REGRESSION_BCE,
	GT_REGRESSION_VALUE
};

/* A loss of numbers or labels; zeroed: MSE. */
struct gt_regression {
	enum gt_regression_kind kind;
	double delta; /* HUBER and SMOOTH_L1: above 0 */
};

/* Return log(1 + exp(-y)), which is -log s(y). */
static inline GT_HOST_DEVICE double gt_regression_log_share(double y)
{
	return (y < 0 ? -y : 0) + log1p(exp(y < 0 ? y : -y));
}

/* Return the term for the output y; NaN if y is NaN. `w` is for BCE. */
static inline GT_HOST_DEVICE double gt_regression_term(
    struct gt_regression loss, double y, double target, double w)
{
	double d = y - target, size = d < 0 ? -d : d, delta = loss.delta;
	double unit = loss.kind == GT_REGRESSION_SMOOTH_L1 ? 1 / delta : 1;

	if (loss.kind == GT_REGRESSION_MSE)
		return d * d;
	if (loss.kind == GT_REGRESSION_L1)
		return size;
	if (loss.kind == GT_REGRESSION_VALUE)
		return y;
	if (loss.kind == GT_REGRESSION_BCE)
		return w * target * gt_regression_log_share(y) +
		       (1 - target) * gt_regression_log_share(-y);
	return unit * (size < delta ? d * d / 2 : delta * (size - delta / 2));
}

/* Return the derivative of the term by y; 0 where L1 has none. */
static inline GT_HOST_DEVICE double gt_regression_slope(
    struct gt_regression loss, double y, double target, double w)
{
	double d = y - target, sign = d > 0 ? 1 : d < 0 ? -1 : d, delta = loss.delta;
	double unit = loss.kind == GT_REGRESSION_SMOOTH_L1 ? 1 / delta : 1;

	if (loss.kind == GT_REGRESSION_MSE)
		return 2 * d;
	if (loss.kind == GT_REGRESSION_L1)
		return sign;
	if (loss.kind == GT_REGRESSION_VALUE)
		return 1;
	if (loss.kind == GT_REGRESSION_BCE)
		return (1 - target) / (1 + exp(-y)) - w * target / (1 + exp(y));
	return unit * (-delta < d && d < delta ? d : delta * sign);
}

enum { GT_REGRESS_STATS = 6 };

/* Add an output to the sums of the op regress_stats (lib/graph/ops/regression_loss.c). */
static inline GT_HOST_DEVICE void gt_regression_count(
    double sums[GT_REGRESS_STATS], struct gt_regression loss, double y, double target)
{
	bool labels = loss.kind == GT_REGRESSION_BCE;
	double d = y - target, holds = y > 0;

	sums[0] += labels ? holds == target : d * d;
	sums[1] += 1;
	sums[2] += labels ? holds : d < 0 ? -d : d;
	sums[3] += target;
	sums[4] += labels ? holds * target : target * target;
	sums[5] += gt_regression_term(loss, y, target, 1);
}

#endif
