/* rewrite.c - one rank in place of several, with the bits of all. */
#include "lib/parallel/virtual/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/node_attrs.h"

/*
 * The result of a sum of floats depends on the order of the additions. So gradients that several
 * ranks compute for a batch differ in their last bits from gradients that one rank computes.
 * Reproducible training divides a batch among virtual ranks. The number of virtual ranks does not
 * depend on the number of ranks. Each rank simulates an equal number of virtual ranks. Each virtual
 * rank has its own samples and random numbers. Losses and gradients are summed in a fixed order,
 * that of an ordered group (lib/comm/group.h): first over the virtual ranks of a rank, then over
 * the ranks.
 *
 * Example: a step of 4 samples has 4 virtual ranks. "copy i" is the part of a rank's graph for one
 * virtual rank. The gradients g0 to g3 are always summed as (g0 + g1) + (g2 + g3):
 *
 *   1 rank    copies 0 to 3          (g0 + g1) + (g2 + g3)
 *   2 ranks   rank 0: copies 0, 1    a = g0 + g1
 *             rank 1: copies 2, 3    b = g2 + g3            all-reduce: a + b
 *   4 ranks   one copy each                                 all-reduce: (g0 + g1) + (g2 + g3)
 */

/* ---- options that can be combined ---- */

int64_t gt_virtual_step_samples(const struct gt_parallel_options *o, int ranks, int batch)
{
	return (int64_t)ranks * batch * (o->micro_batches > 1 ? o->micro_batches : 1);
}

int gt_virtual_ranks(int64_t samples)
{
	int ranks = 1;

	while (ranks < GT_VIRTUAL_RANKS && samples % (2 * ranks) == 0)
		ranks *= 2;
	return ranks;
}

static int check_virtual_ranks(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	static const char *const lists[] = { "1 rank", "1 or 2 ranks", "1, 2 or 4 ranks",
		"1, 2, 4 or 8 ranks" };
	int64_t samples = gt_virtual_step_samples(o, ranks, batch);
	int max = gt_virtual_ranks(samples), list = 0;

	if (max % ranks == 0)
		return 0;
	for (int i = max; i > 1; i /= 2)
		list++;
	gt_err_set(err, GT_EINVAL,
	    "{reproducible}: %d ranks%s; it takes %s for a global batch of %lld", ranks,
	    o->tensor > 1 || o->stages > 1 ? " for each part of the model" : "", lists[list],
	    (long long)samples);
	return gt_err_hint(
	    err, "bits are the same on 1, 2, 4 and 8 ranks where these divide the global batch");
}

/* Check that a run can compute all micro-batches of a step, one after the other. */
static int check_micro_batches(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	int64_t samples = gt_virtual_step_samples(o, ranks, batch);
	int parts = gt_virtual_ranks(samples) / ranks;

	if (o->micro_batches <= 1)
		return 0;
	if (o->micro_batches > parts) {
		gt_err_set(err, GT_EINVAL,
		    "{reproducible}: {accumulate} %d, where a rank does a step in %d part%s",
		    o->micro_batches, parts, parts == 1 ? "" : "s");
		return parts == 1
		           ? gt_err_hint(err, "a larger {batch} instead")
		           : gt_err_hint(err, "{accumulate} %d, with a larger {batch}", parts);
	}
	if (o->sync_bn) {
		gt_err_set(err, GT_EINVAL,
		    "{reproducible} with {accumulate} cannot be combined with {sync-bn}");
		return gt_err_hint(err, "statistics are those of a whole step: a larger {batch}");
	}
	if (o->kind == GT_PARALLEL_ZERO3) {
		gt_err_set(err, GT_EINVAL,
		    "{reproducible} with {accumulate} cannot be combined with {parallel} zero3");
		return gt_err_hint(err, "weights would stay gathered: zero2, or a larger {batch}");
	}
	return 0;
}

int gt_virtual_check(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	if (o->stages > 1 && o->chunks) {
		gt_err_set(err, GT_EINVAL, "{reproducible} cannot be combined with {chunks}");
		return gt_err_hint(
		    err, "the chunks of a pipeline are the parts it cuts a step into");
	}
	if (o->compress) {
		gt_err_set(err, GT_EINVAL, "{reproducible} cannot be combined with {compress}");
		return gt_err_hint(
		    err, "ranks round the sums that they send, so the bits depend on their number");
	}
	if (o->own_buffers) {
		gt_err_set(err, GT_EINVAL,
		    "{reproducible} cannot be combined with {broadcast-buffers}=no");
		return gt_err_hint(err, "each rank would evaluate with statistics of its own");
	}
	return check_virtual_ranks(o, ranks, batch, err)
	           ? err->code
	           : check_micro_batches(o, ranks, batch, err);
}

/* ---- the graph of all copies ---- */

struct rewrite {
	struct gt_graph *g;
	int copies;
	size_t value_count;       /* values of the graph before it changed */
	bool *once;               /* [value_count]; all copies share the value */
	struct gt_value **values; /* [copies * value_count] */
};

static struct gt_value **copy_of(struct rewrite *l, const struct gt_value *v, int copy)
{
	return &l->values[(size_t)copy * l->value_count + (size_t)v->id];
}

/* A gradient is the sum of those of the copies, copy 0's included. */
static struct gt_value *value_of(struct rewrite *l, struct gt_value *v, int copy)
{
	struct gt_value **there;

	if (!v || l->once[v->id])
		return v;
	there = copy_of(l, v, copy);
	if (!*there)
		*there = v->role == GT_GRADIENT ? gt_replica_of_gradient(l->g, v)
		         : copy                 ? gt_replica_new(l->g, v, copy)
		                                : v;
	return *there;
}

/* Memory that a copy updates in place of a buffer, and that nobody looks at. */
static struct gt_value *scratch(struct gt_graph *g, const struct gt_value *buffer)
{
	struct gt_value *v = gt_temporary(g, buffer->dtype, gt_value_elements(buffer));

	if (v) {
		v->ndim = buffer->ndim;
		memcpy(v->shape, buffer->shape, sizeof(v->shape));
	}
	return v;
}

static void append_copy(struct rewrite *l, const struct gt_node *n, int copy)
{
	struct gt_node *r = gt_arena_alloc(&l->g->arena, sizeof(*r), &l->g->err);

	if (!r)
		return;
	*r = *n;
	for (int k = 0; k < n->inputs; k++) {
		bool updated = n->in[k] && n->op->writes >> k & 1 && n->in[k]->role == GT_BUFFER;

		r->in[k] = updated && copy ? scratch(l->g, n->in[k]) : value_of(l, n->in[k], copy);
	}
	for (int k = 0; k < n->outputs; k++)
		gt_make_output(r, k, value_of(l, n->out[k], copy));
	gt_append_node(l->g, r);
}

/* The sum of copies first .. first + count - 1 of v, halves first. */
static struct gt_value *sum_of(struct rewrite *l, struct gt_value *v, int first, int count)
{
	struct gt_value *a, *b, *sum;

	if (count == 1)
		return value_of(l, v, first);
	a = sum_of(l, v, first, count / 2);
	b = sum_of(l, v, first + count / 2, count / 2);
	sum = gt_add(l->g, a, b);
	if (sum)
		sum->layout = v->layout;
	return sum;
}

/*
 * Copies first .. first + count - 1 have made their gradients: add those whose partners are
 * there. A sum stands in the place of its first copy; the last one is the gradient itself, where
 * the store keeps it. Four copies that come one after the other add up as a binary counter
 * carries:
 *
 *   copy 0   g0 waits at 0
 *   copy 1   g0 + g1 waits at 0
 *   copy 2   g2 waits at 2
 *   copy 3   g2 + g3, and then (g0 + g1) + (g2 + g3): the gradient
 *
 * So the order is that of sum_of(), and no more sums wait than a counter has bits.
 */
static void sum_gradient(struct rewrite *l, struct gt_value *v, int first, int count)
{
	struct gt_value *sum = sum_of(l, v, first, count);

	for (; sum && first & count; count *= 2) {
		first -= count;
		sum = gt_add(l->g, *copy_of(l, v, first), sum);
		if (sum)
			sum->layout = v->layout;
	}
	if (!sum || count < l->copies) {
		*copy_of(l, v, first) = sum;
		return;
	}
	gt_make_output(sum->producer, 0, v);
}

/* The copies' vectors side by side: each copy makes its own in its place. */
static struct gt_value *side_by_side(struct rewrite *l, struct gt_value *v)
{
	int64_t elements = gt_value_elements(v);
	struct gt_value *all = gt_temporary(l->g, v->dtype, elements * l->copies), *own;

	if (l->once[v->id])
		return gt_graph_fail(l->g, GT_EINVAL, "virtual ranks gather the values of all");
	for (int i = 0; all && i < l->copies; i++) {
		own = value_of(l, v, i);
		if (!own)
			return NULL;
		own->within = all;
		own->within_first = i * elements;
	}
	return all;
}

/* Outputs are there once. */
static void append_once(struct rewrite *l, struct gt_node *n)
{
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k])
			l->once[n->out[k]->id] = true;
	gt_append_node(l->g, n);
}

/* Whether all copies would do the same. The host reads each copy's outputs; values from other ranks
 * differ between copies. */
static bool is_once(const struct rewrite *l, const struct gt_node *n)
{
	if (n->op->remote && n->outputs)
		return false;
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && !l->once[n->in[k]->id])
			return false;
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && n->out[k]->role != GT_TEMPORARY)
			return false;
	return true;
}

/* Over the data axis: all copies take part in one. */
static void append_collective(struct rewrite *l, struct gt_node *n, int count)
{
	if (count < l->copies) {
		gt_graph_fail(l->g, GT_EINVAL,
		    "%s over the data axis, in copies that come one after the other", n->op->name);
		return;
	}
	if (n->op == &gt_op_all_reduce && gt_node_attrs(&n->attrs).collective.reduction != GT_SUM) {
		gt_graph_fail(
		    l->g, GT_EINVAL, "%s of another kind than a sum, in copies", n->op->name);
		return;
	}
	n->in[0] =
	    n->op == &gt_op_all_reduce ? sum_of(l, n->in[0], 0, count) : side_by_side(l, n->in[0]);
	append_once(l, n);
}

/* The node for copies first .. first + count - 1. */
static void append_copies(struct rewrite *l, struct gt_node *n, int first, int count)
{
	bool collective = n->op == &gt_op_all_reduce || n->op == &gt_op_all_gather;

	if (collective && gt_node_attrs(&n->attrs).collective.axis == GT_AXIS_DATA) {
		append_collective(l, n, count);
	} else if (is_once(l, n)) {
		if (!first)
			append_once(l, n);
	} else {
		for (int i = first; i < first + count; i++)
			append_copy(l, n, i);
		for (int k = 0; k < n->outputs; k++)
			if (n->out[k] && n->out[k]->role == GT_GRADIENT)
				sum_gradient(l, n->out[k], first, count);
	}
}

/* Where micro-batches add up, a node changes the gradient that it reads. */
static int check_gradient_inputs(const struct gt_graph *g, struct gt_err *err)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->inputs; k++)
			if (n->in[k] && n->in[k]->role == GT_GRADIENT && n->op->writes >> k & 1)
				return gt_err_set(err, GT_EINVAL,
				    "virtual ranks, in a graph whose gradients add up");
	}
	return 0;
}

/* Inputs that no node reads included: the host writes them all. */
static void begin(struct rewrite *l)
{
	for (size_t i = 0; i < l->value_count; i++) {
		struct gt_value *v = l->g->values[i];

		l->once[i] =
		    v->role == GT_PARAMETER || v->role == GT_WORKING_COPY || v->role == GT_BUFFER;
		for (int copy = 0; v->role == GT_INPUT && copy < l->copies; copy++)
			value_of(l, v, copy);
	}
}

static void append_blocks(struct rewrite *l, struct gt_node *const *nodes,
    const struct gt_replica_block *blocks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = blocks[i].first; k < blocks[i].last; k++)
			append_copies(l, nodes[k], blocks[i].copy, 1);
}

/*
 * Rewrite a graph of one virtual rank, with its backward pass, into the graph of `copies` virtual
 * ranks. `copies` must be a power of two. blocks[count] give the new order of the nodes. A block
 * is a range of nodes of the original graph, for one virtual rank (struct gt_replica_block). The
 * blocks follow each other in the new graph. blocks[i].copy is the index of the virtual rank. If
 * `count` is 0, the copies of each node for all virtual ranks are consecutive. Graphs with
 * collectives over the data axis need this order.
 *
 * Each virtual rank has separate inputs, outputs and temporaries. Virtual rank 0 keeps their names;
 * for virtual rank i > 0, the value NAME is called NAME.i. Nodes that read only parameters, or the
 * result of a collective, are not repeated. Gradients, and inputs of an all_reduce over the data
 * axis, are summed over the virtual ranks as ((0 + 1) + (2 + 3)) + ... Each sum is computed as soon
 * as its two terms are known. An all_gather over the data axis gathers the vectors of all virtual
 * ranks in the order of their indices. So the node's attribute `ranks` must be the number of
 * virtual ranks of all ranks together. Only virtual rank 0 updates the buffers of the model, such
 * as the running statistics of batch norm.
 *
 * Errors: GT_EINVAL if nodes add to the gradients in the store (gt_pass_options.accumulate), or if
 * blocks are given for a graph with collectives over the data axis.
 */
int gt_virtual_rewrite(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t block_count, struct gt_err *err)
{
	struct rewrite l = { .g = g, .copies = copies, .value_count = g->value_count };
	size_t count = g->node_count;
	struct gt_node **nodes;
	int rc = check_gradient_inputs(g, err);

	if (rc || copies == 1)
		return rc;
	nodes = gt_calloc(count, sizeof(struct gt_node *), err);
	l.once = gt_calloc(l.value_count, sizeof(*l.once), err);
	l.values = gt_calloc((size_t)copies * l.value_count, sizeof(struct gt_value *), err);
	rc = nodes && l.once && l.values ? 0 : GT_ENOMEM;
	if (!rc) {
		memcpy(nodes, g->nodes, count * sizeof(struct gt_node *));
		g->node_count = 0;
		begin(&l);
		append_blocks(&l, nodes, blocks, block_count);
		for (size_t i = 0; !block_count && i < count; i++)
			append_copies(&l, nodes[i], 0, copies);
		rc = gt_graph_status(g, err);
	}
	free(nodes);
	free(l.once);
	free(l.values);
	return rc;
}

int gt_virtual_rewrite_in_turn(struct gt_graph *g, int copies, struct gt_err *err)
{
	struct gt_replica_block *blocks = gt_calloc((size_t)copies, sizeof(*blocks), err);
	int rc = GT_ENOMEM;

	for (int i = 0; blocks && i < copies; i++)
		blocks[i] = (struct gt_replica_block){ i, 0, g->node_count };
	if (blocks)
		rc = gt_virtual_rewrite(g, copies, blocks, (size_t)copies, err);
	free(blocks);
	return rc;
}
