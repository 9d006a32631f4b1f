/* test_zero.c - ranks that divide ddp's memory update as one rank, and gather whole tensors. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/parallel/data/zero.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"

enum { SAMPLES = 12, MOST = 4, STEPS = 3 }; /* samples of all ranks */

/* Tensors of odd sizes, some with fewer elements than there are ranks. */
static const char *const specs[] = { "mlp:7,5,3", "mlp:1,1,2", "lenet",
	"gpt:layers=2,heads=2,width=32,block=8,vocab=51" };

static const struct gt_optim_options optimizers[] = {
	{ .kind = GT_ADAMW,
	    .beta1 = 0.9,
	    .beta2 = 0.99,
	    .eps = 1e-3,
	    .weight_decay = 0.1,
	    .clip = 0.1 },
	{ .kind = GT_SGD, .momentum = 0.9, .weight_decay = 0.01 },
	{ .kind = GT_SGD },
	{ .kind = GT_MUON,
	    .momentum = 0.95,
	    .beta1 = 0.9,
	    .beta2 = 0.99,
	    .eps = 1e-3,
	    .weight_decay = 0.1,
	    .clip = 0.1,
	    .fallback_lr_factor = 0.5 },
	{ .kind = GT_ADAN, .eps = 1e-2, .weight_decay = 0.1, .clip = 0.1 },
};

/* Weights, and the optimizer's states for them, whole. */
static int collect(struct model_rank *r)
{
	int rc = model_rank_collect(r, 0, r->store->parameters);

	for (int i = 0; !rc && i + 1 < MODEL_RANK_WHOLES; i++)
		rc = model_rank_collect_state(r, i + 1, i);
	return rc;
}

static int train(struct model_rank *r)
{
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		rc = model_rank_step(r, 1);
		if (!rc)
			rc = model_rank_update(r, 0.05);
	}
	return rc ? rc : collect(r);
}

/* ---- comparing ---- */

static void compare_tensors(
    const struct model_rank *a, const struct model_rank *b, int which, const char *text)
{
	/* Muon makes the small directions of a gradient, and their rounding, 500 times larger. */
	double bound = gt_optim_options(a->optim)->kind == GT_MUON ? 1e-3 : 2e-5;

	for (size_t i = 0; i < a->store->slot_count; i++) {
		const struct gt_slot *slot = &a->store->slots[i];
		const float *x = a->whole[which][i], *y = b->whole[which][i];
		double far = 0, largest = 1e-5;

		assert_true(!x == !y);
		for (int64_t k = 0; x && k < slot->count; k++) {
			largest = fmax(largest, fabsf(x[k]));
			far = fmax(far, fabsf(x[k] - y[k]));
		}
		if (!(far <= bound * largest))
			fail_msg("%s: '%s' (%d) is apart by %g of %g", text, slot->name, which, far,
			    largest);
	}
}

static void compare(const struct model_rank *a, const struct model_rank *b, const char *text)
{
	for (int i = 0; i < MODEL_RANK_WHOLES; i++) {
		assert_true(!a->whole[i] == !b->whole[i]);
		if (a->whole[i])
			compare_tensors(a, b, i, text);
	}
	if (!(fabsf(a->norm - b->norm) <= 1e-5F * fabsf(a->norm)))
		fail_msg("%s: norms %g, %g", text, (double)a->norm, (double)b->norm);
}

static void compare_with_one(enum gt_parallel_kind kind, const char *spec,
    const struct gt_optim_options *optimizer, int64_t bucket_bytes, int micro_batches)
{
	struct model_rank like = { .spec = spec,
		.options = { .kind = kind, .bucket_bytes = bucket_bytes },
		.samples = SAMPLES,
		.optimizer = optimizer };
	struct model_rank ranks[MOST], one;

	model_ranks_run(&one, 0, &like, train);
	model_ranks_expect_well(&one, 0);
	like.micro_batches = micro_batches;
	for (int n = 1; n <= MOST; n++) {
		char text[120];

		if (SAMPLES % (n * micro_batches))
			continue;
		model_ranks_run(ranks, n, &like, train);
		model_ranks_expect_well(ranks, n);
		snprintf(text, sizeof(text), "%s, %s, %d ranks of %s", spec,
		    gt_optim_names[optimizer->kind], n, gt_parallel_names[kind]);
		compare(&one, &ranks[0], text);
		for (int i = 1; i < n; i++)
			assert_true(ranks[i].norm == ranks[0].norm);
		model_ranks_close(ranks, n);
	}
	model_ranks_close(&one, 0);
}

static const enum gt_parallel_kind kinds[] = { GT_PARALLEL_ZERO1, GT_PARALLEL_ZERO2,
	GT_PARALLEL_ZERO3 };

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static void ranks_update_as_one(void **state)
{
	(void)state;
	/* Simulated GPUs are slow: an optimizer of ranges, and one of whole tensors. */
	if (!test_device_is_cpu()) {
		for (size_t m = 0; m < 2 * COUNT(kinds); m++)
			compare_with_one(kinds[m / 2], specs[0], &optimizers[m % 2 ? 3 : 0], 1, 1);
		return;
	}
	for (size_t m = 0; m < COUNT(kinds); m++)
		for (size_t i = 0; i < COUNT(specs); i++)
			for (size_t o = 0; o < COUNT(optimizers); o++) {
				compare_with_one(kinds[m], specs[i], &optimizers[o], 1, 1);
				compare_with_one(kinds[m], specs[i], &optimizers[o], 25 << 20, 1);
			}
}

static void micro_batches_add_up(void **state)
{
	(void)state;
	for (size_t m = 0; m < COUNT(kinds); m++)
		for (size_t i = 0; i < (test_device_is_cpu() ? COUNT(specs) : 1); i++)
			compare_with_one(kinds[m], specs[i], &optimizers[0], 4096, 3);
}

/* ---- parts ---- */

/* The parts of all ranks are the buffer: each element is one rank's. */
static void every_element_has_one_owner(void **state)
{
	(void)state;
	test_device_host_only();
	for (int n = 2; n <= MOST; n++) {
		const struct model_rank like = { .spec = specs[3],
			.options = { .kind = GT_PARALLEL_ZERO1, .bucket_bytes = 5000 },
			.samples = SAMPLES };
		struct model_rank ranks[MOST];
		const struct gt_store *s;
		int *owners;

		model_ranks_run(ranks, n, &like, NULL);
		s = ranks[0].store;
		owners = calloc((size_t)s->flat_count, sizeof(*owners));
		for (int i = 0; i < n; i++) {
			int64_t at = 0;

			s = ranks[i].store;
			assert_true(s->part_count > 3);
			assert_int_equal(s->part_elements, s->flat_count / n);
			for (size_t k = 0; k < s->part_count; k++) {
				assert_int_equal(s->parts[k].at, at);
				assert_int_equal(s->parts[k].offset % 16, 0);
				at += s->parts[k].count;
				for (int64_t e = 0; e < s->parts[k].count; e++)
					owners[s->parts[k].offset + e]++;
			}
			assert_int_equal(at, s->part_elements);
		}
		for (int64_t e = 0; e < s->flat_count; e++)
			assert_int_equal(owners[e], 1);
		free(owners);
		model_ranks_close(ranks, n);
	}
}

/* ---- parts that end where tensors do ---- */

static bool is_matrix(const struct gt_slot *slot)
{
	return slot->ndim > 1;
}

static bool is_hidden(const struct gt_slot *slot)
{
	return slot->hidden;
}

/* No part of a bucket ends within a whole tensor, and every parameter has a place of its own. */
static void check_whole(const struct gt_store *s, const struct gt_buckets *b, int ranks,
    bool (*whole)(const struct gt_slot *slot))
{
	int *taken = calloc((size_t)s->flat_count, sizeof(*taken));
	int64_t end = 0;

	for (size_t i = 0; i < b->size; i++) {
		assert_int_equal(b->first[i], end);
		assert_int_equal(b->count[i] % (16 * ranks), 0);
		end += b->count[i];
	}
	assert_int_equal(end, s->flat_count);
	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		size_t bucket = gt_buckets_find(b, slot->offset);
		int64_t part = b->count[bucket] / ranks, at = slot->offset - b->first[bucket];

		if (slot->role != GT_PARAMETER)
			continue;
		assert_int_equal(slot->offset % 16, 0);
		assert_true(at + slot->count <= b->count[bucket]);
		if (whole && whole(slot))
			assert_int_equal(at / part, (at + slot->count - 1) / part);
		for (int64_t e = 0; e < slot->count; e++)
			taken[slot->offset + e]++;
	}
	for (int64_t e = 0; e < s->flat_count; e++)
		assert_true(taken[e] <= 1);
	free(taken);
}

static struct gt_store *lay_out(const char *spec)
{
	const struct gt_parallel_options alone = { .ranks = 1 };
	struct model_rank r = { .spec = spec };
	struct gt_store *s;

	assert_int_equal(gt_model_open(&r.model, spec, &r.err), 0);
	gt_model_preferred_input(r.model, &r.in);
	r.in.form.classes = r.in.form.classes ? r.in.form.classes : 51;
	assert_int_equal(gt_parallel_new(&r.parallel, &alone, NULL, &r.err), 0);
	assert_int_equal(
	    gt_program_store(&s, r.model, &r.in, test_device(0), true, r.parallel, &r.err), 0);
	gt_parallel_free(r.parallel);
	gt_model_close(r.model);
	return s;
}

static void whole_tensors_have_one_owner(void **state)
{
	static const char *const models[] = { "mlp:7,5,3", "mlp:1,1,2", "lenet", "resnet20",
		"gpt:layers=4,heads=2,width=32,block=8,vocab=51", "mlp:64,64,64,64,64,64,64,9" };
	bool (*const kinds_of[])(const struct gt_slot *slot) = { NULL, is_matrix, is_hidden };
	const int64_t bytes[] = { 1, 5000, 25 << 20 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	test_device_host_only();
	for (size_t m = 0; m < COUNT(models); m++)
		for (size_t w = 0; w < COUNT(kinds_of); w++)
			for (size_t k = 0; k < COUNT(bytes); k++)
				for (int n = 1; n <= 5; n++) {
					struct gt_store *s = lay_out(models[m]);
					struct gt_buckets b;

					assert_int_equal(
					    gt_zero_cut(&b, s, n, bytes[k], kinds_of[w], &err), 0);
					check_whole(s, &b, n, kinds_of[w]);
					gt_buckets_release(&b);
					gt_store_free(s);
				}
}

/* 24 matrices of 32 x 32 to 32 x 128: most of a rank's elements are no padding. */
static void whole_tensors_are_balanced(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	test_device_host_only();
	for (int n = 1; n <= 8; n++) {
		struct gt_store *s = lay_out("gpt:layers=6,heads=2,width=32,block=8,vocab=51");
		struct gt_buckets b;

		assert_int_equal(gt_zero_cut(&b, s, n, 20000, is_hidden, &err), 0);
		if (s->flat_count > 1.6 * (double)s->parameter_count)
			fail_msg("%d ranks: %lld elements for %lld", n, (long long)s->flat_count,
			    (long long)s->parameter_count);
		gt_buckets_release(&b);
		gt_store_free(s);
	}
}

/* Elements of the layout that ranks need at least for whole tensors in equal parts: all, or the
 * largest tensor each. */
static int64_t least_elements(
    const struct gt_store *s, int ranks, bool (*whole)(const struct gt_slot *slot))
{
	int64_t largest = 0, all = 0;

	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role != GT_PARAMETER)
			continue;
		all += gt_slot_padded(slot);
		if (whole(slot) && gt_slot_padded(slot) > largest)
			largest = gt_slot_padded(slot);
	}
	return all > ranks * largest ? all : ranks * largest;
}

/* Neither a matrix larger than all others together nor one that is left over makes other ranks hold
 * padding for it, where there are parameters for them to hold. */
static void last_bucket_is_no_padding(void **state)
{
	static const struct {
		const char *spec;
		int64_t bytes;
	} rows[] = {
		{ "mlp:9,200,20,20,85", 1 }, /* half of the elements are in one matrix */
		{ "mlp:9,200,20,20,85", 25 << 20 },
		/* the last that the backward pass comes to is the largest */
		{ "mlp:9,200,20,20,20,20,20,20,20,20,20,20,20,20,20,9", 1 },
	};
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	test_device_host_only();
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int n = 1; n <= 8; n++) {
			struct gt_store *s = lay_out(rows[i].spec);
			int64_t least = least_elements(s, n, is_hidden);
			struct gt_buckets b;

			assert_int_equal(gt_zero_cut(&b, s, n, rows[i].bytes, is_hidden, &err), 0);
			check_whole(s, &b, n, is_hidden);

			if (s->flat_count > 1.05 * (double)least)
				fail_msg("%s, %d ranks: %lld elements where %lld would do",
				    rows[i].spec, n, (long long)s->flat_count, (long long)least);
			gt_buckets_release(&b);
			gt_store_free(s);
		}
}

/* Since `when`: of those whose names begin with `what`. */
static int events_since(const struct model_rank *r, double when, const char *what)
{
	size_t count;
	const struct gt_parallel_event *events = gt_parallel_events(r->parallel, &count);
	int n = 0;

	for (size_t i = 0; i < count; i++)
		n += events[i].span.began >= when && events[i].span.ended >= events[i].span.began &&
		     !strncmp(events[i].what, what, strlen(what));
	return n;
}

static int expect_events(struct model_rank *r, double since, int reduced, int gathered)
{
	int a = events_since(r, since, "bucket "), b = events_since(r, since, "gather of bucket ");

	if (a == reduced && b == gathered)
		return 0;
	return gt_err_set(
	    &r->err, GT_EINVAL, "%d and %d events, not %d and %d", a, b, reduced, gathered);
}

/* Six parameters, a bucket each. Of three weights zero3 gathers one again for the backward pass,
 * which does without the first, and finds the last still there. */
static int look_at_events(struct model_rank *r)
{
	bool each = gt_parallel_adds(r->parallel), parts = r->store->parameters->cut;
	int in_run = parts ? 6 + 1 : 0;
	double began = gt_clock_s();
	int rc;

	r->goes_on = true;
	rc = model_rank_step(r, 1);
	if (!rc)
		rc = expect_events(r, began, each ? 6 : 0, in_run);
	r->goes_on = false;
	began = gt_clock_s();
	if (!rc)
		rc = model_rank_step(r, 2);
	if (!rc)
		rc = expect_events(r, began, 6, in_run);
	began = gt_clock_s();
	if (!rc)
		rc = model_rank_update(r, 0.05);
	return rc ? rc : expect_events(r, began, 0, parts ? 0 : 6);
}

static void events_are_told(void **state)
{
	(void)state;
	test_device_host_only(); /* groups for device memory tell no times */
	for (size_t i = 0; i < COUNT(kinds); i++) {
		const struct model_rank like = { .spec = "mlp:7,5,4,3",
			.options = { .kind = kinds[i], .bucket_bytes = 1 },
			.samples = SAMPLES,
			.accumulate = true };
		struct model_rank ranks[2];

		model_ranks_run(ranks, 2, &like, look_at_events);
		model_ranks_expect_well(ranks, 2);
		model_ranks_close(ranks, 2);
	}
}

/* Bytes of arena that a dry run of 4 ranks plans for a step, and its bytes of each kind. */
static size_t dry_arena(enum gt_parallel_kind kind, struct gt_plan_summary *s)
{
	struct model_rank r = { .spec = "mlp:256,256,256,256,256,256,256,256,256,10" };
	const struct gt_parallel_options options = {
		.kind = kind, .bucket_bytes = 256 * 256 * 4, .ranks = 4
	};
	size_t bytes = 0;

	assert_int_equal(gt_model_open(&r.model, r.spec, &r.err), 0);
	gt_model_preferred_input(r.model, &r.in);
	assert_int_equal(gt_parallel_new(&r.parallel, &options, NULL, &r.err), 0);
	assert_int_equal(
	    gt_program_store(&r.store, r.model, &r.in, test_device(0), true, r.parallel, &r.err),
	    0);
	if (gt_program_init(&r.program,
	        &(struct gt_program_options){ .model = r.model,
	            .input = &r.in,
	            .purpose = GT_MODEL_TRAIN,
	            .store = r.store,
	            .parallel = r.parallel },
	        1, &r.err))
		fail_msg("%s", r.err.text);
	gt_plan_summarize(r.program.plan, s);
	bytes = gt_plan_arena_bytes(r.program.plan);
	model_ranks_close(&r, 0);
	return bytes;
}

/* Nine layers, a bucket each: no more than two buckets of gradients are there at once, one that
 * travels and one that is made, and two of parameters, one that is read and one that travels. */
static void buckets_die(void **state)
{
	const size_t bucket =
	    (256 * 256 + 256 + 11 * 256) * 4; /* the largest: the last layer too */
	struct gt_plan_summary ddp, two, three;
	size_t plain = dry_arena(GT_PARALLEL_DDP, &ddp);
	size_t arena2 = dry_arena(GT_PARALLEL_ZERO2, &two);
	size_t arena3 = dry_arena(GT_PARALLEL_ZERO3, &three);

	(void)state;
	assert_true(plain < bucket);
	assert_true(arena2 > bucket && arena2 <= plain + 2 * bucket);
	assert_true(arena3 > arena2 && arena3 <= plain + 4 * bucket);
	assert_true(two.gradient_bytes * 4 < ddp.gradient_bytes * 1.01);
	assert_true(three.parameter_bytes * 4 < ddp.parameter_bytes * 1.01);
	assert_true(two.parameter_bytes >= ddp.parameter_bytes);
	assert_true(two.parameter_bytes < ddp.parameter_bytes * 1.01); /* padding */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_update_as_one),
		cmocka_unit_test(micro_batches_add_up),
		cmocka_unit_test(every_element_has_one_owner),
		cmocka_unit_test(whole_tensors_have_one_owner),
		cmocka_unit_test(whole_tensors_are_balanced),
		cmocka_unit_test(last_bucket_is_no_padding),
		cmocka_unit_test(buckets_die),
		cmocka_unit_test(events_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
