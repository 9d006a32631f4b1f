/* average.c - an average of the weights over the steps: one row for each kind. */
#include "lib/optim/average.h"

/* ---- ema ---- */

static bool is_ema_kept(const struct gt_average_options *o)
{
	return o->ema > 0;
}

static float ema_weight(const struct gt_average_options *o, int64_t step)
{
	return step ? (float)(1 - o->ema) : 1;
}

static int check_ema(const struct gt_average_options *o, struct gt_err *err)
{
	float weight = ema_weight(o, 1);

	if (o->ema < 1 && weight > 0 && weight < 1)
		return 0;
	return gt_err_set(err, GT_EINVAL, "{ema} %g is not between 0 and 1 in float32", o->ema);
}

/* ---- the table ---- */

static const struct gt_average averages[] = {
	{ .name = "ema",
	    .title = "EMA",
	    .file = "model_ema.pth",
	    .is_kept = is_ema_kept,
	    .check = check_ema,
	    .weight = ema_weight },
};

const struct gt_average *gt_average_kept(const struct gt_average_options *o)
{
	for (size_t i = 0; i < sizeof(averages) / sizeof(*averages); i++)
		if (averages[i].is_kept(o))
			return &averages[i];
	return NULL;
}

int gt_average_add_plane(struct gt_store *s, const struct gt_average_options *o, struct gt_err *err)
{
	const struct gt_average *average = gt_average_kept(o);
	struct gt_plane like = {
		.role = GT_PARAMETER, .dtype = GT_F32, .cut = GT_CUT_PACKED, .saved = GT_SAVED_MEAN
	};

	if (!average)
		return 0;
	if (s->dtype != GT_F32)
		return gt_err_set(
		    err, GT_ENOTSUP, "a mean of the weights is of float32 parameters");
	if (average->check(o, err))
		return err->code;
	like.name = average->name;
	return gt_store_add_plane(s, &like, NULL, NULL, NULL, err);
}

/* Call one of the two kernels for every range that this process updates. */
static int for_each_range(const struct gt_store *s, const struct gt_average *average, bool swap,
    float weight, struct gt_err *err)
{
	const struct gt_plane *plane = gt_store_plane(s, average->name);
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

int gt_average_update(
    const struct gt_store *s, const struct gt_average_options *o, int64_t step, struct gt_err *err)
{
	const struct gt_average *average = gt_average_kept(o);

	return average ? for_each_range(s, average, false, average->weight(o, step), err) : 0;
}

int gt_average_swap(const struct gt_store *s, const struct gt_average *average, struct gt_err *err)
{
	int rc = for_each_range(s, average, true, 0, err);

	return rc ? rc : gt_store_refresh_copies(s, err);
}
