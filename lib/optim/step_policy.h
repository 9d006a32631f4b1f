/* step_policy.h - the rules of a step: loss scale, skipped updates, divergence, clipping. */
#ifndef GT_OPTIM_STEP_POLICY_H
#define GT_OPTIM_STEP_POLICY_H

#include <math.h>

#include "lib/base/host_device.h"
#include "lib/optim/step_kernels.h"

/*
 * Backends compute these rules on the device, so that the host need not wait for a step:
 * kernels/cpu and kernels/cuda compile this file.
 */

/* An exact sum of squares (GT_SQUARES) has GT_SQUARE_DIGITS digits of GT_SQUARE_DIGIT bits. */
enum { GT_SQUARE_DIGIT = 24, GT_SQUARE_DIGITS = GT_SQUARES - 1 };

/* Return the value of an exact sum of squares. Equal sums may have different digits, so first
 * reduce each digit to less than 2^GT_SQUARE_DIGIT, and add the rest to the next one. */
static inline GT_HOST_DEVICE double gt_step_exact_total(const double *squares)
{
	double carry = 0, total = squares[GT_SQUARE_DIGITS];

	for (int i = 0; i < GT_SQUARE_DIGITS; i++) {
		double digit = squares[i] + carry;

		carry = i + 1 < GT_SQUARE_DIGITS ? floor(ldexp(digit, -GT_SQUARE_DIGIT)) : 0;
		total += ldexp(digit - ldexp(carry, GT_SQUARE_DIGIT), GT_SQUARE_DIGIT * i - 298);
	}
	return total;
}

/* isfinite() as C, C++ and CUDA all have it. */
static inline GT_HOST_DEVICE bool gt_step_is_finite(double x)
{
	return x * 0 == 0;
}

/* Change the loss scale after a step. The scale does not grow beyond float32. */
static inline GT_HOST_DEVICE void gt_step_update_scale(
    const struct gt_step_block *b, struct gt_step_result *r)
{
	float grown = r->scale * b->growth;

	if (r->skip) {
		r->scale *= b->backoff;
		r->growth_tracker = 0;
		r->diverged = (double)r->scale < gt_scale_min;
	} else if (++r->growth_tracker == b->growth_interval) {
		r->scale = gt_step_is_finite((double)grown) ? grown : r->scale;
		r->growth_tracker = 0;
	}
}

/* The work of gt_step_kernels.begin_update(). */
static inline GT_HOST_DEVICE void gt_step_begin_update(struct gt_step_scalars *s)
{
	const struct gt_step_block *b = &s->block;
	struct gt_step_result *r = &s->result;
	bool scaled = b->growth_interval > 0, finite;
	double scale = scaled ? (double)r->scale : 1;
	double norm = sqrt(b->exact ? gt_step_exact_total(r->squares) : r->squares[0]) / scale;
	double factor = b->clip > 0 ? (double)b->clip / (norm + 1e-6) : 1;

	r->grad_norm = (float)norm;
	r->grad_factor = (float)((factor > 1 ? 1 : factor) / scale);
	finite = gt_step_is_finite((double)r->grad_norm);
	r->diverged = r->diverged || !gt_step_is_finite(r->loss) || !(finite || scaled);
	r->skip = r->diverged || !finite;
	if (scaled && !r->diverged)
		gt_step_update_scale(b, r);
	if (r->skip)
		return;
	r->steps++;
	r->bias1 = (float)(1 - pow(b->beta1, (double)r->steps));
	r->bias2_sqrt = (float)sqrt(1 - pow(b->beta2, (double)r->steps));
}

#endif
