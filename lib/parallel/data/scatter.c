/* scatter.c - rank 0 scatters samples, and gathers their results. */
#include "lib/parallel/data/scatter.h"

#include "lib/graph/op.h"
#include "lib/graph/ops/infer.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/data/dp.h"

/*
 * The number of a rank is its seat on the data axis here (lib/parallel/axis.h). A row is the data
 * of one sample. gt_dp_part() (lib/parallel/data/dp.h) defines the rows that belong to each rank.
 * The graph of a rank without rows contains neither a scatter nor a gather. A token is a scalar,
 * F32 [], without meaning. It is the output of a node on a rank that gets no result. The functions
 * return the output of the node, or NULL with the graph's error set.
 *
 * scatter: rank 0 sends each rank its rows of x.
 *   in   rank 0: x [rows, ...]; other ranks: x is not read; it may be NULL
 *   out  y with the type and shape of `like`: the rows of this rank
 * The node has no gradient.
 *
 * gather: each rank sends its rows to rank 0. On rank 0, `rows` is the number of all ranks' rows
 * together; on other ranks, it is 0.
 *   in   x [rows of this rank, ...]
 *   out  rank 0: y [rows, ...]; other ranks: a token with the value 0
 * The gradient of gather is a scatter.
 */

/* ---- ops ---- */

static int infer_scatter(struct gt_node *n, struct gt_err *err)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	(void)err;
	gt_infer_shape(n->out[0], attrs.scatter.dtype, attrs.scatter.ndim, attrs.scatter.shape);
	return 0;
}

static int infer_gather(struct gt_node *n, struct gt_err *err)
{
	int64_t rows = gt_node_attrs(&n->attrs).scatter.shape[0];

	(void)err;
	if (rows) {
		gt_infer_like(n->out[0], n->in[0]);
		n->out[0]->shape[0] = rows;
	} else {
		gt_infer_shape(n->out[0], GT_F32, 0, NULL);
	}
	return 0;
}

static void grad_gather(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)wanted;
	d_in[0] = gt_scatter(g, d_out[0], n->in[0]);
}

/* Samples, or a gradient: neither has one of its own. */
static const struct gt_op op_scatter = {
	.name = "scatter",
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_scatter,
	.flops = gt_nodes_no_flops,
	.remote = true,
	.constant = true,
};

static const struct gt_op op_gather = {
	.name = "gather",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_gather,
	.grad = grad_gather,
	.flops = gt_nodes_no_flops,
	.remote = true,
	.autocast = GT_AUTOCAST_HIGH,
};

static const struct gt_op op_broadcast_weights = {
	.name = "broadcast_weights",
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.remote = true,
};

struct gt_value *gt_scatter(struct gt_graph *g, struct gt_value *x, const struct gt_value *like)
{
	const union gt_attrs attrs = gt_nodes_shape(like);
	struct gt_node *n;

	n = gt_emit(g, &op_scatter, &attrs, x ? 1 : 0, &x);
	return n ? n->out[0] : NULL;
}

struct gt_value *gt_gather(struct gt_graph *g, struct gt_value *x, int64_t rows)
{
	const union gt_node_attrs own = { .scatter = { .shape = { rows } } };
	const union gt_attrs attrs = gt_node_attrs_pack(&own);
	struct gt_node *n;

	n = x ? gt_emit(g, &op_gather, &attrs, 1, &x) : NULL;
	return n ? n->out[0] : NULL;
}

void gt_broadcast_weights(struct gt_graph *g)
{
	struct gt_node *n = gt_emit(g, &op_broadcast_weights, NULL, 0, NULL);

	if (n)
		n->runs = GT_RUN_FIRST;
}

/* ---- kernels ---- */

static size_t row_bytes(const struct gt_tensor *t)
{
	return (size_t)(gt_tensor_elements(t) / t->shape[0]) * gt_dtype_size(t->dtype);
}

static size_t tensor_bytes(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

/* A message of bytes between rank 0 and another. */
static struct gt_collective message_of(
    const struct gt_call *call, enum gt_collective_kind kind, void *data, size_t bytes, int peer)
{
	return (struct gt_collective){ .kind = kind,
		.in = data,
		.out = data,
		.count = (int64_t)bytes,
		.dtype = GT_U8,
		.peer = peer,
		.what = call->kernel->op,
		.stream = call->stream };
}

static int move(const struct gt_call *call, enum gt_collective_kind kind, void *data, size_t bytes,
    struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_collective c = message_of(call, kind, data, bytes, 0);

	return gt_group_run(p->device_axes[GT_AXIS_DATA], &c, err);
}

/* Between rank 0's `whole` and the parts of ranks [from, to), at once. */
static int move_parts_of(const struct gt_call *call, enum gt_collective_kind kind,
    const struct gt_tensor *whole, int from, int to, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	struct gt_group *group = p->device_axes[GT_AXIS_DATA];
	struct gt_collective messages[GT_GROUP_EXCHANGED];
	size_t row = row_bytes(whole);
	uint64_t ticket = 0;
	int n = 0;

	for (int rank = from; rank < to; rank++) {
		int first, count;

		gt_dp_part_of(p->axes[GT_AXIS_DATA], rank, (int)whole->shape[0], &first, &count);
		if (count)
			messages[n++] = message_of(call, kind,
			    (char *)whole->data + (size_t)first * row, (size_t)count * row, rank);
	}
	if (gt_group_exchange(group, messages, n, &ticket, err))
		return err->code;
	return gt_group_await(group, ticket, call->stream, err);
}

/* Between rank 0's `whole` and the parts of all others. */
static int move_parts(const struct gt_call *call, enum gt_collective_kind kind,
    const struct gt_tensor *whole, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	int ranks = p->axes[GT_AXIS_DATA]->size, rc = 0;

	for (int from = 1, to; !rc && from < ranks; from = to) {
		to = from + GT_GROUP_EXCHANGED < ranks ? from + GT_GROUP_EXCHANGED : ranks;
		rc = move_parts_of(call, kind, whole, from, to, err);
	}
	return rc;
}

/* Rank 0's own part comes first. */
static int run_scatter(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_tensor *y = &call->out[0];
	int rc;

	if (p->axes[GT_AXIS_DATA]->rank)
		return move(call, GT_RECV, y->data, tensor_bytes(y), err);
	rc =
	    p->device->backend->copy(call->stream, y->data, call->in[0].data, tensor_bytes(y), err);
	return rc ? rc : move_parts(call, GT_SEND, &call->in[0], err);
}

static int run_gather(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_backend *b = p->device->backend;
	const struct gt_tensor *x = &call->in[0], *y = &call->out[0];
	bool main = !p->axes[GT_AXIS_DATA]->rank;
	int rc = main ? b->copy(call->stream, y->data, x->data, tensor_bytes(x), err)
	              : b->zero(call->stream, y->data, tensor_bytes(y), err);

	if (rc)
		return rc;
	return main ? move_parts(call, GT_RECV, y, err)
	            : move(call, GT_SEND, x->data, tensor_bytes(x), err);
}

static int run_broadcast_weights(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_collective c = { .kind = GT_BROADCAST,
		.in = p->store->parameters->memory,
		.out = p->store->parameters->memory,
		.count = p->store->flat_count,
		.dtype = p->store->dtype,
		.what = "weights",
		.stream = call->stream };

	if (gt_group_run(p->device_axes[GT_AXIS_DATA], &c, err))
		return err->code;
	return p->axes[GT_AXIS_DATA]->rank ? gt_store_refresh_copies(p->store, err) : 0;
}

const struct gt_kernel gt_scatter_kernels[] = {
	{ .op = "scatter", .dtype = GT_F32, .run = run_scatter },
	{ .op = "gather", .dtype = GT_F32, .run = run_gather },
	{ .op = "broadcast_weights", .dtype = GT_F32, .run = run_broadcast_weights },
	{ .op = NULL },
};
