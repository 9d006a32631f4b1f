/* parallel.c - the list of modes, and the way from the training loop to the one in use. */
#include "lib/parallel/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "lib/parallel/lockstep.h"
#include "lib/parallel/modes.h"
#include "lib/parallel/pipeline_inside.h"
#include "lib/parallel/sync_bn.h"
#include "lib/parallel/tensor.h"

static const struct gt_parallel_mode *const modes[] = {
	[GT_PARALLEL_DDP] = &gt_parallel_ddp,
	[GT_PARALLEL_MIRRORED] = &gt_parallel_mirrored,
	[GT_PARALLEL_DP] = &gt_parallel_dp,
	[GT_PARALLEL_ZERO1] = &gt_parallel_zero1,
	[GT_PARALLEL_ZERO2] = &gt_parallel_zero2,
	[GT_PARALLEL_ZERO3] = &gt_parallel_zero3,
};
_Static_assert(sizeof(modes) / sizeof(*modes) == GT_PARALLEL_KINDS, "a row for every name");

static const struct gt_kernel *const kernels[] = { gt_collective_kernels, gt_ddp_kernels,
	gt_scatter_kernels, gt_zero_kernels, gt_pipeline_kernels, gt_pipeline_tied_kernels, NULL };

bool gt_parallel_is_threads(enum gt_parallel_kind kind)
{
	return modes[kind]->threads;
}

bool gt_parallel_reads_on_one(enum gt_parallel_kind kind)
{
	return modes[kind]->main;
}

static int check_options(
    const struct gt_parallel_mode *mode, const struct gt_parallel_options *o, struct gt_err *err)
{
	if (o->compress && !mode->compresses)
		gt_err_set(err, GT_EINVAL, "{compress}: {parallel} %s sends gradients as they are",
		    gt_parallel_names[o->kind]);
	else if (o->check_every && !mode->replicates)
		gt_err_set(err, GT_EINVAL,
		    "{check-replicas}: with {parallel} %s ranks hold different weights",
		    gt_parallel_names[o->kind]);
	else if (o->own_buffers && mode->main)
		gt_err_set(err, GT_EINVAL,
		    "{broadcast-buffers}=no: with {parallel} %s rank 0's are kept",
		    gt_parallel_names[o->kind]);
	else
		return 0;
	return gt_err_hint(err, "leave it out, or take {parallel} ddp");
}

/* Ranks that hold one model. */
static int parts_of(const struct gt_parallel_options *o)
{
	return (o->tensor > 1 ? o->tensor : 1) * (o->stages > 1 ? o->stages : 1);
}

int gt_parallel_hosted(const struct gt_parallel_options *o, int ranks, int batch)
{
	int width = ranks / parts_of(o);

	return o->reproducible ? gt_lockstep_ranks(gt_lockstep_step(o, width, batch)) / width : 1;
}

const char *gt_axis_name(enum gt_axis axis)
{
	static const char *const names[] = { [GT_AXIS_DATA] = "data",
		[GT_AXIS_PIPELINE] = "pipeline",
		[GT_AXIS_TENSOR] = "tensor" };

	return names[axis];
}

static int check_tensor(const struct gt_parallel_options *o, int ranks, struct gt_err *err)
{
	if (ranks % o->tensor) {
		gt_err_set(err, GT_EINVAL, "{tensor-parallel}: %d does not divide %d rank%s",
		    o->tensor, ranks, ranks == 1 ? "" : "s");
		return gt_err_hint(err, "{nproc} %d, or a multiple of it", o->tensor);
	}
	if (o->kind != GT_PARALLEL_DDP && o->kind != GT_PARALLEL_MIRRORED) {
		gt_err_set(err, GT_EINVAL, "{tensor-parallel} does not go with {parallel} %s",
		    gt_parallel_names[o->kind]);
		return gt_err_hint(err, "ddp and mirrored do");
	}
	if (gt_optim_rule(o->optimizer)->operand == GT_OPERAND_TENSORS) {
		gt_err_set(err, GT_EINVAL,
		    "{tensor-parallel} cannot be combined with {optimizer} %s",
		    gt_optim_names[o->optimizer]);
		return gt_err_hint(err,
		    "it updates whole matrices, of which each rank of a tensor axis has a part; "
		    "{parallel} zero1 shares its work");
	}
	if (o->stages > 1) {
		gt_err_set(
		    err, GT_EINVAL, "{tensor-parallel} does not go with {pipeline-parallel}");
		return gt_err_hint(err, "either goes with ranks that are data parallel");
	}
	return 0;
}

static int check_pipeline(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	if (o->kind != GT_PARALLEL_DDP) {
		gt_err_set(err, GT_EINVAL, "{pipeline-parallel}: not with {parallel} %s",
		    gt_parallel_names[o->kind]);
		return gt_err_hint(err, "use it with {parallel} ddp");
	}
	if (ranks % o->stages) {
		gt_err_set(err, GT_EINVAL, "{pipeline-parallel}: %d stages do not divide %d rank%s",
		    o->stages, ranks, ranks == 1 ? "" : "s");
		return gt_err_hint(err, "{nproc} %d has a rank for each stage", o->stages);
	}
	if (o->chunks && !o->reproducible && batch % o->chunks) {
		gt_err_set(
		    err, GT_EINVAL, "{chunks}: %d do not divide {batch} %d", o->chunks, batch);
		return gt_err_hint(err, "chunks are parts of a batch, of the same size");
	}
	return 0;
}

/* What takes two ranks with the same weights: of a tensor or pipeline that takes all ranks, each
 * has others. */
static int check_copies(const struct gt_parallel_options *o, int ranks, struct gt_err *err)
{
	int parts = parts_of(o);

	if ((!o->check_every && !o->compress) || parts == 1 || parts < ranks)
		return 0;
	gt_err_set(err, GT_EINVAL, "{%s}: no two of %d ranks hold the same part of the model",
	    o->check_every ? "check-replicas" : "compress", ranks);
	return gt_err_hint(err, "{nproc} %d has two of each part", 2 * parts);
}

int gt_parallel_check(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	if (ranks > 1 && check_options(modes[o->kind], o, err))
		return err->code;
	if (o->tensor > 1 && check_tensor(o, ranks, err))
		return err->code;
	if (o->stages > 1 && check_pipeline(o, ranks, batch, err))
		return err->code;
	if (o->reproducible && gt_lockstep_check(o, ranks / parts_of(o), batch, err))
		return err->code;
	return check_copies(o, ranks, err);
}

/* A group for each row and each column of the grid of ranks. */
static int split_world(struct gt_parallel *p, int tensor, struct gt_err *err)
{
	int rank = p->world->rank, rc;

	p->axes[GT_AXIS_DATA] = p->axes[GT_AXIS_TENSOR] = NULL;
	rc = gt_group_split(&p->axes[GT_AXIS_DATA], p->world, rank % tensor, rank, err);
	if (!rc)
		rc = gt_group_split(&p->axes[GT_AXIS_TENSOR], p->world, rank / tensor, rank, err);
	return rc;
}

static int take_seats(struct gt_parallel *p, struct gt_err *err)
{
	int tensor = p->o.tensor > 1 ? p->o.tensor : 1, ranks = p->world->size;

	p->seats[GT_AXIS_TENSOR].size = tensor;
	p->seats[GT_AXIS_DATA].size = ranks / tensor;
	p->axes[GT_AXIS_TENSOR] = &p->seats[GT_AXIS_TENSOR];
	p->axes[GT_AXIS_DATA] = tensor > 1 ? &p->seats[GT_AXIS_DATA] : p->world;
	if (p->o.stages > 1)
		return gt_pipeline_new(p, err);
	return tensor == 1 || p->dry ? 0 : split_world(p, tensor, err);
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
	p->mode = modes[options->kind];
	p->o = *options;
	p->dry = !world;
	p->nobody.size = options->ranks;
	p->nobody.rank = options->rank;
	p->world = world ? world : &p->nobody;
	p->communicates = true;
	p->extra = (struct gt_plan_extra){ kernels, p };
	rc = take_seats(p, err);
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
	if (p->mode->release)
		p->mode->release(p);
	free(p->events);
	gt_pipeline_free(p);
	for (int i = 0; i < GT_AXES; i++)
		if (p->axes[i] != p->world && p->axes[i] != &p->seats[i])
			gt_group_free(p->axes[i]);
	for (size_t i = 0; i < p->sharding_count; i++)
		free((void *)p->shardings[i].name);
	free(p->shardings);
	if (p->scalars)
		gt_device_free(p->device, p->scalars, sizeof(*p->scalars));
	free(p->sums);
	free(p);
}

struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis)
{
	return p->axes[axis];
}

int gt_parallel_rank(const struct gt_parallel *p)
{
	return p->world->rank;
}

int gt_parallel_seat(const struct gt_parallel *p, enum gt_axis axis)
{
	return p->axes[axis]->rank;
}

int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	int rc = p->pipeline ? gt_pipeline_rewrite(p, g, err) : 0;

	if (!rc && p->axes[GT_AXIS_TENSOR]->size > 1)
		rc = gt_tensor_rewrite(p, g, err);
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

static int take_scalars(struct gt_parallel *p, struct gt_err *err)
{
	void *scalars;
	int rc = gt_device_alloc(p->device, sizeof(*p->scalars), &scalars, err);

	if (!rc)
		p->scalars = scalars;
	return rc;
}

int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	size_t rows = 1 + (size_t)p->axes[GT_AXIS_DATA]->size;
	int rc;

	p->store = store;
	p->device = store->device;
	if ((p->pipeline || p->sharding_count) && take_scalars(p, err))
		return err->code;
	if (p->o.check_every) {
		p->sums = gt_calloc(rows * store->slot_count, sizeof(*p->sums), err);
		if (!p->sums)
			return GT_ENOMEM;
	}
	for (size_t i = 0; i < p->sharding_count; i++)
		gt_store_part_of(store, p->shardings[i].name, p->shardings[i].shape);
	rc = p->pipeline ? gt_pipeline_attach(p, err) : 0;
	return rc || !p->mode->attach ? rc : p->mode->attach(p, store, err);
}

int gt_parallel_chunks(const struct gt_parallel *p, int batch)
{
	int chunks = !p || !p->pipeline ? 1 : p->o.chunks ? p->o.chunks : p->o.stages;

	if (p && p->o.reproducible)
		return p->o.hosted > 1 ? p->o.hosted : 1;
	if (chunks > batch)
		chunks = batch;
	while (batch % chunks)
		chunks--;
	return chunks;
}

bool gt_parallel_hosts(const struct gt_parallel *p)
{
	return p && p->o.hosted > 1;
}

/* Gradients of a stage are added up over ranks when all chunks have added theirs. */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	int64_t bytes = gt_tensor_sent(p, g);
	int parts = p->axes[GT_AXIS_DATA]->size * (gt_parallel_hosts(p) ? p->o.hosted : 1);
	int rc = p->o.sync_bn ? gt_sync_bn(g, parts, err) : 0;

	if (!rc && p->pipeline)
		rc = gt_pipeline_chunk(p, g, chunks, err);
	else if (!rc && gt_parallel_hosts(p))
		rc = p->o.micro_batches > 1 ? gt_lockstep_in_turn(g, chunks, err)
		                            : gt_lockstep(g, chunks, NULL, 0, err);
	if (bytes > p->tensor_bytes)
		p->tensor_bytes = bytes;
	if (!rc && p->mode->insert)
		rc = p->mode->insert(p, g, err);
	if (!rc && p->pipeline && p->pipeline->tied_count)
		gt_pipeline_emit_tied(g);
	return rc ? rc : gt_graph_status(g, err);
}

int gt_parallel_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	if (p->pipeline)
		gt_pipeline_fill_tokens(g);
	if (p->mode->insert_forward && p->mode->insert_forward(p, g, err))
		return err->code;
	return gt_graph_status(g, err);
}

bool gt_parallel_forward_together(const struct gt_parallel *p)
{
	return p && p->mode->insert_forward;
}

bool gt_parallel_adds(const struct gt_parallel *p)
{
	return p && p->mode->adds;
}

const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p)
{
	return &p->extra;
}

/* ---- what ranks hold in parts ---- */

bool gt_parallel_in_parts(
    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what)
{
	if (p && gt_tensor_sharding(p, slot->name))
		return true;
	if (p && p->pipeline)
		return gt_pipeline_in_parts(p, slot);
	return p && p->mode->in_parts && p->mode->in_parts(p, slot, what);
}

/* Where a slot lies in flat memory: buffers' offsets are in bytes. */
static char *place_of(const void *held, const struct gt_slot *slot)
{
	size_t unit = slot->role == GT_BUFFER ? 1 : gt_dtype_size(slot->dtype);

	return (char *)held + (size_t)slot->offset * unit;
}

int gt_parallel_collect(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    const void *held, void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	const struct gt_sharding *sharding = gt_tensor_sharding(p, slot->name);

	if (sharding)
		return gt_tensor_collect(p, sharding, slot, place_of(held, slot), whole, err);
	if (p->pipeline && gt_pipeline_in_parts(p, slot))
		return gt_pipeline_collect(p, slot, place_of(held, slot), whole, err);
	if (gt_parallel_in_parts(p, slot, what))
		return p->mode->collect(p, slot, what, held, whole, err);
	if (p->world->rank)
		return 0;
	return gt_device_read(s->device, whole, place_of(held, slot), gt_slot_bytes(slot), err);
}

int gt_parallel_deal(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    void *held, const void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	const struct gt_sharding *sharding = gt_tensor_sharding(p, slot->name);

	if (sharding)
		return gt_tensor_deal(p, sharding, slot, place_of(held, slot), whole, err);
	if (slot->elsewhere)
		return 0;
	if (!p->pipeline && gt_parallel_in_parts(p, slot, what))
		return p->mode->deal(p, slot, what, held, whole, err);
	return gt_device_write(s->device, place_of(held, slot), whole, gt_slot_bytes(slot), err);
}

int gt_parallel_init(struct gt_parallel *p, uint64_t seed, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int rc = 0;

	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		void *whole = gt_calloc((size_t)slot->count, gt_dtype_size(slot->dtype), err);

		if (!whole)
			return GT_ENOMEM;
		gt_slot_init(slot, seed, whole);
		rc = gt_parallel_deal(p, slot, GT_HELD_DATA,
		    slot->role == GT_BUFFER ? s->buffers : s->parameters, whole, err);
		free(whole);
	}
	return rc;
}

int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_store *s = p->store;
	struct gt_group *group = p->axes[GT_AXIS_DATA];
	int rc = 0;

	/* Parts all ranks took from the same file, or drew. */
	if (!s->parameters_in_parts)
		rc = gt_broadcast(group, s->parameters, s->flat_count, s->dtype, 0, err);
	return rc ? rc : gt_broadcast(group, s->buffers, (int64_t)s->buffer_bytes, GT_U8, 0, err);
}

int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p)
{
	int64_t n = p->axes[GT_AXIS_DATA]->size;

	return (int64_t)gt_store_flat_bytes(p->store) * (n - 1) / n;
}

int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches)
{
	int64_t bytes = p->tensor_bytes * micro_batches;

	if (p->pipeline)
		bytes += gt_pipeline_sent(p, micro_batches);
	return bytes + (p->mode->sent ? p->mode->sent(p, micro_batches) : 0);
}

/* Nobody else's are used where rank 0 has the weights: gt_parallel_refresh(). */
bool gt_parallel_shares_buffers(const struct gt_parallel *p)
{
	return !p->mode->main && !p->o.own_buffers && !p->o.sync_bn && p->store->buffer_bytes;
}

int gt_parallel_share_buffers(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_store *s = p->store;

	return gt_parallel_shares_buffers(p) ? gt_broadcast(p->axes[GT_AXIS_DATA], s->buffers,
	                                           (int64_t)s->buffer_bytes, GT_U8, 0, err)
	                                     : 0;
}

void gt_parallel_communicate(struct gt_parallel *p, bool on)
{
	p->communicates = on;
}

int gt_parallel_refresh(struct gt_parallel *p, struct gt_err *err)
{
	return p->mode->refresh ? p->mode->refresh(p, err) : 0;
}

int gt_parallel_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	if (p->pipeline)
		return gt_optim_update(optim, gt_pipeline_add_up, p, err);
	if (p->mode->update)
		return p->mode->update(p, optim, err);
	return p->axes[GT_AXIS_TENSOR]->size > 1 ? gt_tensor_update(p, optim, err)
	                                         : gt_optim_update(optim, NULL, NULL, err);
}

int gt_parallel_publish(struct gt_parallel *p, struct gt_err *err)
{
	return p->mode->publish ? p->mode->publish(p, err) : 0;
}

int gt_parallel_squares_begin(const struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_step_scalars none = { .block = { .exact = p->o.reproducible } };

	return gt_device_write(p->device, p->scalars, &none, sizeof(none), err);
}

int gt_parallel_squares_add(
    const struct gt_parallel *p, const struct gt_slot *slot, struct gt_err *err)
{
	const struct gt_device *d = p->device;

	return d->backend->ranges()->squares(
	    d->compute, gt_store_gradient(p->store, slot), slot->held, p->scalars, err);
}

int gt_parallel_squares_end(const struct gt_parallel *p, double sum[GT_SQUARES], struct gt_err *err)
{
	return gt_device_read(
	    p->device, sum, p->scalars->result.squares, GT_SQUARES * sizeof(*sum), err);
}

bool gt_parallel_has_op(const char *name)
{
	for (int i = 0; kernels[i]; i++)
		for (const struct gt_kernel *k = kernels[i]; k->op; k++)
			if (!strcmp(k->op, name))
				return true;
	return false;
}

const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count)
{
	*count = p->event_count;
	return p->events;
}
