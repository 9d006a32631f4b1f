/* collectives.c - collectives as nodes of a graph. */
#include "lib/parallel/collectives.h"

#include "lib/graph/ops/infer.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/state.h"

static union gt_attrs attrs_of(enum gt_axis axis, int ranks, enum gt_reduction reduction)
{
	union gt_node_attrs own = { 0 };

	own.collective.axis = (int)axis;
	own.collective.ranks = ranks;
	own.collective.reduction = (int)reduction;
	return gt_node_attrs_pack(&own);
}

static void print_reduction(const struct gt_node *n, FILE *f)
{
	fputs(gt_node_attrs(&n->attrs).collective.reduction == GT_MAX ? " max" : "", f);
	gt_nodes_print_axis(n, f);
}

static int infer_same(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

/* y is the same on all ranks, and all ranks compute the same loss from it, which counts once. So
 * each rank already has the whole gradient by y, and by its summand x. A maximum is only used where
 * no gradient is needed (loss_sharded), so it has none. */
static void all_reduce_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)g;
	if (wanted[0] && gt_node_attrs(&n->attrs).collective.reduction == GT_SUM)
		d_in[0] = d_out[0];
}

const struct gt_op gt_op_all_reduce = {
	.name = "all_reduce",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_same,
	.grad = all_reduce_grad,
	.print = print_reduction,
	.inplace = 1u << 0,
	.elementwise = true,
};

static struct gt_value *all_reduce(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, enum gt_reduction reduction)
{
	const union gt_attrs attrs = attrs_of(axis, 0, reduction);

	return gt_emit1(g, &gt_op_all_reduce, &attrs, 1, &x);
}

/*
 * Sum x, a value of any shape, over the ranks of an axis (all_reduce). All ranks get the same y. y
 * may use the memory of x. The gradient of x is the gradient of y, without communication, because
 * all ranks compute the same values from y. This function is g in figure 3 of Shoeybi et al.,
 * "Megatron-LM", arXiv 1909.08053.
 */
struct gt_value *gt_sum_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis)
{
	return all_reduce(g, x, axis, GT_SUM);
}

struct gt_value *gt_max_over(struct gt_graph *g, struct gt_value *x, enum gt_axis axis)
{
	return all_reduce(g, x, axis, GT_MAX);
}

/*
 * Each rank uses the copies of x for other columns of a layer, so its gradient by x is only a
 * summand. On two ranks, with x -> copy_to -> matmul by W0 (rank 0) or W1 (rank 1):
 *
 *   rank 0   d_out = dy0 W0^T      d_in = dy0 W0^T + dy1 W1^T
 *   rank 1   d_out = dy1 W1^T      d_in = the same
 */
static void copy_to_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_sum_over(
		    g, d_out[0], (enum gt_axis)gt_node_attrs(&n->attrs).collective.axis);
}

static const struct gt_op op_copy_to = {
	.name = "copy_to",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_same,
	.grad = copy_to_grad,
	.print = gt_nodes_print_axis,
	.view = true,
};

/*
 * Return y = x, where x is the same on all ranks of the axis, and each rank computes different
 * values from y. The gradient of x is the sum of the gradients of y over the ranks: an all-reduce
 * in the backward pass. The node is a view, so it costs nothing in the forward pass. This function
 * is f in figure 3 of Shoeybi et al.
 */
struct gt_value *gt_copy_to(struct gt_graph *g, struct gt_value *x, enum gt_axis axis)
{
	const union gt_attrs attrs = attrs_of(axis, 0, GT_SUM);

	return gt_emit1(g, &op_copy_to, &attrs, 1, &x);
}

bool gt_is_copy_to(const struct gt_node *n)
{
	return n->op == &op_copy_to;
}

static int infer_gather(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (x->ndim != 1)
		return gt_err_set(
		    err, GT_EINVAL, "all_gather: %s is no vector", gt_shape_text(x).s);
	gt_infer_shape(n->out[0], x->dtype, 2,
	    (int64_t[]){ gt_node_attrs(&n->attrs).collective.ranks, x->shape[0] });
	return 0;
}

const struct gt_op gt_op_all_gather = {
	.name = "all_gather",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_gather,
	.print = gt_nodes_print_axis,
};

struct gt_value *gt_gather_over(
    struct gt_graph *g, struct gt_value *x, enum gt_axis axis, int ranks)
{
	const union gt_attrs attrs = attrs_of(axis, ranks, GT_SUM);

	return gt_emit1(g, &gt_op_all_gather, &attrs, 1, &x);
}

/* The call is queued on the node's stream, like any kernel. Ranks compare kind, size
 * and name of their calls, so a rank with another graph is found at the first call that differs. */
static int run_all_reduce(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = call->in[0].data,
		.out = call->out[0].data,
		.count = gt_tensor_elements(&call->in[0]),
		.dtype = call->in[0].dtype,
		.reduction = (enum gt_reduction)gt_node_attrs(&call->attrs).collective.reduction,
		.what = "all_reduce",
		.stream = call->stream };

	return gt_group_run(p->device_axes[gt_node_attrs(&call->attrs).collective.axis], &c, err);
}

static int run_all_gather(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_collective c = { .kind = GT_ALL_GATHER,
		.in = call->in[0].data,
		.out = call->out[0].data,
		.count = gt_tensor_elements(&call->in[0]),
		.dtype = call->in[0].dtype,
		.what = "all_gather",
		.stream = call->stream };

	return gt_group_run(p->device_axes[gt_node_attrs(&call->attrs).collective.axis], &c, err);
}

/* Only types that occur: activations and their gradients are summed in every floating-point type,
 * and vectors of statistics are gathered as float32 or float64. */
const struct gt_kernel gt_collective_kernels[] = {
	{ .op = "all_reduce", .dtype = GT_F32, .run = run_all_reduce },
	{ .op = "all_reduce", .dtype = GT_F64, .run = run_all_reduce },
	{ .op = "all_reduce", .dtype = GT_F16, .run = run_all_reduce },
	{ .op = "all_reduce", .dtype = GT_BF16, .run = run_all_reduce },
	{ .op = "all_gather", .dtype = GT_F32, .run = run_all_gather },
	{ .op = "all_gather", .dtype = GT_F64, .run = run_all_gather },
	{ .op = NULL },
};

/* ---- outside of graphs ---- */

int gt_parallel_all_reduce(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err)
{
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = buffer,
		.out = buffer,
		.count = count,
		.dtype = dtype,
		.reduction = GT_SUM,
		.stream = p->device->compute };

	return gt_group_run(group, &c, err);
}

int gt_parallel_broadcast(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err)
{
	const struct gt_collective c = { .kind = GT_BROADCAST,
		.in = buffer,
		.out = buffer,
		.count = count,
		.dtype = dtype,
		.stream = p->device->compute };

	return gt_group_run(group, &c, err);
}
