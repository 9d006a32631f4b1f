/* test_fuse_head.c - heads as one node: which ones, and the same results in less memory. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/plan.h"
#include "lib/train/program.h"
#include "tests/common/device.h"
#include "tests/common/passes.h"

/* ---- graphs as text ---- */

enum { ROWS = 40, WIDTH = 4, CLASSES = 7 };

static struct gt_value *logits_of(struct gt_graph *g, struct gt_value *bias, bool trans)
{
	struct gt_value *x =
	    gt_parameter(g, "x", GT_F32, 2, (int64_t[]){ ROWS, WIDTH }, pass_zeros, true);
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2,
	    (int64_t[]){ trans ? CLASSES : WIDTH, trans ? WIDTH : CLASSES }, pass_zeros, true);

	return gt_matmul(g, x, w, bias, false, trans);
}

static struct gt_value *emit_loss(struct gt_graph *g, struct gt_value *logits, bool train)
{
	struct gt_value *target = gt_input(g, "target", GT_I32, 1, (int64_t[]){ ROWS });

	if (!train)
		return gt_output(g, gt_classify_stats(g, logits, target), "stats");
	return gt_output(
	    g, gt_cross_entropy(g, logits, target, gt_input(g, "weight", GT_F32, 0, NULL)), "loss");
}

/* A backend that has the node in these types. */
static const struct gt_kernel rows_of_kernels[] = {
	{ .op = "linear_cross_entropy", .dtype = GT_F32 },
	{ .op = "linear_cross_entropy", .dtype = GT_BF16 },
	{ 0 },
};
static const struct gt_kernel *const kernels[] = { rows_of_kernels, NULL };

/* The passes before, and this one; more than 18 rows are too many. */
static void run_passes(struct gt_graph *g, struct gt_pass_options *o)
{
	o->logits_bytes = 512;
	o->kernels = kernels;
	if (o->precision.low != GT_F32)
		pass_run(g, &gt_pass_autocast, o);
	if (o->loss)
		pass_run(g, &gt_pass_backward, o);
	pass_run(g, &gt_pass_common, o);
	pass_run(g, &gt_pass_fuse_head, o);
	pass_run(g, &gt_pass_dead, o);
}

static void test_training(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_pass_options o = { .loss = emit_loss(g, logits_of(g, NULL, true), true) };

	(void)state;
	pass_run(g, &gt_pass_backward, &o);
	pass_expect(g,
	    "%2 float32[40,7] = matmul(x, w) trans_b\n"
	    "output loss float32[], %6 float32[40] = "
	    "cross_entropy(%2, input target, input weight)\n"
	    "%7 float32[] = fill() 1\n"
	    "%8 float32[40,7] = cross_entropy_grad(%7, %2, input target, %6, input weight)\n"
	    "gradient of x float32[40,4] = matmul(%8, w)\n"
	    "gradient of w float32[7,4] = matmul(%8, x) trans_a\n");
	o.logits_bytes = 512;
	o.kernels = kernels;
	pass_run(g, &gt_pass_fuse_head, &o);
	pass_expect(g, "%7 float32[] = fill() 1\n"
	               "output loss float32[], gradient of x float32[40,4], gradient of w "
	               "float32[7,4] = linear_cross_entropy(x, w, input target, input weight, %7) "
	               "rows=16\n");
	gt_graph_free(g);
}

/* The casts between go, too: the gradient by the weights leaves the node in float32. A copy of the
 * weights that updates keep stays one. */
static void test_mixed_precision(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_pass_options o = { .loss = emit_loss(g, logits_of(g, NULL, true), true),
		.precision = { .low = GT_BF16, .scaled = true } };

	(void)state;
	run_passes(g, &o);
	pass_expect(g, "%7 bfloat16[40,4] = cast(x)\n"
	               "%8 bfloat16[7,4] = cast(w)\n"
	               "output loss float32[], %13 bfloat16[40,4], gradient of w float32[7,4] = "
	               "linear_cross_entropy(%7, %8, input target, input weight, input scale) "
	               "rows=32\n"
	               "gradient of x float32[40,4] = cast(%13)\n");
	pass_run(g, &gt_pass_working_copies, &o);
	pass_expect(g, "output loss float32[], %13 bfloat16[40,4], gradient of w float32[7,4] = "
	               "linear_cross_entropy(copy of x, copy of w, input target, input weight, "
	               "input scale) rows=32\n"
	               "gradient of x float32[40,4] = cast(%13)\n");
	gt_graph_free(g);
}

static void test_evaluation(void **state)
{
	struct gt_pass_options o = { 0 };
	struct gt_graph *g = pass_graph();

	(void)state;
	emit_loss(g, logits_of(g, NULL, true), false);
	run_passes(g, &o);
	pass_expect(
	    g, "output stats float64[4] = linear_cross_entropy(x, w, input target) rows=16\n");
	gt_graph_free(g);
	g = pass_graph();
	emit_loss(g, logits_of(g, NULL, true), true);
	run_passes(g, &o);
	pass_expect(g,
	    "output loss float32[] = linear_cross_entropy(x, w, input target, input weight) "
	    "rows=16\n");
	gt_graph_free(g);
}

static bool has(const struct gt_graph *g, const struct gt_op *op)
{
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i]->op == op)
			return true;
	return false;
}

enum wrong { NOTHING, BIAS, NOT_TRANSPOSED, OUTPUT, READ_TWICE, SUMMED, FIXED, WRONGS };

/* Graphs that are not a head, or whose values have other readers: the nodes stay. */
static void test_left_alone(void **state)
{
	(void)state;
	for (int k = 0; k < 2 * WRONGS; k++) {
		enum wrong wrong = (enum wrong)(k / 2);
		struct gt_graph *g = pass_graph();
		struct gt_value *bias = wrong == BIAS ? pass_vector(g, "b", CLASSES) : NULL;
		struct gt_value *logits = logits_of(g, bias, wrong != NOT_TRANSPOSED), *loss;
		struct gt_pass_options o = { .precision.low = k % 2 ? GT_BF16 : GT_F32 };

		if (wrong == OUTPUT)
			gt_output(g, logits, "logits");
		if (wrong == SUMMED)
			logits = gt_add(g, logits, logits);
		if (wrong == FIXED)
			gt_graph_find_stored(g, "x")->role = GT_INPUT;
		loss = emit_loss(g, logits, true);
		if (wrong == READ_TWICE)
			gt_output(g, gt_gelu(g, logits, GT_GELU_ERF), "other");
		o.loss = loss;
		run_passes(g, &o);
		if (has(g, &gt_op_linear_cross_entropy) != (wrong == NOTHING))
			fail_msg("case %d, %s", wrong, gt_dtype_name(o.precision.low));
		gt_graph_free(g);
	}
}

/* Few rows stay as they are, unless they begin anywhere; 0 bytes: no kernel. */
static void test_when(void **state)
{
	static const struct {
		size_t bytes, align;
		int64_t rows;
	} cases[] = { { 0, 16, 0 }, { ROWS * CLASSES * 4, 0, 0 }, { ROWS * CLASSES * 4, 4, 0 },
		{ ROWS * CLASSES * 4, 16, 48 }, { ROWS * CLASSES * 4 - 1, 0, 32 }, { 1, 0, 16 },
		{ 1 << 20, 16, 48 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_pass_options o = { .kernels = kernels,
			.logits_bytes = cases[i].bytes,
			.logits_align = cases[i].align };
		struct gt_graph *g = pass_graph();
		int64_t rows = 0;

		emit_loss(g, logits_of(g, NULL, true), true);
		if (!gt_pass_fuse_head.applies(&o))
			assert_int_equal(cases[i].bytes, 0);
		else
			pass_run(g, &gt_pass_fuse_head, &o);
		if (g->nodes[0]->op == &gt_op_linear_cross_entropy)
			rows = g->nodes[0]->attrs.head.rows;
		assert_int_equal(rows, cases[i].rows);
		gt_graph_free(g);
	}
}

/* ---- run ---- */

enum { SAMPLES = 3, TOKENS = 13, VOCAB = 37, FEATURES = 6 };

/* A model whose table is embedding and head, bound to memory; batches and weights are the same. */
struct run {
	struct gt_graph *graph;
	struct gt_store *store;
	struct gt_plan *plan;
	void *arena;
	enum gt_dtype dtype;
};

struct form {
	enum gt_dtype dtype, low;
	bool train, accumulate;
	size_t logits_bytes;
	int recompute;
	int64_t tokens; /* of a sample; 0: TOKENS */
};

static void build(struct run *r, const struct form *f)
{
	const int64_t ids_shape[] = { SAMPLES, f->tokens ? f->tokens : TOKENS };
	const struct gt_init init = { GT_INIT_NORMAL, 0.5 };
	struct gt_graph *g = r->graph = pass_graph();
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, ids_shape);
	struct gt_value *target = gt_input(g, "target", GT_I32, 2, ids_shape);
	struct gt_value *table =
	    gt_parameter(g, "table", f->dtype, 2, (int64_t[]){ VOCAB, FEATURES }, init, true);
	struct gt_value *mix =
	    gt_parameter(g, "mix", f->dtype, 2, (int64_t[]){ FEATURES, FEATURES }, init, true);
	struct gt_value *x = gt_embedding(g, table, ids, NULL, NULL), *logits;

	gt_graph_scope(g, "h.0");
	x = gt_gelu(g, gt_matmul(g, x, mix, NULL, false, false), GT_GELU_ERF);
	gt_graph_scope(g, "head");
	logits = gt_matmul(g, x, table, NULL, false, true);
	gt_graph_scope(g, "loss");
	if (f->train)
		gt_output(g,
		    gt_cross_entropy(g, logits, target, gt_input(g, "weight", f->dtype, 0, NULL)),
		    "loss");
	else
		gt_output(g, gt_classify_stats(g, logits, target), "stats");
}

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

static void write_input(struct run *r, const char *name, int shift)
{
	int32_t numbers[SAMPLES * TOKENS];
	struct gt_err err = GT_ERR_INIT;

	for (int i = 0; i < SAMPLES * TOKENS; i++)
		numbers[i] = shift && i % 5 == 4 ? -100 : (i * 11 + shift) % VOCAB;
	ok(gt_plan_write(r->plan, gt_graph_find(r->graph, name), numbers, sizeof(numbers), &err),
	    &err);
}

static void run_once(struct run *r)
{
	const struct gt_value *weight = gt_graph_find(r->graph, "weight");
	struct gt_err err = GT_ERR_INIT;
	const double w64 = 0.25;
	const float w32 = 0.25f;

	write_input(r, "ids", 0);
	write_input(r, "target", 3);
	if (weight)
		ok(gt_plan_write(r->plan, weight, r->dtype == GT_F64 ? (const void *)&w64 : &w32,
		       gt_value_bytes(weight), &err),
		    &err);
	ok(gt_plan_run(r->plan, &err), &err);
}

static void open_run(struct run *r, const struct form *f)
{
	struct gt_recompute recompute = { .max = f->recompute };
	struct gt_pass_options o = { .accumulate = f->accumulate,
		.precision.low = f->low,
		.kernels = test_device(0)->backend->kernels(),
		.logits_bytes = f->logits_bytes,
		.recompute = f->recompute ? &recompute : NULL };
	struct gt_err err = GT_ERR_INIT;

	*r = (struct run){ .dtype = f->dtype };
	build(r, f);
	o.loss = f->train ? gt_graph_find(r->graph, "loss") : NULL;
	ok(gt_passes_run(r->graph, &o, &err), &err);
	assert_int_equal(has(r->graph, &gt_op_linear_cross_entropy), f->logits_bytes > 0);
	ok(gt_store_new(&r->store, r->graph, test_device(0), f->train, &err), &err);
	ok(gt_store_alloc(r->store, &err), &err);
	ok(gt_store_init(r->store, 5, &err), &err);
	ok(gt_plan_new(&r->plan, r->graph, r->store, NULL, &err), &err);
	ok(gt_device_alloc(test_device(0), gt_plan_arena_bytes(r->plan), &r->arena, &err), &err);
	test_device_ruin(r->arena, gt_plan_arena_bytes(r->plan));
	ok(gt_plan_bind(r->plan, r->arena, &err), &err);
}

static void close_run(struct run *r)
{
	gt_device_free(test_device(0), r->arena, gt_plan_arena_bytes(r->plan));
	gt_plan_free(r->plan);
	gt_store_free(r->store);
	gt_graph_free(r->graph);
}

/* Element i of device memory. */
static double number(const void *device, enum gt_dtype dtype, int64_t i)
{
	size_t size = gt_dtype_size(dtype);
	struct gt_err err = GT_ERR_INIT;
	double x = 0;
	float f;

	ok(gt_device_read(test_device(0), &x, (const char *)device + (size_t)i * size, size, &err),
	    &err);
	if (dtype == GT_F64)
		return x;
	memcpy(&f, &x, sizeof(f));
	return f;
}

static double output(const struct run *r, const char *name, int64_t i)
{
	const struct gt_value *v = gt_graph_find(r->graph, name);

	assert_non_null(v);
	return number(gt_plan_address(r->plan, v), v->dtype, i);
}

static double gradient(const struct run *r, const char *name, int64_t i)
{
	const struct gt_slot *slot = gt_store_find(r->store, name);

	return number(gt_slot_address(r->store->gradients, slot), slot->dtype, i);
}

static void expect_near(double got, double want, double tolerance, const char *what)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%s: %.9g, apart %.9g", what, got, want);
}

static void compare(struct run *x, struct run *y, double tolerance)
{
	run_once(x);
	run_once(y);
	expect_near(output(x, "loss", 0), output(y, "loss", 0), 20 * tolerance, "loss");
	for (int64_t i = 0; i < (int64_t)VOCAB * FEATURES; i++)
		expect_near(gradient(x, "table", i), gradient(y, "table", i), tolerance, "table");
	for (int64_t i = 0; i < (int64_t)FEATURES * FEATURES; i++)
		expect_near(gradient(x, "mix", i), gradient(y, "mix", i), tolerance, "mix");
}

/* Chunks of 16 rows of 39: the loss and all gradients, where these add up over runs, and where
 * blocks are computed again. */
static void test_same_results(void **state)
{
	static const struct {
		struct form form;
		double tolerance;
	} cases[] = {
		{ { GT_F64, GT_F32, true, false, 0, 0, 0 }, 1e-13 },
		{ { GT_F64, GT_F32, true, true, 0, 0, 0 }, 1e-13 },
		{ { GT_F32, GT_F32, true, false, 0, 0, 0 }, 2e-6 },
		{ { GT_F32, GT_F32, true, true, 0, 1, 0 }, 4e-6 },
		{ { GT_F32, GT_BF16, true, false, 0, 0, 0 }, 2e-2 },
		{ { GT_F32, GT_F16, true, true, 0, 0, 0 }, 4e-3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct form fused = cases[i].form;
		struct run x, y;

		if (test_device_is_cpu() && fused.low != GT_F32)
			continue;
		fused.logits_bytes = 1;
		open_run(&x, &fused);
		open_run(&y, &cases[i].form);
		if (fused.accumulate)
			compare(&x, &y, cases[i].tolerance);
		compare(&x, &y, cases[i].tolerance);
		close_run(&x);
		close_run(&y);
	}
}

static void test_same_statistics(void **state)
{
	const struct form apart = { GT_F64, GT_F32, false, false, 0, 0, 0 };
	struct form fused = apart;
	struct run x, y;

	(void)state;
	fused.logits_bytes = 1;
	open_run(&x, &fused);
	open_run(&y, &apart);
	run_once(&x);
	run_once(&y);
	for (int64_t i = 0; i < 4; i++)
		expect_near(output(&x, "stats", i), output(&y, "stats", i), 1e-11, "stats");
	assert_true(output(&y, "stats", 1) > 0);
	close_run(&x);
	close_run(&y);
}

static double loss_with(struct run *r, const char *name, int64_t i, double value)
{
	const struct gt_slot *slot = gt_store_find(r->store, name);
	char *at = (char *)gt_store_data(r->store, slot) + (size_t)i * sizeof(double);
	double before = number(gt_store_data(r->store, slot), GT_F64, i), loss;
	struct gt_err err = GT_ERR_INIT;

	value += before;
	ok(gt_device_write(test_device(0), at, &value, sizeof(value), &err), &err);
	run_once(r);
	loss = output(r, "loss", 0);
	ok(gt_device_write(test_device(0), at, &before, sizeof(before), &err), &err);
	return loss;
}

/* Of a loss of some tens at h = 1e-5: error 1e-10. */
static void test_central_differences(void **state)
{
	const struct form form = { GT_F64, GT_F32, true, false, 1, 0, 0 };
	static const struct {
		const char *name;
		int64_t count;
	} parameters[] = { { "table", (int64_t)VOCAB * FEATURES },
		{ "mix", (int64_t)FEATURES * FEATURES } };
	const double h = 1e-5;
	struct run r;

	(void)state;
	open_run(&r, &form);
	for (int p = 0; p < 2; p++)
		for (int64_t i = 0; i < parameters[p].count; i += 5) {
			double slope = loss_with(&r, parameters[p].name, i, h) -
			               loss_with(&r, parameters[p].name, i, -h);

			run_once(&r);
			expect_near(gradient(&r, parameters[p].name, i), slope / (2 * h), 1e-7,
			    parameters[p].name);
		}
	close_run(&r);
}

/* At least half of the logits: 16 rows of 600 are still there. */
static void test_less_memory(void **state)
{
	enum { MANY = 200 };
	const size_t logits = SAMPLES * MANY * VOCAB * sizeof(float);

	(void)state;
	for (int train = 0; train < 2; train++) {
		const struct form apart = { GT_F32, GT_F32, train, false, 0, 0, MANY };
		struct form fused = apart;
		struct run x, y;

		fused.logits_bytes = 1;
		open_run(&x, &fused);
		open_run(&y, &apart);
		assert_true(gt_plan_arena_bytes(x.plan) + logits / 2 < gt_plan_arena_bytes(y.plan));
		close_run(&x);
		close_run(&y);
	}
}

/* ---- models ---- */

static bool model_has_it(
    const char *spec, enum gt_model_purpose purpose, enum gt_dtype low, int batch)
{
	const struct gt_parallel_options alone = { .ranks = 1 };
	struct gt_program_options o = { .purpose = purpose, .precision.low = low };
	struct gt_parallel *parallel;
	struct gt_err err = GT_ERR_INIT;
	struct gt_program program;
	struct gt_model_input in;
	struct gt_model *model;
	bool found;

	ok(gt_model_open(&model, spec, &err), &err);
	gt_model_preferred_input(model, &in);
	ok(gt_parallel_new(&parallel, &alone, NULL, &err), &err);
	ok(gt_program_store(&o.store, model, &in, test_device(0), true, parallel, &err), &err);
	o.model = model;
	o.input = &in;
	o.parallel = parallel;
	ok(gt_program_init(&program, &o, batch, &err), &err);
	found = has(program.graph, &gt_op_linear_cross_entropy);
	gt_program_release(&program);
	gt_store_free(o.store);
	gt_parallel_free(parallel);
	gt_model_close(model);
	return found;
}

/* On a GPU rows of 13 logits begin anywhere. The CPU takes the node for large vocabularies, and in
 * float32 alone. */
static void test_models(void **state)
{
	const char *const odd = "gpt:layers=1,heads=1,width=8,block=4,vocab=13";
	const char *const even = "gpt:layers=1,heads=1,width=8,block=4,vocab=16";
	const char *const large = "gpt:layers=1,heads=1,width=8,block=512,vocab=50257";
	bool cuda = !strcmp(test_device(0)->backend->name, "cuda");

	(void)state;
	for (int k = 0; k < 2; k++) {
		enum gt_model_purpose purpose = k ? GT_MODEL_EVAL : GT_MODEL_TRAIN;

		assert_int_equal(model_has_it(odd, purpose, GT_F32, 2), cuda);
		assert_int_equal(model_has_it(odd, purpose, GT_BF16, 2), cuda);
		assert_false(model_has_it(even, purpose, GT_F32, 2));
		if (!test_device_is_cpu())
			continue;
		assert_true(model_has_it(large, purpose, GT_F32, 1));
		assert_false(model_has_it(large, purpose, GT_BF16, 1));
	}
	assert_false(model_has_it(odd, GT_MODEL_GENERATE, GT_F32, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_training),
		cmocka_unit_test(test_mixed_precision),
		cmocka_unit_test(test_evaluation),
		cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_when),
		cmocka_unit_test(test_same_results),
		cmocka_unit_test(test_same_statistics),
		cmocka_unit_test(test_central_differences),
		cmocka_unit_test(test_less_memory),
		cmocka_unit_test(test_models),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
