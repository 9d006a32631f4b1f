/* zero_nodes.c - nodes that reduce gradients to their owners, and gather parameters from them. */

/*
 * Example: two ranks, zero2, bucket 0 with W (3 elements), b (2) and one element of padding. Rank 0
 * owns the first three elements, rank 1 the others. Each rank has a buffer for the bucket.
 *
 *   node                     rank 0's buffer 0     rank 1's buffer 0     gradients that are kept
 *   backward pass            1  2  3 | 4  5  ?     10 20 30 | 40 50 ?
 *   reduce_scatter_start 0   padding becomes 0, the sums travel while the backward pass goes on
 *   backward pass            ... writes bucket 1's gradients into buffer 1
 *   reduce_scatter_wait 0    11 22 33 | -  -  -     -  -  -  | 44 55 0   rank 0: 11 22 33
 *   reduce_scatter_start 1                                               rank 1: 44 55 0
 *   reduce_scatter_wait 1    at the end; then each rank updates the parameters that it owns
 *
 * With `compress` the sums travel in another buffer, of 16 bits, to which the start rounds them;
 * the wait widens the rank's own part. With zero1 the buffers are the store's gradients themselves.
 * With zero3 all_gather_start and all_gather_wait put W and b of all owners into a buffer before
 * the first node that reads them.
 */
#include <stdlib.h>

#include "lib/graph/op.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/data/zero.h"

/*
 * Every rank of the mode ddp keeps all gradients, parameters and optimizer states. In the modes
 * zero1 to zero3, the ranks of the data axis (lib/parallel/parallel.h) divide them. Each bucket
 * (buckets.h) is divided into equal shards, one for each rank. gt_zero_cut() pads the layout to
 * make this possible. Rank r owns shard r: only rank r updates this shard, and keeps its optimizer
 * state. The three modes are called stages 1 to 3:
 *
 *   zero1  Each rank has memory for all gradients. A bucket is reduce-scattered in the background
 *          as soon as it is complete. After the update, the parameters are all-gathered. The two
 *          collectives together send as many bytes as the all-reduce of ddp.
 *   zero2  As zero1, and a rank keeps only the gradients of its shards. The gradients of a bucket
 *          are computed in a temporary value, which stays in the plan's arena until the bucket is
 *          reduced. While one bucket is reduced, the gradients of the next bucket are computed.
 *          Only one bucket is reduced at a time: the next reduction begins after its end. In each
 *          micro-batch, the reduced gradients are added to the gradients that the rank keeps.
 *   zero3  As zero2, and a rank keeps only its shards of the parameters. A bucket is gathered into
 *          a temporary before the first node that reads the bucket, freed after the last such node,
 *          and gathered again for the backward pass. While nodes use one bucket, the next bucket is
 *          gathered. Because of the gathers, a forward pass is a collective call: all ranks have to
 *          run it together.
 *
 * In a pipeline (pipeline/pipeline.h), a run has several chunks, which add their gradients to one
 * buffer. So all buffers stay until the last chunk has added its gradients, and with zero3 the
 * parameters stay gathered from the first chunk's loss on; only between steps a rank holds no more
 * than its shards.
 *
 * Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020 (arXiv 1910.02054).
 */

/* ---- kernels ---- */

static float *at(void *flat, int64_t offset)
{
	return (float *)flat + offset;
}

/* No node writes the padding between parameters, so it is zeroed here. */
static int clear_gaps(const struct gt_parallel *p, struct gt_stream *stream, int bucket,
    float *buffer, struct gt_err *err)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int64_t first = z->buckets.first[bucket], end = first + z->buckets.count[bucket];
	int rc = 0;

	for (size_t i = 0; !rc && i < z->gap_count; i++)
		if (z->gaps[i].offset >= first && z->gaps[i].offset < end)
			rc = p->store->device->backend->zero(stream,
			    buffer + z->gaps[i].offset - first,
			    (size_t)z->gaps[i].count * sizeof(*buffer), err);
	return rc;
}

/* The chunks of a pipeline add their gradients to the buffer. */
static int run_clear_bucket(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_tensor *buffer = &call->out[0];

	return p->store->device->backend->zero(
	    call->stream, buffer->data, (size_t)gt_tensor_elements(buffer) * sizeof(float), err);
}

static int run_reduce_start(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int i = gt_node_attrs(&call->attrs).bucket.index, rank = p->axes[GT_AXIS_DATA]->rank;
	float *buffer =
	    z->stage == 1 ? at(p->store->gradients->memory, z->buckets.first[i]) : call->in[0].data;
	struct gt_collective c = { .kind = GT_REDUCE_SCATTER,
		.in = buffer,
		.out = buffer + rank * p->store->parts[i].count,
		.count = p->store->parts[i].count,
		.dtype = p->store->dtype,
		.reduction = GT_SUM,
		.what = z->buckets.name[i],
		.span = gt_buckets_span(p, &z->buckets, i, 0),
		.marks = p->marks,
		.stream = call->stream };

	if (z->stage > 1 && clear_gaps(p, call->stream, i, buffer, err))
		return err->code;
	if (p->o.compress) {
		uint16_t *sent = z->sent ? z->sent + z->buckets.first[i] : call->out[0].data;

		c.in = sent;
		c.out = sent + rank * c.count;
		c.dtype = gt_buckets_sent_as(p);
		if (p->store->device->backend->ranges()->narrow(
		        call->stream, sent, buffer, z->buckets.count[i], c.dtype, err))
			return err->code;
	}
	return gt_group_start(p->device_axes[GT_AXIS_DATA], &c, &z->tickets[i].reduced, err);
}

/* Widen the sums of this rank's parts of all buckets, which lie in the store. */
static int widen_parts(const struct gt_parallel *p, struct gt_stream *stream, struct gt_err *err)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int rc = 0;

	for (size_t i = 0; !rc && i < z->buckets.size; i++) {
		const struct gt_part *part = &p->store->parts[i];

		rc = p->store->device->backend->ranges()->widen(stream,
		    at(p->store->gradients->memory, part->offset), z->sent + part->offset,
		    part->count, gt_buckets_sent_as(p), err);
	}
	return rc;
}

/* Add the sum of this rank's part of a bucket, which is in a buffer, to the store's gradients. */
static int add_part(const struct gt_parallel *p, struct gt_call *call, const struct gt_part *part,
    struct gt_err *err)
{
	const struct gt_range_kernels *ranges = p->store->device->backend->ranges();
	int64_t first = p->axes[GT_AXIS_DATA]->rank * part->count;
	float *own = (float *)call->in[p->o.compress ? 1 : 0].data + first;

	if (p->o.compress &&
	    ranges->widen(call->stream, own, (const uint16_t *)call->in[0].data + first,
	        part->count, gt_buckets_sent_as(p), err))
		return err->code;
	return ranges->add(
	    call->stream, at(p->store->gradients->memory, part->at), own, part->count, err);
}

/* The last bucket's reduction ends after those of all others. Where gradients are in buffers, this
 * rank's part of the one that travelled is added to the store's. */
static int run_reduce_wait(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int i = gt_node_attrs(&call->attrs).bucket.index;
	int rc =
	    gt_group_await(p->device_axes[GT_AXIS_DATA], z->tickets[i].reduced, call->stream, err);

	if (!rc && z->stage > 1)
		return add_part(p, call, &p->store->parts[i], err);
	return rc || !z->sent ? rc : widen_parts(p, call->stream, err);
}

static int run_gather_start(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int i = gt_node_attrs(&call->attrs).bucket.index;
	const struct gt_collective c = { .kind = GT_ALL_GATHER,
		.in = at(p->store->parameters->memory, p->store->parts[i].at),
		.out = call->out[0].data,
		.count = p->store->parts[i].count,
		.dtype = p->store->dtype,
		.what = z->buckets.name[i],
		.span =
		    gt_buckets_span(p, &z->buckets, i, gt_node_attrs(&call->attrs).bucket.gather),
		.marks = p->marks,
		.stream = call->stream };

	return gt_group_start(p->device_axes[GT_AXIS_DATA], &c, &z->tickets[i].gathered, err);
}

static int run_gather_wait(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	return gt_group_await(p->device_axes[GT_AXIS_DATA],
	    z->tickets[gt_node_attrs(&call->attrs).bucket.index].gathered, call->stream, err);
}

const struct gt_kernel gt_zero_kernels[] = {
	{ .op = "clear_bucket", .dtype = GT_F32, .run = run_clear_bucket },
	{ .op = "reduce_scatter_start", .dtype = GT_F32, .run = run_reduce_start },
	{ .op = "reduce_scatter_wait", .dtype = GT_F32, .run = run_reduce_wait },
	{ .op = "reduce_scatter_wait", .dtype = GT_F16, .run = run_reduce_wait },
	{ .op = "reduce_scatter_wait", .dtype = GT_BF16, .run = run_reduce_wait },
	{ .op = "all_gather_start", .dtype = GT_F32, .run = run_gather_start },
	{ .op = "all_gather_wait", .dtype = GT_F32, .run = run_gather_wait },
	{ .op = NULL },
};

/* ---- ops ---- */

static int infer_buffer(struct gt_node *node, struct gt_err *err)
{
	struct gt_value *v = node->out[0];

	(void)err;
	v->dtype = GT_F32;
	v->ndim = 1;
	v->shape[0] = gt_node_attrs(&node->attrs).bucket.count;
	return 0;
}

static const struct gt_op op_clear_bucket = { .name = "clear_bucket",
	.outputs = 1,
	.infer = infer_buffer,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
/* Input: the bucket's buffer; none where gradients lie in the store. */
static const struct gt_op op_reduce_start = { .name = "reduce_scatter_start",
	.collective = true,
	.max_inputs = 1,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
static const struct gt_op op_reduce_wait = { .name = "reduce_scatter_wait",
	.max_inputs = 1,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops };
/* With `compress`, in the modes whose gradients are in buffers: the output of the start is the
 * bucket as it is sent. The wait reads it, and writes this rank's part to the buffer. So the buffer
 * stays while the start reads it on a stream of its own. */
static const struct gt_op op_compressed_start = { .name = "reduce_scatter_start",
	.collective = true,
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = infer_buffer,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
static const struct gt_op op_compressed_wait = { .name = "reduce_scatter_wait",
	.min_inputs = 2,
	.max_inputs = 2,
	.writes = 1u << 1,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops };
static const struct gt_op op_gather_start = { .name = "all_gather_start",
	.collective = true,
	.outputs = 1,
	.infer = infer_buffer,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
static const struct gt_op op_gather_wait = { .name = "all_gather_wait",
	.min_inputs = 1,
	.max_inputs = 1,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };

/* ---- gradients ---- */

/* Buffers for the buckets' gradients, [buckets.size], and each gradient in its place. */
static void make_buffers(const struct gt_parallel *p, struct gt_graph *g, struct gt_value **buffers)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	size_t values = g->value_count;

	for (size_t i = 0; i < z->buckets.size; i++)
		buffers[i] = gt_temporary(g, p->store->dtype, z->buckets.count[i]);
	for (size_t i = 0; i < values; i++) {
		struct gt_value *v = g->values[i];
		const struct gt_slot *slot;
		size_t bucket;

		if (v->role != GT_GRADIENT)
			continue;
		slot = gt_store_find(p->store, v->parameter->name);
		bucket = gt_buckets_find(&z->buckets, slot->offset);
		v->within = buffers[bucket];
		v->within_first = slot->offset - z->buckets.first[bucket];
	}
}

/* Whether a node writes a gradient of the bucket; *adds: by adding to it. */
static bool writes_bucket(
    const struct gt_parallel *p, const struct gt_node *n, int bucket, bool *adds)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	for (int k = 0; k < n->outputs + n->inputs; k++) {
		const struct gt_value *v = k < n->outputs ? n->out[k] : n->in[k - n->outputs];

		*adds = k >= n->outputs;
		if (!v || v->role != GT_GRADIENT ||
		    (*adds && !(n->op->writes >> (k - n->outputs) & 1)))
			continue;
		if ((int)gt_buckets_find(
		        &z->buckets, gt_store_find(p->store, v->parameter->name)->offset) == bucket)
			return true;
	}
	return false;
}

/* Clear each buffer before the first node that adds to it, unless another node has written it. */
static void insert_clears(const struct gt_parallel *p, const struct gt_graph *g,
    struct gt_value **buffers, struct gt_insertions *all)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	for (size_t i = 0; i < z->buckets.size; i++) {
		bool adds = false;
		size_t k = 0;

		while (k < g->node_count && !writes_bucket(p, g->nodes[k], (int)i, &adds))
			k++;
		if (k < g->node_count && adds)
			gt_insertions_add(all, (struct gt_insertion){ .op = &op_clear_bucket,
			                           .at = k,
			                           .bucket = (int)i,
			                           .out = buffers[i] });
	}
}

/* Whole gradients are reduced once a step; those in buffers are of one micro-batch. */
static unsigned reducing_runs(const struct gt_zero *z)
{
	return z->stage == 1 ? GT_RUN_LAST : 0;
}

/* The reductions of a graph, as they are ordered. */
struct reduces {
	const struct gt_parallel *p;
	struct gt_graph *g;
	struct gt_insertions *all;
	struct gt_value **buffers; /* [buckets.size]; NULL each: gradients lie in the store */
	struct gt_value *sent;     /* what travels of the bucket that was started last */
};

/* Whether what is sent is another value than the buffer. */
static bool compresses_buffers(const struct gt_parallel *p)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	return p->o.compress && z->stage > 1;
}

static void insert_start(struct reduces *r, size_t place, int bucket)
{
	const struct gt_zero *z = r->p->axis_state[GT_AXIS_DATA];
	bool apart = compresses_buffers(r->p);
	struct gt_value *sent =
	    apart ? gt_temporary(r->g, gt_buckets_sent_as(r->p), z->buckets.count[bucket]) : NULL;

	gt_insertions_add(
	    r->all, (struct gt_insertion){ .op = apart ? &op_compressed_start : &op_reduce_start,
	                .at = place,
	                .bucket = bucket,
	                .runs = reducing_runs(z),
	                .in = { r->buffers[bucket] },
	                .out = sent });
	r->sent = apart ? sent : r->buffers[bucket];
}

static void insert_wait(struct reduces *r, size_t place, int bucket)
{
	const struct gt_zero *z = r->p->axis_state[GT_AXIS_DATA];
	bool apart = compresses_buffers(r->p);

	gt_insertions_add(
	    r->all, (struct gt_insertion){ .op = apart ? &op_compressed_wait : &op_reduce_wait,
	                .at = place,
	                .bucket = bucket,
	                .runs = reducing_runs(z),
	                .in = { r->sent, apart ? r->buffers[bucket] : NULL } });
}

/*
 * A bucket is reduced as soon as it is full; where several are full behind one node, in the order
 * of their numbers. All ranks have the same graph, and so the same order. One buffer travels at a
 * time: the wait for it, placed before the next start, is the last node that reads it, so the
 * memory plan gives its memory to later buckets.
 */
static int order_reduces(
    struct gt_parallel *p, struct gt_graph *g, struct gt_insertions *all, struct gt_err *err)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	size_t *end = gt_buckets_ends(&z->buckets, p->store, g, err), last = g->node_count;
	struct gt_value **buffers = gt_calloc(z->buckets.size, sizeof(*buffers), err);
	struct reduces reduces = { .p = p, .g = g, .all = all, .buffers = buffers };
	int before = -1;

	if (!end || !buffers) {
		free(end);
		free(buffers);
		return GT_ENOMEM;
	}
	if (z->stage > 1) {
		make_buffers(p, g, buffers);
		insert_clears(p, g, buffers, all);
	}
	for (size_t place = 0; place <= last; place++) {
		for (size_t i = 0; i < z->buckets.size; i++) {
			if (end[i] != place)
				continue;
			if (before >= 0 && z->stage > 1)
				insert_wait(&reduces, place, before);
			insert_start(&reduces, place, (int)i);
			before = (int)i;
		}
	}
	if (before >= 0)
		insert_wait(&reduces, last, before);
	free(end);
	free(buffers);
	return 0;
}

/* ---- parameters ---- */

/* A time in which a bucket's parameters are there: from node `first` to `last`. */
struct visit {
	size_t first, last;
	int bucket;
	struct gt_value *buffer;
};

static int by_first(const void *x, const void *y)
{
	const struct visit *a = x, *b = y;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->bucket - b->bucket;
}

static const struct gt_slot *slot_read(
    const struct gt_parallel *p, const struct gt_node *n, int k, int *bucket)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	const struct gt_slot *slot;

	if (!n->in[k] || n->in[k]->role != GT_PARAMETER)
		return NULL;
	slot = gt_store_find(p->store, n->in[k]->name);
	*bucket = (int)gt_buckets_find(&z->buckets, slot->offset);
	return slot;
}

/* Find the buckets that the nodes [from, to) read, a visit for each. Return how many there are. */
static size_t find_visits(const struct gt_parallel *p, const struct gt_graph *g, size_t from,
    size_t to, struct visit *visits)
{
	size_t count = 0;

	for (size_t i = from; i < to; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->inputs; k++) {
			int bucket;
			size_t v = 0;

			if (!slot_read(p, n, k, &bucket))
				continue;
			while (v < count && visits[v].bucket != bucket)
				v++;
			if (v == count)
				visits[count++] = (struct visit){ i, i, bucket, NULL };
			visits[v].last = i;
		}
	}
	return count;
}

/* Nodes read parameters where the visit has them. */
static void move_in(const struct gt_parallel *p, struct gt_graph *g, const struct visit *visit)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	for (size_t i = visit->first; i <= visit->last; i++) {
		struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->inputs; k++) {
			int bucket;
			const struct gt_slot *slot = slot_read(p, n, k, &bucket);
			struct gt_value *was = n->in[k], *piece;

			if (!slot || bucket != visit->bucket)
				continue;
			piece = gt_temporary_within(
			    g, visit->buffer, slot->offset - z->buckets.first[bucket], was);
			for (size_t j = i; piece && j <= visit->last; j++)
				for (int l = 0; l < g->nodes[j]->inputs; l++)
					if (g->nodes[j]->in[l] == was)
						g->nodes[j]->in[l] = piece;
		}
	}
}

/* The end of the forward part: the loss is made there. */
static size_t end_of_forward(const struct gt_graph *g)
{
	const struct gt_value *loss = gt_graph_find(g, "loss");

	return loss && loss->producer ? gt_node_index(g, loss->producer) + 1 : g->node_count;
}

/* A bucket that the forward part keeps to its end stays, as the backward part may begin with it. */
static bool stays(struct visit *visits, size_t forward, size_t count)
{
	for (size_t i = 0; forward < count && i < forward; i++) {
		if (visits[i].bucket != visits[forward].bucket ||
		    visits[i].last < visits[forward - 1].first)
			continue;
		visits[i].last = visits[forward].last;
		return true;
	}
	return false;
}

/*
 * Each bucket is gathered before its first reader in the forward part, and again in the backward
 * part, which is behind node `end`. A gather begins when the bucket before is there, and goes on
 * while nodes work on that. Example: nodes 0 and 1 read bucket 0, nodes 2 and 3 bucket 1; nodes 4
 * and 5, of the backward part, read bucket 1, node 6 bucket 0.
 *
 *   visits      0: [0, 1]   1: [2, 3] | 1: [4, 5]   0: [6, 6]
 *   stays()     0: [0, 1]   1: [2, 5]   0: [6, 6]           bucket 1 is gathered once
 *   before 0    start 0, wait 0, start 1
 *   before 2    wait 1, start 0                             into another buffer
 *   before 6    wait 0
 */
static int order_gathers(struct gt_parallel *p, struct gt_graph *g, size_t end,
    struct gt_insertions *all, struct gt_err *err)
{
	struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	struct visit *visits = gt_calloc(2 * z->buckets.size, sizeof(*visits), err);
	int64_t gathered = 0;
	size_t count, forward;

	if (!visits)
		return GT_ENOMEM;
	forward = count = find_visits(p, g, 0, end, visits);
	qsort(visits, count, sizeof(*visits), by_first);
	count += find_visits(p, g, end, g->node_count, visits + count);
	qsort(visits + forward, count - forward, sizeof(*visits), by_first);
	if (stays(visits, forward, count)) {
		count--;
		for (size_t i = forward; i < count; i++)
			visits[i] = visits[i + 1];
	}
	for (size_t i = 0; i < count; i++) {
		struct visit *v = &visits[i];

		v->buffer = gt_temporary(g, p->store->dtype, z->buckets.count[v->bucket]);
		move_in(p, g, v);
		gt_insertions_add(all, (struct gt_insertion){ .op = &op_gather_start,
		                           .at = visits[i ? i - 1 : 0].first,
		                           .bucket = v->bucket,
		                           .gather = i < forward ? 1 : 2,
		                           .out = v->buffer });
		gt_insertions_add(all, (struct gt_insertion){ .op = &op_gather_wait,
		                           .at = v->first,
		                           .bucket = v->bucket,
		                           .in = { v->buffer } });
		gathered += z->buckets.count[v->bucket];
	}
	/* A step's graph gathers more than that of an evaluation, which may come after it. */
	if (gathered > z->gathered)
		z->gathered = gathered;
	free(visits);
	return 0;
}

/* ---- the pass ---- */

static int insert_zero_nodes(
    struct gt_parallel *p, struct gt_graph *g, bool backward, struct gt_err *err)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	struct gt_insertions all;
	int rc = gt_insertions_init(&all, 7 * z->buckets.size, err);

	if (!rc && backward)
		rc = order_reduces(p, g, &all, err);
	if (!rc && z->stage > 2)
		rc = order_gathers(p, g, backward ? end_of_forward(g) : g->node_count, &all, err);
	gt_graph_scope(g, "zero");
	if (!rc)
		gt_insertions_emit(&all, &z->buckets, g);
	gt_insertions_release(&all);
	return rc ? rc : gt_graph_status(g, err);
}

int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	return insert_zero_nodes(p, g, true, err);
}

int gt_zero_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	return insert_zero_nodes(p, g, false, err);
}
