/* schedule.c - learning rates as a function of the step. */
#include <math.h>
#include <string.h>

#include "lib/optim/optim.h"

int gt_schedule_kind_parse(const char *name)
{
	static const char *const names[] = { "constant", "step", "cosine", "wsd" };

	for (int i = 0; i < 4; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

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
