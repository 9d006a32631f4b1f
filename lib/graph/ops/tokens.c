/* tokens.c - images as rows of tokens, and the token that stands for the whole image. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int patch_tokens_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *token = n->in[1], *position = n->in[2];
	int64_t tokens;

	if (gt_infer_float(x, "the patches", 4, err) ||
	    gt_infer_float(token, "the token", 3, err) ||
	    gt_infer_float(position, "the positions", 3, err))
		return err->code;
	tokens = 1 + x->shape[2] * x->shape[3];
	if (token->dtype != x->dtype || token->shape[0] != 1 || token->shape[1] != 1 ||
	    token->shape[2] != x->shape[1])
		return gt_err_set(err, GT_EINVAL, "the token %s is no %s [1, 1, %lld]",
		    gt_shape_text(token).s, gt_dtype_name(x->dtype), (long long)x->shape[1]);
	if (position->dtype != x->dtype || position->shape[0] != 1 ||
	    position->shape[1] != tokens || position->shape[2] != x->shape[1])
		return gt_err_set(err, GT_EINVAL,
		    "positions %s are not those of %lld tokens of patches %s",
		    gt_shape_text(position).s, (long long)tokens, gt_shape_text(x).s);
	n->attrs.pool.in_height = x->shape[2];
	n->attrs.pool.in_width = x->shape[3];
	gt_infer_shape(n->out[0], x->dtype, 3, (int64_t[]){ x->shape[0], tokens, x->shape[1] });
	return 0;
}

static void patch_tokens_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_node *grad = gt_emit(g, &gt_op_patch_tokens_grad, &n->attrs, 1, d_out);

	for (int i = 0; grad && i < 3; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
}

/*
 * patch_tokens: turn an image of features into a sequence of tokens: first the learned class token,
 * then one token for each pixel of x. A learned position embedding is added to each token.
 *   in   x F [B, C, H, W];  token F [1, 1, C];  position F [1, 1 + H * W, C]
 *   out  y F [B, 1 + H * W, C]:  y[b, 0] = token + position[0];
 *        y[b, 1 + h * W + w] = x[b, :, h, w] + position[1 + h * W + w]
 * patch_tokens_grad:  in dy     out  dx;  dtoken;  dposition.  The last two are sums over b.
 * Source: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021, equation 1.
 */
const struct gt_op gt_op_patch_tokens = {
	.name = "patch_tokens",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = patch_tokens_infer,
	.grad = patch_tokens_grad,
	.lookups = 1u << 1 | 1u << 2, /* not multiplied */
	.image_in = 1u << 0,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_patch_tokens(
    struct gt_graph *g, struct gt_value *x, struct gt_value *token, struct gt_value *position)
{
	return gt_emit1(
	    g, &gt_op_patch_tokens, NULL, 3, (struct gt_value *[]){ x, token, position });
}

static int patch_tokens_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];
	int64_t height = n->attrs.pool.in_height, width = n->attrs.pool.in_width;

	if (gt_infer_float(dy, "the gradient", 3, err))
		return err->code;
	if (dy->shape[1] != 1 + height * width)
		return gt_err_set(err, GT_EINVAL,
		    "the gradient %s is not that of %lldx%lld patches", gt_shape_text(dy).s,
		    (long long)height, (long long)width);
	gt_infer_shape(
	    n->out[0], dy->dtype, 4, (int64_t[]){ dy->shape[0], dy->shape[2], height, width });
	gt_infer_shape(n->out[1], dy->dtype, 3, (int64_t[]){ 1, 1, dy->shape[2] });
	gt_infer_shape(n->out[2], dy->dtype, 3, (int64_t[]){ 1, dy->shape[1], dy->shape[2] });
	return 0;
}

static double patch_tokens_grad_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

const struct gt_op gt_op_patch_tokens_grad = {
	.name = "patch_tokens_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 3,
	.infer = patch_tokens_grad_infer,
	.flops = patch_tokens_grad_flops,
	.image_out = 1u << 0,
};
