/* test_arrangement.c - arrangements: checks, the simplest form, copies that are none, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/ops.h"

/* ---- checks ---- */

static void expect_verdict(const struct gt_arrangement *a, int inputs, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	int rc = gt_arrangement_check(a, inputs, (int64_t[]){ 12, 6 }, &err);

	assert_int_equal(rc, text ? GT_EINVAL : 0);
	assert_string_equal(err.text, text ? text : "");
}

/* One piece of input 0, which has 12 elements, in an output [3, 4]. */
static void expect_piece(const struct gt_arrange_piece *p, const char *text)
{
	struct gt_arrangement a = { 2, { 3, 4 }, 1, { *p } };

	expect_verdict(&a, 1, text);
}

static void test_check_piece(void **state)
{
	static const char *const outside = "piece 0 is not inside of its tensors";
	static const char *const twice = "piece 0 may have an element twice";
	static const char *const none = "piece 0 has no input or no shape";

	(void)state;
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 2, { 3, 4 }, { 0, { 4, 1 } }, { 0, { 4, 1 } } }, NULL);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 2, { 4, 3 }, { 11, { -1, -4 } }, { 0, { 3, 1 } } },
	    NULL);
	expect_piece(&(struct gt_arrange_piece){ 0, 0, { 0 }, { 11, { 0 } }, { 11, { 0 } } }, NULL);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 0, { 0 }, { 12, { 0 } }, { 0, { 0 } } }, outside);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 0, { 0 }, { 0, { 0 } }, { -1, { 0 } } }, outside);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 1, { 4 }, { 0, { 4 } }, { 0, { 1 } } }, outside);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 1, { 4 }, { 2, { -1 } }, { 0, { 1 } } }, outside);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 1, { 3 }, { 0, { INT64_MAX } }, { 0, { 1 } } }, outside);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 1, { 2 }, { 9, { INT64_MAX } }, { 0, { 1 } } }, outside);
	expect_piece(&(struct gt_arrange_piece){ 0, 1, { 2 }, { 0, { 0 } }, { 0, { 1 } } }, twice);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 2, { 3, 3 }, { 0, { 3, 1 } }, { 0, { 2, 1 } } }, twice);
	expect_piece(&(struct gt_arrange_piece){ 1, 0, { 0 }, { 0, { 0 } }, { 0, { 0 } } }, none);
	expect_piece(&(struct gt_arrange_piece){ -1, 0, { 0 }, { 0, { 0 } }, { 0, { 0 } } }, none);
	expect_piece(&(struct gt_arrange_piece){ 0, 1, { 0 }, { 0, { 1 } }, { 0, { 1 } } }, none);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 9, { 1, 1 }, { 0, { 1 } }, { 0, { 1 } } }, none);
	expect_piece(
	    &(struct gt_arrange_piece){ 0, 2, { INT64_MAX, 3 }, { 0, { 0 } }, { 0, { 0 } } }, none);
}

/* Two pieces in an output [3, 4], one or both of an input [12]. */
static void expect_pair(struct gt_arrange_piece p, struct gt_arrange_piece q, const char *text)
{
	struct gt_arrangement a = { 2, { 3, 4 }, 2, { p, q } };

	expect_verdict(&a, 1 + (int)q.input, text);
}

static void test_check_pairs(void **state)
{
	static const char *const common = "pieces 0 and 1 may have a common element";
	struct gt_arrange_piece left = { 0, 2, { 3, 2 }, { 0, { 4, 1 } }, { 0, { 4, 1 } } };
	struct gt_arrange_piece right = { 1, 2, { 3, 2 }, { 0, { 2, 1 } }, { 2, { 4, 1 } } };
	struct gt_arrange_piece wide = { 1, 2, { 2, 3 }, { 0, { 3, 1 } }, { 1, { 4, 1 } } };
	struct gt_arrange_piece below = { 1, 1, { 4 }, { 0, { 1 } }, { 8, { 1 } } };
	struct gt_arrange_piece again = { 0, 2, { 3, 2 }, { 1, { 4, 1 } }, { 2, { 4, 1 } } };

	(void)state;
	expect_pair(left, right, NULL);
	expect_pair(left, wide, common);
	expect_pair(left, below, common);
	expect_pair(wide, below, common);
	/* The output has room for both, but they read elements twice, as wide and below do. */
	expect_pair(left, again, common);
	again.from.first = 2;
	expect_pair(left, again, NULL);
	expect_verdict(
	    &(struct gt_arrangement){ 2, { 3, 4 }, 1, { left } }, 2, "input 1 is in no piece");
	expect_verdict(&(struct gt_arrangement){ 2, { 3, 4 }, 0, { left } }, 1,
	    "the arrangement has no shape or no pieces");
	expect_verdict(&(struct gt_arrangement){ 2, { 3, 0 }, 1, { left } }, 1,
	    "the arrangement has no shape or no pieces");
}

/* ---- the simplest form ---- */

static void expect_same(const struct gt_arrange_piece *p, const struct gt_arrange_piece *want)
{
	assert_memory_equal(p, want, sizeof(*p));
}

static void test_simplify(void **state)
{
	/* Dimensions of size 1 go, the order is the output's, neighbours join. */
	struct gt_arrange_piece p = { 0, 4, { 5, 1, 2, 3 }, { 0, { 1, 9, 15, 5 } },
		{ 7, { 1, 9, 15, 5 } } };
	struct gt_arrange_piece reversed = { 0, 2, { 2, 3 }, { 5, { -3, -1 } }, { 0, { 3, 1 } } };
	struct gt_arrange_piece both = { 0, 1, { 4 }, { 3, { -1 } }, { 3, { -1 } } };
	struct gt_arrange_piece one = { 0, 2, { 1, 1 }, { 4, { 7, 8 } }, { 5, { 9, 2 } } };

	(void)state;
	gt_arrange_piece_simplify(&p);
	expect_same(&p, &(struct gt_arrange_piece){ 0, 1, { 30 }, { 0, { 1 } }, { 7, { 1 } } });
	gt_arrange_piece_simplify(&reversed);
	expect_same(
	    &reversed, &(struct gt_arrange_piece){ 0, 1, { 6 }, { 5, { -1 } }, { 0, { 1 } } });
	gt_arrange_piece_simplify(&both);
	expect_same(&both, &(struct gt_arrange_piece){ 0, 1, { 4 }, { 0, { 1 } }, { 0, { 1 } } });
	gt_arrange_piece_simplify(&one);
	expect_same(&one, &(struct gt_arrange_piece){ 0, 0, { 0 }, { 4, { 0 } }, { 5, { 0 } } });
}

static void test_widen(void **state)
{
	/* [3, 5, 2] to [5, 3, 2]: pairs of 4 bytes become elements of 8. */
	struct gt_arrange_piece pairs = { 0, 3, { 5, 3, 2 }, { 0, { 2, 10, 1 } },
		{ 0, { 6, 2, 1 } } };
	struct gt_arrange_piece odd = { 0, 1, { 8 }, { 1, { 1 } }, { 0, { 1 } } };
	struct gt_arrange_piece row = { 0, 1, { 24 }, { 8, { 1 } }, { 16, { 1 } } };
	struct gt_arrange_piece apart = { 0, 2, { 3, 4 }, { 0, { 5, 1 } }, { 0, { 4, 1 } } };

	(void)state;
	assert_int_equal(gt_arrange_piece_widen(&pairs, 4, 8), 8);
	expect_same(
	    &pairs, &(struct gt_arrange_piece){ 0, 2, { 5, 3 }, { 0, { 1, 5 } }, { 0, { 3, 1 } } });
	assert_int_equal(gt_arrange_piece_widen(&odd, 4, 16), 4);
	assert_int_equal(gt_arrange_piece_widen(&row, 1, 16), 8);
	expect_same(&row, &(struct gt_arrange_piece){ 0, 1, { 3 }, { 1, { 1 } }, { 2, { 1 } } });
	assert_int_equal(gt_arrange_piece_widen(&apart, 2, 16), 2);
}

/* ---- the functions that emit arrangements ---- */

static struct gt_value *input(struct gt_graph *g, int64_t a, int64_t b, int64_t c)
{
	char name[16];

	snprintf(name, sizeof(name), "x%zu", g->value_count);
	return gt_input(g, name, GT_I64, 3, (int64_t[]){ a, b, c });
}

static struct gt_graph *new_graph(void)
{
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	return g;
}

/* Copies of all elements in their order are no copies. */
static void test_views(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, 3, 1, 4), *y;
	static const int64_t nothing[3] = { 0 };

	(void)state;
	assert_ptr_equal(gt_permute_dims(g, x, (int[]){ 0, 1, 2 }), x);
	assert_ptr_equal(gt_slice_dim(g, x, 2, 0, 4, 1), x);
	assert_ptr_equal(gt_pad(g, x, nothing, nothing), x);
	assert_ptr_equal(gt_flip(g, x, 2), x);
	assert_ptr_equal(gt_roll(g, x, (int64_t[]){ 3, 1, -4 }), x);
	assert_ptr_equal(gt_cat(g, 1, &x, 0), x);
	assert_int_equal(g->node_count, 0);
	y = gt_permute_dims(g, x, (int[]){ 1, 0, 2 });
	assert_ptr_equal(y->producer->op, &gt_op_reshape);
	y = gt_select(g, x, 1, 0);
	assert_ptr_equal(y->producer->op, &gt_op_reshape);
	assert_ptr_equal(y->producer->in[0], x);
	y = gt_permute_dims(g, x, (int[]){ 2, 1, 0 });
	assert_ptr_equal(y->producer->op, &gt_op_arrange);
	assert_int_equal(y->dtype, GT_I64);
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
}

/* Equal copies have the same attribute, so that the pass for equal nodes finds them. */
static void test_equal_copies(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, 3, 5, 4);
	const struct gt_value *y = gt_slice_dim(g, x, 0, 1, 2, 1);
	const struct gt_value *z = gt_pad(g, x, (int64_t[]){ -1, 0, 0 }, (int64_t[]){ -1, 0, 0 });

	(void)state;
	assert_ptr_equal(
	    y->producer->attrs.arrange.arrangement, z->producer->attrs.arrange.arrangement);
	gt_graph_free(g);
}

static void test_cost_and_print(void **state)
{
	struct gt_graph *g = new_graph();
	const struct gt_value *y = gt_slice_dim(g, input(g, 2, 5, 4), 1, 3, 5, 1);
	struct gt_err err = GT_ERR_INIT;
	struct gt_cost cost;
	char *text = gt_graph_print(g, &err);

	(void)state;
	assert_non_null(text);
	assert_string_equal(text, "%1 int64[2,2,4] = arrange(input x0) 0:[2,8]12(20,1)->0(8,1)\n");
	free(text);
	gt_node_cost(y->producer, &cost);
	assert_true(cost.flops == 0);
	assert_true(cost.bytes_read == 16 * 8);
	assert_true(cost.bytes_written == 16 * 8);
	gt_graph_free(g);
}

/* ---- images ---- */

enum { IMAGE_ELEMENTS = 4096 };

/* Return the place in memory [N, H, W, C] of an element of a row-major image; NULL: the same. */
static int64_t place_in_image(int64_t at, const int64_t *shape)
{
	int64_t w, h, c, n;

	if (!shape)
		return at;
	w = at % shape[3];
	h = at / shape[3] % shape[2];
	c = at / shape[3] / shape[2] % shape[1];
	n = at / shape[3] / shape[2] / shape[1];
	return ((n * shape[2] + h) * shape[3] + w) * shape[1] + c;
}

/* Note which element of the input each element of the output is. */
static void trace_piece(
    int64_t *origin, const struct gt_arrange_piece *p, const int64_t *from, const int64_t *to)
{
	for (int i = 0; i < IMAGE_ELEMENTS; i++)
		origin[i] = -1;
	for (int64_t k = 0; k < gt_arrange_piece_elements(p); k++) {
		int64_t x = p->from.first, y = p->to.first, left = k;

		for (int64_t i = p->ndim; i-- > 0; left /= p->shape[i]) {
			x += left % p->shape[i] * p->from.strides[i];
			y += left % p->shape[i] * p->to.strides[i];
		}
		origin[place_in_image(y, to)] = place_in_image(x, from);
	}
}

static void check_layout(
    const struct gt_arrange_piece *p, const int64_t *from, const int64_t *to, int64_t dims)
{
	static int64_t want[IMAGE_ELEMENTS], got[IMAGE_ELEMENTS];
	struct gt_arrange_piece q = *p;

	assert_true(gt_arrange_piece_lay_out(&q, from, to));
	trace_piece(want, p, from, to);
	trace_piece(got, &q, NULL, NULL);
	assert_memory_equal(got, want, sizeof(got));
	if (dims)
		assert_int_equal(q.ndim, dims);
}

/* Check all pieces for images on both sides and on one. */
static void check_layouts(const struct gt_value *x, const struct gt_value *y, int64_t dims)
{
	const struct gt_arrangement *a = y->producer->attrs.arrange.arrangement;

	for (int64_t k = 0; k < a->count; k++) {
		check_layout(&a->pieces[k], x->shape, y->shape, dims);
		check_layout(&a->pieces[k], NULL, y->shape, 0);
		check_layout(&a->pieces[k], x->shape, NULL, 0);
	}
}

static void test_images(void **state)
{
	const int64_t some[] = { 1, 0, 2, -1 }, more[] = { 0, 1, -1, 1 };
	struct gt_graph *g = new_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 4, (int64_t[]){ 3, 6, 4, 5 });
	struct gt_value *row = gt_input(g, "row", GT_F32, 4, (int64_t[]){ 3, 1, 1, 5 });

	(void)state;
	check_layouts(x, gt_slice_dim(g, x, 1, 1, 5, 2), 2);
	check_layouts(x, gt_slice_dim(g, x, 0, 1, 3, 1), 1);
	check_layouts(x, gt_slice_dim(g, x, 3, 3, 0, -1), 3);
	check_layouts(x, gt_pad(g, x, some, more), 0);
	check_layouts(x, gt_flip(g, x, 15), 1);
	check_layouts(x, gt_roll(g, x, some), 0);
	check_layouts(x, gt_permute_dims(g, x, (int[]){ 3, 1, 2, 0 }), 0);
	check_layouts(x, gt_permute_dims(g, x, (int[]){ 2, 3, 1, 0 }), 0);
	check_layouts(row, gt_pad(g, row, some, (int64_t[]){ 0, 1, 0, 1 }), 0);
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
}

/* Pieces that begin in the middle of a row and go on in the next are no boxes of an image. */
static void test_no_boxes(void **state)
{
	const int64_t shape[] = { 1, 2, 3, 4 };
	struct gt_arrange_piece across = { 0, 1, { 4 }, { 2, { 1 } }, { 0, { 1 } } };
	struct gt_arrange_piece parts = { 0, 1, { 6 }, { 0, { 1 } }, { 0, { 1 } } };
	struct gt_arrange_piece odd = { 0, 1, { 4 }, { 0, { 3 } }, { 0, { 1 } } };
	struct gt_arrange_piece slant = { 0, 1, { 3 }, { 0, { 5 } }, { 0, { 1 } } };

	(void)state;
	assert_false(gt_arrange_piece_lay_out(&across, shape, NULL));
	assert_false(gt_arrange_piece_lay_out(&parts, shape, NULL));
	assert_false(gt_arrange_piece_lay_out(&odd, shape, NULL));
	assert_false(gt_arrange_piece_lay_out(&slant, shape, NULL));
}

static void expect_failure(struct gt_graph *g, const struct gt_value *v, const char *text)
{
	struct gt_err err = GT_ERR_INIT;

	assert_null(v);
	assert_int_equal(gt_graph_status(g, &err), GT_EINVAL);
	assert_string_equal(err.text, text);
	gt_graph_free(g);
}

/* Emit into a new graph with an input x [2, 3, 4]. */
#define FAILS(text, ...)                                                                           \
	do {                                                                                       \
		struct gt_graph *g = new_graph();                                                  \
		struct gt_value *x = input(g, 2, 3, 4);                                            \
                                                                                                   \
		expect_failure(g, __VA_ARGS__, text);                                              \
	} while (0)

static void test_errors(void **state)
{
	const int64_t most = INT64_MAX;

	(void)state;
	FAILS("permute: no order of the dimensions of [2, 3, 4]",
	    gt_permute_dims(g, x, (int[]){ 0, 2, 2 }));
	FAILS("permute: no order of the dimensions of [2, 3, 4]",
	    gt_permute_dims(g, x, (int[]){ 0, 1, 3 }));
	FAILS("slice: [2, 3, 4] has no dimension 3", gt_slice_dim(g, x, 3, 0, 1, 1));
	FAILS("slice: no elements from 1 to 1 by 1 along dimension 1 of [2, 3, 4]",
	    gt_slice_dim(g, x, 1, 1, 1, 1));
	FAILS("slice: no elements from 0 to 4 by 1 along dimension 1 of [2, 3, 4]",
	    gt_slice_dim(g, x, 1, 0, 4, 1));
	FAILS("slice: no elements from 0 to 3 by 0 along dimension 1 of [2, 3, 4]",
	    gt_slice_dim(g, x, 1, 0, 3, 0));
	FAILS("slice: no elements from 2 to -2 by -1 along dimension 1 of [2, 3, 4]",
	    gt_slice_dim(g, x, 1, 2, -2, -1));
	FAILS("select: [2, 3, 4] has no dimension -1", gt_select(g, x, -1, 0));
	FAILS("pad: dimension 1 of [2, 3, 4] cannot grow by -1 before and -2 after it",
	    gt_pad(g, x, (int64_t[]){ 1, -1, 0 }, (int64_t[]){ 0, -2, 0 }));
	FAILS("pad: dimension 0 of [2, 3, 4] cannot grow by 9223372036854775807 before and 0 after "
	      "it",
	    gt_pad(g, x, (int64_t[]){ most, 0, 0 }, (int64_t[]){ 0, 0, 0 }));
	FAILS("pad: dimension 0 of [2, 3, 4] cannot grow by -9223372036854775808 before and 0 "
	      "after it",
	    gt_pad(g, x, (int64_t[]){ INT64_MIN, 0, 0 }, (int64_t[]){ 0, 0, 0 }));
	FAILS("cat: [2, 3, 4] and [2, 5, 4] along dimension 0",
	    gt_cat(g, 2, (struct gt_value *[]){ x, input(g, 2, 5, 4) }, 0));
	FAILS("cat: [2, 3, 4] has no dimension 3", gt_cat(g, 1, &x, 3));
	FAILS("stack: no dimension 4 of [2, 3, 4] and one more", gt_stack(g, 1, &x, 4));
	FAILS("arrange: input 1 is float32, input 0 is int64",
	    gt_cat(g, 2,
	        (struct gt_value *[]){ x, gt_fill(g, GT_F32, 3, (int64_t[]){ 2, 3, 4 }, 0) }, 0));
}

/* A step that passes the end after one element has no meaning, whatever its size. */
static void test_long_steps(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = input(g, 2, 3, 4);

	(void)state;
	assert_int_equal(gt_slice_dim(g, x, 2, 1, 4, INT64_MAX)->shape[2], 1);
	assert_int_equal(gt_slice_dim(g, x, 2, 2, -1, INT64_MIN)->shape[2], 1);
	assert_int_equal(gt_slice_dim(g, x, 2, 3, -1, -2)->shape[2], 2);
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_piece),
		cmocka_unit_test(test_check_pairs),
		cmocka_unit_test(test_simplify),
		cmocka_unit_test(test_widen),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_equal_copies),
		cmocka_unit_test(test_cost_and_print),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_no_boxes),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_long_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
