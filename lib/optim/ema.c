/* ema.c - a running mean of the weights. */
#include "lib/optim/ema.h"

#include <stdlib.h>

struct gt_ema {
	struct gt_store *store;
	float fresh; /* weight of new parameters */
	float *flat; /* device: [gt_store_updated()] */
	int64_t updates;
};

static size_t bytes_of(const struct gt_ema *e)
{
	return (size_t)gt_store_updated(e->store) * sizeof(float);
}

int gt_ema_new(struct gt_ema **out, struct gt_store *store, double decay, struct gt_err *err)
{
	struct gt_ema *e = gt_calloc(1, sizeof(*e), err);
	void *flat;

	*out = NULL;
	if (!e)
		return GT_ENOMEM;
	e->store = store;
	e->fresh = (float)(1 - decay);
	if (store->dtype != GT_F32)
		gt_err_set(err, GT_ENOTSUP, "a mean of the weights is of float32 parameters");
	else if (!(decay > 0 && decay < 1) || e->fresh <= 0 || e->fresh >= 1)
		gt_err_set(err, GT_EINVAL, "{ema} %g is not between 0 and 1 in float32", decay);
	else if (!gt_device_alloc(store->device, bytes_of(e), &flat, err)) {
		e->flat = flat;
		*out = e;
		return 0;
	}
	gt_ema_free(e);
	return err->code;
}

void gt_ema_free(struct gt_ema *e)
{
	if (!e)
		return;
	gt_device_free(e->store->device, e->flat, bytes_of(e));
	free(e);
}

/* Call one of the two kernels for every stretch that this process updates. */
static int for_each(struct gt_ema *e, bool swap, float weight, struct gt_err *err)
{
	const struct gt_store *s = e->store;
	const struct gt_part all = { .count = s->flat_count };
	const struct gt_part *parts = s->parts ? s->parts : &all;
	const struct gt_range_kernels *k = s->device->backend->ranges();
	struct gt_stream *stream = s->device->compute;
	int rc = 0;

	for (size_t i = 0; !rc && i < (s->parts ? s->part_count : 1); i++) {
		const struct gt_part *part = &parts[i];
		float *mean = e->flat + part->at;
		float *p = gt_plane_at(s, s->parameters, part->offset);

		rc = swap ? k->swap(stream, mean, p, part->count, err)
		          : k->lerp(stream, mean, p, part->count, weight, err);
	}
	return rc;
}

int gt_ema_update(struct gt_ema *e, struct gt_err *err)
{
	return for_each(e, false, e->updates++ ? e->fresh : 1, err);
}

int gt_ema_swap(struct gt_ema *e, struct gt_err *err)
{
	int rc = for_each(e, true, 0, err);

	return rc ? rc : gt_store_refresh_copies(e->store, err);
}

float *gt_ema_flat(const struct gt_ema *e)
{
	return e->flat;
}

int64_t gt_ema_updates(const struct gt_ema *e)
{
	return e->updates;
}

void gt_ema_set_updates(struct gt_ema *e, int64_t updates)
{
	e->updates = updates;
}
