/* test_verify.c - parallel modes are one rank, and mistakes put into their collectives are seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "lib/train/verify.h"

enum { RANKS = 3, BATCH = 6, MOST_ROWS = 16, FEATURES = 5 };

/* What the ring really does. */
static struct gt_group_ops real;

static bool is_bucket(const struct gt_collective *c)
{
	return c->what && !strncmp(c->what, "bucket", 6);
}

static bool is_scatter(const struct gt_collective *c)
{
	return c->what && !strcmp(c->what, "scatter");
}

static void scale(const struct gt_collective *c, double by)
{
	float *x = c->out;

	for (int64_t i = 0; i < c->count; i++)
		x[i] = (float)(x[i] * by);
}

/* ---- mistakes ---- */

/* Each rank's mean counts as a sum. */
static int start_unscaled(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	if (is_bucket(c))
		scale(c, g->size);
	return real.start(g, c, err);
}

/* Half of a bucket is never added up. */
static int start_half(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_collective half = *c;

	if (is_bucket(c))
		half.count -= half.count / 2;
	return real.start(g, &half, err);
}

static int start_twice(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int rc = real.start(g, c, err);

	return rc || strcmp(c->what, "bucket 0") ? rc : real.start(g, c, err);
}

static int start_ungathered(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	return c->kind == GT_ALL_GATHER ? 0 : real.start(g, c, err);
}

/* Rank 1 gets samples that begin one too early. */
static int run_shifted(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_collective shifted = *c;

	if (is_scatter(c) && c->kind == GT_SEND && c->peer == 1 &&
	    c->count % (FEATURES * (int64_t)sizeof(float)) == 0)
		shifted.in = (const float *)c->in - FEATURES;
	return real.run(g, &shifted, err);
}

static int run_stale(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	return c->what && !strcmp(c->what, "weights") ? 0 : real.run(g, c, err);
}

/* A mean of means: the gradient of a rank's own mean, over the number of ranks. It is the right one
 * as long as ranks have as many samples as each other. How many they have is seen from what rank 0
 * deals out, its own part being as large as the first. */
static _Thread_local int samples_here;

static int run_counting(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int64_t sample = FEATURES * (int64_t)sizeof(float);

	if (is_scatter(c) && (c->kind == GT_RECV || c->peer == 1) && c->count % sample == 0)
		samples_here = (int)(c->count / sample);
	return real.run(g, c, err);
}

static int start_mean_of_means(
    struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int all = samples_here == BATCH ? RANKS * BATCH : RANKS * (BATCH / 2) + 1;

	if (is_bucket(c) && samples_here)
		scale(c, (double)all / (RANKS * samples_here));
	return real.start(g, c, err);
}

/* ---- runs ---- */

static const struct fault {
	const char *name;
	int (*run)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*start)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	const char *modes; /* that suffer from it */
	int64_t step;      /* at which it is seen */
} faults[] = {
	{ "none", NULL, NULL, "", 0 },
	{ "a missing scale", NULL, start_unscaled, " ddp mirrored zero1 dp ", 1 },
	{ "a wrong part of a bucket", NULL, start_half, " ddp mirrored zero1 dp ", 1 },
	{ "a bucket reduced twice", NULL, start_twice, " ddp mirrored zero1 dp ", 1 },
	{ "weights that are not handed on", NULL, start_ungathered, " zero1 ", 1 },
	{ "a wrong shard of the samples", run_shifted, NULL, " dp ", 1 },
	{ "old weights", run_stale, NULL, " dp ", 2 },
	{ "a mean of means", run_counting, start_mean_of_means, " dp ", 3 },
};

struct scene {
	const struct fault *fault;
	struct gt_group_ops ops;
};

static void enter(void *self, struct gt_group *group)
{
	const struct scene *s = self;

	omp_set_num_threads(1);
	if (group)
		group->ops = &s->ops;
}

static struct gt_train_options options_of(const char *model, const char *data)
{
	return (struct gt_train_options){ .model = model,
		.data = data,
		.batch = BATCH,
		.accumulate = 1,
		.seed = 3,
		.optim = { .kind = GT_ADAMW,
		    .beta1 = 0.9,
		    .beta2 = 0.999,
		    .eps = 1e-8,
		    .weight_decay = NAN },
		.schedule = { .lr = NAN, .min_lr = NAN, .warmup = -1 },
		.prefetch = 1,
		.parallel = { .bucket_bytes = 64 } };
}

static void verify(
    struct gt_verify_row *rows, const char *model, const char *data, const struct fault *fault)
{
	const struct gt_train_options train = options_of(model, data);
	struct scene scene = { .fault = fault, .ops = real };
	struct gt_verify_options o = { .train = &train,
		.ranks = RANKS,
		.ring = { .timeout_s = 60 },
		.enter = enter,
		.self = &scene };
	struct gt_err err = GT_ERR_INIT;

	scene.ops.run = fault->run ? fault->run : real.run;
	scene.ops.start = fault->start ? fault->start : real.start;
	if (gt_verify_parallel(rows, &o, &err))
		fail_msg("%s: %s", fault->name, err.text);
}

static int get_real(void **state)
{
	const struct gt_ring_options options = { .timeout_s = 60 };
	struct gt_group *group;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	if (gt_ring_of_threads(&group, 1, &options, &err))
		return -1;
	real = *group->ops;
	gt_group_free(group);
	return 0;
}

static void modes_are_one_rank(void **state)
{
	static const char *const models[][2] = {
		{ "mlp:5,16,3", "random:5/3,samples=100" },
		{ "lenet", "random:,samples=100" },
		{ "gpt:layers=1,heads=2,width=16,block=8,vocab=50,dropout=0.2",
		    "random:,samples=100" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		struct gt_verify_row rows[MOST_ROWS];

		verify(rows, models[i][0], models[i][1], &faults[0]);
		for (int k = 0; k < gt_verify_count(); k++)
			if (!rows[k].good)
				fail_msg("%s, %s: %s of '%s' is off by %g at step %d", models[i][0],
				    rows[k].mode, rows[k].what, rows[k].tensor, rows[k].far,
				    (int)rows[k].step);
	}
}

/* A batch that is whole everywhere would hide a mean of means. */
static void last_batches_are_uneven(void **state)
{
	struct gt_verify_row rows[MOST_ROWS];

	(void)state;
	verify(rows, "mlp:5,16,3", "random:5/3,samples=100", &faults[0]);
	for (int k = 0; k < gt_verify_count(); k++) {
		assert_true(rows[k].last_batch < RANKS * BATCH);
		if (!strcmp(rows[k].mode, "dp"))
			assert_true(rows[k].last_batch % RANKS);
	}
}

/* Modes that these faults know. */
static const char *const known = " accumulate ddp mirrored zero1 pipeline dp ";

static bool is_in(const char *modes, const char *mode)
{
	char word[GT_VERIFY_NAME];

	snprintf(word, sizeof(word), " %s ", mode);
	return strstr(modes, word);
}

static void mistakes_are_seen(void **state)
{
	(void)state;
	for (size_t i = 1; i < sizeof(faults) / sizeof(*faults); i++) {
		struct gt_verify_row rows[MOST_ROWS];

		verify(rows, "mlp:5,16,3", "random:5/3,samples=100", &faults[i]);
		for (int k = 0; k < gt_verify_count(); k++) {
			const struct gt_verify_row *r = &rows[k];

			if (is_in(known, r->mode) && r->good == is_in(faults[i].modes, r->mode))
				fail_msg("%s: %s is %s", faults[i].name, r->mode,
				    r->good ? "one rank" : r->what);
			if (r->good || !is_in(known, r->mode))
				continue;
			assert_int_equal(r->step, faults[i].step);
			assert_true(*r->tensor || !strcmp(r->what, "loss"));
			assert_true(r->gradient > GT_VERIFY_GRADIENT || r->loss > GT_VERIFY_LOSS ||
			            r->weight > GT_VERIFY_WEIGHT);
		}
	}
}

static void what_cannot_be_one_rank_is_refused(void **state)
{
	static const struct {
		const char *model, *data;
		int code;
	} cases[] = {
		{ "resnet20", "random:,samples=100", GT_ENOTSUP },
		{ "mlp:5,16,3", "random:5/3,samples=2", GT_EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_train_options train = options_of(cases[i].model, cases[i].data);
		struct gt_verify_options o = { .train = &train, .ranks = RANKS };
		struct gt_verify_row rows[MOST_ROWS];
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(gt_verify_parallel(rows, &o, &err), cases[i].code);
		assert_true(err.text[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_are_one_rank),
		cmocka_unit_test(last_batches_are_uneven),
		cmocka_unit_test(mistakes_are_seen),
		cmocka_unit_test(what_cannot_be_one_rank_is_refused),
	};

	return cmocka_run_group_tests(tests, get_real, NULL);
}
