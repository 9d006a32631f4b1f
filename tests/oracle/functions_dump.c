/* functions_dump.c - functions of one element at special points, with their gradients. */

/*
 * usage: functions_dump FILE.pth
 *
 * FILE.pth holds a list of dicts: name, x (or a and b, for functions of two arguments), y, and the
 * gradients of the sum of y, dx (or da and db); all float32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"
#include "tests/common/device.h"

static const float points[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-40f,
	-1e-40f, 1.0f, -1.0f, 3.0f, -3.0f, 6.0f, 0.5f, -0.5f, 20.0f, -20.0f, 20.5f, 100.0f, -100.0f,
	88.0f, 2.0f, -2.0f, 0.1f, -0.1f, 7.25f, -7.25f, 1e-3f, -1e-3f, 2.9999f, -2.9999f };

enum { POINTS = sizeof(points) / sizeof(points[0]), PAIRS = POINTS * POINTS };

/* ---- the functions ---- */

struct function {
	const char *name;
	int arguments;
	enum gt_function f;
	struct gt_value *(*build)(struct gt_graph *g, struct gt_value *x); /* instead of f */
};

static struct gt_value *clamp(struct gt_graph *g, struct gt_value *x)
{
	return gt_clamp(g, x, -0.5, 2);
}

static struct gt_value *hardtanh(struct gt_graph *g, struct gt_value *x)
{
	return gt_hardtanh(g, x, -1, 1);
}

static struct gt_value *relu6(struct gt_graph *g, struct gt_value *x)
{
	return gt_hardtanh(g, x, 0, 6);
}

static struct gt_value *leaky_relu(struct gt_graph *g, struct gt_value *x)
{
	return gt_leaky_relu(g, x, 0.01);
}

static struct gt_value *elu(struct gt_graph *g, struct gt_value *x)
{
	return gt_elu(g, x, 1);
}

static struct gt_value *celu(struct gt_graph *g, struct gt_value *x)
{
	return gt_celu(g, x, 2);
}

static struct gt_value *hardshrink(struct gt_graph *g, struct gt_value *x)
{
	return gt_hardshrink(g, x, 0.5);
}

static struct gt_value *softshrink(struct gt_graph *g, struct gt_value *x)
{
	return gt_softshrink(g, x, 0.5);
}

static struct gt_value *threshold(struct gt_graph *g, struct gt_value *x)
{
	return gt_threshold(g, x, 0.1, 20);
}

static struct gt_value *softplus(struct gt_graph *g, struct gt_value *x)
{
	return gt_softplus(g, x, 1, 20);
}

static struct gt_value *softplus_steep(struct gt_graph *g, struct gt_value *x)
{
	return gt_softplus(g, x, 3, 10);
}

static struct gt_value *of_number(
    struct gt_graph *g, enum gt_function f, struct gt_value *x, double number, bool first)
{
	struct gt_map_operand value = { .value = x }, constant = { true, number, NULL };
	struct gt_map_operand operands[2] = { first ? constant : value, first ? value : constant };

	return gt_apply(g, f, operands);
}

static struct gt_value *square(struct gt_graph *g, struct gt_value *x)
{
	return of_number(g, GT_F_POW, x, 2, false);
}

static struct gt_value *power(struct gt_graph *g, struct gt_value *x)
{
	return of_number(g, GT_F_POW, x, 2.5, false);
}

static struct gt_value *power_of_two(struct gt_graph *g, struct gt_value *x)
{
	return of_number(g, GT_F_POW, x, 2, true);
}

static struct gt_value *reciprocal(struct gt_graph *g, struct gt_value *x)
{
	return of_number(g, GT_F_DIV, x, 1, true);
}

static struct gt_value *rest(struct gt_graph *g, struct gt_value *x)
{
	return of_number(g, GT_F_SUB, x, 1, true);
}

static const struct function functions[] = {
	{ "neg", 1, GT_F_NEG, NULL },
	{ "abs", 1, GT_F_ABS, NULL },
	{ "sign", 1, GT_F_SIGN, NULL },
	{ "relu", 1, GT_F_RELU, NULL },
	{ "sqrt", 1, GT_F_SQRT, NULL },
	{ "rsqrt", 1, GT_F_RSQRT, NULL },
	{ "exp", 1, GT_F_EXP, NULL },
	{ "expm1", 1, GT_F_EXPM1, NULL },
	{ "log", 1, GT_F_LOG, NULL },
	{ "log1p", 1, GT_F_LOG1P, NULL },
	{ "sin", 1, GT_F_SIN, NULL },
	{ "cos", 1, GT_F_COS, NULL },
	{ "tanh", 1, GT_F_TANH, NULL },
	{ "erf", 1, GT_F_ERF, NULL },
	{ "sigmoid", 1, GT_F_SIGMOID, NULL },
	{ "floor", 1, GT_F_FLOOR, NULL },
	{ "silu", 1, GT_F_SILU, NULL },
	{ "gelu", 1, GT_F_GELU, NULL },
	{ "gelu_tanh", 1, GT_F_GELU_TANH, NULL },
	{ "hardswish", 1, GT_F_HARDSWISH, NULL },
	{ "clamp", 1, 0, clamp },
	{ "hardtanh", 1, 0, hardtanh },
	{ "relu6", 1, 0, relu6 },
	{ "hardsigmoid", 1, 0, gt_hardsigmoid },
	{ "leaky_relu", 1, 0, leaky_relu },
	{ "elu", 1, 0, elu },
	{ "celu", 1, 0, celu },
	{ "selu", 1, 0, gt_selu },
	{ "log_sigmoid", 1, 0, gt_log_sigmoid },
	{ "hardshrink", 1, 0, hardshrink },
	{ "softshrink", 1, 0, softshrink },
	{ "threshold", 1, 0, threshold },
	{ "softplus", 1, 0, softplus },
	{ "softplus_steep", 1, 0, softplus_steep },
	{ "mish", 1, 0, gt_mish },
	{ "square", 1, 0, square },
	{ "power", 1, 0, power },
	{ "power_of_two", 1, 0, power_of_two },
	{ "reciprocal", 1, 0, reciprocal },
	{ "rest", 1, 0, rest },
	{ "add", 2, GT_F_ADD, NULL },
	{ "sub", 2, GT_F_SUB, NULL },
	{ "mul", 2, GT_F_MUL, NULL },
	{ "div", 2, GT_F_DIV, NULL },
	{ "maximum", 2, GT_F_MAX, NULL },
	{ "minimum", 2, GT_F_MIN, NULL },
	{ "pow", 2, GT_F_POW, NULL },
	{ "lt", 2, GT_F_LT, NULL },
	{ "le", 2, GT_F_LE, NULL },
	{ "eq", 2, GT_F_EQ, NULL },
	{ "ne", 2, GT_F_NE, NULL },
};

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* ---- running ---- */

/* A function's graph, bound to memory. */
struct run {
	struct gt_graph *graph;
	struct gt_store *store;
	struct gt_plan *plan;
	void *arena;
};

static int build(struct run *r, const struct function *f, int64_t n, struct gt_err *err)
{
	struct gt_pass_options options = { .images = test_device(0)->backend->image_layout };
	const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_value *in[2] = { NULL }, *y;

	if (gt_graph_new(&r->graph, err))
		return err->code;
	for (int i = 0; i < f->arguments; i++)
		in[i] = gt_parameter(r->graph, i ? "b" : "a", GT_F32, 1, &n, zeros, false);
	if (f->build)
		y = f->build(r->graph, in[0]);
	else
		y = f->arguments == 1 ? gt_unary(r->graph, f->f, in[0])
		                      : gt_binary(r->graph, f->f, in[0], in[1]);
	gt_output(r->graph, y, "y");
	options.loss = gt_output(r->graph, gt_sum(r->graph, y, 1, false), "loss");
	return gt_graph_status(r->graph, err) || gt_passes_run(r->graph, &options, err) ||
	       gt_store_new(&r->store, r->graph, test_device(0), true, err) ||
	       gt_store_alloc(r->store, err) ||
	       gt_plan_new(&r->plan, r->graph, r->store, NULL, err) ||
	       gt_device_alloc(test_device(0), gt_plan_arena_bytes(r->plan), &r->arena, err) ||
	       gt_plan_bind(r->plan, r->arena, err);
}

static void release(struct run *r)
{
	if (r->arena)
		gt_device_free(test_device(0), r->arena, gt_plan_arena_bytes(r->plan));
	gt_plan_free(r->plan);
	gt_store_free(r->store);
	gt_graph_free(r->graph);
}

struct dump {
	struct gt_arena arena;
	struct gt_err err;
};

static int put(
    struct dump *d, struct gt_tree *dict, const char *name, const float *values, int64_t n)
{
	float *copy = gt_arena_alloc(&d->arena, (size_t)n * sizeof(float), &d->err);

	if (!copy)
		return d->err.code;
	memcpy(copy, values, (size_t)n * sizeof(float));
	return gt_tree_set(dict, name, gt_tree_tensor(&d->arena, GT_F32, 1, &n, copy, &d->err),
	    &d->arena, &d->err);
}

/* Fill in the points: all of them, or all pairs. */
static void set_points(float *a, float *b, int arguments)
{
	for (int i = 0; i < (arguments == 1 ? POINTS : PAIRS); i++) {
		a[i] = points[i % POINTS];
		b[i] = points[i / POINTS];
	}
}

static int run_function(struct dump *d, const struct function *f, struct gt_tree *dict)
{
	int64_t n = f->arguments == 1 ? POINTS : PAIRS;
	static float in[2][PAIRS], y[PAIRS];
	struct run r = { 0 };
	int rc = build(&r, f, n, &d->err);

	set_points(in[0], in[1], f->arguments);
	for (int i = 0; !rc && i < f->arguments; i++) {
		const struct gt_slot *slot = gt_store_find(r.store, i ? "b" : "a");

		rc = gt_device_write(test_device(0), gt_store_data(r.store, slot), in[i],
		         gt_slot_bytes(slot), &d->err) ||
		     put(d, dict, i ? "b" : "a", in[i], n);
	}
	rc = rc || gt_plan_run(r.plan, &d->err) ||
	     gt_plan_read(
	         r.plan, gt_graph_find(r.graph, "y"), y, (size_t)n * sizeof(float), &d->err) ||
	     put(d, dict, "y", y, n);
	for (int i = 0; !rc && i < f->arguments; i++) {
		const struct gt_slot *slot = gt_store_find(r.store, i ? "b" : "a");

		rc = gt_device_read(test_device(0), y, gt_slot_address(r.store->gradients, slot),
		         gt_slot_bytes(slot), &d->err) ||
		     put(d, dict, i ? "db" : "da", y, n);
	}
	release(&r);
	return rc;
}

int main(int argc, char **argv)
{
	struct dump d = { 0 };
	struct gt_tree *list;
	int rc = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: functions_dump FILE.pth\n");
		return 2;
	}
	list = gt_tree_list(&d.arena, &d.err);
	for (int i = 0; list && !rc && i < FUNCTIONS; i++) {
		struct gt_tree *dict = gt_tree_dict(&d.arena, &d.err);

		rc = !dict ||
		     gt_tree_set(dict, "name", gt_tree_string(&d.arena, functions[i].name, &d.err),
		         &d.arena, &d.err) ||
		     run_function(&d, &functions[i], dict) ||
		     gt_tree_append(list, dict, &d.arena, &d.err);
	}
	rc = rc || !list || gt_torch_save((struct gt_file_name){ .path = argv[1] }, list, &d.err);
	if (rc)
		fprintf(stderr, "functions_dump: %s\n", d.err.text);
	gt_arena_release(&d.arena);
	return rc;
}
