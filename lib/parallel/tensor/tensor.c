/* tensor.c - the tensor axis: the nodes that its pass emits, and the shards that ranks hold. */
#include "lib/parallel/tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/shard.h"
#include "lib/parallel/axis.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/node_attrs.h"

/*
 * A graph pass (a function that rewrites a graph) changes the forward graph. lib/graph/shard.h
 * describes this pass with an example. gt_op.shard is the rule that the pass applies to an op. This
 * module provides the nodes by which the ranks communicate (lib/parallel/collectives.h). A node
 * copy_to (f in the Megatron-LM paper) comes before a layer with a weight that is sharded by
 * columns. A node all_reduce (g in the paper) comes after a layer with a weight that is sharded by
 * rows. Between the two nodes the ranks exchange nothing.
 *
 *   - Attention: each rank holds the columns of some heads of the queries, keys and values, and
 *     computes these heads.
 *   - Embedding: the table is sharded by rows. If the table is also the output layer, each rank
 *     computes the logits of its shard of the vocabulary. For the cross-entropy the ranks only
 *     exchange a few numbers per row (lib/graph/ops/loss_sharded.c).
 *   - Attention with more ranks than heads of keys and values: several ranks compute the same keys
 *     and values, from weights that stay whole, and all ranks add up the gradients of these
 *     weights.
 *   - A matrix product with a weight sharded by columns, and the next product, with a weight
 *     sharded by rows, form a pair. All ranks compute everything outside these pairs (norms,
 *     residuals, products that are not in a pair) on the same values, with the same results.
 *   - In a model without pairs, single products are sharded: by columns, which all ranks then
 *     gather, or by rows.
 *     Dropout draws the same numbers as on one rank.
 *
 * Shards need not be equal: 3 ranks can share 4 heads.
 * Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053.
 *
 * Errors of gt_parallel_rewrite(): GT_ENOTSUP if no layer can be sharded, or only single layers
 * with less than half of the weights; GT_EINVAL if a layer has
 * fewer heads, columns or rows than there are ranks.
 */

/* The state of the axis. */
struct gt_shards {
	struct gt_sharding *shardings;
	size_t count, capacity;
	int64_t sent_bytes; /* bytes that a rank sends in a run of the graph that sends the most */
};

/* ---- options ---- */

static int tensor_axis_size(const struct gt_parallel_options *o, int ranks)
{
	(void)ranks;
	return o->tensor > 1 ? o->tensor : 1;
}

static int check_tensor_axis(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	(void)batch;
	if (o->tensor <= 1)
		return 0;
	if (ranks % o->tensor) {
		gt_err_set(err, GT_EINVAL, "{tensor-parallel}: %d does not divide %d rank%s",
		    o->tensor, ranks, ranks == 1 ? "" : "s");
		return gt_err_hint(err, "{nproc} %d, or a multiple of it", o->tensor);
	}
	if (!gt_parallel_modes[o->kind]->shards) {
		gt_err_set(err, GT_EINVAL,
		    "{tensor-parallel} cannot be combined with {parallel} %s",
		    gt_parallel_names[o->kind]);
		return gt_err_hint(err, "use any other {parallel}");
	}
	return 0;
}

static struct gt_shards *shards_of(const struct gt_parallel *p)
{
	return p->axis_state[GT_AXIS_TENSOR];
}

static int open_axis(struct gt_parallel *p, struct gt_err *err)
{
	p->axis_state[GT_AXIS_TENSOR] = gt_calloc(1, sizeof(struct gt_shards), err);
	return p->axis_state[GT_AXIS_TENSOR] ? 0 : GT_ENOMEM;
}

static void release_shards(struct gt_parallel *p)
{
	struct gt_shards *t = shards_of(p);

	if (!t)
		return;
	for (size_t i = 0; i < t->count; i++)
		free((void *)t->shardings[i].name);
	free(t->shardings);
	free(t);
}

/* ---- the pass ---- */

const struct gt_sharding *gt_tp_sharding(const struct gt_parallel *p, const char *name)
{
	const struct gt_shards *t = shards_of(p);

	for (size_t i = 0; i < t->count; i++)
		if (!strcmp(t->shardings[i].name, name))
			return &t->shardings[i];
	return NULL;
}

/* Several graphs are sharded the same way: the first is noted. */
static int note_sharding(void *self, const struct gt_sharding *sharding, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	struct gt_shards *t = shards_of(p);
	const char *name;

	if (gt_tp_sharding(p, sharding->name))
		return 0;
	name = gt_strdup(sharding->name, err);
	if (!name || gt_grow(&t->shardings, t->count, &t->capacity, sizeof(*t->shardings), err)) {
		free((void *)name);
		return GT_ENOMEM;
	}
	t->shardings[t->count] = *sharding;
	t->shardings[t->count++].name = name;
	return 0;
}

static bool stays_whole(void *self, const char *name)
{
	const struct gt_parallel *p = self;

	return !gt_tp_sharding(p, name);
}

static struct gt_value *copy_to_tensor_axis(struct gt_graph *g, struct gt_value *x)
{
	return gt_copy_to(g, x, GT_AXIS_TENSOR);
}

static struct gt_value *sum(struct gt_graph *g, struct gt_value *x)
{
	return gt_sum_over(g, x, GT_AXIS_TENSOR);
}

static struct gt_value *max(struct gt_graph *g, struct gt_value *x)
{
	return gt_max_over(g, x, GT_AXIS_TENSOR);
}

static double elements_of(int ndim, const int64_t *shape)
{
	double elements = 1;

	for (int i = 0; i < ndim; i++)
		elements *= (double)shape[i];
	return elements;
}

/* A model most of whose weights stay whole would run, but every rank would do most of the work. */
static int check_share(const struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err)
{
	const struct gt_shards *t = shards_of(p);
	double sharded = 0, whole = 0;

	for (size_t i = 0; i < t->count; i++)
		sharded += elements_of(t->shardings[i].ndim, t->shardings[i].shape);
	for (size_t i = 0; i < g->value_count; i++)
		if (g->values[i]->role == GT_PARAMETER && !gt_tp_sharding(p, g->values[i]->name))
			whole += elements_of(g->values[i]->ndim, g->values[i]->shape);
	if (sharded > whole)
		return 0;
	if (t->count)
		gt_err_set(err, GT_ENOTSUP,
		    "tensor parallelism can shard only %.0f of %.0f weights of this model", sharded,
		    sharded + whole);
	else
		gt_err_set(err, GT_ENOTSUP, "tensor parallelism can shard no layer of this model");
	return gt_err_hint(err, "data parallelism takes any model");
}

static int rewrite_for_shards(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	static const struct gt_shard_nodes nodes = {
		.copy = copy_to_tensor_axis, .sum = sum, .max = max
	};
	const struct gt_group *seats = p->axes[GT_AXIS_TENSOR];
	struct gt_shard_pass pass = { .g = g,
		.rank = seats->rank,
		.ranks = seats->size,
		.nodes = &nodes,
		.note = note_sharding,
		/* The shards of the first graph are those of all later ones. */
		.stays_whole = shards_of(p)->count ? stays_whole : NULL,
		.self = p,
		.err = err };
	int rc;

	if (seats->size == 1)
		return 0;
	/* Single layers take more communication, so they are sharded only if there is no pair. */
	pass.alone = !pass.stays_whole && !gt_shard_has_pair(&pass);
	rc = gt_shard_graph(&pass);
	return rc || !pass.alone ? rc : check_share(p, g, err);
}

static struct gt_slice slice_of_seat(
    const struct gt_parallel *p, const struct gt_sharding *sharding, int seat)
{
	return gt_sharding_slice(sharding, seat, p->axes[GT_AXIS_TENSOR]->size);
}

static int64_t elements_of_seat(
    const struct gt_parallel *p, const struct gt_sharding *sharding, int seat)
{
	const struct gt_slice slice = slice_of_seat(p, sharding, seat);

	return gt_slice_elements(&slice);
}

static int attach_shards(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	const struct gt_shards *t = shards_of(p);

	(void)err;
	for (size_t i = 0; i < t->count; i++) {
		const struct gt_sharding *s = &t->shardings[i];
		int64_t largest = 0;

		for (int seat = 0; seat < p->axes[GT_AXIS_TENSOR]->size; seat++)
			if (elements_of_seat(p, s, seat) > largest)
				largest = elements_of_seat(p, s, seat);
		gt_store_mark_shard(store, s->name, s->shape, largest);
	}
	return 0;
}

/* Count the bytes that the collectives send in the graph of all parts of a batch, together with
 * those of the sequence axis, whose ranks are the same. */
static int count_bytes(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	int64_t n = p->axes[GT_AXIS_TENSOR]->size, bytes = gt_tp_row_bytes(g);

	(void)chunks;
	(void)err;
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];

		if (node->op == &gt_op_all_reduce &&
		    gt_node_attrs(&node->attrs).collective.axis == GT_AXIS_TENSOR)
			bytes += 2 * (int64_t)gt_value_bytes(node->in[0]);
	}
	/* A reduce-scatter or an all-gather sends (n - 1) / n of the value. An all-reduce is both.
	 */
	bytes = bytes * (n - 1) / n;
	if (bytes > shards_of(p)->sent_bytes)
		shards_of(p)->sent_bytes = bytes;
	return 0;
}

static int64_t tensor_axis_sent(const struct gt_parallel *p, int micro_batches)
{
	int64_t n = p->axes[GT_AXIS_TENSOR]->size;
	int64_t joined = n > 1 ? gt_tp_joined_bytes(p, NULL) : 0;

	return shards_of(p)->sent_bytes * micro_batches + joined * (n - 1) / n;
}

/* ---- shards ---- */

static bool cuts(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return gt_tp_sharding(p, slot->name);
}

static struct gt_slice held(const struct gt_parallel *p, const struct gt_slot *slot, int seat)
{
	return slice_of_seat(p, gt_tp_sharding(p, slot->name), seat);
}

/* Seats hold different gradients of sharded tensors, so the norm needs the sum over the axis. */
static bool divides(const struct gt_parallel *p)
{
	return p->axes[GT_AXIS_TENSOR]->size > 1;
}

/* Seat 0 counts gradients that all seats hold. */
static bool counts(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return !p->axes[GT_AXIS_TENSOR]->rank || gt_tp_sharding(p, slot->name);
}

const struct gt_axis_row gt_axis_tensor = {
	.name = "tensor",
	.size = tensor_axis_size,
	.check = check_tensor_axis,
	.open = open_axis,
	.release = release_shards,
	.rewrite = rewrite_for_shards,
	.attach = attach_shards,
	.insert = count_bytes,
	.cuts = cuts,
	.held = held,
	.divides = divides,
	.counts = counts,
	.sent = tensor_axis_sent,
};
