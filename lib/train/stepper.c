/* stepper.c - train step by step, under the control of the caller, who may give the samples. */
#include "lib/train/stepper.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/train/loop.h"
#include "lib/train/reference.h"
#include "lib/train/run/about.h"

struct gt_stepper {
	struct gt_loop loop;
	struct gt_observer observer;
	struct gt_step_report report;
	struct gt_train_result result;
	atomic_bool never; /* no step is asked to be the last one */
	json_t *config;    /* own; loop.config borrows it */
	bool failed;       /* a step has failed: the weights are those of a moment within it */
};

static int note_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_stepper *s = self;

	(void)err;
	s->report = *r;
	return 0;
}

static int check_run(const struct gt_train *t, struct gt_err *err)
{
	if (gt_train_world(t) > 1) {
		gt_err_set(err, GT_EINVAL, "{nproc} %d: a program steps one rank itself",
		    gt_train_world(t));
		return gt_err_hint(err, "`gtrain train` starts several ranks");
	}
	return t->o.out ? gt_err_set(err, GT_EINVAL, "{out} is for runs of `gtrain train`") : 0;
}

/* The texts that checkpoints have. */
static int describe_run(struct gt_stepper *s, struct gt_err *err)
{
	const struct gt_train *t = s->loop.t;
	struct gt_data_description data;

	gt_data_describe(&data, t->data);
	s->loop.about = gt_loop_about(t, &data, err);
	s->config = gt_train_own_config(t, err);
	s->loop.config = s->config;
	return s->loop.about && s->config ? 0 : GT_ENOMEM;
}

int gt_stepper_open(struct gt_stepper **out, struct gt_train *t, struct gt_err *err)
{
	struct gt_stepper *s = NULL;
	double now = gt_clock_s();
	int rc = check_run(t, err);

	*out = NULL;
	if (!rc)
		s = gt_calloc(1, sizeof(*s), err);
	if (!s)
		return err->code;
	s->observer = (struct gt_observer){ .self = s, .step = note_step };
	s->loop = (struct gt_loop){ .t = t,
		.observers = &s->observer,
		.observer_count = 1,
		.started = now,
		.left = now,
		.result = &s->result,
		.saved_step = -1,
		.checked_step = -1,
		.stop_requested = &s->never,
		.first_step = t->step };
	s->loop.feeder.device = t->s.device;
	rc = describe_run(s, err);
	if (!rc)
		rc = gt_reference_measure(t, err);
	if (!rc && !gt_dataset_is_memory(t->data))
		rc = gt_loop_open_loader(&s->loop, err);
	if (rc)
		gt_stepper_close(s);
	else
		*out = s;
	return rc;
}

void gt_stepper_close(struct gt_stepper *s)
{
	if (!s)
		return;
	(void)gt_device_sync(s->loop.t->s.device, GT_ERR_IGNORED);
	gt_feeder_close(&s->loop.feeder);
	json_decref(s->config);
	free(s->loop.about);
	free(s);
}

const struct gt_dataset *gt_stepper_data(const struct gt_stepper *s)
{
	return s->loop.t->data;
}

/* ---- steps ---- */

int64_t gt_stepper_samples(const struct gt_stepper *s)
{
	return gt_loop_samples(s->loop.t);
}

int64_t gt_stepper_done(const struct gt_stepper *s)
{
	return s->loop.t->step;
}

int64_t gt_stepper_total(const struct gt_stepper *s)
{
	return s->loop.t->o.lr_schedule.total;
}

const struct gt_step_report *gt_stepper_report(const struct gt_stepper *s)
{
	return &s->report;
}

static int check_failed(const struct gt_stepper *s, struct gt_err *err)
{
	if (!s->failed)
		return 0;
	gt_err_set(err, GT_EINVAL, "a step of this run has failed, so it cannot go on");
	return gt_err_hint(err, "open the run again, from its last checkpoint");
}

/* Check that the batch is that of the next step. */
static int check_batch(const struct gt_stepper *s, const struct gt_batch *batch, struct gt_err *err)
{
	const struct gt_train *t = s->loop.t;
	bool memory = gt_dataset_is_memory(t->data);
	int64_t wanted = gt_stepper_samples(s);

	if (t->step >= gt_stepper_total(s)) {
		gt_err_set(err, GT_EINVAL, "the run has done all of its %lld steps",
		    (long long)gt_stepper_total(s));
		return gt_err_hint(err, "open it with a larger {steps}");
	}
	if (memory && !batch)
		return gt_err_set(err, GT_EINVAL, "a step needs %lld samples: {data} are in memory",
		    (long long)wanted);
	if (!memory && batch) {
		gt_err_set(err, GT_EINVAL, "the samples of a step come from {data} %s", t->o.data);
		return gt_err_hint(err, "open it with {data} memory, to give the samples");
	}
	if (batch && batch->count != wanted)
		return gt_err_set(err, GT_EINVAL, "step %lld takes %lld samples, not %d",
		    (long long)t->step + 1, (long long)wanted, batch->count);
	return 0;
}

int gt_stepper_step(struct gt_stepper *s, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = check_failed(s, err);

	if (!rc)
		rc = check_batch(s, batch, err);
	if (rc)
		return rc;
	s->loop.given = batch ? *batch : (struct gt_batch){ 0 };
	rc = gt_loop_step(&s->loop, err);
	if (!rc)
		rc = gt_feeder_wait(&s->loop.feeder, err);
	s->failed = rc;
	return rc;
}

int gt_stepper_finish(struct gt_stepper *s, struct gt_err *err)
{
	int rc = check_failed(s, err);

	if (!rc)
		rc = gt_loop_finish(&s->loop, 0, err);
	s->failed = rc;
	return rc;
}

/* ---- evaluation ---- */

int64_t gt_stepper_outputs(const struct gt_stepper *s)
{
	struct gt_train *t = s->loop.t;
	const struct gt_program *p = gt_program_pair_any(&t->evals);

	return gt_train_evaluation(t).plan_scores && p->plan ? p->io.logits->shape[1] : 0;
}

/* Evaluate `data` with the average of the weights, if there is one. */
static int measure_data(struct gt_stepper *s, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_err *err)
{
	struct gt_train *t = s->loop.t;
	const struct gt_average *average = gt_average_kept(&t->o.average);
	struct gt_err late = GT_ERR_INIT;
	int rc = gt_loop_swap_average(t, average, err), back;

	if (rc)
		return rc;
	rc = gt_loop_evaluate(t, data, options, out, NULL, err);
	back = gt_loop_swap_average(t, average, &late);
	if (back)
		s->failed = true;
	if (!rc && back)
		*err = late;
	return rc ? rc : back;
}

/* Whole batches of the program: samples without a target complete the last one. */
static int measure_batch(struct gt_stepper *s, const struct gt_batch *batch, float *scores,
    struct gt_metrics *out, struct gt_err *err)
{
	struct gt_train *t = s->loop.t;
	const struct gt_program *p = gt_program_pair_any(&t->evals);
	struct gt_evaluate_options options = gt_train_evaluation(t);
	int64_t whole = gt_round_up(batch->count, p->batch);
	struct gt_dataset *data = NULL;
	size_t outputs = (size_t)gt_stepper_outputs(s);
	int rc;

	if (t->s.input.loss.output && whole != batch->count)
		return gt_err_set(err, GT_EINVAL,
		    "the network returns the loss of %d samples at once: %d samples are not a "
		    "multiple",
		    p->batch, batch->count);
	if (scores && !outputs)
		return gt_err_set(err, GT_ENOTSUP,
		    "networks for texts, and those that return their loss, have no outputs for a "
		    "sample");
	options.batch = p->batch;
	options.workers = 0;
	options.no_targets = scores;
	options.scores = scores ? gt_calloc((size_t)whole, outputs * sizeof(*scores), err) : NULL;
	rc = options.scores || !scores ? gt_dataset_of_batch(&data, t->data, batch, whole, err)
	                               : GT_ENOMEM;
	if (!rc)
		rc = measure_data(s, data, &options, out, err);
	for (size_t i = 0; !rc && scores && i < (size_t)batch->count * outputs; i++)
		scores[i] = options.scores[i];
	gt_dataset_close(data);
	free(options.scores);
	return rc;
}

int gt_stepper_evaluate(struct gt_stepper *s, const struct gt_batch *batch, struct gt_metrics *out,
    float *scores, struct gt_err *err)
{
	struct gt_train *t = s->loop.t;
	const struct gt_evaluate_options options = gt_train_evaluation(t);
	int rc = gt_stepper_finish(s, err);

	*out = (struct gt_metrics){ 0 };
	if (rc)
		return rc;
	if (batch && !gt_dataset_is_memory(t->data)) {
		gt_err_set(
		    err, GT_EINVAL, "the samples of this run come from {data} %s", t->o.data);
		return gt_err_hint(err, "open it with {data} memory, to give samples");
	}
	if (batch)
		return measure_batch(s, batch, scores, out, err);
	if (t->val)
		return measure_data(s, t->val, &options, out, err);
	gt_err_set(err, GT_EINVAL, "there are no samples to evaluate");
	return gt_err_hint(err, "{val} names validation data");
}

/* ---- files ---- */

int gt_stepper_save(struct gt_stepper *s, const char *path, struct gt_err *err)
{
	int rc = gt_stepper_finish(s, err);
	struct gt_snapshot snapshot;

	if (!rc)
		rc = gt_loop_check_finite(&s->loop, err);
	if (rc)
		return rc;
	snapshot = gt_loop_snapshot(&s->loop);
	return gt_snapshot_save(&snapshot, (struct gt_file_name){ .path = path }, err);
}

int gt_stepper_save_model(struct gt_stepper *s, const char *path, struct gt_err *err)
{
	int rc = gt_stepper_finish(s, err);
	struct gt_snapshot snapshot;

	if (rc)
		return rc;
	snapshot = gt_loop_snapshot(&s->loop);
	return gt_snapshot_save_model(&snapshot, (struct gt_file_name){ .path = path }, err);
}

/* ---- tensors ---- */

const struct gt_slot *gt_stepper_slot(const struct gt_stepper *s, size_t i)
{
	const struct gt_store *store = s->loop.t->s.store;

	return i < store->slot_count ? &store->slots[i] : NULL;
}

const struct gt_slot *gt_stepper_find(const struct gt_stepper *s, const char *name)
{
	const struct gt_session *session = &s->loop.t->s;

	return gt_weights_find(session->store, session->model, name);
}

static const struct gt_plane *plane_of(const struct gt_stepper *s, const struct gt_slot *slot)
{
	return gt_store_plane_of(s->loop.t->s.store, slot->role);
}

int gt_stepper_read(struct gt_stepper *s, const struct gt_slot *slot, void *out, struct gt_err *err)
{
	return gt_parallel_gather_slot(
	    s->loop.t->s.parallel, plane_of(s, slot), slot, 0, slot->count, out, err);
}

int gt_stepper_write(
    struct gt_stepper *s, const struct gt_slot *slot, const void *elements, struct gt_err *err)
{
	const struct gt_session *session = &s->loop.t->s;
	int rc = gt_stepper_finish(s, err);

	if (!rc)
		rc = gt_parallel_scatter_slot(
		    session->parallel, plane_of(s, slot), slot, elements, err);
	s->loop.checked_step = -1; /* the new elements may be NaN */
	return rc ? rc : gt_store_refresh_copies(session->store, err);
}
