/* sync_bn.c - batch normalisation over the samples of all ranks. */
#include "lib/parallel/data/sync_bn.h"

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collectives.h"

/* gt_emit() at *at, which moves on. */
static struct gt_node *emit_at(struct gt_graph *g, size_t *at, const struct gt_op *op,
    const union gt_attrs *attrs, int inputs, struct gt_value *const *in)
{
	struct gt_node *n = gt_emit(g, op, attrs, inputs, in);

	if (n)
		gt_place_last(g, (*at)++);
	return n;
}

/* The node goes on making y; only its inputs change. */
static void split_forward(struct gt_graph *g, size_t *at, int ranks)
{
	struct gt_node *n = g->nodes[*at], *moments, *combine;
	struct gt_value *all;

	g->scope = n->scope;
	moments = emit_at(g, at, &gt_op_batch_norm_moments, &n->attrs, 1, n->in);
	all = moments ? gt_gather_over(g, moments->out[0], GT_AXIS_DATA, ranks) : NULL;
	if (!all)
		return;
	gt_place_last(g, (*at)++);
	combine = emit_at(g, at, &gt_op_batch_norm_combine, &n->attrs, 4,
	    (struct gt_value *[]){ n->in[3], n->in[4], n->in[5], all });
	if (!combine)
		return;
	gt_make_output(combine, 0, n->out[1]);
	gt_make_output(combine, 1, n->out[2]);
	n->op = &gt_op_batch_norm_apply;
	n->inputs = gt_op_batch_norm_apply.max_inputs;
	n->outputs = 1;
	n->in[3] = n->out[1];
	n->in[4] = n->out[2];
	n->in[5] = n->in[6];
	n->in[6] = n->out[1] = n->out[2] = NULL;
}

/* Replace a batch_norm_grad by batch_norm_grad_sums and batch_norm_grad_apply. If the node has
 * output 3 (dresidual), batch_norm_grad_sums writes it, and batch_norm_grad_apply reads it as
 * dy. */
static void split_backward(struct gt_graph *g, size_t *at)
{
	struct gt_node *n = g->nodes[*at], *sums;
	struct gt_value *y = n->in[5], *before_relu = n->out[3], *total;

	g->scope = n->scope;
	sums = emit_at(g, at, &gt_op_batch_norm_grad_sums, &n->attrs, 6,
	    (struct gt_value *[]){ n->in[0], n->in[1], n->in[3], n->in[4], y, n->in[6] });
	total = sums ? gt_sum_over(g, sums->out[0], GT_AXIS_DATA) : NULL;
	if (!total)
		return;
	gt_place_last(g, (*at)++);
	for (int i = 1; i < 4; i++)
		gt_make_output(sums, i, n->out[i]);
	n->op = &gt_op_batch_norm_grad_apply;
	n->inputs = gt_op_batch_norm_grad_apply.max_inputs;
	n->outputs = 1;
	n->in[5] = total;
	n->in[6] = y;
	if (before_relu) {
		n->attrs.norm.relu = false;
		n->in[0] = before_relu;
		n->in[6] = NULL;
	}
	n->out[1] = n->out[2] = n->out[3] = NULL;
}

/*
 * Change a training graph: every batch_norm uses the statistics of the samples of all ranks of the
 * data axis, and its gradient uses the sums over these samples. (Axes are defined in
 * lib/parallel/parallel.h.) `ranks` is the number of ranks of the axis, or of virtual ranks in
 * reproducible training (lib/parallel/virtual/rewrite.h). If `ranks` is 1, the graph does not
 * change. Several nodes replace each batch_norm and each batch_norm_grad. One of them is a
 * collective (all_gather or all_reduce). lib/graph/ops/norm_sync.c describes the other nodes:
 *
 *   batch_norm       batch_norm_moments, all_gather, batch_norm_combine, batch_norm_apply
 *   batch_norm_grad  batch_norm_grad_sums, all_reduce, batch_norm_grad_apply
 *
 * For C channels, each rank sends 1 + 2 * C numbers in a collective. The numbers are doubles, so
 * the precision is the same as on one rank. The running statistics are updated with the statistics
 * of the whole batch. The batch has n values per channel; its variance is multiplied by n / (n - 1)
 * before the update. The running statistics have the same bits on all ranks. The gradients of
 * weight and bias are sums over the samples of one rank; they are added up over the data axis like
 * other gradients.
 *
 * Call this function after all graph passes (functions that rewrite a graph, lib/graph/pass.h), for
 * two reasons. The graph must already have the nodes of the backward pass. Also, some graph passes
 * fuse batch_norm with other nodes, or choose the layouts of images. They make the same changes as
 * on one rank only if they run before this function.
 *
 * Source: torch.nn.SyncBatchNorm.
 */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err)
{
	if (ranks < 2)
		return 0;
	for (size_t i = 0; i < g->node_count && !g->err.code; i++) {
		if (g->nodes[i]->op == &gt_op_batch_norm)
			split_forward(g, &i, ranks);
		else if (g->nodes[i]->op == &gt_op_batch_norm_grad)
			split_backward(g, &i);
	}
	return gt_graph_status(g, err);
}
