/* calibrate_ops.c - times of ops in training steps, beside those that the rates give. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cmd/bench/calibrate.h"
#include "lib/base/file.h"
#include "lib/base/walk.h"
#include "lib/plan/calibration.h"
#include "lib/plan/cost.h"
#include "lib/train/report/profile.h"
#include "lib/train/report/work.h"

/* A step has micro-batches, so that gradients are set to zero and added up as stages do it, too. */
enum {
	STEPS_MOST = 64,
	MICRO_BATCHES = 2,
	NOT_RECORDED = 2,
	TURNS = 3,
	ALL_STEPS = STEPS_MOST * TURNS
};

/* Ops are measured on one rank alone, and on ranks that train together. */
enum { ALONE, BUSY, WAYS };

/* A model that is trained to measure its ops. */
struct sample_model {
	const char *model, *data;
	int64_t batch;
};

static const struct sample_model samples[] = {
	{ "gpt:layers=2,heads=4,width=256,block=128,vocab=512", "random,samples=1024", 8 },
	{ "resnet20", "random,samples=4096", 32 },
};

/* The times of an op. */
struct op_time {
	char name[48];
	double step_s[WAYS][ALL_STEPS];           /* the measured steps of one model */
	double rank_s[ALL_STEPS];                 /* those of the rank that is being read */
	double measured_s[WAYS], planned_s[WAYS]; /* sums over the models */
};

struct op_times {
	struct op_time list[GT_OP_FACTORS];
	int count;
};

/* Return the row of an op, or NULL if there are too many. */
static struct op_time *find_op(struct op_times *ops, const char *name)
{
	for (int i = 0; i < ops->count; i++)
		if (!strcmp(ops->list[i].name, name))
			return &ops->list[i];
	if (ops->count == GT_OP_FACTORS || strlen(name) >= sizeof(ops->list->name))
		return NULL;
	snprintf(ops->list[ops->count].name, sizeof(ops->list->name), "%s", name);
	return &ops->list[ops->count++];
}

/* ---- the measured time ---- */

/* The steps of one model, measured in turns. */
struct steps {
	int count[WAYS];
	double step_s[WAYS][ALL_STEPS];
};

/* Return the op to which an event's time belongs, or NULL: kernels, the update and zeroed gradients
 * have one. */
static struct op_time *op_of_event(struct op_times *ops, const char *name, const char *kind)
{
	if (!strcmp(name, GT_PROFILE_UPDATE))
		return find_op(ops, "update");
	if (!strcmp(kind, "kernel") || !strcmp(name, GT_PROFILE_ZEROING))
		return find_op(ops, name);
	return NULL;
}

/* Add up the events of each step by op, for steps from `first` on. A step's event comes before
 * those of its ops. */
static int read_trace(
    struct op_times *ops, struct steps *steps, int way, int first, const json_t *trace)
{
	const json_t *events = json_object_get(trace, "traceEvents"), *event;
	int *count = &steps->count[way];
	size_t i;

	*count = first;
	json_array_foreach(events, i, event)
	{
		const char *name = json_string_value(json_object_get(event, "name"));
		double seconds = 1e-6 * json_number_value(json_object_get(event, "dur"));
		const char *kind = json_string_value(json_object_get(event, "cat"));
		struct op_time *op;

		if (!name || !kind)
			continue;
		if (!strcmp(name, "step")) {
			if (*count == ALL_STEPS)
				break;
			steps->step_s[way][(*count)++] = seconds;
		}
		op = *count > first ? op_of_event(ops, name, kind) : NULL;
		if (op)
			op->rank_s[*count - 1] += seconds;
	}
	return *count > first ? 0 : -1;
}

/* The ranks of a step wait for the slowest of them, so the longest time of each op counts. */
static void add_rank(struct op_times *ops, int way)
{
	for (int i = 0; i < ops->count; i++) {
		struct op_time *op = &ops->list[i];

		for (int step = 0; step < ALL_STEPS; step++)
			if (op->step_s[way][step] < op->rank_s[step])
				op->step_s[way][step] = op->rank_s[step];
		memset(op->rank_s, 0, sizeof(op->rank_s));
	}
}

static size_t read_unzipped(void *buffer, size_t size, void *file)
{
	int got = gzread(file, buffer, (unsigned)(size < INT_MAX ? size : INT_MAX));

	return got < 0 ? (size_t)-1 : (size_t)got;
}

/* Load a trace, or return NULL. */
static json_t *load_trace(const char *path)
{
	gzFile file = gzopen(path, "rb");
	json_t *trace = file ? json_load_callback(read_unzipped, file, 0, NULL) : NULL;

	if (file)
		gzclose(file);
	return trace;
}

/* The shortest time: other programs only make steps longer, and a plan is for undisturbed ones. */
static double find_shortest(const double *time_s, int count)
{
	double shortest = time_s[0];

	for (int i = 1; i < count; i++)
		if (time_s[i] < shortest)
			shortest = time_s[i];
	return shortest;
}

static void add_measured(struct op_times *ops, const struct steps *steps)
{
	for (int i = 0; i < ops->count; i++) {
		struct op_time *op = &ops->list[i];

		for (int way = 0; way < WAYS; way++)
			if (steps->count[way])
				op->measured_s[way] +=
				    find_shortest(op->step_s[way], steps->count[way]);
		memset(op->step_s, 0, sizeof(op->step_s));
	}
}

/* The command line of a training. */
struct line {
	const char *words[26];
	char batch[24], micro_batches[8], steps[24], ranks[16], profile[64];
};

/*
 * Train for some steps with a profile, BUSY on all ranks of the host together. Processors that
 * share caches, the memory's bandwidth, the units of a core or a limit of power are then slower
 * than one alone, each op by a factor of its own: plans for several ranks compute with it. As in
 * the run that is planned, ranks do the same op at the same time.
 */
static void build_line(struct line *l, const struct gt_bench_calibrate *b,
    const struct sample_model *m, const char *folder, int way)
{
	const char *const words[] = { b->self, "train", "--model", m->model, "--data", m->data,
		"--batch", l->batch, "--accumulate", l->micro_batches, "--steps", l->steps, "--out",
		folder, "--device", b->cli->device, "--threads",
		way == BUSY ? b->busy_threads : b->threads, "--nproc", l->ranks, "--save-every",
		"0", "--quiet", "--profile", l->profile, NULL };
	long long steps = b->cli->steps;

	snprintf(l->batch, sizeof(l->batch), "%lld", (long long)m->batch);
	snprintf(l->micro_batches, sizeof(l->micro_batches), "%d", MICRO_BATCHES);
	snprintf(l->steps, sizeof(l->steps), "%lld", steps + NOT_RECORDED);
	snprintf(l->ranks, sizeof(l->ranks), "%d", way == BUSY ? b->busy_ranks : 1);
	snprintf(l->profile, sizeof(l->profile), "wait=1,warmup=1,active=%lld", steps);
	memcpy(l->words, words, sizeof(words));
}

static int train(const struct gt_bench_calibrate *b, const struct sample_model *m,
    const char *folder, int way, struct gt_err *err)
{
	struct line line;
	struct gt_bench_process process = {
		.words = (char *const *)line.words, .stdout_fd = -1, .stop = b->stop
	};
	struct gt_bench_sample sample = { 0 };
	char why[GT_BENCH_ERROR_LINE_BYTES];
	int status, rc;

	build_line(&line, b, m, folder, way);
	rc = gt_bench_run(&sample, &status, &process, err);
	if (!rc && status) {
		gt_bench_note_failure(why, sample.error_line, status);
		rc = gt_err_set(err, GT_EIO, "training '%s' failed: %s", m->model, why);
	}
	return rc;
}

/* Read the trace of one rank of a run. */
static int read_rank(struct op_times *ops, struct steps *steps, int way, int first,
    const char *path, struct gt_err *err)
{
	json_t *trace = load_trace(path);
	int rc = 0;

	if (!trace || read_trace(ops, steps, way, first, trace))
		rc = gt_err_set(err, GT_EFORMAT, "%s has no steps", path);
	json_decref(trace);
	add_rank(ops, way);
	return rc;
}

/* Train, and read the times of the ops. */
static int measure_ranks(struct op_times *ops, struct steps *steps, int way,
    const struct gt_bench_calibrate *b, const struct sample_model *m, struct gt_err *err)
{
	char *folder = gt_asprintf(err, "%s/run", b->folder);
	int ranks = way == BUSY ? b->busy_ranks : 1, first = steps->count[way];
	int rc = folder ? train(b, m, folder, way, err) : GT_ENOMEM;

	for (int r = 0; !rc && r < ranks; r++) {
		char *path = gt_asprintf(err, "%s/trace/rank-%d.json.gz", folder, r);

		rc = path ? read_rank(ops, steps, way, first, path, err) : GT_ENOMEM;
		free(path);
	}
	if (folder)
		gt_folder_remove_all(folder);
	free(folder);
	return rc;
}

/* Both ways take turns, so that a busy moment of the machine hits them alike. */
static int measure_model(struct op_times *ops, double *step_s, const struct gt_bench_calibrate *b,
    const struct sample_model *m, struct gt_err *err)
{
	struct steps *steps = gt_calloc(1, sizeof(*steps), err);
	int turns = b->busy_ranks > 1 ? TURNS : 1, rc = steps ? 0 : GT_ENOMEM;

	for (int turn = 0; !rc && turn < turns; turn++) {
		rc = measure_ranks(ops, steps, ALONE, b, m, err);
		if (!rc && b->busy_ranks > 1)
			rc = measure_ranks(ops, steps, BUSY, b, m, err);
	}
	if (!rc) {
		add_measured(ops, steps);
		*step_s = find_shortest(steps->step_s[ALONE], steps->count[ALONE]);
	}
	free(steps);
	return rc;
}

/* ---- the time by the rates ---- */

/* The cluster of one device with the rates that were measured, and the factors so far. */
static int build_cluster(
    struct gt_cluster *c, const struct gt_bench_calibrate *b, int way, struct gt_err *err)
{
	const char *machine;
	int rc = gt_cluster_parse(c, b->host ? "1xcpu" : "1xH100", err);

	if (!rc)
		rc = gt_calibration_apply(c, &machine, b->out, "calibration", err);
	if (!rc)
		gt_cluster_use_threads(c, atoll(way == BUSY ? b->busy_threads : b->threads));
	return rc;
}

/* List the work of a step of a model on one rank. */
static int plan_model(struct gt_work_list *work, const struct gt_bench_calibrate *b,
    const struct sample_model *m, struct gt_err *err)
{
	struct gt_log log = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_train_outline outline;
	struct gt_train_stage stage = { 0 };
	struct gt_train_options o;
	struct gt_train *t;
	int rc;

	gt_train_options_init(&o);
	o.model = m->model;
	o.data = m->data;
	o.batch = (int)m->batch;
	o.accumulate = MICRO_BATCHES;
	o.where.devices = b->cli->device;
	rc = gt_train_open(&t, &o, true, &log, err);
	if (rc)
		return rc;
	rc = gt_train_stage_work(&stage, &outline, t, &o, 0, err);
	*work = stage.work;
	gt_train_close(t);
	return rc;
}

/* Add the time that the rates give to each op; the norm and the update are one phase. Return the
 * time of the step. */
static double add_planned(
    struct op_times *ops, int way, const struct gt_work_list *work, const struct gt_cluster *c)
{
	double step_s = 0;

	for (size_t i = 0; i < work->count; i++) {
		const struct gt_work *w = &work->list[i];
		enum gt_cost_bound bound;
		double seconds = gt_work_times(work, i) * gt_cost_compute(&bound, c, w, work->tf32);
		const char *name = strcmp(w->op, "norm") != 0 ? w->op : "update";
		struct op_time *op = ops ? find_op(ops, name) : NULL;

		if (op)
			op->planned_s[way] += seconds;
		step_s += seconds;
	}
	return step_s;
}

/* ---- factors ---- */

/* The norm and the update are one phase of a trace. */
static json_t *build_factors(const struct op_times *ops, int way)
{
	json_t *factors = json_object();

	for (int i = 0; i < ops->count; i++) {
		const struct op_time *op = &ops->list[i];

		if (op->measured_s[way] > 0 && op->planned_s[way] > 0)
			json_object_set_new(
			    factors, op->name, json_real(op->measured_s[way] / op->planned_s[way]));
	}
	if (json_object_get(factors, "update"))
		json_object_set(factors, "norm", json_object_get(factors, "update"));
	return factors;
}

static void set_factors(struct gt_bench_calibrate *b, const struct op_times *ops)
{
	double measured_s[WAYS] = { 0 };

	json_object_set_new(b->out, "ops", build_factors(ops, ALONE));
	if (b->busy_ranks < 2)
		return;
	for (int i = 0; i < ops->count; i++)
		for (int way = 0; way < WAYS; way++)
			measured_s[way] += ops->list[i].measured_s[way];
	json_object_set_new(b->out, "busy",
	    json_pack("{s:i,s:I,s:f,s:o}", "ranks", b->busy_ranks, "threads",
	        (json_int_t)atoll(b->busy_threads), "slower", measured_s[BUSY] / measured_s[ALONE],
	        "ops", build_factors(ops, BUSY)));
}

static int calibrate_models(struct gt_bench_calibrate *b, struct op_times *ops,
    const struct sample_model *models, int count, struct gt_log *log, struct gt_err *err)
{
	struct gt_work_list work[sizeof(samples) / sizeof(*samples)] = { 0 };
	double step_s[sizeof(samples) / sizeof(*samples)];
	json_t *steps = json_array();
	struct gt_cluster c[WAYS];
	int rc = 0;

	for (int way = 0; !rc && way < WAYS; way++)
		rc = build_cluster(&c[way], b, way, err);
	for (int i = 0; !rc && i < count; i++) {
		gt_log_info(log, "steps of %s", models[i].model);
		rc = measure_model(ops, &step_s[i], b, &models[i], err);
		if (!rc)
			rc = plan_model(&work[i], b, &models[i], err);
		for (int way = 0; !rc && way < WAYS; way++)
			(void)add_planned(ops, way, &work[i], &c[way]);
	}
	if (!rc) {
		set_factors(b, ops);
		rc = build_cluster(&c[ALONE], b, ALONE, err);
	}
	for (int i = 0; i < count; i++) {
		if (!rc)
			json_array_append_new(
			    steps, json_pack("{s:s,s:I,s:i,s:f,s:f}", "model", models[i].model,
			               "batch", (json_int_t)models[i].batch, "accumulate",
			               MICRO_BATCHES, "measured_s", step_s[i], "planned_s",
			               add_planned(NULL, ALONE, &work[i], &c[ALONE])));
		gt_work_release(&work[i]);
	}
	json_object_set_new(b->out, "steps", steps);
	return rc;
}

/* The model of the command line; its name is NULL if there is none. */
static struct sample_model own_model(const struct gt_bench_calibrate *b)
{
	return (struct sample_model){ b->cli->model,
		b->cli->data ? b->cli->data : "random,samples=65536", b->cli->batch };
}

int gt_bench_calibrate_check(const struct gt_bench_calibrate *b, struct gt_err *err)
{
	const struct sample_model own = own_model(b);
	struct gt_work_list work = { 0 };
	int rc = own.model ? plan_model(&work, b, &own, err) : 0;

	gt_work_release(&work);
	return rc;
}

int gt_bench_calibrate_ops(struct gt_bench_calibrate *b, struct gt_log *log, struct gt_err *err)
{
	const struct sample_model own = own_model(b);
	struct op_times *ops = gt_calloc(1, sizeof(*ops), err);
	int rc = GT_ENOMEM;

	if (ops && own.model)
		rc = calibrate_models(b, ops, &own, 1, log, err);
	else if (ops)
		rc = calibrate_models(
		    b, ops, samples, (int)(sizeof(samples) / sizeof(*samples)), log, err);
	free(ops);
	return rc;
}
