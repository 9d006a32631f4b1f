/* test_fuse_norm.c - the pass that makes one op of a residual sum and the layer norm of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

static const struct gt_pass_options plain, low = { .precision.low = GT_BF16 };

static struct gt_value *rows(struct gt_graph *g, const char *name)
{
	return gt_input(g, name, GT_F32, 2, (int64_t[]){ 4, 8 });
}

static struct gt_value *norm(struct gt_graph *g, struct gt_value *x)
{
	return gt_layer_norm(g, x, pass_vector(g, "w", 8), pass_vector(g, "b", 8), 1e-5);
}

/* A block's end and the beginning of the next: x M, added to x, normalised, multiplied. */
static struct gt_value *residual_block(struct gt_graph *g)
{
	struct gt_value *x = rows(g, "x"), *y;
	struct gt_value *m = gt_parameter(
	    g, "m", GT_F32, 2, (int64_t[]){ 8, 8 }, (struct gt_init){ GT_INIT_ZEROS, 0 }, true);

	gt_graph_scope(g, "h.0.end");
	x = gt_add(g, gt_matmul(g, x, m, NULL, false, false), x);
	gt_graph_scope(g, "h.1.begin");
	y = gt_matmul(g, norm(g, x), m, NULL, false, false);
	return gt_add(g, y, x);
}

static void test_sum_and_norm_become_one(void **state)
{
	struct gt_graph *g = pass_graph();

	(void)state;
	gt_output(g, residual_block(g), "y");
	pass_run(g, &gt_pass_fuse_norm, &plain);
	pass_expect(g, "%2 float32[4,8] = matmul(input x, m)  # h.0.end\n"
	               "%11 float32[4,8], %12 float32[4,8], %13 float32[4], %14 float32[4] = "
	               "add_layer_norm(%2, input x, w, b)  # h.0.end\n"
	               "%9 float32[4,8] = matmul(%11, m)  # h.1.begin\n"
	               "output y float32[4,8] = add(%9, %12)  # h.1.begin\n");
	gt_graph_free(g);
}

/* Nothing is cast for the sum, and nothing back from it. */
static void test_casts_are_taken(void **state)
{
	struct gt_graph *g = pass_graph();

	(void)state;
	gt_output(g, residual_block(g), "y");
	pass_run(g, &gt_pass_autocast, &low);
	pass_run(g, &gt_pass_fuse_norm, &low);
	pass_expect(g, "%11 bfloat16[4,8] = cast(input x)  # h.0.end\n"
	               "%12 bfloat16[8,8] = cast(m)  # h.0.end\n"
	               "%2 bfloat16[4,8] = matmul(%11, %12)  # h.0.end\n"
	               "%16 bfloat16[4,8], %17 float32[4,8], %18 float32[4], %19 float32[4] = "
	               "add_layer_norm(%2, input x, w, b)  # h.0.end\n"
	               "%9 bfloat16[4,8] = matmul(%16, %12)  # h.1.begin\n"
	               "%15 float32[4,8] = cast(%9)  # h.1.begin\n"
	               "output y float32[4,8] = add(%15, %17)  # h.1.begin\n");
	gt_graph_free(g);
}

/* The first norm of a model, of no sum: y = norm(x) M + x. */
static struct gt_value *first_norm(struct gt_graph *g)
{
	struct gt_value *x = pass_vector(g, "x", 8), *w = pass_vector(g, "w", 8);
	struct gt_value *m = gt_parameter(
	    g, "m", GT_F32, 2, (int64_t[]){ 8, 8 }, (struct gt_init){ GT_INIT_ZEROS, 0 }, true);
	struct gt_value *y = gt_layer_norm(g, x, w, NULL, 1e-5);

	return gt_add(g, gt_matmul(g, y, m, NULL, false, false), x);
}

/* It writes 16 bits itself where only a product reads it, and not where another node or the host
 * reads float32. */
static void test_norm_takes_its_cast(void **state)
{
	static const struct {
		bool relu, host;
		size_t casts;
	} cases[] = { { false, false, 0 }, { true, false, 1 }, { false, true, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_graph *g = pass_graph();
		size_t casts = 0;
		struct gt_value *y;

		gt_output(g, first_norm(g), "out");
		y = g->nodes[0]->out[0];
		if (cases[i].relu)
			gt_output(g, gt_relu(g, y), "relu");
		if (cases[i].host)
			gt_output(g, y, "y");
		pass_run(g, &gt_pass_autocast, &low);
		pass_run(g, &gt_pass_fuse_norm, &low);
		assert_ptr_equal(g->nodes[0]->op, &gt_op_layer_norm);
		assert_int_equal(g->nodes[0]->out[0]->dtype, cases[i].casts ? GT_F32 : GT_BF16);
		assert_int_equal(g->nodes[0]->out[1]->dtype, GT_F32);
		for (size_t k = 0; k < g->node_count; k++)
			casts += g->nodes[k]->op == &gt_op_cast && g->nodes[k]->in[0] == y;
		assert_int_equal(casts, cases[i].casts);
		gt_graph_free(g);
	}
}

static size_t count(const struct gt_graph *g, const struct gt_op *op)
{
	size_t n = 0;

	for (size_t i = 0; i < g->node_count; i++)
		n += g->nodes[i]->op == op;
	return n;
}

static bool is_read_by(const struct gt_graph *g, const struct gt_value *v, const struct gt_op *op)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v && g->nodes[i]->op == op)
				return true;
	return false;
}

/* The node makes the gradient of the product, in 16 bits, and that of the residual. No other node
 * adds or casts either. */
static void test_gradient_is_one_node(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_pass_options o = { .precision.low = GT_BF16 };
	struct gt_value *target = gt_input(g, "t", GT_I32, 1, (int64_t[]){ 4 });
	const struct gt_node *grad;
	struct gt_value *weight = gt_input(g, "c", GT_F32, 0, NULL);

	(void)state;
	o.loss = gt_output(g, gt_cross_entropy(g, residual_block(g), target, weight), "loss");
	pass_run(g, &gt_pass_autocast, &o);
	pass_run(g, &gt_pass_fuse_norm, &o);
	pass_run(g, &gt_pass_backward, &o);
	pass_run(g, &gt_pass_dead, &o);
	assert_int_equal(count(g, &gt_op_layer_norm_grad), 0);
	assert_int_equal(count(g, &gt_op_add_layer_norm_grad), 1);
	grad = g->nodes[0];
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i]->op == &gt_op_add_layer_norm_grad)
			grad = g->nodes[i];
	assert_int_equal(grad->in[0]->dtype, GT_BF16);
	assert_ptr_equal(grad->in[5]->producer->op, &gt_op_cross_entropy_grad);
	assert_int_equal(grad->out[0]->dtype, GT_F32);
	assert_int_equal(grad->out[3]->dtype, GT_BF16);
	assert_true(is_read_by(g, grad->out[3], &gt_op_matmul));
	assert_false(is_read_by(g, grad->out[3], &gt_op_cast));
	gt_graph_free(g);
}

/* The gradient by the input of a first norm takes 16 bits, and adds the residual's; in float32 and
 * in mixed precision. */
static void test_gradient_of_a_first_norm(void **state)
{
	(void)state;
	for (int amp = 0; amp < 2; amp++) {
		struct gt_graph *g = pass_graph();
		struct gt_pass_options o = { .precision.low = amp ? GT_BF16 : GT_F32 };
		struct gt_value *target = gt_input(g, "t", GT_I32, 0, NULL);
		struct gt_value *weight = gt_input(g, "c", GT_F32, 0, NULL);
		const struct gt_node *grad = NULL;

		o.loss = gt_output(g, gt_cross_entropy(g, first_norm(g), target, weight), "loss");
		if (amp) {
			pass_run(g, &gt_pass_autocast, &o);
			pass_run(g, &gt_pass_fuse_norm, &o);
		}
		pass_run(g, &gt_pass_backward, &o);
		assert_int_equal(count(g, &gt_op_add), 2);
		pass_run(g, &gt_pass_fuse_accumulate, &o);
		assert_int_equal(count(g, &gt_op_add), 1);
		for (size_t i = 0; i < g->node_count; i++)
			if (g->nodes[i]->op == &gt_op_layer_norm_grad)
				grad = g->nodes[i];
		assert_non_null(grad);
		assert_int_equal(grad->in[0]->dtype, o.precision.low);
		assert_ptr_equal(grad->in[5]->producer->op, &gt_op_cross_entropy_grad);
		assert_int_equal(grad->out[0]->dtype, GT_F32);
		assert_int_equal(grad->out[0]->role, GT_GRADIENT);
		gt_graph_free(g);
	}
}

/* A sum that the host reads, or a node before the norm, is made by itself. */
static void test_sums_that_are_read_stay(void **state)
{
	(void)state;
	for (int host = 0; host < 2; host++) {
		struct gt_graph *g = pass_graph();
		struct gt_value *sum = gt_add(g, rows(g, "x"), rows(g, "r"));

		if (host)
			gt_output(g, sum, "sum");
		else
			gt_output(g, gt_relu(g, sum), "relu");
		gt_output(g, norm(g, sum), "y");
		pass_run(g, &gt_pass_fuse_norm, &plain);
		assert_int_equal(count(g, &gt_op_add_layer_norm), 0);
		assert_int_equal(count(g, &gt_op_layer_norm), 1);
		gt_graph_free(g);
	}
}

/* Where blocks are computed again, a sum stays with its block. */
static void test_blocks_stay_apart(void **state)
{
	struct gt_recompute recompute = { .max = 1 };
	const struct gt_pass_options again = { .recompute = &recompute };
	struct gt_graph *g = pass_graph();

	(void)state;
	gt_output(g, residual_block(g), "y");
	pass_run(g, &gt_pass_fuse_norm, &again);
	assert_int_equal(count(g, &gt_op_add_layer_norm), 0);
	recompute.max = 0;
	pass_run(g, &gt_pass_fuse_norm, &again);
	assert_int_equal(count(g, &gt_op_add_layer_norm), 1);
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_and_norm_become_one),
		cmocka_unit_test(test_casts_are_taken),
		cmocka_unit_test(test_norm_takes_its_cast),
		cmocka_unit_test(test_gradient_is_one_node),
		cmocka_unit_test(test_gradient_of_a_first_norm),
		cmocka_unit_test(test_sums_that_are_read_stay),
		cmocka_unit_test(test_blocks_stay_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
