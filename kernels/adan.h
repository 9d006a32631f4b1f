/* adan.h - private: a step of Adan for one element, in C for the CPU and for CUDA. */
#ifndef GT_KERNELS_ADAN_H
#define GT_KERNELS_ADAN_H

#include <math.h>

#include "lib/optim/step_kernels.h"

/* Includers for CUDA define this before they include the header. */
#ifndef GT_ADAN_FUNCTION
#define GT_ADAN_FUNCTION static inline
#endif

/* log(beta), for 1 - beta^t = -expm1(t log(beta)), which float32 has at its full precision. */
#define GT_ADAN_LOG_BETA1 (-0.020202707317519466F) /* 0.98 */
#define GT_ADAN_LOG_BETA2 (-0.083381608939051F)    /* 0.92 */
#define GT_ADAN_LOG_BETA3 (-0.010050335853501441F) /* 0.99 */

/* The numbers that all elements of a range share. */
struct gt_adan {
	float factor; /* of the gradient */
	float step, diff_step, unbias, eps;
	float shrink; /* weight decay, as a proximal step */
	int first;    /* the first step has no earlier gradient */
};

GT_ADAN_FUNCTION struct gt_adan gt_adan_begin(
    const struct gt_step_scalars *s, float lr, float weight_decay, float eps)
{
	float t = (float)s->result.steps;
	struct gt_adan a;

	a.factor = s->result.grad_factor;
	a.step = lr / -expm1f(t * GT_ADAN_LOG_BETA1);
	a.diff_step = lr * (float)GT_ADAN_BETA2 / -expm1f(t * GT_ADAN_LOG_BETA2);
	a.unbias = 1.0f / sqrtf(-expm1f(t * GT_ADAN_LOG_BETA3));
	a.eps = eps;
	a.shrink = 1.0f / (1.0f + lr * weight_decay);
	a.first = s->result.steps == 1;
	return a;
}

/* Update a parameter. m, v and n are the means of the gradient, of its difference from the gradient
 * of the last step, and of squares; `last` is the negative of the gradient of the last step. */
GT_ADAN_FUNCTION void gt_adan_element(
    const struct gt_adan *a, float *p, float g, float *m, float *v, float *n, float *last)
{
	const float beta1 = (float)GT_ADAN_BETA1, beta2 = (float)GT_ADAN_BETA2;
	const float beta3 = (float)GT_ADAN_BETA3;
	float d = g * a->factor, diff = a->first ? 0.0f : d + *last, ahead = d + beta2 * diff;
	float denominator;

	*m = beta1 * *m + (float)(1 - GT_ADAN_BETA1) * d;
	*v = beta2 * *v + (float)(1 - GT_ADAN_BETA2) * diff;
	*n = beta3 * *n + (float)(1 - GT_ADAN_BETA3) * ahead * ahead;
	*last = -d;
	denominator = sqrtf(*n) * a->unbias + a->eps;
	*p = (*p - (a->step * *m + a->diff_step * *v) / denominator) * a->shrink;
}

#endif
