/* sequence.c - the sequence axis: norms and residuals divided among the ranks of a tensor axis. */
#include <stdlib.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/axis.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/state.h"
#include "lib/parallel/tensor/tensor.h"

/*
 * All ranks of a tensor axis compute the same values between the layers that they share. The
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
 * The first and last ops of some models need all rows, so every rank computes them: a ViT begins
 * with patch_tokens, and at the end reads the class token alone. There take_rows takes this rank's
 * rows of the first values, and join_rows gathers the rows of all ranks into the last values. Of 2
 * samples of 4 tokens:
 *
 *   t [2,4,5] = patch_tokens(...)           t [2,4,5] = patch_tokens(...)
 *                                           u [4,5] = take_rows(t)
 *   v [2,4,5] = add(t, ...)                 v [4,5] = add(u, ...)
 *                                           w [2,4,5] = join_rows(v)
 *   c [2,5] = arrange(v)                    c [2,5] = arrange(w)
 *
 * The gradient of take_rows is join_rows of the gradient, and the other way round. All ranks
 * compute the same gradient of the output of join_rows, so each rank just takes its rows of it. The
 * gradients of the output of gather_rows differ, so reduce_rows adds them up.
 *
 * Rows that the ranks do not divide, as in a short last batch, stay whole: all ranks compute them.
 *
 * The axis has no seats of its own: its ranks are those of the tensor axis, whose pass comes first.
 * Dropout draws the same numbers for a row as on one rank.
 * Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
 * arXiv 2205.05198, section 4.2.2.
 */

/* ---- options ---- */

static int sequence_axis_size(const struct gt_parallel_options *o, int ranks)
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

/* Infer y [rows / ranks, width] from x [rows, ...]: this rank's rows of the sum of x over the ranks
 * (reduce_rows), or of x itself (take_rows). */
static int infer_own(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	int64_t rows = gt_value_rows(x), ranks = gt_node_attrs(&n->attrs).collective.ranks;

	if (rows % ranks)
		return gt_err_set(err, GT_EINVAL, "%s: %lld rows do not divide by %lld",
		    n->op->name, (long long)rows, (long long)ranks);
	gt_infer_shape(n->out[0], x->dtype, 2, (int64_t[]){ rows / ranks, gt_value_last(x) });
	return 0;
}

/* Infer y, whose shape is in `scatter`, from x [rows / ranks, width]: the rows of all ranks. */
static int infer_all(struct gt_node *n, struct gt_err *err)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	(void)err;
	gt_infer_shape(n->out[0], n->in[0]->dtype, attrs.scatter.ndim, attrs.scatter.shape);
	return 0;
}

static void grad_own(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in);
static void grad_all(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in);

#define ROW(NAME, KIND)                                                                            \
	{                                                                                          \
		.name = NAME, .min_inputs = 1, .max_inputs = 1, .outputs = 1,                      \
		.infer = infer_##KIND, .grad = grad_##KIND, .flops = gt_nodes_no_flops             \
	}

/* Two pairs: each op of a pair makes the gradient of the other. */
static const struct gt_op op_reduce = ROW("reduce_rows", own), op_gather = ROW("gather_rows", all);
static const struct gt_op op_take = ROW("take_rows", own), op_join = ROW("join_rows", all);

static union gt_attrs describe_ranks(int64_t ranks)
{
	union gt_node_attrs own = { 0 };

	own.collective.axis = GT_AXIS_TENSOR;
	own.collective.ranks = (int)ranks;
	return gt_node_attrs_pack(&own);
}

static void grad_own(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	const union gt_attrs attrs = gt_nodes_shape(n->in[0]);

	if (wanted[0])
		d_in[0] = gt_emit1(g, n->op == &op_take ? &op_join : &op_gather, &attrs, 1, d_out);
}

static void grad_all(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	const union gt_attrs attrs =
	    describe_ranks(gt_value_rows(n->out[0]) / gt_value_rows(n->in[0]));

	if (wanted[0])
		d_in[0] = gt_emit1(g, n->op == &op_join ? &op_take : &op_reduce, &attrs, 1, d_out);
}

/* ---- which values are divided ---- */

/* Whether it is the sum behind a layer. Other sums over the axis are of one number per row. */
static bool is_sum(const struct gt_node *n)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	return n->op == &gt_op_all_reduce && attrs.collective.axis == GT_AXIS_TENSOR &&
	       attrs.collective.reduction == GT_SUM && n->in[0]->ndim > 1;
}

/*
 * A chain is a set of values that are all divided or all whole: an op that goes row by row computes
 * one of them from another. Values enter a chain from ops that need all rows, and leave it to such
 * ops. The label of a chain is the least id of its values.
 */
enum state { WHOLE, ENTERS, DIVIDED };

struct chains {
	int64_t ranks;
	int count;                   /* values of the graph before the pass */
	enum state *state;           /* [count] */
	int *label;                  /* [count] */
	bool *leaves;                /* [count]: some op needs all rows of the divided value */
	int *gain;                   /* [count], by label: sums, less values that enter or leave */
	struct gt_value **converted; /* [count]: by take_rows or join_rows; NULL: not yet */
};

static void release_chains(struct chains *c)
{
	free(c->state);
	free(c->label);
	free(c->leaves);
	free(c->gain);
	free(c->converted);
}

static int init_chains(
    struct chains *c, const struct gt_graph *g, int64_t ranks, struct gt_err *err)
{
	*c = (struct chains){ .ranks = ranks, .count = (int)g->value_count };
	c->state = gt_calloc(g->value_count, sizeof(*c->state), err);
	c->label = gt_calloc(g->value_count, sizeof(*c->label), err);
	c->leaves = gt_calloc(g->value_count, sizeof(*c->leaves), err);
	c->gain = gt_calloc(g->value_count, sizeof(*c->gain), err);
	c->converted = gt_calloc(g->value_count, sizeof(struct gt_value *), err);
	return c->state && c->label && c->leaves && c->gain && c->converted ? 0 : GT_ENOMEM;
}

/* The pass makes new values, which are in no chain. */
static bool has_state(const struct chains *c, const struct gt_value *v, enum state state)
{
	return v && v->id < c->count && c->state[v->id] == state;
}

/* Whether an op goes row by row in input k. */
static bool is_row_input(const struct gt_node *n, int k)
{
	return n->op->row_inputs >> k & 1;
}

static bool can_divide(const struct chains *c, const struct gt_value *v)
{
	return v->role == GT_TEMPORARY && v->ndim > 1 && gt_value_rows(v) % c->ranks == 0;
}

static bool can_go_by_rows(const struct chains *c, const struct gt_node *n)
{
	if (is_sum(n))
		return can_divide(c, n->out[0]);
	/* The other inputs of such an op are parameters, whose gradients copy_to adds up, or inputs
	 * of the graph. */
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && (is_row_input(n, k) ? !can_divide(c, n->in[k])
		                                    : n->in[k]->role == GT_TEMPORARY))
			return false;
	return n->op->row_inputs && can_divide(c, n->out[0]);
}

static void find_states(struct chains *c, const struct gt_graph *g)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		if (!can_go_by_rows(c, n))
			continue;
		c->state[n->out[0]->id] = DIVIDED;
		for (int k = 0; k < n->inputs; k++)
			if (is_row_input(n, k) && has_state(c, n->in[k], WHOLE))
				c->state[n->in[k]->id] = ENTERS;
	}
}

static bool goes_by_rows(const struct chains *c, const struct gt_node *n)
{
	return n->outputs && has_state(c, n->out[0], DIVIDED);
}

/* Whether the node reads rows of a value that enters a chain. */
static bool takes_input(const struct chains *c, const struct gt_node *n, int k)
{
	return goes_by_rows(c, n) && is_row_input(n, k) && has_state(c, n->in[k], ENTERS);
}

/* Whether the node needs all rows of a divided value. A copy_to becomes gather_rows itself. */
static bool joins_input(const struct chains *c, const struct gt_node *n, int k)
{
	bool by_rows = gt_is_copy_to(n) || (goes_by_rows(c, n) && is_row_input(n, k));

	return !by_rows && has_state(c, n->in[k], DIVIDED);
}

/* Give two values the lower one of their labels. Returns whether that changes one. */
static bool merge_labels(struct chains *c, const struct gt_value *v, const struct gt_value *w)
{
	int *a = &c->label[v->id], *b = &c->label[w->id];
	bool changed = *a != *b;

	*a = *b = *a < *b ? *a : *b;
	return changed;
}

static void find_labels(struct chains *c, const struct gt_graph *g)
{
	bool changed = true;

	for (int i = 0; i < c->count; i++)
		c->label[i] = i;
	while (changed) {
		changed = false;
		for (size_t i = 0; i < g->node_count; i++) {
			const struct gt_node *n = g->nodes[i];

			for (int k = 0; k < n->inputs && goes_by_rows(c, n); k++)
				if (is_row_input(n, k))
					changed = merge_labels(c, n->out[0], n->in[k]) || changed;
		}
	}
}

/*
 * Let a chain stay whole unless it has more sums than values that enter or leave it. A sum that is
 * divided saves memory and work. Each value that enters or leaves sends all rows once more, by
 * join_rows in the backward or in the forward pass.
 *
 * A chain without sums stays whole in any case, and has to: between a product that is sharded by
 * columns and the next one, each rank has other columns of a value, so no rank has whole rows.
 */
static void leave_short_chains(struct chains *c, const struct gt_graph *g)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		if (goes_by_rows(c, n) && is_sum(n))
			c->gain[c->label[n->out[0]->id]]++;
		for (int k = 0; k < n->inputs; k++)
			if (joins_input(c, n, k))
				c->leaves[n->in[k]->id] = true;
	}
	for (int i = 0; i < c->count; i++)
		c->gain[c->label[i]] -= (c->state[i] == ENTERS) + c->leaves[i];
	for (int i = 0; i < c->count; i++)
		if (c->gain[c->label[i]] <= 0)
			c->state[i] = WHOLE;
}

/* ---- the pass ---- */

/* Let the node at *at read take_rows or join_rows of its input k. The first reader of a value makes
 * that node, and *at follows the reader. take_rows stands behind the node whose rows it takes, and
 * has its scope, so that recomputation need not keep the whole value for the next block. */
static void convert_input(struct chains *c, struct gt_graph *g, size_t *at, int k)
{
	struct gt_node *n = g->nodes[*at];
	struct gt_value *v = n->in[k], **converted = &c->converted[v->id];
	bool takes = has_state(c, v, ENTERS);
	union gt_attrs attrs;

	if (!*converted) {
		g->scope = takes ? v->producer->scope : n->scope;
		attrs = takes ? describe_ranks(c->ranks) : gt_nodes_shape(v);
		*converted = gt_emit1(g, takes ? &op_take : &op_join, &attrs, 1, &v);
		if (!*converted)
			return;
		gt_place_last(g, takes ? gt_node_index(g, v->producer) + 1 : *at);
		(*at)++;
	}
	n->in[k] = *converted;
}

/* Insert take_rows and join_rows. Call this before cut_rows(), while all values have all rows. */
static int convert_inputs(struct chains *c, struct gt_graph *g, struct gt_err *err)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->inputs; k++)
			if (takes_input(c, n, k) || joins_input(c, n, k))
				convert_input(c, g, &i, k);
	}
	return gt_graph_status(g, err);
}

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
static int cut_rows(struct gt_parallel *p, struct gt_graph *g, const struct chains *c, size_t *at,
    struct gt_err *err)
{
	struct gt_node *n = g->nodes[*at];

	g->scope = n->scope;
	if (gt_is_copy_to(n) && has_state(c, n->in[0], DIVIDED)) {
		n->attrs = gt_nodes_shape(n->out[0]);
		n->op = &op_gather;
	} else if (!goes_by_rows(c, n)) {
		return 0;
	} else if (is_sum(n)) {
		n->attrs = describe_ranks(c->ranks);
		n->op = &op_reduce;
		p->divides_rows = true;
	} else {
		copy_parameters(g, n, at);
		set_drawn(p, n);
	}
	return gt_graph_status(g, err) ? err->code : n->op->infer(n, err);
}

static int rewrite_for_sequence(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	struct chains c;
	int rc;

	if (!is_on(p))
		return 0;
	rc = init_chains(&c, g, p->axes[GT_AXIS_TENSOR]->size, err);
	if (!rc) {
		find_states(&c, g);
		find_labels(&c, g);
		leave_short_chains(&c, g);
		rc = convert_inputs(&c, g, err);
	}
	for (size_t i = 0; !rc && i < g->node_count; i++)
		rc = cut_rows(p, g, &c, &i, err);
	release_chains(&c);
	return rc;
}

/* Refuse the option where no rows are divided: name the cause in this graph. */
static int fail_whole(const struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err)
{
	int ranks = p->axes[GT_AXIS_TENSOR]->size;
	bool drops = false;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];
		int64_t rows = is_sum(n) ? gt_value_rows(n->out[0]) : 0;

		drops = drops || n->op == &gt_op_dropout;
		if (rows % ranks == 0)
			continue;
		gt_err_set(err, GT_EINVAL,
		    "{sequence-parallel}: %d ranks cannot divide a batch of %lld token%s equally",
		    ranks, (long long)rows, rows == 1 ? "" : "s");
		return gt_err_hint(err,
		    "choose a {batch} whose number of tokens (of samples, for an mlp) is a "
		    "multiple of %d, also in each chunk of {pipeline-parallel} and each virtual "
		    "rank of {reproducible}",
		    ranks);
	}
	gt_err_set(err, GT_EINVAL,
	    "{sequence-parallel}: the %d ranks share too few layers of this model", ranks);
	return gt_err_hint(
	    err, drops ? "the ranks do not share MLPs that have dropout: "
	                 "use dropout=0"
	               : "leave it out, or use a model with more layers that ranks share");
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
 * rank keeps its own rows alone. The graph of the largest batch comes first: if no rows are divided
 * there, the option has no effect. */
static int gather_again(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct gt_value *loss = gt_graph_find(g, "loss");
	size_t end = loss ? gt_node_index(g, loss->producer) + 1 : g->node_count;

	if (is_on(p) && !p->divides_rows)
		return fail_whole(p, g, err);
	for (size_t i = 0; i < end; i++) {
		const struct gt_node *n = g->nodes[i];
		struct gt_value *again;
		size_t reader;

		if (n->op != &op_gather)
			continue;
		reader = first_reader(g, end, n->out[0]);
		if (reader == g->node_count)
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

int64_t gt_tp_row_bytes(const struct gt_graph *g)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];

		if (node->op == &op_reduce)
			bytes += (int64_t)gt_value_bytes(node->in[0]);
		else if (node->op == &op_gather || node->op == &op_join)
			bytes += (int64_t)gt_value_bytes(node->out[0]);
	}
	return bytes;
}

const struct gt_axis_row gt_axis_sequence = {
	.name = "sequence",
	.size = sequence_axis_size,
	.rewrite = rewrite_for_sequence,
	.prepare = gather_again,
};

/* ---- kernels ---- */

static int run_row_collective(struct gt_call *call, enum gt_collective_kind kind,
    const struct gt_tensor *part, struct gt_err *err)
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
	return run_row_collective(call, GT_REDUCE_SCATTER, &call->out[0], err);
}

static int run_take(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_tensor *y = &call->out[0];
	size_t bytes = (size_t)gt_tensor_elements(y) * gt_dtype_size(y->dtype);
	const char *x = call->in[0].data;

	return p->device->backend->copy(
	    call->stream, y->data, x + bytes * (size_t)p->axes[GT_AXIS_TENSOR]->rank, bytes, err);
}

static int run_gather(struct gt_call *call, struct gt_err *err)
{
	return run_row_collective(call, GT_ALL_GATHER, &call->in[0], err);
}

#define ALL_TYPES(OP, RUN)                                                                         \
	{ .op = OP, .dtype = GT_F32, .run = RUN }, { .op = OP, .dtype = GT_F64, .run = RUN },      \
	    { .op = OP, .dtype = GT_F16, .run = RUN },                                             \
	{                                                                                          \
		.op = OP, .dtype = GT_BF16, .run = RUN                                             \
	}

const struct gt_kernel gt_sequence_kernels[] = {
	ALL_TYPES("reduce_rows", run_reduce),
	ALL_TYPES("gather_rows", run_gather),
	ALL_TYPES("take_rows", run_take),
	ALL_TYPES("join_rows", run_gather),
	{ .op = NULL },
};
