/* op_tolerances.c - how far the results of each op may be from exact ones. */
#include <string.h>

#include "tests/common/op_table.h"

/* Rounding to float32 is 6e-8 of a number; the error that an op adds to that: */
const struct op_tolerance op_tolerances[] = {
	{ "matmul", 1e-6, "sums of up to 131 rounded products" },
	{ "batched_matmul", 1e-6, "sums of up to 60 rounded products" },
	{ "conv2d", 1e-6, "sums of up to 162 rounded products" },
	{ "conv2d_input_grad", 1e-6, "as conv2d" },
	{ "bias_add", 5e-7, "one rounding; gradients of the bias are sums of 12 numbers" },
	{ "bias_grad", 5e-7, "a sum of 40 numbers" },
	{ "layer_norm", 1e-6, "statistics of 67 numbers; their difference from the mean cancels" },
	{ "add_layer_norm", 1e-6, "as layer_norm" },
	{ "rms_norm", 1e-6, "as layer_norm" },
	{ "swiglu", 1e-6, "an exponential and some products" },
	{ "rope", 3e-6, "an angle of up to 19 is rounded before its sine" },
	{ "batch_norm", 2e-6, "as layer_norm; rstd of 3 numbers magnifies their rounding" },
	{ "batch_norm_eval", 5e-7, "one multiply-add" },
	{ "batch_norm_fold", 2e-7, "a product, in double inside" },
	{ "batch_norm_moments", 1e-6, "as layer_norm" },
	{ "batch_norm_combine", 2e-7, "one rounding, in double inside" },
	{ "batch_norm_apply", 5e-7, "one multiply-add" },
	{ "batch_norm_grad_sums", 1e-6, "sums of up to 24 numbers" },
	{ "batch_norm_grad_apply", 5e-7, "two multiply-adds" },
	{ "add", 2e-7, "one rounding, and sums of the projection" },
	{ "relu", 0, "exact" },
	{ "gelu", 1e-6, "tanh and erf approximated to a few units in the last place" },
	{ "map", 1e-6,
	    "functions to a few units in the last place; gradients are sums of 30 numbers" },
	{ "sum", 5e-7, "a sum of 37 numbers, rounded" },
	{ "softmax", 1e-6, "exponentials of differences, and a sum of 131" },
	{ "dropout", 2e-7, "one rounding" },
	{ "copy", 0, "exact" },
	{ "cast", 2e-7, "the projection is float32 in one run and float64 in the other" },
	{ "decode", 0, "exact" },
	{ "fill", 0, "exact" },
	{ "constant", 0, "exact" },
	{ "reshape", 0, "exact" },
	{ "view_bytes", 0, "exact" },
	{ "reorder", 0, "exact" },
	{ "arrange", 2e-7, "gradients of an input that is named twice add up" },
	{ "subsample", 0, "exact" },
	{ "patch_tokens", 5e-7, "one sum; gradients add up over the batch" },
	{ "max_pool2d", 2e-7, "gradients of windows that overlap add up" },
	{ "avg_pool2d", 5e-7, "sums of up to 256 numbers" },
	{ "resample", 1e-6, "places in float32, as PyTorch computes them" },
	{ "embedding", 5e-7, "one sum; gradients of repeated ids add up" },
	{ "embedding_grad", 5e-7, "a sum of 10 numbers" },
	{ "topk", 0, "exact" },
	{ "index_gather", 5e-7, "gradients of repeated indices add up" },
	{ "index_scatter", 5e-7, "a sum of up to 7 numbers" },
	{ "grouped_matmul", 5e-7, "sums of 5 products" },
	{ "attention", 1e-6, "scores, exponentials and two sums in a row" },
	{ "attention_cached", 1e-6, "scores, exponentials and two sums in a row" },
	{ "lstm", 3e-6, "sums that each step makes of results of the step before" },
	{ "gru", 3e-6, "as lstm" },
	{ "last_position", 0, "exact" },
	{ "cross_entropy", 5e-7, "exponentials of differences from log-sum-exp" },
	{ "cross_entropy_sharded", 5e-7, "as cross_entropy" },
	{ "log_sum_exp", 5e-7, "a sum of 67 exponentials" },
	{ "exp_difference", 1e-12, "in float64" },
	{ "add_log", 2e-7, "one rounding, in float64 inside" },
	{ "pick", 5e-7, "a weighted sum of two logits, of mixtures; else exact" },
	{ "count_before", 0, "exact" },
	{ "classify_stats_sharded", 1e-7, "a sum in float64; counts are exact" },
	{ "classify_stats", 1e-7, "log-sum-exp; counts are exact" },
	{ "regression_loss", 5e-7, "a sum in float64, rounded once" },
	{ "regress_stats", 5e-7, "differences of rounded numbers" },
	{ "linear_cross_entropy", 1e-6, "logits of 8 products; gradients are sums of 37 numbers" },
	{ NULL, 0, NULL },
};

double op_tolerance_f32(const char *op)
{
	for (const struct op_tolerance *t = op_tolerances; t->op; t++)
		if (!strcmp(t->op, op))
			return t->f32;
	return 0;
}

/* How often results of an op are rounded. Twice, where a part reads rounded results: the gradients
 * of attention and of softmax, the norm of a sum, and the sum that is the gradient of an input that
 * map or batched_matmul broadcasts. The layers of a recurrent network read each other's results,
 * and sum up their products. */
static int roundings(const char *op)
{
	static const char *const twice[] = { "attention", "add_layer_norm", "map", "softmax",
		"batched_matmul" };

	if (!strcmp(op, "lstm") || !strcmp(op, "gru"))
		return 4;
	for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++)
		if (!strcmp(op, twice[i]))
			return 2;
	return 1;
}

double op_tolerance(const char *op, enum gt_dtype dtype)
{
	/* A result is rounded to half a unit in the last place of the largest element. */
	if (dtype == GT_BF16)
		return roundings(op) * 0x1p-8;
	if (dtype == GT_F16)
		return roundings(op) * 0x1p-11;
	return op_tolerance_f32(op);
}
