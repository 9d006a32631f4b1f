/* test_scaler.c - the loss scale: its kernel, scaled gradients in updates, overflows on ranks. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"
#include "tests/common/model_ranks.h"

/* ---- the kernel ---- */

/* One step: its input, and the state behind it. The gradients are one number. */
struct turn {
	double gradient, loss;
	bool skip, diverged;
	float scale;
	int64_t tracker, steps;
	float norm; /* 0: not compared */
};

enum { TURNS = 8 };

static const struct {
	const char *what;
	float scale;      /* at first */
	int64_t interval; /* 0: not scaled */
	struct turn turns[TURNS];
} courses[] = {
	{ "growth, and a way back", 8, 3,
	    { { 24, 1, false, false, 8, 1, 1, 3 }, { 24, 1, false, false, 8, 2, 2, 3 },
	        { 24, 1, false, false, 16, 0, 3, 3 }, { 48, 1, false, false, 16, 1, 4, 3 },
	        { INFINITY, 1, true, false, 8, 0, 4, 0 }, { NAN, 1, true, false, 4, 0, 4, 0 },
	        { 12, 1, false, false, 4, 1, 5, 3 }, { 12, 1, false, false, 4, 2, 6, 3 } } },
	{ "an interval of one", 1, 1,
	    { { 1, 1, false, false, 2, 0, 1, 1 }, { 2, 1, false, false, 4, 0, 2, 1 },
	        { INFINITY, 1, true, false, 2, 0, 2, 0 } } },
	{ "a loss that is not finite ends it", 8, 3,
	    { { 24, 1, false, false, 8, 1, 1, 3 }, { NAN, INFINITY, true, true, 8, 1, 1, 0 },
	        { 24, 1, true, true, 8, 1, 1, 3 } } },
	{ "the least scale", 0x1p-13f, 3,
	    { { INFINITY, 1, true, false, 0x1p-14f, 0, 0, 0 },
	        { 0x1p-14, 1, false, false, 0x1p-14f, 1, 1, 1 },
	        { INFINITY, 1, true, true, 0x1p-15f, 0, 1, 0 },
	        { 1, 1, true, true, 0x1p-15f, 0, 1, 0 } } },
	{ "no growth beyond float32", 0x1p127f, 1,
	    { { 0x1p127, 1, false, false, 0x1p127f, 0, 1, 1 } } },
	{ "a norm beyond float32 without its scale", 0x1p-14f, 3,
	    { { 0x1p120, 1, true, true, 0x1p-15f, 0, 0, 0 } } },
	{ "not scaled", 0, 0,
	    { { 3, 1, false, false, 0, 0, 1, 3 }, { INFINITY, 1, true, true, 0, 0, 1, 0 },
	        { 3, 1, true, true, 0, 0, 1, 3 } } },
};

typedef int range_kernel(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

/* Run a kernel on the numbers of a step, which lie on the host. */
static void run_kernel(range_kernel *run, struct gt_step_scalars *s)
{
	const struct gt_device *d = test_device(0);
	struct gt_err err = GT_ERR_INIT;
	void *there;

	ok(gt_device_alloc(d, sizeof(*s), &there, &err), &err);
	ok(gt_device_write(d, there, s, sizeof(*s), &err), &err);
	ok(run(d->compute, there, &err), &err);
	ok(gt_device_read(d, s, there, sizeof(*s), &err), &err);
	gt_device_free(d, there, sizeof(*s));
}

static void take_turn(const struct gt_step_kernels *k, struct gt_step_scalars *s,
    const struct turn *t, const char *what, int number)
{
	const struct gt_step_result *r = &s->result;

	run_kernel(k->begin_step, s);
	s->result.loss = t->loss;
	s->result.squares[0] = t->gradient * t->gradient;
	run_kernel(k->begin_update, s);
	if (r->skip != t->skip || r->diverged != t->diverged || r->scale != t->scale ||
	    r->growth_tracker != t->tracker || r->steps != t->steps ||
	    (t->norm > 0 && r->grad_norm != t->norm))
		fail_msg("%s, step %d: skip %d, diverged %d, scale %g, tracker %lld, %lld updates, "
		         "norm %g",
		    what, number, r->skip, r->diverged, (double)r->scale,
		    (long long)r->growth_tracker, (long long)r->steps, (double)r->grad_norm);
}

static void scale_follows_gradients(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t c = 0; c < COUNT(courses); c++) {
			struct gt_step_scalars s = { .block = { .growth = 2,
				                         .backoff = 0.5f,
				                         .growth_interval = courses[c].interval },
				.result = { .scale = courses[c].scale } };

			for (int k = 0; k < TURNS && courses[c].turns[k].loss > 0; k++)
				take_turn(set[i].set->steps, &s, &courses[c].turns[k],
				    courses[c].what, k);
		}
}

/* The norm that is clipped is that of the gradients; the factor takes the scale out. */
static void clipping_knows_the_scale(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++) {
		struct gt_step_scalars s = { .block = { .clip = 1.5f, .growth_interval = 9 },
			.result = { .scale = 8 } };

		s.result.squares[0] = 24 * 24;
		run_kernel(set[i].set->steps->begin_update, &s);
		assert_true(s.result.grad_factor == (float)(1.5 / (3 + 1e-6) / 8));
		s.block.clip = 3.5f;
		run_kernel(set[i].set->steps->begin_update, &s);
		assert_true(s.result.grad_factor == 0.125f);
	}
}

/* ---- ranks ---- */

enum { MOST = 4, STEPS = 4, OVERFLOW_AT = 1 };

static const struct gt_scaler scaler = {
	.scale = 1024, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2
};

#define GPT "gpt:layers=2,heads=2,width=8,block=4,vocab=13"

static const struct {
	const char *what;
	int count;
	struct gt_parallel_options options;
	bool shard; /* one gradient, which no other rank holds, overflows */
} modes[] = {
	{ "one rank", 1, { 0 }, false },
	{ "ddp", 2, { .kind = GT_PARALLEL_DDP }, false },
	{ "ddp", 4, { .kind = GT_PARALLEL_DDP }, false },
	{ "ddp, compressed", 2, { .kind = GT_PARALLEL_DDP, .compress = GT_COMPRESS_FP16 }, false },
	{ "zero1", 2, { .kind = GT_PARALLEL_ZERO1 }, false },
	{ "zero1", 4, { .kind = GT_PARALLEL_ZERO1 }, false },
	{ "zero2", 2, { .kind = GT_PARALLEL_ZERO2 }, false },
	{ "zero2", 4, { .kind = GT_PARALLEL_ZERO2 }, false },
	{ "zero3", 2, { .kind = GT_PARALLEL_ZERO3 }, false },
	{ "zero3", 4, { .kind = GT_PARALLEL_ZERO3 }, false },
	{ "zero1, a shard", 2, { .kind = GT_PARALLEL_ZERO1 }, true },
	{ "zero1, a shard", 4, { .kind = GT_PARALLEL_ZERO1 }, true },
	{ "zero2, a shard", 4, { .kind = GT_PARALLEL_ZERO2 }, true },
	{ "zero3, a shard", 4, { .kind = GT_PARALLEL_ZERO3 }, true },
	{ "tensor", 2, { .tensor = 2 }, false },
	{ "tensor, a shard", 2, { .tensor = 2 }, true },
	{ "tensor and data", 4, { .tensor = 2 }, false },
	{ "pipeline", 2, { .stages = 2 }, false },
	{ "pipeline, a stage", 2, { .stages = 2 }, true },
	{ "pipeline and data", 4, { .stages = 2 }, false },
	{ "tensor and pipeline", 4, { .tensor = 2, .stages = 2 }, false },
	{ "pipeline and zero1", 4, { .kind = GT_PARALLEL_ZERO1, .stages = 2 }, false },
	{ "tensor and zero1, a shard", 4, { .kind = GT_PARALLEL_ZERO1, .tensor = 2 }, true },
};

/* A rank's steps: its weights and its results behind each. */
struct course {
	char *weights[STEPS];
	struct gt_step_result result[STEPS];
};

struct plan {
	struct course *courses;
	int overflows; /* rank */
	bool shard;
};

/* A gradient that this rank alone holds. */
static float *own_gradient(const struct gt_store *s)
{
	float *g = s->gradients->memory;

	if (s->parts)
		return g +
		       (s->gradients->cut == GT_CUT_PACKED ? s->parts[0].at : s->parts[0].offset);
	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role == GT_PARAMETER && !slot->on_other_ranks && slot->ndim == 2 &&
		    (slot->held < slot->count || strstr(slot->name, ".h.1.")))
			return gt_slot_address(s->gradients, slot);
	}
	return NULL;
}

static int plant(struct model_rank *r)
{
	const float inf = INFINITY;

	return gt_device_write(
	    r->store->device, own_gradient(r->store), &inf, sizeof(inf), &r->err);
}

/* The gradients of one rank overflow float16, as its loss counts too much; or one gradient does. */
static int train(struct model_rank *r)
{
	const struct plan *plan = r->user;
	const struct gt_store *s = r->store;
	struct course *c = plan->courses + r->group->rank;
	size_t bytes = gt_plane_bytes(s, s->parameters);
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		bool overflow = i == OVERFLOW_AT && r->group->rank == plan->overflows;

		rc = r->accumulate ? gt_optim_zero_grad(r->optim, &r->err) : 0;
		if (!rc)
			rc = model_rank_step(r, overflow && !plan->shard ? 1e6f : 1);
		if (!rc && overflow && plan->shard)
			rc = plant(r);
		if (!rc)
			rc = model_rank_update(r, 0.01);
		c->result[i] = r->result;
		c->weights[i] = malloc(bytes);
		if (!rc)
			rc = gt_device_read(
			    s->device, c->weights[i], s->parameters->memory, bytes, &r->err);
	}
	return rc;
}

static void check_course(const struct course *c, size_t bytes, const char *what, int rank)
{
	static const struct {
		bool skip;
		float scale;
		int64_t steps, tracker;
	} want[STEPS] = { { false, 1024, 1, 1 }, { true, 512, 1, 0 }, { false, 512, 2, 1 },
		{ false, 1024, 3, 0 } };

	for (int i = 0; i < STEPS; i++) {
		const struct gt_step_result *r = &c->result[i];
		bool still = i && !memcmp(c->weights[i], c->weights[i - 1], bytes);

		if (r->skip != want[i].skip || r->scale != want[i].scale || r->diverged ||
		    r->steps != want[i].steps || r->growth_tracker != want[i].tracker)
			fail_msg(
			    "%s, rank %d, step %d: skip %d, scale %g, %lld updates, tracker %lld",
			    what, rank, i, r->skip, (double)r->scale, (long long)r->steps,
			    (long long)r->growth_tracker);
		if (still != want[i].skip)
			fail_msg("%s, rank %d, step %d: weights are%s as before", what, rank, i,
			    still ? "" : " not");
	}
}

/* One rank's overflow skips the update on all of them, and halves the scale, which grows again. */
static void overflows_skip_a_step_on_all_ranks(void **state)
{
	const struct gt_optim_options adamw = { .kind = GT_ADAMW,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.clip = 1,
		.scaler = scaler };

	(void)state;
	for (size_t i = 0; i < COUNT(modes); i++) {
		struct course all[MOST] = { 0 };
		struct plan plan = { all, modes[i].count - 1, modes[i].shard };
		struct model_rank ranks[MOST], like = { .spec = GPT,
			.samples = 4,
			.options = modes[i].options,
			.optimizer = &adamw,
			.accumulate = modes[i].options.stages > 1,
			.user = &plan };

		like.options.precision.low = GT_F16;
		like.options.bucket_bytes = 1024;
		/* Simulated GPUs are slow: every mode on the most ranks, without the variants. */
		if (!test_device_is_cpu() && (modes[i].count < MOST || modes[i].shard))
			continue;
		model_ranks_run(ranks, modes[i].count, &like, train);
		model_ranks_expect_well(ranks, modes[i].count);
		for (int r = 0; r < modes[i].count; r++) {
			check_course(&all[r],
			    gt_plane_bytes(ranks[r].store, ranks[r].store->parameters),
			    modes[i].what, r);
			for (int k = 0; k < STEPS; k++)
				free(all[r].weights[k]);
		}
		model_ranks_close(ranks, modes[i].count);
	}
}

/* ---- the numbers ---- */

struct scaled {
	float loss, norm[STEPS];
	char *weights;
	size_t bytes;
};

static int train_alone(struct model_rank *r)
{
	struct scaled *out = r->user;
	int rc = 0;

	out->bytes = gt_plane_bytes(r->store, r->store->parameters);
	out->weights = malloc(out->bytes);
	for (int i = 0; !rc && i < STEPS; i++) {
		rc = model_rank_step(r, 1);
		if (!rc)
			rc = model_rank_update(r, 0.01);
		out->norm[i] = r->norm;
	}
	out->loss = (float)r->loss;
	return rc ? rc
	          : gt_device_read(r->store->device, out->weights, r->store->parameters->memory,
	                out->bytes, &r->err);
}

/* In float32 a power of two is taken in and out again without a trace, on any device; losses are
 * reported without it. */
static void a_scale_changes_no_bits(void **state)
{
	static const enum gt_optim_kind kinds[] = { GT_SGD, GT_ADAMW, GT_MUON };

	(void)state;
	for (size_t i = 0; i < 2 * COUNT(kinds); i++) {
		struct gt_optim_options o = { .kind = kinds[i / 2],
			.momentum = 0.9,
			.beta1 = 0.9,
			.beta2 = 0.95,
			.eps = 1e-8,
			.weight_decay = 0.1,
			.fallback_lr_factor = 1,
			.clip = 0.1 };
		struct scaled with, without;
		struct model_rank rank, like = { .spec = GPT,
			.samples = 4,
			.micro_batches = 1 + (int)(i % 2),
			.optimizer = &o };

		like.user = &without;
		model_ranks_run(&rank, 0, &like, train_alone);
		model_ranks_expect_well(&rank, 0);
		model_ranks_close(&rank, 0);
		o.scaler = scaler;
		like.user = &with;
		model_ranks_run(&rank, 0, &like, train_alone);
		model_ranks_expect_well(&rank, 0);
		assert_true(gt_optim_scaler(rank.optim)->scale == 4096);
		model_ranks_close(&rank, 0);
		assert_true(with.loss == without.loss);
		assert_memory_equal(with.norm, without.norm, sizeof(with.norm));
		assert_memory_equal(with.weights, without.weights, with.bytes);
		free(with.weights);
		free(without.weights);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_follows_gradients),
		cmocka_unit_test(clipping_knows_the_scale),
		cmocka_unit_test(a_scale_changes_no_bits),
		/* the last: it needs four ranks, too many for one GPU (model_ranks_run) */
		cmocka_unit_test(overflows_skip_a_step_on_all_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
