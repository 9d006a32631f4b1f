/* own.c - the elements that a rank writes when each rank saves a part of every tensor. */
#include <string.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/state.h"
#include "lib/parallel/whole.h"

/*
 * Axes divide a tensor from the outermost to the innermost (axes.c). A slice of an inner axis is
 * one of the elements that the outer axes leave, which lie one after the other on this rank.
 * Example: rows of 4 elements, of which the tensor axis leaves the first half to this rank, and the
 * data axis then the second to fifth element:
 *
 *   whole tensor    0 1 2 3 | 4 5 6 7 | 8 9 10 11
 *   tensor axis     0 1       4 5       8 9
 *   data axis         1       4 5       8
 *   runs            {1, 1}    {4, 2}    {8, 1}
 */
struct walk {
	const struct gt_parallel *p;
	struct gt_whole_tensor t;
	gt_parallel_run_fn *fn;
	void *self;
	struct gt_err *err;
};

/* Return whether this rank is to write elements of an axis that does not divide them, or does not
 * divide them from those of a lower seat. */
static bool is_first(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_whole_tensor *t, int writer)
{
	int seat = p->axes[axis]->rank;
	struct gt_slice own, other;

	if (!gt_whole_is_cut(p, axis, t))
		return seat == (axis == GT_AXIS_DATA ? writer : 0);
	own = gt_whole_slice(p, axis, t, seat);
	for (int i = 0; i < seat; i++) {
		other = gt_whole_slice(p, axis, t, i);
		if (gt_slice_elements(&own) && !memcmp(&own, &other, sizeof(own)))
			return false;
	}
	return true;
}

/* Find the places in the whole tensor of elements that are consecutive among those which the axes
 * from `axis` on leave to this rank. */
static int walk_range(const struct walk *w, int axis, int64_t first, int64_t count)
{
	struct gt_slice slice;
	int rc = 0;

	while (axis < GT_AXES && !gt_whole_is_cut(w->p, axis, &w->t))
		axis++;
	if (axis == GT_AXES)
		return w->fn(w->self, first, count, w->err);
	slice = gt_whole_slice(w->p, axis, &w->t, w->p->axes[axis]->rank);
	while (!rc && count) {
		int64_t in_row = first % slice.length, n = slice.length - in_row;

		if (n > count)
			n = count;
		rc = walk_range(
		    w, axis + 1, slice.first + first / slice.length * slice.stride + in_row, n);
		first += n;
		count -= n;
	}
	return rc;
}

bool gt_parallel_is_replicated(
    const struct gt_parallel *p, const struct gt_plane *plane, const struct gt_slot *slot)
{
	const struct gt_whole_tensor t = gt_whole_tensor(plane, slot);

	return slot->role == GT_PARAMETER && !p->mode->main && p->axes[GT_AXIS_DATA]->size > 1 &&
	       !gt_whole_is_cut(p, GT_AXIS_DATA, &t);
}

int gt_parallel_walk_own(const struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int writer, gt_parallel_run_fn *fn, void *self, struct gt_err *err)
{
	const struct walk w = { p, gt_whole_tensor(plane, slot), fn, self, err };
	int64_t held = slot->count;

	if (slot->on_other_ranks)
		return 0;
	for (int axis = GT_AXES - 1; held && axis >= 0; axis--) {
		struct gt_slice own;

		if (!is_first(p, axis, &w.t, writer))
			return 0;
		if (!gt_whole_is_cut(p, axis, &w.t))
			continue;
		own = gt_whole_slice(p, axis, &w.t, p->axes[axis]->rank);
		held = gt_slice_elements(&own);
	}
	return held ? walk_range(&w, 0, 0, held) : 0;
}

int gt_parallel_read_own(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err)
{
	size_t size = gt_dtype_size(gt_plane_dtype(plane, slot));
	int rc;

	pthread_mutex_lock(&p->fetching);
	rc = p->device->backend->enter(p->device->index, err);
	if (!rc)
		rc = gt_device_read(p->device, out,
		    (const char *)gt_slot_first(p->store, plane, slot) + (size_t)first * size,
		    (size_t)count * size, err);
	pthread_mutex_unlock(&p->fetching);
	return rc;
}
