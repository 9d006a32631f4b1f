/* ddp.c - data parallelism: buckets of gradients, and the nodes that add them up over ranks. */
#include "lib/parallel/data/ddp.h"

#include <stdlib.h>

#include "lib/graph/op.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/data/buckets.h"
#include "lib/parallel/data/dp.h"
#include "lib/parallel/data/modes.h"

/*
 * All gradients are in one flat buffer, in the order in which the backward pass finishes them. A
 * bucket is a range of this buffer of about bucket_bytes bytes. The first bucket takes no more
 * parameters when it has reached 1 MiB, so that its all-reduce starts early. For each bucket, one
 * node is inserted into the graph, after the last node that writes the bucket. This node starts the
 * all-reduce of the bucket in the background. One more node, at the end of the graph, waits for all
 * buckets. The loss of each rank is weighted by 1 / (number of targets in the global batch). So the
 * sum of the gradients over the ranks is the gradient of the mean over the global batch, for any
 * division of the batch among ranks. Source of the scheme: Li et al., "PyTorch Distributed:
 * Experiences on Accelerating Data Parallel Training", VLDB 2020.
 *
 * If compression is on (gt_parallel_options.compress), a bucket is rounded to float16 or bfloat16,
 * and summed over ranks in float32. The sum is rounded once more, and converted back to float32. So
 * there are two roundings, one of each rank's gradient, and one of the sum. The error of each
 * rounding is at most half a unit in the last place. PyTorch's fp16_compress_hook and
 * bf16_compress_hook divide by the number of ranks after the first rounding, because in PyTorch the
 * loss of a rank is the mean over the samples of this rank. The result of this division is rounded,
 * too. gtrain needs no such division, because the weighted loss already gives gradients whose sum
 * over the ranks is the mean. So gtrain has one rounding less, and the sum overflows only if the
 * mean overflows. An element that overflows becomes infinite. Then the norm of the gradients is
 * infinite too, and the training loop detects this. Source:
 * torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
 */

struct ddp {
	void *gradients; /* memory of the group, lent to the store */
	/* memory of the group, lent to the plane of the gradients as they are sent; or NULL */
	uint16_t *sent;
	struct gt_buckets buckets;
};

/* ---- kernels ---- */

static int run_start(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct ddp *d = p->axis_state[GT_AXIS_DATA];
	int i = gt_node_attrs(&call->attrs).bucket.index;
	char *bucket =
	    (char *)d->gradients + (size_t)d->buckets.first[i] * gt_dtype_size(p->store->dtype);
	struct gt_collective c = { .kind = p->mode->main ? GT_REDUCE : GT_ALL_REDUCE,
		.in = bucket,
		.out = bucket,
		.count = d->buckets.count[i],
		.dtype = p->store->dtype,
		.reduction = GT_SUM,
		.what = d->buckets.name[i],
		.span = gt_buckets_span(p, &d->buckets, i, 0),
		.marks = p->marks,
		.stream = call->stream };

	if (d->sent) {
		c.dtype = gt_buckets_sent_as(p);
		c.in = c.out = d->sent + d->buckets.first[i];
		if (p->store->device->backend->ranges()->narrow(
		        call->stream, c.out, (float *)bucket, c.count, c.dtype, err))
			return err->code;
	}
	return gt_group_start(p->device_axes[GT_AXIS_DATA], &c, NULL, err);
}

/*
 * There is one wait for all buckets, as the update needs all gradients, so all of them are
 * widened here by one kernel.
 */
static int run_wait(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct ddp *d = p->axis_state[GT_AXIS_DATA];
	int rc = gt_group_await(p->device_axes[GT_AXIS_DATA], GT_GROUP_ALL, call->stream, err);

	if (!rc && d->sent)
		rc = p->store->device->backend->ranges()->widen(call->stream, d->gradients, d->sent,
		    p->store->flat_count, gt_buckets_sent_as(p), err);
	return rc;
}

const struct gt_kernel gt_ddp_kernels[] = {
	{ .op = "all_reduce_start", .dtype = GT_F32, .run = run_start },
	{ .op = "all_reduce_wait", .dtype = GT_F32, .run = run_wait },
	{ .op = "reduce_start", .dtype = GT_F32, .run = run_start },
	{ .op = "reduce_wait", .dtype = GT_F32, .run = run_wait },
	{ .op = NULL },
};

/* ---- nodes ---- */

static const struct gt_op op_start = { .name = "all_reduce_start",
	.collective = true,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
static const struct gt_op op_wait = {
	.name = "all_reduce_wait", .infer = gt_nodes_infer_nothing, .flops = gt_nodes_no_flops
};
static const struct gt_op op_reduce_start = { .name = "reduce_start",
	.collective = true,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.print = gt_nodes_print_bucket };
static const struct gt_op op_reduce_wait = {
	.name = "reduce_wait", .infer = gt_nodes_infer_nothing, .flops = gt_nodes_no_flops
};

static int insert_ddp_nodes(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct ddp *d = p->axis_state[GT_AXIS_DATA];
	bool main = p->mode->main;
	size_t *end = gt_buckets_ends(&d->buckets, p->store, g, err);
	struct gt_insertions all;
	int rc = gt_insertions_init(&all, d->buckets.size + 1, err);

	for (size_t i = 0; !rc && end && i < d->buckets.size; i++) {
		/* A rank without samples makes its gradients in another order, but starts alike. */
		if (main && i && end[i] < end[i - 1])
			end[i] = end[i - 1];
		gt_insertions_add(
		    &all, (struct gt_insertion){ .op = main ? &op_reduce_start : &op_start,
		              .at = end[i],
		              .bucket = (int)i,
		              .runs = GT_RUN_LAST });
	}
	gt_graph_scope(g, "ddp");
	if (!rc && end) {
		gt_insertions_add(
		    &all, (struct gt_insertion){ .op = main ? &op_reduce_wait : &op_wait,
		              .at = g->node_count,
		              .runs = GT_RUN_LAST });
		gt_insertions_emit(&all, &d->buckets, g);
	}
	free(end);
	gt_insertions_release(&all);
	return rc || !end ? GT_ENOMEM : gt_graph_status(g, err);
}

/* ---- the mode ---- */

static int attach_ddp(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	struct ddp *d = gt_calloc(1, sizeof(*d), err);
	void *sent = NULL;
	int rc;

	if (!d)
		return GT_ENOMEM;
	p->axis_state[GT_AXIS_DATA] = d;
	rc = gt_buckets_check_compress(p, store, err);
	if (!rc)
		rc = gt_buckets_cut(&d->buckets, store, p->o.bucket_bytes, err);
	if (!rc && !p->dry)
		rc = gt_buckets_events(p, &d->buckets, 0, err);
	if (!rc && !p->dry)
		rc = gt_buckets_lend(p, store->gradients, &d->gradients, err);
	if (!rc && p->o.compress)
		rc = gt_buckets_add_sent(p, store, &sent, err);
	d->sent = sent;
	return rc;
}

static void release_ddp(struct gt_parallel *p)
{
	struct ddp *d = p->axis_state[GT_AXIS_DATA];

	if (!d)
		return;
	if (d->gradients)
		gt_group_release(p->device_axes[GT_AXIS_DATA], d->gradients);
	if (d->sent)
		gt_group_release(p->device_axes[GT_AXIS_DATA], d->sent);
	gt_buckets_release(&d->buckets);
	free(d);
}

/* An all-reduce of all gradients, once a step. */
static int64_t ddp_sent_bytes(const struct gt_parallel *p, int micro_batches)
{
	(void)micro_batches;
	return 2 * gt_parallel_reduce_scatter_bytes(p) / (p->o.compress ? 2 : 1);
}

/* The fields that the three modes share. */
#define DDP .attach = attach_ddp, .insert = insert_ddp_nodes, .release = release_ddp

const struct gt_parallel_mode gt_parallel_ddp = { .compresses = true,
	.replicates = true,
	.shards = true,
	.stages = true,
	.sent = ddp_sent_bytes,
	DDP };

/* tf.distribute.MirroredStrategy. */
const struct gt_parallel_mode gt_parallel_mirrored = { .threads = true,
	.compresses = true,
	.replicates = true,
	.shards = true,
	.stages = true,
	.sent = ddp_sent_bytes,
	DDP };

/* torch.nn.DataParallel: dp.h. */
const struct gt_parallel_mode gt_parallel_dp = { .threads = true,
	.main = true,
	.part = gt_dp_part,
	.scatter = gt_dp_scatter,
	.refresh = gt_dp_refresh,
	.update = gt_dp_update,
	.publish = gt_dp_publish,
	DDP };

size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count)
{
	const struct ddp *d = p->axis_state[GT_AXIS_DATA];

	*first = d->buckets.first;
	*count = d->buckets.count;
	return d->buckets.size;
}
