/* test_pipeline.c - pipelines that have the gradients of one rank, in the memory they should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/ring.h"
#include "lib/graph/op.h"
#include "lib/parallel/pipeline.h"
#include "lib/train/program.h"

enum { RANKS_MOST = 4, BATCH = 12 };

static const struct gt_ring_options patience = { .timeout_s = 60 };

#define GPT "gpt:layers=2,heads=2,width=32,block=8,vocab=50"

static const char *const specs[] = { "mlp:20,32,16,24,10", "lenet", GPT, GPT ",dropout=0.3" };

enum { SPECS = sizeof(specs) / sizeof(*specs) };

/* ---- a rank ---- */

struct rank {
	const char *spec;
	struct gt_group *group; /* NULL: alone, with all samples */
	int stages, chunks, data;
	enum gt_pipeline_schedule schedule;
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_program program;
	void *arena;
	double loss;
	struct gt_err err;
};

static int open_rank(struct rank *r)
{
	const struct gt_parallel_options options = { .kind = GT_PARALLEL_DDP,
		.bucket_bytes = 4096,
		.stages = r->stages,
		.chunks = r->chunks,
		.schedule = r->schedule };
	struct gt_err *err = &r->err;
	int rc = gt_model_open(&r->model, r->spec, err);

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
	if (!rc)
		rc = r->parallel ? gt_parallel_init(r->parallel, 1, err)
		                 : gt_store_init(r->store, 1, err);
	if (!rc)
		rc = gt_program_init(&r->program,
		    &(struct gt_program_options){ .model = r->model,
		        .input = &r->in,
		        .purpose = GT_MODEL_TRAIN,
		        .store = r->store,
		        .accumulate = r->group != NULL,
		        .parallel = r->parallel },
		    BATCH / r->data, err);
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
	size_t values = gt_value_bytes(r->program.io.input), targets = r->program.target_bytes;
	enum gt_dtype dtype = r->program.io.input->dtype;

	values = r->program.input_bytes / (size_t)r->program.batch / gt_dtype_size(dtype);
	targets = targets / (size_t)r->program.batch / sizeof(*target);
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

/* One step's loss and gradients; the samples of data rank d are d, d + data, ... */
static int step(struct rank *r)
{
	struct gt_program *p = &r->program;
	unsigned char *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	size_t one_input = p->input_bytes / (size_t)p->batch;
	size_t one_target = p->target_bytes / (size_t)p->batch / sizeof(*target);
	int d = r->group ? r->group->rank % r->data : 0, rc;
	const int64_t rng[GT_RNG_FIELDS] = {
		[GT_RNG_SEED] = 7, [GT_RNG_FIRST] = d, [GT_RNG_STRIDE] = r->data
	};

	for (int i = 0; i < p->batch; i++)
		make_sample(r, i * r->data + d, input + (size_t)i * one_input,
		    target + (size_t)i * one_target);
	rc = gt_program_feed(p, &batch, &r->err);
	if (!rc)
		rc = gt_program_set(p, 1.0f / (float)(BATCH * one_target), rng, &r->err);
	if (!rc)
		rc = gt_plan_run(p->plan, &r->err);
	if (!rc)
		rc = gt_program_loss(p, &r->loss, &r->err);
	free(input);
	free(target);
	return rc;
}

/* On one thread: kernels take memory for each. */
static void *run_rank(void *self)
{
	struct rank *r = self;

	omp_set_num_threads(1);
	if (!open_rank(r))
		step(r);
	return NULL;
}

/* Let `count` ranks, like `like`, do a step. */
static void run_ranks(
    struct rank *ranks, struct gt_group **groups, int count, const struct rank *like)
{
	pthread_t threads[RANKS_MOST];
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_ring_of_threads(groups, count, &patience, &err), 0);
	for (int i = 0; i < count; i++) {
		ranks[i] = *like;
		ranks[i].group = groups[i];
		assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < count; i++)
		if (ranks[i].err.code)
			fail_msg("%s, rank %d: %s", like->spec, i, ranks[i].err.text);
}

static void close_ranks(struct rank *ranks, struct gt_group **groups, int count)
{
	for (int i = 0; i < count; i++) {
		close_rank(&ranks[i]);
		gt_group_free(groups[i]);
	}
}

/* ---- gradients ---- */

/* Every parameter is held, with the weights and the gradient of the only rank that `one` is. */
static void compare_gradients(const struct rank *ranks, int count, const struct rank *one)
{
	for (size_t i = 0; i < one->store->slot_count; i++) {
		const struct gt_slot *s = &one->store->slots[i];
		const float *right = gt_store_gradient(one->store, s);
		double far = 0, largest = 0;
		int held = 0;

		for (int r = 0; r < count; r++) {
			const struct gt_slot *slot = &ranks[r].store->slots[i];
			const float *g;

			assert_string_equal(slot->name, s->name);
			if (slot->elsewhere)
				continue;
			held++;
			assert_memory_equal(gt_store_data(ranks[r].store, slot),
			    gt_store_data(one->store, s), gt_slot_bytes(s));
			g = gt_store_gradient(ranks[r].store, slot);
			for (int64_t k = 0; k < s->count; k++) {
				largest = fmax(largest, fabsf(right[k]));
				far = fmax(far, fabsf(g[k] - right[k]));
			}
		}
		assert_true(held > 0);
		if (far > 4e-6 * largest)
			fail_msg("%s: the gradients of %s are apart by %g of %g", one->spec,
			    s->name, far, largest);
	}
}

static void compare_with_one(
    const char *spec, int stages, int data, int chunks, enum gt_pipeline_schedule schedule)
{
	struct rank ranks[RANKS_MOST], one = { .spec = spec, .data = 1 };
	struct rank like = {
		.spec = spec, .stages = stages, .chunks = chunks, .data = data, .schedule = schedule
	};
	struct gt_group *groups[RANKS_MOST];
	double loss = 0;

	run_rank(&one);
	if (one.err.code)
		fail_msg("%s: %s", spec, one.err.text);
	run_ranks(ranks, groups, stages * data, &like);
	compare_gradients(ranks, stages * data, &one);
	for (int i = 0; i < stages * data; i++) {
		assert_true(i / data == stages - 1 || ranks[i].loss == 0);
		loss += ranks[i].loss;
	}
	assert_true(one.loss > 0.1 && fabs(loss - one.loss) <= 1e-6 * one.loss);
	close_ranks(ranks, groups, stages * data);
	close_rank(&one);
}

static void pipelines_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++) {
		for (int stages = 2; stages <= 4; stages++) {
			compare_with_one(specs[i], stages, 1, 1, GT_PIPELINE_GPIPE);
			compare_with_one(specs[i], stages, 1, 4, GT_PIPELINE_GPIPE);
			compare_with_one(specs[i], stages, 1, 2, GT_PIPELINE_1F1B);
			compare_with_one(specs[i], stages, 1, 12, GT_PIPELINE_1F1B);
		}
		compare_with_one(specs[i], 2, 2, 3, GT_PIPELINE_GPIPE);
		compare_with_one(specs[i], 2, 2, 3, GT_PIPELINE_1F1B);
	}
}

/* Gradients are added up in the same order, so they are the same bits. */
static void schedules_give_the_same_bits(void **state)
{
	struct rank a[2], b[2];
	struct rank like = { .spec = "resnet20", .stages = 2, .chunks = 6, .data = 1 };
	struct gt_group *groups_a[2], *groups_b[2];

	(void)state;
	run_ranks(a, groups_a, 2, &like);
	like.schedule = GT_PIPELINE_1F1B;
	run_ranks(b, groups_b, 2, &like);
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(
		    a[i].store->gradients, b[i].store->gradients, gt_store_flat_bytes(a[i].store));
		assert_memory_equal(
		    a[i].store->buffers, b[i].store->buffers, a[i].store->buffer_bytes);
		assert_true(a[i].loss == b[i].loss);
	}
	close_ranks(a, groups_a, 2);
	close_ranks(b, groups_b, 2);
}

/* ---- memory ---- */

/* The first stage keeps all chunks in GPipe, and no more than there are stages in 1F1B. */
static void one_f_one_b_needs_less_memory(void **state)
{
	size_t bytes[2][2];

	(void)state;
	for (int schedule = 0; schedule < 2; schedule++) {
		for (int more = 0; more < 2; more++) {
			struct rank ranks[2];
			struct rank like = { .spec = GPT,
				.stages = 2,
				.chunks = more ? 12 : 2,
				.data = 1,
				.schedule = (enum gt_pipeline_schedule)schedule };
			struct gt_group *groups[2];

			run_ranks(ranks, groups, 2, &like);
			bytes[schedule][more] = gt_plan_arena_bytes(ranks[0].program.plan);
			close_ranks(ranks, groups, 2);
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

/* What both stages of a graph do for two chunks, waits and the sums of ddp included. */
static void graphs_are_those_of_stages(void **state)
{
#define BACKWARD_0 "pipe_recv relu_grad matmul accumulate bias_grad accumulate "
#define BACKWARD_1 "fill cross_entropy_grad matmul matmul accumulate bias_grad accumulate "
	static const char *const right[2] = {
		"reshape matmul relu pipe_send reshape matmul relu pipe_wait pipe_send " BACKWARD_0
		    BACKWARD_0 "all_reduce_start pipe_wait all_reduce_wait",
		"pipe_recv matmul cross_entropy pipe_recv matmul cross_entropy " BACKWARD_1
		"pipe_send " BACKWARD_1 "all_reduce_start pipe_wait pipe_send pipe_wait "
		"all_reduce_wait",
	};
	static const char *const parts[2] = {
		"output loss float32[] = pipe_send(%6) to-next  # pipeline\n",
		" float32[6,32] = pipe_recv() from-before  # pipeline\n",
	};
	struct rank ranks[2];
	struct rank like = { .spec = "mlp:20,32,10", .stages = 2, .chunks = 2, .data = 1 };
	struct gt_group *groups[2];

	(void)state;
	run_ranks(ranks, groups, 2, &like);
	for (int i = 0; i < 2; i++) {
		const struct gt_graph *g = ranks[i].program.graph;
		char ops[1024] = "", *text = gt_graph_print(g, &ranks[i].err);

		for (size_t k = 0; k < g->node_count; k++)
			append(ops, sizeof(ops), g->nodes[k]->op->name);
		assert_string_equal(ops, right[i]);
		assert_non_null(strstr(text, parts[i]));
		free(text);
	}
	close_ranks(ranks, groups, 2);
}

/* A value on its way is not written over before the wait behind it: no other lies there. */
static void what_is_sent_stays(void **state)
{
	struct rank ranks[2];
	struct rank like = {
		.spec = GPT, .stages = 2, .chunks = 12, .data = 1, .schedule = GT_PIPELINE_1F1B
	};
	struct gt_group *groups[2];
	int waits = 0;

	(void)state;
	run_ranks(ranks, groups, 2, &like);
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
	close_ranks(ranks, groups, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipelines_have_the_gradients_of_one),
		cmocka_unit_test(schedules_give_the_same_bits),
		cmocka_unit_test(one_f_one_b_needs_less_memory),
		cmocka_unit_test(graphs_are_those_of_stages),
		cmocka_unit_test(what_is_sent_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
