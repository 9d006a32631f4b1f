/* test_fuse_residual.c - batch normalisation that adds a residual: the graph before and after. */
#include "tests/unit/plan_fixture.h"

#include "lib/graph/ops/ops.h"
#include "lib/parallel/data/sync_bn.h"
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

/* ---- forward ---- */

/* The sum takes the norm first or last. The residual may be made behind the norm. */
static void test_norm_adds_the_residual(void **state)
{
	(void)state;
	for (int last = 0; last < 2; last++) {
		struct gt_graph *g = pass_graph();
		struct gt_value *x = pass_image(g, "x", 2), *y = batch_norm(g, x, true);
		struct gt_value *r = gt_gelu(g, x, GT_GELU_ERF);

		gt_output(g,
		    gt_gelu(g, gt_relu(g, gt_add(g, last ? r : y, last ? y : r)), GT_GELU_ERF),
		    "y");
		pass_run(g, &gt_pass_fuse_relu, &forward);
		pass_expect(g, "%9 float32[1,2,4,4] = gelu(input x) erf\n"
		               "%11 float32[1,2,4,4], %7 float32[2], %8 float32[2] = "
		               "batch_norm(input x, w, b, buffer m, buffer v, buffer n, %9) relu\n"
		               "output y float32[1,2,4,4] = gelu(%11) erf\n");
		gt_graph_free(g);
	}
}

enum { SUM_READ_TWICE, NORM_READ_TWICE, NORM_TWICE, RELU_BEFORE, NO_RELU, EVALUATION, LEFT };

/* Graphs in which a part of the three is wanted by itself. */
static struct gt_value *left_alone(struct gt_graph *g, int how)
{
	struct gt_value *x = pass_image(g, "x", 2), *r = gt_gelu(g, x, GT_GELU_ERF);
	struct gt_value *y = batch_norm(g, x, how != EVALUATION), *sum;

	if (how == RELU_BEFORE)
		return gt_add(g, gt_gelu(g, y, GT_GELU_ERF), r);
	sum = gt_add(g, y, how == NORM_TWICE ? y : r);
	switch (how) {
	case SUM_READ_TWICE:
		return gt_add(g, gt_relu(g, sum), sum);
	case NORM_READ_TWICE:
		return gt_add(g, gt_relu(g, sum), y);
	case NO_RELU:
		return sum;
	default:
		return gt_relu(g, sum);
	}
}

static void test_left_alone(void **state)
{
	(void)state;
	for (int how = 0; how < LEFT; how++) {
		struct gt_graph *g = pass_graph();
		char *before, *after;

		gt_output(g, left_alone(g, how), "y");
		before = gt_graph_print(g, NULL);
		pass_run(g, &gt_pass_fuse_relu, &forward);
		after = gt_graph_print(g, NULL);
		assert_string_equal(before, after);
		free(before);
		free(after);
		gt_graph_free(g);
	}
}

/* A sum of float32 and a type of 16 bits is float32: that is not of one norm. */
static void test_types(void **state)
{
	const struct gt_pass_options low = { .precision.low = GT_BF16 };

	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		struct gt_graph *g = pass_graph();
		struct gt_value *x = pass_image(g, "x", 2), *f = pass_filter(g, "f", 2, 2);
		struct gt_value *y =
		    batch_norm(g, gt_conv2d(g, x, f, NULL, gt_conv_square(1, 1)), true);
		char *text;

		gt_output(g,
		    gt_relu(
		        g, gt_add(g, y, wide ? x : gt_conv2d(g, x, f, NULL, gt_conv_square(1, 1)))),
		    "y");
		pass_run(g, &gt_pass_autocast, &low);
		pass_run(g, &gt_pass_fuse_relu, &low);
		text = gt_graph_print(g, NULL);
		assert_int_equal(strstr(text, "add(") != NULL, wide);
		assert_int_equal(strstr(text, ") relu\n") != NULL, !wide);
		free(text);
		gt_graph_free(g);
	}
}

/* ---- gradient ---- */

/* A block of a network: gelu(relu(batch_norm(x) + x)) of a convolution's result x. */
static struct gt_graph *training_graph(struct gt_pass_options *o)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;

	gt_graph_scope(g, "layer1.0.conv");
	x = gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));
	gt_graph_scope(g, "layer1.0.bn");
	y = gt_relu(g, gt_add(g, x, batch_norm(g, x, true)));
	gt_graph_scope(g, "layer1.0.act");
	y = gt_gelu(g, y, GT_GELU_ERF);
	gt_graph_scope(g, "fc");
	y = gt_matmul(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 32 }),
	    gt_input(g, "p", GT_F32, 2, (int64_t[]){ 32, 1 }), NULL, false, false);
	o->loss = gt_output(g, gt_reshape(g, y, 0, NULL), "loss");
	return g;
}

/* The line of the graph's text with the op. The caller frees it. */
static char *line_of(const struct gt_graph *g, const char *op)
{
	char *text = gt_graph_print(g, NULL), *at, *line;

	at = strstr(text, op);
	if (!at)
		fail_msg("no '%s' in\n%s", op, text);
	while (at > text && at[-1] != '\n')
		at--;
	at[strcspn(at, "\n")] = '\0';
	line = strdup(at);
	free(text);
	return line;
}

static void expect_line(const struct gt_graph *g, const char *op, const char *want)
{
	char *line = line_of(g, op);

	assert_string_equal(line, want);
	free(line);
}

static void test_gradient_of_the_residual(void **state)
{
	struct gt_pass_options o = { 0 };
	struct gt_graph *g = training_graph(&o);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_passes_run(g, &o, &err), 0);
	expect_line(g, "= batch_norm(",
	    "%12 float32[1,2,4,4], %9 float32[2], %10 float32[2] = "
	    "batch_norm(%2, w, b, buffer m, buffer v, buffer n, %2) relu  # layer1.0.bn");
	expect_line(g, "batch_norm_grad",
	    "%23 float32[1,2,4,4], gradient of w float32[2], gradient of b float32[2], "
	    "%26 float32[1,2,4,4] = batch_norm_grad(%22, %2, w, %9, %10, %12) relu  # layer1.0.bn");
	expect_line(g, "= add(", "%27 float32[1,2,4,4] = add(%23, %26)  # layer1.0.bn");
	gt_graph_free(g);
}

/* Two nodes read relu's result: gelu and add. batch_norm_grad adds their two gradients. With ranks,
 * batch_norm_grad_sums adds them. */
static void test_sum_of_two_gradients(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;
	struct gt_pass_options o = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	x = gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));
	y = gt_relu(g, gt_add(g, batch_norm(g, x, true), x));
	y = gt_add(g, gt_gelu(g, y, GT_GELU_ERF), y);
	y = gt_matmul(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 32 }),
	    gt_input(g, "p", GT_F32, 2, (int64_t[]){ 32, 1 }), NULL, false, false);
	o.loss = gt_output(g, gt_reshape(g, y, 0, NULL), "loss");
	assert_int_equal(gt_passes_run(g, &o, &err), 0);
	expect_line(g, "batch_norm_grad(",
	    "%25 float32[1,2,4,4], gradient of w float32[2], gradient of b float32[2], "
	    "%28 float32[1,2,4,4] = batch_norm_grad(%22, %2, w, %9, %10, %12, %23) relu");
	assert_int_equal(gt_sync_bn(g, 3, &err), 0);
	expect_line(g, "batch_norm_grad_sums(",
	    "%35 float64[5], gradient of w float32[2], gradient of b float32[2], "
	    "%28 float32[1,2,4,4] = batch_norm_grad_sums(%22, %2, %9, %10, %12, %23) relu");
	gt_graph_free(g);
}

/* The residual is an input, and no parameter needs its gradient, so the norm does not compute
 * it. */
static void test_no_gradient_of_an_input(void **state)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *x = pass_image(g, "x", 2), *y;
	struct gt_pass_options o = { 0 };
	struct gt_err err = GT_ERR_INIT;
	char *line;

	(void)state;
	y = gt_conv2d(g, x, pass_filter(g, "f", 2, 2), NULL, gt_conv_square(1, 1));
	y = gt_relu(g, gt_add(g, batch_norm(g, y, true), x));
	y = gt_matmul(g, gt_reshape(g, y, 2, (int64_t[]){ 1, 32 }),
	    gt_input(g, "p", GT_F32, 2, (int64_t[]){ 32, 1 }), NULL, false, false);
	o.loss = gt_output(g, gt_reshape(g, y, 0, NULL), "loss");
	assert_int_equal(gt_passes_run(g, &o, &err), 0);
	line = line_of(g, "batch_norm_grad");
	assert_non_null(strstr(line, "gradient of b float32[2] = batch_norm_grad("));
	free(line);
	gt_graph_free(g);
}

/* The copy adds the residual again. */
static void test_recompute(void **state)
{
	struct gt_recompute r = { .max = INT32_MAX };
	struct gt_pass_options o = { .recompute = &r };
	struct gt_graph *g = training_graph(&o);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_passes_run(g, &o, &err), 0);
	expect_line(g, "batch_norm_apply(",
	    "%30 float32[1,2,4,4] = batch_norm_apply(%29, w, b, %9, %10, %29) relu again  "
	    "# layer1.0.bn");
	gt_graph_free(g);
}

/* Of ranks: the sums' node writes the gradient, and the other one reads it. */
static void test_ranks(void **state)
{
	struct gt_pass_options o = { 0 };
	struct gt_graph *g = training_graph(&o);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_passes_run(g, &o, &err), 0);
	assert_int_equal(gt_sync_bn(g, 3, &err), 0);
	expect_line(g, "batch_norm_apply(",
	    "%12 float32[1,2,4,4] = batch_norm_apply(%2, w, b, %9, %10, %2) relu  # layer1.0.bn");
	expect_line(g, "batch_norm_grad_sums(",
	    "%33 float64[5], gradient of w float32[2], gradient of b float32[2], "
	    "%26 float32[1,2,4,4] = batch_norm_grad_sums(%22, %2, %9, %10, %12) relu  "
	    "# layer1.0.bn");
	expect_line(g, "batch_norm_grad_apply(",
	    "%23 float32[1,2,4,4] = batch_norm_grad_apply(%26, %2, w, %9, %10, %37)  "
	    "# layer1.0.bn");
	gt_graph_free(g);
}

/* ---- whole models ---- */

static int count_ops(const struct gt_graph *g, const struct gt_op *op)
{
	int count = 0;

	for (size_t i = 0; i < g->node_count; i++)
		count += g->nodes[i]->op == op;
	return count;
}

/* Norms that write the gradient before relu over one of its addends. */
static int count_in_place(const struct subject_run *r)
{
	const struct gt_graph *g = r->program.graph;
	int count = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];
		size_t out, dy, more = SIZE_MAX, bytes;

		if (n->op != &gt_op_batch_norm_grad || !n->out[3])
			continue;
		assert_true(gt_plan_place(r->program.plan, n->out[3], &out, &bytes));
		assert_true(gt_plan_place(r->program.plan, n->in[0], &dy, &bytes));
		if (n->in[6])
			assert_true(gt_plan_place(r->program.plan, n->in[6], &more, &bytes));
		count += out == dy || out == more;
	}
	return count;
}

static const struct subject resnet50 = { "resnet50:image=32,classes=10", 2 };

/*
 * In the 16 blocks of resnet50, batch_norm does all sums and relus. The input of each block has two
 * readers, so its gradient is a sum. The norm before the block adds it up. There is one exception:
 * a pool comes before the first block, so one add remains.
 */
static void test_resnet50(void **state)
{
	struct subject_run r;

	(void)state;
	open_subject(&r, &resnet50, GT_MODEL_TRAIN, false);
	assert_int_equal(count_ops(r.program.graph, &gt_op_batch_norm), 53);
	assert_int_equal(count_ops(r.program.graph, &gt_op_add), 1);
	assert_int_equal(count_ops(r.program.graph, &gt_op_relu), 0);
	assert_int_equal(count_ops(r.program.graph, &gt_op_relu_grad), 0);
	assert_int_equal(count_in_place(&r), 16);
	close_subject(&r);
}

/* In evaluation convolutions do all of it. */
static void test_resnet50_evaluated(void **state)
{
	static const struct gt_op *const gone[] = { &gt_op_batch_norm_eval, &gt_op_batch_norm,
		&gt_op_add, &gt_op_relu };
	struct subject_run r;

	(void)state;
	open_subject(&r, &resnet50, GT_MODEL_EVAL, false);
	assert_int_equal(count_ops(r.program.graph, &gt_op_conv2d), 53);
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		assert_int_equal(count_ops(r.program.graph, gone[i]), 0);
	close_subject(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_norm_adds_the_residual),
		cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_gradient_of_the_residual),
		cmocka_unit_test(test_sum_of_two_gradients),
		cmocka_unit_test(test_no_gradient_of_an_input),
		cmocka_unit_test(test_recompute),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_resnet50),
		cmocka_unit_test(test_resnet50_evaluated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
