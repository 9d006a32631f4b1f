/* test_plan_runs.c - nodes of some runs of a step, and nodes beside the compute stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/plan.h"
#include "tests/common/device.h"
#include "tests/fake/far/far.h"

/* ---- an op that doubles a vector, on the stream of collectives, as its kernel notes ---- */

enum { N = 1000, BYTES = N * sizeof(float) };

static struct gt_stream *ran_on;
static int times;

static int infer_double(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static const struct gt_op op_double = {
	.name = "double", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_double
};

static const struct gt_op op_double_beside = { .name = "double",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_double,
	.collective = true };

static int run_double(struct gt_call *call, struct gt_err *err)
{
	const struct gt_backend *b = ((const struct gt_device *)call->context)->backend;
	float *x = call->in[0].data, *y = call->out[0].data;
	int rc = b->copy(call->stream, y, x, BYTES, err);

	ran_on = call->stream;
	times++;
	return rc ? rc : b->ranges()->add(call->stream, y, x, N, err);
}

static const struct gt_kernel rows[] = {
	{ .op = "double", .dtype = GT_F32, .run = run_double },
	{ .op = NULL },
};
static const struct gt_kernel *const tables[] = { rows, NULL };

/* ---- y = double(x) ---- */

struct site {
	const struct gt_device *d;
	struct gt_graph *g;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_value *x, *y;
	void *arena;
	struct gt_err err;
};

static void open_site(struct site *s, const char *backend, const struct gt_op *op, unsigned runs)
{
	struct gt_plan_extra extra = { .kernels = tables };
	const int64_t shape[] = { N };
	struct gt_value *v;

	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	*s = (struct site){ .d = test_device(0) };
	extra.context = (void *)s->d;
	assert_int_equal(gt_graph_new(&s->g, &s->err), 0);
	s->x = gt_input(s->g, "x", GT_F32, 1, shape);
	v = s->x;
	v = gt_emit(s->g, op, NULL, 1, &v)->out[0];
	v->producer->runs = runs;
	s->y = gt_output(s->g, v, "y");
	assert_int_equal(gt_store_new(&s->store, s->g, s->d, false, &s->err), 0);
	assert_int_equal(gt_plan_new(&s->plan, s->g, s->store, &extra, &s->err), 0);
	assert_int_equal(gt_store_alloc(s->store, &s->err), 0);
	assert_int_equal(
	    gt_device_alloc(s->d, gt_plan_arena_bytes(s->plan), &s->arena, &s->err), 0);
	assert_int_equal(gt_plan_bind(s->plan, s->arena, &s->err), 0);
}

static void close_site(struct site *s)
{
	(void)gt_device_sync(s->d, GT_ERR_IGNORED);
	gt_device_free(s->d, s->arena, gt_plan_arena_bytes(s->plan));
	gt_plan_free(s->plan);
	gt_store_free(s->store);
	gt_graph_free(s->g);
}

/* Queue the input, without waiting for it. */
static void write_input(struct site *s)
{
	float x[N];

	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	assert_int_equal(s->d->backend->copy_in(
	                     s->d->compute, gt_plan_address(s->plan, s->x), x, BYTES, &s->err),
	    0);
}

static void nodes_run_when_a_step_has_them(void **state)
{
	static const struct {
		unsigned of_node, of_run;
		bool runs;
	} cases[] = {
		{ 0, 0, true },
		{ 0, GT_RUN_FIRST, true },
		{ GT_RUN_LAST, 0, false },
		{ GT_RUN_LAST, GT_RUN_FIRST, false },
		{ GT_RUN_LAST, GT_RUN_LAST, true },
		{ GT_RUN_FIRST, GT_RUN_LAST, false },
		{ GT_RUN_FIRST, GT_RUN_FIRST, true },
		{ GT_RUN_FIRST, GT_RUN_FIRST | GT_RUN_LAST, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_span span = { 0 };
		struct gt_marks *marks;
		struct site s;

		open_site(&s, "cpu", &op_double, cases[i].of_node);
		write_input(&s);
		assert_int_equal(gt_marks_new(&marks, s.d, 1, &s.err), 0);
		gt_plan_watch(s.plan, marks, &span);
		times = 0;
		assert_int_equal(gt_plan_run_as(s.plan, cases[i].of_run, &s.err), 0);
		assert_int_equal(times, cases[i].runs);
		assert_int_equal(span.began > 0, cases[i].runs);
		assert_true(span.ended >= span.began);
		assert_int_equal(gt_plan_run(s.plan, &s.err), 0);
		assert_int_equal(times, cases[i].runs + 1);
		gt_marks_free(marks);
		close_site(&s);
	}
}

/* It begins behind the work before it, and no work behind it waits. */
static void collectives_run_beside(void **state)
{
	float y[N];
	struct site s;

	(void)state;
	open_site(&s, "far", &op_double_beside, 0);
	write_input(&s);
	assert_int_equal(gt_plan_run(s.plan, &s.err), 0);
	assert_ptr_equal(ran_on, s.d->collectives);
	assert_int_equal(s.d->backend->stream_sync(s.d->collectives, &s.err), 0);
	assert_int_equal(gt_plan_read(s.plan, s.y, y, BYTES, &s.err), 0);
	for (int i = 0; i < N; i++)
		assert_true(y[i] == 2 * (float)i);
	write_input(&s); /* behind the read, which is behind the run */
	assert_int_equal(gt_plan_run(s.plan, &s.err), 0);
	assert_int_equal(gt_plan_read(s.plan, s.y, y, BYTES, &s.err), GT_EDEVICE);
	assert_non_null(far_fault(0));
	far_forget(0);
	close_site(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_run_when_a_step_has_them),
		cmocka_unit_test(collectives_run_beside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
