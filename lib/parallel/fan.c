/* fan.c - the beginnings and ends of layers in parts, with their gradients. */
#include "lib/parallel/fan.h"

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/modes.h"
#include "lib/parallel/nodes.h"

static int fan_out_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static void fan_out_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_sum_over(g, d_out[0], (enum gt_axis)n->attrs.collective.axis);
}

static const struct gt_op op_fan_out = {
	.name = "fan_out",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = fan_out_infer,
	.grad = fan_out_grad,
	.print = gt_nodes_print_axis,
	.view = true,
};

struct gt_value *gt_fan_out(struct gt_graph *g, struct gt_value *x, enum gt_axis axis)
{
	union gt_attrs attrs = { 0 };

	attrs.collective.axis = (int)axis;
	return gt_emit1(g, &op_fan_out, &attrs, 1, &x);
}

static int fan_in_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	gt_infer_like(n->out[0], x);
	return gt_infer_vector(n->in[1], "the bias", x->dtype, gt_value_last(x), err);
}

static void fan_in_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)n;
	if (wanted[0])
		d_in[0] = d_out[0];
	if (wanted[1])
		d_in[1] = gt_bias_grad(g, d_out[0]);
}

static const struct gt_op op_fan_in = {
	.name = "fan_in",
	.min_inputs = 1,
	.max_inputs = 2,
	.outputs = 1,
	.infer = fan_in_infer,
	.grad = fan_in_grad,
	.print = gt_nodes_print_axis,
	.inplace = 1u << 0,
};

struct gt_value *gt_fan_in(
    struct gt_graph *g, struct gt_value *x, struct gt_value *bias, enum gt_axis axis)
{
	union gt_attrs attrs = { 0 };

	attrs.collective.axis = (int)axis;
	return gt_emit1(g, &op_fan_in, &attrs, 2, (struct gt_value *[]){ x, bias });
}

static int run_fan_in(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_tensor *bias = gt_optional_input(call, 1);
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = call->in[0].data,
		.out = call->out[0].data,
		.count = gt_tensor_elements(&call->in[0]),
		.dtype = GT_F32,
		.reduction = GT_SUM,
		.what = "fan_in" };
	int64_t rows = gt_tensor_rows(&call->in[0]), n = gt_tensor_last(&call->in[0]);
	const float *b = bias ? bias->data : NULL;
	float *y = call->out[0].data;
	int rc = gt_group_run(p->axes[call->attrs.collective.axis], &c, err);

	for (int64_t r = 0; !rc && b && r < rows; r++)
		for (int64_t i = 0; i < n; i++)
			y[r * n + i] += b[i];
	return rc;
}

const struct gt_kernel gt_fan_kernels[] = {
	{ .op = "fan_in", .dtype = GT_F32, .run = run_fan_in },
	{ .op = NULL },
};
