/* sequence.c - the sequence axis: norms and residuals divided among the ranks of a tensor axis. */
#include <stdlib.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/axis.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/data/modes.h"

/*
 * With tensor parallelism all ranks compute the same values between the layers that they share. The
 * ops there go row by row, so each rank can compute some rows (tokens) alone: behind a layer the
 * sum over ranks becomes a reduce-scatter of rows, and before the next layer the copy becomes an
 * all-gather. Together these send as many bytes as the sum does, and half as many again where the
 * backward part gathers a layer's input once more. On two ranks, of 8 tokens:
 *
 *   tensor parallelism                      and its sequence axis
 *   u = all_reduce(u' [8,5])                u [4,5] = reduce_rows(u' [8,5])
 *   v = add(u + b, residual) [8,5]          v = add(u + copy_to(b), residual) [4,5]
 *   w = layer_norm(v, g) [8,5]              w = layer_norm(v, copy_to(g)) [4,5]
 *   x = copy_to(w) [8,5]                    x [8,5] = gather_rows(w)
 *
 * A parameter's gradient is of a rank's rows alone, so copy_to adds it up over the ranks. The
 * gradient of reduce_rows is gather_rows of the gradient, and the other way round.
 *
 * Rows that the ranks do not divide, as in a short last batch, stay whole: all ranks compute them.
 *
 * The axis has no seats of its own: its ranks are those of the tensor axis, whose pass comes first.
 * If an op that does not go row by row reads a value, the value stays whole, and so do all values
 * that are added to it. Dropout draws the same numbers for a row as on one rank.
 * Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
 * arXiv 2205.05198, section 4.2.2.
 */

/* ---- options ---- */

static int size(const struct gt_parallel_options *o, int ranks)
{
	(void)o;
	(void)ranks;
	return 1;
}

/* A run that is resumed may have the option, but no ranks that share layers. */
static bool is_on(const struct gt_parallel *p)
{
	return p->o.sequence && p->axes[GT_AXIS_TENSOR]->size > 1;
}

/* ---- ops ---- */

/* in x [rows, ...]; out y [rows / ranks, width]: this rank's rows of the sum over ranks. */
static int infer_reduce(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	int64_t rows = gt_value_rows(x), ranks = n->attrs.collective.ranks;

	if (rows % ranks)
		return gt_err_set(err, GT_EINVAL, "reduce_rows: %lld rows do not divide by %lld",
		    (long long)rows, (long long)ranks);
	gt_infer_shape(n->out[0], x->dtype, 2, (int64_t[]){ rows / ranks, gt_value_last(x) });
	return 0;
}

/* in x [rows / ranks, width]; out y of the shape in attrs.scatter: the rows of all ranks. */
static int infer_gather(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_shape(n->out[0], n->in[0]->dtype, n->attrs.scatter.ndim, n->attrs.scatter.shape);
	return 0;
}

static void grad_reduce(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in);
static void grad_gather(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in);

static const struct gt_op op_reduce = {
	.name = "reduce_rows",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_reduce,
	.grad = grad_reduce,
	.flops = gt_nodes_no_flops,
};

static const struct gt_op op_gather = {
	.name = "gather_rows",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_gather,
	.grad = grad_gather,
	.flops = gt_nodes_no_flops,
};

static void describe_ranks(union gt_attrs *attrs, int64_t ranks)
{
	*attrs = (union gt_attrs){ 0 };
	attrs->collective.axis = GT_AXIS_TENSOR;
	attrs->collective.ranks = (int)ranks;
}

static void grad_reduce(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs;

	gt_nodes_set_shape(&attrs, n->in[0]);
	if (wanted[0])
		d_in[0] = gt_emit1(g, &op_gather, &attrs, 1, d_out);
}

static void grad_gather(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs;

	describe_ranks(&attrs, gt_value_rows(n->out[0]) / gt_value_rows(n->in[0]));
	if (wanted[0])
		d_in[0] = gt_emit1(g, &op_reduce, &attrs, 1, d_out);
}

/* ---- which values are divided ---- */

/* Ops that go row by row. Bit k of `rows`: input k has rows; the others are parameters. */
static const struct row_op {
	const struct gt_op *op;
	unsigned rows;
} row_ops[] = {
	{ &gt_op_add, 3 },
	{ &gt_op_bias_add, 1 },
	{ &gt_op_layer_norm, 1 },
	{ &gt_op_rms_norm, 1 },
	{ &gt_op_relu, 1 },
	{ &gt_op_gelu, 1 },
	{ &gt_op_dropout, 1 },
};

static const struct row_op *row_op_of(const struct gt_node *n)
{
	for (size_t i = 0; i < sizeof(row_ops) / sizeof(*row_ops); i++)
		if (row_ops[i].op == n->op)
			return &row_ops[i];
	return NULL;
}

/* Whether it is the sum behind a layer. Other sums over the axis are of one number per row. */
static bool is_sum(const struct gt_node *n)
{
	return n->op == &gt_op_all_reduce && n->attrs.collective.axis == GT_AXIS_TENSOR &&
	       n->attrs.collective.reduction == GT_SUM && n->in[0]->ndim > 1;
}

static bool may_be_divided(const struct gt_node *n, const bool *divided)
{
	const struct row_op *op = row_op_of(n);

	for (int k = 0; op && k < n->inputs; k++)
		if (op->rows >> k & 1 && !divided[n->in[k]->id])
			return false;
	return n->out[0]->role == GT_TEMPORARY && (op || is_sum(n));
}

/* Of a node that does not go row by row, let outputs and inputs stay whole. Returns whether
 * anything has changed. */
static bool leave_out(const struct gt_node *n, bool *divided)
{
	const struct row_op *op = row_op_of(n);
	bool stays = may_be_divided(n, divided) && divided[n->out[0]->id], changed = false;

	for (int k = 0; k < n->outputs && !stays; k++) {
		changed = changed || (n->out[k] && divided[n->out[k]->id]);
		if (n->out[k])
			divided[n->out[k]->id] = false;
	}
	for (int k = 0; k < n->inputs; k++) {
		bool rows = gt_is_copy_to(n) || (op && stays && op->rows >> k & 1);

		if (!n->in[k] || rows || !divided[n->in[k]->id])
			continue;
		divided[n->in[k]->id] = false;
		changed = true;
	}
	return changed;
}

/* ---- the pass ---- */

static void copy_parameters(struct gt_graph *g, struct gt_node *n, size_t *at)
{
	for (int k = 0; k < n->inputs; k++) {
		struct gt_value *v = n->in[k];

		if (!v || v->role != GT_PARAMETER)
			continue;
		n->in[k] = gt_copy_to(g, v, GT_AXIS_TENSOR);
		gt_place_last(g, (*at)++);
	}
}

/* Let a dropout draw the numbers of this rank's rows. The shape of its output is still the
 * whole. */
static void set_drawn(const struct gt_parallel *p, struct gt_node *n)
{
	const struct gt_group *seats = p->axes[GT_AXIS_TENSOR];
	int64_t elements = gt_value_elements(n->out[0]);

	if (n->op != &gt_op_dropout)
		return;
	n->attrs.dropout.first = elements / seats->size * seats->rank;
	n->attrs.dropout.sample = elements / n->out[0]->shape[0];
}

/* Rewrite the node at *at for divided rows. Nodes may be put before it; *at follows it. */
static int divide(
    struct gt_parallel *p, struct gt_graph *g, const bool *divided, size_t *at, struct gt_err *err)
{
	struct gt_node *n = g->nodes[*at];

	g->scope = n->scope;
	if (gt_is_copy_to(n) && divided[n->in[0]->id]) {
		gt_nodes_set_shape(&n->attrs, n->out[0]);
		n->op = &op_gather;
		p->divides_rows = true;
	} else if (is_sum(n) && divided[n->out[0]->id]) {
		describe_ranks(&n->attrs, p->axes[GT_AXIS_TENSOR]->size);
		n->op = &op_reduce;
	} else if (divided[n->out[0]->id]) {
		copy_parameters(g, n, at);
		set_drawn(p, n);
	} else {
		return 0;
	}
	return gt_graph_status(g, err) ? err->code : n->op->infer(n, err);
}

/*
 * Begin with all values that could be divided, and take away until nothing changes. A value that
 * stays whole makes others whole in both directions, outputs of its readers and other inputs of
 * them, so one pass over the nodes is not enough. The result is the largest set that fits.
 */
static void find_divided(const struct gt_graph *g, int64_t ranks, bool *divided)
{
	bool changed = true;

	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];

		divided[i] =
		    v->role == GT_TEMPORARY && v->ndim > 1 && gt_value_rows(v) % ranks == 0;
	}
	while (changed) {
		changed = false;
		for (size_t i = 0; i < g->node_count; i++)
			changed = leave_out(g->nodes[i], divided) || changed;
	}
}

static int rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	bool *divided;
	int rc = 0;

	if (!is_on(p))
		return 0;
	divided = gt_calloc(g->value_count, sizeof(*divided), err);
	if (!divided)
		return GT_ENOMEM;
	find_divided(g, p->axes[GT_AXIS_TENSOR]->size, divided);
	for (size_t i = 0; !rc && i < g->node_count; i++)
		rc = divide(p, g, divided, &i, err);
	free(divided);
	return rc;
}

/* The first node from `from` on that reads v; node_count: none. */
static size_t first_reader(const struct gt_graph *g, size_t from, const struct gt_value *v)
{
	for (size_t i = from; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v)
				return i;
	return g->node_count;
}

/* The backward part reads the layers' whole inputs: gather them again there, so that until then a
 * rank keeps its own rows alone. */
static int gather_again(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct gt_value *loss = gt_graph_find(g, "loss");
	size_t end = loss ? gt_node_index(g, loss->producer) + 1 : g->node_count;

	(void)p;
	for (size_t i = 0; i < end; i++) {
		const struct gt_node *n = g->nodes[i];
		size_t reader = first_reader(g, end, n->out[0]);
		struct gt_value *again;

		if (n->op != &op_gather || reader == g->node_count)
			continue;
		g->scope = n->scope;
		again = gt_emit1(g, &op_gather, &n->attrs, 1, n->in);
		if (!again)
			break;
		gt_place_last(g, reader);
		gt_replace_uses(g, reader + 1, n->out[0], again);
	}
	return gt_graph_status(g, err);
}

static int64_t bytes_of(const struct gt_graph *g)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];

		if (node->op == &op_reduce)
			bytes += (int64_t)gt_value_bytes(node->in[0]);
		else if (node->op == &op_gather)
			bytes += (int64_t)gt_value_bytes(node->out[0]);
	}
	return bytes;
}

/* Count the bytes that the graph of all parts of a batch sends. The largest batch comes first. */
static int count_bytes(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	int64_t n = p->axes[GT_AXIS_TENSOR]->size, bytes = bytes_of(g) / n * (n - 1);

	(void)chunks;
	if (bytes > p->sequence_bytes)
		p->sequence_bytes = bytes;
	if (!is_on(p) || p->divides_rows)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "{sequence-parallel}: %lld ranks can divide no rows between layers", (long long)n);
	return gt_err_hint(err, "they can with a {batch} whose tokens they divide, of a model "
	                        "whose layers follow each other");
}

static int64_t sent(const struct gt_parallel *p, int micro_batches)
{
	return p->sequence_bytes * micro_batches;
}

const struct gt_axis_row gt_axis_sequence = {
	.name = "sequence",
	.size = size,
	.rewrite = rewrite,
	.prepare = gather_again,
	.insert = count_bytes,
	.sent = sent,
};

/* ---- kernels ---- */

static int run(struct gt_call *call, enum gt_collective_kind kind, const struct gt_tensor *part,
    struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_collective c = { .kind = kind,
		.in = call->in[0].data,
		.out = call->out[0].data,
		.count = gt_tensor_elements(part),
		.dtype = part->dtype,
		.reduction = GT_SUM,
		.what = "rows",
		.stream = call->stream };

	return gt_group_run(p->device_axes[GT_AXIS_TENSOR], &c, err);
}

static int run_reduce(struct gt_call *call, struct gt_err *err)
{
	return run(call, GT_REDUCE_SCATTER, &call->out[0], err);
}

static int run_gather(struct gt_call *call, struct gt_err *err)
{
	return run(call, GT_ALL_GATHER, &call->in[0], err);
}

const struct gt_kernel gt_sequence_kernels[] = {
	{ .op = "reduce_rows", .dtype = GT_F32, .run = run_reduce },
	{ .op = "reduce_rows", .dtype = GT_F64, .run = run_reduce },
	{ .op = "reduce_rows", .dtype = GT_F16, .run = run_reduce },
	{ .op = "reduce_rows", .dtype = GT_BF16, .run = run_reduce },
	{ .op = "gather_rows", .dtype = GT_F32, .run = run_gather },
	{ .op = "gather_rows", .dtype = GT_F64, .run = run_gather },
	{ .op = "gather_rows", .dtype = GT_F16, .run = run_gather },
	{ .op = "gather_rows", .dtype = GT_BF16, .run = run_gather },
	{ .op = NULL },
};
