/* aten.c - the functions of PyTorch that exported networks may call, one row each. */
#include <string.h>

#include "lib/model/import/aten.h"

/*
 * A row has the name of a function of torch.ops.aten with its overload, and the function that emits
 * it. Names of arguments and their defaults are those of PyTorch's native_functions.yaml.
 */

const struct gt_aten gt_aten_rows[] = {
	{ "__and__.Tensor", gt_aten_binary, GT_F_MUL },
	{ "abs.default", gt_aten_unary, GT_F_ABS },
	{ "adaptive_avg_pool1d.default", gt_aten_adaptive_avg_pool1d, 0 },
	{ "adaptive_avg_pool2d.default", gt_aten_adaptive_avg_pool2d, 0 },
	{ "add.Scalar", gt_aten_sum_of_two, GT_F_ADD },
	{ "add.Tensor", gt_aten_sum_of_two, GT_F_ADD },
	{ "addcmul.default", gt_aten_addcmul, 0 },
	{ "addmm.default", gt_aten_addmm, 0 },
	{ "alias.default", gt_aten_same, 0 },
	{ "avg_pool1d.default", gt_aten_avg_pool1d, 0 },
	{ "avg_pool2d.default", gt_aten_avg_pool2d, 0 },
	{ "baddbmm.default", gt_aten_baddbmm, 0 },
	{ "batch_norm.default", gt_aten_batch_norm, 0 },
	{ "bernoulli.float", gt_aten_bernoulli, 0 },
	{ "bitwise_not.default", gt_aten_unary, GT_F_NOT },
	{ "bmm.default", gt_aten_bmm, 0 },
	{ "cat.default", gt_aten_cat, 0 },
	{ "chunk.default", gt_aten_chunk, 0 },
	{ "clamp.default", gt_aten_clamp, 0 },
	{ "clone.default", gt_aten_clone, 0 },
	{ "contiguous.default", gt_aten_same, 0 },
	{ "conv1d.default", gt_aten_conv1d, 0 },
	{ "conv2d.default", gt_aten_conv2d, 0 },
	{ "conv_transpose2d.input", gt_aten_conv_transpose2d, 0 },
	{ "cos.default", gt_aten_unary, GT_F_COS },
	{ "div.Scalar", gt_aten_binary, GT_F_DIV },
	{ "div.Tensor", gt_aten_binary, GT_F_DIV },
	{ "dropout.default", gt_aten_dropout, 0 },
	{ "einsum.default", gt_aten_einsum, 0 },
	{ "elu.default", gt_aten_elu, 0 },
	{ "embedding.default", gt_aten_embedding, 0 },
	{ "eq.Scalar", gt_aten_binary, GT_F_EQ },
	{ "eq.Tensor", gt_aten_binary, GT_F_EQ },
	{ "erf.default", gt_aten_unary, GT_F_ERF },
	{ "exp.default", gt_aten_unary, GT_F_EXP },
	{ "expand.default", gt_aten_expand, 0 },
	{ "expand_as.default", gt_aten_expand_as, 0 },
	{ "expm1.default", gt_aten_unary, GT_F_EXPM1 },
	{ "flatten.using_ints", gt_aten_flatten, 0 },
	{ "flip.default", gt_aten_flip, 0 },
	{ "ge.Scalar", gt_aten_swapped, GT_F_LE },
	{ "ge.Tensor", gt_aten_swapped, GT_F_LE },
	{ "gelu.default", gt_aten_gelu, 0 },
	{ "group_norm.default", gt_aten_group_norm, 0 },
	{ "gt.Scalar", gt_aten_swapped, GT_F_LT },
	{ "gt.Tensor", gt_aten_swapped, GT_F_LT },
	{ "hardsigmoid.default", gt_aten_hardsigmoid, 0 },
	{ "hardswish.default", gt_aten_unary, GT_F_HARDSWISH },
	{ "hardtanh.default", gt_aten_hardtanh, 0 },
	{ "index.Tensor", gt_aten_index, 0 },
	{ "index_select.default", gt_aten_index_select, 0 },
	{ "layer_norm.default", gt_aten_layer_norm, 0 },
	{ "le.Scalar", gt_aten_binary, GT_F_LE },
	{ "le.Tensor", gt_aten_binary, GT_F_LE },
	{ "leaky_relu.default", gt_aten_leaky_relu, 0 },
	{ "linalg_vector_norm.default", gt_aten_vector_norm, 0 },
	{ "linear.default", gt_aten_linear, 0 },
	{ "log.default", gt_aten_unary, GT_F_LOG },
	{ "log1p.default", gt_aten_unary, GT_F_LOG1P },
	{ "log_softmax.int", gt_aten_log_softmax, 0 },
	{ "logical_not.default", gt_aten_unary, GT_F_NOT },
	{ "lt.Scalar", gt_aten_binary, GT_F_LT },
	{ "lt.Tensor", gt_aten_binary, GT_F_LT },
	{ "masked_fill.Scalar", gt_aten_masked_fill, 0 },
	{ "masked_fill.Tensor", gt_aten_masked_fill, 0 },
	{ "matmul.default", gt_aten_matmul, 0 },
	{ "max.other", gt_aten_binary, GT_F_MAX },
	{ "max_pool1d.default", gt_aten_max_pool1d, 0 },
	{ "max_pool2d.default", gt_aten_max_pool2d, 0 },
	{ "maximum.default", gt_aten_binary, GT_F_MAX },
	{ "mean.default", gt_aten_mean, 0 },
	{ "mean.dim", gt_aten_mean, 0 },
	{ "min.other", gt_aten_binary, GT_F_MIN },
	{ "minimum.default", gt_aten_binary, GT_F_MIN },
	{ "mish.default", gt_aten_mish, 0 },
	{ "mul.Scalar", gt_aten_binary, GT_F_MUL },
	{ "mul.Tensor", gt_aten_binary, GT_F_MUL },
	{ "ne.Scalar", gt_aten_binary, GT_F_NE },
	{ "ne.Tensor", gt_aten_binary, GT_F_NE },
	{ "neg.default", gt_aten_unary, GT_F_NEG },
	{ "pad.default", gt_aten_pad, 0 },
	{ "permute.default", gt_aten_permute, 0 },
	{ "pow.Scalar", gt_aten_pow, 0 },
	{ "pow.Tensor_Scalar", gt_aten_pow, 0 },
	{ "pow.Tensor_Tensor", gt_aten_pow, 0 },
	{ "reciprocal.default", gt_aten_reciprocal, 0 },
	{ "relu.default", gt_aten_relu, 0 },
	{ "reshape.default", gt_aten_reshape, 0 },
	{ "reshape_as.default", gt_aten_reshape_as, 0 },
	{ "roll.default", gt_aten_roll, 0 },
	{ "rsqrt.default", gt_aten_unary, GT_F_RSQRT },
	{ "rsub.Scalar", gt_aten_reverse_difference, 0 },
	{ "scaled_dot_product_attention.default", gt_aten_attention, 0 },
	{ "select.int", gt_aten_select, 0 },
	{ "sigmoid.default", gt_aten_unary, GT_F_SIGMOID },
	{ "silu.default", gt_aten_unary, GT_F_SILU },
	{ "sin.default", gt_aten_unary, GT_F_SIN },
	{ "slice.Tensor", gt_aten_slice, 0 },
	{ "softmax.int", gt_aten_softmax, 0 },
	{ "softplus.default", gt_aten_softplus, 0 },
	{ "split.Tensor", gt_aten_split, 0 },
	{ "split_with_sizes.default", gt_aten_split_with_sizes, 0 },
	{ "sqrt.default", gt_aten_unary, GT_F_SQRT },
	{ "square.default", gt_aten_square, 0 },
	{ "squeeze.dim", gt_aten_squeeze, 0 },
	{ "stack.default", gt_aten_stack, 0 },
	{ "sub.Scalar", gt_aten_sum_of_two, GT_F_SUB },
	{ "sub.Tensor", gt_aten_sum_of_two, GT_F_SUB },
	{ "sum.default", gt_aten_sum, 0 },
	{ "sum.dim_IntList", gt_aten_sum, 0 },
	{ "swapaxes.default", gt_aten_swapaxes, 0 },
	{ "t.default", gt_aten_t, 0 },
	{ "tanh.default", gt_aten_unary, GT_F_TANH },
	{ "to.device", gt_aten_to, 0 },
	{ "to.dtype", gt_aten_to, 0 },
	{ "to.dtype_layout", gt_aten_to, 0 },
	{ "transpose.int", gt_aten_transpose, 0 },
	{ "type_as.default", gt_aten_to, 0 },
	{ "unbind.int", gt_aten_unbind, 0 },
	{ "unflatten.int", gt_aten_unflatten, 0 },
	{ "unsqueeze.default", gt_aten_unsqueeze, 0 },
	{ "view.default", gt_aten_view, 0 },
	{ "view_as.default", gt_aten_reshape_as, 0 },
	{ "where.ScalarOther", gt_aten_where, 0 },
	{ "where.ScalarSelf", gt_aten_where, 0 },
	{ "where.self", gt_aten_where, 0 },
	{ NULL, NULL, 0 },
};

bool gt_aten_names(const char *target, const char *row)
{
	const char *aten = "torch.ops.aten.";
	size_t length = strcspn(row, ".");

	if (strncmp(target, aten, strlen(aten)) != 0)
		return false;
	target += strlen(aten);
	if (strncmp(target, row, length) != 0)
		return false;
	target += length;
	return !strcmp(target + (*target == '_'), row + length);
}

const struct gt_aten *gt_aten_find(const char *target)
{
	for (const struct gt_aten *row = gt_aten_rows; row->name; row++)
		if (gt_aten_names(target, row->name))
			return row;
	return NULL;
}
