/* train.c - the training loop. */
#include "lib/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/train/about.h"
#include "lib/train/finite.h"
#include "lib/train/inside.h"
#include "lib/train/run_dir.h"
#include "lib/train/snapshot.h"

struct loop {
	struct gt_train *t;
	struct gt_feeder feeder;
	/* Steps that were queued, and steps whose results are known: the difference is a window of
	 * the reports, where the oldest is at finished % GT_OPTIM_AHEAD. */
	struct gt_step_report reports[GT_OPTIM_AHEAD];
	int64_t queued, finished;
	bool close; /* an observer looks at the gradients and weights of each step */
	const json_t *config;
	const struct gt_observer *observers;
	int observer_count, started_count;
	double started, train_s;
	struct gt_train_result *result;
	struct gt_profile *profile; /* NULL: none is asked for */
	int64_t first_step;
	int64_t saved_step, evaluated_step, checked_step; /* -1: none */
	struct gt_run_dir dir;                            /* of rank 0 */
	const atomic_bool *asked;                         /* to stop: this rank */
	bool stop;                                        /* as all ranks know */
};

/* ---- observers ---- */

#define TELL(loop, callback, ...)                                                                  \
	({                                                                                         \
		int rc_ = 0;                                                                       \
		for (int i_ = 0; !rc_ && i_ < (loop)->observer_count; i_++) {                      \
			const struct gt_observer *o_ = &(loop)->observers[i_];                     \
			if (o_->callback)                                                          \
				rc_ = o_->callback(o_->self, __VA_ARGS__);                         \
		}                                                                                  \
		rc_;                                                                               \
	})

static int start_observers(struct loop *l, const struct gt_start_report *r, struct gt_err *err)
{
	int rc = 0;

	for (; !rc && l->started_count < l->observer_count; l->started_count += !rc) {
		const struct gt_observer *o = &l->observers[l->started_count];

		rc = o->start ? o->start(o->self, r, err) : 0;
	}
	return rc;
}

/* Every one that started hears of the end; the first failure counts. */
static int end_observers(struct loop *l, int rc, struct gt_err *err)
{
	for (int i = 0; i < l->started_count; i++) {
		const struct gt_observer *o = &l->observers[i];
		struct gt_err late = GT_ERR_INIT;

		if (!o->end || !o->end(o->self, rc, &late) || rc)
			continue;
		rc = late.code;
		*err = late;
	}
	return rc;
}

/* ---- one step ---- */

/* The runs of a step: the last step of an epoch may have fewer. Returns how many samples they
 * take. */
static int64_t step_samples(const struct gt_train *t, int64_t step, int64_t *first, int64_t *last)
{
	int64_t rank_samples = gt_sampler_rank_samples(&t->sampler);
	int64_t end;

	*first = step % t->steps_per_epoch * t->runs;
	*last = *first + t->runs;
	if (*last > t->batches_per_epoch)
		*last = t->batches_per_epoch;
	end = *last * t->sampler.batch;
	return (end < rank_samples ? end : rank_samples) - *first * t->sampler.batch;
}

/* The program of the epoch's micro-batch `number`, fed. Where another rank reads for this one, how
 * many samples come is known all the same. */
static int feed_micro_batch(
    struct gt_program **p, struct loop *l, int64_t number, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int64_t left = gt_sampler_rank_samples(&t->sampler) - number * t->sampler.batch;
	struct gt_batch unread = { .count =
		                       (int)(left < t->sampler.batch ? left : t->sampler.batch) };
	const struct gt_batch *batch = &unread;
	double began = gt_clock_s();
	int rc = l->feeder.loader ? gt_feeder_next(&l->feeder, &batch, err) : 1;

	gt_profile_note(l->profile, "wait for data", began);
	if (rc <= 0)
		return rc ? rc : gt_err_set(err, GT_EINVAL, "the loader ended early");
	*p = gt_program_for(&t->steps, batch->count);
	if (!*p)
		return gt_err_set(err, GT_EINVAL, "no plan for a batch of %d", batch->count);
	return gt_feeder_feed(&l->feeder, *p, batch, err);
}

/* Where in the step the samples are that this rank's model sees. They are counted over all ranks,
 * who take turns, or as rank 0 has dealt them out: a batch for several ranks has those of one after
 * those of the other. */
static void count_samples(int64_t *rng, const struct gt_train *t, int64_t index, int samples)
{
	const struct gt_sampler *s = &t->sampler;
	int each = samples / s->hosted, first = 0, rank = s->rank;

	if (t->parallel)
		gt_parallel_part(t->parallel, samples, &first, &samples);
	if (s->hosted > 1) {
		rank += first / each;
		first = 0;
	}
	rng[GT_RNG_SEED] = (int64_t)t->o.seed;
	rng[GT_RNG_STEP] = t->step;
	rng[GT_RNG_FIRST] = (index * s->batch / s->hosted + first) * s->world + rank;
	rng[GT_RNG_STRIDE] = s->world;
}

/* Forward and backward of the epoch's micro-batch `number`, the step's `index`; its share of the
 * step's mean loss is added to the result. */
static int run_micro_batch(
    struct loop *l, int64_t number, int64_t index, float weight, struct gt_err *err)
{
	int64_t rng[GT_RNG_FIELDS];
	struct gt_program *p = NULL;
	int rc = feed_micro_batch(&p, l, number, err);

	if (rc)
		return rc;
	count_samples(rng, l->t, index, p->batch);
	rc = gt_program_set(p, weight, rng, err);
	gt_profile_plan(l->profile, p->plan);
	if (!rc)
		rc = gt_plan_run(p->plan, err);
	gt_profile_plan_done(l->profile, p->plan);
	if (!rc)
		gt_profile_background(l->profile, l->t->parallel);
	return rc ? rc : gt_program_add_loss(p, gt_optim_scalars(l->t->optim), err);
}

static int hint_diverged(const struct gt_train *t, struct gt_err *err)
{
	if (t->parallel && t->o.parallel.compress == GT_COMPRESS_FP16)
		return gt_err_hint(err,
		    "--compress fp16 makes gradients above 65504 infinite, bf16 and none do not; else "
		    "a lower --lr or a longer --warmup; checkpoints are as they were");
	return gt_err_hint(err, "a lower --lr, a longer --warmup or --clip 1 keeps it finite%s",
	    t->o.out ? "; checkpoints are as they were" : "");
}

static int diverged(
    const struct gt_train *t, const char *what, double value, int64_t step, struct gt_err *err)
{
	gt_err_set(
	    err, GT_EDIVERGED, "%s is %g at step %lld", what, gt_text_real(value), (long long)step);
	return hint_diverged(t, err);
}

/* Refuse to evaluate or save a model that is not finite: the loss is computed before the update, so
 * that of the last step knows nothing of it. A collective call. */
static int check_finite(struct loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	char text[GT_NONFINITE_SIZE];
	struct gt_nonfinite found;
	int rc = 0;

	if (l->checked_step == t->step)
		return 0;
	rc = gt_find_nonfinite(&found, t->store, t->optim, t->o.group, err);
	if (rc)
		return rc;
	l->checked_step = t->step;
	if (!found.slot)
		return 0;
	gt_err_set(err, GT_EDIVERGED, "%s after step %lld", gt_nonfinite_text(text, &found),
	    (long long)t->step);
	return hint_diverged(t, err);
}

/* The loss is that of all ranks that read other samples: zero on stages that don't make it, and the
 * same on those that share layers. They stop together. */
static int agree(struct loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	double *both = &gt_optim_scalars(t->optim)->result.loss; /* and stop, on the device */
	struct gt_group *group = t->o.group, *sums = gt_train_sum_group(t);
	bool apart = sums != group;
	double began = gt_clock_s();
	int rc = apart ? gt_all_reduce(sums, both, 1, GT_F64, GT_SUM, err) : 0;

	if (!rc && group)
		rc = gt_all_reduce(group, both + apart, 2 - apart, GT_F64, GT_SUM, err);
	gt_profile_note(l->profile, "agree", began);
	return rc;
}

static int update(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	double began = gt_clock_s();
	int rc = t->parallel ? gt_parallel_update(t->parallel, t->optim, err)
	                     : gt_optim_update(t->optim, NULL, NULL, err);

	if (!rc)
		rc = gt_optim_end(t->optim, err);
	gt_profile_note(l->profile, "optimizer", began);
	if (!rc)
		gt_profile_background(l->profile, t->parallel);
	return rc;
}

static int share_buffers(struct loop *l, struct gt_err *err)
{
	double began = gt_clock_s();
	int rc = gt_parallel_share_buffers(l->t->parallel, err);

	if (gt_parallel_shares_buffers(l->t->parallel))
		gt_profile_note(l->profile, "share buffers", began);
	return rc;
}

static int check_replicas(struct loop *l, struct gt_err *err)
{
	int64_t step = l->t->step + 1;
	double began = gt_clock_s();
	int rc = gt_parallel_check_replicas(l->t->parallel, step, err);

	if (gt_parallel_checks_replicas(l->t->parallel, step))
		gt_profile_note(l->profile, "check replicas", began);
	return rc;
}

/* Gradients are there, and all else of the step before its update. */
static int show_gradients(struct loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	double loss;
	int rc;

	if (!l->close)
		return 0;
	rc = gt_device_read(
	    t->device, &loss, &gt_optim_scalars(t->optim)->result.loss, sizeof(loss), err);
	if (!rc && !isfinite(loss))
		return diverged(t, "the loss", loss, t->step + 1, err);
	return rc ? rc : TELL(l, gradients, t->step + 1, err);
}

/* The results of the oldest step that is still queued: report them. */
static int finish_step(struct loop *l, struct gt_err *err)
{
	struct gt_step_report *r = &l->reports[l->finished % GT_OPTIM_AHEAD];
	struct gt_step_result result;
	int rc = gt_optim_result(l->t->optim, &result, err);

	if (rc)
		return rc;
	l->finished++;
	l->stop = result.stop > 0;
	if (!isfinite(result.loss))
		return diverged(l->t, "the loss", result.loss, r->step, err);
	if (!isfinite(result.grad_norm))
		return diverged(
		    l->t, "the gradient's norm", (double)result.grad_norm, r->step, err);
	r->loss = result.loss;
	r->grad_norm = (double)result.grad_norm;
	r->train_s = l->train_s;
	r->time_s = gt_clock_s() - l->started;
	return TELL(l, step, r, err);
}

/* Wait for the results of all but the last `left` steps. */
static int finish_steps(struct loop *l, int64_t left, struct gt_err *err)
{
	int rc = 0;

	while (!rc && l->queued - l->finished > left)
		rc = finish_step(l, err);
	return rc;
}

/* Queue the micro-batches of a step, from `first` to `last` of the epoch. */
static int queue_micro_batches(
    struct loop *l, int64_t first, int64_t last, int64_t targets, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int rc = 0;

	for (int64_t i = first; !rc && i < last; i++) {
		if (t->parallel)
			gt_parallel_communicate(t->parallel, i + 1 == last);
		rc = run_micro_batch(l, i, i - first, 1.0f / (float)targets, err);
	}
	return rc;
}

/* Queue a step; its results come later. */
static int queue_step(struct loop *l, struct gt_step_report *r, struct gt_err *err)
{
	struct gt_train *t = l->t;
	const struct gt_data_info *info = gt_dataset_info(t->data);
	int64_t first, last, targets;
	int rc;

	r->samples = step_samples(t, t->step, &first, &last) * t->sampler.world / t->sampler.hosted;
	targets = r->samples * (int64_t)info->targets;
	r->tokens = info->kind == GT_DATA_TOKENS ? targets : 0;
	rc = gt_optim_begin(t->optim, r->lr, *l->asked, err);
	if (!rc && gt_train_adds_up(t))
		rc = gt_optim_zero_grad(t->optim, err);
	if (!rc && t->parallel)
		rc = share_buffers(l, err);
	if (!rc)
		rc = queue_micro_batches(l, first, last, targets, err);
	if (!rc)
		rc = agree(l, err);
	if (!rc)
		rc = show_gradients(l, err);
	if (!rc)
		rc = update(l, err);
	return !rc && t->parallel ? check_replicas(l, err) : rc;
}

/* The host is a step ahead of the results that it reads, so that the device need not wait. */
static int take_step(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_step_report *r = &l->reports[l->queued % GT_OPTIM_AHEAD];
	double began = gt_clock_s();
	int rc;

	*r = (struct gt_step_report){ .step = t->step + 1,
		.epoch = t->step / t->steps_per_epoch,
		.lr = gt_schedule_lr(&t->o.schedule, t->step) };
	gt_profile_step(l->profile, t->step - l->first_step, t->step + 1);
	rc = queue_step(l, r, err);
	if (rc)
		return rc;
	l->queued++;
	t->step++;
	l->train_s += gt_clock_s() - began;
	rc = gt_profile_step_done(
	    l->profile, t->o.out, gt_train_rank(t), t->log, &l->result->profile, err);
	return rc ? rc : finish_steps(l, l->close ? 0 : 1, err);
}

/* ---- evaluation and saving ---- */

/* Images and vectors are judged by their right answers, text by its loss. */
static double score_of(const struct gt_train *t, const struct gt_metrics *m)
{
	return t->input.kind == GT_MODEL_TOKENS ? -m->loss : m->top1;
}

static bool writes_files(const struct loop *l)
{
	return l->dir.folder.path != NULL;
}

/* Rank 0 writes; the others hand it what it lacks. */
static int save_weights(const struct loop *l, const char *name, struct gt_err *err)
{
	struct gt_file_name file = { .folder = &l->dir.folder };
	const struct gt_train *t = l->t;
	char *path;
	int rc;

	if (!t->o.out)
		return 0;
	path = writes_files(l) ? gt_folder_path(file.folder, name, err) : NULL;
	file.path = path;
	rc = path || !writes_files(l)
	         ? gt_snapshot_save_model(t->store, t->parallel, t->model, file, err)
	         : GT_ENOMEM;
	free(path);
	return rc;
}

static int evaluate(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_metrics *m = &l->result->last;
	struct gt_eval_report r = { .step = t->step, .metrics = m };
	const struct gt_eval_ranks ranks = { gt_train_data_rank(t), gt_train_data_world(t),
		gt_train_sum_group(t), gt_train_hosted(t) };
	int rc = check_finite(l, err);

	if (!rc && t->parallel)
		rc = gt_parallel_refresh(t->parallel, err);
	if (!rc && t->parallel)
		rc = gt_parallel_share_buffers(t->parallel, err);
	if (!rc)
		rc = gt_evaluate(
		    &t->evals, t->val, t->batch / gt_train_hosted(t), t->o.workers, &ranks, m, err);
	if (rc)
		return rc;
	l->evaluated_step = t->step;
	l->result->evaluated = true;
	if (!isfinite(m->loss))
		return diverged(t, "the validation loss", m->loss, t->step, err);
	if (score_of(t, m) > t->best_score) {
		t->best_score = score_of(t, m);
		t->best_step = t->step;
		r.best = true;
		rc = save_weights(l, "best.pth", err);
	}
	r.time_s = gt_clock_s() - l->started;
	return rc ? rc : TELL(l, evaluated, &r, err);
}

static int save(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_snapshot s = {
		.store = t->store,
		.model = t->model,
		.optim = t->optim,
		.parallel = t->parallel,
		.lr = gt_schedule_lr(&t->o.schedule, t->step ? t->step - 1 : 0),
		.step = t->step,
		.epoch = t->step / t->steps_per_epoch,
		.best_step = t->best_step,
		.best_score = t->best_score,
		.config = l->config,
	};
	struct gt_file_name file = { .folder = &l->dir.checkpoints };
	char *path;
	int rc = check_finite(l, err);

	if (rc)
		return rc;
	l->saved_step = t->step;
	if (!t->o.out)
		return 0;
	path = writes_files(l) ? gt_run_dir_checkpoint(&l->dir, t->step, err) : NULL;
	file.path = path;
	rc = path || !writes_files(l) ? gt_snapshot_save(&s, file, err) : GT_ENOMEM;
	if (!rc && writes_files(l))
		rc = gt_run_dir_prune(&l->dir, t->o.keep, err);
	if (!rc && writes_files(l))
		rc = TELL(l, saved, t->step, path, err);
	free(path);
	return rc;
}

static bool eval_is_due(const struct gt_train *t)
{
	int64_t every = t->o.eval_every ? t->o.eval_every : t->steps_per_epoch;

	return t->val && (t->step % every == 0 || t->step == t->o.schedule.total);
}

static bool save_is_due(const struct gt_train *t)
{
	return t->o.save_every && t->step % t->o.save_every == 0;
}

/* ---- the loop ---- */

static int train_to_the_end(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int rc = 0;

	/* One rank need not agree with anybody. */
	while (!rc && t->step < t->o.schedule.total && !l->stop && (t->o.group || !*l->asked)) {
		rc = take_step(l, err);
		if (!rc && (eval_is_due(t) || save_is_due(t)))
			rc = finish_steps(l, 0, err);
		if (!rc && eval_is_due(t))
			rc = evaluate(l, err);
		if (!rc && save_is_due(t))
			rc = save(l, err);
	}
	if (!rc)
		rc = finish_steps(l, 0, err);
	if (rc)
		return rc;
	/* A run resumed at its end still owes what a kill may have taken. */
	if (t->step == t->o.schedule.total && t->val && l->evaluated_step != t->step)
		rc = evaluate(l, err);
	if (!rc && l->saved_step != t->step)
		rc = save(l, err);
	return rc ? rc : save_weights(l, "model.pth", err);
}

enum { NOTES_PER_BATCH = 1, NOTES_PER_STEP = 5 };

/* Of a step as large as they come. */
static int open_profile(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	const struct gt_program_pair *pair = &t->steps;
	size_t most = 0, count;

	if (!t->o.profile.active)
		return 0;
	for (int i = 0; i < 2; i++) {
		const struct gt_program *p = i ? &pair->tail : &pair->full;

		if (p->plan && gt_plan_steps(p->plan, &count) && count > most)
			most = count;
	}
	count = 0;
	/* An event is of runs, and then once in each, or of the update. */
	if (t->parallel)
		gt_parallel_events(t->parallel, &count);
	return gt_profile_new(&l->profile, &t->o.profile,
	    (size_t)t->runs * (most + count + NOTES_PER_BATCH) + NOTES_PER_STEP, err);
}

static int open_loader(struct loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_loader_options options = {
		.sampler = t->sampler,
		.draw = { .train = true, .seed = t->o.seed, .augment = t->o.augment },
		.workers = t->o.workers,
		.prefetch = t->o.prefetch,
		.first_epoch = t->step / t->steps_per_epoch,
		.first_step = t->step % t->steps_per_epoch * t->runs,
	};

	/* Somebody else reads. */
	if (gt_train_rank(t) && gt_parallel_reads_on_one(t->o.parallel.kind))
		return 0;
	return gt_feeder_open(&l->feeder, t->device, t->data, &options, err);
}

/* Checkpoints of a run that went further would be taken for this one's: by pruning, and when it
 * is resumed. */
static int check_unused(const struct gt_run_dir *dir, int64_t step, struct gt_err *err)
{
	int64_t latest;
	int rc = gt_run_dir_latest_step(&latest, dir, err);

	if (rc || latest <= step)
		return rc;
	gt_err_set(err, GT_EINVAL, "'%s' holds a run that is at step %lld already",
	    dir->folder.path, (long long)latest);
	return gt_err_hint(err, "--resume auto goes on with it; another --out begins anew");
}

int gt_train_check_out(const struct gt_train_options *o, struct gt_err *err)
{
	struct gt_run_dir dir;
	int rc = o->out ? gt_run_dir_check(o->out, err) : 0;

	if (rc || !o->out || o->resume || access(o->out, F_OK))
		return rc;
	rc = gt_run_dir_open(&dir, o->out, err);
	if (!rc)
		rc = check_unused(&dir, 0, err);
	gt_run_dir_close(&dir);
	return rc;
}

/* The files that make the directory a run, before the first step: a resumed run finds them. */
static int begin_run_dir(struct loop *l, struct gt_err *err)
{
	struct gt_file_name file = { .folder = &l->dir.folder };
	const struct gt_train *t = l->t;
	json_t *config;
	char *vocab;
	int rc;

	if (!t->o.out || gt_train_rank(t))
		return 0;
	config = gt_about_add(l->config, t->data, err);
	if (!config)
		return GT_ENOMEM;
	rc = gt_run_dir_create(&l->dir, t->o.out, err);
	if (!rc)
		rc = check_unused(&l->dir, t->step, err);
	if (!rc)
		rc = gt_run_dir_write_config(&l->dir, config, err);
	json_decref(config);
	if (rc || t->input.kind != GT_MODEL_TOKENS)
		return rc;
	vocab = gt_folder_path(&l->dir.folder, "vocab.json", err);
	file.path = vocab;
	rc = vocab ? gt_dataset_save_vocab(t->data, file, err) : GT_ENOMEM;
	free(vocab);
	return rc;
}

int gt_train_run(struct gt_train *t, const json_t *config, const struct gt_observer *observers,
    int observer_count, const atomic_bool *stop, struct gt_train_result *result, struct gt_err *err)
{
	struct loop l = { .t = t,
		.config = config,
		.observers = observers,
		.observer_count = observer_count,
		.started = gt_clock_s(),
		.result = result,
		.saved_step = -1,
		.evaluated_step = -1,
		.checked_step = -1,
		.asked = stop,
		.first_step = t->step };
	const struct gt_start_report start = { .dir = &l.dir.folder,
		.step = t->step,
		.total = t->o.schedule.total,
		.tokens = t->input.kind == GT_MODEL_TOKENS };
	int rc;

	*result = (struct gt_train_result){ .best_step = -1 };
	rc = open_loader(&l, err); /* which may refuse options: before anything is written */
	if (!rc)
		rc = begin_run_dir(&l, err);
	if (!rc)
		rc = open_profile(&l, err);
	for (int i = 0; i < observer_count; i++)
		l.close = l.close || observers[i].gradients;
	if (!rc)
		rc = start_observers(&l, &start, err);
	if (!rc)
		rc = train_to_the_end(&l, err);
	if (!rc)
		rc = gt_profile_end(
		    l.profile, t->o.out, gt_train_rank(t), t->log, &result->profile, err);
	rc = end_observers(&l, rc, err);
	gt_feeder_close(&l.feeder);
	gt_profile_free(l.profile);
	gt_run_dir_close(&l.dir);
	result->step = t->step;
	result->total = t->o.schedule.total;
	result->stopped = !rc && t->step < t->o.schedule.total;
	result->best_step = t->best_step;
	result->train_s = l.train_s;
	return rc;
}
