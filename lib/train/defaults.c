/* defaults.c - default values that depend on the model, the data and other options. */
#include <math.h>

#include "lib/train/checkpoint/adopt.h"
#include "lib/train/run/resume.h"
#include "lib/train/state.h"

/* Vectors, such as the rows of a table, are often few and cheap: a run has at least VECTOR_STEPS
 * steps by default. */
enum { DEFAULT_EPOCHS = 10, VECTOR_STEPS = 1000, DEFAULT_WARMUP = 100 };

static double default_decay(const struct gt_train *t)
{
	const struct gt_optim_rule *rule = gt_optim_rule(t->o.optim.kind);

	if (t->s.input.form.kind == GT_SAMPLE_TOKENS)
		return rule->decay.tokens;
	return t->s.input.form.kind == GT_SAMPLE_IMAGE ? rule->decay.images : rule->decay.other;
}

static int64_t default_epochs(const struct gt_train *t)
{
	int64_t enough = (VECTOR_STEPS + t->steps_per_epoch - 1) / t->steps_per_epoch;

	return t->s.input.form.kind == GT_SAMPLE_VECTOR && enough > DEFAULT_EPOCHS ? enough
	                                                                           : DEFAULT_EPOCHS;
}

int gt_train_resolve_accumulate(struct gt_train_options *o, int ranks, struct gt_err *err)
{
	const int readers = gt_parallel_data_ranks(&o->parallel, ranks);
	const int64_t each = (int64_t)o->batch * readers, wanted = o->global_batch;
	int64_t count;

	if (!wanted || readers < 1)
		return 0;
	count = (wanted + each / 2) / each;
	count = count < 1 ? 1 : count < GT_TRAIN_MAX_BATCHES ? count : GT_TRAIN_MAX_BATCHES;
	if (count * each == wanted) {
		o->accumulate = (int)count;
		return 0;
	}
	gt_err_set(err, GT_EINVAL,
	    "{global-batch} %lld is not {batch} %d x %d %s%s times a number from 1 to %d",
	    (long long)wanted, o->batch, readers, readers < ranks ? "data-parallel " : "",
	    readers == 1 ? "rank" : "ranks", GT_TRAIN_MAX_BATCHES);
	return gt_err_hint(err, "the nearest is {global-batch} %lld", (long long)(count * each));
}

int gt_train_resolve_length(struct gt_train *t, struct gt_err *err)
{
	struct gt_train_options *o = &t->o;

	t->batches_per_epoch = gt_sampler_batches(&t->sampler);
	if (t->batches_per_epoch < 1) {
		gt_err_set(err, GT_EINVAL, "%lld samples are fewer than one step of %lld",
		    (long long)t->sampler.samples,
		    (long long)o->batch * o->accumulate * gt_session_data_world(&t->s));
		return gt_err_hint(
		    err, "take a smaller {batch} or {accumulate}, or leave out {drop-last}");
	}
	t->steps_per_epoch = (t->batches_per_epoch + t->runs - 1) / t->runs;
	if (gt_resume_find_position(t, err))
		return err->code;
	if (o->steps > 0) {
		o->epochs = 0;
		o->lr_schedule.total = o->steps;
		return 0;
	}
	if (o->epochs <= 0)
		o->epochs = default_epochs(t);
	/* Epochs are passes over the data; those that are done may have had other steps. */
	if (__builtin_mul_overflow(o->epochs, t->steps_per_epoch, &o->lr_schedule.total) ||
	    __builtin_add_overflow(
	        o->lr_schedule.total, t->from_step - t->from_position, &o->lr_schedule.total))
		return gt_err_set(err, GT_EINVAL, "too many epochs: %lld", (long long)o->epochs);
	return 0;
}

static int64_t at_most(int64_t n, int64_t max)
{
	return n < max ? n : max;
}

static int64_t at_least_one(int64_t n)
{
	return n < 1 ? 1 : n;
}

/* Return the steps of the warm-up, at most as many as leave room for the steps given to follow
 * it. */
static int64_t default_warmup(const struct gt_train *t)
{
	const struct gt_schedule *s = &t->o.lr_schedule;
	int64_t given = 0, max;

	if (s->kind == GT_WSD)
		given = s->decay;
	if (s->kind == GT_STEP)
		given = s->every;
	max = given <= s->total ? s->total - given : s->total;

	return at_most(at_most(s->total / 10, DEFAULT_WARMUP), max);
}

/* Refuse a schedule whose fall does not fit into the run; warn of one that rises until its end. */
static int check_schedule(const struct gt_schedule *s, struct gt_log *log, struct gt_err *err)
{
	long long total = s->total, warmup = s->warmup;

	if (s->kind != GT_CONSTANT && s->min_lr > s->lr)
		return gt_err_set(err, GT_EINVAL, "{min-lr} %g is above {lr} %g", s->min_lr, s->lr);
	if (warmup >= total) {
		gt_log_warn(log,
		    "{warmup} %lld is not below the %lld steps of this run: the learning rate "
		    "rises until the end and never reaches {lr}",
		    warmup, total);
		return 0;
	}
	if (s->kind == GT_WSD && s->decay > total - warmup)
		gt_err_set(err, GT_EINVAL,
		    "{decay-steps} %lld is above the %lld steps that {warmup} leaves",
		    (long long)s->decay, total - warmup);
	else if (s->kind == GT_STEP && s->every > total - warmup)
		gt_err_set(err, GT_EINVAL,
		    "{lr-step} %lld is above the %lld steps that {warmup} leaves",
		    (long long)s->every, total - warmup);
	else
		return 0;
	return gt_err_hint(err,
	    "give a smaller number; where the option is left out, its value comes from "
	    "the config.json of the run that goes on, or from the run's length");
}

/* Whether the option has no value yet; it has one from now on. */
static bool resolves(struct gt_train *t, unsigned bit)
{
	bool open = !(t->o.given & bit);

	t->o.given |= bit;
	return open;
}

static void resolve_rates(struct gt_train *t)
{
	const struct gt_optim_rule *rule = gt_optim_rule(t->o.optim.kind);
	double any = rule->default_lr ? rule->default_lr(&t->o.optim) : 0;

	if (t->o.lr_schedule.lr == 0)
		t->o.lr_schedule.lr =
		    any > 0 ? any : gt_model_default_lr(t->s.model, rule->adaptive);
	if (resolves(t, GT_GIVEN_MOMENTUM))
		t->o.optim.momentum = rule->momentum;
	if (rule->operand != GT_OPERAND_TENSORS)
		return;
	if (t->o.adam_lr == 0)
		t->o.adam_lr =
		    gt_model_default_lr(t->s.model, gt_optim_rule(rule->fallback)->adaptive);
	t->o.optim.fallback_lr_factor = t->o.adam_lr / t->o.lr_schedule.lr;
}

/* A learning rate that is infinite diverges, which the run reports. */
static int check_rates(const struct gt_train *t, struct gt_err *err)
{
	int rc = gt_optim_check_number("lr", t->o.lr_schedule.lr, 0, err);

	if (!rc && gt_optim_rule(t->o.optim.kind)->operand == GT_OPERAND_TENSORS)
		rc = gt_optim_check_number("adam-lr", t->o.adam_lr, INFINITY, err);
	return rc;
}

/* Each default depends on values above it. */
int gt_train_resolve_defaults(struct gt_train *t, struct gt_err *err)
{
	struct gt_schedule *s = &t->o.lr_schedule;

	if (t->resumes && gt_adopt_groups(t, err))
		return err->code;
	t->o.given |= GT_GIVEN_NESTEROV | GT_GIVEN_BETAS | GT_GIVEN_EPS;
	if (resolves(t, GT_GIVEN_WARMUP))
		s->warmup = default_warmup(t);
	resolve_rates(t);
	if (resolves(t, GT_GIVEN_MIN_LR)) /* step: a limit that the falls do not go below */
		s->min_lr = s->kind == GT_STEP ? 0 : s->lr / 10;
	if (!s->every)
		s->every = at_least_one(at_most(s->total / 3, s->total - s->warmup));
	if (!s->decay)
		s->decay = at_least_one(at_most(s->total / 5, s->total - s->warmup));
	if (resolves(t, GT_GIVEN_WEIGHT_DECAY))
		t->o.optim.weight_decay = default_decay(t);
	return check_rates(t, err) ? err->code : check_schedule(s, t->log, err);
}
