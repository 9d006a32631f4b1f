/* test_verify.c - parallel modes are one rank, and mistakes put into their collectives are seen. */
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

#include "lib/train/verify/verify.h"
#include "tests/unit/data_fixture.h"

enum { RANKS = 3, BATCH = 6, MOST_ROWS = 24, PLAIN = 10, FEATURES = 5 };

/* The collectives of a real group. */
static struct gt_group_ops real;

/* Gradients that are added up over ranks. */
static bool is_bucket(const struct gt_collective *c)
{
	return c->what && !strncmp(c->what, "bucket", 6) && c->kind != GT_ALL_GATHER;
}

static bool is_scatter(const struct gt_collective *c)
{
	return c->what && !strcmp(c->what, "scatter");
}

/* All that this rank has of a bucket, which is in place. */
static void scale(const struct gt_group *g, const struct gt_collective *c, double by)
{
	bool parts = c->kind == GT_REDUCE_SCATTER;
	float *x = (float *)c->out - (parts ? g->rank * c->count : 0);

	for (int64_t i = 0; i < c->count * (parts ? g->size : 1); i++)
		x[i] = (float)(x[i] * by);
}

/* ---- mistakes ---- */

/* Each rank's mean counts as a sum. */
static int start_unscaled(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	if (is_bucket(c))
		scale(g, c, g->size);
	return real.start(g, c, ticket, err);
}

/* Half of a bucket is never added up. */
static int start_half(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_collective half = *c;

	if (is_bucket(c) && c->kind != GT_REDUCE_SCATTER)
		half.count -= half.count / 2;
	return real.start(g, &half, ticket, err);
}

static int start_twice(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	int rc = real.start(g, c, ticket, err);

	return rc || !is_bucket(c) || strcmp(c->what, "bucket 0") ? rc
	                                                          : real.start(g, c, ticket, err);
}

/* The last rank gets the sums of the first one's part. */
static int start_wrong_part(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_collective all = *c;
	size_t bytes = (size_t)(c->count * g->size) * sizeof(float);
	float *sums;
	int rc;

	if (c->kind != GT_REDUCE_SCATTER)
		return real.start(g, c, ticket, err);
	sums = malloc(bytes);
	assert_non_null(sums);
	memcpy(sums, c->in, bytes);
	all.kind = GT_ALL_REDUCE;
	all.in = all.out = sums;
	all.count *= g->size;
	*ticket = 0; /* it ends here */
	rc = real.run(g, &all, err);
	memcpy(c->out, sums + (g->rank + 1 == g->size ? 0 : g->rank * c->count),
	    (size_t)c->count * sizeof(float));
	free(sums);
	return rc;
}

/* The last rank takes the weights of the first two ranks for each other's. */
static int start_turned(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_collective copy = *c;
	size_t part = (size_t)c->count * sizeof(float);
	float *whole;
	int rc;

	if (c->kind != GT_ALL_GATHER || c->dtype != GT_F32)
		return real.start(g, c, ticket, err);
	copy.out = whole = malloc(part * (size_t)g->size);
	assert_non_null(whole);
	*ticket = 0; /* it ends here */
	rc = real.run(g, &copy, err);
	memcpy(c->out, whole, part * (size_t)g->size);
	if (g->rank + 1 == g->size) {
		memcpy(c->out, whole + c->count, part);
		memcpy((float *)c->out + c->count, whole, part);
	}
	free(whole);
	return rc;
}

/* The gradient sent to the stage before is twice as large. */
static int start_double(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	struct gt_collective copy = *c;
	float *twice;
	int rc;

	if (c->kind != GT_SEND || strcmp(c->what, "gradients of a stage"))
		return real.start(g, c, ticket, err);
	copy.in = twice = malloc((size_t)c->count * sizeof(float));
	assert_non_null(twice);
	for (int64_t i = 0; i < c->count; i++)
		twice[i] = 2 * ((const float *)c->in)[i];
	*ticket = 0; /* it ends here */
	rc = real.run(g, &copy, err);
	free(twice);
	return rc;
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

/* The last rank counts half of the sum of the ranks' summands of a layer's output. */
static int run_half_layer(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int rc = real.run(g, c, err);

	if (!rc && c->what && !strcmp(c->what, "all_reduce") && g->rank + 1 == g->size)
		scale(g, c, 0.5);
	return rc;
}

/* A mean of means: the gradient of a rank's own mean, over the number of ranks. It is the right one
 * as long as ranks have as many samples as each other. Their number follows from the samples that
 * rank 0 deals out, as its own part is as large as the first. */
static _Thread_local int samples_here;

static int run_counting(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int64_t sample = FEATURES * (int64_t)sizeof(float);

	if (is_scatter(c) && (c->kind == GT_RECV || c->peer == 1) && c->count % sample == 0)
		samples_here = (int)(c->count / sample);
	return real.run(g, c, err);
}

static int start_mean_of_means(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	int all = samples_here == BATCH ? RANKS * BATCH : RANKS * (BATCH / 2) + 1;

	if (is_bucket(c) && samples_here)
		scale(g, c, (double)all / (RANKS * samples_here));
	return real.start(g, c, ticket, err);
}

/* Off by a unit in the last place, which only bits tell. */
static int start_nudged(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	if (is_bucket(c) && g->size > 1 && !g->rank)
		scale(g, c, 1 + 0x1p-23);
	return real.start(g, c, ticket, err);
}

/* ---- runs ---- */

static const struct fault {
	const char *name;
	int (*run)(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);
	int (*start)(struct gt_group *g, const struct gt_collective *c, uint64_t *ticket,
	    struct gt_err *err);
	const char *modes; /* that suffer from it */
	int64_t step;      /* at which it is seen */
} faults[] = {
	{ "none", NULL, NULL, "", 0 },
	{ "a missing scale", NULL, start_unscaled, " ddp mirrored zero1 zero2 zero3 dp ", 1 },
	{ "half of a bucket", NULL, start_half, " ddp mirrored dp ", 1 },
	{ "a bucket reduced twice", NULL, start_twice, " ddp mirrored zero1 zero2 zero3 dp ", 1 },
	{ "a wrong shard of the gradients", NULL, start_wrong_part, " zero1 zero2 zero3 ", 1 },
	{ "a wrong shard of the weights", NULL, start_turned, " zero1 zero2 zero3 ", 1 },
	{ "a wrong shard of the samples", run_shifted, NULL, " dp ", 1 },
	{ "a wrong gradient between stages", NULL, start_double, " gpipe 1f1b ", 1 },
	{ "a wrong sum of a layer", run_half_layer, NULL, " tensor ", 1 },
	{ "old weights", run_stale, NULL, " dp ", 2 },
	{ "a mean of means", run_counting, start_mean_of_means, " dp ", 3 },
};

struct scene {
	const struct fault *fault;
	struct gt_group_ops ops;
};

/* A part of a group makes the mistakes of the whole. */
static int split(struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err)
{
	int rc = real.split(out, g, color, key, err);

	if (!rc && *out)
		(*out)->ops = g->ops;
	return rc;
}

static void enter(void *self, struct gt_group *group)
{
	const struct scene *s = self;

	omp_set_num_threads(1);
	samples_here = 0;
	if (group)
		group->ops = &s->ops;
}

struct subject {
	const char *model, *data;
	int ranks, batch;
	const char *unfit; /* modes that are not for it; NULL: none */
	bool exact;
	int accumulate; /* 0 is 1 */
	bool sync_bn;
};

static const struct subject small = {
	.model = "mlp:5,16,8,3", .data = "random:5/3,samples=100", .ranks = RANKS, .batch = BATCH
};
/* Of the smallest images, as a convolution takes long under valgrind. */
static struct fixture images;
static char images_spec[100];
static const struct subject normal = { .model = "resnet20",
	.data = images_spec,
	.ranks = 2,
	.batch = 4,
	.unfit = " accumulate tensor " };

static const struct subject exact = { .model = "mlp:5,16,8,3",
	.data = "random:5/3,samples=100",
	.ranks = 2,
	.batch = 8,
	.exact = true };

static struct gt_train_options options_of(const struct subject *subject)
{
	return (struct gt_train_options){ .model = subject->model,
		.data = subject->data,
		.batch = subject->batch,
		.accumulate = subject->accumulate ? subject->accumulate : 1,
		.seed = 3,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.prefetch = 1,
		.parallel = { .bucket_bytes = 64,
		    .reproducible = subject->exact,
		    .sync_bn = subject->sync_bn } };
}

static void verify(
    struct gt_verify_row *rows, const struct subject *subject, const struct fault *fault)
{
	const struct gt_train_options train = options_of(subject);
	struct scene scene = { .fault = fault, .ops = real };
	struct gt_verify_options o = { .train = &train,
		.ranks = subject->ranks,
		.threads = { .shm = { .timeout_s = 60 } },
		.enter = enter,
		.self = &scene };
	struct gt_err err = GT_ERR_INIT;

	scene.ops.split = split;
	scene.ops.run = fault->run ? fault->run : real.run;
	scene.ops.start = fault->start ? fault->start : real.start;
	if (gt_verify_parallel(rows, &o, &err))
		fail_msg("%s: %s", fault->name, err.text);
}

static void put_images(void)
{
	fixture_open(&images);
	for (int i = 0; i < 40; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%d/%d.png", i % 10, i);
		put_png(&images, name, 8, 8, i);
	}
	snprintf(images_spec, sizeof(images_spec), "images:%s,size=8", images.folder);
}

static int open_group(void **state)
{
	const struct gt_shm_options options = { .timeout_s = 60 };
	struct gt_group *group;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	if (gt_shm_of_threads(&group, 1, &options, &err))
		return -1;
	real = *group->ops;
	gt_group_free(group);
	put_images();
	return 0;
}

static int close_group(void **state)
{
	(void)state;
	fixture_close(&images);
	return 0;
}

static bool is_in(const char *modes, const char *mode)
{
	char word[GT_VERIFY_NAME];

	snprintf(word, sizeof(word), " %s ", mode);
	return strstr(modes, word);
}

static void modes_are_one_rank(void **state)
{
	const struct subject subjects[] = {
		small,
		{ .model = "mlp:5,3",
		    .data = "random:5/3,samples=100",
		    .ranks = 2,
		    .batch = 3,
		    .unfit = " gpipe 1f1b " },
		{ .model = "lenet", .data = "random:,samples=100", .ranks = RANKS, .batch = BATCH },
		{ .model = "gpt:layers=1,heads=3,width=24,block=8,vocab=50,dropout=0.2",
		    .data = "random:,samples=100",
		    .ranks = RANKS,
		    .batch = BATCH },
		normal,
		exact,
		{ .model = "mlp:5,16,8,6,3",
		    .data = "random:5/3,samples=100",
		    .ranks = 4,
		    .batch = 4,
		    .exact = true },
		{ .model = "mlp:5,16,8,3",
		    .data = "random:5/3,samples=100",
		    .ranks = 2,
		    .batch = 3,
		    .unfit = " zero3 ",
		    .exact = true,
		    .accumulate = 4 },
		{ .model = "lenet",
		    .data = "random:,samples=100",
		    .ranks = 2,
		    .batch = 8,
		    .exact = true },
		{ .model = "gpt:layers=1,heads=2,width=16,block=8,vocab=50,dropout=0.2",
		    .data = "random:,samples=100",
		    .ranks = 2,
		    .batch = 8,
		    .exact = true },
		{ .model = "resnet20",
		    .data = images_spec,
		    .ranks = 2,
		    .batch = 8,
		    .unfit = " tensor ",
		    .exact = true },
		{ .model = "resnet20",
		    .data = images_spec,
		    .ranks = 2,
		    .batch = 4,
		    .unfit = " accumulate tensor ",
		    .exact = true,
		    .sync_bn = true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
		const struct subject *s = &subjects[i];
		struct gt_verify_row rows[MOST_ROWS];

		verify(rows, s, &faults[0]);
		for (int k = 0; k < gt_verify_count(s->ranks); k++) {
			const struct gt_verify_row *r = &rows[k];

			/* A part of a batch may have too few rows for a combination. */
			if (k < PLAIN && (s->unfit && is_in(s->unfit, r->mode)) != (*r->why != 0))
				fail_msg("%s, %s: '%s'", s->model, r->mode, r->why);
			if (!r->good)
				fail_msg("%s, %s: %s of '%s' is off by %g at step %d", s->model,
				    r->mode, r->what, r->tensor, r->difference, (int)r->step);
		}
	}
}

/* A batch that is whole everywhere would hide a mean of means. */
static void last_batches_are_uneven(void **state)
{
	struct gt_verify_row rows[MOST_ROWS];

	(void)state;
	verify(rows, &small, &faults[0]);
	for (int k = 0; k < gt_verify_count(small.ranks); k++) {
		assert_true(rows[k].last_batch < RANKS * BATCH);
		if (!strcmp(rows[k].mode, "dp"))
			assert_true(rows[k].last_batch % RANKS);
	}
	verify(rows, &exact, &faults[0]);
	for (int k = 0; k < gt_verify_count(exact.ranks); k++)
		assert_int_equal(rows[k].last_batch, 8); /* a sample for each part */
}

/* Modes that these faults know. */
static const char *const known = " accumulate ddp mirrored zero1 zero2 zero3 dp gpipe 1f1b tensor ";

static void mistakes_are_seen(void **state)
{
	(void)state;
	for (size_t i = 1; i < sizeof(faults) / sizeof(*faults); i++) {
		struct gt_verify_row rows[MOST_ROWS];

		verify(rows, &small, &faults[i]);
		for (int k = 0; k < gt_verify_count(small.ranks); k++) {
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

/* Bounds are wider for models with batch normalisation: not so wide that mistakes get through. */
static void mistakes_are_seen_with_normalisation(void **state)
{
	static const struct fault *const some[] = { &faults[1], &faults[3], &faults[4] };

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		struct gt_verify_row rows[MOST_ROWS];

		verify(rows, &normal, some[i]);
		for (int k = 0; k < gt_verify_count(normal.ranks); k++) {
			const struct gt_verify_row *r = &rows[k];

			assert_int_equal(r->good, !is_in(some[i]->modes, r->mode));
			if (!r->good && !(r->gradient > 1.5 * GT_VERIFY_NORM_GRADIENT))
				fail_msg("%s, %s: %g", some[i]->name, r->mode, r->gradient);
		}
	}
}

static void the_last_bit_is_seen_where_bits_are_promised(void **state)
{
	static const struct fault nudged = { "a last bit", NULL, start_nudged,
		" ddp mirrored zero1 zero2 zero3 dp ", 1 };
	struct gt_verify_row rows[MOST_ROWS];

	(void)state;
	for (int promised = 0; promised < 2; promised++) {
		verify(rows, promised ? &exact : &small, &nudged);
		for (int k = 0; k < gt_verify_count(small.ranks); k++)
			if (rows[k].good == (promised && is_in(nudged.modes, rows[k].mode)))
				fail_msg("%s, %d: %s", rows[k].mode, promised,
				    rows[k].good ? "one rank" : rows[k].what);
	}
}

static void fewer_samples_than_ranks_are_refused(void **state)
{
	const struct subject few = { .model = "mlp:5,16,8,3",
		.data = "random:5/3,samples=2",
		.ranks = RANKS,
		.batch = BATCH };
	const struct gt_train_options train = options_of(&few);
	struct gt_verify_options o = { .train = &train, .ranks = RANKS };
	struct gt_verify_row rows[MOST_ROWS];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_verify_parallel(rows, &o, &err), GT_EINVAL);
	assert_string_equal(err.text, "2 samples are fewer than 3 ranks");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_are_one_rank),
		cmocka_unit_test(last_batches_are_uneven),
		cmocka_unit_test(mistakes_are_seen),
		cmocka_unit_test(mistakes_are_seen_with_normalisation),
		cmocka_unit_test(the_last_bit_is_seen_where_bits_are_promised),
		cmocka_unit_test(fewer_samples_than_ranks_are_refused),
	};

	return cmocka_run_group_tests(tests, open_group, close_group);
}
