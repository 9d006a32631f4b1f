/* dp.c - data parallelism around one rank that holds the weights. */
#include "lib/parallel/data/dp.h"

#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/data/scatter.h"

/*
 * This mode works like torch.nn.DataParallel, but each rank has its own plan. Rank 0 is the main
 * device: it reads the whole micro-batch, holds the weights and updates them. The samples are
 * divided as torch.chunk() divides them. With C samples and n ranks, each rank gets the next
 * ceil(C / n) samples, until none are left. The last ranks may get fewer samples, or none. The
 * nodes, in the order in which they run:
 *
 *   broadcast_weights   rank 0 sends the weights to all ranks, once a step
 *   scatter             rank 0 sends each rank the input of its samples
 *   gather              each rank sends the logits of its samples to rank 0
 *   ...                 rank 0 computes the loss and the gradient of the logits
 *   scatter             rank 0 sends each rank the gradient of its logits
 *   reduce_start        start to sum a bucket (a range of the gradients) on rank 0
 *   reduce_wait         wait for these sums
 *
 * The loss value of all ranks except rank 0 is 0, so the sum over all ranks is the loss of the
 * batch. On a rank without samples all gradients are 0, and the rank computes nothing else.
 *
 * In reproducible training (virtual/rewrite.h), and if the network computes its loss itself, each
 * rank computes the loss of its own samples, and losses are summed like gradients. So logits are
 * not gathered, and targets are scattered like inputs.
 *
 * Source: torch.nn.DataParallel (torch/nn/parallel/data_parallel.py, scatter_gather.py).
 */

/* ---- the samples of each rank ---- */

/*
 * Parts as torch.chunk() makes them for torch.nn.DataParallel: 10 samples on 4 ranks are 3 3 3 1,
 * and 5 samples 2 2 1 0. So a rank may have none.
 */
void gt_dp_part_of(const struct gt_group *group, int rank, int samples, int *first, int *count)
{
	int max = (samples + group->size - 1) / group->size, left;

	*first = rank * max < samples ? rank * max : samples;
	left = samples - *first;
	*count = left < max ? left : max;
}

void gt_dp_part(const struct gt_parallel *p, int samples, int *first, int *count)
{
	const struct gt_group *group = p->axes[GT_AXIS_DATA];

	gt_dp_part_of(group, group->rank, samples, first, count);
}

/* ---- the pass ---- */

/* The host has no business with it here. */
static void forget(struct gt_graph *g, struct gt_value *v)
{
	if (!v)
		return;
	gt_value_set_name(g, v, NULL);
	v->role = GT_TEMPORARY;
}

/* Inputs that belong to samples come from rank 0, which has those of all samples. */
static void scatter_input(struct gt_graph *g, const char *name, bool main, int samples)
{
	struct gt_value *mine = gt_graph_find(g, name), *all = NULL, *y;
	int64_t shape[GT_MAX_DIMS] = { samples };

	for (int i = 1; i < mine->ndim; i++)
		shape[i] = mine->shape[i];
	forget(g, mine);
	if (main)
		all = gt_input(g, name, mine->dtype, mine->ndim, shape);
	y = gt_scatter(g, all, mine);
	if (!y)
		return;
	gt_replace_uses(g, 0, mine, y);
	gt_place_last(g, 0);
}

/* The loss of node n, over the logits of all on rank 0; a token of its own on the others. */
static void gather_logits(struct gt_graph *g, const struct gt_node *n, bool main, int samples)
{
	struct gt_value *target = gt_graph_find(g, "target"), *in[GT_MAX_INPUTS], *loss;
	struct gt_node *all;

	memcpy(in, n->in, (size_t)n->inputs * sizeof(*in));
	loss = in[0] = gt_gather(g, n->in[0], main ? samples : 0);
	if (main) {
		target->shape[0] = samples;
		all = gt_emit(g, n->op, &n->attrs, n->inputs, in);
		loss = all ? all->out[0] : NULL;
	} else {
		forget(g, target);
		forget(g, gt_graph_find(g, "weight"));
		forget(g, gt_graph_find(g, "class_weight"));
	}
	gt_output(g, loss, "loss");
}

/* Remove the node of the loss, and return it. */
static const struct gt_node *take_loss(struct gt_graph *g)
{
	struct gt_value *loss = gt_graph_find(g, "loss");

	gt_drop_node(g, loss->producer);
	forget(g, loss);
	return loss->producer;
}

/* No samples: the backward pass makes gradients of 0 for a loss that depends on nothing. */
static void do_nothing(struct gt_graph *g)
{
	static const char *const names[] = { "input", "target", "weight", "class_weight", "rng",
		"loss" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		forget(g, gt_graph_find(g, names[i]));
	while (g->node_count)
		gt_remove_node(g, g->node_count - 1);
	gt_output(g, gt_fill(g, GT_F32, 0, NULL, 0), "loss");
}

/* Statistics are over all ranks, and one without samples would not come to them. All ranks find
 * out, as all have the same plans to make. */
static int check_statistics(
    const struct gt_parallel *p, const struct gt_graph *g, int samples, struct gt_err *err)
{
	const struct gt_group *group = p->axes[GT_AXIS_DATA];
	int last = group->size - 1, first, count;
	bool norm = false;

	for (size_t i = 0; i < g->node_count; i++)
		norm = norm || g->nodes[i]->op == &gt_op_batch_norm;
	gt_dp_part_of(group, last, samples, &first, &count);
	if (!p->o.sync_bn || !norm || count)
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "{sync-bn}: a short last batch of %d sample%s leaves rank %d of %d without one",
	    samples, samples == 1 ? "" : "s", last, group->size);
}

/* Whether rank 0 computes the loss of all logits. A loss that the network computes itself has no
 * logits that could be gathered. */
static bool gathers_logits(const struct gt_parallel *p, const struct gt_value *loss)
{
	const struct gt_op *op = loss->producer->op;

	return !p->o.reproducible && (op == &gt_op_cross_entropy || op == &gt_op_regression_loss);
}

int gt_dp_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err)
{
	const struct gt_value *loss = gt_graph_find(g, "loss");
	bool main = !p->axes[GT_AXIS_DATA]->rank;
	int first, count;

	if (!loss)
		return gt_err_set(err, GT_ENOTSUP, "dp: the graph has no loss");
	if (check_statistics(p, g, samples, err))
		return err->code;
	gt_dp_part(p, samples, &first, &count);
	gt_graph_scope(g, "dp");
	if (!count) {
		do_nothing(g);
	} else if (gathers_logits(p, loss)) {
		const struct gt_node *n = take_loss(g);

		scatter_input(g, "input", main, samples);
		gather_logits(g, n, main, samples);
	} else {
		scatter_input(g, "target", main, samples);
		scatter_input(g, "input", main, samples);
	}
	gt_broadcast_weights(g);
	if (!gt_graph_status(g, err))
		gt_place_last(g, 0);
	return gt_graph_status(g, err);
}

/* ---- weights ---- */

/* Evaluations read running statistics, too, which each rank has of its own samples. */
int gt_dp_refresh(struct gt_parallel *p, struct gt_err *err)
{
	int rc = p->stale
	             ? gt_parallel_begin(p, err)
	             : gt_parallel_broadcast(p, p->device_axes[GT_AXIS_DATA],
	                   p->store->buffers->memory, (int64_t)p->store->running_bytes, GT_U8, err);

	p->stale = false;
	return rc;
}

/* The next step, or evaluation, broadcasts the weights to the others. */
int gt_dp_publish(struct gt_parallel *p, struct gt_err *err)
{
	(void)err;
	p->stale = true;
	return 0;
}

/* Hand the squares of rank 0 to all ranks: they find the same overflows, and scale their losses
 * alike. */
static int share_squares(void *self, double *squares, struct gt_err *err)
{
	const struct gt_parallel *p = self;

	return gt_parallel_broadcast(
	    p, p->device_axes[GT_AXIS_DATA], squares, GT_SQUARES, GT_F64, err);
}

int gt_dp_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	bool scaled = gt_optim_scaler(optim)->growth_interval;
	const struct gt_optim_ranks ranks = { .add_up = share_squares, .self = p };

	gt_dp_publish(p, err);
	if (!p->axes[GT_AXIS_DATA]->rank)
		return gt_optim_update(optim, scaled ? &ranks : NULL, err);
	return scaled ? gt_optim_begin_update(optim, &ranks, err) : 0;
}
