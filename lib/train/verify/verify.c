/* verify.c - compare every mode of parallel training with one rank. */
#include "lib/train/verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/launch/threads.h"
#include "lib/train/verify/trace.h"

/*
 * First, one rank runs a few steps: the reference run. Then each mode of parallel training runs the
 * same steps, from the same weights, with the same samples. If the data set has enough samples, the
 * number of samples is chosen such that an epoch ends within these steps, and that the last batch
 * of the epoch has fewer samples than the other batches.
 *
 * Every rank compares the elements that it holds with the same elements of the reference run:
 *
 *   accumulate            all elements; a single rank computes the micro-batches of all ranks of
 *                         the other modes, one after the other
 *   ddp, mirrored         all elements
 *   dp                    all elements, on rank 0 only
 *   zero1, zero2, zero3   its shards: the parts of the weights and gradients that it updates
 *   gpipe, 1f1b           its stage of the pipeline
 *   tensor                its shards of layers
 *   zero1 x tensor 2      its shards of its shards of layers, and so on for other combinations
 *
 * `tensor` is tensor parallelism, `gpipe` and `1f1b` are schedules of pipelines, and the modes from
 * `ddp` to `zero3` are values of enum gt_parallel_kind (lib/parallel/parallel.h).
 *
 * Let `a` be a value from the mode, and `b` the value from the reference run. Each step compares
 *
 *   loss      |a - b| / |b|
 *   gradient  before the update, for each tensor: max |a - b| of the tensor, divided by the larger
 *             of two values: max |b| of the tensor, and 1 / 100 of max |b| of all tensors. (The
 *             second value is needed because some gradients, such as the gradient of the bias of
 *             the keys in attention, are 0 except for rounding.)
 *   weight    after the update, for each tensor: max |a - b| of the tensor, divided by the largest
 *             change of any weight since the start of the run
 *
 * The bounds GT_VERIFY_LOSS, _GRADIENT and _WEIGHT allow for rounding. The order of a sum depends
 * on the number of ranks. In float32, this changes the sum by about 1e-7 of its largest term. A
 * gradient may be 100 times smaller than its terms, so its relative difference may be 1e-5. The
 * bound is 1e-4. The smallest mistake that should be found is one sample too many or too few. Such
 * a mistake causes a relative difference of 1 / (number of samples), which is larger than the
 * bound.
 *
 * The difference of a weight comes from the difference of its gradient. Adam divides the gradient
 * by about |gradient| + eps. In these runs eps is at least 1e-4. So a difference of 1e-7 in the
 * gradient changes the update by at most about 1e-7 / 1e-4 = 1e-3, in units of the learning rate.
 */

/*
 * If train->parallel.reproducible is set, all modes must give the same bits as one rank, so the
 * bounds are 0. But modes with `tensor` have the usual bounds, because their ranks compute other
 * sums. With `reproducible`, the statistics of batch normalization are computed over the samples of
 * each virtual rank (lib/parallel/virtual/rewrite.h), unless train->parallel.sync_bn is set.
 *
 * Without `reproducible`, batch normalization uses the samples of all ranks (sync_bn). In a
 * pipeline, each micro-batch has its own statistics. So for the pipeline modes, the reference run
 * divides each batch into the same micro-batches. In the mode `accumulate`, each micro-batch also
 * has its own statistics, but the reference run for this mode computes them over the whole batch.
 * So the mode `accumulate` is left out for a model with batch normalization, and so are
 * combinations, whose ranks divide micro-batches in two ways.
 */

/*
 * The bounds GT_VERIFY_NORM_... are for models with batch normalization, without `reproducible`.
 * After a normalization, many inputs of ReLUs are near zero. resnet20 has a million inputs of ReLUs
 * for a few images. Some of these inputs are 0 with one order of summation and 1e-7 with another
 * order. This hardly changes the loss, but it decides whether a gradient passes through the ReLU.
 * In runs on 8 to 12 images, one element of the gradient of conv1 differed by 4e-2 to 1e-1 of the
 * largest element. Runs in which no ReLU has an input this close to 0 agree to 1e-5.
 *
 * Therefore the bound for gradients is larger for these models. In these runs eps is at least 1: it
 * makes updates about proportional to gradients, so differences of gradients do not grow. A small
 * learning rate keeps the number of inputs that change their sign small during the 5 steps. With
 * these settings, weights differed by 6e-3 of the largest change. The mistakes that tests put into
 * the computation on purpose cause differences of 0.3 and more.
 */

/* ---- modes ---- */

enum { ALL_RANKS = -1, PLAIN_MODES = 10, COMBINED_RANKS = 4 };

static const struct mode {
	const char *name;
	enum gt_parallel_kind kind;
	/* Several ranks; else one that takes their micro-batches one after the other. */
	bool ranks;
	bool uneven; /* ranks may have different numbers of samples, or all have the same ones */
	/* ranks of the tensor axis, and stages; 0: one; the model may have too few parts */
	int tensor, stages;
	bool sequence;
	enum gt_pipeline_schedule schedule;
} modes[] = {
	{ .name = "accumulate" },
	{ .name = "ddp", .ranks = true },
	{ .name = "mirrored", .kind = GT_PARALLEL_MIRRORED, .ranks = true },
	{ .name = "zero1", .kind = GT_PARALLEL_ZERO1, .ranks = true },
	{ .name = "zero2", .kind = GT_PARALLEL_ZERO2, .ranks = true },
	{ .name = "zero3", .kind = GT_PARALLEL_ZERO3, .ranks = true },
	{ .name = "dp", .kind = GT_PARALLEL_DP, .ranks = true, .uneven = true },
	{ .name = "gpipe", .ranks = true, .uneven = true, .stages = ALL_RANKS },
	{ .name = "1f1b",
	    .ranks = true,
	    .uneven = true,
	    .stages = ALL_RANKS,
	    .schedule = GT_PIPELINE_1F1B },
	{ .name = "tensor", .ranks = true, .uneven = true, .tensor = ALL_RANKS },
/* From here on, modes of COMBINED_RANKS ranks or a multiple. */
#define COMBINED(NAME, KIND, ...)                                                                  \
	{                                                                                          \
		.name = NAME, .kind = GT_PARALLEL_##KIND, .ranks = true,                           \
		.schedule = GT_PIPELINE_1F1B, __VA_ARGS__                                          \
	}
	COMBINED("tensor x sequence", DDP, .tensor = ALL_RANKS, .sequence = true),
	COMBINED("ddp x tensor 2", DDP, .tensor = 2),
	COMBINED("ddp x tensor 2 x sequence", DDP, .tensor = 2, .sequence = true),
	COMBINED("zero1 x tensor 2", ZERO1, .tensor = 2),
	COMBINED("zero2 x tensor 2", ZERO2, .tensor = 2),
	COMBINED("zero3 x tensor 2", ZERO3, .tensor = 2),
	COMBINED("ddp x 1f1b 2", DDP, .stages = 2),
	COMBINED("zero1 x 1f1b 2", ZERO1, .stages = 2),
	COMBINED("zero2 x 1f1b 2", ZERO2, .stages = 2),
	COMBINED("zero3 x 1f1b 2", ZERO3, .stages = 2),
	COMBINED("ddp x tensor 2 x 1f1b 2", DDP, .tensor = 2, .stages = 2),
	COMBINED("zero3 x tensor 2 x 1f1b 2", ZERO3, .tensor = 2, .stages = 2),
};

int gt_verify_count(int ranks)
{
	return ranks % COMBINED_RANKS ? PLAIN_MODES : (int)(sizeof(modes) / sizeof(*modes));
}

static bool is_combined(const struct mode *mode)
{
	return mode - modes >= PLAIN_MODES;
}

/* Whether ranks hold parts of the model. */
static bool holds_parts(const struct mode *mode)
{
	return mode->tensor || mode->stages;
}

/* ---- runs ---- */

struct job {
	const struct gt_verify_options *o;
	struct gt_train_options options;
	struct gt_trace *trace;
	struct gt_watcher *watchers; /* [o->ranks] */
	bool exact;                  /* modes are to have the same bits: --reproducible */
	bool batch_norm;             /* else: the model has some, which is over all ranks */
	int64_t samples;             /* samples of the data */
	struct gt_log silent;
};

static int train_rank(void *self, struct gt_group *group, struct gt_err *err)
{
	const struct job *job = self;
	struct gt_train_options options = job->options;
	struct gt_watcher *watcher = &job->watchers[group->rank];
	const struct gt_observer observer = gt_watcher_observer(watcher);
	struct gt_log silent = job->silent;
	const atomic_bool never = false;
	struct gt_train_result result;
	struct gt_train *t;
	int rc;

	if (job->o->enter)
		job->o->enter(job->o->self, group);
	options.where.group = group;
	options.where.host_rank = group->rank;
	rc = gt_train_open(&t, &options, false, &silent, err);
	if (!rc) {
		watcher->t = t;
		/* The others of dp hold weights of the step before, which nobody reads. */
		rc = gt_train_run(t, NULL, &observer, t->reads, &never, &result, err);
		gt_train_close(t);
	}
	return rc;
}

/* Ranks that share layers make other sums of them than one does. */
static struct gt_verify_bounds bounds_of(const struct job *job, const struct mode *mode)
{
	if (job->exact && !mode->tensor)
		return (struct gt_verify_bounds){ 0, 0, 0 };
	if (job->batch_norm)
		return (struct gt_verify_bounds){ GT_VERIFY_LOSS, GT_VERIFY_NORM_GRADIENT,
			GT_VERIFY_NORM_WEIGHT };
	return (struct gt_verify_bounds){ GT_VERIFY_LOSS, GT_VERIFY_GRADIENT, GT_VERIFY_WEIGHT };
}

/* Run a mode: record the reference run, or compare with it within bounds. */
static int run_job_ranks(
    struct job *job, int ranks, const struct gt_verify_bounds *bounds, struct gt_err *err)
{
	for (int i = 0; i < ranks; i++)
		job->watchers[i] = (struct gt_watcher){ .trace = job->trace,
			.records = !bounds,
			.row = { .good = true,
			    .bounds = bounds ? *bounds : (struct gt_verify_bounds){ 0 } } };
	return gt_threads_run(ranks, &job->o->threads, train_rank, job, err);
}

/* Nothing is written; nothing depends on how long the run is meant to be. */
static struct gt_train_options options_of(const struct job *job, int64_t samples)
{
	struct gt_train_options t = *job->o->train;

	t.out = t.resume = t.val = NULL;
	t.val_split = 0;
	t.average = (struct gt_average_options){ 0 };
	t.samples = samples;
	t.epochs = 0;
	t.steps = GT_VERIFY_STEPS;
	t.save_every = t.eval_every = 0;
	t.drop_last = false;
	t.lr_schedule.kind = GT_CONSTANT;
	t.lr_schedule.warmup = 0;
	t.given |= GT_GIVEN_WARMUP;
	t.optim.eps = fmax(t.optim.eps, GT_VERIFY_EPS);
	if (job->batch_norm) {
		if (t.lr_schedule.lr == 0 || t.lr_schedule.lr > GT_VERIFY_NORM_RATE)
			t.lr_schedule.lr = GT_VERIFY_NORM_RATE;
		t.optim.eps = fmax(t.optim.eps, GT_VERIFY_NORM_EPS);
	}
	t.nproc = 1;
	t.where.way = NULL;
	t.amp = GT_AMP_OFF;
	t.tf32 = false;
	t.parallel = (struct gt_parallel_options){ .bucket_bytes = t.parallel.bucket_bytes,
		.reproducible = job->exact,
		.sync_bn = job->exact && t.parallel.sync_bn };
	t.profile = NULL;
	return t;
}

static void set_mode(struct job *job, const struct mode *mode, int64_t samples)
{
	struct gt_train_options *t = &job->options;
	int n = job->o->ranks;
	int tensor = mode->tensor == ALL_RANKS ? n : mode->tensor;
	int stages = mode->stages == ALL_RANKS ? n : mode->stages;

	*t = options_of(job, samples);
	t->parallel.kind = mode->kind;
	t->parallel.pipeline_schedule = mode->schedule;
	if (!mode->ranks)
		t->accumulate *= n;
	t->parallel.stages = stages;
	t->parallel.tensor = tensor;
	t->parallel.sequence = mode->sequence;
	t->batch *= (stages ? stages : 1) * (tensor ? tensor : 1);
	if (!holds_parts(mode))
		t->parallel.sync_bn |= job->batch_norm;
}

/* The parts that one rank takes each micro-batch of all ranks in, to be as the mode. */
static int micro_batch_parts(const struct job *job, const struct mode *mode)
{
	return job->batch_norm && holds_parts(mode) ? job->o->ranks : 1;
}

/* All samples of a step on one rank, each micro-batch of all ranks in so many parts. */
static int record(struct job *job, int64_t samples, int parts, struct gt_err *err)
{
	struct gt_trace *trace = job->trace;
	int rc;

	if (trace->samples == samples && trace->parts == parts)
		return 0;
	job->options = options_of(job, samples);
	job->options.batch *= job->o->ranks / parts;
	job->options.accumulate *= parts;
	rc = run_job_ranks(job, 1, NULL, err);
	trace->samples = samples;
	trace->parts = parts;
	return rc ? gt_err_prefix(err, "one rank") : 0;
}

static int run_mode(
    const struct mode *mode, struct job *job, struct gt_verify_row *row, struct gt_err *err)
{
	int ranks = mode->ranks ? job->o->ranks : 1, rc;
	size_t comparison = 0;

	rc = run_job_ranks(job, ranks, &row->bounds, err);
	for (int i = 0; i < ranks; i++) {
		gt_watcher_add(row, &comparison, &job->watchers[i]);
		gt_watcher_release(&job->watchers[i]);
	}
	return rc ? gt_err_prefix(err, "%s", mode->name) : 0;
}

/* ---- which samples ---- */

static int64_t last_batch(int64_t samples, int64_t whole)
{
	return samples % whole ? samples % whole : whole;
}

/* Whether each rank of dp has a sample of the last batch. */
static bool all_have_some(int64_t samples, int64_t ranks, int64_t whole)
{
	int64_t last = last_batch(samples, whole), max = (last + ranks - 1) / ranks;

	return max * (ranks - 1) < last;
}

/* The state that all ranks read at once. */
static int64_t whole_batch(const struct job *job)
{
	return (int64_t)job->o->ranks * job->o->train->batch;
}

static int64_t whole_step(const struct job *job)
{
	return whole_batch(job) * job->o->train->accumulate;
}

/* The parts that --reproducible cuts a step of all ranks into: each has as many samples, by padding
 * if need be. */
static int64_t step_parts(const struct job *job)
{
	const struct gt_parallel_options one = { .reproducible = true };

	return gt_parallel_virtual_ranks(&one, 1, (int)whole_step(job));
}

/* Two steps and a part of one, if there is as much, and if a step has more samples than parts.
 * Where all ranks are to have as many, padding would have to repeat samples that one rank has once.
 * Of batch normalisation, ranks wait for each other's statistics, and the chunks of a pipeline have
 * to be the micro-batches of one rank. */
static int64_t choose_samples(const struct job *job, const struct mode *mode)
{
	int64_t n = job->o->ranks, whole = whole_batch(job), all = 2 * whole_step(job);

	all += job->exact ? step_parts(job) : n * (job->o->train->batch / 2) + mode->uneven;
	if (all > job->samples)
		all = job->samples;
	if (job->exact)
		return all - all % step_parts(job);
	if (!mode->uneven)
		return all - all % n;
	if (job->batch_norm && holds_parts(mode))
		return all - all % whole;
	while (job->batch_norm && all > n && !all_have_some(all, n, whole))
		all--;
	return all;
}

/* ---- which modes ---- */

/* Why not goes to the row. */
static void see_if_fit(struct job *job, const struct mode *mode, struct gt_verify_row *row)
{
	struct gt_train_options options = job->options;
	struct gt_err why = GT_ERR_INIT;
	struct gt_train *t = NULL;

	if (job->batch_norm && (!mode->ranks || is_combined(mode)))
		gt_err_set(&why, GT_ENOTSUP,
		    "batch normalization takes the statistics of each micro-batch");
	else if (!options.samples)
		gt_err_set(
		    &why, GT_ENOTSUP, "there are no %d samples, for a whole batch", options.batch);
	options.nproc = mode->ranks ? job->o->ranks : 1;
	if (!why.code && (holds_parts(mode) || job->batch_norm || job->exact) &&
	    !gt_train_open(&t, &options, true, &job->silent, &why))
		gt_train_close(t);
	if (why.code)
		snprintf(row->why, sizeof(row->why), "%.*s", (int)sizeof(row->why) - 1, why.text);
}

/* Each rank mixes the images of its own batches, so other numbers of ranks train on other ones. */
static int check_mixtures(const struct job *job, const struct gt_train *t, struct gt_err *err)
{
	if (job->exact || !t->s.input.mixed)
		return 0;
	gt_err_set(err, GT_EINVAL, "{augment} mixup: several ranks mix other images than one rank");
	return gt_err_hint(err, "with {reproducible} all mix the same");
}

/* How many samples there are, and whether this can be done. */
static int look_at_samples(struct job *job, struct gt_err *err)
{
	struct gt_train_options options = options_of(job, 0);
	struct gt_train *t;
	int rc = gt_train_open(&t, &options, true, &job->silent, err);

	if (rc)
		return rc;
	job->samples = t->sampler.samples;
	job->batch_norm = t->s.store->running_bytes && !job->exact;
	rc = check_mixtures(job, t, err);
	if (rc)
		goto out;
	if (job->samples < job->o->ranks)
		rc = gt_err_set(err, GT_EINVAL, "%lld samples are fewer than %d ranks",
		    (long long)job->samples, job->o->ranks);
	else if (job->exact && job->samples < step_parts(job))
		rc = gt_err_set(err, GT_EINVAL, "%lld samples are fewer than %d parts of a step",
		    (long long)job->samples, (int)step_parts(job));
out:
	gt_train_close(t);
	return rc;
}

static int fill_row(
    struct gt_verify_row *row, const struct mode *mode, struct job *job, struct gt_err *err)
{
	int64_t samples = choose_samples(job, mode);
	/* All micro-batches of a step are computed at once if the bits must be the same. */
	int64_t whole = job->exact ? whole_step(job) : whole_batch(job);
	int rc;

	*row = (struct gt_verify_row){
		.mode = mode->name,
		.ranks = mode->ranks ? job->o->ranks : 1,
		.last_batch = last_batch(samples, whole),
		.bounds = bounds_of(job, mode),
		.good = true,
		.what = "",
	};
	set_mode(job, mode, samples);
	see_if_fit(job, mode, row);
	if (*row->why)
		return 0;
	rc = record(job, samples, micro_batch_parts(job, mode), err);
	set_mode(job, mode, samples);
	return rc ? rc : run_mode(mode, job, row, err);
}

int gt_verify_parallel(
    struct gt_verify_row *rows, const struct gt_verify_options *o, struct gt_err *err)
{
	struct gt_trace trace = { 0 };
	struct job job = { .o = o,
		.trace = &trace,
		.exact = o->train->parallel.reproducible,
		.watchers = gt_calloc((size_t)o->ranks, sizeof(*job.watchers), err),
		.silent = { .stream = fopen("/dev/null", "we"), .level = GT_LOG_QUIET } };
	int rc = job.watchers ? 0 : GT_ENOMEM;

	if (!rc && !job.silent.stream)
		rc = gt_err_sys(err, "cannot open '/dev/null'");
	if (!rc)
		rc = look_at_samples(&job, err);
	for (int i = 0; !rc && i < gt_verify_count(o->ranks); i++)
		rc = fill_row(&rows[i], &modes[i], &job, err);
	gt_trace_release(&trace);
	if (job.silent.stream)
		fclose(job.silent.stream);
	free(job.watchers);
	return rc;
}
