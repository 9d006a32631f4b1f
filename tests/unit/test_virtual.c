/* test_virtual.c - virtual ranks: the graph of several, and their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/data/sync_bn.h"
#include "lib/parallel/virtual/rewrite.h"

/* x w + b through a batch normalisation, with its gradients. */
static struct gt_graph *training_graph(bool accumulate)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	const int64_t two = 2;
	struct gt_pass_options options = { .accumulate = accumulate, .images = GT_CHANNELS_LAST };
	struct gt_err err = GT_ERR_INIT;
	struct gt_value *x, *w, *b, *m, *v, *n;
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, &err), 0);
	x = gt_input(g, "x", GT_F32, 4, (int64_t[]){ 1, 2, 1, 1 });
	w = gt_parameter(g, "w", GT_F32, 1, &two, zeros, true);
	b = gt_parameter(g, "b", GT_F32, 1, &two, zeros, true);
	m = gt_buffer(g, "m", GT_F32, 1, &two, zeros);
	v = gt_buffer(g, "v", GT_F32, 1, &two, zeros);
	n = gt_buffer(g, "n", GT_I64, 0, NULL, zeros);
	x = gt_batch_norm(g, x, w, b, m, v, n, 1e-5, 0.1);
	w = gt_reshape(g, w, 2, (int64_t[]){ 2, 1 });
	x = gt_reshape(g, x, 2, (int64_t[]){ 1, 2 });
	x = gt_matmul(g, x, w, NULL, false, false);
	options.loss = gt_output(g, gt_reshape(g, x, 0, NULL), "loss");
	if (gt_passes_run(g, &options, &err))
		fail_msg("%s", err.text);
	return g;
}

static void expect(const struct gt_graph *g, const char *want)
{
	char *text = gt_graph_print(g, NULL);

	assert_string_equal(text, want);
	free(text);
}

/* clang-format off */
static const char alone[] =
    "%24 float32[1,2,1,1] channels-last = reorder(input x)\n"
    "%27 float32[1,2,1,1] channels-last = reorder(input x.1)\n"
    "%6 float32[1,2,1,1] channels-last, %7 float32[2], %8 float32[2] = batch_norm(%24, "
    "w, b, buffer m, buffer v, buffer n)\n"
    "%31 float32[1,2,1,1] channels-last, %32 float32[2], %33 float32[2] = "
    "batch_norm(%27, w, b, %28, %29, %30)\n"
    "%9 float32[2,1] = reshape(w)\n"
    "%10 float32[1,2] = reshape(%6)\n"
    "%34 float32[1,2] = reshape(%31)\n"
    "%11 float32[1,1] = matmul(%10, %9)\n"
    "%35 float32[1,1] = matmul(%34, %9)\n"
    "output loss float32[] = reshape(%11)\n"
    "output loss.1 float32[] = reshape(%35)\n"
    "%13 float32[] = fill() 1\n"
    "%14 float32[1,1] = reshape(%13)\n"
    "%15 float32[1,2] = matmul(%14, %9) trans_b\n"
    "%16 float32[2,1] = matmul(%10, %14) trans_a\n"
    "%37 float32[2,1] = matmul(%34, %14) trans_a\n"
    "%17 float32[1,2,1,1] channels-last = reshape(%15)\n"
    "%18 float32[2] = reshape(%16)\n"
    "%38 float32[2] = reshape(%37)\n"
    "%19 float32[1,2,1,1] channels-last, %20 float32[2], %39 float32[2] = "
    "batch_norm_grad(%17, %24, w, %7, %8)\n"
    "%40 float32[1,2,1,1] channels-last, %41 float32[2], %42 float32[2] = "
    "batch_norm_grad(%17, %27, w, %32, %33)\n"
    "gradient of b float32[2] = add(%39, %42)\n"
    "%44 float32[2] = add(%18, %20)\n"
    "%45 float32[2] = add(%38, %41)\n"
    "gradient of w float32[2] = add(%44, %45)\n";
static const char together[] =
    "%24 float32[1,2,1,1] channels-last = reorder(input x)\n"
    "%36 float32[1,2,1,1] channels-last = reorder(input x.1)\n"
    "%26 float64[5] = batch_norm_moments(%24)\n"
    "%37 float64[5] = batch_norm_moments(%36)\n"
    "%27 float64[4,5] = all_gather(%38) axis=data\n"
    "%7 float32[2], %8 float32[2] = batch_norm_combine(buffer m, buffer v, buffer n, "
    "%27)\n"
    "%6 float32[1,2,1,1] channels-last = batch_norm_apply(%24, w, b, %7, %8)\n"
    "%39 float32[1,2,1,1] channels-last = batch_norm_apply(%36, w, b, %7, %8)\n"
    "%9 float32[2,1] = reshape(w)\n"
    "%10 float32[1,2] = reshape(%6)\n"
    "%40 float32[1,2] = reshape(%39)\n"
    "%11 float32[1,1] = matmul(%10, %9)\n"
    "%41 float32[1,1] = matmul(%40, %9)\n"
    "output loss float32[] = reshape(%11)\n"
    "output loss.1 float32[] = reshape(%41)\n"
    "%13 float32[] = fill() 1\n"
    "%14 float32[1,1] = reshape(%13)\n"
    "%15 float32[1,2] = matmul(%14, %9) trans_b\n"
    "%16 float32[2,1] = matmul(%10, %14) trans_a\n"
    "%43 float32[2,1] = matmul(%40, %14) trans_a\n"
    "%17 float32[1,2,1,1] channels-last = reshape(%15)\n"
    "%18 float32[2] = reshape(%16)\n"
    "%44 float32[2] = reshape(%43)\n"
    "%30 float64[5], %20 float32[2], %45 float32[2] = batch_norm_grad_sums(%17, %24, %7, "
    "%8)\n"
    "%46 float64[5], %47 float32[2], %48 float32[2] = batch_norm_grad_sums(%17, %36, %7, "
    "%8)\n"
    "gradient of b float32[2] = add(%45, %48)\n"
    "%50 float64[5] = add(%30, %46)\n"
    "%34 float64[5] = all_reduce(%50) axis=data\n"
    "%19 float32[1,2,1,1] channels-last = batch_norm_grad_apply(%17, %24, w, %7, %8, "
    "%34)\n"
    "%51 float32[1,2,1,1] channels-last = batch_norm_grad_apply(%17, %36, w, %7, %8, "
    "%34)\n"
    "%52 float32[2] = add(%18, %20)\n"
    "%53 float32[2] = add(%44, %47)\n"
    "gradient of w float32[2] = add(%52, %53)\n";
static const char in_order[] =
    "%2 float32[1,1] = matmul(input x, w)\n"
    "output loss float32[] = reshape(%2)\n"
    "%4 float32[] = fill() 1\n"
    "%5 float32[1,1] = reshape(%4)\n"
    "%10 float32[2,1] = matmul(input x, %5) trans_a\n"
    "%11 float32[1,1] = matmul(input x.1, w)\n"
    "output loss.1 float32[] = reshape(%11)\n"
    "%13 float32[2,1] = matmul(input x.1, %5) trans_a\n"
    "%14 float32[2,1] = add(%10, %13)\n"
    "%15 float32[1,1] = matmul(input x.2, w)\n"
    "output loss.2 float32[] = reshape(%15)\n"
    "%17 float32[2,1] = matmul(input x.2, %5) trans_a\n"
    "%18 float32[1,1] = matmul(input x.3, w)\n"
    "output loss.3 float32[] = reshape(%18)\n"
    "%20 float32[2,1] = matmul(input x.3, %5) trans_a\n"
    "%21 float32[2,1] = add(%17, %20)\n"
    "gradient of w float32[2,1] = add(%14, %21)\n";
/* clang-format on */

static void buffers_are_updated_once(void **state)
{
	struct gt_graph *g = training_graph(false);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_virtual_rewrite(g, 2, NULL, 0, &err), 0);
	expect(g, alone);
	gt_graph_free(g);
}

static void collectives_take_all_copies(void **state)
{
	struct gt_graph *g = training_graph(false);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_sync_bn(g, 4, &err), 0);
	assert_int_equal(gt_virtual_rewrite(g, 2, NULL, 0, &err), 0);
	expect(g, together);
	gt_graph_free(g);
}

static void sums_must_be_of_one_run(void **state)
{
	struct gt_graph *g = training_graph(true);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_virtual_rewrite(g, 2, NULL, 0, &err), GT_EINVAL);
	gt_graph_free(g);
}

/* A layer's gradients, copy by copy: sums are there as soon as two neighbours are. */
static void copies_in_an_order(void **state)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_pass_options options = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_value *x, *w;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 1, 2 });
	w = gt_parameter(g, "w", GT_F32, 2, (int64_t[]){ 2, 1 }, zeros, true);
	x = gt_matmul(g, x, w, NULL, false, false);
	options.loss = gt_output(g, gt_reshape(g, x, 0, NULL), "loss");
	assert_int_equal(gt_passes_run(g, &options, &err), 0);
	assert_int_equal(gt_virtual_rewrite_in_turn(g, 4, &err), 0);
	expect(g, in_order);
	gt_graph_free(g);
}

/* Copies are added up before the ranks are: of a maximum that would be wrong. */
static void only_sums_are_added_up(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	gt_output(g,
	    gt_max_over(g, gt_copy(g, gt_input(g, "x", GT_F32, 1, (int64_t[]){ 2 })), GT_AXIS_DATA),
	    "y");
	assert_int_equal(gt_graph_status(g, &err), 0);
	assert_int_equal(gt_virtual_rewrite(g, 2, NULL, 0, &err), GT_EINVAL);
	assert_non_null(strstr(err.text, "another kind than a sum"));
	gt_graph_free(g);
}

/* Some copies have not come yet when others would exchange their values. */
static void collectives_take_no_order(void **state)
{
	struct gt_graph *g = training_graph(false);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_sync_bn(g, 4, &err), 0);
	assert_int_equal(gt_virtual_rewrite_in_turn(g, 2, &err), GT_EINVAL);
	gt_graph_free(g);
}

/* ---- how many ---- */

static void virtual_ranks(void **state)
{
	static const struct {
		int64_t batch;
		int ranks;
	} cases[] = { { 1, 1 }, { 2, 2 }, { 6, 2 }, { 12, 4 }, { 15, 1 }, { 16, 8 }, { 24, 8 },
		{ 4096, 8 } };
	struct gt_parallel_options o = { .reproducible = true };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(gt_virtual_ranks(cases[i].batch), cases[i].ranks);
	assert_int_equal(gt_parallel_virtual_ranks(&o, 2, 12), 4);
	assert_int_equal(gt_parallel_virtual_ranks(&o, 4, 6), 2);
	o.tensor = 2;
	assert_int_equal(gt_parallel_virtual_ranks(&o, 4, 6), 2);
	o.tensor = 0;
	o.stages = 4;
	assert_int_equal(gt_parallel_virtual_ranks(&o, 4, 6), 2);
	o.reproducible = false;
	assert_int_equal(gt_parallel_virtual_ranks(&o, 4, 6), 1);
}

static void expect_error(struct gt_parallel_options o, int ranks, int batch, const char *want)
{
	struct gt_err err = GT_ERR_INIT;
	char text[sizeof(err.text)];

	o.reproducible = true;
	assert_int_equal(gt_parallel_check(&o, ranks, batch, &err), GT_EINVAL);
	gt_option_names_render(text, sizeof(text), err.text, "");
	if (!strstr(text, want) || strncmp(text, "reproducible", 12))
		fail_msg("%s", text);
}

static void test_impossible(void **state)
{
	(void)state;
	expect_error((struct gt_parallel_options){ 0 }, 3, 4, "takes 1, 2 or 4 ranks");
	expect_error((struct gt_parallel_options){ 0 }, 16, 4, "takes 1, 2, 4 or 8 ranks");
	expect_error(
	    (struct gt_parallel_options){ 0 }, 5, 3, "takes 1 rank for a global batch of 15");
	expect_error((struct gt_parallel_options){ .tensor = 2 }, 6, 4,
	    "3 ranks for each part of the model; it takes 1, 2 or 4 ranks");
	expect_error((struct gt_parallel_options){ .stages = 2, .chunks = 2 }, 2, 4,
	    "cannot be combined with chunks");
	expect_error((struct gt_parallel_options){ .own_buffers = true }, 2, 4,
	    "cannot be combined with broadcast-buffers=no");
	expect_error((struct gt_parallel_options){ .micro_batches = 4 }, 4, 16, "in 2 parts");
	expect_error((struct gt_parallel_options){ .micro_batches = 12 }, 1, 1, "in 4 parts");
	expect_error(
	    (struct gt_parallel_options){ .micro_batches = 65536 }, 1, 65536, "in 8 parts");
	expect_error((struct gt_parallel_options){ .micro_batches = 12 }, 3, 2,
	    "takes 1, 2, 4 or 8 ranks for a global batch of 72");
	expect_error((struct gt_parallel_options){ .micro_batches = 2, .sync_bn = true }, 2, 4,
	    "with accumulate cannot be combined with sync-bn");
	expect_error((struct gt_parallel_options){ .micro_batches = 2, .kind = GT_PARALLEL_ZERO3 },
	    2, 4, "with accumulate cannot be combined with parallel zero3");
	expect_error((struct gt_parallel_options){ .compress = GT_COMPRESS_BF16 }, 2, 4,
	    "cannot be combined with compress");
}

/* --reproducible promises bits that do not depend on the number of ranks. */
static void unordered_sums_are_refused(void **state)
{
	const struct gt_group_ops ops = { .name = "ring" };
	const struct gt_parallel_options options = { .reproducible = true };
	struct gt_group world = { &ops, 0, 2, 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_parallel *p;

	(void)state;
	assert_int_equal(gt_parallel_new(&p, &options, &world, &err), GT_ENOTSUP);
	assert_null(p);
	assert_non_null(strstr(err.text, "order of sums over 'ring'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_are_updated_once),
		cmocka_unit_test(collectives_take_all_copies),
		cmocka_unit_test(sums_must_be_of_one_run),
		cmocka_unit_test(copies_in_an_order),
		cmocka_unit_test(only_sums_are_added_up),
		cmocka_unit_test(collectives_take_no_order),
		cmocka_unit_test(virtual_ranks),
		cmocka_unit_test(test_impossible),
		cmocka_unit_test(unordered_sums_are_refused),
	};

	return cmocka_run_group_tests_name("virtual", tests, NULL, NULL);
}
