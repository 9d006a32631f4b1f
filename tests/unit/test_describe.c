/* test_describe.c - the figures of a dry run, against figures by hand and against each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/train/train.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static struct gt_train_options a_run(void)
{
	struct gt_train_options o;

	gt_train_options_init(&o);
	o.model = "mlp:8,16,3";
	o.data = "random:8/3,samples=40";
	o.batch = 8;
	o.steps = 10;
	return o;
}

/* The plan of a dry run, to json_decref(). */
static json_t *describe(struct gt_train_options o)
{
	struct gt_log log = { .stream = fopen("/dev/null", "w"), .level = GT_LOG_QUIET };
	struct gt_err err = GT_ERR_INIT;
	struct gt_train *t;
	json_t *plan;

	assert_non_null(log.stream);
	if (gt_train_open(&t, &o, true, &log, &err))
		fail_msg("%s", err.text);
	plan = gt_train_describe(t, &err);
	if (!plan)
		fail_msg("%s", err.text);
	gt_train_close(t);
	fclose(log.stream);
	return plan;
}

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		fail_msg("'%s' is no number", key);
	return json_number_value(value);
}

static void expect(const char *name, const json_t *object, const char *key, double value)
{
	if (number(object, key) != value)
		fail_msg("%s: '%s' is %.17g, not %.17g", name, key, number(object, key), value);
}

/* ---- parameters ---- */

/* Numbers of published models, and of small ones by hand. */
static void parameters_are_counted(void **state)
{
	static const struct {
		const char *model, *data;
		int64_t parameters;
	} cases[] = {
		{ "mlp:8,16,3", "random:8/3", 8 * 16 + 16 + 16 * 3 + 3 },
		{ "mlp:5,2", "random:5/2", 5 * 2 + 2 },
		{ "lenet", "random", 61706 },
		/* resnet20 of He et al., whose shortcuts have no parameters */
		{ "resnet20", "random", 269722 },
		/* tokens and positions, a block of 12 w^2 + 13 w, the last norm */
		{ "gpt:layers=1,heads=2,width=16,block=8,vocab=30", "random",
		    30 * 16 + 8 * 16 + 12 * 16 * 16 + 13 * 16 + 2 * 16 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		json_t *plan;

		o.model = cases[i].model;
		o.data = cases[i].data;
		plan = describe(o);
		expect(cases[i].model, plan, "parameters", (double)cases[i].parameters);
		assert_null(json_object_get(plan, "frozen_parameters"));
		json_decref(plan);
	}
}

static void frozen_parameters_take_no_gradients(void **state)
{
	const char *first[] = { "0.*" };
	struct gt_train_options o = a_run();
	json_t *plan, *memory;

	(void)state;
	o.freeze = (struct gt_opt_list){ .items = first, .count = 1 };
	plan = describe(o);
	memory = json_object_get(plan, "memory_bytes");
	expect("frozen", plan, "parameters", 195);
	expect("frozen", plan, "frozen_parameters", 8 * 16 + 16);
	/* 51 are left, in whole lines of 64 bytes for each tensor. */
	expect("frozen", memory, "gradients", 16 * 3 * 4 + 64);
	expect("frozen", memory, "optimizer", 2 * (16 * 3 * 4 + 64));
	json_decref(plan);
}

/* ---- the length ---- */

static void steps_come_from_samples(void **state)
{
	static const struct {
		int64_t samples, epochs, steps;
		int batch, accumulate, nproc;
		bool drop_last;
		double per_epoch, total;
	} cases[] = {
		{ 40, 3, 0, 8, 1, 1, false, 5, 15 },
		{ 41, 3, 0, 8, 1, 1, false, 6, 18 },
		{ 41, 3, 0, 8, 1, 1, true, 5, 15 },
		{ 40, 3, 7, 8, 1, 1, false, 5, 7 },    /* steps count before epochs */
		{ 40, 0, 0, 8, 1, 1, false, 5, 1000 }, /* the least for vectors */
		{ 40, 2, 0, 8, 3, 1, false, 2, 4 },
		{ 40, 2, 0, 8, 1, 4, false, 2, 4 },
		{ 41, 2, 0, 2, 2, 3, false, 4, 8 },
		{ 3, 2, 0, 64, 1, 1, false, 1, 2 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		char data[60], name[40];
		json_t *plan;

		snprintf(data, sizeof(data), "random:8/3,samples=%d", (int)cases[i].samples);
		snprintf(name, sizeof(name), "case %zu", i);
		o.data = data;
		o.epochs = cases[i].epochs;
		o.steps = cases[i].steps;
		o.batch = cases[i].batch;
		o.accumulate = cases[i].accumulate;
		o.nproc = cases[i].nproc;
		o.drop_last = cases[i].drop_last;
		plan = describe(o);
		expect(name, plan, "samples", (double)cases[i].samples);
		expect(name, plan, "batch", cases[i].batch);
		expect(name, plan, "accumulate", cases[i].accumulate);
		expect(name, plan, "ranks", cases[i].nproc);
		expect(name, plan, "steps_per_epoch", cases[i].per_epoch);
		expect(name, plan, "steps", cases[i].total);
		json_decref(plan);
	}
}

/* ---- memory ---- */

/* 195 parameters are 780 bytes; each tensor begins at a multiple of 64. */
static void memory_follows_the_optimizer(void **state)
{
	enum { FLAT = 512 + 64 + 192 + 64 };
	static const struct {
		const char *name;
		enum gt_optim_kind optimizer;
		double momentum, ema;
		int states;
	} cases[] = {
		{ "adamw", GT_ADAMW, 0, 0, 2 },
		{ "adam", GT_ADAM, 0, 0, 2 },
		{ "sgd", GT_SGD, 0, 0, 0 },
		{ "sgd with momentum", GT_SGD, 0.9, 0, 1 },
		{ "adamw and a mean of the weights", GT_ADAMW, 0, 0.9, 3 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		const json_t *memory;
		json_t *plan;

		o.optim.kind = cases[i].optimizer;
		o.optim.momentum = cases[i].momentum;
		o.average.ema = cases[i].ema;
		o.given = GT_GIVEN_MOMENTUM;
		plan = describe(o);
		memory = json_object_get(plan, "memory_bytes");
		expect(cases[i].name, memory, "parameters", FLAT);
		expect(cases[i].name, memory, "gradients", FLAT);
		expect(cases[i].name, memory, "optimizer", FLAT * cases[i].states);
		expect(cases[i].name, memory, "buffers", 0);
		json_decref(plan);
	}
}

/* Plans of many kinds, for figures that must agree with each other. */
static const struct variant {
	const char *name, *model, *data;
	int accumulate, nproc, tensor, stages;
	enum gt_parallel_kind kind;
	enum gt_recompute_mode recompute;
} variants[] = {
	{ "mlp", "mlp:8,16,3", "random:8/3,samples=40", 1, 1, 1, 1, GT_PARALLEL_DDP, 0 },
	{ "accumulated", "mlp:8,16,3", "random:8/3,samples=40", 3, 1, 1, 1, GT_PARALLEL_DDP, 0 },
	{ "lenet", "lenet", "random", 1, 1, 1, 1, GT_PARALLEL_DDP, 0 },
	{ "resnet20", "resnet20", "random", 1, 2, 1, 1, GT_PARALLEL_DDP, 0 },
	{ "zero3", "lenet", "random", 2, 4, 1, 1, GT_PARALLEL_ZERO3, 0 },
	{ "gpt", "gpt:layers=2,heads=2,width=16,block=8,vocab=30", "random", 1, 1, 1, 1,
	    GT_PARALLEL_DDP, GT_RECOMPUTE_ALL },
	{ "stages", "gpt:layers=3,heads=2,width=16,block=8,vocab=30", "random", 1, 3, 1, 3,
	    GT_PARALLEL_DDP, 0 },
	{ "tensor", "gpt:layers=2,heads=2,width=16,block=8,vocab=30", "random", 1, 2, 2, 1,
	    GT_PARALLEL_DDP, 0 },
};

static json_t *describe_variant(const struct variant *v)
{
	struct gt_train_options o = a_run();

	o.model = v->model;
	o.data = v->data;
	o.accumulate = v->accumulate;
	o.nproc = v->nproc;
	o.recompute = v->recompute;
	o.parallel.tensor = v->tensor;
	o.parallel.stages = v->stages;
	o.parallel.kind = v->kind;
	return describe(o);
}

static double sum_of(const json_t *list, const char *key)
{
	double sum = 0;
	size_t i;
	json_t *part;

	assert_true(json_is_array(list) && json_array_size(list));
	json_array_foreach(list, i, part) sum += number(part, key);
	return sum;
}

static void parts_add_up(void **state)
{
	static const char *const uses[] = { "parameters", "gradients", "optimizer", "buffers",
		"arena", "batches", "collectives" };

	(void)state;
	for (size_t i = 0; i < COUNT(variants); i++) {
		json_t *plan = describe_variant(&variants[i]);
		const json_t *memory = json_object_get(plan, "memory_bytes");
		const json_t *ops = json_object_get(plan, "ops");
		const json_t *blocks = json_object_get(plan, "model_blocks");
		const char *name = variants[i].name;
		double total = 0, flops = number(plan, "flops_per_step");

		for (size_t k = 0; k < COUNT(uses); k++)
			total += number(memory, uses[k]);
		expect(name, memory, "total", total);
		expect(name, plan, "kernels", sum_of(ops, "nodes"));
		expect(name, plan, "launches", sum_of(ops, "launches"));
		expect(name, plan, "bytes_per_step", sum_of(ops, "bytes"));
		/* The sum is rounded down to an integer. */
		assert_true(fabs(sum_of(ops, "flops") - flops) < 1 + 1e-9 * flops);
		/* Blocks are a part of the model: loss and embeddings are in none. */
		assert_true(sum_of(blocks, "flops") <= sum_of(ops, "flops"));
		assert_true(sum_of(blocks, "nodes") < sum_of(ops, "nodes"));
		assert_true(number(memory, "arena") <=
		            number(plan, "arena_bytes_without_sharing") * 1.2 + 256);
		json_decref(plan);
	}
}

/* ---- work ---- */

/* The product of a layer of m inputs and n outputs takes 2 m n FLOPs a sample: forward, for the
 * gradient of the weights, and for that of the inputs, which the first layer does not need. */
static void flops_are_those_of_the_products(void **state)
{
	static const int batches[] = { 1, 8, 33 };

	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		struct gt_train_options o = a_run();
		double products = 0, flops = 2.0 * batches[i] * (2 * 8 * 16 + 3 * 16 * 3);
		const json_t *ops;
		json_t *plan, *op;
		size_t k;

		o.batch = batches[i];
		plan = describe(o);
		ops = json_object_get(plan, "ops");
		json_array_foreach(ops, k,
		    op) if (!strcmp(json_string_value(json_object_get(op, "name")), "matmul"))
		    products += number(op, "flops");
		if (products != flops)
			fail_msg("batch %d: %g FLOPs, not %g", batches[i], products, flops);
		assert_true(number(plan, "flops_per_step") > products);
		json_decref(plan);
	}
}

/* Micro-batches do the same work again, and add up the gradients. */
static void accumulation_multiplies_the_work(void **state)
{
	struct gt_train_options o = a_run();
	json_t *two, *six;

	(void)state;
	o.accumulate = 2;
	two = describe(o);
	o.accumulate = 6;
	six = describe(o);
	expect("6 micro-batches", six, "runs", 6);
	expect("6 micro-batches", six, "kernels", number(two, "kernels"));
	expect("6 micro-batches", six, "flops_per_step", 3 * number(two, "flops_per_step"));
	expect("6 micro-batches", six, "bytes_per_step", 3 * number(two, "bytes_per_step"));
	json_decref(two);
	json_decref(six);
}

/* ---- ranks ---- */

/* Bytes that a rank sends in a step, by hand: the flat gradients have 832. */
static void ranks_send_bytes(void **state)
{
	static const struct {
		const char *name;
		int nproc, tensor;
		enum gt_parallel_kind kind;
		enum gt_compress compress;
		double sent;
	} cases[] = {
		{ "one rank", 1, 1, GT_PARALLEL_DDP, GT_COMPRESS_NONE, 0 },
		/* an all-reduce of n bytes sends 2 (ranks - 1) / ranks n */
		{ "ddp of 2", 2, 1, GT_PARALLEL_DDP, GT_COMPRESS_NONE, 832 },
		{ "ddp of 4", 4, 1, GT_PARALLEL_DDP, GT_COMPRESS_NONE, 1.5 * 832 },
		{ "half of the bytes", 4, 1, GT_PARALLEL_DDP, GT_COMPRESS_BF16, 0.75 * 832 },
		{ "mirrored", 4, 1, GT_PARALLEL_MIRRORED, GT_COMPRESS_NONE, 1.5 * 832 },
		/* rank 0 sends the weights, 8 samples and the gradient of 8 x 3 outputs to each */
		{ "dp", 4, 1, GT_PARALLEL_DP, GT_COMPRESS_NONE, 3 * (832 + 8 * 8 * 4 + 8 * 3 * 4) },
		/* an all-reduce of 8 x 3 outputs */
		{ "tensor", 2, 2, GT_PARALLEL_DDP, GT_COMPRESS_NONE, 8 * 3 * 4 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		json_t *plan;

		o.nproc = cases[i].nproc;
		o.parallel.kind = cases[i].kind;
		o.parallel.compress = cases[i].compress;
		o.parallel.tensor = cases[i].tensor;
		plan = describe(o);
		expect(cases[i].name, plan, "communicated_bytes_per_step", cases[i].sent);
		assert_int_equal(
		    json_object_get(plan, "tensor_parallel") != NULL, cases[i].tensor > 1);
		json_decref(plan);
	}
}

/* A stage holds a message of half of its 8 samples, up to 16 MiB. */
static void messages_of_stages_take_memory(void **state)
{
	static const struct {
		const char *model;
		double bytes;
	} cases[] = { { "mlp:8,32,3", 4 * 32 * 4 }, { "mlp:8,2000000,3", 16 << 20 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		json_t *plan;

		o.model = cases[i].model;
		o.nproc = o.parallel.stages = 2;
		plan = describe(o);
		expect(cases[i].model, json_object_get(plan, "memory_bytes"), "collectives",
		    cases[i].bytes);
		json_decref(plan);
	}
}

static void stages_share_the_model(void **state)
{
	static const struct {
		int stages, nproc, chunks, wanted;
	} cases[] = { { 2, 2, 0, 2 }, { 4, 4, 0, 4 }, { 2, 4, 0, 2 }, { 2, 2, 8, 8 },
		{ 3, 3, 0, 2 } /* chunks divide the batch of 8 */ };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();
		json_t *plan, *list, *memory;

		o.model = "gpt:layers=4,heads=2,width=16,block=8,vocab=30,bias=no";
		o.data = "random";
		o.nproc = cases[i].nproc;
		o.parallel.stages = cases[i].stages;
		o.parallel.chunks = cases[i].chunks;
		plan = describe(o);
		list = json_object_get(plan, "stages");
		memory = json_object_get(plan, "memory_bytes");
		assert_int_equal(json_array_size(list), cases[i].stages);
		assert_true(fabs(sum_of(list, "work") - 1) < 1e-6);
		/* The first stage and the last both hold the table of tokens. */
		expect("stages", plan, "parameters", sum_of(list, "parameters") - 30 * 16);
		expect("stages", plan, "chunks", cases[i].wanted);
		/* The figures of the plan are those of the first stage. */
		expect("first stage", json_array_get(list, 0), "memory_bytes",
		    number(memory, "total"));
		expect(
		    "first stage", json_array_get(list, 0), "arena_bytes", number(memory, "arena"));
		json_decref(plan);
	}
}

static void blocks_are_computed_again_where_that_is_asked_for(void **state)
{
	static const enum gt_recompute_mode modes[] = { GT_RECOMPUTE_NONE, GT_RECOMPUTE_ALL };
	double arena[2], flops[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct gt_train_options o = a_run();
		json_t *plan;

		o.model = "gpt:layers=3,heads=2,width=16,block=8,vocab=30";
		o.data = "random";
		o.recompute = modes[i];
		plan = describe(o);
		assert_true(number(plan, "blocks") >= 3);
		expect(
		    "recompute", plan, "recomputed_blocks", modes[i] ? number(plan, "blocks") : 0);
		arena[i] = number(json_object_get(plan, "memory_bytes"), "arena");
		flops[i] = number(plan, "flops_per_step");
		json_decref(plan);
	}
	assert_true(arena[1] < arena[0] && flops[1] > flops[0]);
}

static void a_dry_run_writes_nothing(void **state)
{
	struct gt_train_options o = a_run();
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/tmp/gtrain-no-such-%ld", (long)getpid());
	o.out = path;
	json_decref(describe(o));
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_counted),
		cmocka_unit_test(frozen_parameters_take_no_gradients),
		cmocka_unit_test(steps_come_from_samples),
		cmocka_unit_test(memory_follows_the_optimizer),
		cmocka_unit_test(parts_add_up),
		cmocka_unit_test(flops_are_those_of_the_products),
		cmocka_unit_test(accumulation_multiplies_the_work),
		cmocka_unit_test(ranks_send_bytes),
		cmocka_unit_test(messages_of_stages_take_memory),
		cmocka_unit_test(stages_share_the_model),
		cmocka_unit_test(blocks_are_computed_again_where_that_is_asked_for),
		cmocka_unit_test(a_dry_run_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
