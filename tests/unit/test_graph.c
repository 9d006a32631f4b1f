/* test_graph.c - building: shapes, errors that stick, names, printing, cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"

static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };

static struct gt_graph *new_graph(void)
{
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	return g;
}

static struct gt_value *input(
    struct gt_graph *g, const char *name, int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return gt_input(g, name, GT_F32, ndim, (int64_t[]){ a, b, c, d });
}

static void expect_error(struct gt_graph *g, int code, const char *text)
{
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_graph_status(g, &err), code);
	assert_string_equal(err.text, text);
	gt_graph_free(g);
}

static void expect_shape(
    const struct gt_value *v, int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
	const int64_t want[] = { a, b, c, d };

	assert_non_null(v);
	assert_int_equal(v->ndim, ndim);
	for (int i = 0; i < ndim; i++)
		assert_int_equal(v->shape[i], want[i]);
}

static void test_shapes(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, "x", 4, 2, 3, 9, 7), *w = input(g, "w", 4, 5, 3, 3, 3);
	struct gt_value *a = input(g, "a", 3, 2, 4, 6, 0), *b = input(g, "b", 2, 8, 6, 0, 0);

	(void)state;
	expect_shape(gt_conv2d(g, x, w, NULL, gt_conv_square(2, 1)), 4, 2, 5, 5, 4);
	expect_shape(
	    gt_conv2d(g, x, gt_input(g, "v", GT_F32, 4, (int64_t[]){ 6, 1, 1, 3 }), NULL,
	        (struct gt_conv_form){
	            .stride = { 1, 2 }, .pad = { 0, 1 }, .dilation = { 1, 2 }, .groups = 3 }),
	    4, 2, 6, 9, 3);
	expect_shape(gt_max_pool2d(g, x, gt_pool_square(2, 2, 0)), 4, 2, 3, 4, 3);
	expect_shape(gt_avg_pool2d(g, x, gt_pool_square(3, 2, 1)), 4, 2, 3, 5, 4);
	expect_shape(gt_adaptive_max_pool2d(g, x, 4, 3), 4, 2, 3, 4, 3);
	expect_shape(
	    gt_resample2d(g, x, (struct gt_resample_form){ .size = { 5, 14 } }), 4, 2, 3, 5, 14);
	expect_shape(
	    gt_resample1d(g, a, (struct gt_resample_form){ .size = { 9 } }), 3, 2, 4, 9, 0);
	expect_shape(gt_glu(g, a, 1), 3, 2, 2, 6, 0);
	expect_shape(gt_subsample(g, x, 2, 1, 2), 4, 2, 6, 5, 4);
	expect_shape(gt_matmul(g, a, b, NULL, false, true), 3, 2, 4, 8, 0);
	expect_shape(gt_matmul(g, a, a, NULL, true, false), 2, 6, 6, 0, 0);
	expect_shape(gt_reshape(g, x, 2, (int64_t[]){ 18, 21 }), 2, 18, 21, 0, 0);
	expect_shape(gt_attention(g, a, NULL, NULL, 2, 0), 3, 2, 4, 2, 0);
	expect_shape(gt_fill(g, GT_F64, 0, NULL, 1), 0, 0, 0, 0, 0);
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
}

/* The first error stays, with its scope; everything after it does nothing. */
static void test_transposed_shapes(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, "x", 4, 2, 6, 5, 4), *w = input(g, "w", 4, 6, 2, 3, 2);
	struct gt_value *bias = input(g, "bias", 1, 4, 0, 0, 0);

	(void)state;
	expect_shape(gt_conv_transpose2d(g, x, w, bias,
	                 (struct gt_conv_form){ .stride = { 2, 3 },
	                     .pad = { 1, 0 },
	                     .dilation = { 1, 2 },
	                     .out_pad = { 1, 2 },
	                     .groups = 2 }),
	    4, 2, 4, 10, 14);
	gt_graph_free(g);
}

/* Over a length: what images with a height of 1 have as width. */
static void test_shapes_of_lengths(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, "x", 3, 2, 6, 11, 0), *w = input(g, "w", 3, 4, 3, 3, 0);
	struct gt_value *v = input(g, "v", 3, 6, 2, 4, 0);

	(void)state;
	expect_shape(gt_conv1d(g, x, w, NULL,
	                 (struct gt_conv_form){ .stride = { 2 }, .pad = { 1 }, .groups = 2 }),
	    3, 2, 4, 6, 0);
	expect_shape(gt_conv_transpose1d(
	                 g, x, v, NULL, (struct gt_conv_form){ .stride = { 3 }, .out_pad = { 1 } }),
	    3, 2, 2, 35, 0);
	expect_shape(gt_max_pool1d(g, x, (struct gt_pool_form){ .kernel = { 3 }, .stride = { 2 } }),
	    3, 2, 6, 5, 0);
	expect_shape(
	    gt_avg_pool1d(g, x, (struct gt_pool_form){ .kernel = { 2 }, .ceil_mode = true }), 3, 2,
	    6, 6, 0);
	expect_shape(gt_adaptive_avg_pool1d(g, x, 4), 3, 2, 6, 4, 0);
	gt_graph_free(g);
}

/* A single matrix on the right is a product of all rows, so y may lack a batched_matmul. */
static void test_shapes_of_products(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *q = input(g, "q", 4, 2, 3, 5, 4), *k = input(g, "k", 4, 2, 3, 7, 4);
	struct gt_value *one = input(g, "one", 4, 1, 3, 4, 6), *w = input(g, "w", 2, 6, 4, 0, 0);
	struct gt_value *y;

	(void)state;
	expect_shape(gt_batched_matmul(g, q, k, false, true), 4, 2, 3, 5, 7);
	expect_shape(gt_batched_matmul(g, q, one, false, false), 4, 2, 3, 5, 6);
	expect_shape(gt_batched_matmul(g, one, q, true, true), 4, 2, 3, 6, 5);
	expect_shape(gt_batched_matmul(g, w, k, false, true), 4, 2, 3, 6, 7);
	y = gt_batched_matmul(g, q, w, false, true);
	expect_shape(y, 4, 2, 3, 5, 6);
	assert_ptr_equal(y->producer->op, &gt_op_matmul);
	y = gt_batched_matmul(g, w, w, true, false);
	expect_shape(y, 2, 4, 4, 0, 0);
	assert_ptr_equal(y->producer->op, &gt_op_matmul);
	y = gt_batched_matmul(g, w, gt_reshape(g, w, 4, (int64_t[]){ 1, 1, 6, 4 }), false, true);
	expect_shape(y, 4, 1, 1, 6, 6);
	expect_shape(gt_softmax(g, q, 3, false), 4, 2, 3, 5, 4);
	expect_shape(gt_softmax(g, q, 1, true), 4, 2, 3, 5, 4);
	gt_graph_free(g);
}

static void test_error_sticks(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *a, *b, *y;

	(void)state;
	a = input(g, "a", 2, 3, 4, 0, 0);
	b = input(g, "b", 2, 5, 6, 0, 0);
	gt_graph_scope(g, "layer%d", 7);
	y = gt_matmul(g, a, b, NULL, false, false);
	assert_null(y);
	gt_graph_scope(g, "later");
	assert_null(gt_relu(g, y));
	assert_null(input(g, "c", 1, 2, 0, 0, 0));
	assert_null(gt_output(g, y, "y"));
	assert_int_equal(g->node_count, 0);
	expect_error(g, GT_EINVAL, "layer7: matmul: [3, 4] and [5, 6] do not multiply");
}

struct bad {
	const char *text;
	void (*build)(struct gt_graph *g);
	int code;
};

static void bad_dimension(struct gt_graph *g)
{
	input(g, "x", 2, 3, 0, 0, 0);
}

static void bad_product(struct gt_graph *g)
{
	input(g, "x", 4, 1 << 20, 1 << 20, 1 << 20, 1);
}

static void bad_name(struct gt_graph *g)
{
	input(g, "x", 1, 3, 0, 0, 0);
	input(g, "x", 1, 4, 0, 0, 0);
}

static void bad_parameter_name(struct gt_graph *g)
{
	gt_parameter(g, "w", GT_F32, 0, NULL, zeros, false);
	gt_buffer(g, "w", GT_F32, 0, NULL, zeros);
}

static void bad_output(struct gt_graph *g)
{
	gt_output(g, input(g, "x", 1, 3, 0, 0, 0), "y");
}

static void bad_output_name(struct gt_graph *g)
{
	gt_output(g, gt_relu(g, input(g, "x", 1, 3, 0, 0, 0)), "x");
}

static void bad_missing(struct gt_graph *g)
{
	gt_add(g, input(g, "x", 1, 3, 0, 0, 0), NULL);
}

static void bad_batch(struct gt_graph *g)
{
	gt_batched_matmul(
	    g, input(g, "a", 3, 2, 3, 4, 0), input(g, "b", 3, 3, 4, 5, 0), false, false);
}

static void bad_inner_sizes(struct gt_graph *g)
{
	gt_batched_matmul(
	    g, input(g, "a", 3, 2, 3, 4, 0), input(g, "b", 3, 2, 4, 5, 0), true, false);
}

static void bad_vector(struct gt_graph *g)
{
	gt_batched_matmul(
	    g, input(g, "a", 1, 4, 0, 0, 0), input(g, "b", 3, 2, 4, 5, 0), false, false);
}

static void bad_softmax(struct gt_graph *g)
{
	gt_softmax(g, input(g, "x", 2, 3, 4, 0, 0), 2, false);
}

static void bad_window(struct gt_graph *g)
{
	gt_max_pool2d(g, input(g, "x", 4, 1, 1, 2, 2), gt_pool_square(3, 1, 0));
}

static void bad_large_window(struct gt_graph *g)
{
	gt_max_pool2d(g, input(g, "x", 4, 1, 1, 20, 20), gt_pool_square(17, 1, 0));
}

static void bad_size(struct gt_graph *g)
{
	gt_resample2d(g, input(g, "x", 4, 1, 1, 5, 4),
	    (struct gt_resample_form){ .size = { 3, -1 }, .factor = { 1, 2 } });
}

static void bad_halves(struct gt_graph *g)
{
	gt_glu(g, input(g, "x", 3, 1, 5, 4, 0), 1);
}

static void bad_types(struct gt_graph *g)
{
	struct gt_value *w = gt_input(g, "w", GT_F64, 4, (int64_t[]){ 1, 1, 3, 3 });

	gt_conv2d(g, input(g, "x", 4, 1, 1, 5, 5), w, NULL, gt_conv_square(1, 0));
}

static void bad_groups(struct gt_graph *g)
{
	gt_conv2d(g, input(g, "x", 4, 1, 4, 5, 5), input(g, "w", 4, 6, 4, 3, 3), NULL,
	    (struct gt_conv_form){ .groups = 2 });
}

static void bad_count_of_groups(struct gt_graph *g)
{
	gt_conv2d(g, input(g, "x", 4, 1, 4, 5, 5), input(g, "w", 4, 5, 2, 3, 3), NULL,
	    (struct gt_conv_form){ .groups = 2 });
}

static void bad_length(struct gt_graph *g)
{
	gt_max_pool1d(g, input(g, "x", 4, 1, 4, 5, 5), (struct gt_pool_form){ .kernel = { 2 } });
}

static void bad_output_padding(struct gt_graph *g)
{
	gt_conv_transpose2d(g, input(g, "x", 4, 1, 4, 5, 5), input(g, "w", 4, 4, 2, 3, 3), NULL,
	    (struct gt_conv_form){ .stride = { 2, 2 }, .out_pad = { 1, 2 } });
}

static void bad_padding(struct gt_graph *g)
{
	gt_avg_pool2d(g, input(g, "x", 4, 1, 4, 5, 5), gt_pool_square(3, 1, 2));
}

static void bad_dilation(struct gt_graph *g)
{
	gt_conv2d(g, input(g, "x", 4, 1, 4, 5, 5), input(g, "w", 4, 5, 4, 3, 3), NULL,
	    (struct gt_conv_form){ .dilation = { 1, -1 } });
}

static void bad_position_type(struct gt_graph *g)
{
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 2, 3 });
	struct gt_value *position = gt_input(g, "p", GT_F64, 2, (int64_t[]){ 3, 4 });

	gt_embedding(g, input(g, "table", 2, 5, 4, 0, 0), ids, position, NULL);
}

static void bad_integer(struct gt_graph *g)
{
	gt_relu(g, gt_input(g, "x", GT_I32, 1, (int64_t[]){ 3 }));
}

static void bad_heads(struct gt_graph *g)
{
	gt_attention(g, input(g, "x", 3, 1, 2, 24, 0), NULL, NULL, 3, 0);
}

static void bad_targets(struct gt_graph *g)
{
	struct gt_value *target = gt_input(g, "t", GT_I32, 1, (int64_t[]){ 4 });

	gt_classify_stats(g, input(g, "x", 2, 3, 4, 0, 0), target);
}

static void bad_dropout(struct gt_graph *g)
{
	struct gt_value *rng = gt_input(g, "rng", GT_I64, 1, (int64_t[]){ GT_RNG_FIELDS });

	gt_dropout(g, input(g, "x", 2, 3, 4, 0, 0), rng, 1);
}

static void test_errors(void **state)
{
	static const struct bad cases[] = {
		{ "'x': a dimension is not positive or too large", bad_dimension, GT_EINVAL },
		{ "'x': a dimension is not positive or too large", bad_product, GT_EINVAL },
		{ "'x' is declared twice", bad_name, GT_EINVAL },
		{ "'w' is declared twice", bad_parameter_name, GT_EINVAL },
		{ "output 'y': not a value that a node makes", bad_output, GT_EINVAL },
		{ "'x' is declared twice", bad_output_name, GT_EINVAL },
		{ "add: input 1 is missing", bad_missing, GT_EINVAL },
		{ "batched_matmul: [2, 3, 4] and [3, 4, 5] do not multiply", bad_batch, GT_EINVAL },
		{ "batched_matmul: [2, 3, 4] transposed and [2, 4, 5] do not multiply",
		    bad_inner_sizes, GT_EINVAL },
		{ "batched_matmul: the left side has shape [4], at least 2 dimensions wanted",
		    bad_vector, GT_EINVAL },
		{ "softmax: [3, 4] has no dimension 2", bad_softmax, GT_EINVAL },
		{ "max_pool2d: output 0 would be empty or too large", bad_window, GT_EINVAL },
		{ "max_pool2d: a window of 17 x 17, more than 256 elements", bad_large_window,
		    GT_ENOTSUP },
		{ "resample: -1 pixels, 0 apart, of 4", bad_size, GT_EINVAL },
		{ "glu: [1, 5, 4] has no two halves along dimension 1", bad_halves, GT_EINVAL },
		{ "conv2d: weight float64 [1, 1, 3, 3] does not fit input float32 [1, 1, 5, 5]",
		    bad_types, GT_EINVAL },
		{ "conv2d: weight float32 [6, 4, 3, 3] does not fit input float32 [1, 4, 5, 5] "
		  "in 2 groups",
		    bad_groups, GT_EINVAL },
		{ "conv2d: 2 groups of 5 outputs", bad_count_of_groups, GT_EINVAL },
		{ "conv2d: window 3, stride 1, padding 0, dilation -1", bad_dilation, GT_EINVAL },
		{ "max_pool1d: an input [1, 4, 5, 5], not of three dimensions", bad_length,
		    GT_EINVAL },
		{ "an output padding of 2, not less than a stride of 2", bad_output_padding,
		    GT_ENOTSUP },
		{ "avg_pool2d: a padding of 2 is more than half of a window of 3", bad_padding,
		    GT_EINVAL },
		{ "embedding: positions float64 [3, 4] do not reach 3 tokens of float32 width 4",
		    bad_position_type, GT_EINVAL },
		{ "relu: the input is int32, not floating point", bad_integer, GT_EINVAL },
		{ "attention: a width of 8 does not divide into 3 heads", bad_heads, GT_EINVAL },
		{ "classify_stats: targets int32 [4] for logits [3, 4]", bad_targets, GT_EINVAL },
		{ "dropout: a probability of 1 is not in [0, 1)", bad_dropout, GT_EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_graph *g = new_graph();

		cases[i].build(g);
		expect_error(g, cases[i].code, cases[i].text);
	}
}

/* A parameter may have the name of an input. */
static void test_names_of_parameters(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *w = gt_parameter(g, "weight", GT_F32, 0, NULL, zeros, false);
	struct gt_value *x = gt_input(g, "weight", GT_F32, 0, NULL);

	(void)state;
	assert_true(w && x && w != x);
	assert_ptr_equal(gt_graph_find(g, "weight"), x);
	assert_ptr_equal(gt_graph_find_stored(g, "weight"), w);
	assert_null(gt_graph_find(g, "bias"));
	gt_graph_free(g);
}

/* A name goes from value to value, and is found with the one that has it. */
static void test_names_that_move(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 1, (int64_t[]){ 2 });
	struct gt_value *y = gt_output(g, gt_relu(g, x), "y"), *z = gt_relu(g, y);
	struct gt_value *sum = gt_buffer(g, "w.grad", GT_F32, 0, NULL, zeros);

	(void)state;
	assert_ptr_equal(gt_graph_find(g, "y"), y);
	gt_value_take_name(g, z, y);
	assert_ptr_equal(gt_graph_find(g, "y"), z);
	assert_true(z->role == GT_OUTPUT && y->role == GT_TEMPORARY && !y->name);
	gt_value_set_name(g, z, NULL);
	assert_null(gt_graph_find(g, "y"));
	assert_ptr_equal(gt_output(g, y, "y"), y);
	assert_ptr_equal(gt_graph_find(g, "y"), y);
	assert_ptr_equal(gt_graph_find_stored(g, "w.grad"), sum);
	sum->role = GT_GRADIENT;
	assert_null(gt_graph_find_stored(g, "w.grad"));
	assert_ptr_equal(gt_graph_find(g, "w.grad"), sum);
	gt_graph_free(g);
}

/* Passes compare attributes by their bytes, so nothing of them may be left to chance. */
static void test_attributes_are_zeroed(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, "x", 4, 1, 1, 4, 4);
	union gt_attrs want;

	(void)state;
	gt_max_pool2d(g, x, gt_pool_square(2, 1, 0));
	memset(&want, 0, sizeof(want));
	want.pool.window = (struct gt_window){ { 2, 2 }, { 1, 1 }, { 0, 0 }, { 1, 1 } };
	want.pool.in_height = 4;
	want.pool.in_width = 4;
	assert_int_equal(g->node_count, 1);
	assert_memory_equal(&g->nodes[0]->attrs, &want, sizeof(want));
	gt_graph_free(g);
}

static void test_printing(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, "x", 4, 1, 2, 4, 4), *y;
	char *text;

	(void)state;
	gt_graph_scope(g, "conv1");
	y = gt_conv2d(g, x,
	    gt_parameter(g, "conv1.weight", GT_F32, 4, (int64_t[]){ 3, 2, 3, 3 }, zeros, true),
	    NULL, gt_conv_square(1, 1));
	gt_graph_scope(g, "%s", "");
	y = gt_max_pool2d(g, y, gt_pool_square(2, 2, 0));
	gt_output(g, y, "y");
	text = gt_graph_print(g, NULL);
	assert_string_equal(text,
	    "%2 float32[1,3,4,4] = conv2d(input x, conv1.weight) stride=1 pad=1  # conv1\n"
	    "output y float32[1,3,2,2], %4 uint8[1,3,2,2] = max_pool2d(%2) kernel=2 stride=2 "
	    "pad=0\n");
	free(text);
	gt_graph_free(g);
}

static void test_cost(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_cost cost;

	(void)state;
	gt_matmul(
	    g, input(g, "a", 2, 3, 4, 0, 0), input(g, "b", 2, 4, 5, 0, 0), NULL, false, false);
	gt_node_cost(g->nodes[0], &cost);
	assert_int_equal((int)cost.flops, 2 * 3 * 4 * 5);
	assert_int_equal((int)cost.bytes_read, 4 * (12 + 20));
	assert_int_equal((int)cost.bytes_written, 4 * 15);
	gt_conv2d(g, input(g, "x", 4, 2, 3, 8, 8), input(g, "w", 4, 5, 3, 3, 3), NULL,
	    gt_conv_square(1, 1));
	gt_node_cost(g->nodes[1], &cost);
	assert_int_equal((int)cost.flops, 2 * (2 * 5 * 8 * 8) * (3 * 3 * 3));
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
}

/* A table's gradient is written whole, or where there is a sum already, in the rows of the ids. */
static void test_cost_of_table_gradient(void **state)
{
	struct gt_graph *g = new_graph();
	union gt_attrs attrs = { .embedding = { .rows = 100, .low = GT_F32 } };
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 1, 2 });
	struct gt_value *in[3] = { input(g, "dy", 3, 1, 2, 8, 0), ids }, *gradient;
	struct gt_cost cost;

	(void)state;
	gradient = gt_emit(g, &gt_op_embedding_grad, &attrs, 2, in)->out[0];
	gt_node_cost(g->nodes[0], &cost);
	assert_int_equal((int)cost.bytes_read, 4 * (16 + 2));
	assert_int_equal((int)cost.bytes_written, 4 * 800);
	in[2] = gradient;
	gt_emit(g, &gt_op_embedding_grad, &attrs, 3, in);
	gt_node_cost(g->nodes[1], &cost);
	assert_int_equal((int)cost.bytes_read, 4 * (16 + 2 + 16));
	assert_int_equal((int)cost.bytes_written, 4 * 16);
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
}

/* Blocks that recompute and profiles name. */
static void test_blocks_of_scopes(void **state)
{
	static const struct {
		const char *scope, *block;
	} cases[] = {
		{ "transformer.h.0.attn.c_proj", "transformer.h.0" },
		{ "encoder.layers.encoder_layer_11.mlp.0", "encoder.layers.encoder_layer_11" },
		{ "layer1.0.conv1", "layer1.0" },
		{ "layer1.conv", "layer1.conv" },
		{ "lm_head", "lm_head" },
		{ "ln_f", "ln_f" },
		{ "_7.x", "_7" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(gt_scope_block(cases[i].scope), strlen(cases[i].block));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks_of_scopes),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_transposed_shapes),
		cmocka_unit_test(test_shapes_of_lengths),
		cmocka_unit_test(test_shapes_of_products),
		cmocka_unit_test(test_error_sticks),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_names_of_parameters),
		cmocka_unit_test(test_names_that_move),
		cmocka_unit_test(test_attributes_are_zeroed),
		cmocka_unit_test(test_printing),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_cost_of_table_gradient),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
