/* test_zero.c - ranks that divide what ddp has on each update as one, and make whole tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/ring.h"
#include "lib/train/program.h"

enum { SAMPLES = 12, MOST = 4, STEPS = 3 }; /* samples of all ranks */

static const struct gt_ring_options patience = { .timeout_s = 60 };

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
};

struct rank {
	const char *spec;
	const struct gt_optim_options *optimizer;
	struct gt_group *group; /* NULL: alone, with all samples */
	struct gt_parallel_options options;
	int micro_batches;
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_program program;
	struct gt_optim *optim;
	void *arena;
	void **whole; /* [slot_count] data, then [slot_count] each state; on rank 0 */
	float norm;
	struct gt_err err;
};

static int ranks_of(const struct rank *r)
{
	return r->group ? r->group->size : 1;
}

static int open_rank(struct rank *r)
{
	struct gt_err *err = &r->err;
	int rc = gt_model_open(&r->model, r->spec, err);

	if (rc)
		return rc;
	gt_model_wishes(r->model, &r->in);
	for (int i = 0; i < r->in.channels; i++)
		r->in.std[i] = 1;
	if (r->group)
		rc = gt_parallel_new(&r->parallel, &r->options, r->group, err);
	if (!rc)
		rc = gt_program_store(
		    &r->store, r->model, &r->in, &gt_cpu_backend, 0, true, r->parallel, err);
	if (!rc)
		rc = gt_store_alloc(r->store, err);
	if (!rc)
		rc = r->parallel ? gt_parallel_init(r->parallel, 1, err)
		                 : gt_store_init(r->store, 1, err);
	if (!rc && r->parallel)
		rc = gt_parallel_begin(r->parallel, err);
	if (!rc)
		rc = gt_optim_new(&r->optim, r->store, r->optimizer, err);
	if (!rc)
		rc = gt_program_init(&r->program,
		    &(struct gt_program_options){ .model = r->model,
		        .input = &r->in,
		        .purpose = GT_MODEL_TRAIN,
		        .store = r->store,
		        .accumulate = r->micro_batches > 1,
		        .parallel = r->parallel },
		    SAMPLES / ranks_of(r) / r->micro_batches, err);
	if (!rc)
		rc = gt_cpu_backend.alloc(0, gt_plan_arena_bytes(r->program.plan), &r->arena, err);
	return rc ? rc : gt_plan_bind(r->program.plan, r->arena, err);
}

static void close_rank(struct rank *r)
{
	size_t bytes = r->program.plan ? gt_plan_arena_bytes(r->program.plan) : 0;

	for (size_t i = 0; r->whole && i < 3 * r->store->slot_count; i++)
		free(r->whole[i]);
	free(r->whole);
	gt_optim_free(r->optim);
	gt_program_release(&r->program);
	gt_cpu_backend.free(0, r->arena, bytes);
	gt_store_free(r->store);
	gt_parallel_free(r->parallel);
	gt_model_close(r->model);
}

/* Sample i of the global batch: small whole numbers, which stand for tokens, bytes and floats. */
static void make_sample(const struct rank *r, int i, unsigned char *input, int32_t *target)
{
	size_t values = (size_t)gt_value_elements(r->program.io.input) / (size_t)r->program.batch;
	size_t targets = (size_t)gt_value_elements(r->program.io.target) / (size_t)r->program.batch;
	enum gt_dtype dtype = r->program.io.input->dtype;

	for (size_t k = 0; k < values; k++) {
		int x = (int)((k * 7 + (size_t)i * 13 + k * k % 11) % 17);

		if (dtype == GT_F32)
			((float *)input)[k] = (float)x / 8 - 1;
		else if (dtype == GT_I32)
			((int32_t *)input)[k] = x;
		else
			input[k] = (unsigned char)(x * 15);
	}
	for (size_t k = 0; k < targets; k++)
		target[k] = (int32_t)((k + (size_t)i * 3) % 2);
}

/* Forward and backward of this rank's samples, from `first` of the global batch on. */
static int run_micro_batch(struct rank *r, int first)
{
	const struct gt_program *p = &r->program;
	unsigned char *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	size_t one_input = p->input_bytes / (size_t)p->batch;
	size_t one_target = p->target_bytes / (size_t)p->batch / sizeof(*target);
	float weight = 1.0f / (float)(SAMPLES * one_target);
	int64_t rng[GT_RNG_FIELDS] = { 0 };
	int rc;

	for (int i = 0; i < p->batch; i++)
		make_sample(r, first + i * ranks_of(r) + (r->group ? r->group->rank : 0),
		    input + (size_t)i * one_input, target + (size_t)i * one_target);
	rc = gt_program_feed(&r->program, &batch, &r->err);
	if (!rc)
		rc = gt_plan_write(p->plan, p->io.weight, &weight, sizeof(weight), &r->err);
	if (!rc && p->io.rng)
		rc = gt_plan_write(p->plan, p->io.rng, rng, sizeof(rng), &r->err);
	if (!rc)
		rc = gt_plan_run(p->plan, &r->err);
	free(input);
	free(target);
	return rc;
}

static int step(struct rank *r)
{
	int rc = 0;

	if (r->micro_batches > 1)
		gt_optim_zero_grad(r->optim);
	for (int i = 0; !rc && i < r->micro_batches; i++) {
		if (r->parallel)
			gt_parallel_communicate(r->parallel, i + 1 == r->micro_batches);
		rc = run_micro_batch(r, i * SAMPLES / r->micro_batches);
	}
	if (rc)
		return rc;
	return r->parallel ? gt_parallel_update(r->parallel, r->optim, 0.05, &r->norm, &r->err)
	                   : gt_optim_step(r->optim, 0.05, &r->norm, &r->err);
}

/* Every slot's data and states, whole, on rank 0. */
static int collect(struct rank *r)
{
	const struct gt_store *s = r->store;
	int rank = r->group ? r->group->rank : 0, rc = 0;

	r->whole = calloc(3 * s->slot_count, sizeof(*r->whole));
	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		float *flat = s->parameters;

		for (int which = -1; !rc && slot->role == GT_PARAMETER; which++) {
			void **whole = &r->whole[(size_t)(which + 1) * s->slot_count + i];

			if (which >= 0 && !gt_optim_state(r->optim, which, &flat))
				break;
			if (!rank)
				*whole = calloc(1, gt_slot_bytes(slot));
			if (r->parallel)
				rc = gt_parallel_collect(r->parallel, slot,
				    which < 0 ? GT_HELD_DATA : GT_HELD_STATE, flat, *whole,
				    &r->err);
			else
				memcpy(*whole, flat + slot->offset, gt_slot_bytes(slot));
		}
	}
	return rc;
}

static void *run_rank(void *self)
{
	struct rank *r = self;
	int rc = open_rank(r);

	for (int i = 0; !rc && i < STEPS; i++)
		rc = step(r);
	if (!rc)
		collect(r);
	return NULL;
}

/* ---- comparing ---- */

static void compare(const struct rank *a, const struct rank *b, const char *text)
{
	const struct gt_store *s = a->store;

	for (size_t i = 0; i < 3 * s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i % s->slot_count];
		const float *x = a->whole[i], *y = b->whole[i];
		double far = 0, largest = 1e-5;

		assert_true(!x == !y);
		for (int64_t k = 0; x && k < slot->count; k++) {
			largest = fmax(largest, fabs(x[k]));
			far = fmax(far, fabs(x[k] - y[k]));
		}
		if (!(far <= 2e-5 * largest))
			fail_msg("%s: '%s' (%zu) is apart by %g of %g", text, slot->name,
			    i / s->slot_count, far, largest);
	}
	if (!(fabs(a->norm - b->norm) <= 1e-5 * fabs(a->norm)))
		fail_msg("%s: norms %g, %g", text, (double)a->norm, (double)b->norm);
}

static void run_ranks(struct rank *ranks, struct gt_group **groups, int n)
{
	pthread_t threads[MOST];
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_ring_of_threads(groups, n, &patience, &err), 0);
	for (int i = 0; i < n; i++) {
		ranks[i] = ranks[0];
		ranks[i].group = groups[i];
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void compare_with_one(enum gt_parallel_kind kind, const char *spec,
    const struct gt_optim_options *optimizer, int64_t bucket_bytes, int micro_batches)
{
	struct rank one = { .spec = spec, .optimizer = optimizer, .micro_batches = 1 };

	run_rank(&one);
	if (one.err.code)
		fail_msg("%s: %s", spec, one.err.text);
	for (int n = 1; n <= MOST; n++) {
		struct rank ranks[MOST] = { { .spec = spec,
		    .optimizer = optimizer,
		    .micro_batches = micro_batches,
		    .options = { .kind = kind, .bucket_bytes = bucket_bytes } } };
		struct gt_group *groups[MOST];
		char text[120];

		if (SAMPLES % (n * micro_batches))
			continue;
		run_ranks(ranks, groups, n);
		snprintf(text, sizeof(text), "%s, %s, %d ranks of %s", spec,
		    gt_optim_kind_name(optimizer->kind), n, gt_parallel_kind_name(kind));
		for (int i = 0; i < n; i++)
			if (ranks[i].err.code)
				fail_msg("%s: rank %d: %s", text, i, ranks[i].err.text);
		compare(&one, &ranks[0], text);
		for (int i = 1; i < n; i++)
			assert_true(ranks[i].norm == ranks[0].norm);
		for (int i = 0; i < n; i++) {
			close_rank(&ranks[i]);
			gt_group_free(groups[i]);
		}
	}
	close_rank(&one);
}

static const enum gt_parallel_kind kinds[] = { GT_PARALLEL_ZERO1, GT_PARALLEL_ZERO2,
	GT_PARALLEL_ZERO3 };

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static void ranks_update_as_one(void **state)
{
	(void)state;
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
		for (size_t i = 0; i < COUNT(specs); i++)
			compare_with_one(kinds[m], specs[i], &optimizers[0], 4096, 3);
}

/* ---- parts ---- */

/* The parts of all ranks are the buffer: each element is one rank's. */
static void every_element_has_one_owner(void **state)
{
	(void)state;
	for (int n = 1; n <= MOST; n++) {
		struct rank ranks[MOST] = { { .spec = specs[3],
		    .optimizer = &optimizers[0],
		    .micro_batches = 1,
		    .options = { .kind = GT_PARALLEL_ZERO1, .bucket_bytes = 5000 } } };
		struct gt_group *groups[MOST];
		const struct gt_store *s;
		int *owners;

		run_ranks(ranks, groups, n);
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
		for (int i = 0; i < n; i++) {
			close_rank(&ranks[i]);
			gt_group_free(groups[i]);
		}
	}
}

/* Bytes of arena that a dry run of 4 ranks plans for a step, and what it holds of each kind. */
static size_t dry_arena(enum gt_parallel_kind kind, struct gt_plan_summary *s)
{
	struct rank r = { .spec = "mlp:256,256,256,256,256,256,256,256,256,10" };
	const struct gt_parallel_options options = {
		.kind = kind, .bucket_bytes = 256 * 256 * 4, .ranks = 4
	};
	size_t bytes = 0;

	assert_int_equal(gt_model_open(&r.model, r.spec, &r.err), 0);
	gt_model_wishes(r.model, &r.in);
	assert_int_equal(gt_parallel_new(&r.parallel, &options, NULL, &r.err), 0);
	assert_int_equal(gt_program_store(&r.store, r.model, &r.in, &gt_cpu_backend, 0, true,
	                     r.parallel, &r.err),
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
	close_rank(&r);
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
		cmocka_unit_test(buckets_die),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
