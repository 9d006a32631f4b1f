/* test_sync_bn.c - batch normalisation over ranks: the graph, and ranks beside one. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/data/sync_bn.h"
#include "tests/common/device.h"
#include "tests/common/model_ranks.h"

enum { SAMPLES = 12, SAMPLES_SIMULATED = 4, MOST = 4 };

/* ---- the pass ---- */

static struct gt_graph *training_graph(void)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	const int64_t two = 2;
	struct gt_pass_options options = { .images = GT_CHANNELS_LAST };
	struct gt_err err = GT_ERR_INIT;
	struct gt_value *x, *f, *w, *b, *m, *v, *n;
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, &err), 0);
	x = gt_input(g, "x", GT_F32, 4, (int64_t[]){ 1, 2, 1, 2 });
	f = gt_parameter(g, "f", GT_F32, 4, (int64_t[]){ 2, 2, 1, 1 }, zeros, true);
	w = gt_parameter(g, "w", GT_F32, 1, &two, zeros, true);
	b = gt_parameter(g, "b", GT_F32, 1, &two, zeros, true);
	m = gt_buffer(g, "m", GT_F32, 1, &two, zeros);
	v = gt_buffer(g, "v", GT_F32, 1, &two, zeros);
	n = gt_buffer(g, "n", GT_I64, 0, NULL, zeros);
	x = gt_conv2d(g, x, f, NULL, gt_conv_square(1, 0));
	x = gt_relu(g, gt_batch_norm(g, x, w, b, m, v, n, 1e-5, 0.1));
	w = gt_input(g, "p", GT_F32, 2, (int64_t[]){ 4, 1 });
	x = gt_reshape(g, x, 2, (int64_t[]){ 1, 4 });
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
static const char before[] =
    "%25 float32[1,2,1,2] channels-last = reorder(input x)\n"
    "%7 float32[1,2,1,2] channels-last = conv2d(%25, f) stride=1 pad=0\n"
    "%11 float32[1,2,1,2] channels-last, %9 float32[2], %10 float32[2] = "
    "batch_norm(%7, w, b, buffer m, buffer v, buffer n) relu\n"
    "%26 float32[1,2,1,2] = reorder(%11)\n"
    "%13 float32[1,4] = reshape(%26)\n"
    "%14 float32[1,1] = matmul(%13, input p)\n"
    "output loss float32[] = reshape(%14)\n"
    "%16 float32[] = fill() 1\n"
    "%17 float32[1,1] = reshape(%16)\n"
    "%18 float32[1,4] = matmul(%17, input p) trans_b\n"
    "%19 float32[1,2,1,2] = reshape(%18)\n"
    "%27 float32[1,2,1,2] channels-last = reorder(%19)\n"
    "%20 float32[1,2,1,2] channels-last, gradient of w float32[2], "
    "gradient of b float32[2] = batch_norm_grad(%27, %7, w, %9, %10, %11) relu\n"
    "gradient of f float32[2,2,1,1] = conv2d_weight_grad(%25, %20) "
    "stride=1 pad=0\n";
static const char after[] =
    "%25 float32[1,2,1,2] channels-last = reorder(input x)\n"
    "%7 float32[1,2,1,2] channels-last = conv2d(%25, f) stride=1 pad=0\n"
    "%29 float64[5] = batch_norm_moments(%7)\n"
    "%30 float64[3,5] = all_gather(%29) axis=data\n"
    "%9 float32[2], %10 float32[2] = batch_norm_combine(buffer m, buffer "
    "v, buffer n, %30)\n"
    "%11 float32[1,2,1,2] channels-last = batch_norm_apply(%7, w, b, %9, "
    "%10) relu\n"
    "%26 float32[1,2,1,2] = reorder(%11)\n"
    "%13 float32[1,4] = reshape(%26)\n"
    "%14 float32[1,1] = matmul(%13, input p)\n"
    "output loss float32[] = reshape(%14)\n"
    "%16 float32[] = fill() 1\n"
    "%17 float32[1,1] = reshape(%16)\n"
    "%18 float32[1,4] = matmul(%17, input p) trans_b\n"
    "%19 float32[1,2,1,2] = reshape(%18)\n"
    "%27 float32[1,2,1,2] channels-last = reorder(%19)\n"
    "%33 float64[5], gradient of w float32[2], gradient of b float32[2] = "
    "batch_norm_grad_sums(%27, %7, %9, %10, %11) relu\n"
    "%37 float64[5] = all_reduce(%33) axis=data\n"
    "%20 float32[1,2,1,2] channels-last = batch_norm_grad_apply(%27, %7, "
    "w, %9, %10, %37, %11) relu\n"
    "gradient of f float32[2,2,1,1] = conv2d_weight_grad(%25, %20) "
    "stride=1 pad=0\n";
/* clang-format on */

static void nodes_become_several(void **state)
{
	struct gt_graph *g = training_graph();
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	expect(g, before);
	assert_int_equal(gt_sync_bn(g, 1, &err), 0);
	expect(g, before);
	assert_int_equal(gt_sync_bn(g, 3, &err), 0);
	expect(g, after);
	gt_graph_free(g);
}

/* ---- ranks ---- */

static int step(struct model_rank *r)
{
	return model_rank_step(r, 1);
}

/* Two micro-batches whose gradients add up, which are sent once. */
static int two_micro_batches(struct model_rank *r)
{
	int rc;

	assert_int_equal(gt_optim_zero_grad(r->optim, &r->err), 0);
	r->goes_on = true;
	rc = model_rank_step(r, 0.5f);
	r->goes_on = false;
	return rc ? rc : model_rank_step(r, 0.5f);
}

/* Running means and variances, apart by less than `bound`; counters equal. */
static double statistics_apart(const struct model_rank *x, const struct model_rank *y)
{
	const struct gt_store *a = x->store, *b = y->store;
	double far = 0;

	for (size_t i = 0; i < a->slot_count; i++) {
		const struct gt_slot *s = &a->slots[i];

		if (s->role != GT_BUFFER)
			continue;
		if (s->dtype == GT_I64)
			model_ranks_expect_same(x, gt_store_data(a, s), y, gt_store_data(b, s), 8);
		else
			far = fmax(far, model_ranks_apart(x, gt_store_data(a, s), y,
			                    gt_store_data(b, s), s->count));
	}
	return far;
}

static void compare_with_one(int count, bool sync_bn, int (*then)(struct model_rank *r),
    double *gradients, double *statistics)
{
	const struct model_rank like = { .spec = "resnet20",
		.options = { .kind = GT_PARALLEL_DDP, .bucket_bytes = 1 << 18, .sync_bn = sync_bn },
		.samples = test_device_is_cpu() ? SAMPLES : SAMPLES_SIMULATED,
		.accumulate = then == two_micro_batches };
	struct model_rank ranks[MOST], one;

	model_ranks_run(ranks, count, &like, then);
	model_ranks_expect_well(ranks, count);
	model_ranks_run(&one, 0, &like, then);
	model_ranks_expect_well(&one, 0);
	*gradients = model_ranks_apart(ranks, ranks->store->gradients->memory, &one,
	    one.store->gradients->memory, one.store->flat_count);
	*statistics = statistics_apart(ranks, &one);
	for (int i = 1; i < count; i++)
		if (sync_bn)
			model_ranks_expect_same(ranks, ranks->store->buffers->memory, &ranks[i],
			    ranks[i].store->buffers->memory, one.store->buffers->elements);
	model_ranks_close(ranks, count);
	model_ranks_close(&one, 0);
}

/*
 * 19 normalisations in a row: a difference in the last bit, from rounding a mean in another order,
 * grows on its way through them.
 */
static void ranks_have_the_statistics_of_one(void **state)
{
	(void)state;
	/* Simulated GPUs are slow: only the most ranks, and fewer samples. */
	for (int count = test_device_is_cpu() ? 1 : MOST; count <= MOST; count++) {
		double gradients, statistics;

		compare_with_one(count, true, step, &gradients, &statistics);
		if (!(gradients <= 2e-5 && statistics <= 2e-6))
			fail_msg("%d ranks: gradients are apart by %g, statistics by %g", count,
			    gradients, statistics);
	}
}

static void every_micro_batch_has_its_own(void **state)
{
	double gradients, statistics;

	(void)state;
	compare_with_one(2, true, two_micro_batches, &gradients, &statistics);
	if (!(gradients <= 2e-5 && statistics <= 2e-6))
		fail_msg("gradients are apart by %g, statistics by %g", gradients, statistics);
}

/* So that the tests above can fail. */
static void without_it_ranks_differ(void **state)
{
	double gradients, statistics;

	(void)state;
	test_device_host_only();
	compare_with_one(2, false, step, &gradients, &statistics);
	assert_true(gradients > 1e-2 && statistics > 1e-2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_become_several),
		cmocka_unit_test(ranks_have_the_statistics_of_one),
		cmocka_unit_test(every_micro_batch_has_its_own),
		cmocka_unit_test(without_it_ranks_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
