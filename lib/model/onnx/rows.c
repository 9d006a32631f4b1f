/* rows.c - the ops that can be written as ONNX, and those of them that are one operator. */
#include "lib/graph/arrangement.h"
#include "lib/graph/ops/infer.h"
#include "lib/model/onnx/inside.h"

static void write_unary(struct gt_onnx_export *x, const struct gt_node *n, const char *op)
{
	gt_onnx_set(x, n->out[0], gt_onnx_unary(x, op, gt_onnx_name(x, n->in[0])));
}

static void write_relu(struct gt_onnx_export *x, const struct gt_node *n)
{
	write_unary(x, n, "Relu");
}

static void write_add(struct gt_onnx_export *x, const struct gt_node *n)
{
	gt_onnx_set(x, n->out[0],
	    gt_onnx_binary(x, "Add", gt_onnx_name(x, n->in[0]), gt_onnx_name(x, n->in[1])));
}

static void write_gelu(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *in = gt_onnx_name(x, n->in[0]);
	const char *kind = n->attrs.gelu.kind == GT_GELU_TANH ? "tanh" : "none";

	gt_onnx_set(x, n->out[0],
	    gt_onnx_call(x, "Gelu",
	        (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_TEXT("approximate", kind), { 0 } }, 1,
	        &in));
}

static void write_swiglu(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *gate = gt_onnx_name(x, n->in[0]);

	gate = gt_onnx_binary(x, "Mul", gate, gt_onnx_unary(x, "Sigmoid", gate));
	gt_onnx_set(x, n->out[0], gt_onnx_binary(x, "Mul", gate, gt_onnx_name(x, n->in[1])));
}

static void write_same(struct gt_onnx_export *x, const struct gt_node *n)
{
	gt_onnx_set(x, n->out[0], gt_onnx_name(x, n->in[0]));
}

static void write_cast(struct gt_onnx_export *x, const struct gt_node *n)
{
	gt_onnx_set(x, n->out[0], gt_onnx_cast(x, gt_onnx_name(x, n->in[0]), n->attrs.cast.to));
}

static void write_reshape(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_shape from = gt_onnx_shape_of(x, n->in[0]);
	const struct gt_onnx_shape to = gt_onnx_shape_of(x, n->out[0]);

	gt_onnx_set(x, n->out[0], gt_onnx_reshape(x, gt_onnx_name(x, n->in[0]), &from, &to));
}

static void write_fill(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, n->out[0]);
	const char *number = gt_onnx_number(x, n->attrs.fill.dtype, n->attrs.fill.value);

	for (int k = 0; k < GT_ONNX_VARIANTS; k++)
		if (x->g[k] && x->g[k]->nodes[x->at]->attrs.fill.value != n->attrs.fill.value)
			gt_onnx_fail_varied(x, k == GT_ONNX_TIME);
	gt_onnx_set(x, n->out[0], shape.ndim ? gt_onnx_expand(x, number, &shape) : number);
}

static void write_constant(struct gt_onnx_export *x, const struct gt_node *n)
{
	gt_onnx_set(x, n->out[0], gt_onnx_constant(x, n));
}

static void write_sum(struct gt_onnx_export *x, const struct gt_node *n)
{
	int64_t axes[GT_MAX_DIMS];
	int count = 0;

	for (int i = 0; i < n->in[0]->ndim; i++)
		if (n->attrs.sum.dims >> i & 1)
			axes[count++] = i;
	if (!count) { /* ONNX takes no axes for all of them */
		write_same(x, n);
		return;
	}
	gt_onnx_set(x, n->out[0],
	    gt_onnx_call(x, "ReduceSum",
	        (struct gt_onnx_attribute[]){
	            GT_ONNX_ATTR_INT("keepdims", n->attrs.sum.keep), { 0 } },
	        2, (const char *[]){ gt_onnx_name(x, n->in[0]), gt_onnx_ints(x, count, axes) }));
}

static void write_softmax(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *in = gt_onnx_name(x, n->in[0]);

	gt_onnx_set(x, n->out[0],
	    gt_onnx_call(x, n->attrs.softmax.log ? "LogSoftmax" : "Softmax",
	        (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INT("axis", -1), { 0 } }, 1, &in));
}

static void write_layer_norm(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_attribute attributes[] = { GT_ONNX_ATTR_INT("axis", -1),
		GT_ONNX_ATTR_FLOAT("epsilon", (float)n->attrs.norm.eps), { 0 } };
	const char *in[3] = { NULL };

	for (int i = 0; i < 3; i++)
		in[i] = n->in[i] ? gt_onnx_name(x, n->in[i]) : "";
	gt_onnx_set(
	    x, n->out[0], gt_onnx_call(x, "LayerNormalization", attributes, n->in[2] ? 3 : 2, in));
}

/* The operator RMSNormalization is younger than the opset. */
static void write_rms_norm(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *in = gt_onnx_name(x, n->in[0]), *mean;
	const int64_t last = -1;

	mean = gt_onnx_binary(
	    x, "ReduceMean", gt_onnx_binary(x, "Mul", in, in), gt_onnx_ints(x, 1, &last));
	mean =
	    gt_onnx_binary(x, "Add", mean, gt_onnx_number(x, n->in[0]->dtype, n->attrs.norm.eps));
	mean = gt_onnx_binary(x, "Div", in, gt_onnx_unary(x, "Sqrt", mean));
	gt_onnx_set(x, n->out[0], gt_onnx_binary(x, "Mul", mean, gt_onnx_name(x, n->in[1])));
}

/* The inputs of a network that takes several are inputs of the model of ONNX (export.c). */
static void write_field(struct gt_onnx_export *x, const struct gt_node *n)
{
	(void)x;
	(void)n;
}

/* Ops without a row are those of training, of caches for generated text, and those that passes
 * emit. */
const struct gt_onnx_row gt_onnx_rows[] = {
	{ .op = &gt_op_matmul, .write = gt_onnx_matmul },
	{ .op = &gt_op_bias_add, .write = write_add },
	{ .op = &gt_op_batched_matmul, .write = gt_onnx_batched_matmul },
	{ .op = &gt_op_conv2d, .write = gt_onnx_conv },
	{ .op = &gt_op_conv2d_input_grad, .write = gt_onnx_conv_transpose },
	{ .op = &gt_op_max_pool2d, .write = gt_onnx_pool },
	{ .op = &gt_op_avg_pool2d, .write = gt_onnx_pool },
	{ .op = &gt_op_resample, .write = gt_onnx_resample },
	{ .op = &gt_op_subsample, .write = gt_onnx_subsample },
	{ .op = &gt_op_patch_tokens, .write = gt_onnx_patch_tokens },
	{ .op = &gt_op_batch_norm_eval, .write = gt_onnx_batch_norm },
	{ .op = &gt_op_layer_norm, .write = write_layer_norm },
	{ .op = &gt_op_rms_norm, .write = write_rms_norm },
	{ .op = &gt_op_add, .write = write_add },
	{ .op = &gt_op_relu, .write = write_relu },
	{ .op = &gt_op_gelu, .write = write_gelu },
	{ .op = &gt_op_swiglu, .write = write_swiglu },
	{ .op = &gt_op_map, .write = gt_onnx_map },
	{ .op = &gt_op_sum, .write = write_sum },
	{ .op = &gt_op_softmax, .write = write_softmax },
	{ .op = &gt_op_fill, .write = write_fill },
	{ .op = &gt_op_constant, .write = write_constant },
	{ .op = &gt_op_copy, .write = write_same },
	{ .op = &gt_op_image_normalize, .write = write_same }, /* the input of ONNX is normalized */
	{ .op = &gt_op_cast, .write = write_cast },
	{ .op = &gt_op_reshape, .write = write_reshape },
	{ .op = &gt_op_view_bytes, .write = write_field, .mark = write_field },
	{ .op = &gt_op_arrange, .write = gt_onnx_arrange },
	{ .op = &gt_op_embedding, .write = gt_onnx_embedding },
	{ .op = &gt_op_attention, .write = gt_onnx_attention },
	{ .op = &gt_op_rope, .write = gt_onnx_rope },
	{ .op = &gt_op_lstm, .write = gt_onnx_lstm, .mark = gt_onnx_mark_recurrent },
	{ .op = &gt_op_gru, .write = gt_onnx_gru, .mark = gt_onnx_mark_recurrent },
	{ .op = NULL },
};
