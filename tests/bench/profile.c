/* profile.c - where a training step's time goes: each kind of op, its GFLOP/s and its GB/s. */
#include <getopt.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/optim/optim.h"
#include "lib/train/session.h"

/*
 * bench_profile [-en] [-o sgd|adam|adamw] MODEL BATCH [STEPS]
 *
 * Runs STEPS (default 20) training steps on random data, timing each kernel by itself, and prints
 * the sum over the nodes of a kind of each node's median time, slowest kind first. -e: evaluation,
 * forward only. -n: a row for each node. GFLOP/s and GB/s come from the ops' own costs; threads are
 * OpenMP's (OMP_NUM_THREADS).
 */
enum { WARMUP = 3, ROWS_MAX = 4096 };

struct profile {
	bool eval, nodes;
	int batch, steps;
	const char *spec;
	struct gt_optim_options options;

	struct gt_session s;
	struct gt_dataset *data;
	struct gt_optim *optim;
	struct gt_program program;
	struct gt_batch samples;
	double
	    *times; /* [rows][steps]: each step of the plan, then feed, optimizer and the whole */
};

/* One line of the table. */
struct row {
	char name[96];
	int calls;
	double seconds, flops, bytes;
};

static void check(int rc, const struct gt_err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "bench_profile: %s\n", err->text);
	exit(1);
}

static int open_data(struct gt_session *s, void *self, struct gt_err *err)
{
	struct profile *p = self;
	struct gt_data_request request;
	char data[64];
	int rc;

	gt_data_request_of(&request, s->model, 1, 1);
	snprintf(data, sizeof(data), "random:,samples=%d", p->batch);
	rc = gt_dataset_open(&p->data, data, &request, err);
	if (!rc)
		s->input.form = gt_dataset_info(p->data)->form;
	return rc;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct profile *p = self;
	const struct gt_program_options options =
	    gt_session_program_options(s, p->eval ? GT_MODEL_EVAL : GT_MODEL_TRAIN);

	gt_session_add(s, &p->program);
	return gt_program_init(&p->program, &options, p->batch, err);
}

static int set_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	struct profile *p = self;
	int rc = gt_parallel_init(s->parallel, 1, err);

	return rc || p->eval ? rc : gt_optim_new(&p->optim, s->store, &p->options, err);
}

static void open_all(struct profile *p, struct gt_err *err)
{
	const struct gt_session_purpose purpose = {
		.trains = !p->eval, .input = open_data, .plan = plan, .weights = set_weights
	};

	check(gt_session_open(
	          &p->s, &(struct gt_session_options){ .model = p->spec }, &purpose, p, err),
	    err);
}

static void read_samples(struct profile *p, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(p->data);
	const struct gt_draw draw = { .train = true, .seed = 1 };

	p->samples.count = p->batch;
	p->samples.input = calloc((size_t)p->batch, info->input_bytes);
	p->samples.target = calloc((size_t)p->batch * info->targets, sizeof(int32_t));
	if (!p->samples.input || !p->samples.target)
		check(gt_err_set(err, GT_ENOMEM, "out of memory"), err);
	for (int i = 0; i < p->batch; i++)
		check(gt_dataset_read(p->data, i, &draw,
		          (char *)p->samples.input + (size_t)i * info->input_bytes,
		          p->samples.target + (size_t)i * info->targets, err),
		    err);
}

static void close_all(struct profile *p)
{
	gt_optim_free(p->optim);
	gt_session_close(&p->s);
	gt_dataset_close(p->data);
	free(p->samples.input);
	free(p->samples.target);
	free(p->times);
}

/* ---- running ---- */

static void feed(struct profile *p, int step, struct gt_err *err)
{
	struct gt_program *g = &p->program;
	const int64_t rng[GT_RNG_FIELDS] = {
		[GT_RNG_SEED] = 1, [GT_RNG_STEP] = step, [GT_RNG_STRIDE] = 1
	};
	float weight = 1 / ((float)p->batch * (float)gt_dataset_info(p->data)->targets);

	check(gt_program_feed(g, &p->samples, err), err);
	check(gt_program_set(g, weight, rng, err), err);
}

/* Run one step; times [rows], a column of p->times, gets the seconds. */
static void run_step(struct profile *p, int step, double *times, size_t stride, struct gt_err *err)
{
	size_t count, at = 0;
	const struct gt_step *steps = gt_plan_steps(p->program.plan, &count);
	double began = omp_get_wtime(), last = began, t;

	feed(p, step, err);
#define LAP() (t = omp_get_wtime(), times[at++ * stride] = t - last, last = t)
	LAP();
	for (size_t i = 0; i < count; i++) {
		/* The call is the plan's own; kernels use no more of it than it holds. */
		struct gt_call call = steps[i].call;

		check(steps[i].kernel->run(&call, err), err);
		LAP();
	}
	if (p->optim)
		check(gt_optim_step(p->optim, 1e-3, NULL, err), err);
	LAP();
#undef LAP
	times[at * stride] = last - began;
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

static double median(double *times, int count)
{
	qsort(times, (size_t)count, sizeof(*times), by_value);
	return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

/* ---- the table ---- */

static struct row *row_of(struct row *rows, size_t *count, const char *name)
{
	for (size_t i = 0; i < *count; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	if (*count == ROWS_MAX) {
		fprintf(stderr, "bench_profile: more than %d rows\n", ROWS_MAX);
		exit(1);
	}
	snprintf(rows[*count].name, sizeof(rows[*count].name), "%s", name);
	return &rows[(*count)++];
}

static void add(struct row *r, double seconds, double flops, double bytes)
{
	r->calls++;
	r->seconds += seconds;
	r->flops += flops;
	r->bytes += bytes;
}

/* Bytes that clip and update move: the norm reads the gradients once more. */
static double optimizer_bytes(const struct profile *p)
{
	const struct gt_store *s = p->s.store;
	double states = 0;

	for (size_t i = 0; i < s->plane_count; i++)
		if (s->planes[i]->saved == GT_SAVED_STATE)
			states += (double)gt_plane_bytes(s, s->planes[i]);
	return (double)s->flat_count * sizeof(float) * (1 + 3) + 2 * states;
}

static size_t fill_rows(struct profile *p, struct row *rows)
{
	size_t plan_steps, count = 0;
	const struct gt_step *steps = gt_plan_steps(p->program.plan, &plan_steps);
	double *times = p->times;

	add(row_of(rows, &count, "(feed)"), median(times, p->steps), 0, 0);
	for (size_t i = 0; i < plan_steps; i++) {
		const struct gt_node *n = steps[i].node;
		struct gt_cost cost;
		char name[96];

		times += p->steps;
		gt_node_cost(n, &cost);
		snprintf(
		    name, sizeof(name), p->nodes ? "%s %s #%zu" : "%s", n->op->name, n->scope, i);
		add(row_of(rows, &count, name), median(times, p->steps), cost.flops,
		    cost.bytes_read + cost.bytes_written);
	}
	times += p->steps;
	if (p->optim)
		add(row_of(rows, &count, "(optimizer)"), median(times, p->steps), 0,
		    optimizer_bytes(p));
	return count;
}

static int by_seconds(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	return a->seconds > b->seconds ? -1 : a->seconds < b->seconds;
}

static void print_row(const struct row *r, double whole, int width)
{
	printf("%-*s %5d %10.3f %6.1f", width, r->name, r->calls, r->seconds * 1e3,
	    r->seconds / whole * 100);
	printf(r->flops > 0 ? " %9.1f" : "         -", r->flops / r->seconds * 1e-9);
	printf(r->bytes > 0 ? " %8.1f\n" : "        -\n", r->bytes / r->seconds * 1e-9);
}

static void print_table(struct profile *p)
{
	static struct row rows[ROWS_MAX];
	size_t plan_steps, count = fill_rows(p, rows);
	struct row sum = { .name = "sum" };
	double whole;
	int width = 0;

	gt_plan_steps(p->program.plan, &plan_steps);
	whole = median(p->times + (plan_steps + 2) * (size_t)p->steps, p->steps);
	qsort(rows, count, sizeof(*rows), by_seconds);
	for (size_t i = 0; i < count; i++) {
		int length = (int)strlen(rows[i].name);

		width = length > width ? length : width;
		sum.calls += rows[i].calls;
		sum.seconds += rows[i].seconds;
		sum.flops += rows[i].flops;
		sum.bytes += rows[i].bytes;
	}
	printf("%s, batch %d, %s, %d threads, medians of %d steps\n", p->spec, p->batch,
	    p->eval ? "evaluation" : gt_optim_names[p->options.kind], omp_get_max_threads(),
	    p->steps);
	printf("%-*s calls    ms/step      %%   GFLOP/s     GB/s\n", width, "op");
	for (size_t i = 0; i < count; i++)
		print_row(&rows[i], whole, width);
	print_row(&sum, whole, width);
	printf("whole step %.3f ms, %.1f samples/s, %.1f GFLOP/s\n", whole * 1e3, p->batch / whole,
	    sum.flops / whole * 1e-9);
}

static int usage(void)
{
	fputs("usage: bench_profile [-en] [-o sgd|adam|adamw] MODEL BATCH [STEPS]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct profile p = { .steps = 20,
		.options = { .kind = GT_ADAMW,
		    .momentum = 0.9,
		    .beta1 = 0.9,
		    .beta2 = 0.999,
		    .eps = 1e-8,
		    .weight_decay = 0.1,
		    .clip = 1 } };
	struct gt_err err = GT_ERR_INIT;
	size_t rows;
	int c, kind;

	while ((c = getopt(argc, argv, "eno:")) != -1) {
		kind = 0;
		while (c == 'o' && kind < GT_OPTIM_KINDS && strcmp(gt_optim_names[kind], optarg))
			kind++;
		if (c == '?' || kind == GT_OPTIM_KINDS)
			return usage();
		p.eval |= c == 'e';
		p.nodes |= c == 'n';
		if (c == 'o')
			p.options.kind = (enum gt_optim_kind)kind;
	}
	if (argc - optind < 2 || argc - optind > 3)
		return usage();
	p.spec = argv[optind];
	p.batch = atoi(argv[optind + 1]);
	if (argc - optind == 3)
		p.steps = atoi(argv[optind + 2]);
	if (p.batch < 1 || p.steps < 1)
		return usage();
	open_all(&p, &err);
	read_samples(&p, &err);
	gt_plan_steps(p.program.plan, &rows);
	p.times = calloc((rows + 3) * (size_t)p.steps, sizeof(*p.times));
	if (!p.times)
		check(gt_err_set(&err, GT_ENOMEM, "out of memory"), &err);
	for (int i = -WARMUP; i < p.steps; i++)
		run_step(&p, i + WARMUP, p.times + (i < 0 ? 0 : i), (size_t)p.steps, &err);
	print_table(&p);
	close_all(&p);
	return 0;
}
