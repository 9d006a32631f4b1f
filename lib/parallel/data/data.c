/* data.c - the data axis: the list of its modes, and the way to the one in use. */
#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/data/sync_bn.h"

const struct gt_parallel_mode *const gt_parallel_modes[] = {
	[GT_PARALLEL_DDP] = &gt_parallel_ddp,
	[GT_PARALLEL_MIRRORED] = &gt_parallel_mirrored,
	[GT_PARALLEL_DP] = &gt_parallel_dp,
	[GT_PARALLEL_ZERO1] = &gt_parallel_zero1,
	[GT_PARALLEL_ZERO2] = &gt_parallel_zero2,
	[GT_PARALLEL_ZERO3] = &gt_parallel_zero3,
};
_Static_assert(sizeof(gt_parallel_modes) / sizeof(*gt_parallel_modes) == GT_PARALLEL_KINDS,
    "a row for every name");

bool gt_parallel_is_threads(enum gt_parallel_kind kind)
{
	return gt_parallel_modes[kind]->threads;
}

bool gt_parallel_reads_on_one(enum gt_parallel_kind kind)
{
	return gt_parallel_modes[kind]->main;
}

/* Ranks that no other axis takes. */
static int data_axis_size(const struct gt_parallel_options *o, int ranks)
{
	return ranks / gt_axes_parts(o);
}

static int check_mode(
    const struct gt_parallel_mode *mode, const struct gt_parallel_options *o, struct gt_err *err)
{
	if (o->compress && !mode->compresses)
		gt_err_set(err, GT_EINVAL,
		    "{compress} cannot be combined with {parallel} %s, which sends gradients as they are",
		    gt_parallel_names[o->kind]);
	else if (o->check_every && !mode->replicates)
		gt_err_set(err, GT_EINVAL,
		    "{check-replicas} cannot be combined with {parallel} %s, whose ranks hold different weights",
		    gt_parallel_names[o->kind]);
	else if (o->own_buffers && mode->main)
		gt_err_set(err, GT_EINVAL,
		    "{broadcast-buffers}=no cannot be combined with {parallel} %s, which keeps those of rank 0",
		    gt_parallel_names[o->kind]);
	else
		return 0;
	return gt_err_hint(err, "leave it out, or take {parallel} ddp");
}

/* Options that take two ranks with the same weights: where a tensor or a pipeline takes all ranks,
 * each has others. */
static int check_copies(const struct gt_parallel_options *o, int ranks, struct gt_err *err)
{
	int parts = gt_axes_parts(o);

	if ((!o->check_every && !o->compress) || parts == 1 || parts != ranks)
		return 0;
	gt_err_set(err, GT_EINVAL, "{%s}: no two of %d ranks hold the same part of the model",
	    o->check_every ? "check-replicas" : "compress", ranks);
	return gt_err_hint(err, "{nproc} %d has two of each part", 2 * parts);
}

static int check_data_axis(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	(void)batch;
	if (ranks > 1 && check_mode(gt_parallel_modes[o->kind], o, err))
		return err->code;
	return check_copies(o, ranks, err);
}

/* Each rank computes by itself, with all weights: one rank has nobody to share with, and where
 * nothing is trained no gradient has to be summed. Virtual ranks share one rank's results. */
static const struct gt_parallel_mode by_itself = { .threads = false };

static int open_mode(struct gt_parallel *p, struct gt_err *err)
{
	(void)err;
	p->mode = gt_parallel_modes[p->o.kind];
	if (!p->o.forward && (p->world->size > 1 || p->o.reproducible))
		return 0;
	p->mode = &by_itself;
	p->o.sync_bn = false;
	return 0;
}

static void release_data_axis(struct gt_parallel *p)
{
	if (p->mode && p->mode->release)
		p->mode->release(p);
}

static int attach_data_axis(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	return p->mode->attach ? p->mode->attach(p, store, err) : 0;
}

/* Statistics are over the virtual ranks of all ranks. */
static int prepare_data_axis(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	int seats = p->axes[GT_AXIS_DATA]->size * p->axes[GT_AXIS_VIRTUAL]->size;

	return p->o.sync_bn ? gt_sync_bn(g, seats, err) : 0;
}

static int insert_data_nodes(
    struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	(void)chunks;
	return p->mode->insert ? p->mode->insert(p, g, err) : 0;
}

static int insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	return p->mode->insert_forward ? p->mode->insert_forward(p, g, err) : 0;
}

static bool divides(const struct gt_parallel *p)
{
	return p->mode->divides;
}

static int64_t data_axis_sent(const struct gt_parallel *p, int micro_batches)
{
	return p->mode->sent ? p->mode->sent(p, micro_batches) : 0;
}

const struct gt_axis_row gt_axis_data = {
	.name = "data",
	.size = data_axis_size,
	.check = check_data_axis,
	.open = open_mode,
	.release = release_data_axis,
	.attach = attach_data_axis,
	.prepare = prepare_data_axis,
	.insert = insert_data_nodes,
	.insert_forward = insert_forward,
	.divides = divides,
	.sent = data_axis_sent,
};
