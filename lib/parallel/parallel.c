/* parallel.c - the way from the training loop to the axes. */
#include "lib/parallel/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/data/modes.h"

static const struct gt_kernel *const kernels[] = { gt_collective_kernels, gt_ddp_kernels,
	gt_scatter_kernels, gt_zero_kernels, gt_pipeline_kernels, gt_pipeline_tied_kernels,
	gt_sequence_kernels, NULL };

int gt_parallel_check(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->check)
			rc = gt_axis_rows[i]->check(o, ranks, batch, err);
	return rc;
}

int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err)
{
	struct gt_parallel *p;
	int rc;

	*out = NULL;
	if (options->reproducible && world && !world->ops->ordered)
		return gt_err_set(err, GT_ENOTSUP,
		    "reproducible training: the order of sums over '%s' depends on the number of "
		    "ranks",
		    world->ops->name);
	p = gt_calloc(1, sizeof(*p), err);
	if (!p)
		return GT_ENOMEM;
	p->o = *options;
	pthread_mutex_init(&p->fetching, NULL);
	p->dry = !world;
	/* A dry run has no processes to talk to, but plans depend on the number of ranks and on
	 * this rank's place. */
	p->nobody.size = options->ranks > 1 ? options->ranks : 1;
	p->nobody.rank = options->rank;
	p->world = world ? world : &p->nobody;
	p->extra = (struct gt_plan_extra){ kernels, p };
	rc = gt_axes_open(p, err);
	if (rc) {
		gt_parallel_free(p);
		return rc;
	}
	*out = p;
	return 0;
}

void gt_parallel_free(struct gt_parallel *p)
{
	if (!p)
		return;
	gt_axes_close(p);
	gt_norm_release(p);
	pthread_mutex_destroy(&p->fetching);
	free(p->events);
	free(p->sums);
	free(p);
}

struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis)
{
	return p->axes[axis];
}

struct gt_group *gt_parallel_results(const struct gt_parallel *p)
{
	return p->results;
}

int gt_parallel_rank(const struct gt_parallel *p)
{
	return p->world->rank;
}

int gt_parallel_seat(const struct gt_parallel *p, enum gt_axis axis)
{
	return p->axes[axis]->rank;
}

struct gt_parallel_samples gt_parallel_samples(const struct gt_parallel *p, int batch)
{
	const struct gt_group *data = p->axes[GT_AXIS_DATA];
	int virtual_ranks = p->axes[GT_AXIS_VIRTUAL]->size, all = data->size * virtual_ranks;

	if (!p->mode->main)
		return (struct gt_parallel_samples){ data->rank * virtual_ranks, all, batch,
			virtual_ranks, true };
	/* Rank 0 reads for all ranks. In reproducible training it draws samples as the virtual
	 * ranks do, so each virtual rank has the same samples for any number of ranks. */
	all = p->o.reproducible ? all : 1;
	return (struct gt_parallel_samples){ 0, all, batch * data->size, all, !data->rank };
}

/* All axes survey the graph before one of them rewrites it: the pipeline chooses its cuts by the
 * whole model, the same on ranks with and without shards. */
int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->survey)
			rc = gt_axis_rows[i]->survey(p, g, err);
	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->rewrite)
			rc = gt_axis_rows[i]->rewrite(p, g, err);
	return rc;
}

void gt_parallel_part(const struct gt_parallel *p, int samples, int *first, int *count)
{
	*first = 0;
	*count = samples;
	if (p->mode->part)
		p->mode->part(p, samples, first, count);
}

int gt_parallel_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err)
{
	return p->mode->scatter ? p->mode->scatter(p, g, samples, err) : 0;
}

/* Attach the axes from the outermost to the innermost: each one finds the slots as the axes outside
 * of it have divided them. */
int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	size_t rows = 1 + (size_t)p->axes[GT_AXIS_DATA]->size;
	int rc = 0;

	p->store = store;
	p->device = store->device;
	if (gt_axes_open_device(p, err))
		return err->code;
	if (p->o.check_every) {
		p->sums = gt_calloc(rows * store->slot_count, sizeof(*p->sums), err);
		if (!p->sums)
			return GT_ENOMEM;
	}
	for (int i = GT_AXES - 1; !rc && i >= 0; i--)
		if (gt_axis_rows[i]->attach)
			rc = gt_axis_rows[i]->attach(p, store, err);
	/* After the axes: working copies follow the layout of the parameters, which the axes may
	 * have changed. */
	if (!rc && p->o.precision.low != GT_F32 && store->parameters->cut == GT_CUT_NONE)
		rc = gt_store_keep_copies(store, p->o.precision.low, err);
	return rc ? rc : gt_norm_attach(p, err);
}

/* Return the number of parts into which a batch of this rank is divided. With `reproducible` it is
 * the number of virtual ranks of this rank. In a pipeline it is the largest divisor of `batch` that
 * is not above options->chunks (if that is 0, options->stages). In all other cases it is 1. */
int gt_parallel_chunks(const struct gt_parallel *p, int batch)
{
	int chunks = 1;

	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->parts)
			chunks = gt_axis_rows[i]->parts(p, batch, chunks);
	return chunks;
}

/*
 * The order of calls, for a pipeline (outer) with ddp (inner):
 *
 *   prepare   inner to outer: ddp, ..., pipeline change the graph of one chunk
 *   insert    outer to inner: the pipeline makes all chunks, then ddp adds its all-reduces once,
 *             behind the last chunk that writes a bucket
 *   finish    inner to outer: nodes at the end of the step
 */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->prepare)
			rc = gt_axis_rows[i]->prepare(p, g, err);
	for (int i = GT_AXES - 1; !rc && i >= 0; i--)
		if (gt_axis_rows[i]->insert)
			rc = gt_axis_rows[i]->insert(p, g, chunks, err);
	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->finish)
			gt_axis_rows[i]->finish(p, g);
	return rc ? rc : gt_graph_status(g, err);
}

int gt_parallel_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	int rc = 0;

	for (int i = GT_AXES - 1; !rc && i >= 0; i--)
		if (gt_axis_rows[i]->insert_forward)
			rc = gt_axis_rows[i]->insert_forward(p, g, err);
	return rc ? rc : gt_graph_status(g, err);
}

bool gt_parallel_forward_together(const struct gt_parallel *p)
{
	return p->mode->insert_forward;
}

bool gt_parallel_adds(const struct gt_parallel *p)
{
	return p->mode->adds;
}

const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p)
{
	return &p->extra;
}

int gt_parallel_init(struct gt_parallel *p, uint64_t seed, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int rc = 0;

	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		void *whole;

		if (slot->on_other_ranks)
			continue;
		/* One tensor at a time, so that host memory is needed for the largest tensor only.
		 * Each value depends on its index in the whole tensor, so a shard gets the same
		 * values as in a run on one rank. */
		whole = gt_slot_init_stored(slot, seed, err);
		if (!whole)
			return GT_ENOMEM;
		rc =
		    gt_parallel_scatter_slot(p, gt_store_plane_of(s, slot->role), slot, whole, err);
		free(whole);
	}
	return rc;
}

int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_store *s = p->store;
	struct gt_group *group = p->device_axes[GT_AXIS_DATA];
	int rc = 0;

	/* Parts all ranks took from the same file, or drew. */
	if (s->parameters->cut == GT_CUT_NONE)
		rc = gt_parallel_broadcast(
		    p, group, s->parameters->memory, s->flat_count, s->dtype, err);
	if (!rc)
		rc = gt_store_refresh_copies(s, err);
	return rc ? rc
	          : gt_parallel_broadcast(
	                p, group, s->buffers->memory, s->buffers->elements, GT_U8, err);
}

int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p)
{
	int64_t n = p->axes[GT_AXIS_DATA]->size;

	/* Each rank keeps its own shard and sends the other n - 1 of n. */
	return (int64_t)gt_store_flat_bytes(p->store) * (n - 1) / n;
}

int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches)
{
	int64_t bytes = 0;

	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->sent)
			bytes += gt_axis_rows[i]->sent(p, micro_batches);
	return bytes;
}

/* Nobody else's are used where rank 0 has the weights: gt_parallel_refresh(). */
bool gt_parallel_shares_buffers(const struct gt_parallel *p)
{
	return p->axes[GT_AXIS_DATA]->size > 1 && !p->mode->main && !p->o.own_buffers &&
	       !p->o.sync_bn && p->store->running_bytes;
}

/*
 * Send the buffers (running statistics) of data seat 0 to the other seats of the data axis. Do
 * nothing in three cases: options->own_buffers is set; options->sync_bn is set, which keeps the
 * buffers equal; the mode is dp, in which gt_parallel_refresh() sends the buffers. Call this before
 * the first micro-batch of a step, and before an evaluation. A collective call. Source:
 * broadcast_buffers of torch.nn.parallel.DistributedDataParallel.
 */
int gt_parallel_share_buffers(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_store *s = p->store;

	return gt_parallel_shares_buffers(p)
	           ? gt_parallel_broadcast(p, p->device_axes[GT_AXIS_DATA], s->buffers->memory,
	                 (int64_t)s->running_bytes, GT_U8, err)
	           : 0;
}

int gt_parallel_sum_scalars(
    struct gt_parallel *p, struct gt_step_scalars *scalars, struct gt_err *err)
{
	/* If all ranks' losses count, one call sums loss and stop together. Otherwise the loss is
	 * summed over the ranks that count, and the requests to stop over all ranks. */
	bool apart = p->results != p->world;
	double *both = &scalars->result.loss; /* and stop */
	int rc = apart ? gt_parallel_all_reduce(p, p->device_results, both, 1, GT_F64, err) : 0;

	return rc ? rc
	          : gt_parallel_all_reduce(
	                p, p->device_world, both + apart, 2 - apart, GT_F64, err);
}

int gt_parallel_refresh(struct gt_parallel *p, struct gt_err *err)
{
	return p->mode->refresh ? p->mode->refresh(p, err) : 0;
}

int gt_parallel_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	return p->mode->update ? p->mode->update(p, optim, err) : gt_norm_update(p, optim, err);
}

int gt_parallel_publish(struct gt_parallel *p, struct gt_err *err)
{
	return p->mode->publish ? p->mode->publish(p, err) : 0;
}

bool gt_parallel_has_op(const char *name)
{
	for (int i = 0; kernels[i]; i++)
		for (const struct gt_kernel *k = kernels[i]; k->op; k++)
			if (!strcmp(k->op, name))
				return true;
	return false;
}

void gt_parallel_watch(struct gt_parallel *p, struct gt_marks *marks, struct gt_span *spans)
{
	p->marks = marks;
	p->spans = p->event_count ? spans : NULL;
}

const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count)
{
	*count = p->event_count;
	return p->events;
}
