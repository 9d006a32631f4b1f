/* parallel.c - the list of modes, and the way from the training loop to the one in use. */
#include "lib/parallel/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "lib/parallel/modes.h"

static const struct gt_parallel_mode *const modes[] = {
	[GT_PARALLEL_DDP] = &gt_parallel_ddp,
};

static const struct gt_kernel *const kernels[] = { gt_collective_kernels, gt_ddp_kernels, NULL };

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

int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err)
{
	struct gt_parallel *p = gt_calloc(1, sizeof(*p), err);

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->mode = modes[options->kind];
	p->o = *options;
	p->world = world;
	p->axes[GT_AXIS_DATA] = world;
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

int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err)
{
	return p->mode->begin ? p->mode->begin(p, err) : 0;
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
