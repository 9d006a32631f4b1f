/* settle.c - options left open, settled by model and data. */
#include <math.h>
#include <string.h>

#include "lib/train/inside.h"

enum { DEFAULT_EPOCHS = 10, DEFAULT_WARMUP = 100 };

/* AdamW's customary decay is larger for language models (GPT-3's 0.1) than torch's default 0.01;
 * ResNets with SGD use 1e-4 (He et al.). */
static double default_decay(const struct gt_train *t)
{
	if (t->o.optim.kind == GT_ADAMW)
		return t->input.kind == GT_MODEL_TOKENS ? 0.1 : 0.01;
	if (t->o.optim.kind == GT_SGD && t->input.kind == GT_MODEL_IMAGE)
		return 1e-4;
	return 0;
}

static int settle_length(struct gt_train *t, struct gt_err *err)
{
	struct gt_train_options *o = &t->o;

	t->batches_per_epoch = gt_sampler_batches(&t->sampler);
	if (t->batches_per_epoch < 1) {
		gt_err_set(err, GT_EINVAL, "%lld samples are fewer than one step of %lld",
		    (long long)t->sampler.samples,
		    (long long)o->batch * o->accumulate * gt_train_data_world(t));
		return gt_err_hint(
		    err, "take a smaller --batch or --accumulate, or leave out --drop-last");
	}
	t->steps_per_epoch = (t->batches_per_epoch + t->runs - 1) / t->runs;
	if (o->steps <= 0 && o->epochs <= 0)
		o->epochs = DEFAULT_EPOCHS;
	if (o->steps <= 0 &&
	    __builtin_mul_overflow(o->epochs, t->steps_per_epoch, &o->schedule.total))
		return gt_err_set(err, GT_EINVAL, "too many epochs: %lld", (long long)o->epochs);
	if (o->steps > 0)
		o->schedule.total = o->steps;
	return 0;
}

static int64_t at_least_one(int64_t n)
{
	return n < 1 ? 1 : n;
}

int gt_train_settle(struct gt_train *t, struct gt_err *err)
{
	struct gt_schedule *s = &t->o.schedule;

	if (settle_length(t, err))
		return err->code;
	if (isnan(s->lr))
		s->lr = gt_model_default_lr(t->model, gt_optim_kind_name(t->o.optim.kind));
	if (isnan(s->min_lr))
		s->min_lr = s->lr / 10;
	if (s->warmup < 0)
		s->warmup = s->total / 10 < DEFAULT_WARMUP ? s->total / 10 : DEFAULT_WARMUP;
	if (s->every <= 0)
		s->every = at_least_one(s->total / 3);
	if (s->decay <= 0)
		s->decay = at_least_one(s->total / 5);
	if (isnan(t->o.optim.weight_decay))
		t->o.optim.weight_decay = default_decay(t);
	if (s->min_lr > s->lr)
		return gt_err_set(err, GT_EINVAL, "--min-lr %g is above --lr %g", s->min_lr, s->lr);
	return 0;
}
