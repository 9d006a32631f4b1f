/* zero_nodes.c - the nodes that reduce gradients to the ranks that own them. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/graph/op.h"
#include "lib/graph/pass.h"
#include "lib/parallel/zero.h"

/* ---- kernels ---- */

static int run_start(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_zero *z = p->state;
	int i = call->attrs.bucket.index;
	size_t size = gt_dtype_size(p->store->dtype);
	char *gradients = p->store->gradients;
	const struct gt_collective c = { .kind = GT_REDUCE_SCATTER,
		.in = gradients + (size_t)z->buckets.first[i] * size,
		.out = gradients + (size_t)z->parts[i].offset * size,
		.count = z->parts[i].count,
		.dtype = p->store->dtype,
		.reduction = GT_SUM,
		.what = z->buckets.name[i],
		.span = &p->events[i].span };

	return p->communicates ? gt_group_start(p->axes[GT_AXIS_DATA], &c, err) : 0;
}

static int run_wait(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;

	return p->communicates ? gt_group_wait(p->axes[GT_AXIS_DATA], err) : 0;
}

const struct gt_kernel gt_zero_kernels[] = {
	{ .op = "reduce_scatter_start", .dtype = GT_F32, .run = run_start },
	{ .op = "reduce_scatter_wait", .dtype = GT_F32, .run = run_wait },
	{ .op = NULL },
};

/* ---- nodes ---- */

static int infer_nothing(struct gt_node *node, struct gt_err *err)
{
	(void)node;
	(void)err;
	return 0;
}

static double no_flops(const struct gt_node *node)
{
	(void)node;
	return 0;
}

static void print_bucket(const struct gt_node *node, FILE *f)
{
	fprintf(f, " bucket=%d", node->attrs.bucket.index);
}

static const struct gt_op op_start = { .name = "reduce_scatter_start",
	.infer = infer_nothing,
	.flops = no_flops,
	.print = print_bucket };
static const struct gt_op op_wait = {
	.name = "reduce_scatter_wait", .infer = infer_nothing, .flops = no_flops
};

/* As ddp does it: from the end on, so that places stay what they are, and in the order of their
 * numbers where several buckets are full behind one node. */
int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct gt_zero *z = p->state;
	size_t *end = gt_buckets_ends(&z->buckets, p->store, g, err), last = g->node_count;
	union gt_attrs attrs = { 0 };

	if (!end)
		return GT_ENOMEM;
	gt_graph_scope(g, "zero");
	gt_emit(g, &op_wait, NULL, 0, NULL);
	for (size_t at = last + 1; at-- > 0;) {
		for (size_t i = z->buckets.size; i-- > 0;) {
			attrs.bucket.index = (int)i;
			if (end[i] == at && gt_emit(g, &op_start, &attrs, 0, NULL))
				gt_place_last(g, at);
		}
	}
	free(end);
	return gt_graph_status(g, err);
}
