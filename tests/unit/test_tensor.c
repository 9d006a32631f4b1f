/* test_tensor.c - ranks that hold parts of each layer have the loss and the gradients of one. */
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
#include "lib/parallel/tensor.h"
#include "lib/train/program.h"

enum { SAMPLES = 4, MOST = 4, STATS = 4 }; /* samples of all ranks */

static const struct gt_ring_options patience = { .timeout_s = 60 };

static const struct gt_optim_options adamw = {
	.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1, .clip = 0.1
};

/* What no number of ranks divides, dropout, layers without a partner, no biases. */
static const char *const specs[] = {
	"mlp:20,32,10",
	"mlp:7,5,4,3",
	"gpt:layers=2,heads=4,width=32,block=8,vocab=51",
	"gpt:layers=1,heads=5,width=20,block=7,vocab=13,dropout=0.3",
	"gpt2:layers=1,heads=4,width=16,block=6,vocab=37,bias=no,gelu=erf",
};

enum { SPECS = sizeof(specs) / sizeof(*specs) };

/* ---- a rank ---- */

struct rank {
	const char *spec;
	enum gt_model_purpose purpose;
	struct gt_group *group; /* NULL: alone */
	struct gt_parallel_options options;
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_program program;
	struct gt_optim *optim;
	void *arena;
	float loss, norm;
	double stats[STATS];
	void **gradients, **weights; /* whole, of each slot; on rank 0. Weights after an update */
	struct gt_err err;
};

static int seat(const struct rank *r, enum gt_axis axis)
{
	return r->parallel ? gt_parallel_seat(r->parallel, axis) : 0;
}

static int data_ranks(const struct rank *r)
{
	return r->parallel ? gt_parallel_axis(r->parallel, GT_AXIS_DATA)->size : 1;
}

static int open_store(struct rank *r)
{
	struct gt_err *err = &r->err;
	int rc = gt_model_open(&r->model, r->spec, err);

	if (rc)
		return rc;
	gt_model_wishes(r->model, &r->in);
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
	return rc ? rc : gt_optim_new(&r->optim, r->store, &adamw, err);
}

static int open_rank(struct rank *r)
{
	int rc = open_store(r);

	if (!rc)
		rc = gt_program_init(&r->program,
		    &(struct gt_program_options){ .model = r->model,
		        .input = &r->in,
		        .purpose = r->purpose,
		        .store = r->store,
		        .parallel = r->parallel },
		    SAMPLES / data_ranks(r), &r->err);
	if (!rc)
		rc = gt_cpu_backend.alloc(
		    0, gt_plan_arena_bytes(r->program.plan), &r->arena, &r->err);
	return rc ? rc : gt_plan_bind(r->program.plan, r->arena, &r->err);
}

static void free_all(void **tensors, size_t count)
{
	for (size_t i = 0; tensors && i < count; i++)
		free(tensors[i]);
	free(tensors);
}

static void close_rank(struct rank *r)
{
	size_t bytes = r->program.plan ? gt_plan_arena_bytes(r->program.plan) : 0;

	if (r->store) {
		free_all(r->gradients, r->store->slot_count);
		free_all(r->weights, r->store->slot_count);
	}
	gt_optim_free(r->optim);
	gt_program_release(&r->program);
	gt_cpu_backend.free(0, r->arena, bytes);
	gt_store_free(r->store);
	gt_parallel_free(r->parallel);
	gt_model_close(r->model);
}

/* This rank's samples: those of seat d on the data axis are d, d + ranks, ... Every seventh target
 * does not count. */
static void make_batch(const struct rank *r, void *input, int32_t *target)
{
	const struct gt_program *p = &r->program;
	int64_t values = gt_value_elements(p->io.input) / p->batch;
	int64_t targets = gt_value_elements(p->io.target) / p->batch;

	for (int i = 0; i < p->batch; i++) {
		int64_t sample = (int64_t)i * data_ranks(r) + seat(r, GT_AXIS_DATA);

		for (int64_t k = 0; k < values; k++) {
			int64_t x = (k * 7 + sample * 13 + k * k % 11) % 13;

			if (p->io.input->dtype == GT_F32)
				((float *)input)[i * values + k] = (float)x / 8 - 1;
			else
				((int32_t *)input)[i * values + k] = (int32_t)x;
		}
		for (int64_t k = 0; k < targets; k++) {
			int64_t x = k + sample * 3;

			target[i * targets + k] =
			    x % 7 == 5 ? -100 : (int32_t)(x * 5 % r->in.classes);
		}
	}
}

static int run_program(struct rank *r)
{
	const struct gt_program *p = &r->program;
	void *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	int64_t rng[GT_RNG_FIELDS] = { [GT_RNG_SEED] = 5, [GT_RNG_STEP] = 2 };
	float weight = 1.0f / 16;
	int rc;

	rng[GT_RNG_FIRST] = seat(r, GT_AXIS_DATA);
	rng[GT_RNG_STRIDE] = data_ranks(r);
	make_batch(r, input, target);
	rc = gt_program_feed(&r->program, &batch, &r->err);
	if (!rc && p->io.weight)
		rc = gt_plan_write(p->plan, p->io.weight, &weight, sizeof(weight), &r->err);
	if (!rc && p->io.rng)
		rc = gt_plan_write(p->plan, p->io.rng, rng, sizeof(rng), &r->err);
	if (!rc)
		rc = gt_plan_run(p->plan, &r->err);
	if (!rc && p->io.loss)
		rc = gt_plan_read(p->plan, p->io.loss, &r->loss, sizeof(r->loss), &r->err);
	if (!rc && p->io.stats)
		rc = gt_plan_read(p->plan, p->io.stats, r->stats, sizeof(r->stats), &r->err);
	free(input);
	free(target);
	return rc;
}

/* The whole of each parameter's share of flat memory, on the first rank. */
static int collect(struct rank *r, const void *flat, void ***out)
{
	const struct gt_store *s = r->store;
	int rc = 0;

	*out = calloc(s->slot_count, sizeof(**out));
	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		const char *place = (const char *)flat + (size_t)slot->offset * sizeof(float);

		if (!r->group || !r->group->rank)
			(*out)[i] = calloc(1, gt_slot_bytes(slot));
		if (r->parallel)
			rc = gt_parallel_collect(
			    r->parallel, slot, GT_HELD_DATA, flat, (*out)[i], &r->err);
		else
			memcpy((*out)[i], place, gt_slot_bytes(slot));
	}
	return rc;
}

static void *run_rank(void *self)
{
	struct rank *r = self;
	int rc = open_rank(r);

	if (!rc)
		rc = run_program(r);
	if (rc || r->purpose != GT_MODEL_TRAIN)
		return NULL;
	rc = collect(r, r->store->gradients, &r->gradients);
	if (!rc)
		rc = r->parallel
		         ? gt_parallel_update(r->parallel, r->optim, 0.01, &r->norm, &r->err)
		         : gt_optim_step(r->optim, 0.01, &r->norm, &r->err);
	if (!rc)
		collect(r, r->store->parameters, &r->weights);
	return NULL;
}

/* ---- ranks beside one ---- */

static void run_ranks(struct rank *ranks, struct gt_group **groups, int size, int tensor,
    const char *spec, enum gt_model_purpose purpose)
{
	struct gt_err err = GT_ERR_INIT;
	pthread_t threads[MOST];

	assert_int_equal(gt_ring_of_threads(groups, size, &patience, &err), 0);
	for (int i = 0; i < size; i++) {
		ranks[i] = (struct rank){ .spec = spec,
			.purpose = purpose,
			.group = groups[i],
			.options = { .bucket_bytes = 4096, .tensor = tensor } };
		assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
	}
	for (int i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
}

static void close_ranks(struct rank *ranks, struct gt_group **groups, int size)
{
	for (int i = 0; i < size; i++)
		close_rank(&ranks[i]);
	for (int i = 0; i < size; i++)
		gt_group_free(groups[i]);
}

static void expect_well(const struct rank *ranks, int size)
{
	for (int i = 0; i < size; i++)
		if (ranks[i].err.code)
			fail_msg("%s, rank %d: %s", ranks[i].spec, i, ranks[i].err.text);
}

/* Keys' biases change no loss: what their gradient is, is rounding, of the size of others'. */
static void compare_tensors(const struct rank *one, void **a, void **b, const char *what)
{
	double largest = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < one->store->slot_count; i++) {
			const struct gt_slot *slot = &one->store->slots[i];

			for (int64_t k = 0; k < slot->count; k++) {
				double x = ((float *)a[i])[k], y = ((float *)b[i])[k];

				largest = pass ? largest : fmax(largest, fabs(x));
				if (pass && !(fabs(x - y) <= 2e-6 * largest))
					fail_msg("%s: %s of '%s', element %lld: %g, of ranks %g",
					    one->spec, what, slot->name, (long long)k, x, y);
			}
		}
	assert_true(largest > 1e-3);
}

/* Of what is not cut all ranks have the same bits. */
static void compare_replicas(const struct rank *ranks, int size)
{
	size_t compared = 0;

	for (size_t i = 0; i < ranks->store->slot_count; i++) {
		const struct gt_slot *slot = &ranks->store->slots[i];

		if (gt_tensor_split(ranks->parallel, slot->name))
			continue;
		compared++;
		for (int r = 1; r < size; r++) {
			const struct gt_slot *other = &ranks[r].store->slots[i];

			assert_memory_equal(gt_store_gradient(ranks->store, slot),
			    gt_store_gradient(ranks[r].store, other), gt_slot_bytes(slot));
			assert_memory_equal(gt_store_data(ranks->store, slot),
			    gt_store_data(ranks[r].store, other), gt_slot_bytes(slot));
		}
	}
	assert_true(compared > 0);
}

static void compare_training(const char *spec, int size, int tensor)
{
	struct rank ranks[MOST] = { 0 }, one = { .spec = spec, .purpose = GT_MODEL_TRAIN };
	struct gt_group *groups[MOST];
	double loss = 0;

	run_rank(&one);
	expect_well(&one, 1);
	run_ranks(ranks, groups, size, tensor, spec, GT_MODEL_TRAIN);
	expect_well(ranks, size);
	for (int i = 0; i < size; i++) {
		assert_true(ranks[i].loss == ranks[i - i % tensor].loss);
		loss += i % tensor ? 0 : ranks[i].loss;
		assert_true(ranks[i].norm == ranks->norm);
	}
	if (!(fabs(loss - one.loss) <= 1e-6 * one.loss))
		fail_msg("%s on %d: loss %.9g, of one %.9g", spec, size, loss, one.loss);
	if (!(fabs(ranks->norm - one.norm) <= 1e-6 * one.norm))
		fail_msg("%s on %d: norm %.9g, of one %.9g", spec, size, ranks->norm, one.norm);
	compare_tensors(&one, one.gradients, ranks->gradients, "gradient");
	compare_tensors(&one, one.weights, ranks->weights, "weight");
	compare_replicas(ranks, size);
	close_rank(&one);
	close_ranks(ranks, groups, size);
}

static void parts_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++)
		for (int n = 2; n <= MOST; n++)
			compare_training(specs[i], n, n);
}

static void two_by_two_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++)
		compare_training(specs[i], 4, 2);
}

static void evaluation_counts_as_one_does(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++) {
		for (int n = 2; n <= MOST; n++) {
			struct rank ranks[MOST] = { 0 };
			struct rank one = { .spec = specs[i], .purpose = GT_MODEL_EVAL };
			struct gt_group *groups[MOST];

			run_rank(&one);
			expect_well(&one, 1);
			run_ranks(ranks, groups, n, n, specs[i], GT_MODEL_EVAL);
			expect_well(ranks, n);
			assert_true(one.stats[1] > 0 && one.stats[3] > 0);
			for (int r = 0; r < n; r++) {
				assert_true(
				    fabs(ranks[r].stats[0] - one.stats[0]) <= 1e-6 * one.stats[0]);
				for (int k = 1; k < STATS; k++)
					assert_true(ranks[r].stats[k] == one.stats[k]);
			}
			close_rank(&one);
			close_ranks(ranks, groups, n);
		}
	}
}

/* ---- who comes before the target ---- */

enum { WIDTH = 4, VOCAB = 13 };

/* Logits that tie: row i of the table, which is the head, is i mod 3 in its first column and 0 in
 * the others. And one that is NaN. */
static void set_table(struct rank *r, bool nan)
{
	float whole[VOCAB * WIDTH];
	const struct gt_slot *slot = gt_store_find(r->store, "transformer.wte.weight");
	struct gt_err err = GT_ERR_INIT;

	for (int i = 0; i < VOCAB; i++)
		for (int k = 0; k < WIDTH; k++)
			whole[i * WIDTH + k] = k ? 0 : (float)(i % 3);
	if (nan)
		whole[(VOCAB - 1) * WIDTH] = NAN;
	if (r->parallel)
		gt_parallel_deal(
		    r->parallel, slot, GT_HELD_DATA, r->store->parameters, whole, &err);
	else
		memcpy(gt_store_data(r->store, slot), whole, sizeof(whole));
}

static void *judge(void *self)
{
	struct rank *r = self;

	if (open_rank(r))
		return NULL;
	set_table(r, r->loss != 0);
	run_program(r);
	return NULL;
}

static void ties_and_nans_are_judged_alike(void **state)
{
	static const char spec[] = "gpt:layers=1,heads=2,width=4,block=8,vocab=13";

	(void)state;
	for (int nan = 0; nan < 2; nan++) {
		struct rank ranks[2] = { 0 };
		struct rank one = { .spec = spec, .purpose = GT_MODEL_EVAL, .loss = (float)nan };
		struct gt_group *groups[2];
		struct gt_err err = GT_ERR_INIT;
		pthread_t threads[2];

		judge(&one);
		expect_well(&one, 1);
		assert_int_equal(gt_ring_of_threads(groups, 2, &patience, &err), 0);
		for (int i = 0; i < 2; i++) {
			ranks[i] = (struct rank){ .spec = spec,
				.purpose = GT_MODEL_EVAL,
				.loss = (float)nan,
				.group = groups[i],
				.options = { .bucket_bytes = 4096, .tensor = 2 } };
			pthread_create(&threads[i], NULL, judge, &ranks[i]);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		expect_well(ranks, 2);
		assert_true(isnan(one.stats[0]) == (nan == 1));
		assert_true(isnan(ranks[1].stats[0]) == (nan == 1));
		for (int k = 1; k < STATS; k++)
			assert_true(ranks[0].stats[k] == one.stats[k]);
		assert_true(nan ? one.stats[3] == 0 : one.stats[3] > one.stats[2]);
		close_rank(&one);
		close_ranks(ranks, groups, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_have_the_gradients_of_one),
		cmocka_unit_test(two_by_two_have_the_gradients_of_one),
		cmocka_unit_test(evaluation_counts_as_one_does),
		cmocka_unit_test(ties_and_nans_are_judged_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
