/* test_ddp.c - buckets, the nodes that add them up, and ranks that have the gradients of one. */
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
#include "lib/graph/op.h"
#include "lib/parallel/ddp.h"
#include "lib/train/program.h"

enum { RANKS = 3, SAMPLES = 4 }; /* of each rank */

static const struct gt_ring_options patience = { .timeout_s = 60 };

static const char *const specs[] = { "mlp:20,32,10", "lenet",
	"gpt:layers=2,heads=2,width=32,block=8,vocab=50" };

/* ---- a rank ---- */

struct rank {
	const char *spec;
	struct gt_group *group; /* NULL: alone, with all samples */
	int64_t bucket_bytes;
	bool accumulate;
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_program program;
	void *arena;
	struct gt_err err;
};

static int open_rank(struct rank *r)
{
	const struct gt_parallel_options options = { .kind = GT_PARALLEL_DDP,
		.bucket_bytes = r->bucket_bytes };
	int batch = r->group ? SAMPLES : SAMPLES * RANKS, rc;
	struct gt_err *err = &r->err;

	rc = gt_model_open(&r->model, r->spec, err);
	if (rc)
		return rc;
	gt_model_wishes(r->model, &r->in);
	for (int i = 0; i < r->in.channels; i++)
		r->in.std[i] = 1;
	if (r->group)
		rc = gt_parallel_new(&r->parallel, &options, r->group, err);
	if (!rc)
		rc = gt_program_store(
		    &r->store, r->model, &r->in, &gt_cpu_backend, 0, true, r->parallel, err);
	if (!rc)
		rc = gt_store_alloc(r->store, err);
	/* Rank 0 alone has the right weights to begin with. */
	if (!rc)
		rc = gt_store_init(r->store, r->group && r->group->rank ? 99 : 1, err);
	if (!rc && r->parallel)
		rc = gt_parallel_begin(r->parallel, err);
	if (!rc)
		rc = gt_program_init(&r->program,
		    &(struct gt_program_options){ .model = r->model,
		        .input = &r->in,
		        .purpose = GT_MODEL_TRAIN,
		        .store = r->store,
		        .accumulate = r->accumulate,
		        .parallel = r->parallel },
		    batch, err);
	if (!rc)
		rc = gt_cpu_backend.alloc(0, gt_plan_arena_bytes(r->program.plan), &r->arena, err);
	return rc ? rc : gt_plan_bind(r->program.plan, r->arena, err);
}

static void close_rank(struct rank *r)
{
	size_t bytes = r->program.plan ? gt_plan_arena_bytes(r->program.plan) : 0;

	gt_program_release(&r->program);
	gt_cpu_backend.free(0, r->arena, bytes);
	gt_store_free(r->store);
	gt_parallel_free(r->parallel);
	gt_model_close(r->model);
}

/* Sample i of the global batch: small whole numbers, which stand for tokens, bytes and floats. */
static void make_sample(const struct rank *r, int i, unsigned char *input, int32_t *target)
{
	size_t values = gt_value_elements(r->program.io.input) / r->program.batch;
	size_t targets = gt_value_elements(r->program.io.target) / r->program.batch;
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
		target[k] = (int32_t)((k + (size_t)i * 3) % 10);
}

/* One step's gradients of this rank's samples: those of rank r are r, r + RANKS, ... */
static int step(struct rank *r)
{
	const struct gt_program *p = &r->program;
	unsigned char *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	size_t one_input = p->input_bytes / (size_t)p->batch;
	size_t one_target = p->target_bytes / (size_t)p->batch / sizeof(*target);
	float weight = 1.0f / (float)(SAMPLES * RANKS * one_target);
	int64_t rng[GT_RNG_FIELDS] = { 0 };
	int rc;

	for (int i = 0; i < p->batch; i++)
		make_sample(r, r->group ? i * RANKS + r->group->rank : i,
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

static void *run_rank(void *self)
{
	struct rank *r = self;

	if (!open_rank(r))
		step(r);
	return NULL;
}

/* ---- gradients ---- */

static void compare_with_one(const char *spec, int64_t bucket_bytes)
{
	struct rank ranks[RANKS] = { 0 }, one = { .spec = spec };
	struct gt_group *groups[RANKS];
	pthread_t threads[RANKS];
	struct gt_err err = GT_ERR_INIT;
	double far = 0, largest = 0;

	assert_int_equal(gt_ring_of_threads(groups, RANKS, &patience, &err), 0);
	for (int i = 0; i < RANKS; i++) {
		ranks[i] =
		    (struct rank){ .spec = spec, .group = groups[i], .bucket_bytes = bucket_bytes };
		assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
	}
	run_rank(&one);
	if (one.err.code)
		fail_msg("%s: %s", spec, one.err.text);
	for (int i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < RANKS; i++)
		if (ranks[i].err.code)
			fail_msg("%s, rank %d: %s", spec, i, ranks[i].err.text);
	for (int64_t k = 0; k < one.store->flat_count; k++) {
		float g = ((float *)one.store->gradients)[k];

		largest = fmax(largest, fabs(g));
		far = fmax(far, fabs(g - ((float *)ranks[0].store->gradients)[k]));
	}
	assert_true(largest > 1e-3);
	if (far > 1e-6 * largest)
		fail_msg("%s: gradients are apart by %g of %g", spec, far, largest);
	for (int i = 1; i < RANKS; i++) {
		assert_memory_equal(ranks[0].store->gradients, ranks[i].store->gradients,
		    gt_store_flat_bytes(one.store));
		assert_memory_equal(ranks[0].store->parameters, ranks[i].store->parameters,
		    gt_store_flat_bytes(one.store));
	}
	close_rank(&one);
	for (int i = 0; i < RANKS; i++) {
		close_rank(&ranks[i]);
		gt_group_free(groups[i]);
	}
}

static void ranks_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		compare_with_one(specs[i], 25 << 20);
		compare_with_one(specs[i], 4096);
	}
}

/* ---- the pass ---- */

/* Buckets are all of the gradients, without gaps, and as large as asked for. */
static void buckets_cover_the_gradients(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		static const int64_t sizes[] = { 1, 1000, 10000, 25 << 20 };

		for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
			struct rank r = { .spec = specs[i], .bucket_bytes = sizes[k] };
			const int64_t *first, *count;
			int64_t at = 0;
			size_t n;

			assert_int_equal(gt_ring_of_threads(&r.group, 1, &patience, &r.err), 0);
			if (open_rank(&r))
				fail_msg("%s", r.err.text);
			n = gt_ddp_buckets(r.parallel, &first, &count);
			for (size_t b = 0; b < n; b++) {
				assert_int_equal(first[b], at);
				assert_true(count[b] > 0);
				assert_true(b + 1 == n || count[b] * 4 >= sizes[k]);
				at += count[b];
			}
			assert_int_equal(at, r.store->flat_count);
			assert_true(sizes[k] > 1 || n > 3);
			close_rank(&r);
			gt_group_free(r.group);
		}
	}
}

/* Whether the node has to do with gradients in [first, first + count): makes them, or, where
 * micro-batches add up, adds to them. */
static bool touches(const struct rank *r, const struct gt_node *n, int64_t first, int64_t count)
{
	const struct gt_value *all[GT_MAX_OUTPUTS + GT_MAX_INPUTS] = { 0 };

	memcpy(all, n->out, sizeof(n->out));
	memcpy(all + GT_MAX_OUTPUTS, n->in, sizeof(n->in));
	for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
		const struct gt_slot *slot;

		if (!all[k] || all[k]->role != GT_GRADIENT)
			continue;
		slot = gt_store_find(r->store, all[k]->gradient_of->name);
		if (slot->offset >= first && slot->offset < first + count)
			return true;
	}
	return false;
}

/* The last node that has to do with a bucket. */
static size_t end_of_bucket(const struct rank *r, int64_t first, int64_t count)
{
	const struct gt_graph *g = r->program.graph;
	size_t end = 0;

	for (size_t i = 0; i < g->node_count; i++)
		if (touches(r, g->nodes[i], first, count))
			end = i;
	return end;
}

/* Each all-reduce begins as soon as it can, so that the rest of the backward pass hides it; all are
 * waited for at the end. */
static void expect_nodes_in_place(bool accumulate)
{
	struct rank r = { .spec = "mlp:20,32,32,10", .bucket_bytes = 1, .accumulate = accumulate };
	const int64_t *first, *count;
	const struct gt_graph *g;
	size_t n, found = 0, before_last_work = 0;
	char *text;

	assert_int_equal(gt_ring_of_threads(&r.group, 1, &patience, &r.err), 0);
	if (open_rank(&r))
		fail_msg("%s", r.err.text);
	g = r.program.graph;
	n = gt_ddp_buckets(r.parallel, &first, &count);
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];
		int b = node->attrs.bucket.index;

		if (strcmp(node->op->name, "all_reduce_start"))
			continue;
		found++;
		assert_true(i > end_of_bucket(&r, first[b], count[b]));
		/* nothing but other buckets' nodes between the two */
		for (size_t k = end_of_bucket(&r, first[b], count[b]) + 1; k < i; k++)
			assert_string_equal(g->nodes[k]->op->name, "all_reduce_start");
		before_last_work += i + 2 < g->node_count;
	}
	assert_int_equal(found, n);
	assert_true(n > 3 && before_last_work > 2);
	assert_string_equal(g->nodes[g->node_count - 1]->op->name, "all_reduce_wait");
	text = gt_graph_print(g, &r.err);
	assert_non_null(strstr(text, "all_reduce_start"));
	assert_non_null(strstr(text, " bucket=0"));
	free(text);
	close_rank(&r);
	gt_group_free(r.group);
}

static void nodes_stand_behind_the_last_gradient(void **state)
{
	(void)state;
	expect_nodes_in_place(false);
	expect_nodes_in_place(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_have_the_gradients_of_one),
		cmocka_unit_test(buckets_cover_the_gradients),
		cmocka_unit_test(nodes_stand_behind_the_last_gradient),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
