/* test_fuse_map.c - maps joined to one: the graph as text before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>

#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

static const struct gt_pass_options forward = { .images = GT_CHANNELS_LAST };

static struct gt_value *matrix(struct gt_graph *g, const char *name, int64_t rows, int64_t cols)
{
	return gt_input(g, name, GT_F32, 2, (int64_t[]){ rows, cols });
}

static struct gt_value *add_number(struct gt_graph *g, struct gt_value *x, double number)
{
	return gt_apply(
	    g, GT_F_ADD, (struct gt_map_operand[]){ { .value = x }, { true, number, NULL } });
}

/* relu(a * b + 0.5) - a, where b is broadcast: a is read once. */
static void test_chain(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *a = matrix(g, "a", 3, 4), *b = matrix(g, "b", 1, 4), *y;

	(void)state;
	y = gt_unary(g, GT_F_RELU, add_number(g, gt_binary(g, GT_F_MUL, a, b), 0.5));
	gt_output(g, gt_binary(g, GT_F_SUB, y, a), "y");
	pass_expect(g, "%2 float32[3,4] = map(input a, input b) y0=mul(x0,x1)\n"
	               "%6 float32[3,4] = map(%2) y0=add(x0,0.5)\n"
	               "%10 float32[3,4] = map(%6) y0=relu(x0)\n"
	               "output y float32[3,4] = map(%10, input a) y0=sub(x0,x1)\n");
	pass_run(g, &gt_pass_fuse_map, &forward);
	pass_expect(g, "output y float32[3,4] = map(input a, input b)"
	               " r0=mul(x0,x1) r0=add(r0,0.5) r0=relu(r0) y0=sub(r0,x0)\n");
	gt_graph_free(g);
}

/* A sum is a map, too, where it stands beside one: the backward pass adds gradients so. */
static void test_sums(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *a = matrix(g, "a", 3, 4), *b = matrix(g, "b", 3, 4);

	(void)state;
	gt_output(g, gt_add(g, gt_unary(g, GT_F_SILU, gt_add(g, a, b)), a), "y");
	gt_output(g, gt_add(g, gt_add(g, a, a), b), "z");
	pass_run(g, &gt_pass_fuse_map, &forward);
	pass_expect(g, "output y float32[3,4] = map(input a, input b)"
	               " r0=add(x0,x1) r0=silu(r0) y0=add(x0,r0)\n"
	               "%8 float32[3,4] = add(input a, input a)\n"
	               "output z float32[3,4] = add(%8, input b)\n");
	gt_graph_free(g);
}

static void expect_unchanged(struct gt_graph *g)
{
	char *before = gt_graph_print(g, NULL);

	assert_non_null(before);
	pass_run(g, &gt_pass_fuse_map, &forward);
	pass_expect(g, before);
	free(before);
	gt_graph_free(g);
}

/* A result with two readers is computed once; so is a small one that is broadcast. */
static void test_leaves(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *a = matrix(g, "a", 3, 4), *v = gt_unary(g, GT_F_EXP, a);

	(void)state;
	gt_output(g, gt_unary(g, GT_F_SIN, v), "sin");
	gt_output(g, gt_unary(g, GT_F_COS, v), "cos");
	expect_unchanged(g);

	g = pass_graph();
	v = gt_unary(g, GT_F_EXP, matrix(g, "b", 1, 4));
	gt_output(g, gt_binary(g, GT_F_MUL, matrix(g, "a", 3, 4), v), "y");
	expect_unchanged(g);
}

/* A buffer may change between the two nodes. */
static void test_leaves_readers_of_buffers(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *v = gt_unary(g, GT_F_EXP, pass_running(g, "m", 4));

	(void)state;
	gt_output(g, gt_unary(g, GT_F_SIN, v), "y");
	expect_unchanged(g);
}

/* Sums of nine inputs are two nodes: a node has eight. */
static void test_many_inputs(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *sum = matrix(g, "0", 2, 2);
	char name[2] = "0";

	(void)state;
	for (int i = 1; i < 9; i++) {
		name[0] = (char)('0' + i);
		sum = gt_binary(g, GT_F_ADD, sum, matrix(g, name, 2, 2));
	}
	gt_output(g, sum, "y");
	pass_run(g, &gt_pass_fuse_map, &forward);
	assert_int_equal(g->node_count, 2);
	gt_graph_free(g);
}

/* The gradient of a sum is expanded and multiplied at once. */
static void test_expanded(void **state)
{
	struct gt_pass_options o = forward;
	struct gt_graph *g = pass_graph();
	struct gt_value *w = pass_vector(g, "w", 4);

	(void)state;
	o.loss = gt_output(g, gt_sum(g, gt_unary(g, GT_F_SIN, w), 1, false), "loss");
	pass_run(g, &gt_pass_backward, &o);
	pass_run(g, &gt_pass_fuse_map, &o);
	pass_expect(g, "%1 float32[4] = map(w) y0=sin(x0)\n"
	               "output loss float32[] = sum(%1) dims=0\n"
	               "%6 float32[] = fill() 1\n"
	               "%7 float32[1] = reshape(%6)\n"
	               "gradient of w float32[4] = map(%7, w) r0=cos(x1) y0=mul(x0,r0)\n");
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_leaves_readers_of_buffers),
		cmocka_unit_test(test_many_inputs),
		cmocka_unit_test(test_expanded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
