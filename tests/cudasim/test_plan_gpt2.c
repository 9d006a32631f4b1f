/* test_plan_gpt2.c - launches and bytes moved of the plan of a large model on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/train/train.h"

/*
 * Plans are made and never run, so they take no memory. The GPU has next to none here, so that
 * products are not timed either: their first algorithm is taken, and of the head's two ways
 * exponentials (linear_cross_entropy.cu).
 */
static json_t *plan(const struct gt_train_options *given)
{
	struct gt_train_options options = *given;
	struct gt_log silent = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_err err = GT_ERR_INIT;
	struct gt_train *t;
	json_t *out;

	if (gt_train_open(&t, &options, true, &silent, &err))
		fail_msg("%s", err.text);
	out = gt_train_describe(t, &err);
	if (!out)
		fail_msg("%s", err.text);
	gt_train_close(t);
	return out;
}

static double number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void print_parts(const json_t *list)
{
	const json_t *part;
	size_t i;

	json_array_foreach(list, i, part)
	    print_message("%-24s %4.0f nodes %4.0f launches %8.3f GB %9.3f GFLOP\n",
	        json_string_value(json_object_get(part, "name")), number(part, "nodes"),
	        number(part, "launches"), number(part, "bytes") / 1e9, number(part, "flops") / 1e9);
}

/* Launches of a block: of one of them on average, and the most. */
static double launches_of_blocks(const json_t *plan, double *max)
{
	const json_t *blocks = json_object_get(plan, "model_blocks"), *block;
	double sum = 0;
	size_t i;

	assert_true(json_array_size(blocks) == 12);
	*max = 0;
	json_array_foreach(blocks, i, block)
	{
		sum += number(block, "launches");
		*max = fmax(*max, number(block, "launches"));
	}
	return sum / (double)json_array_size(blocks);
}

/*
 * GPT-2 of 124M parameters, 16 x 1024 tokens, bfloat16. A step has to move, in GB, if each tensor
 * has 16 bits and everything is fused that could be:
 *
 *   products of the blocks                15.3      residual sums and norms   5.0
 *   the head's, logits moved 3 times       5.3      the embedding             0.15
 *   attention                              3.6      AdamW's update            3.7, not in the plan
 *
 * together 33.05, and here besides
 *
 *   2.4  for the input of GELU, which its gradient reads
 *   0.5  because the head's logits come in two chunks, each of which reads the weights and, but for
 *        the first, adds to their gradient
 *   0.4  for sums of rows of the head, and for rows that it multiplies by a number (exp_logits.cuh)
 *
 *   0.08 because the head's products are divided (product.h), since 50257 is ragged
 *
 * which makes 36.43. The bound is 1.1 times those 33.05, and besides the 0.08, which take 0.02 ms
 * of an H200's time. The bound of 20 launches is on average over the blocks: the first one has 21,
 * because it has a norm and its gradient besides, of an embedding's sum, which no product makes.
 */
static void gpt2_moves_few_bytes(void **state)
{
	const struct gt_train_options options = { .where.devices = "cuda",
		.model = "gpt2",
		.data = "random:,samples=64",
		.batch = 16,
		.accumulate = 1,
		.steps = 1,
		.amp = GT_AMP_BF16,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 1,
		.workers = 1 };
	const double update_gb = 3.7, divided_gb = 0.08;
	json_t *p = plan(&options);
	double gb = number(p, "bytes_per_step") / 1e9 + update_gb, max;
	double launches = launches_of_blocks(p, &max);

	(void)state;
	print_parts(json_object_get(p, "ops"));
	print_message("%.2f GB with the update, %.1f launches in a block (mean), at most %.0f\n",
	    gb, launches, max);
	assert_true(gb <= 1.1 * 33.05 + divided_gb);
	assert_true(launches <= 20);
	assert_true(max <= 21);
	json_decref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt2_moves_few_bytes),
	};

	setenv("CUDASIM_MEMORY", "1048576", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
