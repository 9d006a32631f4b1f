/* test_autocast.c - mixed precision as a pass: the graph as text before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

static const struct gt_pass_options forward = { .images = GT_CHANNELS_LAST };

static const struct gt_pass_options bf16 = { .precision.low = GT_BF16 };

static int infer_image(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_shape(n->out[0], GT_F32, 4, (int64_t[]){ 1, 2, 4, 4 });
	return 0;
}

/* Attention of products: a softmax is float32, the products around it are low. */
static void test_softmax_between_products(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 3, (int64_t[]){ 2, 4, 8 }), *p;

	(void)state;
	p = gt_softmax(g, gt_batched_matmul(g, x, x, false, true), 2, false);
	gt_output(g, gt_batched_matmul(g, p, x, false, false), "y");
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g, "%4 bfloat16[2,4,8] = cast(input x)\n"
	               "%1 bfloat16[2,4,4] = batched_matmul(%4, %4) trans_b\n"
	               "%5 float32[2,4,4] = cast(%1)\n"
	               "%2 float32[2,4,4] = softmax(%5)\n"
	               "%6 bfloat16[2,4,4] = cast(%2)\n"
	               "%3 bfloat16[2,4,8] = batched_matmul(%6, %4)\n"
	               "output y float32[2,4,8] = cast(%3)\n");
	gt_graph_free(g);
}

/* Products take all inputs in the low type, each value cast once; ops behind them have the widest
 * type of their inputs; a loss, and values that the host reads, are float32. */
static void test_autocast(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 4, 8 });
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2, (int64_t[]){ 8, 8 }, pass_zeros, true);
	struct gt_value *target = gt_input(g, "target", GT_I32, 1, (int64_t[]){ 4 });
	struct gt_value *weight = gt_input(g, "weight", GT_F32, 0, NULL), *h, *y;

	(void)state;
	h = gt_layer_norm(g, x, pass_vector(g, "gain", 8), NULL, 1e-5);
	y = gt_matmul(g,
	    gt_gelu(g, gt_matmul(g, h, w, pass_vector(g, "b", 8), false, false), GT_GELU_TANH), w,
	    NULL, false, true);
	gt_output(g, gt_add(g, h, y), "sum");
	gt_output(g, gt_cross_entropy(g, y, target, weight), "loss");
	gt_output(g, y, "logits");
	pass_expect(g,
	    "%5 float32[4,8], %6 float32[4], %7 float32[4] = layer_norm(input x, gain)\n"
	    "%9 float32[4,8] = matmul(%5, w, b)\n"
	    "%10 float32[4,8] = gelu(%9) tanh\n"
	    "output logits float32[4,8] = matmul(%10, w) trans_b\n"
	    "output sum float32[4,8] = add(%5, output logits)\n"
	    "output loss float32[], %14 float32[4] = cross_entropy(output logits, input target, input weight)\n");
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g,
	    "%5 float32[4,8], %6 float32[4], %7 float32[4] = layer_norm(input x, gain)\n"
	    "%15 bfloat16[4,8] = cast(%5)\n"
	    "%16 bfloat16[8,8] = cast(w)\n"
	    "%17 bfloat16[8] = cast(b)\n"
	    "%9 bfloat16[4,8] = matmul(%15, %16, %17)\n"
	    "%10 bfloat16[4,8] = gelu(%9) tanh\n"
	    "%11 bfloat16[4,8] = matmul(%10, %16) trans_b\n"
	    "output logits float32[4,8] = cast(%11)\n"
	    "output sum float32[4,8] = add(%5, output logits)\n"
	    "output loss float32[], %14 float32[4] = cross_entropy(output logits, input target, input weight)\n");
	gt_graph_free(g);
}

/* Sums of low values are low. A residual and a bias that a convolution has taken over are inputs
 * like any other. */
static void test_autocast_images(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *f = pass_filter(g, "f", 2, 2), *second, *y, *z;

	(void)state;
	y = gt_batch_norm_eval(g, gt_conv2d(g, x, f, NULL, gt_conv_square(1, 1)),
	    pass_vector(g, "w", 2), pass_vector(g, "b", 2), pass_running(g, "mean", 2),
	    pass_running(g, "var", 2), 1e-5);
	second = pass_filter(g, "g", 2, 2);
	z = pass_vector(g, "c", 2);
	z = gt_conv2d(g, gt_relu(g, y), second, z, gt_conv_square(1, 1));
	gt_output(g, gt_avg_pool2d(g, gt_add(g, z, y), gt_pool_square(4, 4, 0)), "y");
	pass_run(g, &gt_pass_fold_batch_norm, &forward);
	pass_expect(g,
	    "%14 float32[2,2,3,3], %15 float32[2] = batch_norm_fold(f, w, b, buffer mean, buffer var)\n"
	    "%7 float32[1,2,4,4] = conv2d(input x, %14, %15) stride=1 pad=1\n"
	    "%10 float32[1,2,4,4] = relu(%7)\n"
	    "%12 float32[1,2,4,4] = conv2d(%10, g, c, %7) stride=1 pad=1\n"
	    "output y float32[1,2,1,1] = avg_pool2d(%12) kernel=4 stride=4 pad=0\n");
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g,
	    "%14 float32[2,2,3,3], %15 float32[2] = batch_norm_fold(f, w, b, buffer mean, buffer var)\n"
	    "%16 bfloat16[1,2,4,4] = cast(input x)\n"
	    "%17 bfloat16[2,2,3,3] = cast(%14)\n"
	    "%18 bfloat16[2] = cast(%15)\n"
	    "%7 bfloat16[1,2,4,4] = conv2d(%16, %17, %18) stride=1 pad=1\n"
	    "%10 bfloat16[1,2,4,4] = relu(%7)\n"
	    "%19 bfloat16[2,2,3,3] = cast(g)\n"
	    "%20 bfloat16[2] = cast(c)\n"
	    "%12 bfloat16[1,2,4,4] = conv2d(%10, %19, %20, %7) stride=1 pad=1\n"
	    "%13 bfloat16[1,2,1,1] = avg_pool2d(%12) kernel=4 stride=4 pad=0\n"
	    "output y float32[1,2,1,1] = cast(%13)\n");
	gt_graph_free(g);
}

/* Normalisations take low images beside float32 vectors, and keep float32 statistics. */
static void test_autocast_norm(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *y = gt_conv2d(
	    g, pass_image(g, "x", 2), pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));

	(void)state;
	gt_batch_norm(g, y, pass_vector(g, "w", 2), pass_vector(g, "b", 2),
	    pass_running(g, "mean", 2), pass_running(g, "var", 2),
	    gt_buffer(g, "n", GT_I64, 0, NULL, pass_zeros), 1e-5, 0.1);
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g, "%11 bfloat16[1,2,4,4] = cast(input x)\n"
	               "%12 bfloat16[2,2,3,3] = cast(f)\n"
	               "%2 bfloat16[1,2,4,4] = conv2d(%11, %12) stride=1 pad=1\n"
	               "%8 bfloat16[1,2,4,4], %9 float32[2], %10 float32[2] = "
	               "batch_norm(%2, w, b, buffer mean, buffer var, buffer n)\n");
	gt_graph_free(g);
}

/* The gradient of a parameter comes back in float32, by a cast of the product's. */
static void test_autocast_backward(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 1, 8 });
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2, (int64_t[]){ 8, 1 }, pass_zeros, true);
	struct gt_pass_options o = { .precision.low = GT_BF16 };

	(void)state;
	o.loss =
	    gt_output(g, gt_reshape(g, gt_matmul(g, x, w, NULL, false, false), 0, NULL), "loss");
	pass_run(g, &gt_pass_autocast, &o);
	o.loss = gt_graph_find(g, "loss");
	pass_run(g, &gt_pass_backward, &o);
	pass_expect(g, "%4 bfloat16[1,8] = cast(input x)\n"
	               "%5 bfloat16[8,1] = cast(w)\n"
	               "%2 bfloat16[1,1] = matmul(%4, %5)\n"
	               "%3 bfloat16[] = reshape(%2)\n"
	               "output loss float32[] = cast(%3)\n"
	               "%7 float32[] = fill() 1\n"
	               "%8 bfloat16[] = cast(%7)\n"
	               "%9 bfloat16[1,1] = reshape(%8)\n"
	               "%10 bfloat16[8,1] = matmul(%4, %9) trans_a\n"
	               "gradient of w float32[8,1] = cast(%10)\n");
	gt_graph_free(g);
}

/* Where the store keeps copies of the parameters, nodes read these; values of the run are cast as
 * before. */
static void test_working_copies(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 1, 8 });
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2, (int64_t[]){ 8, 1 }, pass_zeros, true);
	struct gt_pass_options o = { .precision.low = GT_BF16, .copies = true };

	(void)state;
	o.loss =
	    gt_output(g, gt_reshape(g, gt_matmul(g, x, w, NULL, false, false), 0, NULL), "loss");
	assert_false(gt_pass_working_copies.applies(&bf16));
	pass_run(g, &gt_pass_autocast, &o);
	o.loss = gt_graph_find(g, "loss");
	pass_run(g, &gt_pass_backward, &o);
	pass_run(g, &gt_pass_working_copies, &o);
	pass_expect(g, "%4 bfloat16[1,8] = cast(input x)\n"
	               "%2 bfloat16[1,1] = matmul(%4, copy of w)\n"
	               "%3 bfloat16[] = reshape(%2)\n"
	               "output loss float32[] = cast(%3)\n"
	               "%7 float32[] = fill() 1\n"
	               "%8 bfloat16[] = cast(%7)\n"
	               "%9 bfloat16[1,1] = reshape(%8)\n"
	               "%10 bfloat16[8,1] = matmul(%4, %9) trans_a\n"
	               "gradient of w float32[8,1] = cast(%10)\n");
	gt_graph_free(g);
}

/*
 * A value received from another rank has the type that it has in the graph of the whole model; a
 * value sent there is computed in that type. Asking for the type leaves the graph as it was.
 */
static void test_autocast_ranks(void **state)
{
	static const struct gt_op receive = { .name = "receive",
		.outputs = 1,
		.infer = infer_image,
		.autocast = GT_AUTOCAST_MARKED };
	struct gt_graph *g = pass_graph();
	struct gt_value *y = gt_conv2d(
	    g, pass_image(g, "x", 2), pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));
	struct gt_value *z = gt_add(g, y, gt_relu(g, y)), *x;
	struct gt_err err = GT_ERR_INIT;
	enum gt_dtype type;
	char *before;

	(void)state;
	before = gt_graph_print(g, &err);
	assert_int_equal(gt_autocast_type(&type, g, z, &bf16.precision, &err), 0);
	assert_int_equal(type, GT_BF16);
	assert_int_equal(gt_autocast_type(&type, g, y->producer->in[0], &bf16.precision, &err), 0);
	assert_int_equal(type, GT_F32);
	assert_int_equal(gt_autocast_type(&type, g, z, &forward.precision, &err), 0);
	assert_int_equal(type, GT_F32);
	pass_expect(g, before);
	free(before);
	gt_graph_free(g);
	g = pass_graph();
	x = gt_emit1(g, &receive, NULL, 0, NULL);
	gt_add(g, x, gt_relu(g, x));
	x->low = true;
	gt_relu(g, gt_emit1(g, &receive, NULL, 0, NULL));
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g, "%0 bfloat16[1,2,4,4] = receive()\n"
	               "%1 bfloat16[1,2,4,4] = relu(%0)\n"
	               "%2 bfloat16[1,2,4,4] = add(%0, %1)\n"
	               "%3 float32[1,2,4,4] = receive()\n"
	               "%4 float32[1,2,4,4] = relu(%3)\n");
	gt_graph_free(g);
}

/* With low_sums an embedding is low, and so is each sum with a low input. Norms, their vectors and
 * losses are the same as with torch.autocast. */
static void test_autocast_low_sums(void **state)
{
	static const int64_t table[] = { 5, 8 }, square[] = { 8, 8 }, rows[] = { 1, 4, 8 };
	struct gt_graph *g = pass_graph();
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 1, 4 });
	struct gt_value *e = gt_parameter(g, "e", GT_F32, 2, table, pass_zeros, true);
	struct gt_value *p = gt_parameter(g, "p", GT_F32, 2, table, pass_zeros, true);
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2, square, pass_zeros, true);
	struct gt_value *z = gt_parameter(g, "z", GT_F32, 3, rows, pass_zeros, true);
	struct gt_pass_options o = { .precision = { .low = GT_BF16, .low_sums = true } };
	struct gt_err err = GT_ERR_INIT;
	struct gt_value *x, *y;
	enum gt_dtype type;

	(void)state;
	x = gt_embedding(g, e, ids, p, NULL);
	y = gt_matmul(
	    g, gt_layer_norm(g, x, pass_vector(g, "gain", 8), NULL, 1e-5), w, NULL, false, false);
	y = gt_add(g, gt_add(g, y, x), z);
	assert_int_equal(gt_autocast_type(&type, g, x, &o.precision, &err), 0);
	assert_int_equal(type, GT_BF16);
	assert_int_equal(gt_autocast_type(&type, g, x, &bf16.precision, &err), 0);
	assert_int_equal(type, GT_F32);
	gt_output(g, y, "y");
	pass_run(g, &gt_pass_autocast, &o);
	pass_expect(g, "%5 bfloat16[1,4,8] = embedding(e, input ids, p)\n"
	               "%7 bfloat16[1,4,8], %8 float32[4], %9 float32[4] = layer_norm(%5, gain)\n"
	               "%13 bfloat16[8,8] = cast(w)\n"
	               "%10 bfloat16[1,4,8] = matmul(%7, %13)\n"
	               "%11 bfloat16[1,4,8] = add(%10, %5)\n"
	               "%14 bfloat16[1,4,8] = cast(z)\n"
	               "%12 bfloat16[1,4,8] = add(%11, %14)\n"
	               "output y float32[1,4,8] = cast(%12)\n");
	gt_graph_free(g);
}

/* Positions that come from a table of their own, as in networks of others. */
static void test_low_positions(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 1, 4 });
	struct gt_value *at = gt_input(g, "at", GT_I32, 2, (int64_t[]){ 1, 4 });
	struct gt_value *e = gt_parameter(g, "e", GT_F32, 2, (int64_t[]){ 5, 8 }, pass_zeros, true);
	struct gt_value *p = gt_parameter(g, "p", GT_F32, 2, (int64_t[]){ 6, 8 }, pass_zeros, true);
	struct gt_pass_options o = { .precision = { .low = GT_BF16, .low_sums = true } };
	struct gt_err err = GT_ERR_INIT;
	struct gt_value *rows, *x;
	enum gt_dtype type;

	(void)state;
	rows = gt_reshape(g, gt_embedding(g, p, at, NULL, NULL), 2, (int64_t[]){ 4, 8 });
	x = gt_embedding(g, e, ids, rows, NULL);
	assert_int_equal(gt_autocast_type(&type, g, x, &o.precision, &err), 0);
	assert_int_equal(type, GT_BF16);
	pass_run(g, &gt_pass_autocast, &o);
	pass_expect(g, "%4 bfloat16[1,4,8] = embedding(p, input at)\n"
	               "%5 bfloat16[4,8] = reshape(%4)\n"
	               "%7 float32[4,8] = cast(%5)\n"
	               "%6 bfloat16[1,4,8] = embedding(e, input ids, %7)\n");
	gt_graph_free(g);
}

/* A scaled loss: its gradient by itself comes in from outside. */
static void test_autocast_scaled(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *w = gt_parameter(g, "w", GT_F32, 2, (int64_t[]){ 1, 1 }, pass_zeros, true);
	struct gt_pass_options o = { .precision.scaled = true };

	(void)state;
	o.loss = gt_output(g, gt_reshape(g, gt_relu(g, w), 0, NULL), "loss");
	pass_run(g, &gt_pass_backward, &o);
	pass_expect(g, "%1 float32[1,1] = relu(w)\n"
	               "output loss float32[] = reshape(%1)\n"
	               "%4 float32[1,1] = reshape(input scale)\n"
	               "gradient of w float32[1,1] = relu_grad(%4, %1)\n");
	gt_graph_free(g);
}

/* Other types stay, a type that is not low is refused, and without one nothing is done. */
static void test_autocast_edges(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *a = gt_input(g, "a", GT_F64, 2, (int64_t[]){ 2, 2 });
	const struct gt_pass_options wrong = { .precision.low = GT_F64 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	gt_output(g, gt_matmul(g, a, a, NULL, false, false), "y");
	pass_run(g, &gt_pass_autocast, &bf16);
	pass_expect(g, "output y float64[2,2] = matmul(input a, input a)\n");
	assert_int_equal(gt_pass_autocast.run(g, &wrong, &err), GT_EINVAL);
	assert_string_equal(err.text, "float64 is not a type of 16 bits");
	assert_false(gt_pass_autocast.applies(&forward));
	assert_true(gt_pass_autocast.applies(&bf16));
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_autocast),
		cmocka_unit_test(test_softmax_between_products),
		cmocka_unit_test(test_autocast_images),
		cmocka_unit_test(test_autocast_norm),
		cmocka_unit_test(test_autocast_backward),
		cmocka_unit_test(test_working_copies),
		cmocka_unit_test(test_autocast_ranks),
		cmocka_unit_test(test_autocast_low_sums),
		cmocka_unit_test(test_low_positions),
		cmocka_unit_test(test_autocast_scaled),
		cmocka_unit_test(test_autocast_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
