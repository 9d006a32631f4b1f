/* test_ops.c - every op against central differences or the CPU, in each type, in place or not. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/device.h"
#include "tests/common/op_table.h"

static void open_run(struct op_run *r, const struct op_case *c, enum gt_dtype dtype, unsigned flags)
{
	struct gt_err err = GT_ERR_INIT;

	if (op_run_open(r, c, dtype, flags, &err))
		fail_msg("%s (%s): %s", c->op, c->label, err.text);
}

static void go(struct op_run *r)
{
	struct gt_err err = GT_ERR_INIT;

	if (op_run_go(r, &err))
		fail_msg("%s (%s): %s", r->c->op, r->c->label, err.text);
}

static bool is_differentiated(const struct op_case *c, int i)
{
	return c->in[i].kind == ARG_REAL || c->in[i].kind == ARG_APART;
}

static bool only_f32(const struct op_case *c)
{
	return !strcmp(c->op, "image_normalize");
}

static double largest(const double *x, int64_t n)
{
	double m = 0;

	for (int64_t i = 0; i < n; i++)
		m = fabs(x[i]) > m || isnan(x[i]) ? fabs(x[i]) : m;
	return m;
}

/* ---- gradients ---- */

static double loss_at(struct op_run *r, int input, int64_t element, double x)
{
	double before = r->host[input][element], loss, *out;
	int64_t n;

	r->host[input][element] = x;
	go(r);
	r->host[input][element] = before;
	out = op_run_output(r, "loss", &n);
	assert_non_null(out);
	loss = *out;
	free(out);
	return loss;
}

/*
 * Central differences: the error is h^2 / 6 times a third derivative, plus rounding, 1e-16 times a
 * loss of some tens over h: 1e-10 for both at h = 1e-5. Bound: 1e-6 of the largest element.
 */
static void check_gradient(struct op_run *r, int input)
{
	const double h = 1e-5, bound = 1e-6;
	double *gradient, scale;
	int64_t n, step;

	go(r);
	gradient = op_run_gradient(r, input, &n);
	assert_non_null(gradient);
	scale = fmax(largest(gradient, n), 1e-3);
	step = n / 60 + 1; /* some sixty elements are enough of a large tensor */
	for (int64_t i = n % step / 2; i < n; i += step) {
		double x = r->host[input][i];
		double slope =
		    (loss_at(r, input, i, x + h) - loss_at(r, input, i, x - h)) / (2 * h);

		if (!(fabs(slope - gradient[i]) <= bound * scale))
			fail_msg("%s (%s): input %d, element %lld: gradient %.12g, slope %.12g",
			    r->c->op, r->c->label, input, (long long)i, gradient[i], slope);
	}
	free(gradient);
}

static void check_gradients(const struct op_case *c)
{
	struct op_run r;

	open_run(&r, c, GT_F64, 0);
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (is_differentiated(c, i))
			check_gradient(&r, i);
	op_run_close(&r);
}

static void compare(
    const struct op_case *c, const char *what, double *x, double *y, int64_t n, double tolerance)
{
	double scale = fmax(largest(y, n), 1e-3);

	assert_non_null(x);
	assert_non_null(y);
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(x[i] - y[i]) <= tolerance * scale))
			fail_msg("%s (%s): %s, element %lld: %.9g and %.9g, of at most %.9g", c->op,
			    c->label, what, (long long)i, x[i], y[i], scale);
	free(x);
	free(y);
}

static const char *const output_names[] = { "out0", "out1", "out2", "out3" };

enum { OUTPUTS = sizeof(output_names) / sizeof(*output_names) };

struct numbers {
	double *outputs[OUTPUTS], *gradients[GT_MAX_INPUTS];
	int64_t output_counts[OUTPUTS], gradient_counts[GT_MAX_INPUTS];
};

/* Compute a case in float64 on a backend. The caller frees the numbers. */
static struct numbers compute(const char *backend, const struct op_case *c)
{
	char *before = strdup(getenv("GTRAIN_TEST_BACKEND"));
	struct numbers n = { 0 };
	struct op_run r;

	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	open_run(&r, c, GT_F64, 0);
	go(&r);
	for (int i = 0; i < OUTPUTS; i++)
		n.outputs[i] = op_run_output(&r, output_names[i], &n.output_counts[i]);
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (is_differentiated(c, i))
			n.gradients[i] = op_run_gradient(&r, i, &n.gradient_counts[i]);
	op_run_close(&r);
	setenv("GTRAIN_TEST_BACKEND", before, 1);
	free(before);
	return n;
}

/* Compare outputs and gradients with the CPU's, which check_gradients() compares with central
 * differences. Those take two runs for each element: too slow where GPUs are simulated. */
static void compare_with_the_cpu(const struct op_case *c)
{
	struct numbers here = compute(getenv("GTRAIN_TEST_BACKEND"), c);
	struct numbers cpu = compute(gt_cpu_backend.name, c);

	for (int i = 0; i < OUTPUTS; i++) {
		assert_int_equal(here.output_counts[i], cpu.output_counts[i]);
		if (cpu.output_counts[i])
			compare(c, output_names[i], here.outputs[i], cpu.outputs[i],
			    cpu.output_counts[i], 1e-12);
	}
	for (int i = 0; i < GT_MAX_INPUTS; i++) {
		assert_int_equal(here.gradient_counts[i], cpu.gradient_counts[i]);
		if (cpu.gradient_counts[i])
			compare(c, "gradient", here.gradients[i], cpu.gradients[i],
			    cpu.gradient_counts[i], 1e-12);
	}
}

static void test_gradients(void **state)
{
	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++) {
		if (!op_case_differentiates(c))
			continue;
		if (test_device_is_cpu())
			check_gradients(c);
		else
			compare_with_the_cpu(c);
	}
}

/* ---- the same numbers twice ---- */

/* Outputs and gradients of two runs of one case. */
static void compare_runs(struct op_run *x, struct op_run *y, double tolerance)
{
	int64_t n, m;

	go(x);
	go(y);
	for (int i = 0; i < x->outputs; i++) {
		const struct gt_value *v = gt_graph_find(x->graph, output_names[i]);

		if (!v)
			continue;
		compare(x->c, output_names[i], op_run_output(x, output_names[i], &n),
		    op_run_output(y, output_names[i], &m), gt_value_elements(v), tolerance);
		assert_int_equal(n, m);
	}
	for (int i = 0; i < GT_MAX_INPUTS; i++) {
		double *a, *b;

		if (!is_differentiated(x->c, i))
			continue;
		a = op_run_gradient(x, i, &n);
		b = op_run_gradient(y, i, &m);
		assert_int_equal(n, m);
		compare(x->c, "gradient", a, b, n, tolerance);
	}
}

static void test_float32_against_float64(void **state)
{
	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++) {
		struct op_run x, y;

		if (only_f32(c))
			continue;
		open_run(&x, c, GT_F32, 0);
		open_run(&y, c, GT_F64, 0);
		compare_runs(&x, &y, op_tolerance_f32(c->op));
		op_run_close(&x);
		op_run_close(&y);
	}
}

static bool has_kernel(const struct gt_backend *b, const char *op, enum gt_dtype dtype)
{
	for (const struct gt_kernel *const *t = b->kernels(); *t; t++)
		for (const struct gt_kernel *k = *t; k->op; k++)
			if (k->dtype == dtype && !strcmp(k->op, op))
				return true;
	return false;
}

/* Of the same numbers, rounded. */
static void test_half_against_float64(void **state)
{
	static const enum gt_dtype types[] = { GT_BF16, GT_F16 };

	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++)
		for (int i = 0; i < 2; i++) {
			struct op_run x, y;

			if (!op_of(c)->view && !has_kernel(&gt_cpu_backend, c->op, types[i]))
				continue;
			open_run(&x, c, types[i], i ? 0 : OP_RUN_THROUGH_COPY);
			open_run(&y, c, GT_F64, 0);
			op_run_round(&y, types[i]);
			compare_runs(&x, &y, op_tolerance(c->op, types[i]));
			op_run_close(&x);
			op_run_close(&y);
		}
}

/* A copy's output is a temporary, whose bytes the op may take over. */
static void test_in_place(void **state)
{
	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++)
		for (int dtype = GT_F32; dtype <= GT_F64; dtype++) {
			struct op_run x, y;

			if (!op_case_differentiates(c))
				continue;
			open_run(&x, c, dtype, OP_RUN_THROUGH_COPY);
			open_run(&y, c, dtype, 0);
			compare_runs(&x, &y, 0);
			op_run_close(&x);
			op_run_close(&y);
		}
}

static void test_accumulation(void **state)
{
	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++) {
		struct op_run x, y;

		if (!op_case_differentiates(c))
			continue;
		open_run(&x, c, GT_F32, OP_RUN_ACCUMULATE);
		open_run(&y, c, GT_F32, 0);
		go(&x);
		go(&x);
		go(&y);
		for (int i = 0; i < GT_MAX_INPUTS; i++) {
			double *twice, *once;
			int64_t n;

			if (!is_differentiated(c, i))
				continue;
			twice = op_run_gradient(&x, i, &n);
			once = op_run_gradient(&y, i, &n);
			for (int64_t k = 0; k < n; k++)
				once[k] *= 2;
			compare(x.c, "twice the gradient", twice, once, n, 0);
		}
		op_run_close(&x);
		op_run_close(&y);
	}
}

/* ---- the table is whole ---- */

static void visit(bool *visited, const struct op_case *c, unsigned flags)
{
	struct op_run r;

	open_run(&r, c, GT_F32, flags);
	for (size_t k = 0; k < r.graph->node_count; k++)
		for (int i = 0; gt_ops[i]; i++)
			visited[i] = visited[i] || gt_ops[i] == r.graph->nodes[k]->op;
	op_run_close(&r);
}

static void test_every_op_has_a_case(void **state)
{
	bool visited[128] = { false }, differentiated[128] = { false };

	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++) {
		assert_non_null(op_of(c));
		for (int i = 0; gt_ops[i]; i++)
			if (gt_ops[i] == op_of(c) && op_case_differentiates(c))
				differentiated[i] = true;
		visit(visited, c, 0);
		visit(visited, c, OP_RUN_ACCUMULATE);
	}
	for (int i = 0; gt_ops[i]; i++) {
		if (!visited[i])
			fail_msg("no case runs '%s'", gt_ops[i]->name);
		if (gt_ops[i]->grad && !differentiated[i])
			fail_msg("no case differentiates '%s'", gt_ops[i]->name);
	}
}

/* Ops that mixed precision keeps in float32: losses, work on parameters and their gradients, and
 * ops that read bytes; and those of generation, which it does not touch; and a fusion that the CPU
 * does in float32 alone. */
static bool only_wide(const char *op)
{
	static const char *const ops[] = { "cross_entropy", "cross_entropy_grad", "classify_stats",
		"accumulate", "batch_norm_fold", "batch_norm_combine", "image_normalize",
		"log_sum_exp", "exp_difference", "add_log", "pick", "count_before",
		"cross_entropy_sharded", "classify_stats_sharded", "attention_cached",
		"linear_cross_entropy", "regression_loss", "regression_loss_grad",
		"regress_stats" };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(op, ops[i]))
			return true;
	return false;
}

/* Ops that turn bytes into numbers of other types than float64. */
static bool reads_bytes(const char *op)
{
	return !strcmp(op, "image_normalize") || !strcmp(op, "decode");
}

static void test_every_op_has_kernels(void **state)
{
	const struct gt_backend *cpu = &gt_cpu_backend;

	(void)state;
	for (int i = 0; gt_ops[i]; i++) {
		const char *name = gt_ops[i]->name;

		if (gt_ops[i]->view)
			continue;
		if (!has_kernel(cpu, name, GT_F32))
			fail_msg("no float32 kernel for '%s'", name);
		if (!reads_bytes(name) && !has_kernel(cpu, name, GT_F64))
			fail_msg("no float64 kernel for '%s'", name);
		for (int half = 0; half < 2; half++)
			if (has_kernel(cpu, name, half ? GT_F16 : GT_BF16) == only_wide(name))
				fail_msg("'%s' %s a kernel for %s", name,
				    only_wide(name) ? "has" : "lacks",
				    gt_dtype_name(half ? GT_F16 : GT_BF16));
	}
}

/* An op without a row for the type is an error of the planner's that names both. */
static void test_half_without_kernel(void **state)
{
	(void)state;
	for (const struct op_case *c = op_cases; c->op; c++) {
		struct gt_err err = GT_ERR_INIT;
		struct op_run r;
		char want[100];

		if (strcmp(c->op, "classify_stats") && strcmp(c->op, "cross_entropy") &&
		    strcmp(c->op, "embedding"))
			continue;
		if (has_kernel(test_device(0)->backend, c->op, GT_BF16))
			continue;
		snprintf(want, sizeof(want), ": no kernel of backend '%s' does '%s' in bfloat16",
		    test_device(0)->backend->name, c->op);
		assert_int_equal(op_run_open(&r, c, GT_BF16, 0, &err), GT_ENOTSUP);
		assert_string_equal(err.text, want);
	}
}

static void test_every_kernel_has_an_op(void **state)
{
	(void)state;
	for (const struct gt_kernel *const *t = gt_cpu_backend.kernels(); *t; t++)
		for (const struct gt_kernel *k = *t; k->op; k++) {
			bool known = false;

			for (int i = 0; gt_ops[i]; i++)
				known = known || !strcmp(gt_ops[i]->name, k->op);
			if (!known)
				fail_msg("a kernel for '%s', which is no op", k->op);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_op_has_a_case),
		cmocka_unit_test(test_every_op_has_kernels),
		cmocka_unit_test(test_every_kernel_has_an_op),
		cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_float32_against_float64),
		cmocka_unit_test(test_half_against_float64),
		cmocka_unit_test(test_half_without_kernel),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_accumulation),
	};

	omp_set_num_threads(
	    1); /* on such small shapes starting threads is all that would take time */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
