/* test_passes.c - each pass alone: the graph as text before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

static const struct gt_pass_options forward = { .images = GT_CHANNELS_LAST };

static struct gt_value *batch_norm(struct gt_graph *g, struct gt_value *x, bool train)
{
	struct gt_value *w = pass_vector(g, "w", 2), *b = pass_vector(g, "b", 2);
	struct gt_value *m = pass_running(g, "m", 2), *v = pass_running(g, "v", 2);

	if (!train)
		return gt_batch_norm_eval(g, x, w, b, m, v, 1e-5);
	return gt_batch_norm(
	    g, x, w, b, m, v, gt_buffer(g, "n", GT_I64, 0, NULL, pass_zeros), 1e-5, 0.1);
}

/* ---- fuse-relu ---- */

static void test_fuse_relu(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *y = gt_relu(g, batch_norm(g, pass_image(g, "x", 2), true));

	(void)state;
	gt_output(g, gt_gelu(g, y, GT_GELU_ERF), "y");
	pass_expect(g, "%6 float32[1,2,4,4], %7 float32[2], %8 float32[2] = "
	               "batch_norm(input x, w, b, buffer m, buffer v, buffer n)\n"
	               "%9 float32[1,2,4,4] = relu(%6)\n"
	               "output y float32[1,2,4,4] = gelu(%9) erf\n");
	pass_run(g, &gt_pass_fuse_relu, &forward);
	pass_expect(g, "%9 float32[1,2,4,4], %7 float32[2], %8 float32[2] = "
	               "batch_norm(input x, w, b, buffer m, buffer v, buffer n) relu\n"
	               "output y float32[1,2,4,4] = gelu(%9) erf\n");
	gt_graph_free(g);
}

/* With running statistics too; where a convolution precedes, it ends up with both. */
static void test_fuse_relu_eval(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2);

	(void)state;
	gt_output(g, gt_relu(g, batch_norm(g, x, false)), "y");
	pass_run(g, &gt_pass_fold_batch_norm, &forward);
	pass_run(g, &gt_pass_fuse_relu, &forward);
	pass_expect(g, "output y float32[1,2,4,4] = "
	               "batch_norm_eval(input x, w, b, buffer m, buffer v) relu\n");
	gt_graph_free(g);

	g = pass_graph();
	x = gt_conv2d(
	    g, pass_image(g, "x", 2), pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));
	x = gt_relu(g, batch_norm(g, x, false));
	gt_output(g, gt_add(g, x, x), "y");
	pass_run(g, &gt_pass_fold_batch_norm, &forward);
	pass_run(g, &gt_pass_fuse_relu, &forward);
	pass_expect(g, "%10 float32[2,2,3,3], %11 float32[2] = "
	               "batch_norm_fold(f, w, b, buffer m, buffer v)\n"
	               "%8 float32[1,2,4,4] = conv2d(input x, %10, %11) stride=1 pad=1 relu\n"
	               "output y float32[1,2,4,4] = add(%8, %8)\n");
	gt_graph_free(g);
}

/* Another node reads the relu's input. */
static void test_fuse_relu_leaves_shared(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *y = batch_norm(g, pass_image(g, "x", 2), true);
	char *before, *after;

	(void)state;
	gt_output(g, gt_add(g, gt_relu(g, y), y), "y");
	before = gt_graph_print(g, NULL);
	pass_run(g, &gt_pass_fuse_relu, &forward);
	after = gt_graph_print(g, NULL);
	assert_string_equal(before, after);
	free(before);
	free(after);
	gt_graph_free(g);
}

/* ---- fold-batch-norm ---- */

static void test_fold_batch_norm(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2);
	struct gt_value *y = batch_norm(
	    g, gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1)), false);

	(void)state;
	gt_output(g, gt_relu(g, gt_add(g, y, gt_relu(g, x))), "y");
	pass_expect(g, "%2 float32[1,2,4,4] = conv2d(input x, f) stride=1 pad=1\n"
	               "%7 float32[1,2,4,4] = batch_norm_eval(%2, w, b, buffer m, buffer v)\n"
	               "%8 float32[1,2,4,4] = relu(input x)\n"
	               "%9 float32[1,2,4,4] = add(%7, %8)\n"
	               "output y float32[1,2,4,4] = relu(%9)\n");
	pass_run(g, &gt_pass_fold_batch_norm, &forward);
	pass_expect(g,
	    "%11 float32[2,2,3,3], %12 float32[2] = "
	    "batch_norm_fold(f, w, b, buffer m, buffer v)\n"
	    "%8 float32[1,2,4,4] = relu(input x)\n"
	    "output y float32[1,2,4,4] = conv2d(input x, %11, %12, %8) stride=1 pad=1 relu\n");
	gt_graph_free(g);
}

/* relu before the sum: only the relu goes in. */
static void test_fold_keeps_order(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2);
	struct gt_value *y = gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));

	(void)state;
	gt_output(g, gt_add(g, x, gt_relu(g, y)), "y");
	pass_run(g, &gt_pass_fold_batch_norm, &forward);
	pass_expect(g, "%3 float32[1,2,4,4] = conv2d(input x, f) stride=1 pad=1 relu\n"
	               "output y float32[1,2,4,4] = add(input x, %3)\n");
	gt_graph_free(g);
}

/* ---- relax ---- */

static void test_relax(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *y = gt_conv2d(
	    g, pass_image(g, "x", 2), pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));

	(void)state;
	gt_output(g, gt_relu(g, y), "y");
	pass_expect(g, "%2 float32[1,2,4,4] = conv2d(input x, f) stride=1 pad=1\n"
	               "output y float32[1,2,4,4] = relu(%2)\n");
	pass_run(g, &gt_pass_relax, &forward);
	pass_expect(g, "%2 float32[1,2,4,4] = conv2d(input x, f) stride=1 pad=1 relaxed\n"
	               "output y float32[1,2,4,4] = relu(%2)\n");
	gt_graph_free(g);
}

/* ---- backward ---- */

static struct gt_value *loss_of(struct gt_graph *g, struct gt_value *logits)
{
	struct gt_value *target = gt_input(g, "target", GT_I32, 1, &logits->shape[0]);

	return gt_output(
	    g, gt_cross_entropy(g, logits, target, gt_input(g, "weight", GT_F32, 0, NULL)), "loss");
}

static struct gt_value *matrix(struct gt_graph *g, const char *name, int64_t rows, int64_t cols)
{
	return gt_parameter(g, name, GT_F32, 2, (int64_t[]){ rows, cols }, pass_zeros, true);
}

/* A matrix used twice, a parameter that is not used. */
static void test_backward(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 5, 3 });
	struct gt_value *w = matrix(g, "w", 3, 3);
	struct gt_pass_options o = { 0 };

	(void)state;
	pass_vector(g, "unused", 7);
	x = gt_relu(g, gt_matmul(g, x, w, NULL, false, false));
	o.loss = loss_of(g, gt_matmul(g, x, w, NULL, false, true));
	pass_run(g, &gt_pass_backward, &o);
	pass_expect(g,
	    "%3 float32[5,3] = matmul(input x, w)\n"
	    "%4 float32[5,3] = relu(%3)\n"
	    "%5 float32[5,3] = matmul(%4, w) trans_b\n"
	    "output loss float32[], %9 float32[5] = cross_entropy(%5, input target, input "
	    "weight)\n"
	    "%10 float32[] = fill() 1\n"
	    "%11 float32[5,3] = cross_entropy_grad(%10, %5, input target, %9, input weight)\n"
	    "%12 float32[5,3] = matmul(%11, w)\n"
	    "%13 float32[3,3] = matmul(%11, %4) trans_a\n"
	    "%14 float32[5,3] = relu_grad(%12, %4)\n"
	    "%15 float32[3,3] = matmul(input x, %14) trans_a\n"
	    "gradient of w float32[3,3] = add(%13, %15)\n"
	    "gradient of unused float32[7] = fill() 0\n");
	gt_graph_free(g);
}

/* A gradient that two parameters share must exist twice. */
static void test_backward_copies_shared(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *a = matrix(g, "a", 2, 3), *b = matrix(g, "b", 2, 3);
	struct gt_pass_options o = { .loss = loss_of(g, gt_add(g, a, b)) };

	(void)state;
	pass_run(g, &gt_pass_backward, &o);
	pass_expect(g,
	    "%2 float32[2,3] = add(a, b)\n"
	    "output loss float32[], %6 float32[2] = cross_entropy(%2, input target, input "
	    "weight)\n"
	    "%7 float32[] = fill() 1\n"
	    "gradient of a float32[2,3] = cross_entropy_grad(%7, %2, input target, %6, input "
	    "weight)\n"
	    "gradient of b float32[2,3] = copy(gradient of a)\n");
	gt_graph_free(g);
}

static void expect_refusal(struct gt_graph *g, struct gt_value *loss, const char *text)
{
	struct gt_pass_options o = { .loss = loss };
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_graph_status(g, &err), 0);
	assert_true(gt_pass_backward.run(g, &o, &err) < 0);
	assert_string_equal(err.text, text);
	gt_graph_free(g);
}

static void test_backward_refuses(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;

	(void)state;
	gt_graph_scope(g, "bn");
	y = batch_norm(
	    g, gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1)), false);
	y = gt_reshape(g, y, 2, (int64_t[]){ 4, 8 });
	expect_refusal(g, loss_of(g, y), "bn: 'batch_norm_eval' has no gradient");

	/*
	 * An input by which the op is not differentiated must not be a parameter: its gradient
	 * would be lost.
	 */
	g = pass_graph();
	gt_graph_scope(g, "loss");
	y = gt_cross_entropy(g, matrix(g, "w", 2, 3),
	    gt_input(g, "target", GT_I32, 1, (int64_t[]){ 2 }),
	    gt_parameter(g, "p", GT_F32, 0, NULL, pass_zeros, false));
	expect_refusal(g, y, "loss: 'cross_entropy' has no gradient by its input 2");

	g = pass_graph();
	expect_refusal(g, matrix(g, "w", 2, 3), "the loss is not a scalar");
}

/* ---- common, dead ---- */

static void test_common(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *a, *b, *c;

	(void)state;
	a = gt_max_pool2d(g, gt_relu(g, x), gt_pool_square(2, 2, 0));
	b = gt_max_pool2d(g, gt_relu(g, x), gt_pool_square(2, 2, 0));
	c = gt_max_pool2d(g, gt_relu(g, x), gt_pool_square(2, 1, 0));
	gt_output(g, gt_add(g, a, b), "y");
	gt_output(g, c, "z");
	pass_run(g, &gt_pass_common, &forward);
	pass_expect(g,
	    "%1 float32[1,2,4,4] = relu(input x)\n"
	    "%2 float32[1,2,2,2], %3 uint8[1,2,2,2] = max_pool2d(%1) kernel=2 stride=2 pad=0\n"
	    "output z float32[1,2,3,3], %9 uint8[1,2,3,3] = max_pool2d(%1) kernel=2 stride=1 "
	    "pad=0\n"
	    "output y float32[1,2,2,2] = add(%2, %2)\n");
	gt_graph_free(g);
}

/* Nodes that write, results that the host reads, and nodes that draw other numbers stay. */
static void test_common_leaves(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *rng = gt_input(g, "rng", GT_I64, 1, (int64_t[]){ GT_RNG_FIELDS });
	struct gt_value *x = pass_image(g, "x", 2), *acc = pass_image(g, "acc", 2);

	(void)state;
	gt_output(g, gt_relu(g, x), "a");
	gt_output(g, gt_relu(g, x), "b");
	gt_output(g, gt_add(g, gt_dropout(g, x, rng, 0.5), gt_dropout(g, x, rng, 0.5)), "c");
	gt_accumulate(g, acc, x);
	gt_accumulate(g, acc, x);
	pass_run(g, &gt_pass_common, &forward);
	assert_int_equal(g->node_count, 7);
	gt_graph_free(g);
}

/* A node without an output that the other has cannot stand for it. */
static void test_common_compares_outputs(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2);

	(void)state;
	gt_output(g, gt_gelu(g, gt_max_pool2d(g, x, gt_pool_square(2, 2, 0)), GT_GELU_ERF), "y");
	gt_output(g, gt_relu(g, gt_max_pool2d(g, x, gt_pool_square(2, 2, 0))), "z");
	g->nodes[0]->out[1] = NULL;
	pass_run(g, &gt_pass_common, &forward);
	assert_int_equal(g->node_count, 4);
	gt_graph_free(g);
}

static void test_dead(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;

	(void)state;
	y = gt_relu(g, x);
	gt_relu(g, gt_add(g, y, y)); /* two nodes that lead nowhere */
	gt_output(g, gt_gelu(g, y, GT_GELU_ERF), "y");
	batch_norm(g, x, true); /* its running statistics are read elsewhere */
	pass_run(g, &gt_pass_dead, &forward);
	pass_expect(g, "%1 float32[1,2,4,4] = relu(input x)\n"
	               "output y float32[1,2,4,4] = gelu(%1) erf\n"
	               "%10 float32[1,2,4,4], %11 float32[2], %12 float32[2] = "
	               "batch_norm(input x, w, b, buffer m, buffer v, buffer n)\n");
	gt_graph_free(g);
}

/* ---- fuse-accumulate, accumulate ---- */

/* A table that is both embedding and head, as in GPT-2. */
static struct gt_graph *tied(struct gt_pass_options *o)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 2, 3 });
	struct gt_value *w = matrix(g, "w", 7, 4), *x;

	x = gt_reshape(g, gt_embedding(g, w, ids, NULL, NULL), 2, (int64_t[]){ 6, 4 });
	*o = (struct gt_pass_options){ .accumulate = true,
		.loss = loss_of(g, gt_matmul(g, x, w, NULL, false, true)) };
	pass_run(g, &gt_pass_backward, o);
	return g;
}

#define TIED_START                                                                                 \
	"%2 float32[2,3,4] = embedding(w, input ids)\n"                                            \
	"%3 float32[6,4] = reshape(%2)\n"                                                          \
	"%4 float32[6,7] = matmul(%3, w) trans_b\n"                                                \
	"output loss float32[], %8 float32[6] = cross_entropy(%4, input target, input weight)\n"   \
	"%9 float32[] = fill() 1\n"                                                                \
	"%10 float32[6,7] = cross_entropy_grad(%9, %4, input target, %8, input weight)\n"          \
	"%11 float32[6,4] = matmul(%10, w)\n"                                                      \
	"%12 float32[7,4] = matmul(%10, %3) trans_a\n"                                             \
	"%13 float32[2,3,4] = reshape(%11)\n"

static void test_fuse_accumulate(void **state)
{
	struct gt_pass_options o;
	struct gt_graph *g = tied(&o);

	(void)state;
	pass_expect(g, TIED_START "%14 float32[7,4] = embedding_grad(%13, input ids)\n"
	                          "gradient of w float32[7,4] = add(%12, %14)\n");
	pass_run(g, &gt_pass_fuse_accumulate, &o);
	pass_run(g, &gt_pass_dead, &o);
	pass_expect(
	    g, TIED_START "gradient of w float32[7,4] = embedding_grad(%13, input ids, %12)\n");
	gt_graph_free(g);
}

static void test_accumulate(void **state)
{
	struct gt_pass_options o;
	struct gt_graph *g = tied(&o);

	(void)state;
	pass_run(g, &gt_pass_fuse_accumulate, &o);
	pass_run(g, &gt_pass_accumulate, &o);
	pass_run(g, &gt_pass_dead, &o);
	pass_expect(g, TIED_START "%15 float32[7,4] = embedding_grad(%13, input ids, %12)\n"
	                          "accumulate(gradient w.grad, %15)\n");
	gt_graph_free(g);
}

/* ---- layout ---- */

static void test_layout(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y, *z;

	(void)state;
	y = gt_conv2d(g, x, pass_filter(g, "f", 3, 2), NULL, gt_conv_square(1, 1));
	z = gt_conv2d(g, x, pass_filter(g, "f2", 3, 2), NULL, gt_conv_square(1, 1));
	y = gt_relu(g, gt_add(g, y, z));
	gt_output(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 48 }), "rows");
	gt_output(g, gt_max_pool2d(g, y, gt_pool_square(4, 1, 0)), "pixel");
	gt_output(g, gt_max_pool2d(g, y, gt_pool_square(2, 2, 0)), "image");
	pass_run(g, &gt_pass_layout, &forward);
	pass_expect(g,
	    "%12 float32[1,2,4,4] channels-last = reorder(input x)\n"
	    "%2 float32[1,3,4,4] channels-last = conv2d(%12, f) stride=1 pad=1\n"
	    "%4 float32[1,3,4,4] channels-last = conv2d(%12, f2) stride=1 pad=1\n"
	    "%5 float32[1,3,4,4] channels-last = add(%2, %4)\n"
	    "%6 float32[1,3,4,4] channels-last = relu(%5)\n"
	    "%14 float32[1,3,4,4] = reorder(%6)\n"
	    "output rows float32[1,48] = reshape(%14)\n"
	    "output pixel float32[1,3,1,1] channels-last, %9 uint8[1,3,1,1] channels-last = "
	    "max_pool2d(%6) kernel=4 stride=1 pad=0\n"
	    "%10 float32[1,3,2,2] channels-last, %11 uint8[1,3,2,2] channels-last = "
	    "max_pool2d(%6) kernel=2 stride=2 pad=0\n"
	    "output image float32[1,3,2,2] = reorder(%10)\n");
	gt_graph_free(g);
}

/* Channels of images are joined where they are. A permutation that puts the channels last is a copy
 * of all bytes in their order. */
static void test_layout_of_arrangements(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;

	(void)state;
	y = gt_max_pool2d(g, x, gt_pool_square(1, 1, 0));
	y = gt_cat(g, 2, (struct gt_value *[]){ y, x }, 1);
	y = gt_max_pool2d(g, y, gt_pool_square(4, 1, 0));
	gt_output(g, y, "pixel");
	y = gt_permute_dims(g, gt_relu(g, y->producer->in[0]), (int[]){ 0, 2, 3, 1 });
	gt_output(g, gt_relu(g, y), "rows");
	pass_run(g, &gt_pass_layout, &forward);
	pass_expect(g,
	    "%9 float32[1,2,4,4] channels-last = reorder(input x)\n"
	    "%1 float32[1,2,4,4] channels-last, %2 uint8[1,2,4,4] channels-last = "
	    "max_pool2d(%9) kernel=1 stride=1 pad=0\n"
	    "%3 float32[1,4,4,4] channels-last = "
	    "arrange(%1, input x) 0:[16,2]0(2,1)->0(4,1) 1:[16,2]0(1,16)->2(4,1)\n"
	    "output pixel float32[1,4,1,1] channels-last, %5 uint8[1,4,1,1] channels-last = "
	    "max_pool2d(%3) kernel=4 stride=1 pad=0\n"
	    "%6 float32[1,4,4,4] channels-last = relu(%3)\n"
	    "%7 float32[1,4,4,4] = arrange(%6) 0:[64]0(1)->0(1)\n"
	    "output rows float32[1,4,4,4] = relu(%7)\n");
	gt_graph_free(g);
}

/* Gradients lie row-major in the store; a node that adds to them must not add to a copy. */
static void test_layout_of_gradients(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;
	struct gt_value *p = gt_parameter(g, "p", GT_F32, 4, x->shape, pass_zeros, true);
	struct gt_pass_options o = { .images = GT_CHANNELS_LAST };

	(void)state;
	y = gt_avg_pool2d(
	    g, gt_add(g, gt_max_pool2d(g, x, gt_pool_square(1, 1, 0)), p), gt_pool_square(2, 2, 0));
	o.loss = loss_of(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 8 }));
	pass_run(g, &gt_pass_backward, &o);
	pass_run(g, &gt_pass_layout, &o);
	assert_ptr_equal(g->nodes[g->node_count - 1]->op, &gt_op_reorder);
	assert_int_equal(g->nodes[g->node_count - 1]->out[0]->role, GT_GRADIENT);
	assert_ptr_equal(g->nodes[g->node_count - 1]->out[0]->parameter, p);
	assert_int_equal(g->nodes[g->node_count - 1]->out[0]->layout, GT_PLAIN);
	gt_graph_free(g);

	g = pass_graph();
	y = gt_max_pool2d(g, pass_image(g, "x", 2), gt_pool_square(1, 1, 0));
	gt_accumulate(g, gt_buffer(g, "acc", GT_F32, 4, y->shape, pass_zeros), y);
	pass_run(g, &gt_pass_layout, &forward);
	pass_expect(g, "%4 float32[1,2,4,4] channels-last = reorder(input x)\n"
	               "%1 float32[1,2,4,4] channels-last, %2 uint8[1,2,4,4] channels-last = "
	               "max_pool2d(%4) kernel=1 stride=1 pad=0\n"
	               "%5 float32[1,2,4,4] = reorder(%1)\n"
	               "accumulate(buffer acc, %5)\n");
	gt_graph_free(g);
}

/* ---- tf32 ---- */

/* Products of float32 and their gradients, in any op; float64 and other ops stay as they are. */
static void test_tf32(void **state)
{
	const int64_t tokens[] = { 1, 4, 6 };
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 3, tokens), *w = matrix(g, "w", 6, 6), *y;
	struct gt_value *z = gt_input(g, "z", GT_F64, 2, (int64_t[]){ 2, 2 }), *q;

	(void)state;
	y = gt_attention(g, gt_matmul(g, x, w, NULL, false, true), NULL, NULL, 1, 0);
	gt_output(g, gt_gelu(g, y, GT_GELU_ERF), "y");
	gt_output(g,
	    gt_conv2d(
	        g, pass_image(g, "i", 2), pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1)),
	    "c");
	gt_output(g, gt_matmul(g, z, z, NULL, false, false), "d");
	q = gt_input(g, "q", GT_F32, 3, (int64_t[]){ 2, 4, 6 });
	gt_output(g, gt_softmax(g, gt_batched_matmul(g, q, q, false, true), 2, true), "e");
	pass_expect(g, "%3 float32[1,4,6] = matmul(input x, w) trans_b\n"
	               "%4 float32[1,4,2], %5 float32[1,1,4] = attention(%3) heads=1\n"
	               "output y float32[1,4,2] = gelu(%4) erf\n"
	               "output c float32[1,2,4,4] = conv2d(input i, f) stride=1 pad=1\n"
	               "output d float64[2,2] = matmul(input z, input z)\n"
	               "%12 float32[2,4,4] = batched_matmul(input q, input q) trans_b\n"
	               "output e float32[2,4,4] = softmax(%12) log\n");
	pass_run(g, &gt_pass_tf32, &forward);
	pass_expect(g, "%3 float32[1,4,6] = matmul(input x, w) trans_b tf32\n"
	               "%4 float32[1,4,2], %5 float32[1,1,4] = attention(%3) heads=1 tf32\n"
	               "output y float32[1,4,2] = gelu(%4) erf\n"
	               "output c float32[1,2,4,4] = conv2d(input i, f) stride=1 pad=1 tf32\n"
	               "output d float64[2,2] = matmul(input z, input z)\n"
	               "%12 float32[2,4,4] = batched_matmul(input q, input q) trans_b tf32\n"
	               "output e float32[2,4,4] = softmax(%12) log\n");
	gt_graph_free(g);
}

/* How often a word is in a text. */
static int count_words(const char *text, const char *word)
{
	int count = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		count++;
	}
	return count;
}

/* All passes together. In bfloat16 no product is left to be marked. */
static void test_tf32_in_training(void **state)
{
	static const struct {
		bool tf32;
		enum gt_dtype low;
		int marks;
	} rows[] = { { true, GT_F32, 5 }, { false, GT_F32, 0 }, { true, GT_BF16, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_graph *g = pass_graph();
		struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 5, 3 });
		struct gt_value *y = gt_matmul(g, x, matrix(g, "w", 3, 3), NULL, false, false);
		struct gt_pass_options o = { .precision = {
			                         .tf32 = rows[i].tf32, .low = rows[i].low } };
		struct gt_err err = GT_ERR_INIT;
		char *text;

		y = gt_matmul(g, gt_relu(g, y), matrix(g, "v", 3, 3), NULL, false, false);
		o.loss = loss_of(g, y);
		assert_int_equal(gt_passes_run(g, &o, &err), 0);
		text = gt_graph_print(g, NULL);
		assert_int_equal(count_words(text, "= matmul("), 5);
		assert_int_equal(count_words(text, " tf32\n"), rows[i].marks);
		free(text);
		gt_graph_free(g);
	}
}

/* ---- the list ---- */

/* All passes together: evaluation relaxes its convolutions, training none, nor their gradients. */
static void test_training_is_not_relaxed(void **state)
{
	(void)state;
	for (int train = 0; train < 2; train++) {
		struct gt_graph *g = pass_graph();
		struct gt_value *y = gt_conv2d(g, pass_image(g, "x", 2), pass_filter(g, "f", 2, 2),
		    pass_vector(g, "b", 2), gt_conv_square(1, 1));
		struct gt_value *loss = loss_of(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 32 }));
		struct gt_pass_options o = { .loss = train ? loss : NULL,
			.images = GT_CHANNELS_LAST };
		struct gt_err err = GT_ERR_INIT;
		char *text;

		assert_int_equal(gt_passes_run(g, &o, &err), 0);
		text = gt_graph_print(g, NULL);
		assert_non_null(strstr(text, "conv2d("));
		assert_int_equal(strstr(text, "relaxed") != NULL, !train);
		free(text);
		gt_graph_free(g);
	}
}

static void test_list(void **state)
{
	static const char *const order[] = { "fold-batch-norm", "relax", "autocast", "fuse-relu",
		"fuse-norm", "backward", "common", "fuse-head", "fuse-accumulate", "accumulate",
		"dead", "working-copies", "fuse-products", "fuse-map", "layout", "tf32", "reread",
		"recompute" };
	const struct gt_pass_options eval = { 0 };
	size_t n = 0;

	(void)state;
	for (; gt_passes[n]; n++) {
		assert_true(n < sizeof(order) / sizeof(order[0]));
		assert_string_equal(gt_passes[n]->name, order[n]);
		assert_true(strlen(gt_passes[n]->purpose) > 0);
	}
	assert_int_equal(n, sizeof(order) / sizeof(order[0]));
	assert_false(gt_pass_backward.applies(&eval));
	assert_false(gt_pass_layout.applies(&eval));
	assert_false(gt_pass_recompute.applies(&eval));
	assert_false(gt_pass_tf32.applies(&eval));
	assert_true(gt_pass_fold_batch_norm.applies(&eval));
	assert_true(gt_pass_relax.applies(&eval));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fuse_relu),
		cmocka_unit_test(test_fuse_relu_eval),
		cmocka_unit_test(test_fuse_relu_leaves_shared),
		cmocka_unit_test(test_fold_batch_norm),
		cmocka_unit_test(test_fold_keeps_order),
		cmocka_unit_test(test_relax),
		cmocka_unit_test(test_backward),
		cmocka_unit_test(test_backward_copies_shared),
		cmocka_unit_test(test_backward_refuses),
		cmocka_unit_test(test_common),
		cmocka_unit_test(test_common_leaves),
		cmocka_unit_test(test_common_compares_outputs),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_fuse_accumulate),
		cmocka_unit_test(test_accumulate),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_layout_of_arrangements),
		cmocka_unit_test(test_layout_of_gradients),
		cmocka_unit_test(test_training_is_not_relaxed),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_tf32_in_training),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
