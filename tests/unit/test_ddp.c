/* test_ddp.c - buckets, the nodes that add them up, and ranks that have the gradients of one. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/parallel/data/ddp.h"
#include "lib/parallel/node_attrs.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/common/small_models.h"

enum { RANKS = 3, SAMPLES = 12 };

static struct model_rank told(const char *spec, int64_t bucket_bytes)
{
	return (struct model_rank){ .spec = spec,
		.options = { .kind = GT_PARALLEL_DDP, .bucket_bytes = bucket_bytes },
		.samples = SAMPLES };
}

/* ---- gradients ---- */

static int step(struct model_rank *r)
{
	return model_rank_step(r, 1);
}

static void compare_with_one(const char *spec, int64_t bucket_bytes)
{
	const struct model_rank like = told(spec, bucket_bytes);
	struct model_rank ranks[RANKS], one;
	double apart;
	size_t bytes;

	model_ranks_run(&one, 0, &like, step);
	model_ranks_expect_well(&one, 0);
	model_ranks_run(ranks, RANKS, &like, step);
	model_ranks_expect_well(ranks, RANKS);
	bytes = gt_store_flat_bytes(one.store);
	apart = model_ranks_apart(ranks, ranks->store->gradients->memory, &one,
	    one.store->gradients->memory, one.store->flat_count);
	if (!(apart <= 1e-6))
		fail_msg("%s: gradients are apart by %g of the largest", spec, apart);
	for (int i = 1; i < RANKS; i++) {
		model_ranks_expect_same(ranks, ranks->store->gradients->memory, &ranks[i],
		    ranks[i].store->gradients->memory, bytes);
		model_ranks_expect_same(ranks, ranks->store->parameters->memory, &ranks[i],
		    ranks[i].store->parameters->memory, bytes);
	}
	model_ranks_close(&one, 0);
	model_ranks_close(ranks, RANKS);
}

static void ranks_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (const struct small_model *m = small_models(); *m->spec; m++) {
		if (m->norms || (m->convolves && !test_device_is_cpu()))
			continue;
		compare_with_one(m->spec, 25 << 20);
		compare_with_one(m->spec, 4096);
	}
}

/* ---- the pass ---- */

/* Buckets are all of the gradients, without gaps, and as large as asked for; the first one, whose
 * collective starts early, has 1 MiB at most before its last parameter. */
static void buckets_cover_the_gradients(void **state)
{
	(void)state;
	test_device_host_only();
	for (const struct small_model *m = small_models(); *m->spec; m++) {
		static const int64_t sizes[] = { 1, 1000, 10000, 25 << 20 };

		for (size_t k = 0; !m->norms && k < sizeof(sizes) / sizeof(*sizes); k++) {
			const struct model_rank like = told(m->spec, sizes[k]);
			struct model_rank r[2];
			const int64_t *first, *count;
			int64_t at = 0;
			size_t n;

			model_ranks_run(r, 2, &like, NULL);
			n = gt_ddp_buckets(r->parallel, &first, &count);
			for (size_t b = 0; b < n; b++) {
				assert_int_equal(first[b], at);
				assert_true(count[b] > 0);
				assert_true(b + 1 == n || count[b] * 4 >= sizes[k] ||
				            (!b && count[b] * 4 >= 1 << 20));
				at += count[b];
			}
			assert_int_equal(at, r->store->flat_count);
			assert_true(sizes[k] > 1 || n > 3);
			model_ranks_close(r, 2);
		}
	}
}

/* Whether the node has to do with gradients in [first, first + count): makes them, or, where
 * micro-batches add up, adds to them. */
static bool touches(
    const struct model_rank *r, const struct gt_node *n, int64_t first, int64_t count)
{
	const struct gt_value *all[GT_MAX_OUTPUTS + GT_MAX_INPUTS] = { 0 };

	memcpy(all, n->out, sizeof(n->out));
	memcpy(all + GT_MAX_OUTPUTS, n->in, sizeof(n->in));
	for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
		const struct gt_slot *slot;

		if (!all[k] || all[k]->role != GT_GRADIENT)
			continue;
		slot = gt_store_find(r->store, all[k]->parameter->name);
		if (slot->offset >= first && slot->offset < first + count)
			return true;
	}
	return false;
}

/* The last node that has to do with a bucket. */
static size_t end_of_bucket(const struct model_rank *r, int64_t first, int64_t count)
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
	struct model_rank r[2], like = told("mlp:20,32,32,10", 1);
	const int64_t *first, *count;
	const struct gt_graph *g;
	size_t n, found = 0, before_last_work = 0;
	char *text;

	like.accumulate = accumulate;
	model_ranks_run(r, 2, &like, NULL);
	g = r->program.graph;
	n = gt_ddp_buckets(r->parallel, &first, &count);
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];
		int b = gt_node_attrs(&node->attrs).bucket.index;

		if (strcmp(node->op->name, "all_reduce_start"))
			continue;
		found++;
		assert_true(i > end_of_bucket(r, first[b], count[b]));
		/* nothing but other buckets' nodes between the two */
		for (size_t k = end_of_bucket(r, first[b], count[b]) + 1; k < i; k++)
			assert_string_equal(g->nodes[k]->op->name, "all_reduce_start");
		before_last_work += i + 2 < g->node_count;
	}
	assert_int_equal(found, n);
	assert_true(n > 3 && before_last_work > 2);
	assert_string_equal(g->nodes[g->node_count - 1]->op->name, "all_reduce_wait");
	text = gt_graph_print(g, &r->err);
	assert_non_null(strstr(text, "all_reduce_start"));
	assert_non_null(strstr(text, " bucket=0"));
	free(text);
	model_ranks_close(r, 2);
}

static void nodes_stand_behind_the_last_gradient(void **state)
{
	(void)state;
	test_device_host_only();
	expect_nodes_in_place(false);
	expect_nodes_in_place(true);
}

/* In no mode has a rank without others a node that waits for somebody. */
static void one_rank_has_no_collectives(void **state)
{
	(void)state;
	test_device_host_only();
	for (int kind = 0; kind < GT_PARALLEL_KINDS; kind++) {
		struct model_rank r, like = told("mlp:20,32,32,10", 1);
		const struct gt_graph *g;

		like.options.kind = (enum gt_parallel_kind)kind;
		like.options.sync_bn = true;
		model_ranks_run(&r, 1, &like, NULL);
		g = r.program.graph;
		assert_true(g->node_count > 3);
		for (size_t i = 0; i < g->node_count; i++)
			assert_false(gt_parallel_has_op(g->nodes[i]->op->name));
		assert_int_equal(gt_parallel_sent(r.parallel, 1), 0);
		model_ranks_close(&r, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_have_the_gradients_of_one),
		cmocka_unit_test(buckets_cover_the_gradients),
		cmocka_unit_test(nodes_stand_behind_the_last_gradient),
		cmocka_unit_test(one_rank_has_no_collectives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
