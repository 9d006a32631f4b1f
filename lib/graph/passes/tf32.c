/* tf32.c - float32 products on tensor cores, their factors rounded to TF32. */
#include <stddef.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * TF32 has the exponent of float32 and 10 of its 23 bits of mantissa. Where an op is marked, a
 * kernel may round float32 factors of its products so; it adds the products up in float32. This is
 * torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32. Types other than
 * float32 are left alone, those that mixed precision made among them. attention_cached is not
 * marked: it multiplies a single row by the keys, which is a matter of memory, not of products.
 *
 * The pass comes behind all others that make or fuse products.
 */
static const struct {
	const struct gt_op *op;
	size_t flag; /* offset of a bool in union gt_attrs */
} marks[] = {
	{ &gt_op_matmul, offsetof(union gt_attrs, matmul.tf32) },
	{ &gt_op_batched_matmul, offsetof(union gt_attrs, matmul.tf32) },
	{ &gt_op_matmul_gelu, offsetof(union gt_attrs, matmul.tf32) },
	{ &gt_op_matmul_gelu_grad, offsetof(union gt_attrs, matmul.tf32) },
	{ &gt_op_weight_grad, offsetof(union gt_attrs, matmul.tf32) },
	{ &gt_op_conv2d, offsetof(union gt_attrs, conv.tf32) },
	{ &gt_op_conv2d_input_grad, offsetof(union gt_attrs, conv.tf32) },
	{ &gt_op_conv2d_weight_grad, offsetof(union gt_attrs, conv.tf32) },
	{ &gt_op_attention, offsetof(union gt_attrs, attention.tf32) },
	{ &gt_op_attention_grad, offsetof(union gt_attrs, attention.tf32) },
	{ &gt_op_lstm, offsetof(union gt_attrs, recurrent.tf32) },
	{ &gt_op_lstm_grad, offsetof(union gt_attrs, recurrent.tf32) },
	{ &gt_op_gru, offsetof(union gt_attrs, recurrent.tf32) },
	{ &gt_op_gru_grad, offsetof(union gt_attrs, recurrent.tf32) },
	{ &gt_op_linear_cross_entropy, offsetof(union gt_attrs, head.tf32) },
};

static bool applies_tf32(const struct gt_pass_options *options)
{
	return options->precision.tf32;
}

static void mark(struct gt_node *n)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (n->op == marks[i].op && n->in[0]->dtype == GT_F32)
			*((bool *)&n->attrs + marks[i].flag) = true;
}

static int run_tf32(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	(void)options;
	(void)err;
	for (size_t i = 0; i < g->node_count; i++)
		mark(g->nodes[i]);
	return 0;
}

const struct gt_pass gt_pass_tf32 = {
	.name = "tf32",
	.purpose = "round the factors of float32 products to TF32, for tensor cores",
	.applies = applies_tf32,
	.run = run_tf32,
};
