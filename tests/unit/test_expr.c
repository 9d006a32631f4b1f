/* test_expr.c - expressions: programs as text, their gradients against central differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/expr.h"

#define NUM(x)      ((double)(x))
#define F_EXP(x)    exp(x)
#define F_LOG(x)    log(x)
#define F_TANH(x)   tanh(x)
#define F_ERF(x)    erf(x)
#define F_SQRT(x)   sqrt(x)
#define F_EXPM1(x)  expm1(x)
#define F_LOG1P(x)  log1p(x)
#define F_SIN(x)    sin(x)
#define F_COS(x)    cos(x)
#define F_POW(x, y) pow(x, y)
#define F_ABS(x)    fabs(x)
#define F_FLOOR(x)  floor(x)

static double apply(enum gt_function f, double a, double b, double c)
{
	switch (f) {
#define GT_FUNCTION(name, arguments, flops, formula)                                               \
	case GT_F_##name:                                                                          \
		return formula;
#include "lib/graph/ops/functions.inc"
	default:
		return NAN;
	}
}

static void evaluate(const struct gt_map_program *p, const double *in, double *out)
{
	double slot[GT_MAP_SLOTS] = { 0 };

	for (int i = 0; i < p->inputs; i++)
		slot[i] = in[i];
	for (int k = 0; k < p->numbers; k++)
		slot[p->inputs + p->outputs + k] = p->number[k];
	for (int i = 0; i < p->steps; i++) {
		const struct gt_map_step *s = &p->step[i];

		slot[s->to] = apply((enum gt_function)s->function, slot[s->from[0]],
		    slot[s->from[1]], slot[s->from[2]]);
	}
	for (int j = 0; j < p->outputs; j++)
		out[j] = slot[p->inputs + j];
}

static struct gt_map_program compile(const struct gt_expr *e)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_map_program p;

	if (gt_expr_compile(&p, e, &err))
		fail_msg("%s", err.text);
	return p;
}

static void expect_text(const struct gt_expr *e, const char *want)
{
	struct gt_map_program p = compile(e);
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	gt_map_program_print(&p, f);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

/* f of inputs, as many as it has arguments. */
static struct gt_expr of_inputs(enum gt_function f)
{
	int arg[3] = { -1, -1, -1 };
	struct gt_expr e = { 0 };

	for (int k = 0; k < gt_function_arguments(f); k++)
		arg[k] = gt_expr_input(&e, k);
	gt_expr_output(&e, gt_expr_apply3(&e, f, arg[0], arg[1], arg[2]));
	return e;
}

static void test_programs(void **state)
{
	struct gt_expr e = { 0 }, same = { 0 };
	int a = gt_expr_input(&e, 0), b = gt_expr_input(&e, 1), v;
	struct gt_map_program p, q;

	(void)state;
	v = gt_expr_apply2(
	    &e, GT_F_ADD, gt_expr_apply2(&e, GT_F_MUL, a, b), gt_expr_number(&e, 0.5));
	gt_expr_output(&e, gt_expr_apply1(&e, GT_F_RELU, v));
	expect_text(&e, " r0=mul(x0,x1) r0=add(r0,0.5) y0=relu(r0)");
	assert_int_equal(gt_expr_flops(&e), 3);
	/* the same with other orders of arguments */
	b = gt_expr_input(&same, 1);
	a = gt_expr_input(&same, 0);
	v = gt_expr_apply2(
	    &same, GT_F_ADD, gt_expr_number(&same, 0.5), gt_expr_apply2(&same, GT_F_MUL, b, a));
	gt_expr_output(&same, gt_expr_apply1(&same, GT_F_RELU, v));
	p = compile(&e);
	gt_expr_of_program(&same, &p);
	q = compile(&same);
	assert_memory_equal(&p, &q, sizeof(p));
	assert_int_equal(p.flops, 3);
}

/* Gradients read the result where that is less to read, and end in few steps. */
static void test_gradient_programs(void **state)
{
	static const struct {
		enum gt_function f;
		const char *text;
	} cases[] = {
		{ GT_F_RELU, " r0=le(x1,0) y0=where(r0,0,x2)" },
		{ GT_F_EXP, " y0=mul(x1,x2)" },
		{ GT_F_SILU, " r0=silu_slope(x0) y0=mul(x2,r0)" },
		{ GT_F_SIGMOID, " r0=sub(1,x1) r0=mul(x1,r0) y0=mul(x2,r0)" },
		{ GT_F_SQRT, " r0=mul(x2,0.5) y0=div(r0,x1)" },
		{ GT_F_MUL, " r0=mul(x1,x3) y1=mul(x0,x3) y0=copy(r0)" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_expr e = of_inputs(cases[i].f), d;

		gt_expr_derive(&d, &e, 3);
		expect_text(&d, cases[i].text);
	}
}

/* Output 0 may be the memory of an input, so no step reads an input after it is written. */
static void check_order(const struct gt_map_program *p)
{
	bool written = false;

	for (int i = 0; i < p->steps; i++) {
		int n = gt_function_arguments((enum gt_function)p->step[i].function);

		for (int k = 0; k < n; k++)
			assert_false(written && p->step[i].from[k] < p->inputs);
		written = written || p->step[i].to == p->inputs;
	}
}

/* Compare the gradient of e at x with central differences: h^2 / 6 times a third derivative, and
 * 1e-16 / h, are both far below 1e-7. */
static void check_gradient(const struct gt_expr *e, const double *x)
{
	struct gt_map_program f = compile(e), g;
	double in[GT_MAP_INPUTS], out[GT_MAP_OUTPUTS], y, h = 1e-5;
	struct gt_expr d;

	gt_expr_derive(&d, e, (1u << e->inputs) - 1);
	g = compile(&d);
	check_order(&g);
	memcpy(in, x, (size_t)e->inputs * sizeof(*in));
	evaluate(&f, in, &y);
	in[e->inputs] = y;
	in[e->inputs + 1] = 1.5;
	evaluate(&g, in, out);
	for (int i = 0; i < e->inputs; i++) {
		double more, less, slope;

		in[i] = x[i] + h;
		evaluate(&f, in, &more);
		in[i] = x[i] - h;
		evaluate(&f, in, &less);
		in[i] = x[i];
		slope = 1.5 * (more - less) / (2 * h);
		if (!(fabs(slope - out[i]) <= 1e-7 * (1 + fabs(slope))))
			fail_msg("input %d: gradient %.12g, slope %.12g", i, out[i], slope);
	}
}

static void test_gradients(void **state)
{
	static const double points[][3] = { { 0.7, 1.3, -0.4 }, { 2.6, 0.2, 0.9 },
		{ 0.31, 1.9, 2.2 }, { 3.5, 3.25, -7 } };

	(void)state;
	for (int f = 0; f < GT_FUNCTION_COUNT; f++) {
		struct gt_expr e = of_inputs((enum gt_function)f);

		if (f == GT_F_SILU_SLOPE || f == GT_F_GELU_SLOPE || f == GT_F_GELU_TANH_SLOPE ||
		    f == GT_F_HARDSWISH_SLOPE)
			continue; /* gradients of gradients are not needed */
		for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
			check_gradient(&e, points[i]);
	}
}

/* A random expression of three inputs. */
static struct gt_expr random_expr(unsigned *seed)
{
	static const enum gt_function functions[] = { GT_F_ADD, GT_F_SUB, GT_F_MUL, GT_F_MAX,
		GT_F_TANH, GT_F_SIGMOID, GT_F_SIN, GT_F_NEG, GT_F_GELU, GT_F_WHERE, GT_F_LT,
		GT_F_SILU, GT_F_ERF };
	struct gt_expr e = { 0 };
	int v[16], n = 0;

	for (; n < 3; n++)
		v[n] = gt_expr_input(&e, n);
	v[n++] = gt_expr_number(&e, 0.75);
	for (int k = rand_r(seed) % 9; k >= 0; k--) {
		enum gt_function f =
		    functions[(size_t)rand_r(seed) % (sizeof(functions) / sizeof(functions[0]))];
		int arg[3] = { -1, -1, -1 };

		for (int i = 0; i < gt_function_arguments(f); i++)
			arg[i] = v[rand_r(seed) % n];
		v[n++] = gt_expr_apply3(&e, f, arg[0], arg[1], arg[2]);
	}
	gt_expr_output(&e, v[n - 1]);
	return e;
}

static void test_random_gradients(void **state)
{
	unsigned seed = 20;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct gt_expr e = random_expr(&seed);
		double x[3];

		for (int k = 0; k < 3; k++)
			x[k] = (double)(rand_r(&seed) % 4001 - 2000) / 999;
		check_gradient(&e, x);
	}
}

/* An expression of the result of another one is their composition. */
static void test_inline(void **state)
{
	unsigned seed = 31;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct gt_expr inner = random_expr(&seed), outer = random_expr(&seed), e = { 0 };
		struct gt_map_program p = compile(&inner), q = compile(&outer), both;
		double in[3] = { 0.3, -1.2, 0.8 }, got, want;
		int of[3], result;

		for (int k = 0; k < 3; k++)
			of[k] = gt_expr_input(&e, k);
		gt_expr_inline(&e, &inner, of, &of[1]);
		gt_expr_inline(&e, &outer, of, &result);
		gt_expr_output(&e, result);
		both = compile(&e);
		evaluate(&both, in, &got);
		evaluate(&p, in, &in[1]);
		evaluate(&q, in, &want);
		assert_true(fabs(got - want) <= 1e-12 * (1 + fabs(want)));
	}
}

/* The side of where() that is not chosen may be infinite. */
static void test_gradient_of_infinite_side(void **state)
{
	struct gt_expr e = { 0 }, d;
	int x = gt_expr_input(&e, 0);
	int log = gt_expr_apply1(&e, GT_F_LOG1P, gt_expr_apply1(&e, GT_F_EXP, x));
	int large = gt_expr_apply2(&e, GT_F_LT, gt_expr_number(&e, 20), x);
	double out, in[3] = { 1000, 1000, 1.5 };
	struct gt_map_program p;

	(void)state;
	gt_expr_output(&e, gt_expr_apply3(&e, GT_F_WHERE, large, x, log));
	gt_expr_derive(&d, &e, 1);
	p = compile(&d);
	evaluate(&p, in, &out);
	assert_true(out == 1.5);
}

/* Infinity times 0 is NaN where a user writes it. */
static void test_products_keep_nan(void **state)
{
	struct gt_expr e = { 0 };
	int x = gt_expr_input(&e, 0), zero = gt_expr_number(&e, 0), v;
	double out, in[2] = { INFINITY, 1 };
	struct gt_map_program p;

	(void)state;
	v = gt_expr_apply3(&e, GT_F_WHERE, gt_expr_input(&e, 1), zero, x);
	gt_expr_output(&e, gt_expr_apply2(&e, GT_F_MUL, v, x));
	p = compile(&e);
	evaluate(&p, in, &out);
	assert_true(isnan(out));
}

static void test_too_large(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_expr e = { 0 };
	struct gt_map_program p;
	int v = gt_expr_input(&e, 0);

	(void)state;
	for (int i = 0; i < 2 * GT_EXPR_VALUES; i++)
		v = gt_expr_apply1(&e, i % 2 ? GT_F_SIN : GT_F_TANH, v);
	gt_expr_output(&e, v);
	assert_int_equal(gt_expr_compile(&p, &e, &err), GT_ENOTSUP);
	assert_string_equal(err.text, "an expression is too large");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_gradient_programs),
		cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_random_gradients),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_gradient_of_infinite_side),
		cmocka_unit_test(test_products_keep_nan),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
