/* test_pipeline.c - pipelines that have the gradients of one rank, in the memory they should. */
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

#include "lib/graph/op.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/common/small_models.h"

enum { RANKS_MOST = 4, BATCH = 12 };

#define GPT "gpt:layers=2,heads=2,width=32,block=8,vocab=50"

static int step(struct model_rank *r)
{
	return model_rank_step(r, 1);
}

/* The options of a rank of `stages`. */
static struct model_rank told(
    const char *spec, int stages, int chunks, enum gt_pipeline_schedule schedule)
{
	return (struct model_rank){ .spec = spec,
		.options = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = 4096,
		    .stages = stages,
		    .chunks = chunks,
		    .pipeline_schedule = schedule },
		.samples = BATCH,
		.accumulate = true };
}

/* Let so many ranks do a step. */
static void run_ranks(struct model_rank *ranks, int count, const struct model_rank *like)
{
	model_ranks_run(ranks, count, like, step);
	model_ranks_expect_well(ranks, count);
}

/* ---- gradients ---- */

/* Return the largest size of numbers [count] on the rank's device. */
static double largest_of(const struct model_rank *r, int64_t count, const void *numbers)
{
	float *copy = model_rank_copy(r, numbers, (size_t)count * sizeof(*copy));
	double largest = 0;

	for (int64_t i = 0; i < count; i++)
		largest = fmax(largest, fabs((double)copy[i]));
	free(copy);
	return largest;
}

/* Every parameter is held, with the weights of the only rank that `one` is, and its gradient, but
 * for so much of its largest element, or a tenth of that of the largest of all: some gradients
 * are sums of numbers that cancel each other, such as that of the bias of keys, which softmax does
 * not see. */
static void compare_gradients(
    const struct model_rank *ranks, int count, const struct model_rank *one, double max)
{
	const double largest =
	    largest_of(one, one->store->flat_count, one->store->gradients->memory);

	for (size_t i = 0; i < one->store->slot_count; i++) {
		const struct gt_slot *s = &one->store->slots[i];
		int held = 0;

		for (int r = 0; r < count; r++) {
			const struct gt_slot *slot = &ranks[r].store->slots[i];
			double far;

			assert_string_equal(slot->name, s->name);
			if (slot->on_other_ranks)
				continue;
			held++;
			model_ranks_expect_same(&ranks[r], gt_store_data(ranks[r].store, slot), one,
			    gt_store_data(one->store, s), gt_slot_bytes(s));
			if (slot->role == GT_BUFFER)
				continue;
			far = model_ranks_apart(&ranks[r],
			    gt_slot_address(ranks[r].store->gradients, slot), one,
			    gt_slot_address(one->store->gradients, s), s->count);
			if (far > max && far * largest_of(one, s->count,
			                           gt_slot_address(one->store->gradients, s)) >
			                     max / 10 * largest)
				fail_msg("%s: the gradients of %s are apart by %g of the largest",
				    one->spec, s->name, far);
		}
		assert_true(held > 0);
	}
}

static void compare_with_one(
    const char *spec, int stages, int data, int chunks, enum gt_pipeline_schedule schedule)
{
	const struct model_rank like = told(spec, stages, chunks, schedule);
	const struct model_rank alone = { .spec = spec, .samples = BATCH };
	struct model_rank ranks[RANKS_MOST], one;
	double loss = 0;

	run_ranks(&one, 0, &alone);
	run_ranks(ranks, stages * data, &like);
	compare_gradients(ranks, stages * data, &one, 1e-5);
	for (int i = 0; i < stages * data; i++) {
		assert_true(i / data == stages - 1 || ranks[i].loss == 0);
		loss += ranks[i].loss;
	}
	assert_true(one.loss > 0.1 && fabs(loss - one.loss) <= 1e-6 * one.loss);
	model_ranks_close(ranks, stages * data);
	model_ranks_close(&one, 0);
}

/* Simulated GPUs are slow; model i stands for two of the cases. */
static void compare_pipelines(const char *spec, int i)
{
	if (!test_takes_row(3, (size_t)i))
		return;
	if (!test_device_is_cpu()) {
		compare_with_one(spec, 2, 1 + i % 2, 3, (enum gt_pipeline_schedule)(i % 2));
		return;
	}
	for (int stages = 2; stages <= 4; stages++) {
		compare_with_one(spec, stages, 1, 1, GT_PIPELINE_GPIPE);
		compare_with_one(spec, stages, 1, 4, GT_PIPELINE_GPIPE);
		compare_with_one(spec, stages, 1, 2, GT_PIPELINE_1F1B);
		compare_with_one(spec, stages, 1, 12, GT_PIPELINE_1F1B);
	}
	compare_with_one(spec, 2, 2, 3, GT_PIPELINE_GPIPE);
	compare_with_one(spec, 2, 2, 3, GT_PIPELINE_1F1B);
}

static void pipelines_have_the_gradients_of_one(void **state)
{
	static const char *const others[] = { GPT ",dropout=0.3",
		"llama:layers=2,heads=4,kv_heads=2,width=32,block=8,vocab=51,tied=yes",
		"vit:image=8,patch=4,layers=2,heads=3,width=24,classes=5,dropout=0.2" };
	const struct small_model *m = small_models();
	int count = 0;

	(void)state;
	for (; *m->spec; m++)
		if (!m->norms)
			compare_pipelines(m->spec, count++);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		compare_pipelines(others[i], count++);
}

/*
 * In chunks whose gradients are added up in the order of one rank, those of a tied parameter too.
 */
static void reproducible_pipelines_have_the_bits_of_one(void **state)
{
	static const char *const models[] = { GPT ",dropout=0.3", "lenet", GPT, "resnet20" };
	const size_t count = test_device_is_cpu() ? sizeof(models) / sizeof(*models) : 1;

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct model_rank like = told(models[i], 0, 0, GT_PIPELINE_GPIPE), one;

		like.accumulate = false;
		like.options.reproducible = true;
		like.options.virtual_ranks = 4;
		for (int sync = 0; sync < 2; sync++) {
			like.options.sync_bn = sync;
			like.options.stages = 0;
			run_ranks(&one, 1, &like);
			for (int k = 0; k < 4; k++) {
				struct model_rank ranks[RANKS_MOST];
				double loss = 0;

				like.options.stages = 2 + k / 2;
				like.options.pipeline_schedule = (enum gt_pipeline_schedule)(k % 2);
				run_ranks(ranks, like.options.stages, &like);
				compare_gradients(ranks, like.options.stages, &one, 0);
				for (int r = 0; r < like.options.stages; r++)
					loss += ranks[r].loss;
				assert_true(one.loss > 0.1 && loss == one.loss);
				model_ranks_close(ranks, like.options.stages);
			}
			model_ranks_close(&one, 1);
		}
	}
}

/* Gradients are added up in the same order, so they are the same bits. */
static void schedules_give_the_same_bits(void **state)
{
	const char *spec = test_device_is_cpu() ? "resnet20" : GPT;
	struct model_rank a[2], b[2], like = told(spec, 2, 6, GT_PIPELINE_GPIPE);

	(void)state;
	run_ranks(a, 2, &like);
	like.options.pipeline_schedule = GT_PIPELINE_1F1B;
	run_ranks(b, 2, &like);
	for (int i = 0; i < 2; i++) {
		model_ranks_expect_same(&a[i], a[i].store->gradients->memory, &b[i],
		    b[i].store->gradients->memory, gt_store_flat_bytes(a[i].store));
		model_ranks_expect_same(&a[i], a[i].store->buffers->memory, &b[i],
		    b[i].store->buffers->memory, a[i].store->buffers->elements);
		assert_true(a[i].loss == b[i].loss);
	}
	model_ranks_close(a, 2);
	model_ranks_close(b, 2);
}

/* ---- memory ---- */

/* The first stage keeps all chunks in GPipe, and no more than there are stages in 1F1B. */
static void one_f_one_b_needs_less_memory(void **state)
{
	size_t bytes[2][2];

	(void)state;
	test_device_host_only(); /* GPUs' kernels need workspaces besides */
	for (int schedule = 0; schedule < 2; schedule++) {
		for (int more = 0; more < 2; more++) {
			const struct model_rank like =
			    told(GPT, 2, more ? 12 : 2, (enum gt_pipeline_schedule)schedule);
			struct model_rank ranks[2];

			run_ranks(ranks, 2, &like);
			bytes[schedule][more] = gt_plan_arena_bytes(ranks[0].program.plan);
			model_ranks_close(ranks, 2);
		}
	}
	/* 12 chunks of a sample each, of which 12 or 2 are under way. */
	assert_true(bytes[GT_PIPELINE_1F1B][1] * 3 < bytes[GT_PIPELINE_GPIPE][1]);
	assert_true(bytes[GT_PIPELINE_1F1B][1] * 3 < bytes[GT_PIPELINE_1F1B][0]);
}

/* ---- graphs ---- */

static void append(char *text, size_t size, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? " " : "", word);
}

/* The nodes of both stages for two chunks, with waits and the sums of ddp. */
static void graphs_are_those_of_stages(void **state)
{
#define BACKWARD_0 "pipe_recv relu_grad matmul accumulate bias_grad accumulate "
#define BACKWARD_1 "fill cross_entropy_grad matmul matmul accumulate bias_grad accumulate "
	static const char *const right[2] = {
		"reshape matmul relu pipe_send fill reshape matmul relu pipe_wait pipe_send fill " BACKWARD_0
		    BACKWARD_0 "all_reduce_start pipe_wait all_reduce_wait",
		"pipe_recv matmul cross_entropy pipe_recv matmul cross_entropy " BACKWARD_1
		"pipe_send " BACKWARD_1 "all_reduce_start pipe_wait pipe_send pipe_wait "
		"all_reduce_wait",
	};
	static const char *const parts[2] = {
		"pipe_send(%6) to-next  # pipeline\noutput loss float32[] = fill() 0  # pipeline\n",
		" float32[6,32] = pipe_recv() from-before  # pipeline\n",
	};
	const struct model_rank like = told("mlp:20,32,10", 2, 2, GT_PIPELINE_GPIPE);
	struct model_rank ranks[2];

	(void)state;
	test_device_host_only(); /* GPUs' kernels do two of these nodes at once */
	run_ranks(ranks, 2, &like);
	for (int i = 0; i < 2; i++) {
		const struct gt_graph *g = ranks[i].program.graph;
		char ops[1024] = "", *text = gt_graph_print(g, &ranks[i].err);

		for (size_t k = 0; k < g->node_count; k++)
			append(ops, sizeof(ops), g->nodes[k]->op->name);
		assert_string_equal(ops, right[i]);
		assert_non_null(strstr(text, parts[i]));
		free(text);
	}
	model_ranks_close(ranks, 2);
}

/* A value on its way is not written over before the wait behind it: no other lies there. */
static void sent_values_stay(void **state)
{
	const struct model_rank like = told(GPT, 2, 12, GT_PIPELINE_1F1B);
	struct model_rank ranks[2];
	int waits = 0;

	(void)state;
	run_ranks(ranks, 2, &like);
	for (int r = 0; r < 2; r++) {
		const struct gt_graph *g = ranks[r].program.graph;
		const struct gt_plan *plan = ranks[r].program.plan;

		for (size_t i = 0, sent = 0; i < g->node_count; i++) {
			size_t at, bytes, other, other_bytes;

			if (strcmp(g->nodes[i]->op->name, "pipe_wait"))
				continue;
			waits++;
			assert_true(gt_plan_place(plan, g->nodes[i]->in[0], &at, &bytes));
			for (sent = 0; strcmp(g->nodes[sent]->op->name, "pipe_send") ||
			               g->nodes[sent]->in[0] != g->nodes[i]->in[0];)
				sent++;
			assert_true(sent < i);
			for (size_t k = sent; k < i; k++) {
				const struct gt_value *y = g->nodes[k]->out[0];

				if (y && gt_plan_place(plan, y, &other, &other_bytes))
					assert_true(
					    other >= at + bytes || other + other_bytes <= at);
			}
		}
	}
	assert_int_equal(waits, 24);
	model_ranks_close(ranks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_f_one_b_needs_less_memory),
		cmocka_unit_test(graphs_are_those_of_stages),
		cmocka_unit_test(sent_values_stay),
		/* These tests come last: they have more than two ranks open at a time. One GPU has
		 * too few queues for that, and model_ranks_run() then skips all later runs. */
		cmocka_unit_test(pipelines_have_the_gradients_of_one),
		cmocka_unit_test(schedules_give_the_same_bits),
		cmocka_unit_test(reproducible_pipelines_have_the_bits_of_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
