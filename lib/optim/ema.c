/* ema.c - a running mean of the weights. */
#include "lib/optim/ema.h"

static const char plane_name[] = "ema";

/* The weight of new parameters in the mean. */
static float fresh_weight(double decay)
{
	return (float)(1 - decay);
}

int gt_ema_add_plane(struct gt_store *s, double decay, struct gt_err *err)
{
	const struct gt_plane like = { .name = plane_name,
		.role = GT_PARAMETER,
		.dtype = GT_F32,
		.cut = GT_CUT_PACKED,
		.saved = GT_SAVED_MEAN };
	float fresh = fresh_weight(decay);

	if (s->dtype != GT_F32)
		return gt_err_set(
		    err, GT_ENOTSUP, "a mean of the weights is of float32 parameters");
	if (!(decay > 0 && decay < 1) || fresh <= 0 || fresh >= 1)
		return gt_err_set(
		    err, GT_EINVAL, "{ema} %g is not between 0 and 1 in float32", decay);
	return gt_store_add_plane(s, &like, NULL, NULL, NULL, err);
}

/* Call one of the two kernels for every range that this process updates. */
static int for_each_range(const struct gt_store *s, bool swap, float weight, struct gt_err *err)
{
	const struct gt_plane *plane = gt_store_plane(s, plane_name);
	const struct gt_range_kernels *k = s->device->backend->ranges();
	struct gt_ranges walk = gt_plane_ranges(s, plane, 0, s->flat_count);
	struct gt_stream *stream = s->device->compute;
	struct gt_part part;
	int rc = 0;

	while (!rc && gt_ranges_next(&walk, &part)) {
		float *mean = (float *)plane->memory + part.at;
		float *p = gt_plane_at(s, s->parameters, part.offset);

		rc = swap ? k->swap(stream, mean, p, part.count, err)
		          : k->lerp(stream, mean, p, part.count, weight, err);
	}
	return rc;
}

int gt_ema_update(const struct gt_store *s, double decay, bool first, struct gt_err *err)
{
	return for_each_range(s, false, first ? 1 : fresh_weight(decay), err);
}

int gt_ema_swap(const struct gt_store *s, struct gt_err *err)
{
	int rc = for_each_range(s, true, 0, err);

	return rc ? rc : gt_store_refresh_copies(s, err);
}
