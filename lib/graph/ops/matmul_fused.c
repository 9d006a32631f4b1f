/* matmul_fused.c - products fused with GELU, its gradient, bias gradients and casts. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/*
 * Products fused with other ops. The pass fuse_products emits these ops after the backward pass,
 * if the backend has kernels for them. So they need no gradients, and are not in gt_ops.
 *
 * matmul_gelu: p = the result of matmul, and y = gelu(p) in the tanh form (elementwise.c).
 *   in   as matmul
 *   out  y F;  p F like y (missing if no node reads it)
 * matmul_gelu_grad: y = (op(a) * op(b)) * gelu'(p). The product with gelu'(p) is element by
 * element.
 *   in   a, b as matmul;  p F like y     out  y F
 * weight_grad: y = a^T * b, and the gradient of a bias: the sums over the rows of a or of b.
 *   in   a F [..., M];  b F [..., N];  third input: a again, if the sums over the rows of a are
 *        wanted, optional;  fourth input: b again, if the sums over the rows of b are wanted,
 *        optional. At most one of the third and the fourth input may be given.
 *   out  y W [M, N];  sums W [M] or [N] (missing without a third or fourth input)
 */

static int infer_product(
    struct gt_node *n, struct gt_value *y, struct gt_value *bias, struct gt_err *err)
{
	struct gt_node product = { .attrs = n->attrs,
		.inputs = 3,
		.outputs = 1,
		.in = { n->in[0], n->in[1], bias },
		.out = { y } };

	return gt_op_matmul.infer(&product, err);
}

static double product_flops(const struct gt_node *n)
{
	return gt_op_matmul.flops(n);
}

static void print_product(const struct gt_node *n, FILE *f)
{
	gt_op_matmul.print(n, f);
}

static int matmul_gelu_infer(struct gt_node *n, struct gt_err *err)
{
	if (infer_product(n, n->out[0], n->in[2], err))
		return err->code;
	gt_infer_like(n->out[1], n->out[0]);
	return 0;
}

const struct gt_op gt_op_matmul_gelu = {
	.name = "matmul_gelu",
	.min_inputs = 2,
	.max_inputs = 3,
	.outputs = 2,
	.infer = matmul_gelu_infer,
	.print = print_product,
	.flops = product_flops,
	.product = true,
	.autocast = GT_AUTOCAST_LOW,
};

static int matmul_gelu_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (infer_product(n, n->out[0], NULL, err))
		return err->code;
	return gt_infer_same(n->out[0], n->in[2], "the input of gelu", err);
}

const struct gt_op gt_op_matmul_gelu_grad = {
	.name = "matmul_gelu_grad",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = matmul_gelu_grad_infer,
	.print = print_product,
	.flops = product_flops,
	.product = true,
	.autocast = GT_AUTOCAST_LOW,
};

static int weight_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *summed = n->in[n->in[2] ? 0 : 1];
	enum gt_dtype wide = gt_dtype_wide(n->in[0]->dtype);
	int64_t width = gt_value_last(summed);

	if (infer_product(n, n->out[0], NULL, err))
		return err->code;
	if (!n->attrs.matmul.trans_a)
		return gt_err_set(err, GT_EINVAL, "the left side is not transposed");
	n->out[0]->dtype = wide;
	if (n->in[2] || n->in[3])
		gt_infer_shape(n->out[1], wide, 1, &width);
	else
		n->out[1] = NULL;
	return 0;
}

const struct gt_op gt_op_weight_grad = {
	.name = "weight_grad",
	.min_inputs = 2,
	.max_inputs = 4,
	.outputs = 2,
	.infer = weight_grad_infer,
	.print = print_product,
	.flops = product_flops,
	.product = true,
	.autocast = GT_AUTOCAST_LOW,
};
