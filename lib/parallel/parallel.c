/* parallel.c - the list of modes, and the way from the training loop to the one in use. */
#include "lib/parallel/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "lib/parallel/modes.h"

static const struct gt_parallel_mode *const modes[] = {
	[GT_PARALLEL_DDP] = &gt_parallel_ddp,
	[GT_PARALLEL_MIRRORED] = &gt_parallel_mirrored,
	[GT_PARALLEL_ZERO1] = &gt_parallel_zero1,
};

static const struct gt_kernel *const kernels[] = { gt_collective_kernels, gt_ddp_kernels,
	gt_zero_kernels, NULL };

int gt_parallel_kind_parse(const char *name)
{
	for (int i = 0; i < (int)(sizeof(modes) / sizeof(modes[0])); i++)
		if (!strcmp(modes[i]->name, name))
			return i;
	return -1;
}

const char *gt_parallel_kind_name(enum gt_parallel_kind kind)
{
	return modes[kind]->name;
}

bool gt_parallel_is_threads(enum gt_parallel_kind kind)
{
	return modes[kind]->threads;
}

int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err)
{
	struct gt_parallel *p = gt_calloc(1, sizeof(*p), err);

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->mode = modes[options->kind];
	p->o = *options;
	p->dry = !world;
	p->nobody.size = options->ranks;
	p->world = world ? world : &p->nobody;
	p->axes[GT_AXIS_DATA] = p->world;
	p->communicates = true;
	p->extra = (struct gt_plan_extra){ kernels, p };
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

int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	return p->mode->rewrite ? p->mode->rewrite(p, g, err) : 0;
}

int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	p->store = store;
	return p->mode->attach ? p->mode->attach(p, store, err) : 0;
}

int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	return p->mode->insert ? p->mode->insert(p, g, err) : 0;
}

const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p)
{
	return &p->extra;
}

/* ---- what ranks hold in parts ---- */

bool gt_parallel_in_parts(
    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what)
{
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

	if (gt_parallel_in_parts(p, slot, what))
		return p->mode->collect(p, slot, what, held, whole, err);
	if (p->world->rank)
		return 0;
	return s->backend->copy_out(
	    s->device, whole, place_of(held, slot), gt_slot_bytes(slot), err);
}

int gt_parallel_deal(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    void *held, const void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;

	if (gt_parallel_in_parts(p, slot, what))
		return p->mode->deal(p, slot, what, held, whole, err);
	return s->backend->copy_in(
	    s->device, place_of(held, slot), whole, gt_slot_bytes(slot), err);
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
	return p->mode->begin ? p->mode->begin(p, err) : 0;
}

int64_t gt_parallel_share(const struct gt_parallel *p)
{
	int64_t n = p->axes[GT_AXIS_DATA]->size;

	return (int64_t)gt_store_flat_bytes(p->store) * (n - 1) / n;
}

int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches)
{
	return p->mode->sent ? p->mode->sent(p, micro_batches) : 0;
}

void gt_parallel_communicate(struct gt_parallel *p, bool on)
{
	p->communicates = on;
}

int gt_parallel_update(
    struct gt_parallel *p, struct gt_optim *optim, double lr, float *grad_norm, struct gt_err *err)
{
	return p->mode->update ? p->mode->update(p, optim, lr, grad_norm, err)
	                       : gt_optim_step(optim, lr, grad_norm, err);
}

const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count)
{
	*count = p->communicates ? p->event_count : 0;
	return p->events;
}
