/* test_defaults.c - defaults of a run that depend on its model, its length and each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/train/train.h"

enum { EVERYTHING = 2 * GT_GIVEN_EPS - 1, BATCH = 8 };

/* Fields whose bit is not set hold this, which nobody may read. */
#define JUNK 12345

static struct gt_train_options a_run(void)
{
	return (struct gt_train_options){ .model = "mlp:8,16,3",
		.data = "random:8/3,samples=80",
		.batch = BATCH,
		.accumulate = 1,
		.optim = { .kind = GT_ADAMW,
		    .beta1 = 0.9,
		    .beta2 = 0.999,
		    .eps = 1e-8,
		    .weight_decay = JUNK,
		    .momentum = JUNK },
		.lr_schedule = { .kind = GT_COSINE, .min_lr = JUNK, .warmup = JUNK },
		.prefetch = 1,
		.parallel = { .bucket_bytes = 64 } };
}

/* Open and close a run without memory for it. */
static int resolve(struct gt_train_options *o, struct gt_err *err)
{
	struct gt_log log = { .stream = fopen("/dev/null", "w"), .level = GT_LOG_QUIET };
	struct gt_train *t;
	int rc;

	assert_non_null(log.stream);
	*err = GT_ERR_INIT;
	rc = gt_train_open(&t, o, true, &log, err);
	assert_true(rc || !strcmp(o->model, "mlp:8,16,3"));
	assert_true(rc || !strcmp(o->loss, "cross-entropy"));
	gt_train_close(t);
	o->model = a_run().model; /* the run's own ends with it */
	o->loss = NULL;
	fclose(log.stream);
	return rc;
}

static void defaults_follow_what_is_given(void **state)
{
	static const struct {
		struct gt_schedule in; /* members that are 0 count if `given` names them */
		double decay;          /* weight decay, likewise */
		int64_t steps, epochs;
		unsigned given;
		enum gt_optim_kind optimizer;
		struct gt_schedule out;
		double out_decay, out_momentum, out_adam_lr;
		int64_t out_epochs;
	} row[] = {
		/* kind, lr, min_lr, warmup, total, every, gamma, decay */
		{ { .kind = GT_COSINE }, .optimizer = GT_ADAMW,
		    .out = { GT_COSINE, 1e-3, 1e-4, 100, 1000, 333, 0, 200 }, .out_decay = 0.01,
		    .out_epochs = 100 },
		{ { .kind = GT_COSINE }, .steps = 20, .epochs = 7, .optimizer = GT_SGD,
		    .out = { GT_COSINE, 0.05, 0.005, 2, 20, 6, 0, 4 }, .out_momentum = 0.9 },
		{ { .kind = GT_COSINE }, .steps = 20, .optimizer = GT_MUON,
		    .out = { GT_COSINE, 0.02, 0.002, 2, 20, 6, 0, 4 }, .out_decay = 0.01,
		    .out_momentum = 0.95, .out_adam_lr = 1e-3 },
		{ { .kind = GT_STEP }, .epochs = 2, .optimizer = GT_ADAMW,
		    .out = { GT_STEP, 1e-3, 0, 2, 20, 6, 0, 4 }, .out_decay = 0.01,
		    .out_epochs = 2 },
		{ { .kind = GT_COSINE, .lr = 0.5 }, .steps = 20, .optimizer = GT_ADAMW,
		    .out = { GT_COSINE, 0.5, 0.05, 2, 20, 6, 0, 4 }, .out_decay = 0.01 },
		/* A 0 that is given stays. */
		{ { .kind = GT_COSINE }, .steps = 20,
		    .given = GT_GIVEN_MIN_LR | GT_GIVEN_WARMUP | GT_GIVEN_WEIGHT_DECAY,
		    .optimizer = GT_ADAMW, .out = { GT_COSINE, 1e-3, 0, 0, 20, 6, 0, 4 } },
		/* The warm-up leaves room for the decay that was given. */
		{ { .kind = GT_WSD, .decay = 19 }, .steps = 20, .optimizer = GT_ADAMW,
		    .out = { GT_WSD, 1e-3, 1e-4, 1, 20, 6, 0, 19 }, .out_decay = 0.01 },
		{ { .kind = GT_STEP, .every = 20 }, .steps = 20, .optimizer = GT_ADAMW,
		    .out = { GT_STEP, 1e-3, 0, 0, 20, 20, 0, 4 }, .out_decay = 0.01 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_train_options o = a_run();
		const struct gt_schedule *in = &row[i].in, *out = &row[i].out, *s = &o.lr_schedule;
		struct gt_err err;

		o.given = row[i].given;
		o.steps = row[i].steps;
		o.epochs = row[i].epochs;
		o.optim.kind = row[i].optimizer;
		o.lr_schedule.kind = in->kind;
		o.optim.weight_decay = o.given & GT_GIVEN_WEIGHT_DECAY ? row[i].decay : JUNK;
		o.lr_schedule.lr = in->lr;
		o.lr_schedule.min_lr = o.given & GT_GIVEN_MIN_LR ? in->min_lr : JUNK;
		o.lr_schedule.warmup = o.given & GT_GIVEN_WARMUP ? in->warmup : JUNK;
		o.lr_schedule.every = in->every;
		o.lr_schedule.decay = in->decay;
		if (resolve(&o, &err))
			fail_msg("row %zu: %s", i, err.text);
		if (o.given != EVERYTHING || o.optim.momentum != row[i].out_momentum ||
		    o.adam_lr != row[i].out_adam_lr || s->lr != out->lr ||
		    s->min_lr != out->min_lr || s->warmup != out->warmup ||
		    s->total != out->total || s->every != out->every || s->decay != out->decay ||
		    o.optim.weight_decay != row[i].out_decay || o.epochs != row[i].out_epochs ||
		    o.steps != row[i].steps)
			fail_msg(
			    "row %zu: given %u, lr %g, min_lr %g, warmup %lld, total %lld, every "
			    "%lld, decay %lld, weight decay %g, epochs %lld",
			    i, o.given, s->lr, s->min_lr, (long long)s->warmup, (long long)s->total,
			    (long long)s->every, (long long)s->decay, o.optim.weight_decay,
			    (long long)o.epochs);
		/* Once more, everything is given. */
		assert_int_equal(resolve(&o, &err), 0);
		assert_true(s->lr == out->lr && s->warmup == out->warmup);
	}
}

static void wrong_texts_are_refused_before_anything_else(void **state)
{
	static const struct {
		const char *augment, *profile, *text;
	} row[] = {
		{ "crop,spin", NULL, "unknown augmentation 'spin'" },
		{ NULL, "wait=x", "'wait=x' is not as wait=1,warmup=1,active=3" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_train_options o = a_run();
		struct gt_err err;

		o.model = "no such model";
		o.augment = row[i].augment;
		o.profile = row[i].profile;
		assert_int_equal(resolve(&o, &err), GT_EINVAL);
		assert_non_null(strstr(err.text, row[i].text));
		assert_int_equal(gt_train_check_options(&o, 1, &err), GT_EINVAL);
		assert_non_null(strstr(err.text, row[i].text));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_follow_what_is_given),
		cmocka_unit_test(wrong_texts_are_refused_before_anything_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
