/* op.c - the table of ops, and the cost of a node. */
#include "lib/graph/op.h"

#include "lib/graph/ops/ops.h"

const struct gt_op *const gt_ops[] = {
	&gt_op_matmul,
	&gt_op_batched_matmul,
	&gt_op_bias_add,
	&gt_op_bias_grad,
	&gt_op_conv2d,
	&gt_op_conv2d_input_grad,
	&gt_op_conv2d_weight_grad,
	&gt_op_layer_norm,
	&gt_op_layer_norm_grad,
	&gt_op_rms_norm,
	&gt_op_rms_norm_grad,
	&gt_op_add_layer_norm,
	&gt_op_add_layer_norm_grad,
	&gt_op_batch_norm,
	&gt_op_batch_norm_grad,
	&gt_op_batch_norm_eval,
	&gt_op_batch_norm_fold,
	&gt_op_batch_norm_moments,
	&gt_op_batch_norm_combine,
	&gt_op_batch_norm_apply,
	&gt_op_batch_norm_grad_sums,
	&gt_op_batch_norm_grad_apply,
	&gt_op_add,
	&gt_op_relu,
	&gt_op_relu_grad,
	&gt_op_gelu,
	&gt_op_gelu_grad,
	&gt_op_map,
	&gt_op_sum,
	&gt_op_softmax,
	&gt_op_softmax_grad,
	&gt_op_swiglu,
	&gt_op_swiglu_grad,
	&gt_op_dropout,
	&gt_op_fill,
	&gt_op_constant,
	&gt_op_copy,
	&gt_op_cast,
	&gt_op_decode,
	&gt_op_accumulate,
	&gt_op_reshape,
	&gt_op_view_bytes,
	&gt_op_reorder,
	&gt_op_arrange,
	&gt_op_subsample,
	&gt_op_subsample_grad,
	&gt_op_last_position,
	&gt_op_patch_tokens,
	&gt_op_patch_tokens_grad,
	&gt_op_image_normalize,
	&gt_op_max_pool2d,
	&gt_op_max_pool2d_grad,
	&gt_op_avg_pool2d,
	&gt_op_avg_pool2d_grad,
	&gt_op_resample,
	&gt_op_resample_grad,
	&gt_op_embedding,
	&gt_op_embedding_grad,
	&gt_op_position_grad,
	&gt_op_topk,
	&gt_op_index_gather,
	&gt_op_index_scatter,
	&gt_op_grouped_matmul,
	&gt_op_grouped_matmul_grad,
	&gt_op_rope,
	&gt_op_rope_grad,
	&gt_op_attention,
	&gt_op_attention_grad,
	&gt_op_attention_cached,
	&gt_op_lstm,
	&gt_op_lstm_grad,
	&gt_op_gru,
	&gt_op_gru_grad,
	&gt_op_cross_entropy,
	&gt_op_cross_entropy_grad,
	&gt_op_classify_stats,
	&gt_op_regression_loss,
	&gt_op_regression_loss_grad,
	&gt_op_regress_stats,
	&gt_op_linear_cross_entropy,
	&gt_op_log_sum_exp,
	&gt_op_exp_difference,
	&gt_op_add_log,
	&gt_op_pick,
	&gt_op_count_before,
	&gt_op_cross_entropy_sharded,
	&gt_op_classify_stats_sharded,
	NULL,
};

/* An input that is named twice is read once. */
static bool is_named_before(const struct gt_node *n, int input)
{
	for (int i = 0; i < input; i++)
		if (n->in[i] == n->in[input])
			return true;
	return false;
}

/* Return the bytes of an input. A lookup reads one row of the table per index, at most all rows. */
static double bytes_read(const struct gt_node *n, int input)
{
	double bytes = (double)gt_value_bytes(n->in[input]), rows;

	if (!(n->op->lookups >> input & 1))
		return bytes;
	rows = (double)gt_value_elements(n->out[0]) * (double)gt_dtype_size(n->in[input]->dtype);
	return rows < bytes ? rows : bytes;
}

void gt_node_cost(const struct gt_node *n, struct gt_cost *cost)
{
	*cost = (struct gt_cost){ 0 };
	if (n->op->view)
		return;
	for (int i = 0; i < n->inputs; i++)
		if (n->in[i] && !is_named_before(n, i))
			cost->bytes_read += bytes_read(n, i);
	for (int i = 0; i < n->outputs; i++)
		if (n->out[i])
			cost->bytes_written += (double)gt_value_bytes(n->out[i]);
	if (n->op->add_bytes)
		n->op->add_bytes(n, cost);
	if (n->op->flops)
		cost->flops = n->op->flops(n);
	else if (n->outputs && n->out[0])
		cost->flops = (double)gt_value_elements(n->out[0]);
}
