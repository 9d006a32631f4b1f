/* swiglu.c - gated units of an MLP. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int swiglu_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_float(n->in[0], "the gate", n->in[0]->ndim, err) ||
	    gt_infer_same(n->in[0], n->in[1], "the gated value", err))
		return err->code;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static void swiglu_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1] };
	struct gt_node *grad = gt_emit(g, &gt_op_swiglu_grad, &n->attrs, 3, in);

	for (int i = 0; grad && i < 2; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
}

static double swiglu_flops(const struct gt_node *n)
{
	return 6.0 * (double)gt_value_elements(n->out[0]);
}

static double swiglu_grad_flops(const struct gt_node *n)
{
	return 12.0 * (double)gt_value_elements(n->out[0]);
}

/* The products that compute the two inputs are both sharded by columns, or both whole. */
static int swiglu_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards a = gt_shard_columns(s, n->in[0]),
	                        b = gt_shard_columns(s, n->in[1]);

	if (a.blocks != b.blocks || a.units != b.units)
		return gt_err_set(s->err, GT_ENOTSUP,
		    "%s: tensor parallelism cannot shard one input of 'swiglu' alone", n->scope);
	gt_shard_set(s, n->out[0], a);
	return gt_shard_infer(s, n);
}

static struct gt_column_shards swiglu_takes(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	(void)s;
	(void)n;
	return offered;
}

static const struct gt_shard_rule swiglu_rule = { .rewrite = swiglu_shard, .takes = swiglu_takes };

/*
 * swiglu: y = a / (1 + e^-a) * b. a is the argument `gate`, b the argument `up`.
 *   in   a F [...];  b like a     out  y like a
 * swiglu_grad:  in dy, a, b     out  da, db
 * Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
 */
const struct gt_op gt_op_swiglu = {
	.name = "swiglu",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = swiglu_infer,
	.grad = swiglu_grad,
	.flops = swiglu_flops,
	.elementwise = true,
	.shard = &swiglu_rule,
};

struct gt_value *gt_swiglu(struct gt_graph *g, struct gt_value *gate, struct gt_value *up)
{
	return gt_emit1(g, &gt_op_swiglu, NULL, 2, (struct gt_value *[]){ gate, up });
}

static int swiglu_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_same(n->in[1], n->in[0], "the gradient", err))
		return err->code;
	gt_infer_like(n->out[0], n->in[1]);
	gt_infer_like(n->out[1], n->in[1]);
	return 0;
}

const struct gt_op gt_op_swiglu_grad = {
	.name = "swiglu_grad",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 2,
	.infer = swiglu_grad_infer,
	.flops = swiglu_grad_flops,
	.elementwise = true,
};
