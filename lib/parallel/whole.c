/* whole.c - tensors gathered from the ranks that hold their elements, and scattered to them. */
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/state.h"
#include "lib/parallel/whole.h"

struct gt_whole_tensor gt_whole_tensor(const struct gt_plane *plane, const struct gt_slot *slot)
{
	return (struct gt_whole_tensor){ plane, slot, gt_dtype_size(gt_plane_dtype(plane, slot)) };
}

/* The data axis divides the layout of the store, and so all planes that are cut. */
bool gt_whole_is_cut(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_whole_tensor *t)
{
	const struct gt_axis_row *row = gt_axis_rows[axis];

	if (axis == GT_AXIS_DATA)
		return t->slot->role == GT_PARAMETER && t->plane->cut && p->store->parts;
	return row->cuts && row->cuts(p, t->slot);
}

struct gt_slice gt_whole_slice(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_whole_tensor *t, int seat)
{
	struct gt_part part;

	if (axis != GT_AXIS_DATA)
		return gt_axis_rows[axis]->held(p, t->slot, seat);
	part = gt_slot_part(p->store, t->plane, t->slot, seat);
	return (struct gt_slice){ part.offset - t->slot->offset, part.count, part.count, 1 };
}

/* Elements that the data axis divides lie in another place, even where seat 0 holds all. */
bool gt_parallel_is_sharded(
    const struct gt_parallel *p, const struct gt_plane *plane, const struct gt_slot *slot)
{
	const struct gt_whole_tensor t = gt_whole_tensor(plane, slot);
	int64_t count = slot->count;

	for (int axis = GT_AXES - 1; axis > GT_AXIS_DATA; axis--) {
		struct gt_slice first;

		if (!gt_whole_is_cut(p, axis, &t))
			continue;
		first = gt_whole_slice(p, axis, &t, 0);
		if (gt_slice_elements(&first) < count)
			return true;
	}
	return gt_whole_is_cut(p, GT_AXIS_DATA, &t);
}

/* Consecutive elements: of the whole tensor, or of those that some axes have left to a rank. */
struct window {
	int64_t first, count;
};

/* Return the elements of a slice that are in a window, as a window of the slice's elements. */
static struct window cut_window(const struct gt_slice *slice, const struct window *w)
{
	int64_t first = gt_slice_below(slice, w->first);

	return (struct window){ first, gt_slice_below(slice, w->first + w->count) - first };
}

/* windows[axis]: the elements that the axes from this one to the outermost leave to this rank;
 * windows[GT_AXES] is given. */
static void find_windows(const struct gt_parallel *p, const struct gt_whole_tensor *t,
    struct window windows[GT_AXES + 1])
{
	for (int axis = GT_AXES - 1; axis >= 0; axis--) {
		windows[axis] = windows[axis + 1];
		if (windows[axis].count && gt_whole_is_cut(p, axis, t)) {
			struct gt_slice own = gt_whole_slice(p, axis, t, p->axes[axis]->rank);

			windows[axis] = cut_window(&own, &windows[axis + 1]);
		}
	}
}

/* ---- gather ---- */

/* Elements of a window in host memory, on their way from axis to axis. */
struct load {
	struct gt_whole_tensor t;
	void *data;
};

static int send_load(
    struct gt_group *group, const struct load *load, int64_t count, struct gt_err *err)
{
	const struct gt_collective c = { .kind = GT_SEND,
		.in = load->data,
		.count = count,
		.dtype = gt_plane_dtype(load->t.plane, load->t.slot),
		.what = load->t.slot->name };

	return count ? gt_group_run(group, &c, err) : 0;
}

/* Receive the elements of a seat in a window, and put them in their places. */
static int receive_load(struct gt_parallel *p, enum gt_axis axis, int seat, const struct load *load,
    const struct window *w, void *whole, struct gt_err *err)
{
	struct gt_slice slice = gt_whole_slice(p, axis, &load->t, seat);
	struct gt_collective c = { .kind = GT_RECV,
		.count = cut_window(&slice, w).count,
		.dtype = gt_plane_dtype(load->t.plane, load->t.slot),
		.peer = seat,
		.what = load->t.slot->name };
	int rc;

	if (!c.count)
		return 0;
	c.out = gt_calloc((size_t)c.count, load->t.size, err);
	if (!c.out)
		return GT_ENOMEM;
	rc = gt_group_run(p->axes[axis], &c, err);
	if (!rc)
		gt_slice_unpack(&slice, whole, w->first, w->count, c.out, load->t.size);
	free(c.out);
	return rc;
}

/* On seat 0 of an axis: put its elements of a window and those of all other seats together. */
static int join_seats(struct gt_parallel *p, enum gt_axis axis, struct load *load,
    const struct window *w, struct gt_err *err)
{
	const struct gt_slice own = gt_whole_slice(p, axis, &load->t, 0);
	void *whole = gt_calloc((size_t)w->count, load->t.size, err);
	int rc = whole ? 0 : GT_ENOMEM;

	if (!rc && load->data)
		gt_slice_unpack(&own, whole, w->first, w->count, load->data, load->t.size);
	for (int seat = 1; !rc && seat < p->axes[axis]->size; seat++)
		rc = receive_load(p, axis, seat, load, w, whole, err);
	free(load->data);
	load->data = whole;
	return rc;
}

static int read_own(
    const struct gt_parallel *p, struct load *load, const struct window *w, struct gt_err *err)
{
	size_t bytes = (size_t)w->count * load->t.size;

	if (!w->count)
		return 0;
	load->data = gt_calloc(1, bytes, err);
	return load->data ? gt_device_read(p->store->device, load->data,
	                        (const char *)gt_slot_first(p->store, load->t.plane, load->t.slot) +
	                            (size_t)w->first * load->t.size,
	                        bytes, err)
	                  : GT_ENOMEM;
}

/* Join the axes from the innermost to the outermost: the other seats send their elements to seat 0,
 * unless it has them anyway, and leave; seat 0 goes on. */
static int join_axes(struct gt_parallel *p, struct load *load, const struct window *windows,
    bool *leaves, struct gt_err *err)
{
	int rc = 0;

	*leaves = false;
	for (int axis = 0; !rc && !*leaves && axis < GT_AXES; axis++) {
		const struct window *w = &windows[axis + 1];
		bool lacks = w->count && gt_whole_is_cut(p, axis, &load->t);

		if (lacks) {
			struct gt_slice first = gt_whole_slice(p, axis, &load->t, 0);

			lacks = cut_window(&first, w).count < w->count;
		}
		*leaves = p->axes[axis]->rank > 0;
		if (lacks && *leaves)
			rc = send_load(p->axes[axis], load, windows[axis].count, err);
		else if (lacks)
			rc = join_seats(p, axis, load, w, err);
	}
	return rc;
}

/* Read elements that rank 0 of the world has. */
static int read_whole(const struct gt_parallel *p, const struct gt_whole_tensor *t, int64_t first,
    int64_t count, void *out, struct gt_err *err)
{
	if (p->world->rank)
		return 0;
	return gt_device_read(p->store->device, out,
	    (const char *)gt_slot_first(p->store, t->plane, t->slot) + (size_t)first * t->size,
	    (size_t)count * t->size, err);
}

int gt_parallel_gather_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err)
{
	struct load load = { .t = gt_whole_tensor(plane, slot) };
	struct window windows[GT_AXES + 1];
	bool leaves;
	int rc;

	if (!gt_parallel_is_sharded(p, plane, slot))
		return read_whole(p, &load.t, first, count, out, err);
	windows[GT_AXES] = (struct window){ first, count };
	find_windows(p, &load.t, windows);
	rc = read_own(p, &load, &windows[0], err);
	if (!rc)
		rc = join_axes(p, &load, windows, &leaves, err);
	if (!rc && !leaves && count)
		memcpy(out, load.data, (size_t)count * load.t.size);
	free(load.data);
	return rc;
}

/* ---- scatter ---- */

/* Keep the elements of this rank's seat, from the outermost axis to the innermost. */
int gt_parallel_scatter_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, const void *whole, struct gt_err *err)
{
	struct load load = { .t = gt_whole_tensor(plane, slot) };
	struct window windows[GT_AXES + 1];
	const void *from = whole;
	int rc = 0;

	if (slot->on_other_ranks)
		return 0;
	windows[GT_AXES] = (struct window){ 0, slot->count };
	find_windows(p, &load.t, windows);
	for (int axis = GT_AXES - 1; !rc && windows[0].count && axis >= 0; axis--) {
		struct gt_slice own;
		void *packed;

		if (windows[axis].count == windows[axis + 1].count)
			continue;
		own = gt_whole_slice(p, axis, &load.t, p->axes[axis]->rank);
		packed = gt_calloc((size_t)windows[axis].count, load.t.size, err);
		if (packed)
			gt_slice_pack(&own, packed, from, load.t.size);
		rc = packed ? 0 : GT_ENOMEM;
		free(load.data);
		load.data = packed;
		from = packed;
	}
	if (!rc && windows[0].count)
		rc = gt_device_write(p->store->device, gt_slot_first(p->store, plane, slot), from,
		    (size_t)windows[0].count * load.t.size, err);
	free(load.data);
	return rc;
}
