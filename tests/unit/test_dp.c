/* test_dp.c - the samples of each rank, and the graphs of ranks before and after dp's pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/shm/shm.h"
#include "lib/graph/pass.h"
#include "lib/model/model.h"
#include "lib/parallel/data/dp.h"

static const struct gt_shm_options patience = { .timeout_s = 60 };
static const struct gt_parallel_options dp = { .kind = GT_PARALLEL_DP, .bucket_bytes = 1 << 20 };

/* ---- torch.chunk ---- */

static void samples_are_dealt_out_as_torch_does(void **state)
{
	/* torch.arange(n).chunk(ranks) */
	static const struct {
		int samples, ranks, counts[5];
	} cases[] = {
		{ 12, 4, { 3, 3, 3, 3 } },
		{ 13, 3, { 5, 5, 3 } },
		{ 7, 4, { 2, 2, 2, 1 } },
		{ 5, 4, { 2, 2, 1, 0 } },
		{ 6, 4, { 2, 2, 2, 0 } },
		{ 1, 3, { 1, 0, 0 } },
		{ 9, 5, { 2, 2, 2, 2, 1 } },
		{ 5, 1, { 5 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int at = 0;

		for (int r = 0; r < cases[i].ranks; r++) {
			const struct gt_group group = { .rank = r, .size = cases[i].ranks };
			int first, count;

			gt_dp_part_of(&group, r, cases[i].samples, &first, &count);
			assert_int_equal(count, cases[i].counts[r]);
			assert_int_equal(first, at);
			at += count;
		}
		assert_int_equal(at, cases[i].samples);
	}
}

/* ---- the pass ---- */

static struct gt_graph *new_graph(int batch)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model_io io;
	struct gt_model *m;
	struct gt_graph *g = NULL;

	if (gt_model_open(&m, "mlp:4,2", &err) || gt_graph_new(&g, &err))
		fail_msg("%s", err.text);
	gt_model_preferred_input(m, &in);
	if (gt_model_build(m, g, &in, batch, GT_MODEL_TRAIN, &io, &err))
		fail_msg("%s", err.text);
	gt_model_close(m);
	return g;
}

static void expect(const struct gt_graph *g, const char *want)
{
	char *text = gt_graph_print(g, NULL);

	assert_string_equal(text, want);
	free(text);
}

/* Four samples on three ranks: two, two and none. */
static const struct {
	int batch;
	const char *text;
} after[] = {
	{ 2,
	    "broadcast_weights()  # dp\n"
	    "%10 float32[2,4] = scatter(input input)  # dp\n"
	    "%2 float32[2,4] = reshape(%10)\n"
	    "%5 float32[2,2] = matmul(%2, 0.weight, 0.bias) trans_b  # 0\n"
	    "%11 float32[4,2] = gather(%5)  # dp\n"
	    "output loss float32[], %13 float32[4] = cross_entropy(%11, input target, input weight)  # dp\n" },
	{ 2, "broadcast_weights()  # dp\n"
	     "%9 float32[2,4] = scatter()  # dp\n"
	     "%2 float32[2,4] = reshape(%9)\n"
	     "%5 float32[2,2] = matmul(%2, 0.weight, 0.bias) trans_b  # 0\n"
	     "output loss float32[] = gather(%5)  # dp\n" },
	{ 1, "broadcast_weights()  # dp\n"
	     "output loss float32[] = fill() 0  # dp\n" },
};

static void graphs_of_ranks(void **state)
{
	struct gt_group *groups[3];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_shm_of_threads(groups, 3, &patience, &err), 0);
	for (int r = 0; r < 3; r++) {
		struct gt_graph *g = new_graph(after[r].batch);
		struct gt_parallel *p;
		int first, count;

		assert_int_equal(gt_parallel_new(&p, &dp, groups[r], &err), 0);
		gt_parallel_part(p, 4, &first, &count);
		assert_int_equal(count ? count : 1, after[r].batch);
		if (r == 0)
			expect(g,
			    "%2 float32[2,4] = reshape(input input)\n"
			    "%5 float32[2,2] = matmul(%2, 0.weight, 0.bias) trans_b  # 0\n"
			    "output loss float32[], %8 float32[2] = cross_entropy(%5, input target, input weight)  # loss\n");
		if (gt_parallel_rewrite(p, g, &err) || gt_parallel_scatter(p, g, 4, &err))
			fail_msg("%s", err.text);
		expect(g, after[r].text);
		gt_graph_free(g);
		gt_parallel_free(p);
		gt_group_free(groups[r]);
	}
}

/* Gradients go the other way: scattered where logits were gathered, and zero where there were no
 * samples. */
static void gradients_of_ranks(void **state)
{
	static const char *const want[] = {
		"broadcast_weights()  # dp\n"
		"%10 float32[2,4] = scatter(input input)  # dp\n"
		"%2 float32[2,4] = reshape(%10)\n"
		"%5 float32[2,2] = matmul(%2, 0.weight, 0.bias) trans_b  # 0\n"
		"%11 float32[4,2] = gather(%5)  # dp\n"
		"output loss float32[], %13 float32[4] = cross_entropy(%11, input target, input weight)  # dp\n"
		"%14 float32[] = fill() 1  # dp\n"
		"%15 float32[4,2] = cross_entropy_grad(%14, %11, input target, %13, input weight)  # dp\n"
		"%16 float32[2,2] = scatter(%15)  # dp\n"
		"gradient of 0.weight float32[2,4] = matmul(%16, %2) trans_a  # 0\n"
		"gradient of 0.bias float32[2] = bias_grad(%16)  # 0\n",
		"broadcast_weights()  # dp\n"
		"%9 float32[2,4] = scatter()  # dp\n"
		"%2 float32[2,4] = reshape(%9)\n"
		"%5 float32[2,2] = matmul(%2, 0.weight, 0.bias) trans_b  # 0\n"
		"output loss float32[] = gather(%5)  # dp\n"
		"%11 float32[] = fill() 1  # dp\n"
		"%12 float32[2,2] = scatter(%11)  # dp\n"
		"gradient of 0.weight float32[2,4] = matmul(%12, %2) trans_a  # 0\n"
		"gradient of 0.bias float32[2] = bias_grad(%12)  # 0\n",
		"broadcast_weights()  # dp\n"
		"output loss float32[] = fill() 0  # dp\n"
		"gradient of 0.weight float32[2,4] = fill() 0  # dp\n"
		"gradient of 0.bias float32[2] = fill() 0  # dp\n",
	};
	struct gt_group *groups[3];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_shm_of_threads(groups, 3, &patience, &err), 0);
	for (int r = 0; r < 3; r++) {
		struct gt_graph *g = new_graph(after[r].batch);
		struct gt_pass_options options = { 0 };
		struct gt_parallel *p;

		assert_int_equal(gt_parallel_new(&p, &dp, groups[r], &err), 0);
		if (gt_parallel_scatter(p, g, 4, &err))
			fail_msg("%s", err.text);
		options.loss = gt_graph_find(g, "loss");
		if (gt_passes_run(g, &options, &err))
			fail_msg("%s", err.text);
		expect(g, want[r]);
		gt_graph_free(g);
		gt_parallel_free(p);
		gt_group_free(groups[r]);
	}
}

static void a_graph_without_a_loss_is_refused(void **state)
{
	struct gt_group *groups[2];
	struct gt_err err = GT_ERR_INIT;
	struct gt_graph *g = NULL;
	struct gt_parallel *p;

	(void)state;
	assert_int_equal(gt_shm_of_threads(groups, 2, &patience, &err), 0);
	assert_int_equal(gt_parallel_new(&p, &dp, groups[0], &err), 0);
	assert_int_equal(gt_graph_new(&g, &err), 0);
	assert_int_equal(gt_parallel_scatter(p, g, 4, &err), GT_ENOTSUP);
	gt_graph_free(g);
	gt_parallel_free(p);
	gt_group_free(groups[1]);
	gt_group_free(groups[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_dealt_out_as_torch_does),
		cmocka_unit_test(graphs_of_ranks),
		cmocka_unit_test(gradients_of_ranks),
		cmocka_unit_test(a_graph_without_a_loss_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
