/* test_recompute.c - the pass that computes blocks again: the graph as text before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "tests/common/passes.h"

static struct gt_value *square(struct gt_graph *g, const char *name)
{
	return gt_parameter(g, name, GT_F32, 2, (int64_t[]){ 4, 4 }, pass_zeros, true);
}

/* h.N: dropout(gelu(x a) b). Its backward part reads x a and gelu(x a). */
static struct gt_value *block(struct gt_graph *g, int n, struct gt_value *x, struct gt_value *rng)
{
	char a[8], b[8];

	snprintf(a, sizeof(a), "a%d", n);
	snprintf(b, sizeof(b), "b%d", n);
	gt_graph_scope(g, "h.%d.in", n);
	x = gt_matmul(g, x, square(g, a), NULL, false, false);
	gt_graph_scope(g, "h.%d.act", n);
	x = gt_gelu(g, x, GT_GELU_ERF);
	gt_graph_scope(g, "h.%d.out", n);
	return gt_dropout(g, gt_matmul(g, x, square(g, b), NULL, false, false), rng, 0.5);
}

/* With its backward part. */
static void close_graph(struct gt_graph *g, struct gt_value *logits, struct gt_pass_options *o)
{
	gt_graph_scope(g, "loss");
	o->loss = gt_output(g,
	    gt_cross_entropy(g, logits, gt_input(g, "target", GT_I32, 1, &logits->shape[0]),
	        gt_input(g, "weight", GT_F32, 0, NULL)),
	    "loss");
	pass_run(g, &gt_pass_backward, o);
}

static struct gt_graph *two_blocks(struct gt_pass_options *o)
{
	struct gt_graph *g = pass_graph();
	struct gt_value *rng = gt_input(g, "rng", GT_I64, 1, (int64_t[]){ GT_RNG_FIELDS });
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 64, 4 });

	x = block(g, 0, x, rng);
	close_graph(g, block(g, 1, x, rng), o);
	return g;
}

#define FORWARD                                                                                    \
	"%3 float32[64,4] = matmul(input x, a0)  # h.0.in\n"                                       \
	"%4 float32[64,4] = gelu(%3) erf  # h.0.act\n"                                             \
	"%6 float32[64,4] = matmul(%4, b0)  # h.0.out\n"                                           \
	"%7 float32[64,4] = dropout(%6, input rng) p=0.5 stream=0  # h.0.out\n"                    \
	"%9 float32[64,4] = matmul(%7, a1)  # h.1.in\n"                                            \
	"%10 float32[64,4] = gelu(%9) erf  # h.1.act\n"                                            \
	"%12 float32[64,4] = matmul(%10, b1)  # h.1.out\n"                                         \
	"%13 float32[64,4] = dropout(%12, input rng) p=0.5 stream=1  # h.1.out\n"                  \
	"output loss float32[], %17 float32[64] = cross_entropy(%13, input target, input "         \
	"weight)  # loss\n"                                                                        \
	"%18 float32[] = fill() 1  # loss\n"                                                       \
	"%19 float32[64,4] = cross_entropy_grad(%18, %13, input target, %17, input weight)  # "    \
	"loss\n"                                                                                   \
	"%20 float32[64,4] = dropout(%19, input rng) p=0.5 stream=1  # h.1.out\n"                  \
	"%21 float32[64,4] = matmul(%20, b1) trans_b  # h.1.out\n"

#define BACKWARD_1(Y, X)                                                                           \
	"gradient of b1 float32[4,4] = matmul(" Y ", %20) trans_a  # h.1.out\n"                    \
	"%23 float32[64,4] = gelu_grad(%21, " X ") erf  # h.1.act\n"                               \
	"%24 float32[64,4] = matmul(%23, a1) trans_b  # h.1.in\n"                                  \
	"gradient of a1 float32[4,4] = matmul(%7, %23) trans_a  # h.1.in\n"                        \
	"%26 float32[64,4] = dropout(%24, input rng) p=0.5 stream=0  # h.0.out\n"                  \
	"%27 float32[64,4] = matmul(%26, b0) trans_b  # h.0.out\n"

#define BACKWARD_0(Y, X)                                                                           \
	"gradient of b0 float32[4,4] = matmul(" Y ", %26) trans_a  # h.0.out\n"                    \
	"%29 float32[64,4] = gelu_grad(%27, " X ") erf  # h.0.act\n"                               \
	"gradient of a0 float32[4,4] = matmul(input x, %29) trans_a  # h.0.in\n"

/* The values that the next block (%7) or the loss (%13) read are kept. */
static void test_blocks(void **state)
{
	static const struct {
		int max, done;
		const char *want;
	} rows[] = {
		{ 0, 0, FORWARD BACKWARD_1("%10", "%9") BACKWARD_0("%4", "%3") },
		{ 1, 1,
		    FORWARD BACKWARD_1("%10",
		        "%9") "%31 float32[64,4] = matmul(input x, a0) again  # h.0.in\n"
		              "%32 float32[64,4] = gelu(%31) erf again  # h.0.act\n" BACKWARD_0(
		                  "%32", "%31") },
		{ INT_MAX, 2,
		    FORWARD
		    "%31 float32[64,4] = matmul(%7, a1) again  # h.1.in\n"
		    "%32 float32[64,4] = gelu(%31) erf again  # h.1.act\n" BACKWARD_1("%32",
		        "%31") "%33 float32[64,4] = matmul(input x, a0) again  # h.0.in\n"
		               "%34 float32[64,4] = gelu(%33) erf again  # h.0.act\n" BACKWARD_0(
		                   "%34", "%33") },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_recompute r = { .max = rows[i].max };
		struct gt_pass_options o = { .recompute = &r };
		struct gt_graph *g = two_blocks(&o);

		pass_expect(g, rows[0].want);
		pass_run(g, &gt_pass_recompute, &o);
		pass_expect(g, rows[i].want);
		assert_int_equal(r.blocks, 2);
		assert_int_equal(r.done, rows[i].done);
		/* Copies are not merged with the nodes that they stand for. */
		pass_run(g, &gt_pass_common, &o);
		pass_expect(g, rows[i].want);
		gt_graph_free(g);
	}
}

/* Running statistics are not moved twice: the batch's statistics are kept, and applied again. */
static void test_batch_norm(void **state)
{
	struct gt_recompute r = { .max = INT_MAX };
	struct gt_pass_options o = { .recompute = &r };
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 4, (int64_t[]){ 64, 2, 4, 4 });
	const int64_t two = 2;
	char *text, *again;

	(void)state;
	gt_graph_scope(g, "layer1.0.bn1");
	x = gt_batch_norm(g, x, gt_parameter(g, "w", GT_F32, 1, &two, pass_zeros, false),
	    gt_parameter(g, "b", GT_F32, 1, &two, pass_zeros, false),
	    gt_buffer(g, "m", GT_F32, 1, &two, pass_zeros),
	    gt_buffer(g, "v", GT_F32, 1, &two, pass_zeros),
	    gt_buffer(g, "n", GT_I64, 0, NULL, pass_zeros), 1e-5, 0.1);
	gt_graph_scope(g, "layer1.0.relu");
	x = gt_relu(g, gt_gelu(g, x, GT_GELU_ERF));
	gt_graph_scope(g, "fc");
	close_graph(g, gt_reshape(g, x, 2, (int64_t[]){ 64, 32 }), &o);
	pass_run(g, &gt_pass_recompute, &o);
	text = gt_graph_print(g, NULL);
	again = strstr(text, "batch_norm_apply");
	assert_non_null(again);
	again[strcspn(again, "\n")] = '\0';
	assert_string_equal(again, "batch_norm_apply(input x, w, b, %7, %8) again  # layer1.0.bn1");
	assert_int_equal(r.done, 1);
	free(text);
	gt_graph_free(g);
}

static int infer_same(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static void pass_on(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)g;
	(void)n;
	if (wanted[0])
		d_in[0] = d_out[0];
}

/* Nodes that deal with other ranks, or write, are not repeated: their results are kept. */
static void test_nodes_of_their_own(void **state)
{
	static const struct {
		struct gt_op op;
		int inputs, again; /* the second one is a buffer; nodes that are repeated */
	} rows[] = {
		{ { .name = "plain" }, 1, 3 },
		{ { .name = "remote", .remote = true }, 1, 1 },
		{ { .name = "writer", .writes = 1u << 0 }, 1, 1 },
		{ { .name = "reader of a buffer" }, 2, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_recompute r = { .max = INT_MAX };
		struct gt_pass_options o = { .recompute = &r };
		struct gt_graph *g = pass_graph();
		struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 64, 4 });
		struct gt_value *buffer = gt_buffer(g, "m", GT_F32, 0, NULL, pass_zeros);
		struct gt_op op = rows[i].op;
		int again = 0;

		op.min_inputs = op.outputs = 1;
		op.max_inputs = rows[i].inputs;
		op.infer = infer_same;
		op.grad = pass_on;
		gt_graph_scope(g, "h.0");
		x = gt_matmul(g, x, square(g, "a"), NULL, false, false);
		x = gt_emit1(g, &op, NULL, rows[i].inputs, (struct gt_value *[]){ x, buffer });
		x = gt_gelu(g, x, GT_GELU_ERF);
		close_graph(g, gt_matmul(g, x, square(g, "b"), NULL, false, false), &o);
		pass_run(g, &gt_pass_recompute, &o);
		for (size_t k = 0; k < g->node_count; k++)
			again += g->nodes[k]->is_repeat;
		print_message("%s\n", op.name);
		assert_int_equal(again, rows[i].again);
		gt_graph_free(g);
	}
}

/* A block's name ends with the first number in a scope; without one, each scope is a block. The
 * value between two blocks is kept. */
static void test_scopes(void **state)
{
	static const struct {
		const char *first, *second;
		int again; /* nodes of three, and of one in the scope "", that are repeated */
	} rows[] = {
		{ "transformer.h.0.attn", "transformer.h.0.mlp.act", 2 },
		{ "transformer.h.0.attn", "transformer.h.10.attn", 1 },
		{ "layer1.0.conv1", "layer1.0.downsample.0", 2 },
		{ "layer1.0", "layer2.0", 1 },
		{ "0", "2", 1 },
		{ "conv1", "conv2", 1 },
		{ "", "", 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_recompute r = { .max = INT_MAX };
		struct gt_pass_options o = { .recompute = &r };
		struct gt_graph *g = pass_graph();
		struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 64, 4 });
		int again = 0;

		x = gt_add(g, x, gt_parameter(g, "p", GT_F32, 2, x->shape, pass_zeros, true));
		for (int k = 0; k < 3; k++) {
			gt_graph_scope(g, "%s", k == 2 ? rows[i].second : rows[i].first);
			x = gt_gelu(g, x, GT_GELU_ERF);
		}
		close_graph(g, x, &o);
		pass_run(g, &gt_pass_recompute, &o);
		for (size_t k = 0; k < g->node_count; k++)
			again += g->nodes[k]->is_repeat;
		print_message("%s and %s\n", rows[i].first, rows[i].second);
		assert_int_equal(again, rows[i].again);
		gt_graph_free(g);
	}
}

/* Modules of one layer each have nothing to compute again: shares of the layers do. */
static void test_shares(void **state)
{
	enum { LAYERS = 16 };
	struct gt_recompute r = { .max = INT_MAX };
	struct gt_pass_options o = { .recompute = &r };
	struct gt_graph *g = pass_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 64, 4 });
	int again = 0;

	(void)state;
	x = gt_add(g, x, gt_parameter(g, "p", GT_F32, 2, x->shape, pass_zeros, true));
	for (int k = 0; k < LAYERS; k++) {
		gt_graph_scope(g, "%d", k);
		x = gt_gelu(g, x, GT_GELU_ERF);
	}
	close_graph(g, x, &o);
	pass_run(g, &gt_pass_recompute, &o);
	for (size_t k = 0; k < g->node_count; k++)
		again += g->nodes[k]->is_repeat;
	/* Of 16 values and a parameter's, about the square root is kept, and as many are in a
	 * block. */
	assert_in_range(r.blocks, 2, 4);
	assert_in_range(again, 8, LAYERS - 1);
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_batch_norm),
		cmocka_unit_test(test_nodes_of_their_own),
		cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
