/* products.c - matrix products and convolutions as ONNX. */
#include "lib/graph/ops/infer.h"
#include "lib/model/onnx/inside.h"

/* Return a value as a matrix: all dimensions but the last one are one. */
static const char *name_matrix(struct gt_onnx_export *x, const struct gt_value *v)
{
	const struct gt_onnx_shape from = gt_onnx_shape_of(x, v);
	struct gt_onnx_shape to = { .ndim = 2 };

	to.dims[0] = gt_onnx_fixed(1);
	for (int i = 0; i < v->ndim - 1; i++) {
		to.dims[0].factor *= from.dims[i].factor;
		to.dims[0].batch += from.dims[i].batch;
		to.dims[0].time += from.dims[i].time;
	}
	to.dims[1] = from.dims[v->ndim - 1];
	return gt_onnx_reshape(x, gt_onnx_name(x, v), &from, &to);
}

/* Swap the last two dimensions. */
static const char *swap_last(struct gt_onnx_export *x, const char *a, int ndim)
{
	int64_t order[GT_MAX_DIMS];

	for (int i = 0; i < ndim; i++)
		order[i] = i;
	order[ndim - 2] = ndim - 1;
	order[ndim - 1] = ndim - 2;
	return gt_onnx_transpose(x, a, ndim, order);
}

/* Gemm takes matrices alone, and MatMul does not transpose. A weight is transposed by a node of its
 * own, which programs compute once: so it keeps its name and its shape. */
void gt_onnx_matmul(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_value *a = n->in[0], *bias = n->in[2];
	bool trans_a = n->attrs.matmul.trans_a, trans_b = n->attrs.matmul.trans_b;
	const struct gt_onnx_attribute attributes[] = { GT_ONNX_ATTR_INT("transA", trans_a),
		GT_ONNX_ATTR_INT("transB", trans_b), { 0 } };
	const char *b = name_matrix(x, n->in[1]), *y;

	if (a->ndim == 2 || trans_a) {
		y = gt_onnx_call(x, "Gemm", attributes, bias ? 3 : 2,
		    (const char *[]){ name_matrix(x, a), b, bias ? gt_onnx_name(x, bias) : "" });
	} else {
		b = trans_b ? swap_last(x, b, 2) : b;
		y = gt_onnx_binary(x, "MatMul", gt_onnx_name(x, a), b);
		y = bias ? gt_onnx_binary(x, "Add", y, gt_onnx_name(x, bias)) : y;
	}
	gt_onnx_set(x, n->out[0], y);
}

void gt_onnx_batched_matmul(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *a = gt_onnx_name(x, n->in[0]), *b = gt_onnx_name(x, n->in[1]);

	a = n->attrs.matmul.trans_a ? swap_last(x, a, n->in[0]->ndim) : a;
	b = n->attrs.matmul.trans_b ? swap_last(x, b, n->in[1]->ndim) : b;
	gt_onnx_set(x, n->out[0], gt_onnx_binary(x, "MatMul", a, b));
}

/* The attributes of a convolution. */
struct conv_attributes {
	int64_t kernel[2], strides[2], dilations[2], pads[4], more[2];
	struct gt_onnx_attribute list[7];
};

static void list_conv(struct conv_attributes *c, const struct gt_node *n)
{
	const struct gt_window *w = &n->attrs.conv.window;

	for (int i = 0; i < 2; i++) {
		c->kernel[i] = w->kernel[i];
		c->strides[i] = w->stride[i];
		c->dilations[i] = w->dilation[i];
		c->pads[i] = c->pads[2 + i] = w->pad[i];
	}
	c->list[0] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INTS("kernel_shape", 2, c->kernel);
	c->list[1] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INTS("strides", 2, c->strides);
	c->list[2] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INTS("dilations", 2, c->dilations);
	c->list[3] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INTS("pads", 4, c->pads);
	c->list[4] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INT("group", n->attrs.conv.groups);
	c->list[5] = (struct gt_onnx_attribute){ 0 };
}

void gt_onnx_conv(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *in[] = { gt_onnx_name(x, n->in[0]), gt_onnx_name(x, n->in[1]),
		n->in[2] ? gt_onnx_name(x, n->in[2]) : "" };
	struct conv_attributes c;

	list_conv(&c, n);
	gt_onnx_set(x, n->out[0], gt_onnx_call(x, "Conv", c.list, n->in[2] ? 3 : 2, in));
}

void gt_onnx_conv_transpose(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *in[] = { gt_onnx_name(x, n->in[0]), gt_onnx_name(x, n->in[1]) };
	const struct gt_window *w = &n->attrs.conv.window;
	struct conv_attributes c;

	list_conv(&c, n);
	/* Rows and columns at the end that the plain size lacks. */
	for (int i = 0; i < 2; i++)
		c.more[i] = n->out[0]->shape[2 + i] - (n->in[0]->shape[2 + i] - 1) * w->stride[i] +
		            2 * (int64_t)w->pad[i] - (w->kernel[i] - 1) * w->dilation[i] - 1;
	c.list[5] = (struct gt_onnx_attribute)GT_ONNX_ATTR_INTS("output_padding", 2, c.more);
	c.list[6] = (struct gt_onnx_attribute){ 0 };
	gt_onnx_set(x, n->out[0], gt_onnx_call(x, "ConvTranspose", c.list, 2, in));
}
