/* test_far_ranks.c - ranks that share a model, on devices whose memory the host cannot touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/launch/threads.h"
#include "lib/train/state.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/fake/far/far.h"

/* ---- a device that forgets to wait ---- */

/* The far device, but one of the waits for events, from 1 on, is left out. */
static struct gt_backend forgetful;
const struct gt_backend *const gt_backends[] = { &gt_cpu_backend, &forgetful, NULL };

static _Thread_local bool counts_waits;
static int waits, forgotten;

static int forget_wait(struct gt_stream *stream, struct gt_event *event, struct gt_err *err)
{
	return counts_waits && ++waits == forgotten ? 0
	                                            : far_backend.event_wait(stream, event, err);
}

/* ---- single steps, and evaluation ---- */

enum { STEPS = 3, MOST = 4 };

struct course {
	double loss[STEPS], stats[MODEL_RANK_STATS];
	float norm[STEPS];
};

static int train(struct model_rank *r)
{
	struct course *c = (struct course *)r->user + r->group->rank;
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		rc = r->accumulate ? gt_optim_zero_grad(r->optim, &r->err) : 0;
		if (!rc)
			rc = model_rank_step(r, 1);
		c->loss[i] = r->loss;
		memcpy(c->stats, r->stats, sizeof(c->stats));
		if (!rc && !r->evaluates)
			rc = model_rank_update(r, 0.01);
		c->norm[i] = r->norm;
	}
	return rc || r->evaluates ? rc : model_rank_collect(r, 0, r->store->parameters);
}

struct ranks {
	struct model_rank rank[MOST];
	struct course course[MOST];
};

static void run_ranks(
    struct ranks *all, const struct model_rank *like, int count, const char *backend)
{
	struct model_rank mine = *like;

	memset(all, 0, sizeof(*all));
	mine.user = all->course;
	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	model_ranks_run(all->rank, count, &mine, train);
	model_ranks_expect_well(all->rank, count);
}

static void compare(const struct ranks *near, const struct ranks *far, const char *what)
{
	const struct gt_store *s = near->rank[0].store;

	if (memcmp(near->course, far->course, sizeof(near->course)))
		fail_msg("%s: losses, norms or counts differ", what);
	for (size_t i = 0; near->rank[0].whole[0] && i < s->slot_count; i++)
		if (near->rank[0].whole[0][i] &&
		    memcmp(near->rank[0].whole[0][i], far->rank[0].whole[0][i],
		        gt_slot_bytes(&s->slots[i])))
			fail_msg("%s: '%s' differs", what, s->slots[i].name);
}

#define GPT "gpt:layers=2,heads=2,width=8,block=4,vocab=13,dropout=0.1"

static const struct {
	const char *what;
	int count;
	struct model_rank like;
} cases[] = {
	{ "tensor, mlp", 2, { .spec = "mlp:20,30,10", .options = { .tensor = 2 } } },
	{ "tensor, gpt", 2, { .spec = GPT, .options = { .tensor = 2 } } },
	{ "tensor, evaluation", 2, { .spec = GPT, .options = { .tensor = 2 }, .evaluates = true } },
	{ "tensor and sequence", 2, { .spec = GPT, .options = { .tensor = 2, .sequence = true } } },
	{ "tensor and data", 4, { .spec = GPT, .options = { .tensor = 2 } } },
	{ "tensor, repeated heads", 4,
	    { .spec = "llama:layers=1,heads=4,kv_heads=2,width=16,hidden=24,block=4,vocab=13",
	        .options = { .tensor = 4 } } },
	{ "tensor, a single layer", 2, { .spec = "mlp:20,10", .options = { .tensor = 2 } } },
	{ "pipeline", 2,
	    { .spec = "mlp:20,30,10", .options = { .stages = 2 }, .accumulate = true } },
	{ "tensor and pipeline", 4,
	    { .spec = GPT, .options = { .tensor = 2, .stages = 2 }, .accumulate = true } },
	{ "tensor and zero1", 4,
	    { .spec = GPT, .options = { .kind = GT_PARALLEL_ZERO1, .tensor = 2 } } },
	{ "pipeline and zero1", 4,
	    { .spec = GPT,
	        .options = { .kind = GT_PARALLEL_ZERO1, .stages = 2 },
	        .accumulate = true } },
	{ "pipeline and zero2", 4,
	    { .spec = GPT,
	        .options = { .kind = GT_PARALLEL_ZERO2, .stages = 2 },
	        .accumulate = true } },
	{ "pipeline and zero3", 4,
	    { .spec = GPT,
	        .options = { .kind = GT_PARALLEL_ZERO3, .stages = 2 },
	        .accumulate = true } },
	{ "tensor and sequence, float16", 2,
	    { .spec = GPT,
	        .options = { .tensor = 2, .sequence = true, .precision.low = GT_F16 } } },
	{ "tensor, float16", 2,
	    { .spec = GPT, .options = { .tensor = 2, .precision.low = GT_F16 } } },
	{ "pipeline, float16", 2,
	    { .spec = GPT,
	        .options = { .stages = 2, .precision.low = GT_F16 },
	        .accumulate = true } },
	{ "tensor and pipeline, float16", 4,
	    { .spec = GPT,
	        .options = { .tensor = 2, .stages = 2, .precision.low = GT_F16 },
	        .accumulate = true } },
	{ "tensor and pipeline, sums in bfloat16", 4,
	    { .spec = GPT,
	        .options = { .tensor = 2,
	            .stages = 2,
	            .precision = { .low = GT_BF16, .low_sums = true } },
	        .accumulate = true } },
};

/* The host's losses, norms, counts and weights, bit by bit. */
static void far_ranks_have_the_bits_of_near_ones(void **state)
{
	static const struct gt_optim_options adamw = {
		.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 0.1
	};
	struct gt_optim_options scaled = adamw;

	(void)state;
	scaled.scaler = gt_scaler_default;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct model_rank like = cases[i].like;
		struct ranks near, far;

		like.samples = 4;
		like.optimizer = like.options.precision.low == GT_F16 ? &scaled : &adamw;
		like.options.bucket_bytes = 4096;
		run_ranks(&near, &like, cases[i].count, "cpu");
		run_ranks(&far, &like, cases[i].count, "far");
		compare(&near, &far, cases[i].what);
		assert_true(like.evaluates ? near.course->stats[1] > 0
		                           : near.course->norm[0] != near.course->norm[1]);
		model_ranks_close(near.rank, cases[i].count);
		model_ranks_close(far.rank, cases[i].count);
	}
}

/* ---- the training loop ---- */

enum { LOOP_STEPS = 8, WARM = 3 };

/* A rank's results. */
struct meter {
	const struct gt_train_options *options;
	struct gt_train *t;
	int rank;
	double loss[LOOP_STEPS];
	float norm[LOOP_STEPS];
	long blocking[LOOP_STEPS]; /* calls for its device until then */
	void **weights;            /* rank 0: of each parameter */
	size_t *bytes, slots;      /* of them */
};

static int note_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct meter *m = self;

	(void)err;
	m->loss[r->step - 1] = r->loss;
	m->norm[r->step - 1] = r->grad_norm;
	m->blocking[r->step - 1] = far_counts(m->rank).blocking;
	counts_waits = !m->rank && r->step == WARM;
	return 0;
}

static int collect(struct meter *m, struct gt_err *err)
{
	const struct gt_store *s = m->t->s.store;
	int rc = 0;

	m->slots = s->slot_count;
	m->weights = calloc(s->slot_count, sizeof(*m->weights));
	m->bytes = calloc(s->slot_count, sizeof(*m->bytes));
	assert_true(m->weights && m->bytes);
	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role != GT_PARAMETER)
			continue;
		m->bytes[i] = gt_slot_bytes(slot);
		m->weights[i] = m->rank ? NULL : calloc(1, m->bytes[i]);
		rc = gt_parallel_gather_slot(
		    m->t->s.parallel, s->parameters, slot, 0, slot->count, m->weights[i], err);
	}
	return rc;
}

static int train_loop(void *self, struct gt_group *group, struct gt_err *err)
{
	static const atomic_bool never;
	struct meter *m = (struct meter *)self + group->rank;
	struct gt_train_options options = *m->options;
	const struct gt_observer observer = { .self = m, .step = note_step };
	struct gt_log silent = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_train_result result;
	int rc;

	omp_set_num_threads(1);
	m->rank = group->rank;
	options.where.group = group;
	options.where.host_rank = group->rank;
	rc = gt_train_open(&m->t, &options, false, &silent, err);
	if (rc)
		return rc;
	rc = gt_train_run(m->t, NULL, &observer, 1, &never, &result, err);
	counts_waits = false;
	if (!rc)
		rc = collect(m, err);
	gt_train_close(m->t);
	return rc;
}

struct loop_case {
	const char *model;
	int accumulate;
	bool compares; /* the host compares the weights of ranks, and waits for them */
	struct gt_parallel_options options;
};

static int run_loop(struct meter *meters, const struct loop_case *c, int ranks, const char *device,
    struct gt_err *err)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };
	struct gt_train_options options = { .where.devices = device,
		.model = c->model,
		.data = "random:,samples=192",
		.steps = LOOP_STEPS,
		.batch = 12 / ranks,
		.accumulate = c->accumulate,
		.amp = c->options.precision.low == GT_F16 ? GT_AMP_FP16 : GT_AMP_OFF,
		.seed = 3,
		.optim = { .kind = GT_ADAMW,
		    .beta1 = 0.9,
		    .beta2 = 0.999,
		    .eps = 1e-8,
		    .clip = 0.5 },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1,
		.parallel = c->options };

	options.parallel.bucket_bytes = 4096;
	for (int i = 0; i < ranks; i++)
		meters[i] = (struct meter){ .options = &options };
	return gt_threads_run(ranks, &threads, train_loop, meters, err);
}

static void release_meters(struct meter *meters, int ranks)
{
	for (int r = 0; r < ranks; r++) {
		for (size_t i = 0; i < meters[r].slots; i++)
			free(meters[r].weights[i]);
		free(meters[r].weights);
		free(meters[r].bytes);
	}
}

static void expect_same(const struct meter *near, const struct meter *far, const char *what)
{
	if (memcmp(near->loss, far->loss, sizeof(near->loss)) ||
	    memcmp(near->norm, far->norm, sizeof(near->norm)))
		fail_msg("%s: losses or norms differ", what);
	assert_true(near->loss[0] != near->loss[LOOP_STEPS - 1] && near->weights);
	for (size_t i = 0; i < near->slots; i++)
		if (near->weights[i] && memcmp(near->weights[i], far->weights[i], near->bytes[i]))
			fail_msg("%s: tensor %zu differs", what, i);
}

static void expect_no_blocking(const struct meter *far, int ranks, const char *what)
{
	for (int r = 0; r < ranks; r++)
		for (int step = WARM; step < LOOP_STEPS - 1; step++)
			if (far[r].blocking[step] != far[r].blocking[step - 1])
				fail_msg(
				    "%s, rank %d: the host waits in step %d", what, r, step + 1);
}

#define LOOP_GPT "gpt:layers=2,heads=2,width=16,block=4,vocab=13,dropout=0.1"

static const struct loop_case loop_cases[] = {
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_DDP } },
	{ LOOP_GPT, 2, false, { .kind = GT_PARALLEL_DDP, .compress = GT_COMPRESS_BF16 } },
	{ "mlp:20,30,10", 1, true, { .kind = GT_PARALLEL_MIRRORED, .check_every = 1 } },
	{ "mlp:20,30,10", 2, false, { .kind = GT_PARALLEL_DP } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_DP } },
	{ "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_DP, .precision.low = GT_F16 } },
	{ LOOP_GPT, 2, false, { .kind = GT_PARALLEL_ZERO1 } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_ZERO1, .compress = GT_COMPRESS_BF16 } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_ZERO3, .compress = GT_COMPRESS_FP16 } },
	{ LOOP_GPT, 2, false, { .kind = GT_PARALLEL_ZERO2 } },
	{ LOOP_GPT, 2, false, { .kind = GT_PARALLEL_ZERO3 } },
	{ "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_DDP, .reproducible = true } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_DDP, .tensor = 2 } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_DDP, .tensor = 2, .sequence = true } },
	{ LOOP_GPT, 1, false, { .kind = GT_PARALLEL_DDP, .stages = 2 } },
};

enum { LOOP_CASES = sizeof(loop_cases) / sizeof(*loop_cases) };

/* The CPU's bits, whatever the order of what may be in any, and the host never waits in a step. */
static void every_mode_trains_without_the_host(void **state)
{
	(void)state;
	for (int i = 0; i < 4 * LOOP_CASES; i++) {
		const struct loop_case *c = &loop_cases[i / 4];
		struct meter near[MOST] = { 0 }, far[MOST] = { 0 };
		struct gt_err err = GT_ERR_INIT;
		int ranks = 1 + i % 4;
		char what[80], seed[16];

		if (c->options.reproducible && ranks == 3)
			continue;
		if ((c->options.tensor > 1 || c->options.stages > 1) && ranks % 2)
			continue;
		snprintf(what, sizeof(what), "%s, case %d, %d ranks",
		    gt_parallel_names[c->options.kind], i / 4, ranks);
		snprintf(seed, sizeof(seed), "%d", i);
		setenv("GTRAIN_FAR_SEED", seed, 1);
		if (run_loop(near, c, ranks, "cpu", &err) || run_loop(far, c, ranks, "far", &err))
			fail_msg("%s: %s", what, err.text);
		expect_same(near, far, what);
		if (!c->compares)
			expect_no_blocking(far, ranks, what);
		else if (ranks > 1)
			assert_true(far->blocking[WARM + 1] > far->blocking[WARM]);
		release_meters(near, ranks);
		release_meters(far, ranks);
	}
	unsetenv("GTRAIN_FAR_SEED");
}

/* ---- planted faults ---- */

/*
 * Without one of the waits in a step of rank 0 the device finds a fault: `found` of them or more.
 * The others are for nothing here: each collective is one chunk, whose slot (lib/comm/staged.h) has
 * been empty for long, and some waits are for work that a later one is for, too.
 */
static void a_missing_wait_is_found(void **state)
{
	static const struct {
		struct loop_case c;
		int found;
	} modes[] = {
		{ { "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_DDP } }, 10 },
		{ { "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_DP } }, 10 },
		{ { "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_ZERO2 } }, 14 },
		{ { "mlp:20,30,10", 1, false, { .kind = GT_PARALLEL_ZERO3 } }, 18 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		int all = 0, found = 0;

		for (forgotten = waits = 0; forgotten <= all; forgotten++, waits = 0) {
			struct meter far[2] = { 0 };
			struct gt_err err = GT_ERR_INIT;
			int rc = run_loop(far, &modes[i].c, 2, "far", &err);

			release_meters(far, 2);
			all = forgotten ? all : waits;
			/* Of the device, or of the other rank's group, which rank 0 has left. */
			assert_true(far_fault(0) ? rc == GT_EDEVICE || rc == GT_EIO : !rc);
			assert_true(forgotten || !far_fault(0));
			found += far_fault(0) != NULL;
			far_forget(0);
			far_forget(1);
		}
		if (found < modes[i].found)
			fail_msg("%s: %d of %d missing waits are found",
			    gt_parallel_names[modes[i].c.options.kind], found, all);
	}
	forgotten = 0;
}

/* ---- errors on the way ---- */

static int refused;
static _Thread_local int pinned;

static int fail_pinned(int index, size_t bytes, void **out, struct gt_err *err)
{
	if (++pinned == refused)
		return gt_err_set(err, GT_ENOMEM, "planted");
	return far_backend.host_alloc(index, bytes, out, err);
}

static int no_devices(void)
{
	return 0;
}

static int open_grid(void *self, struct gt_group *group, struct gt_err *err)
{
	struct gt_train_options options = { .model = LOOP_GPT,
		.data = "random:,samples=64",
		.steps = 1,
		.batch = 4,
		.accumulate = 1,
		.optim = { .kind = GT_SGD },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1,
		.parallel = { .tensor = 2, .stages = 2, .bucket_bytes = 4096 },
		.where = { .devices = "far", .group = group, .host_rank = group->rank } };
	struct gt_log silent = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_train *t;
	int rc = gt_train_open(&t, &options, false, &silent, err);

	(void)self;
	if (!rc)
		gt_train_close(t);
	return rc;
}

/* As on a machine that has the backend, but no GPU. */
static void a_backend_without_devices_is_an_error(void **state)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	forgetful.count = no_devices;
	assert_int_equal(gt_threads_run(MOST, &threads, open_grid, NULL, &err), GT_EDEVICE);
	forgetful.count = far_backend.count;
	assert_non_null(strstr(err.text, "far: this machine has none"));
}

/* Whichever of the groups for device memory is the last that could be made, all are closed. */
static void groups_that_are_not_all_made_are_closed(void **state)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };

	(void)state;
	forgetful.host_alloc = fail_pinned;
	for (refused = 1; refused <= 8; refused++) {
		struct gt_err err = GT_ERR_INIT;

		if (gt_threads_run(MOST, &threads, open_grid, NULL, &err) != GT_ENOMEM ||
		    !strstr(err.text, "planted"))
			fail_msg("allocation %d: %s", refused, err.text);
		if (far_fault(0))
			fail_msg("allocation %d: %s", refused, far_fault(0));
	}
	forgetful.host_alloc = far_backend.host_alloc;
}

static int stats_copied;

/* The second copy of the statistics of a batch, four numbers, is refused. */
static int fail_copy(
    struct gt_stream *stream, void *to, const void *from, size_t bytes, struct gt_err *err)
{
	if (bytes == 4 * sizeof(double) && ++stats_copied == 2)
		return gt_err_set(err, GT_EDEVICE, "planted");
	return far_backend.copy(stream, to, from, bytes, err);
}

static int evaluate_loop(void *self, struct gt_group *group, struct gt_err *err)
{
	static const atomic_bool never;
	struct gt_train_options options = { .model = "mlp:20,30,10",
		.data = "random:,samples=64",
		.val = "random:,samples=64",
		.steps = 1,
		.batch = 16,
		.accumulate = 1,
		.optim = { .kind = GT_SGD },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1,
		.where = { .devices = "far", .group = group, .host_rank = group->rank } };
	struct gt_log silent = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_train_result result;
	struct gt_train *t;
	int rc;

	(void)self;
	options.parallel.bucket_bytes = 4096;
	rc = gt_train_open(&t, &options, false, &silent, err);
	if (rc)
		return rc;
	rc = gt_train_run(t, NULL, NULL, 0, &never, &result, err);
	gt_train_close(t);
	return rc;
}

/* Its memory is in use until the batches before the error are done. */
static void an_evaluation_that_fails_frees_nothing_in_use(void **state)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	forgetful.copy = fail_copy;
	assert_int_equal(gt_threads_run(1, &threads, evaluate_loop, NULL, &err), GT_EDEVICE);
	forgetful.copy = far_backend.copy;
	assert_non_null(strstr(err.text, "planted"));
	if (far_fault(0))
		fail_msg("%s", far_fault(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(far_ranks_have_the_bits_of_near_ones),
		cmocka_unit_test(every_mode_trains_without_the_host),
		cmocka_unit_test(a_missing_wait_is_found),
		cmocka_unit_test(a_backend_without_devices_is_an_error),
		cmocka_unit_test(groups_that_are_not_all_made_are_closed),
		cmocka_unit_test(an_evaluation_that_fails_frees_nothing_in_use),
	};

	forgetful = far_backend;
	forgetful.event_wait = forget_wait;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
