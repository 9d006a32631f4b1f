/* train.c - the training loop. */
#include "lib/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/ckpt/onnx/onnx.h"
#include "lib/optim/average.h"
#include "lib/train/checkpoint/saver.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/loop.h"
#include "lib/train/reference.h"
#include "lib/train/report/limits.h"
#include "lib/train/run/about.h"
#include "lib/train/run/resume.h"
#include "lib/train/run/run_dir.h"

/* ---- observers ---- */

static int start_observers(struct gt_loop *l, const struct gt_start_report *r, struct gt_err *err)
{
	int rc = 0;

	for (; !rc && l->started_count < l->observer_count; l->started_count += !rc) {
		const struct gt_observer *o = &l->observers[l->started_count];

		rc = o->start ? o->start(o->self, r, err) : 0;
	}
	return rc;
}

/* Every one that started hears of the end; the first failure counts. */
static int end_observers(struct gt_loop *l, int rc, struct gt_err *err)
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

/* ---- evaluation and saving ---- */

/* Classes are judged by the right answers; text, numbers, labels and a network's own loss by the
 * loss. */
static bool judges_by_loss(const struct gt_train *t)
{
	return t->s.input.form.kind == GT_SAMPLE_TOKENS ||
	       t->s.input.form.target != GT_SAMPLE_CLASS || t->s.input.loss.output;
}

static double score_of(const struct gt_train *t, const struct gt_metrics *m)
{
	return judges_by_loss(t) ? -m->loss : m->top1;
}

/* Whether an evaluation is better than all before. Few samples often have equally many right
 * answers; then the loss decides. */
static bool is_best(const struct gt_train *t, const struct gt_metrics *m)
{
	double score = score_of(t, m);

	return score > t->best_score || (score == t->best_score && m->loss < t->best_loss);
}

static bool writes_files(const struct gt_loop *l)
{
	return l->dir.folder.path != NULL;
}

/* Rank 0 writes; the others hand it the elements that it lacks. */
static int save_weights(const struct gt_loop *l, const char *name, struct gt_err *err)
{
	struct gt_file_name file = { .folder = &l->dir.folder };
	const struct gt_train *t = l->t;
	const struct gt_snapshot s = { .store = t->s.store,
		.model = t->s.model,
		.parallel = t->s.parallel,
		.no_base = t->base != NULL,
		.about = l->about };
	char *path;
	int rc;

	if (!t->o.out)
		return 0;
	path = writes_files(l) ? gt_folder_path(file.folder, name, err) : NULL;
	file.path = path;
	rc = path || !writes_files(l) ? gt_snapshot_save_model(&s, file, err) : GT_ENOMEM;
	free(path);
	return rc;
}

/* Write the adapters, if the run trains some, as the folder adapter/. */
static int save_adapter(const struct gt_loop *l, struct gt_err *err)
{
	struct gt_file_name folder = { .folder = &l->dir.folder };
	const struct gt_train *t = l->t;
	const struct gt_snapshot s = {
		.store = t->s.store, .model = t->s.model, .parallel = t->s.parallel
	};
	char *path;
	int rc;

	if (!t->o.out || !t->o.lora)
		return 0;
	path = writes_files(l) ? gt_folder_path(folder.folder, "adapter", err) : NULL;
	folder.path = path;
	rc = path || !writes_files(l) ? gt_adapter_save(&s, t->base, folder, err) : GT_ENOMEM;
	free(path);
	return rc;
}

int gt_loop_swap_average(
    const struct gt_train *t, const struct gt_average *average, struct gt_err *err)
{
	int rc = average ? gt_average_swap(t->s.store, average, err) : 0;

	return rc || !average ? rc : gt_parallel_publish(t->s.parallel, err);
}

int gt_loop_evaluate(struct gt_train *t, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err)
{
	int rc = gt_parallel_refresh(t->s.parallel, err);

	if (!rc)
		rc = gt_parallel_share_buffers(t->s.parallel, err);
	return rc ? rc : gt_evaluate(&t->s, &t->evals, data, options, out, each, err);
}

/* The answers of a model in an evaluation, for observers; zeroed: there are none. */
struct answers {
	struct gt_predictions each;
	struct gt_buf text;
	size_t prompt_bytes;
};

/* Rank 0 writes a text, if the options ask for one and it can. */
static int write_text(const struct gt_loop *l, struct answers *a, struct gt_err *err)
{
	struct gt_train *t = l->t;

	if (gt_train_rank(t) || !t->sample_text.prompt_count)
		return 0;
	return gt_sample_text_write(
	    &a->text, &a->prompt_bytes, &t->sample_text, t->data, t->o.seed, err);
}

/* Evaluate the average of the weights, if one is kept, or the weights. best.pth has the same. The
 * caller releases the answers. */
static int evaluate_to(struct gt_loop *l, struct answers *a, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_metrics *m = &l->result->last;
	const struct gt_average *average = gt_average_kept(&t->o.average);
	const struct gt_evaluate_options evaluation = gt_train_evaluation(t);
	struct gt_eval_report r = { .step = t->step, .metrics = m, .average = average };
	int rc = gt_loop_check_finite(l, err);

	if (!rc)
		rc = gt_loop_swap_average(t, average, err);
	if (!rc)
		rc = gt_loop_evaluate(t, t->val, &evaluation, m, &a->each, err);
	if (rc)
		return rc;
	l->result->evaluated = true;
	if (!isfinite(m->loss))
		return gt_loop_diverged(t, "the validation loss", m->loss, t->step, err);
	if (is_best(t, m)) {
		t->best_score = score_of(t, m);
		t->best_loss = m->loss;
		t->best_step = t->step;
		t->evaluations_since_best = 0;
		r.best = true;
		rc = save_weights(l, "best.pth", err);
		if (!rc)
			rc = save_adapter(l, err);
	} else if (t->evaluated_step != t->step) { /* a run resumed at its end evaluates again */
		t->evaluations_since_best++;
	}
	t->evaluated_step = t->step;
	if (!rc)
		rc = write_text(l, a, err);
	if (!rc)
		rc = gt_loop_swap_average(t, average, err);
	r.predictions = a->each.count ? &a->each : NULL;
	r.text = a->text.text;
	r.text_bytes = a->text.length;
	r.prompt_bytes = a->prompt_bytes;
	r.time_s = gt_clock_s() - l->started;
	return rc ? rc : GT_TELL(l, evaluated, &r, err);
}

static int evaluate(struct gt_loop *l, struct gt_err *err)
{
	struct answers a = { 0 };
	int rc = evaluate_to(l, &a, err);

	gt_predictions_release(&a.each);
	gt_buf_release(&a.text);
	return rc;
}

/* Epochs that are done at this step. */
static int64_t epoch_of(const struct gt_train *t, int64_t step)
{
	return gt_resume_position(t, step) / t->steps_per_epoch;
}

/* Epochs of the whole run, of which the last one may be cut short. */
static int64_t epochs_of(const struct gt_train *t)
{
	int64_t steps = gt_resume_position(t, t->o.lr_schedule.total), each = t->steps_per_epoch;

	return steps / each + (steps % each != 0);
}

/* Samples of the epoch at hand that were read. */
static int64_t read_in_epoch(const struct gt_train *t)
{
	return gt_resume_position(t, t->step) % t->steps_per_epoch * t->o.batch * t->o.accumulate *
	       gt_session_data_world(&t->s);
}

int64_t gt_train_data_samples(const struct gt_train *t)
{
	return gt_dataset_info(t->whole ? t->whole : t->data)->samples;
}

struct gt_snapshot gt_loop_snapshot(const struct gt_loop *l)
{
	const struct gt_train *t = l->t;

	return (struct gt_snapshot){
		.store = t->s.store,
		.model = t->s.model,
		.optim = t->optim,
		.parallel = t->s.parallel,
		.lr = gt_schedule_lr(&t->o.lr_schedule, t->step ? t->step - 1 : 0),
		.step = t->step,
		.epoch = epoch_of(t, t->step),
		.samples = read_in_epoch(t),
		.data_samples = gt_train_data_samples(t),
		.best_step = t->best_step,
		.best_score = t->best_score,
		.best_loss = t->best_loss,
		.evaluations_since_best = t->evaluations_since_best,
		.evaluated_step = t->evaluated_step,
		.own_decay = t->own_decay,
		.no_base = t->base != NULL,
		.config = l->config,
		.about = l->about,
	};
}

/* Tell the observers of a checkpoint that is complete. */
static int tell_saved(struct gt_loop *l, struct gt_err *err)
{
	int64_t step;
	char *path = gt_saver_take(l->saver, &step);
	int rc = path ? GT_TELL(l, saved, step, path, err) : 0;

	free(path);
	return rc;
}

/* Go on with a save in the background; with `wait`, wait for its end. */
static int poll_save(struct gt_loop *l, bool wait, struct gt_err *err)
{
	int rc = gt_saver_poll(l->saver, wait, err);

	return rc ? rc : tell_saved(l, err);
}

static int save(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	const struct gt_snapshot s = gt_loop_snapshot(l);
	int rc = gt_loop_check_finite(l, err);

	if (rc)
		return rc;
	l->saved_step = t->step;
	if (!l->saver)
		return 0;
	rc = poll_save(l, true, err);
	if (!rc)
		rc = gt_saver_save(l->saver, &s, err);
	return rc ? rc : tell_saved(l, err);
}

static bool eval_is_due(const struct gt_train *t)
{
	bool turn = t->o.eval_every ? t->step % t->o.eval_every == 0
	                            : gt_resume_position(t, t->step) % t->steps_per_epoch == 0;

	return t->val && (turn || t->step == t->o.lr_schedule.total);
}

/* Whether the last evaluations brought nothing better. */
static bool patience_is_over(const struct gt_train *t)
{
	return t->o.patience && t->evaluations_since_best >= t->o.patience;
}

bool gt_train_is_over(const struct gt_train *t)
{
	return t->step >= t->o.lr_schedule.total || patience_is_over(t);
}

static bool save_is_due(const struct gt_train *t)
{
	return t->o.save_every && t->step % t->o.save_every == 0;
}

/* ---- the loop ---- */

/* The files that a run ends with. */
static int save_results(struct gt_loop *l, struct gt_err *err)
{
	const struct gt_average *average = gt_average_kept(&l->t->o.average);
	int rc = save_weights(l, "model.pth", err);

	/* With evaluations, the folder has the adapters of the best one. */
	if (!rc && !average && !l->t->val)
		rc = save_adapter(l, err);
	if (rc || !average)
		return rc;
	rc = gt_loop_swap_average(l->t, average, err);
	if (!rc)
		rc = save_weights(l, average->file, err);
	if (!rc && !l->t->val)
		rc = save_adapter(l, err);
	return rc ? rc : gt_loop_swap_average(l->t, average, err);
}

static void name_damage(struct gt_train *t)
{
	for (int i = 0; i < 2; i++)
		gt_damage_log_names(&t->damage[i]);
}

static int count_damage(struct gt_train *t, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < 2; i++) {
		rc = gt_damage_log_gather(&t->damage[i], t->s.group, err);
		if (!rc)
			gt_damage_log_count(&t->damage[i]);
	}
	return rc;
}

static int train_to_the_end(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	int rc = 0;

	/* A single rank has no others to agree with. */
	while (!rc && !gt_train_is_over(t) && !l->stop &&
	       (gt_train_world(t) > 1 || !*l->stop_requested)) {
		rc = gt_loop_step(l, err);
		if (!rc)
			rc = poll_save(l, false, err);
		if (!rc && (eval_is_due(t) || save_is_due(t)))
			rc = gt_loop_finish(l, 0, err);
		if (!rc && eval_is_due(t))
			rc = evaluate(l, err);
		if (!rc && save_is_due(t))
			rc = save(l, err);
		name_damage(t);
	}
	if (!rc)
		rc = gt_loop_finish(l, 0, err);
	if (rc)
		return rc;
	/* A run resumed at its end writes files that a kill may have prevented. */
	if (t->step == t->o.lr_schedule.total && t->val && t->step == l->first_step)
		rc = evaluate(l, err);
	if (!rc && l->saved_step != t->step)
		rc = save(l, err);
	if (!rc)
		rc = poll_save(l, true, err);
	return rc ? rc : save_results(l, err);
}

struct gt_loader_options gt_train_loader_options(const struct gt_train *t)
{
	return (struct gt_loader_options){
		.sampler = t->sampler,
		.draw = { .train = true, .seed = t->o.seed, .augment = t->augment },
		.workers = t->o.workers,
		.prefetch = t->o.prefetch,
	};
}

int gt_loop_open_loader(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	struct gt_loader_options options = gt_train_loader_options(t);

	options.first_epoch = gt_resume_position(t, t->step) / t->steps_per_epoch;
	options.first_step = gt_resume_position(t, t->step) % t->steps_per_epoch * t->runs;
	if (!t->reads)
		return 0;
	return gt_feeder_open(&l->feeder, t->s.device, t->data, &options, t->o.pageable, err);
}

static int open_saver(struct gt_loop *l, struct gt_err *err)
{
	struct gt_train *t = l->t;
	const struct gt_saver_options options = {
		.sharded = t->o.save_sharded,
		.async = t->o.save_async,
		.store = t->s.store,
		.parallel = t->s.parallel,
		.group = t->s.group,
		.out = t->o.out,
		.dir = &l->dir,
		.keep = t->o.keep,
	};

	return t->o.out ? gt_saver_open(&l->saver, &options, err) : 0;
}

/* Training has ended. Where all ranks have found that it diverged, a save in the background is
 * completed, too. */
static void close_saver(struct gt_loop *l, int rc)
{
	if (rc == GT_EDIVERGED)
		(void)poll_save(l, true, GT_ERR_IGNORED);
	gt_saver_close(l->saver);
}

static int copy_network(struct gt_file_name to, const char *path, struct gt_err *err)
{
	struct gt_atomic_file file;
	struct gt_mapping map;
	int rc;

	if (!strcmp(gt_run_network_name(path), GT_RUN_ONNX))
		return gt_onnx_copy(to, path, err);
	rc = gt_map_at(&map, (struct gt_file_name){ .path = path }, err);

	if (!rc)
		rc = gt_atomic_open_at(&file, to, err);
	if (!rc) {
		rc = gt_copy_range(fileno(file.stream), 0, map.fd, 0, map.size, true, err);
		if (rc)
			gt_atomic_abandon(&file);
		else
			rc = gt_atomic_commit(&file, err);
	}
	gt_unmap(&map);
	return rc;
}

/* Put a copy of an exported network into the run directory, unless it is there. */
static int keep_network(const struct gt_loop *l, struct gt_err *err)
{
	const struct gt_train *t = l->t;
	struct gt_file_name file = { .folder = &l->dir.folder };
	char *path;
	int rc = 0;

	if (!t->network || gt_run_dir_owns(&l->dir, t->network))
		return 0;
	path = gt_folder_path(&l->dir.folder, gt_run_network_name(t->network), err);
	if (!path)
		return GT_ENOMEM;
	file.path = path;
	if (!t->resumes || !gt_file_exists(file))
		rc = copy_network(file, t->network, err);
	free(path);
	return rc;
}

char *gt_loop_about(
    const struct gt_train *t, const struct gt_data_description *data, struct gt_err *err)
{
	const struct gt_about_run run = {
		.model = t->o.model, .loss = t->o.loss, .lora = t->o.lora, .base = t->base
	};

	return gt_about_text(&run, data, err);
}

/* The files that make the directory a run, before the first step: a resumed run finds them. */
static int begin_run_dir(struct gt_loop *l, struct gt_err *err)
{
	struct gt_file_name file = { .folder = &l->dir.folder };
	const struct gt_train *t = l->t;
	struct gt_data_description data;
	json_t *config;
	const char *name;
	char *vocab;
	int rc;

	if (!t->o.out || gt_train_rank(t))
		return 0;
	gt_data_describe(&data, t->data);
	l->about = gt_loop_about(t, &data, err);
	config = l->about ? gt_about_add(l->config, t->data, err) : NULL;
	if (!config)
		return GT_ENOMEM;
	rc = gt_run_dir_create(&l->dir, t->o.out, err);
	if (!rc)
		rc = gt_run_dir_check_unused(&l->dir, t->step, gt_train_is_again(&t->o), err);
	if (!rc)
		rc = gt_run_dir_write_config(&l->dir, config, err);
	if (!rc)
		rc = keep_network(l, err);
	if (!rc)
		rc = gt_reference_write(t, &l->dir.folder, err);
	json_decref(config);
	name = gt_dataset_vocab_name(t->data);
	if (rc || !name)
		return rc;
	vocab = gt_folder_path(&l->dir.folder, name, err);
	file.path = vocab;
	rc = vocab ? gt_dataset_save_vocab(t->data, file, err) : GT_ENOMEM;
	free(vocab);
	return rc;
}

static struct gt_ranks_report report_ranks(const struct gt_train *t)
{
	const struct gt_parallel_options *p = &t->o.parallel;
	int virtual_ranks = t->sampler.virtual_ranks ? t->sampler.virtual_ranks : 1;

	return (struct gt_ranks_report){ .device = t->o.where.devices ? t->o.where.devices : "cpu",
		.ranks = gt_train_world(t),
		.mode = gt_parallel_names[p->kind],
		.backend = gt_train_world(t) > 1 ? gt_parallel_backend(t->s.parallel) : NULL,
		.tensor = p->tensor > 1 ? p->tensor : 1,
		.stages = p->stages > 1 ? p->stages : 1,
		.batch = t->o.batch,
		.accumulate = t->o.accumulate,
		.step = (int64_t)t->sampler.batch * (t->sampler.world / virtual_ranks) * t->runs };
}

/* The FLOPs of a sample are this rank's FLOPs of a step, divided by the samples of all ranks. */
static double find_mfu_of_sample(const struct gt_train *t, int64_t step_samples)
{
	double peak = gt_limits_peak_flops(t->s.device, &t->s.precision);

	return peak > 0 && t->steps.full.plan ? gt_train_step_flops(t) / (double)step_samples / peak
	                                      : 0;
}

static struct gt_start_report report_start(
    const struct gt_train *t, const struct gt_folder *dir, struct gt_data_description *described)
{
	const struct gt_ranks_report ranks = report_ranks(t);
	struct gt_session_memory memory = { 0 };

	gt_data_describe(described, t->data);
	if (!t->s.device->backend->host_memory)
		gt_train_memory(&memory, t);
	return (struct gt_start_report){ .dir = dir,
		.step = t->step,
		.total = t->o.lr_schedule.total,
		.epochs = epochs_of(t),
		.tokens = t->s.input.form.kind == GT_SAMPLE_TOKENS,
		.only_loss = t->s.input.loss.output,
		.vocab = gt_dataset_vocab_name(t->data),
		.images = gt_dataset_info(t->data)->form.kind == GT_SAMPLE_IMAGE,
		.workers = t->o.workers,
		.data = t->o.data,
		.info = gt_dataset_info(t->data),
		.class_name = described->class_names ? *described->class_names : NULL,
		.samples = t->sampler.samples,
		.val_samples = t->val ? gt_dataset_info(t->val)->samples : 0,
		.ranks = ranks,
		.gpu_bytes = memory.total,
		.mfu_of_sample = find_mfu_of_sample(t, ranks.step),
		.group = gt_session_data_world(&t->s) == gt_train_world(t) ? t->s.group : NULL };
}

static void set_result(const struct gt_loop *l, int rc, struct gt_train_result *result)
{
	const struct gt_train *t = l->t;

	result->step = t->step;
	result->total = t->o.lr_schedule.total;
	result->ended = !rc && t->step < t->o.lr_schedule.total && patience_is_over(t);
	result->stopped = !rc && t->step < t->o.lr_schedule.total && !result->ended;
	result->best_step = t->best_step;
	result->best_is_loss = judges_by_loss(t);
	result->best = result->best_is_loss ? -t->best_score : t->best_score;
	result->train_s = l->train_s;
	result->time_s = gt_clock_s() - l->started;
}

static int run_training(struct gt_train *t, const json_t *config,
    const struct gt_observer *observers, int observer_count, const atomic_bool *stop,
    struct gt_train_result *result, struct gt_err *err)
{
	double now = gt_clock_s();
	struct gt_loop l = { .t = t,
		.config = config,
		.observers = observers,
		.observer_count = observer_count,
		.started = now,
		.left = now,
		.result = result,
		.saved_step = -1,
		.checked_step = -1,
		.stop_requested = stop,
		.first_step = t->step };
	struct gt_data_description described;
	const struct gt_start_report start = report_start(t, &l.dir.folder, &described);
	int rc;

	if (t->resumes && config && !gt_train_rank(t))
		gt_resume_log_changes(t, config);
	rc = gt_reference_measure(t, err);
	/* It may refuse options: before anything is written. */
	if (!rc)
		rc = gt_loop_open_loader(&l, err);
	if (!rc)
		rc = begin_run_dir(&l, err);
	if (!rc)
		rc = open_saver(&l, err);
	if (!rc && t->profile.active)
		rc = gt_profile_new(&l.profile, t, &result->profile, err);
	if (!rc)
		rc = start_observers(&l, &start, err);
	if (!rc)
		gt_train_log_memory(t);
	if (!rc)
		rc = train_to_the_end(&l, err);
	close_saver(&l, rc);
	if (!rc)
		rc = count_damage(t, err);
	if (!rc)
		rc = gt_profile_end(l.profile, err);
	set_result(&l, rc, result);
	rc = end_observers(&l, rc, err);
	gt_feeder_close(&l.feeder);
	gt_profile_free(l.profile);
	gt_run_dir_close(&l.dir);
	free(l.about);
	return rc;
}

int gt_train_run(struct gt_train *t, const json_t *config, const struct gt_observer *observers,
    int observer_count, const atomic_bool *stop, struct gt_train_result *result, struct gt_err *err)
{
	bool lacks = !config && t->o.out && !gt_train_rank(t);
	json_t *own = lacks ? gt_train_own_config(t, err) : NULL;
	int rc = GT_ENOMEM;

	*result = (struct gt_train_result){ .best_step = -1 };
	if (own || !lacks)
		rc = run_training(
		    t, own ? own : config, observers, observer_count, stop, result, err);
	json_decref(own);
	return rc;
}
