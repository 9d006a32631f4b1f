/* test_fuse_products.c - the pass that fuses products with GELU, bias gradients and casts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

/* A backend with all of them in float32 and bfloat16, and one with two of them in float32. */
static const struct gt_kernel all[] = { { .op = "matmul_gelu", .dtype = GT_F32 },
	{ .op = "matmul_gelu", .dtype = GT_BF16 }, { .op = "matmul_gelu_grad", .dtype = GT_F32 },
	{ .op = "matmul_gelu_grad", .dtype = GT_BF16 }, { .op = "weight_grad", .dtype = GT_F32 },
	{ .op = "weight_grad", .dtype = GT_BF16 }, { .op = NULL } };
static const struct gt_kernel some[] = { { .op = "matmul_gelu", .dtype = GT_F32 },
	{ .op = "weight_grad", .dtype = GT_F32 }, { .op = NULL } };
static const struct gt_kernel *const all_tables[] = { all, NULL };
static const struct gt_kernel *const some_tables[] = { some, NULL };

static struct gt_value *matrix(struct gt_graph *g, const char *name)
{
	return gt_parameter(g, name, GT_F32, 2, (int64_t[]){ 8, 8 }, pass_zeros, true);
}

/* Two layers with gelu between them; their loss. */
static struct gt_value *layers(struct gt_graph *g, enum gt_gelu kind, bool trans)
{
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 4, 8 });
	struct gt_value *target = gt_input(g, "t", GT_I32, 1, (int64_t[]){ 4 });
	struct gt_value *weight = gt_input(g, "c", GT_F32, 0, NULL);
	/* Values are numbered as they are made, and C gives arguments of a call no order. */
	struct gt_value *v = matrix(g, "v"), *a = pass_vector(g, "a", 8);
	struct gt_value *w = matrix(g, "w"), *b = pass_vector(g, "b", 8);

	x = gt_gelu(g, gt_matmul(g, x, v, a, false, trans), kind);
	x = gt_matmul(g, x, w, b, false, trans);
	return gt_output(g, gt_cross_entropy(g, x, target, weight), "loss");
}

static struct gt_graph *fused(
    const struct gt_kernel *const *kernels, enum gt_dtype low, enum gt_gelu kind, bool trans)
{
	struct gt_graph *g = pass_graph();
	struct gt_pass_options o = { .precision.low = low, .kernels = kernels };

	o.loss = layers(g, kind, trans);
	if (low != GT_F32)
		pass_run(g, &gt_pass_autocast, &o);
	pass_run(g, &gt_pass_backward, &o);
	pass_run(g, &gt_pass_dead, &o);
	pass_run(g, &gt_pass_fuse_products, &o);
	return g;
}

static size_t count(const struct gt_graph *g, const struct gt_op *op)
{
	size_t n = 0;

	for (size_t i = 0; i < g->node_count; i++)
		n += g->nodes[i]->op == op;
	return n;
}

/* Gradients of weights and biases are float32 at once, and no activation stands by itself. */
static void test_all_in_16_bits(void **state)
{
	(void)state;
	for (int trans = 0; trans < 2; trans++) {
		struct gt_graph *g = fused(all_tables, GT_BF16, GT_GELU_TANH, trans);

		assert_int_equal(count(g, &gt_op_matmul), 1);
		assert_int_equal(count(g, &gt_op_matmul_gelu), 1);
		assert_int_equal(count(g, &gt_op_matmul_gelu_grad), 1);
		assert_int_equal(count(g, &gt_op_weight_grad), 2);
		assert_int_equal(count(g, &gt_op_gelu) + count(g, &gt_op_gelu_grad), 0);
		assert_int_equal(count(g, &gt_op_bias_grad), 0);
		for (size_t i = 0; i < g->node_count; i++) {
			const struct gt_node *n = g->nodes[i];

			if (n->op != &gt_op_weight_grad)
				continue;
			assert_int_equal(n->in[0]->dtype, GT_BF16);
			assert_int_equal(n->out[0]->dtype, GT_F32);
			assert_int_equal(n->out[0]->role, GT_GRADIENT);
			assert_int_equal(n->out[1]->role, GT_GRADIENT);
			/* The gradient of y is the left side where the weight is [out, in]. */
			assert_ptr_equal(n->in[trans ? 2 : 3], n->in[trans ? 0 : 1]);
			assert_null(n->in[trans ? 3 : 2]);
		}
		gt_graph_free(g);
	}
}

static void test_float32_as_text(void **state)
{
	struct gt_graph *g = fused(all_tables, GT_F32, GT_GELU_TANH, false);

	(void)state;
	pass_expect(g,
	    "%8 float32[4,8], %7 float32[4,8] = matmul_gelu(input x, v, a)\n"
	    "%9 float32[4,8] = matmul(%8, w, b)\n"
	    "output loss float32[], %11 float32[4] = cross_entropy(%9, input t, input c)\n"
	    "%12 float32[] = fill() 1\n"
	    "%13 float32[4,8] = cross_entropy_grad(%12, %9, input t, %11, input c)\n"
	    "gradient of w float32[8,8], gradient of b float32[8] = weight_grad(%8, %13, -, "
	    "%13) trans_a\n"
	    "%17 float32[4,8] = matmul_gelu_grad(%13, w, %7) trans_b\n"
	    "gradient of v float32[8,8], gradient of a float32[8] = weight_grad(input x, %17, "
	    "-, %17) trans_a\n");
	gt_graph_free(g);
}

/* Libraries have no other form of gelu than that with tanh. */
static void test_erf_stays(void **state)
{
	struct gt_graph *g = fused(all_tables, GT_F32, GT_GELU_ERF, false);

	(void)state;
	assert_int_equal(count(g, &gt_op_gelu), 1);
	assert_int_equal(count(g, &gt_op_gelu_grad), 1);
	assert_int_equal(count(g, &gt_op_matmul_gelu) + count(g, &gt_op_matmul_gelu_grad), 0);
	gt_graph_free(g);
}

/* Nothing is made that the backend has no kernel for. */
static void test_backends_choose(void **state)
{
	struct gt_graph *g = fused(some_tables, GT_F32, GT_GELU_TANH, false);

	(void)state;
	assert_int_equal(count(g, &gt_op_matmul_gelu), 1);
	assert_int_equal(count(g, &gt_op_gelu_grad), 1);
	assert_int_equal(count(g, &gt_op_weight_grad), 2);
	gt_graph_free(g);
	g = fused(some_tables, GT_BF16, GT_GELU_TANH, false);
	assert_int_equal(count(g, &gt_op_gelu), 1);
	assert_int_equal(count(g, &gt_op_weight_grad), 0);
	assert_int_equal(count(g, &gt_op_bias_grad), 2);
	gt_graph_free(g);
}

/* Without a backward part, the input of gelu is not kept. */
static void test_forward(void **state)
{
	struct gt_graph *g = pass_graph();
	const struct gt_pass_options o = { .kernels = all_tables };

	(void)state;
	layers(g, GT_GELU_TANH, false);
	pass_run(g, &gt_pass_fuse_products, &o);
	assert_ptr_equal(g->nodes[0]->op, &gt_op_matmul_gelu);
	assert_null(g->nodes[0]->out[1]);
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_in_16_bits),
		cmocka_unit_test(test_float32_as_text),
		cmocka_unit_test(test_erf_stays),
		cmocka_unit_test(test_backends_choose),
		cmocka_unit_test(test_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
