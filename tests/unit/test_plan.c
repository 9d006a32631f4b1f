/* test_plan.c - plans of real models: places of values, runs, errors. */
/* This table runs on GPUs, too. */
#include "tests/common/small_models.h"
#include "tests/unit/plan_fixture.h"

#include <omp.h>
#include <stdio.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/train/amp.h"

/* ---- places ---- */

/*
 * Live values don't overlap. Bytes in the arena belong to the value written last: inputs before the
 * first step, other values in the step that makes them. A node that reads a value must find its
 * bytes its own, or those of the value it is a view of.
 */
static void claim(int *owner, const struct subject_run *r, const struct gt_value *v, int id)
{
	size_t at, bytes;

	if (!gt_plan_place(r->program.plan, v, &at, &bytes))
		return;
	assert_int_equal(at % 64, 0);
	assert_true(at + bytes <= r->arena_bytes);
	for (size_t i = at / 64; i * 64 < at + bytes; i++)
		owner[i] = id;
}

static void expect_owner(
    const int *owner, const struct subject_run *r, const struct gt_value *v, int id)
{
	size_t at, bytes;

	if (!gt_plan_place(r->program.plan, v, &at, &bytes))
		return;
	for (size_t i = at / 64; i * 64 < at + bytes; i++)
		if (owner[i] != id)
			fail_msg("value %d is read when its bytes belong to %d", v->id, owner[i]);
}

static bool same_place(
    const struct subject_run *r, const struct gt_value *a, const struct gt_value *b)
{
	size_t a_at, b_at, bytes;

	return gt_plan_place(r->program.plan, a, &a_at, &bytes) &&
	       gt_plan_place(r->program.plan, b, &b_at, &bytes) && a_at == b_at;
}

static bool is_in_place(const struct subject_run *r, const struct gt_node *n, int input)
{
	const struct gt_value *x = n->in[input], *first, *last;

	if (!n->outputs)
		return false;
	first = n->op->inplace >> input & 1 ? n->out[0] : NULL;
	last = n->op->inplace_last >> input & 1 ? n->out[n->outputs - 1] : NULL;
	return (first && same_place(r, x, first)) || (last && same_place(r, x, last));
}

/*
 * One node: its inputs are there, its outputs lie apart from them, but for the first and the last
 * where it works in place, which is counted.
 */
static int check_node(int *owner, int *claims, const struct subject_run *r, const struct gt_node *n)
{
	int in_place = 0;

	for (int k = 0; k < n->inputs; k++)
		if (n->in[k])
			expect_owner(owner, r, n->in[k], claims[n->in[k]->id]);
	if (n->op->view)
		claims[n->out[0]->id] = claims[n->in[0]->id];
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k])
			claim(owner, r, n->out[k], claims[n->out[k]->id]);
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k])
			expect_owner(owner, r, n->out[k], claims[n->out[k]->id]);
	for (int k = 0; k < n->inputs; k++) {
		if (!n->in[k])
			continue;
		if (is_in_place(r, n, k))
			in_place++;
		else
			expect_owner(owner, r, n->in[k], claims[n->in[k]->id]);
	}
	return in_place;
}

static void check_places(struct subject_run *r)
{
	const struct gt_graph *g = r->program.graph;
	int *owner = calloc(r->arena_bytes / 64 + 1, sizeof(*owner));
	int *claims = calloc(g->value_count, sizeof(*claims)), in_place = 0;

	assert_non_null(owner);
	assert_non_null(claims);
	for (size_t i = 0; i < g->value_count; i++) {
		claims[i] = (int)i + 1;
		if (g->values[i]->role == GT_INPUT)
			claim(owner, r, g->values[i], claims[i]);
	}
	for (size_t i = 0; i < g->node_count; i++)
		in_place += check_node(owner, claims, r, g->nodes[i]);
	for (size_t i = 0; i < g->value_count; i++)
		if (g->values[i]->role == GT_OUTPUT)
			expect_owner(owner, r, g->values[i], claims[i]);
	assert_true(in_place > 0); /* there is such work at all */
	free(owner);
	free(claims);
}

static void test_places(void **state)
{
	static const enum gt_model_purpose purposes[] = { GT_MODEL_TRAIN, GT_MODEL_EVAL };

	(void)state;
	for (int i = 0; i < SUBJECTS; i++)
		for (int k = 0; k < 2; k++) {
			struct subject_run r;

			open_subject(&r, &subjects[i], purposes[k], i % 2);
			check_places(&r);
			close_subject(&r);
		}
}

/* conv(x) + x: the sum must not overwrite the x that the convolution still reads, though it is the
 * last to read it. */
static void test_no_place_under_second_reader(void **state)
{
	const struct gt_pass_options forward = { .images = test_device(0)->backend->image_layout };
	const int64_t image[] = { 2, 3, 4, 4 }, filter[] = { 3, 3, 3, 3 };
	union gt_attrs attrs = { .conv = { .window = { { 0 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
		                     .groups = 1 } };
	struct gt_value *x, *w, *y;
	size_t x_at, y_at, bytes;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	x = gt_max_pool2d(g, gt_input(g, "x", GT_F32, 4, image), gt_pool_square(1, 1, 0));
	w = gt_input(g, "w", GT_F32, 4, filter);
	y = gt_emit(g, &gt_op_conv2d, &attrs, 4, (struct gt_value *[]){ x, w, NULL, x })->out[0];
	gt_output(g, gt_avg_pool2d(g, y, gt_pool_square(4, 1, 0)), "y");
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_passes_run(g, &forward, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_store_new(&store, g, test_device(0), false, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_new(&plan, g, store, NULL, GT_ERR_IGNORED), 0);
	assert_true(gt_plan_place(plan, x, &x_at, &bytes));
	assert_true(gt_plan_place(plan, y, &y_at, &bytes));
	assert_true(x_at >= y_at + bytes || y_at >= x_at + bytes);
	gt_plan_free(plan);
	gt_store_free(store);
	gt_graph_free(g);
}

/*
 * Two values made in one temporary, read as pieces of it: it lives from the first of them to the
 * last reader, which does not take its bytes over.
 */
static void test_temporaries(void **state)
{
	enum { N = 16 };
	const int64_t shape[] = { N };
	float x[N], y[N], z[N];
	struct gt_value *in, *whole, *twice, *same, *y_value, *z_value;
	size_t whole_at, twice_at, same_at, y_at, whole_bytes, bytes;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_graph *g;
	void *arena;

	(void)state;
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	in = gt_input(g, "x", GT_F32, 1, shape);
	whole = gt_temporary(g, GT_F32, 2 * N);
	twice = gt_add(g, in, in);
	same = gt_copy(g, in);
	twice->within = same->within = whole;
	same->within_first = N;
	z_value = gt_output(g, gt_relu(g, gt_temporary_within(g, whole, 0, twice)), "z");
	y_value = gt_output(g, gt_relu(g, gt_temporary_within(g, whole, N, same)), "y");
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_store_new(&store, g, test_device(0), false, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_new(&plan, g, store, NULL, GT_ERR_IGNORED), 0);
	assert_true(gt_plan_place(plan, whole, &whole_at, &whole_bytes));
	assert_true(gt_plan_place(plan, twice, &twice_at, &bytes));
	assert_true(gt_plan_place(plan, same, &same_at, &bytes));
	assert_true(gt_plan_place(plan, y_value, &y_at, &bytes));
	assert_int_equal(whole_bytes, 2 * N * 4);
	assert_int_equal(twice_at, whole_at);
	assert_int_equal(same_at, whole_at + N * 4);
	assert_true(y_at >= whole_at + whole_bytes || y_at + bytes <= whole_at);
	assert_int_equal(gt_store_alloc(store, GT_ERR_IGNORED), 0);
	assert_int_equal(
	    gt_device_alloc(test_device(0), gt_plan_arena_bytes(plan), &arena, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_bind(plan, arena, GT_ERR_IGNORED), 0);
	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	assert_int_equal(gt_plan_write(plan, in, x, sizeof(x), GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_run(plan, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_read(plan, y_value, y, sizeof(y), GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_read(plan, z_value, z, sizeof(z), GT_ERR_IGNORED), 0);
	for (int i = 0; i < N; i++)
		assert_true(y[i] == x[i] && z[i] == 2 * x[i]);
	gt_device_free(test_device(0), arena, gt_plan_arena_bytes(plan));
	gt_plan_free(plan);
	gt_store_free(store);
	gt_graph_free(g);
}

/*
 * A temporary that a node reads or changes, and no node makes, lies apart from values alive at
 * the same time.
 */
static void test_temporaries_without_producer(void **state)
{
	const int64_t two = 2;
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_value *x, *y, *w, *b, *whole, *other, *count, *image;
	size_t whole_at, other_at, x_at, y_at, whole_bytes, x_bytes, y_bytes;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	x = gt_input(g, "x", GT_F32, 4, (int64_t[]){ 4, 2, 1, 1 });
	x->layout = GT_CHANNELS_LAST;
	w = gt_parameter(g, "w", GT_F32, 1, &two, zeros, true);
	b = gt_parameter(g, "b", GT_F32, 1, &two, zeros, true);
	count = gt_buffer(g, "n", GT_I64, 0, NULL, zeros);
	image = gt_relu(g, x);
	whole = gt_temporary(g, GT_F32, 2);
	other = gt_temporary(g, GT_F32, 2);
	y = gt_batch_norm(g, image, w, b, whole, other, count, 1e-5, 0.1);
	image->layout = y->layout = GT_CHANNELS_LAST;
	gt_output(g, y, "y");
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_store_new(&store, g, test_device(0), false, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_plan_new(&plan, g, store, NULL, GT_ERR_IGNORED), 0);
	assert_true(gt_plan_place(plan, whole, &whole_at, &whole_bytes));
	assert_true(gt_plan_place(plan, other, &other_at, &whole_bytes));
	assert_true(gt_plan_place(plan, image, &x_at, &x_bytes));
	assert_true(gt_plan_place(plan, y, &y_at, &y_bytes));
	assert_true(other_at >= whole_at + whole_bytes || other_at + whole_bytes <= whole_at);
	assert_true(whole_at >= x_at + x_bytes || whole_at + whole_bytes <= x_at);
	assert_true(whole_at >= y_at + y_bytes || whole_at + whole_bytes <= y_at);
	gt_plan_free(plan);
	gt_store_free(store);
	gt_graph_free(g);
}

/*
 * Steps' tensors and workspaces lie where the plan says, and workspaces apart from the values that
 * the step touches.
 */
static void test_workspaces(void **state)
{
	(void)state;
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject_run r;
		const struct gt_step *steps;
		size_t steps_count;

		open_subject(&r, &subjects[i], GT_MODEL_TRAIN, false);
		steps = gt_plan_steps(r.program.plan, &steps_count);
		for (size_t s = 0; s < steps_count; s++) {
			const struct gt_call *c = &steps[s].call;
			const char *from = c->workspace, *to = from + c->workspace_bytes;

			assert_true(
			    !c->workspace_bytes ||
			    (from >= (char *)r.arena && to <= (char *)r.arena + r.arena_bytes));
			for (int k = 0; k < c->inputs + c->outputs; k++) {
				const struct gt_tensor *t =
				    k < c->inputs ? &c->in[k] : &c->out[k - c->inputs];
				const char *data = t->data;

				if (!t->present)
					continue;
				assert_int_equal((uintptr_t)data % 64, 0);
				assert_true(
				    !c->workspace_bytes || data >= to ||
				    data + gt_tensor_elements(t) * gt_dtype_size(t->dtype) <= from);
			}
		}
		close_subject(&r);
	}
}

static void test_summary(void **state)
{
	struct gt_plan_summary s;
	struct subject_run r;

	(void)state;
	open_subject(&r, &subjects[2], GT_MODEL_TRAIN, false);
	gt_plan_summarize(r.program.plan, &s);
	assert_int_equal(s.arena_bytes, r.arena_bytes);
	assert_true(s.temporary_bytes > s.arena_bytes);
	assert_int_equal(s.parameter_bytes, (size_t)r.store->flat_count * 4);
	assert_int_equal(s.gradient_bytes, s.parameter_bytes);
	/* 40.8 million multiply-adds forward (He et al., table 6 speak of 0.27M parameters), about
	 * three times that in all */
	assert_true(s.cost.flops > 2 * 2 * 40.5e6 * 2.8 && s.cost.flops < 2 * 2 * 40.8e6 * 3.3);
	close_subject(&r);
}

/* The bytes in use fit into the arena, and in some step of the backward part most of it is used. */
static void test_live_bytes(void **state)
{
	size_t most = 0, count, *live;
	struct subject_run r;

	(void)state;
	for (int i = 0; i < SUBJECTS; i++) {
		open_subject(&r, &subjects[i], GT_MODEL_TRAIN, false);
		gt_plan_steps(r.program.plan, &count);
		assert_int_equal(gt_plan_live(&live, r.program.plan, GT_ERR_IGNORED), 0);
		most = 0;
		for (size_t k = 0; k < count; k++) {
			assert_true(live[k] > 0 && live[k] <= r.arena_bytes);
			most = live[k] > most ? live[k] : most;
		}
		assert_true(most > r.arena_bytes / 2 && live[0] < most);
		free(live);
		close_subject(&r);
	}
}

/* ---- running ---- */

/* The same inputs give the same bits, though temporaries hold numbers of the last run. Where a
 * backend captures the second run, the third is a replay. */
static void test_runs_repeat(void **state)
{
	const int runs = test_device(0)->backend->capture_begin ? 3 : 2;

	(void)state;
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject_run r;
		float first = 0, loss;

		if (!test_takes_row(2, (size_t)i + 1))
			continue;
		open_subject(&r, &subjects[i], GT_MODEL_TRAIN, false);
		for (int k = 0; k < runs; k++) {
			write_inputs(&r);
			assert_int_equal(gt_plan_run(r.program.plan, GT_ERR_IGNORED), 0);
			assert_int_equal(gt_plan_read(r.program.plan, r.program.io.loss, &loss,
			                     sizeof(loss), NULL),
			    0);
			first = k ? first : loss;
			assert_true(loss == first);
		}
		close_subject(&r);
	}
}

static void test_host_access(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct subject_run r;
	float x = 0;

	(void)state;
	open_subject(&r, &subjects[0], GT_MODEL_TRAIN, false);
	assert_int_equal(
	    gt_plan_write(r.program.plan, r.program.io.weight, &x, 5, &err), GT_EINVAL);
	assert_string_equal(err.text, "'weight' takes no 5 bytes from the host");
	assert_int_equal(gt_plan_write(r.program.plan, r.program.io.loss, &x, 4, &err), GT_EINVAL);
	assert_int_equal(gt_plan_read(r.program.plan, r.program.io.logits, &x, 4, &err), GT_EINVAL);
	assert_int_equal(gt_plan_read(r.program.plan, r.program.io.loss, &x, 3, &err), GT_EINVAL);
	close_subject(&r);
}

/* ---- kernels ---- */

static void plan_with(const char *spec, enum gt_model_purpose purpose, enum gt_amp amp)
{
	const struct gt_parallel_options alone = { .ranks = 1 };
	struct gt_parallel *parallel = NULL;
	struct gt_program program = { 0 };
	struct gt_store *store = NULL;
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model *model;

	assert_int_equal(gt_model_open(&model, spec, &err), 0);
	gt_model_preferred_input(model, &in);
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	if (gt_parallel_new(&parallel, &alone, NULL, &err) ||
	    gt_program_store(&store, model, &in, test_device(0), true, parallel, &err) ||
	    gt_program_init(&program,
	        &(struct gt_program_options){ .model = model,
	            .input = &in,
	            .purpose = purpose,
	            .store = store,
	            .parallel = parallel,
	            .precision = gt_amp_precision(amp, false) },
	        2, &err))
		fail_msg("%s, purpose %d, amp %s: %s", spec, purpose, gt_amp_names[amp], err.text);
	gt_program_release(&program);
	gt_store_free(store);
	gt_parallel_free(parallel);
	gt_model_close(model);
}

static void plan_all(const char *spec, bool text)
{
	for (enum gt_amp amp = GT_AMP_OFF; amp < GT_AMPS; amp++) {
		plan_with(spec, GT_MODEL_TRAIN, amp);
		plan_with(spec, GT_MODEL_EVAL, amp);
		plan_with(spec, GT_MODEL_PREDICT, amp);
		if (amp != GT_AMP_OFF || !text)
			continue;
		plan_with(spec, GT_MODEL_GENERATE, amp);
		plan_with(spec, GT_MODEL_CONTINUE, amp);
	}
}

/* The device has kernels for all nodes of every kind of network, in each precision that a command
 * offers for it: generation has no --amp. */
static void test_kernels_of_models(void **state)
{
	static const char *const others[] = { "resnet50:image=32,classes=5",
		"gpt:layers=2,heads=2,width=32,block=8,vocab=50,dropout=0.1",
		"gpt:layers=1,heads=2,width=32,block=8,vocab=50,bias=no,gelu=erf",
		"llama:layers=1,heads=4,kv_heads=2,width=32,block=8,vocab=50,tied=yes",
		"vit:image=16,layers=2,heads=2,width=32,classes=5,dropout=0.1" };

	(void)state;
	for (const struct small_model *m = small_models(); *m->spec; m++)
		plan_all(m->spec, m->text);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		plan_all(others[i], strstr(others[i], "vocab"));
}

/* ---- refusals ---- */

static void expect_refusal(struct gt_graph *g, bool with_gradients, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_store *store;
	struct gt_plan *plan;

	assert_int_equal(gt_graph_status(g, &err), 0);
	assert_int_equal(gt_store_new(&store, g, test_device(0), with_gradients, &err), 0);
	assert_true(gt_plan_new(&plan, g, store, NULL, &err) < 0);
	assert_null(plan);
	assert_string_equal(err.text, text);
	gt_store_free(store);
	gt_graph_free(g);
}

static void test_refusals(void **state)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	static const float mean = 0, std = 1;
	struct gt_value *w;
	struct gt_graph *g;
	char text[100];

	(void)state;
	snprintf(text, sizeof(text),
	    "pool1: no kernel of backend '%s' does 'max_pool2d' in float32",
	    test_device(0)->backend->name);
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	gt_graph_scope(g, "pool1");
	gt_output(g,
	    gt_max_pool2d(g,
	        gt_image_normalize(
	            g, gt_input(g, "x", GT_U8, 4, (int64_t[]){ 1, 4, 4, 1 }), &mean, &std),
	        gt_pool_square(2, 2, 0)),
	    "y"); /* the layout pass has not run, and pools are made for channels-last */
	expect_refusal(g, true, text);

	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	w = gt_parameter(g, "w", GT_F32, 1, (int64_t[]){ 3 }, zeros, false);
	w = gt_relu(g, w);
	w->role = GT_GRADIENT;
	w->parameter = gt_graph_find_stored(g, "w");
	expect_refusal(g, false, "a store without gradients");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_no_place_under_second_reader),
		cmocka_unit_test(test_temporaries),
		cmocka_unit_test(test_temporaries_without_producer),
		cmocka_unit_test(test_workspaces),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_live_bytes),
		cmocka_unit_test(test_runs_repeat),
		cmocka_unit_test(test_host_access),
		cmocka_unit_test(test_kernels_of_models),
		cmocka_unit_test(test_refusals),
	};

	omp_set_num_threads(1); /* small models: threads would mostly wait for each other */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
