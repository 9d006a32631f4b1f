/* schedule.c - learning rates as a function of the step. */
#include <math.h>

#include "lib/optim/optim.h"

const char *const gt_schedule_names[] = {
	[GT_CONSTANT] = "constant",
	[GT_STEP] = "step",
	[GT_COSINE] = "cosine",
	[GT_WSD] = "wsd",
	[GT_SCHEDULE_KINDS] = NULL,
};

static double cosine(const struct gt_schedule *s, int64_t step)
{
	double span = (double)(s->total - s->warmup);
	double at = span > 0 ? (double)(step - s->warmup) / span : 1;

	if (at > 1)
		at = 1;
	return s->min_lr + 0.5 * (1 + cos(M_PI * at)) * (s->lr - s->min_lr);
}

static double warmup_stable_decay(const struct gt_schedule *s, int64_t step)
{
	int64_t left = s->total - step;

	if (left >= s->decay)
		return s->lr;
	if (left <= 0)
		return s->min_lr;
	return s->min_lr + (s->lr - s->min_lr) * (double)left / (double)s->decay;
}

double gt_schedule_lr(const struct gt_schedule *s, int64_t step)
{
	int64_t falls;

	if (step < s->warmup)
		return s->lr * (double)(step + 1) / (double)(s->warmup + 1);
	switch (s->kind) {
	case GT_CONSTANT:
	case GT_SCHEDULE_KINDS:
		break;
	case GT_STEP:
		falls = (step - s->warmup) / s->every;
		return fmax(s->min_lr, s->lr * pow(s->gamma, (double)falls));
	case GT_COSINE:
		return cosine(s, step);
	case GT_WSD:
		return warmup_stable_decay(s, step);
	}
	return s->lr;
}
