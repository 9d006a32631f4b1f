/* test_training.c - ranks that train and evaluate on simulated GPUs, beside the same on the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/launch/threads.h"
#include "lib/train/state.h"
#include "tests/common/device.h"
#include "tests/cudasim/cudasim.h"

enum { MOST = 4, STEPS = 3 };

/* ---- a run ---- */

/* A rank's results. */
struct course {
	const struct gt_train_options *options;
	FILE *lines; /* of --verbose; or NULL */
	double loss[STEPS], evaluated;
	float norm[STEPS];
};

static int note_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct course *c = self;

	(void)err;
	c->loss[r->step - 1] = r->loss;
	c->norm[r->step - 1] = r->grad_norm;
	return 0;
}

static int train(void *self, struct gt_group *group, struct gt_err *err)
{
	static const atomic_bool never;
	struct course *c = (struct course *)self + group->rank;
	struct gt_train_options options = *c->options;
	const struct gt_observer observer = { .self = c, .step = note_step };
	struct gt_log log = { .stream = c->lines ? c->lines : stderr,
		.level = c->lines ? GT_LOG_VERBOSE : GT_LOG_QUIET };
	struct gt_train_result result;
	struct gt_train *t;
	int rc;

	omp_set_num_threads(1);
	options.where.group = group;
	options.where.host_rank = group->rank;
	rc = gt_train_open(&t, &options, false, &log, err);
	if (rc)
		return rc;
	rc = gt_train_run(t, NULL, &observer, 1, &never, &result, err);
	c->evaluated = result.last.loss;
	gt_train_close(t);
	return rc;
}

struct mode {
	const char *model;
	int accumulate;
	struct gt_parallel_options parallel;
	enum gt_amp amp;
	bool tf32;
};

/* Ranks that share a GPU, or need sums in a fixed order, form a ring. */
static bool goes_over_nccl(const struct mode *m, int ranks, int gpus)
{
	const char *way = m->parallel.way;

	return ranks > 1 && ranks <= gpus && !m->parallel.reproducible &&
	       (!way || !strcmp(way, "nccl"));
}

static void run_with(
    struct course *courses, const struct mode *m, int ranks, const char *device, FILE *lines)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };
	struct gt_err err = GT_ERR_INIT;
	struct gt_train_options options = { .where = { .devices = device, .way = m->parallel.way },
		.model = m->model,
		.data = "random:,samples=120",
		.val = "random:,samples=14",
		.eval_every = STEPS,
		.steps = STEPS,
		.batch = 8 / ranks,
		.accumulate = m->accumulate,
		.amp = m->amp,
		.tf32 = m->tf32,
		.seed = 3,
		.optim = { .kind = GT_ADAMW,
		    .beta1 = 0.9,
		    .beta2 = 0.999,
		    .eps = 1e-8,
		    .clip = 0.5 },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1,
		.parallel = m->parallel };

	options.parallel.bucket_bytes = 4096;
	for (int i = 0; i < ranks; i++)
		courses[i] = (struct course){ .options = &options, .lines = lines };
	if (gt_threads_run(ranks, &threads, train, courses, &err))
		fail_msg("%s, %s, %s, %d ranks: %s", device, m->model,
		    gt_parallel_names[m->parallel.kind], ranks, err.text);
}

static void run(struct course *courses, const struct mode *m, int ranks, const char *device)
{
	run_with(courses, m, ranks, device, NULL);
}

/* ---- comparing ---- */

static void expect_near(double gpu, double cpu, double tolerance, const char *what)
{
	if (!(fabs(gpu - cpu) <= tolerance * fabs(cpu)))
		fail_msg("%s: %.9g, on the CPU %.9g", what, gpu, cpu);
}

static void compare(
    const struct course *gpu, const struct course *cpu, double tolerance, const char *what)
{
	for (int i = 0; i < STEPS; i++) {
		expect_near(gpu->loss[i], cpu->loss[i], tolerance, what);
		expect_near(gpu->norm[i], cpu->norm[i], 10 * tolerance, what);
	}
	expect_near(gpu->evaluated, cpu->evaluated, tolerance, what);
	assert_true(cpu->loss[0] != cpu->loss[STEPS - 1] && cpu->evaluated > 0);
}

/* The ranks of the CPU, and those of so many GPUs: every rank has the same losses. */
static void run_both(const struct mode *m, int ranks, int gpus, double tolerance)
{
	struct course cpu[MOST], gpu[MOST];
	struct mode on_cpu = *m;
	char what[100], count[8];

	snprintf(what, sizeof(what), "%s, %s, tensor %d, stages %d, %d ranks on %d GPUs", m->model,
	    gt_parallel_names[m->parallel.kind], m->parallel.tensor, m->parallel.stages, ranks,
	    gpus);
	snprintf(count, sizeof(count), "%d", gpus);
	setenv("CUDASIM_DEVICES", count, 1);
	cudasim_seed((uint64_t)(ranks * 10 + gpus));
	cudasim_nccl.calls = 0;
	on_cpu.parallel.way = NULL;
	run(cpu, &on_cpu, ranks, "cpu");
	run(gpu, m, ranks, "cuda");
	if ((cudasim_nccl.calls > 0) != goes_over_nccl(m, ranks, gpus))
		fail_msg("%s: %ld calls of NCCL", what, cudasim_nccl.calls);
	for (int i = 0; i < ranks; i++)
		compare(&gpu[i], &cpu[i], tolerance, what);
	for (int i = 0; i < CUDASIM_DEVICES; i++)
		if (cudasim_fault(i))
			fail_msg("%s: GPU %d: %s", what, i, cudasim_fault(i));
}

#define GPT  "gpt:layers=2,heads=2,width=16,block=4,vocab=13,dropout=0.1"
#define MLP  "mlp:20,30,10"
#define DEEP "mlp:20,30,30,30,10"
#define VIT  "vit:image=9,patch=3,layers=2,heads=2,width=16,classes=5"

/* Every model, by one rank: captured from its second step on. */
static void models_train_as_on_the_cpu(void **state)
{
	static const struct mode modes[] = {
		{ MLP, 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false },
		{ "lenet", 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false },
		{ GPT, 2, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		run_both(&modes[i], 1, 1, 1e-4);
}

/* With factors rounded to TF32, by 2^-11: as without to within 2^-9, which is not derived but kept
 * by all of these; with other bits; as one rank or as two, that share the samples or each layer. */
static void models_train_in_tf32(void **state)
{
	static const struct {
		struct mode mode;
		int ranks;
	} cases[] = {
		{ { MLP, 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false }, 1 },
		{ { "lenet", 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false }, 1 },
		{ { GPT, 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false }, 2 },
		{ { GPT, 1, { .kind = GT_PARALLEL_DDP, .tensor = 2 }, GT_AMP_OFF, false }, 2 },
	};

	(void)state;
	setenv("CUDASIM_DEVICES", "2", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mode rounded = cases[i].mode;
		struct course whole[MOST], tf32[MOST];

		if (!test_takes_row(2, i))
			continue;
		rounded.tf32 = true;
		run(whole, &cases[i].mode, cases[i].ranks, "cuda");
		run(tf32, &rounded, cases[i].ranks, "cuda");
		for (int r = 0; r < cases[i].ranks; r++) {
			compare(&tf32[r], &whole[r], 0x1p-9, rounded.model);
			assert_true(tf32[r].loss[0] != whole[r].loss[0]);
			assert_true(tf32[r].norm[0] != whole[r].norm[0]);
			assert_true(tf32[r].loss[STEPS - 1] == tf32[0].loss[STEPS - 1]);
		}
	}
}

/* Rounding to 16 bits differs where sums differ in the last bit. */
static void models_train_in_16_bits(void **state)
{
	static const struct mode modes[] = {
		{ GPT, 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_BF16, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		run_both(&modes[i], 1, 1, 2e-2);
}

/* Every mode, and one of them on every site: ranks that share a GPU, or some of them, or none. */
static void ranks_train_as_on_the_cpu(void **state)
{
	static const struct mode modes[] = {
		{ MLP, 1, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false },
		{ MLP, 2, { .kind = GT_PARALLEL_DP }, GT_AMP_OFF, false },
		{ MLP, 1, { .kind = GT_PARALLEL_MIRRORED, .check_every = 2 }, GT_AMP_OFF, false },
		{ GPT, 2, { .kind = GT_PARALLEL_DDP }, GT_AMP_OFF, false },
		{ GPT, 1, { .kind = GT_PARALLEL_ZERO1 }, GT_AMP_OFF, false },
		{ GPT, 1, { .kind = GT_PARALLEL_ZERO2 }, GT_AMP_OFF, false },
		{ MLP, 1, { .kind = GT_PARALLEL_ZERO3 }, GT_AMP_OFF, false },
		{ GPT, 1, { .kind = GT_PARALLEL_ZERO3 }, GT_AMP_OFF, false },
		{ GPT, 1, { .kind = GT_PARALLEL_DDP, .tensor = 2 }, GT_AMP_OFF, false },
		{ GPT, 1, { .kind = GT_PARALLEL_DDP, .tensor = 2, .sequence = true }, GT_AMP_OFF,
		    false },
		{ VIT, 1, { .kind = GT_PARALLEL_DDP, .tensor = 2, .sequence = true }, GT_AMP_OFF,
		    false },
		{ GPT, 1, { .kind = GT_PARALLEL_DDP, .stages = 2 }, GT_AMP_OFF, false },
	};
	static const struct {
		int ranks, gpus;
	} sites[] = { { 2, 1 }, { 2, 2 }, { 4, 4 }, { 4, 3 } };

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		for (size_t k = 0; k < sizeof(sites) / sizeof(*sites); k++)
			if (k == i % 4 && test_takes_row(2, i))
				run_both(&modes[i], sites[k].ranks, sites[k].gpus, 1e-4);
}

/* Several groups of NCCL on a GPU, whose kernels wait for each other unless there is an order: that
 * of events, or of the calls, in which they overlap or do not. */
static void groups_of_nccl_are_in_order(void **state)
{
	static const struct {
		struct mode mode;
		int ranks;
		const char *implicit; /* NCCL_LAUNCH_ORDER_IMPLICIT; or NULL */
		bool serial;
	} cases[] = {
		{ { DEEP, 1, { .stages = 2, .chunks = 4, .pipeline_schedule = GT_PIPELINE_1F1B },
		      GT_AMP_OFF, false },
		    2, NULL, false },
		{ { DEEP, 2, { .stages = 2, .chunks = 4 }, GT_AMP_OFF, false }, 2, "1", true },
		{ { DEEP, 1, { .stages = 4, .chunks = 2, .pipeline_schedule = GT_PIPELINE_1F1B },
		      GT_AMP_OFF, false },
		    4, "1", false },
		{ { GPT, 1, { .kind = GT_PARALLEL_ZERO1, .stages = 2 }, GT_AMP_OFF, false }, 4,
		    NULL, false },
		{ { GPT, 1, { .stages = 2, .tensor = 2 }, GT_AMP_OFF, false }, 4, "1", true },
		{ { GPT, 1, { .tensor = 2 }, GT_AMP_OFF, false }, 4, "1", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (cases[i].implicit)
			setenv("NCCL_LAUNCH_ORDER_IMPLICIT", cases[i].implicit, 1);
		cudasim_nccl.serial = cases[i].serial;
		run_both(&cases[i].mode, cases[i].ranks, cases[i].ranks, 1e-4);
		unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
		cudasim_nccl.serial = false;
	}
}

static void ranks_go_the_way_that_is_named(void **state)
{
	static const struct mode modes[] = {
		{ MLP, 1, { .way = "staged" }, GT_AMP_OFF, false },
		{ MLP, 1, { .way = "nccl" }, GT_AMP_OFF, false },
		{ MLP, 1, { .way = "ring" }, GT_AMP_OFF, false },
		{ MLP, 1, { .reproducible = true }, GT_AMP_OFF, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		run_both(&modes[i], 2, 2, 1e-4);
}

/* By a ring on one GPU, as one rank: in the modes of the data axis. */
static void a_ring_trains_as_one_rank(void **state)
{
	static const struct mode modes[] = {
		{ MLP, 1, { .kind = GT_PARALLEL_DDP, .way = "ring" }, GT_AMP_OFF, false },
		{ MLP, 1, { .kind = GT_PARALLEL_ZERO1, .way = "ring" }, GT_AMP_OFF, false },
		{ MLP, 1, { .kind = GT_PARALLEL_ZERO2, .way = "ring" }, GT_AMP_OFF, false },
		{ MLP, 1, { .kind = GT_PARALLEL_ZERO3, .way = "ring" }, GT_AMP_OFF, false },
	};

	(void)state;
	setenv("CUDASIM_DEVICES", "1", 1);
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct course one, two[2];

		run(&one, &modes[i], 1, "cuda");
		run(two, &modes[i], 2, "cuda");
		for (int r = 0; r < 2; r++)
			compare(&two[r], &one, 1e-5, gt_parallel_names[modes[i].parallel.kind]);
	}
}

static int count_lines_with(FILE *f, const char *text)
{
	char line[1000];
	int count = 0;

	rewind(f);
	while (fgets(line, sizeof(line), f))
		count += strstr(line, text) != NULL;
	return count;
}

/* Rank 0 alone logs the reason, and only if the user did not ask for that backend. */
static void a_slower_way_is_told(void **state)
{
	static const struct {
		struct mode mode;
		const char *gpus;
		int lines;
	} cases[] = {
		{ { MLP, 1, { 0 }, GT_AMP_OFF, false }, "1", 1 },
		{ { MLP, 1, { 0 }, GT_AMP_OFF, false }, "2", 0 },
		{ { MLP, 1, { .way = "staged" }, GT_AMP_OFF, false }, "1", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct course courses[2];
		FILE *f = tmpfile();

		assert_non_null(f);
		setenv("CUDASIM_DEVICES", cases[i].gpus, 1);
		run_with(courses, &cases[i].mode, 2, "cuda", f);
		assert_int_equal(count_lines_with(f, "GPUs reach each other by ring: ranks 0 and 1 "
		                                     "share the GPU cuda:0"),
		    cases[i].lines);
		assert_int_equal(count_lines_with(f, "GPUs reach each other"), cases[i].lines);
		fclose(f);
	}
}

/* So many ranks, with a GPU each or on shared ones: the same bits. Products are those of the first
 * algorithm, as times differ from rank to rank. */
static void sums_have_a_fixed_order(void **state)
{
	static const struct mode modes[] = {
		{ MLP, 1, { .reproducible = true }, GT_AMP_OFF, false },
		{ GPT, 1, { .reproducible = true }, GT_AMP_OFF, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct course one, many[MOST];

		setenv("CUDASIM_DEVICES", "3", 1);
		run(&one, &modes[i], 1, "cuda");
		assert_int_equal(cudasim_products.algorithm, 0);
		for (int ranks = 2; ranks <= MOST; ranks *= 2) {
			run(many, &modes[i], ranks, "cuda");
			assert_memory_equal(many->loss, one.loss, sizeof(one.loss));
			assert_memory_equal(many->norm, one.norm, sizeof(one.norm));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(models_train_as_on_the_cpu),
		cmocka_unit_test(models_train_in_tf32),
		cmocka_unit_test(models_train_in_16_bits),
		cmocka_unit_test(ranks_train_as_on_the_cpu),
		cmocka_unit_test(groups_of_nccl_are_in_order),
		cmocka_unit_test(ranks_go_the_way_that_is_named),
		cmocka_unit_test(a_ring_trains_as_one_rank),
		cmocka_unit_test(a_slower_way_is_told),
		cmocka_unit_test(sums_have_a_fixed_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
