/* verify.c - whether every kind of parallel training gives what one rank does. */
#include "lib/train/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/threads.h"
#include "lib/train/inside.h"

/* ---- modes ---- */

static const struct mode {
	const char *name;
	enum gt_parallel_kind kind;
	enum { ONE, ALL, STAGES } ranks;
	bool uneven; /* ranks may have different numbers of samples */
} modes[] = {
	/* One that takes their micro-batches one after the other. */
	{ "accumulate", GT_PARALLEL_DDP, ONE, false },
	{ "ddp", GT_PARALLEL_DDP, ALL, false },
	{ "mirrored", GT_PARALLEL_MIRRORED, ALL, false },
	{ "zero1", GT_PARALLEL_ZERO1, ALL, false },
	{ "zero2", GT_PARALLEL_ZERO2, ALL, false },
	{ "zero3", GT_PARALLEL_ZERO3, ALL, false },
	/* Two, as any model has as many stages; each with all samples. */
	{ "pipeline", GT_PARALLEL_DDP, STAGES, true },
	{ "dp", GT_PARALLEL_DP, ALL, true },
};

int gt_verify_count(void)
{
	return (int)(sizeof(modes) / sizeof(*modes));
}

/* ---- what one rank did ---- */

struct tensor {
	char *name;
	int64_t offset, count;
};

struct trace {
	int64_t samples; /* trained on; 0: nothing is recorded */
	struct tensor *tensors;
	size_t count;
	int64_t flat;
	double loss[GT_VERIFY_STEPS];
	float *gradients; /* [steps, flat] */
	float *weights;   /* [steps + 1, flat]: the first ones before any step */
};

static void release_trace(struct trace *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->tensors[i].name);
	free(r->tensors);
	free(r->gradients);
	free(r->weights);
	*r = (struct trace){ 0 };
}

static int begin_trace(struct trace *r, const struct gt_train *t, struct gt_err *err)
{
	const struct gt_store *s = t->store;
	size_t flat = (size_t)s->flat_count;

	release_trace(r);
	r->flat = s->flat_count;
	r->tensors = gt_calloc(s->slot_count, sizeof(*r->tensors), err);
	r->gradients = gt_calloc(flat * GT_VERIFY_STEPS, sizeof(float), err);
	r->weights = gt_calloc(flat * (GT_VERIFY_STEPS + 1), sizeof(float), err);
	if (!r->tensors || !r->gradients || !r->weights)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++) {
		struct tensor *tensor = &r->tensors[r->count];

		if (s->slots[i].role != GT_PARAMETER)
			continue;
		tensor->name = gt_strdup(s->slots[i].name, err);
		tensor->offset = s->slots[i].offset;
		tensor->count = s->slots[i].count;
		r->count++;
		if (!tensor->name)
			return GT_ENOMEM;
	}
	memcpy(r->weights, s->parameters, gt_store_flat_bytes(s));
	r->samples = t->sampler.samples;
	return 0;
}

/* ---- comparing ---- */

/* Of one rank: all of them collect, rank 0 compares. */
struct watcher {
	const struct gt_train *t;
	struct trace *trace;
	struct gt_verify_row *row; /* NULL: the trace is being made */
	float *held;               /* gradients as an optimizer's state lies on this rank */
	float *whole;              /* room for one tensor */
};

/* NaN is worse than anything. */
static void worsen(double *most, double x)
{
	if (!isnan(*most) && !(x <= *most))
		*most = x;
}

static double largest(const float *a, int64_t n)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		worsen(&most, fabs((double)a[i]));
	return most;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		worsen(&most, fabs((double)a[i] - (double)b[i]));
	return most;
}

static void judge(struct gt_verify_row *row, double *most, double far, double bound,
    const char *what, const char *tensor, int64_t step)
{
	worsen(most, far);
	if (far <= bound || !row->good)
		return;
	row->good = false;
	row->what = what;
	row->step = step;
	row->far = far;
	strncpy(row->tensor, tensor, sizeof(row->tensor) - 1);
}

/* A difference of 0 is no difference, of whatever. */
static double ratio(double far, double of)
{
	return far == 0 ? 0 : far / of;
}

static void judge_gradient(
    const struct watcher *w, const struct tensor *tensor, double all, int64_t step)
{
	const float *b = w->trace->gradients + (step - 1) * w->trace->flat + tensor->offset;
	double scale = fmax(largest(b, tensor->count), all / 100);
	double far = largest_difference(w->whole, b, tensor->count);

	judge(w->row, &w->row->gradient, ratio(far, scale), GT_VERIFY_GRADIENT, "gradient",
	    tensor->name, step);
}

static void judge_weight(
    const struct watcher *w, const struct tensor *tensor, double change, int64_t step)
{
	const float *b = w->trace->weights + step * w->trace->flat + tensor->offset;
	double far = largest_difference(w->whole, b, tensor->count);

	judge(w->row, &w->row->weight, ratio(far, change), GT_VERIFY_WEIGHT, "weight", tensor->name,
	    step);
}

/* Where a rank answers for a part of the gradients, the others of them are no sums. */
static void hold_gradients(const struct watcher *w)
{
	const struct gt_store *s = w->t->store;
	const float *from = s->gradients;

	if (!s->part_count || s->gradients_in_parts)
		memcpy(w->held, from, gt_store_gradient_bytes(s));
	for (size_t i = 0; !s->gradients_in_parts && i < s->part_count; i++)
		memcpy(w->held + s->parts[i].at, from + s->parts[i].offset,
		    (size_t)s->parts[i].count * sizeof(float));
}

/* On rank 0, the whole of a tensor; a collective call. */
static int collect(const struct watcher *w, const struct gt_slot *slot, enum gt_held what,
    const void *held, struct gt_err *err)
{
	if (w->t->parallel)
		return gt_parallel_collect(
		    w->t->parallel, slot, what, held, gt_train_rank(w->t) ? NULL : w->whole, err);
	memcpy(w->whole, (const float *)held + slot->offset, gt_slot_bytes(slot));
	return 0;
}

/* Tensor by tensor, the whole of it. */
static int compare(const struct watcher *w, enum gt_held what, const void *held, double scale,
    void (*judge_one)(const struct watcher *, const struct tensor *, double, int64_t), int64_t step,
    struct gt_err *err)
{
	const struct trace *r = w->trace;
	int rc = 0;

	for (size_t i = 0; !rc && i < r->count; i++) {
		const struct tensor *tensor = &r->tensors[i];
		const struct gt_slot *slot = gt_store_find(w->t->store, tensor->name);

		if (!slot || slot->count != tensor->count)
			return gt_err_set(
			    err, GT_EINVAL, "'%s' is not what it is on one rank", tensor->name);
		rc = collect(w, slot, what, held, err);
		if (!rc && !gt_train_rank(w->t))
			judge_one(w, tensor, scale, step);
	}
	return rc;
}

static int start(void *self, const struct gt_start_report *report, struct gt_err *err)
{
	const struct watcher *w = self;

	(void)report;
	return w->row ? 0 : begin_trace(w->trace, w->t, err);
}

static int gradients(void *self, int64_t n, struct gt_err *err)
{
	const struct watcher *w = self;
	const struct gt_store *s = w->t->store;
	struct trace *r = w->trace;
	float *mine = r->gradients + (n - 1) * r->flat;

	if (!w->row) {
		memcpy(mine, s->gradients, gt_store_flat_bytes(s));
		return 0;
	}
	hold_gradients(w);
	return compare(w, GT_HELD_STATE, w->held, largest(mine, r->flat), judge_gradient, n, err);
}

static int step(void *self, const struct gt_step_report *report, struct gt_err *err)
{
	const struct watcher *w = self;
	const struct gt_store *s = w->t->store;
	struct trace *r = w->trace;
	int64_t n = report->step;
	float *mine = r->weights + n * r->flat;
	double loss = r->loss[n - 1];

	if (!w->row) {
		r->loss[n - 1] = report->loss;
		memcpy(mine, s->parameters, gt_store_flat_bytes(s));
		return 0;
	}
	if (!gt_train_rank(w->t))
		judge(w->row, &w->row->loss, ratio(fabs(report->loss - loss), fabs(loss)),
		    GT_VERIFY_LOSS, "loss", "", n);
	return compare(w, GT_HELD_DATA, s->parameters,
	    largest_difference(mine, r->weights, r->flat), judge_weight, n, err);
}

/* ---- runs ---- */

struct job {
	const struct gt_verify_options *o;
	struct gt_train_options options;
	struct trace *trace;
	struct gt_verify_row *row;
	struct gt_log silent;
};

static int watch(const struct job *job, struct gt_train *t, struct gt_err *err)
{
	size_t flat = (size_t)(t->store->flat_count + job->trace->flat); /* padded, or a stage */
	struct watcher watcher = { .t = t,
		.trace = job->trace,
		.row = job->row,
		.held = job->row ? gt_calloc(flat, sizeof(float), err) : NULL,
		.whole = job->row ? gt_calloc(flat, sizeof(float), err) : NULL };
	const struct gt_observer observer = {
		.self = &watcher, .start = start, .gradients = gradients, .step = step
	};
	const atomic_bool never = false;
	struct gt_train_result result;
	int rc = GT_ENOMEM;

	if (!job->row || (watcher.held && watcher.whole))
		rc = gt_train_run(t, NULL, &observer, 1, &never, &result, err);
	free(watcher.held);
	free(watcher.whole);
	return rc;
}

/* As a rank of the group, or alone. */
static int be_rank(void *self, struct gt_group *group, struct gt_err *err)
{
	const struct job *job = self;
	struct gt_train_options options = job->options;
	struct gt_log silent = job->silent;
	struct gt_train *t;
	int rc;

	if (job->o->enter)
		job->o->enter(job->o->self, group);
	options.group = group;
	rc = gt_train_open(&t, &options, false, &silent, err);
	if (!rc) {
		rc = watch(job, t, err);
		gt_train_close(t);
	}
	return rc;
}

static int alone(void *self, struct gt_group *group, struct gt_err *err)
{
	(void)group;
	return be_rank(self, NULL, err);
}

/* Nothing is written; nothing depends on how long the run is meant to be. */
static struct gt_train_options options_of(const struct gt_verify_options *o, int64_t samples)
{
	struct gt_train_options t = *o->train;

	t.out = t.resume = t.val = NULL;
	t.val_split = 0;
	t.samples = samples;
	t.epochs = 0;
	t.steps = GT_VERIFY_STEPS;
	t.save_every = t.eval_every = 0;
	t.drop_last = false;
	t.schedule.kind = GT_CONSTANT;
	t.schedule.warmup = 0;
	t.optim.eps = fmax(t.optim.eps, GT_VERIFY_EPS);
	t.nproc = 1;
	t.parallel = (struct gt_parallel_options){ .bucket_bytes = t.parallel.bucket_bytes };
	t.profile = (struct gt_profile_options){ 0 };
	return t;
}

/* All samples of a step on one rank. */
static int record(struct trace *trace, struct job *job, int64_t samples, struct gt_err *err)
{
	int rc;

	job->options = options_of(job->o, samples);
	job->options.batch *= job->o->ranks;
	job->trace = trace;
	job->row = NULL;
	rc = gt_threads_run(1, &job->o->ring, alone, job, err);
	return rc ? gt_err_prefix(err, "one rank") : 0;
}

static int run_mode(const struct mode *mode, struct job *job, struct gt_verify_row *row,
    int64_t samples, struct gt_err *err)
{
	int rc;

	job->options = options_of(job->o, samples);
	job->options.parallel.kind = mode->kind;
	if (mode->ranks == ONE)
		job->options.accumulate *= job->o->ranks;
	if (mode->ranks == STAGES) {
		job->options.batch *= job->o->ranks;
		job->options.parallel.stages = row->ranks;
	}
	job->row = row;
	rc = gt_threads_run(
	    row->ranks, &job->o->ring, mode->ranks == ONE ? alone : be_rank, job, err);
	return rc ? gt_err_prefix(err, "%s", mode->name) : 0;
}

/* Two steps and a part of one, if there is as much. Where all ranks are to have as many, padding
 * would have to repeat samples that one rank has once. */
static int64_t choose_samples(
    const struct gt_verify_options *o, const struct mode *mode, int64_t there)
{
	int64_t n = o->ranks, batch = o->train->batch;
	int64_t all = 2 * n * batch * o->train->accumulate + n * (batch / 2) + mode->uneven;

	if (all > there)
		all = there;
	return mode->uneven ? all : all - all % n;
}

/* How many samples there are, and whether this can be done. */
static int look(int64_t *there, struct job *job, struct gt_err *err)
{
	struct gt_train_options options = options_of(job->o, 0);
	struct gt_train *t;
	int rc = gt_train_open(&t, &options, true, &job->silent, err);

	if (rc)
		return rc;
	*there = t->sampler.samples;
	if (*there < job->o->ranks)
		rc = gt_err_set(err, GT_EINVAL, "%lld samples are fewer than %d ranks",
		    (long long)*there, job->o->ranks);
	if (!rc && t->store->buffer_bytes) {
		rc = gt_err_set(err, GT_ENOTSUP,
		    "%s has batch normalisation, whose statistics are those of a rank's own "
		    "samples: ranks are not as one",
		    gt_model_name(t->model));
		gt_err_hint(err, "take a model without");
	}
	gt_train_close(t);
	return rc;
}

int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err)
{
	struct job job = { .o = o,
		.silent = { .stream = fopen("/dev/null", "we"), .level = GT_LOG_QUIET } };
	struct trace trace = { 0 };
	int64_t there, whole = (int64_t)o->ranks * o->train->batch;
	int rc;

	if (!job.silent.stream)
		return gt_err_sys(err, "cannot open '/dev/null'");
	rc = look(&there, &job, err);
	for (int i = 0; !rc && i < gt_verify_count(); i++) {
		const struct mode *mode = &modes[i];
		int64_t samples = choose_samples(o, mode, there);

		rows[i] = (struct gt_verify_row){
			.mode = mode->name,
			.ranks = mode->ranks == ONE   ? 1
			         : mode->ranks == ALL ? o->ranks
			                              : 2,
			.last_batch = samples % whole ? samples % whole : whole,
			.good = true,
			.what = "",
		};
		if (trace.samples != samples)
			rc = record(&trace, &job, samples, err);
		if (!rc)
			rc = run_mode(mode, &job, &rows[i], samples, err);
	}
	release_trace(&trace);
	fclose(job.silent.stream);
	return rc;
}
