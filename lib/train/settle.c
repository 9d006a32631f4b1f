/* settle.c - options left open, settled by model and data. */
#include <math.h>

#include "lib/train/inside.h"

enum { DEFAULT_EPOCHS = 10, DEFAULT_WARMUP = 100 };

static double default_decay(const struct gt_train *t)
{
	const struct gt_optim_rule *rule = gt_optim_rule(t->o.optim.kind);

	if (t->input.kind == GT_MODEL_TOKENS)
		return rule->decay.tokens;
	return t->input.kind == GT_MODEL_IMAGE ? rule->decay.images : rule->decay.other;
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

static int64_t at_most(int64_t n, int64_t most)
{
	return n < most ? n : most;
}

static int64_t at_least_one(int64_t n)
{
	return n < 1 ? 1 : n;
}

/* It leaves room for the steps that were asked for behind it. */
static int64_t default_warmup(const struct gt_schedule *s)
{
	int64_t asked = s->kind == GT_WSD ? s->decay : s->kind == GT_STEP ? s->every : 0;
	int64_t most = asked > 0 && asked <= s->total ? s->total - asked : s->total;

	return at_most(at_most(s->total / 10, DEFAULT_WARMUP), most);
}

/* Refuse a schedule that does not fit into the run: it would never reach --lr, or never fall. */
static int check_schedule(const struct gt_schedule *s, struct gt_err *err)
{
	long long total = s->total, warmup = s->warmup;

	if (s->kind != GT_CONSTANT && s->min_lr > s->lr)
		return gt_err_set(err, GT_EINVAL, "--min-lr %g is above --lr %g", s->min_lr, s->lr);
	if (warmup >= total)
		gt_err_set(err, GT_EINVAL, "--warmup %lld leaves none of %lld steps at full rate",
		    warmup, total);
	else if (s->kind == GT_WSD && s->decay > total - warmup)
		gt_err_set(err, GT_EINVAL,
		    "--decay-steps %lld is above the %lld steps that --warmup leaves",
		    (long long)s->decay, total - warmup);
	else if (s->kind == GT_STEP && s->every > total - warmup)
		gt_err_set(err, GT_EINVAL,
		    "--lr-step %lld is above the %lld steps that --warmup leaves",
		    (long long)s->every, total - warmup);
	else
		return 0;
	return gt_err_hint(err,
	    "give a smaller number; where the option is left out, its value comes from "
	    "the config.json of the run that goes on, or from the run's length");
}

static void settle_rates(struct gt_train *t)
{
	const struct gt_optim_rule *rule = gt_optim_rule(t->o.optim.kind);
	double any = rule->default_lr ? rule->default_lr(&t->o.optim) : 0;

	if (isnan(t->o.schedule.lr))
		t->o.schedule.lr = any > 0 ? any : gt_model_default_lr(t->model, rule->adaptive);
	if (isnan(t->o.optim.momentum))
		t->o.optim.momentum = rule->momentum;
	if (rule->operand != GT_OPERAND_TENSORS)
		return;
	if (!(t->o.adam_lr > 0))
		t->o.adam_lr = gt_model_default_lr(t->model, gt_optim_rule(rule->others)->adaptive);
	t->o.optim.others_lr = t->o.adam_lr / t->o.schedule.lr;
}

int gt_train_settle(struct gt_train *t, struct gt_err *err)
{
	struct gt_schedule *s = &t->o.schedule;

	if (settle_length(t, err))
		return err->code;
	settle_rates(t);
	if (isnan(s->min_lr)) /* of step, a limit that the falls do not go below */
		s->min_lr = s->kind == GT_STEP ? 0 : s->lr / 10;
	if (s->warmup < 0)
		s->warmup = default_warmup(s);
	if (s->every <= 0)
		s->every = at_least_one(at_most(s->total / 3, s->total - s->warmup));
	if (s->decay <= 0)
		s->decay = at_least_one(at_most(s->total / 5, s->total - s->warmup));
	if (isnan(t->o.optim.weight_decay))
		t->o.optim.weight_decay = default_decay(t);
	return check_schedule(s, err);
}
