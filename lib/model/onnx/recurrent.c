/* recurrent.c - LSTMs and GRUs as ONNX, whose gates have another order. */
#include "lib/model/onnx/inside.h"

/*
 * An op of the graph has the product of all inputs with w_ih, plus b_ih, as its first input (see
 * recurrent_ops.c). The operators of ONNX compute this product themselves. So the node that makes
 * it is not written, and its factors are the operator's.
 *
 *   LSTM   PyTorch's i, f, g, o are ONNX's i, o, f, c
 *   GRU    PyTorch's r, z, n are ONNX's z, r, h
 */
enum { MAX_GATES = 4 };

static const int lstm_order[] = { 0, 3, 1, 2 }, gru_order[] = { 1, 0, 2 };

void gt_onnx_mark_recurrent(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_node *product = n->in[0]->producer;

	for (int i = 1; i < n->inputs; i++)
		gt_onnx_need(x, n->in[i]);
	for (int i = 0; i < 3; i++)
		gt_onnx_need(x, product ? product->in[i] : NULL);
}

/* Return the blocks of rows of a weight or bias, one per gate, in ONNX's order. */
static const char *order_gates(
    struct gt_onnx_export *x, const struct gt_value *v, int gates, const int *order)
{
	const char *parts[MAX_GATES], *ordered[MAX_GATES];
	int64_t sizes[MAX_GATES];

	for (int i = 0; i < gates; i++)
		sizes[i] = v->shape[0] / gates;
	gt_onnx_split(x, gt_onnx_name(x, v), 0, gates, sizes, parts);
	for (int i = 0; i < gates; i++)
		ordered[i] = parts[order[i]];
	return gt_onnx_concat(x, gates, ordered, 0);
}

/* Return both biases of the gates, behind each other: [1, 2 * gates * H]. */
static const char *join_biases(struct gt_onnx_export *x, const struct gt_value *const *bias,
    struct gt_onnx_size columns, int gates, const int *order)
{
	const char *parts[2];

	if (!bias[0] && !bias[1])
		return "";
	for (int i = 0; i < 2; i++)
		parts[i] = bias[i] ? order_gates(x, bias[i], gates, order)
		                   : gt_onnx_expand(x, gt_onnx_number(x, GT_F32, 0),
		                         &(struct gt_onnx_shape){ 1, { columns } });
	return gt_onnx_unsqueeze(x, gt_onnx_concat(x, 2, parts, 0), 0);
}

/* Return the last state [1, B, H] as a state of every step: [B, T, H]. The graph reads no cell but
 * the last one (recurrent.c), so it need not be told from the others. */
static const char *repeat_last(struct gt_onnx_export *x, const struct gt_value *v, const char *last)
{
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, v);

	last = gt_onnx_transpose(x, last, 3, (const int64_t[]){ 1, 0, 2 });
	return gt_onnx_expand(x, last, &shape);
}

static void write_recurrent(struct gt_onnx_export *x, const struct gt_node *n, const char *op,
    int gates, const int *order, int states)
{
	const struct gt_node *product = n->in[0]->producer;
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, n->in[0]);
	const char *in[7] = { NULL, NULL, NULL, NULL, "", "", "" }, *out[3] = { NULL };
	const char *direction = n->attrs.recurrent.reverse ? "reverse" : "forward";
	const struct gt_onnx_attribute attributes[] = {
		GT_ONNX_ATTR_INT("hidden_size", n->out[0]->shape[2]),
		GT_ONNX_ATTR_TEXT("direction", direction),
		{ .name = states == 1 ? "linear_before_reset" : NULL,
		    .kind = GT_ONNX_INT,
		    .integer = 1 },
		{ 0 },
	};
	const struct gt_value *biases[] = { product ? product->in[2] : NULL, n->in[2] };

	if (!product || product->op != &gt_op_matmul || !product->attrs.matmul.trans_b) {
		gt_onnx_fail(x, "an input that is not a product with the input's weight");
		return;
	}
	in[0] =
	    gt_onnx_transpose(x, gt_onnx_name(x, product->in[0]), 3, (const int64_t[]){ 1, 0, 2 });
	in[1] = gt_onnx_unsqueeze(x, order_gates(x, product->in[1], gates, order), 0);
	in[2] = gt_onnx_unsqueeze(x, order_gates(x, n->in[1], gates, order), 0);
	in[3] = join_biases(x, biases, shape.dims[2], gates, order);
	for (int i = 0; i < states; i++)
		if (n->in[3 + i])
			in[5 + i] = gt_onnx_unsqueeze(x, gt_onnx_name(x, n->in[3 + i]), 0);
	gt_onnx_call_many(x, op, attributes, 5 + states, in, 1 + states, out);
	gt_onnx_set(x, n->out[0],
	    gt_onnx_transpose(x, gt_onnx_squeeze(x, out[0], 1), 3, (const int64_t[]){ 1, 0, 2 }));
	if (states == 2 && x->needed[n->out[1]->id])
		gt_onnx_set(x, n->out[1], repeat_last(x, n->out[1], out[2]));
}

void gt_onnx_lstm(struct gt_onnx_export *x, const struct gt_node *n)
{
	write_recurrent(x, n, "LSTM", 4, lstm_order, 2);
}

void gt_onnx_gru(struct gt_onnx_export *x, const struct gt_node *n)
{
	write_recurrent(x, n, "GRU", 3, gru_order, 1);
}
