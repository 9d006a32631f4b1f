/* steps.c - one step of the training loop: queued now, its results read later. */
#include <math.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/optim/average.h"
#include "lib/train/finite.h"
#include "lib/train/loop.h"
#include "lib/train/run/resume.h"

/* The runs of a step: the last step of an epoch may have fewer. Returns how many samples they
 * take. */
static int64_t step_samples(const struct gt_train *t, int64_t step, int64_t *first, int64_t *last)
{
	int64_t rank_samples = gt_sampler_rank_samples(&t->sampler);
	int64_t end;

	*first = gt_resume_position(t, step) % t->steps_per_epoch * t->runs;
	*last = *first + t->runs;
	if (*last > t->batches_per_epoch)
		*last = t->batches_per_epoch;
	end = *last * t->sampler.batch;
	return (end < rank_samples ? end : rank_samples) - *first * t->sampler.batch;
}

int64_t gt_loop_samples(const struct gt_train *t)
{
	int64_t first, last;

	return step_samples(t, t->step, &first, &last);
}

/* Take the next batch. The time until it is there counts as waiting for data. A device may still
 * compute meanwhile: the host does not wait for it, or it would queue the next step too late. */
static int next_batch(struct gt_loop *l, const struct gt_batch **batch, struct gt_err *err)
{
	bool ready = gt_loader_ready(l->feeder.loader), reads = !l->t->o.workers;
	double began = gt_clock_s();
	int rc = gt_feeder_next(&l->feeder, batch, err);

	if (!ready || reads)
		l->data_s += gt_clock_s() - began;
	gt_profile_note(l->profile, GT_PROFILE_WAITING, began);
	return rc;
}

/* Return micro-batch `index` of the samples that the caller gave for the step. */
static struct gt_batch part_of_given(const struct gt_loop *l, int64_t index, int count)
{
	const struct gt_batch *all = &l->given;
	size_t first = (size_t)(index * l->t->sampler.batch);
	size_t targets = gt_dataset_info(l->t->data)->targets;

	if (!all->input)
		return (struct gt_batch){ .count = count };
	return (struct gt_batch){ .count = count,
		.input_bytes = all->input_bytes,
		.input = (char *)all->input + first * all->input_bytes,
		.target = all->target + first * targets };
}

/* Feed the epoch's micro-batch `number`, the step's `index`, to its program, *p. The number of its
 * samples follows from `number`, so a rank for which another one reads knows it, too. */
static int feed_micro_batch(
    struct gt_program **p, struct gt_loop *l, int64_t number, int64_t index, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int64_t left = gt_sampler_rank_samples(&t->sampler) - number * t->sampler.batch;
	const struct gt_batch unread =
	    part_of_given(l, index, (int)(left < t->sampler.batch ? left : t->sampler.batch));
	const struct gt_batch *batch = &unread;
	int rc = l->feeder.loader ? next_batch(l, &batch, err) : 1;

	if (rc <= 0)
		return rc ? rc : gt_err_set(err, GT_EINVAL, "the loader ended early");
	*p = gt_program_for(&t->steps, batch->count);
	if (!*p)
		return gt_err_set(err, GT_EINVAL, "no plan for a batch of %d", batch->count);
	gt_profile_feed(l->profile, *p, batch);
	rc = gt_feeder_feed(&l->feeder, *p, batch, err);
	gt_profile_fed(l->profile, *p);
	return rc;
}

/* Number the samples of this rank's model within the step, for random numbers. Samples are counted
 * over all ranks: ranks take turns, or rank 0 has dealt them out, first all of one rank, then all
 * of the next. */
static void count_samples(int64_t *rng, const struct gt_train *t, int64_t index, int samples)
{
	const struct gt_sampler *s = &t->sampler;
	int each = samples / s->virtual_ranks, first, rank = s->rank;

	gt_parallel_part(t->s.parallel, samples, &first, &samples);
	if (s->virtual_ranks > 1) {
		rank += first / each;
		first = 0;
	}
	rng[GT_RNG_SEED] = (int64_t)t->o.seed;
	rng[GT_RNG_STEP] = t->step;
	rng[GT_RNG_FIRST] = (index * s->batch / s->virtual_ranks + first) * s->world + rank;
	rng[GT_RNG_STRIDE] = s->world;
}

/* Forward and backward of the epoch's micro-batch `number`, the step's `index`; its share of the
 * step's mean loss is added to the result. */
static int run_micro_batch(struct gt_loop *l, int64_t number, int64_t index, unsigned runs,
    float weight, struct gt_err *err)
{
	int64_t rng[GT_RNG_FIELDS];
	struct gt_program *p = NULL;
	int rc = feed_micro_batch(&p, l, number, index, err);

	if (rc)
		return rc;
	count_samples(rng, l->t, index, p->batch);
	rc = gt_program_set(p, weight, rng, err);
	if (!rc)
		rc = gt_program_set_scale(p, gt_optim_scalars(l->t->optim), err);
	gt_profile_plan(l->profile, p->plan);
	if (!rc)
		rc = gt_plan_run_as(p->plan, runs, err);
	gt_profile_plan_done(l->profile, p->plan);
	if (!rc)
		gt_profile_background(l->profile);
	return rc ? rc : gt_program_add_loss(p, gt_optim_scalars(l->t->optim), err);
}

static int hint_diverged(const struct gt_train *t, struct gt_err *err)
{
	if (t->o.amp == GT_AMP_FP16)
		return gt_err_hint(err,
		    "float16 ends at 65504, {amp} bf16 does not; else a lower {lr} or a longer "
		    "{warmup}%s",
		    t->o.out ? "; checkpoints are as they were" : "");
	if (gt_train_world(t) > 1 && t->o.parallel.compress == GT_COMPRESS_FP16)
		return gt_err_hint(err,
		    "{compress} fp16 makes gradients above 65504 infinite, bf16 and none do not; else "
		    "a lower {lr} or a longer {warmup}; checkpoints are as they were");
	return gt_err_hint(err, "a lower {lr}, a longer {warmup} or {clip} 1 keeps it finite%s",
	    t->o.out ? "; checkpoints are as they were" : "");
}

int gt_loop_diverged(
    const struct gt_train *t, const char *what, double value, int64_t step, struct gt_err *err)
{
	gt_err_set(
	    err, GT_EDIVERGED, "%s is %g at step %lld", what, gt_text_real(value), (long long)step);
	return hint_diverged(t, err);
}

int gt_loop_check_finite(struct gt_loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	char text[GT_NONFINITE_SIZE];
	struct gt_nonfinite found;
	int rc = 0;

	if (l->checked_step == t->step)
		return 0;
	rc = gt_find_nonfinite(&found, t->s.store, t->s.group, err);
	if (rc)
		return rc;
	l->checked_step = t->step;
	if (!found.slot)
		return 0;
	gt_err_set(err, GT_EDIVERGED, "%s after step %lld", gt_nonfinite_text(text, &found),
	    (long long)t->step);
	return hint_diverged(t, err);
}

/* The loss is that of all ranks that read other samples. They stop together. */
static int agree_on_loss(struct gt_loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	int rc = gt_profile_phase(l->profile, "agree", err);

	if (!rc)
		rc = gt_parallel_sum_scalars(t->s.parallel, gt_optim_scalars(t->optim), err);
	return rc ? rc : gt_profile_phase_done(l->profile, err);
}

static int update_parameters(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int rc = gt_profile_phase(l->profile, GT_PROFILE_UPDATE, err);

	if (!rc)
		rc = gt_parallel_update(t->s.parallel, t->optim, err);
	if (!rc)
		rc = gt_average_update(t->s.store, &t->o.average, t->step, err);
	if (!rc)
		rc = gt_optim_end(t->optim, err);
	if (!rc)
		rc = gt_profile_phase_done(l->profile, err);
	if (!rc)
		gt_profile_background(l->profile);
	return rc;
}

static int zero_gradients(struct gt_loop *l, struct gt_err *err)
{
	int rc = gt_profile_phase(l->profile, GT_PROFILE_ZEROING, err);

	if (!rc)
		rc = gt_optim_zero_grad(l->t->optim, err);
	return rc ? rc : gt_profile_phase_done(l->profile, err);
}

static int share_buffers(struct gt_loop *l, struct gt_err *err)
{
	struct gt_parallel *parallel = l->t->s.parallel;
	bool shares = gt_parallel_shares_buffers(parallel);
	int rc = shares ? gt_profile_phase(l->profile, "share buffers", err) : 0;

	if (!rc)
		rc = gt_parallel_share_buffers(parallel, err);
	return rc || !shares ? rc : gt_profile_phase_done(l->profile, err);
}

static int check_replicas(struct gt_loop *l, struct gt_err *err)
{
	struct gt_parallel *parallel = l->t->s.parallel;
	int64_t step = l->t->step + 1;
	bool checks = gt_parallel_checks_replicas(parallel, step);
	int rc = checks ? gt_profile_phase(l->profile, "check replicas", err) : 0;

	if (!rc)
		rc = gt_parallel_check_replicas(parallel, step, err);
	return rc || !checks ? rc : gt_profile_phase_done(l->profile, err);
}

static bool reads_gradients(const struct gt_observer *o, int64_t step)
{
	return o->gradients && (!o->gradients_every || step % o->gradients_every == 0);
}

/* Return whether an observer reads the gradients of a step, which is then not queued ahead. */
static bool step_is_watched(const struct gt_loop *l, int64_t step)
{
	for (int i = 0; i < l->observer_count; i++)
		if (reads_gradients(&l->observers[i], step))
			return true;
	return false;
}

/* Between the backward passes of a step and its update: let observers read the gradients. */
static int show_gradients(struct gt_loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	int64_t step = t->step + 1;
	double loss;
	int rc;

	if (!step_is_watched(l, step))
		return 0;
	rc = gt_device_read(
	    t->s.device, &loss, &gt_optim_scalars(t->optim)->result.loss, sizeof(loss), err);
	if (!rc && !isfinite(loss))
		return gt_loop_diverged(t, "the loss", loss, step, err);
	for (int i = 0; !rc && i < l->observer_count; i++)
		if (reads_gradients(&l->observers[i], step))
			rc = l->observers[i].gradients(l->observers[i].self, step, err);
	return rc;
}

static bool is_scaled(const struct gt_train *t)
{
	return gt_optim_scaler(t->optim)->growth_interval;
}

static int check_result(
    struct gt_loop *l, const struct gt_step_result *r, int64_t step, struct gt_err *err)
{
	if (!isfinite(r->loss))
		return gt_loop_diverged(l->t, "the loss", r->loss, step, err);
	if (!r->diverged)
		return 0;
	if (!is_scaled(l->t))
		return gt_loop_diverged(
		    l->t, "the gradient's norm", (double)r->grad_norm, step, err);
	gt_err_set(err, GT_EDIVERGED, "the loss scale is %g at step %lld, and gradients overflow",
	    (double)r->scale, (long long)step);
	return hint_diverged(l->t, err);
}

static void enter_loop(struct gt_loop *l)
{
	l->outside_s += gt_clock_s() - l->left;
}

static void leave(struct gt_loop *l)
{
	l->left = gt_clock_s();
}

/* A step is done: note the time. */
static void note_end(const struct gt_loop *l, struct gt_step_report *r)
{
	r->train_s = gt_clock_s() - l->started - l->outside_s;
	r->data_s = l->data_s;
}

/* On a CPU a step is done when it is queued. A GPU does it later, while the host queues the next
 * one; the host learns of it from the result. */
static bool is_done_at_once(const struct gt_loop *l)
{
	return l->t->s.device->backend->host_memory;
}

/* The results of the oldest step that is still queued: report them. */
static int finish_step(struct gt_loop *l, struct gt_err *err)
{
	struct gt_step_report *r = &l->reports[l->finished % GT_OPTIM_AHEAD];
	struct gt_step_result result;
	int rc = gt_optim_result(l->t->optim, &result, err);

	if (rc)
		return rc;
	l->finished++;
	if (!is_done_at_once(l))
		note_end(l, r);
	l->train_s = r->train_s;
	l->stop = result.stop > 0;
	if (check_result(l, &result, r->step, err))
		return err->code;
	r->loss = result.loss;
	r->grad_norm = (double)result.grad_norm;
	r->skipped = result.skip;
	r->loss_scale = is_scaled(l->t) ? (double)result.scale : 0;
	r->time_s = gt_clock_s() - l->started;
	return GT_TELL(l, step, r, err);
}

static int finish_steps(struct gt_loop *l, int64_t left, struct gt_err *err)
{
	int rc = 0;

	while (!rc && l->queued - l->finished > left)
		rc = finish_step(l, err);
	return rc;
}

int gt_loop_finish(struct gt_loop *l, int64_t left, struct gt_err *err)
{
	int rc;

	enter_loop(l);
	rc = finish_steps(l, left, err);
	leave(l);
	return rc;
}

/* Set *weight to the factor of each target's loss in a step, from micro-batch `first` to `last` of
 * the epoch. As in PyTorch, class weights do not change the divisor where targets are mixtures. */
static int weigh_targets(float *weight, const struct gt_loop *l, int64_t epoch, int64_t first,
    int64_t last, int64_t targets, struct gt_err *err)
{
	struct gt_train *t = l->t;

	if (t->target_weights.order && !t->s.input.mixed)
		return gt_target_weights_step(
		    weight, &t->target_weights, t->data, &t->sampler, epoch, first, last, err);
	*weight = t->target_weights.order ? (float)(t->target_weights.mean / (double)targets)
	                                  : 1.0f / (float)targets;
	return 0;
}

/* Queue the micro-batches of a step, from `first` to `last` of the epoch. */
static int queue_micro_batches(
    struct gt_loop *l, int64_t first, int64_t last, float weight, struct gt_err *err)
{
	int rc = 0;

	for (int64_t i = first; !rc && i < last; i++) {
		unsigned runs = (i == first ? GT_RUN_FIRST : 0) | (i + 1 == last ? GT_RUN_LAST : 0);

		rc = run_micro_batch(l, i, i - first, runs, weight, err);
	}
	return rc;
}

/* Queue a step; its results come later. */
static int queue_step(struct gt_loop *l, struct gt_step_report *r, struct gt_err *err)
{
	struct gt_train *t = l->t;
	const struct gt_data_info *info = gt_dataset_info(t->data);
	int64_t first, last, targets;
	float weight = 0;
	int rc;

	r->samples =
	    step_samples(t, t->step, &first, &last) * t->sampler.world / t->sampler.virtual_ranks;
	targets = r->samples * (int64_t)info->targets;
	r->tokens = info->form.kind == GT_SAMPLE_TOKENS ? targets : 0;
	rc = gt_optim_begin(t->optim, r->lr, *l->stop_requested, err);
	if (!rc && t->steps.accumulates)
		rc = zero_gradients(l, err);
	if (!rc)
		rc = share_buffers(l, err);
	if (!rc)
		rc = weigh_targets(&weight, l, r->epoch, first, last, targets, err);
	if (!rc)
		rc = queue_micro_batches(l, first, last, weight, err);
	if (!rc)
		rc = agree_on_loss(l, err);
	if (!rc)
		rc = show_gradients(l, err);
	if (!rc)
		rc = update_parameters(l, err);
	return rc ? rc : check_replicas(l, err);
}

static int do_step(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_step_report *r = &l->reports[l->queued % GT_OPTIM_AHEAD];
	int rc;

	*r = (struct gt_step_report){ .step = t->step + 1,
		.epoch = gt_resume_position(t, t->step) / t->steps_per_epoch,
		.lr = gt_schedule_lr(&t->o.lr_schedule, t->step) };
	rc = gt_profile_step(l->profile, t->step - l->first_step, t->step + 1, err);
	if (!rc)
		rc = queue_step(l, r, err);
	if (rc)
		return rc;
	l->queued++;
	t->step++;
	if (is_done_at_once(l))
		note_end(l, r);
	rc = gt_profile_step_done(l->profile, err);
	return rc ? rc : finish_steps(l, step_is_watched(l, t->step) ? 0 : 1, err);
}

int gt_loop_step(struct gt_loop *l, struct gt_err *err)
{
	double began = gt_clock_s();
	int rc;

	enter_loop(l);
	rc = do_step(l, err);
	leave(l);
	gt_profile_time(l->profile, l->left - began);
	return rc;
}
