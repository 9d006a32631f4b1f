/* held.c - slots gathered from the ranks that hold parts of them, and scattered to them. */
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"

static bool is_cut(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_slot *slot, enum gt_held what)
{
	const struct gt_axis_row *row = gt_axis_rows[axis];

	return row->cuts && row->cuts(p, slot, what);
}

static int64_t elements_of(const struct gt_parallel *p, enum gt_axis axis,
    const struct gt_slot *slot, enum gt_held what, int seat)
{
	struct gt_slice held = gt_axis_rows[axis]->held(p, slot, what, seat);

	return gt_slice_elements(&held);
}

/* Slots that the data axis cuts lie in another place, even where seat 0 holds all elements. */
bool gt_parallel_is_sharded(
    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what)
{
	int64_t count = slot->count, held;

	for (int axis = GT_AXES - 1; axis >= 0; axis--) {
		if (!is_cut(p, axis, slot, what))
			continue;
		held = axis == GT_AXIS_DATA ? 0 : elements_of(p, axis, slot, what, 0);
		if (held < count)
			return true;
		count = held;
	}
	return false;
}

/* Where this rank's elements begin in flat memory. */
static char *place_of(
    const struct gt_parallel *p, const void *flat, const struct gt_slot *slot, enum gt_held what)
{
	size_t size = gt_dtype_size(slot->dtype);

	if (is_cut(p, GT_AXIS_DATA, slot, what))
		return (char *)flat + (size_t)p->mode->place(p, slot, what) * size;
	return (char *)flat + (size_t)slot->offset * size;
}

/* counts[axis]: the elements that the axes from this one to the outermost leave to this rank;
 * counts[GT_AXES]: all. */
static void count_elements(const struct gt_parallel *p, const struct gt_slot *slot,
    enum gt_held what, int64_t counts[GT_AXES + 1])
{
	counts[GT_AXES] = slot->count;
	for (int axis = GT_AXES - 1; axis >= 0; axis--) {
		counts[axis] = counts[axis + 1];
		if (counts[axis] && is_cut(p, axis, slot, what)) {
			struct gt_slice own =
			    gt_axis_rows[axis]->held(p, slot, what, p->axes[axis]->rank);

			counts[axis] = gt_slice_elements(&own);
		}
	}
}

/* Elements of a slot in host memory, on their way from axis to axis. */
struct load {
	const struct gt_slot *slot;
	enum gt_held what;
	size_t size; /* of an element */
	void *data;
};

/* ---- gather ---- */

static int send(struct gt_group *group, const struct load *load, int64_t count, struct gt_err *err)
{
	const struct gt_collective c = { .kind = GT_SEND,
		.in = load->data,
		.count = count,
		.dtype = load->slot->dtype,
		.what = load->slot->name };

	return count ? gt_group_run(group, &c, err) : 0;
}

/* Receive the elements of a seat, and put them in their places. */
static int receive(struct gt_parallel *p, enum gt_axis axis, int seat, const struct load *load,
    void *whole, struct gt_err *err)
{
	struct gt_slice part = gt_axis_rows[axis]->held(p, load->slot, load->what, seat);
	struct gt_collective c = { .kind = GT_RECV,
		.count = gt_slice_elements(&part),
		.dtype = load->slot->dtype,
		.peer = seat,
		.what = load->slot->name };
	int rc;

	if (!c.count)
		return 0;
	c.out = gt_calloc((size_t)c.count, load->size, err);
	if (!c.out)
		return GT_ENOMEM;
	rc = gt_group_run(p->axes[axis], &c, err);
	if (!rc)
		gt_slice_unpack(&part, whole, c.out, load->size);
	free(c.out);
	return rc;
}

/* On seat 0 of an axis: put its elements and those of all other seats together. */
static int gather(
    struct gt_parallel *p, enum gt_axis axis, struct load *load, int64_t count, struct gt_err *err)
{
	const struct gt_slice own = gt_axis_rows[axis]->held(p, load->slot, load->what, 0);
	void *whole = gt_calloc((size_t)count, load->size, err);
	int rc = whole ? 0 : GT_ENOMEM;

	if (!rc && load->data)
		gt_slice_unpack(&own, whole, load->data, load->size);
	for (int seat = 1; !rc && seat < p->axes[axis]->size; seat++)
		rc = receive(p, axis, seat, load, whole, err);
	free(load->data);
	load->data = whole;
	return rc;
}

static int read_own(const struct gt_parallel *p, struct load *load, const void *flat, int64_t count,
    struct gt_err *err)
{
	size_t bytes = (size_t)count * load->size;

	if (!count)
		return 0;
	load->data = gt_calloc(1, bytes, err);
	return load->data ? gt_device_read(p->store->device, load->data,
	                        place_of(p, flat, load->slot, load->what), bytes, err)
	                  : GT_ENOMEM;
}

/* From the innermost axis to the outermost: the other seats send their elements to seat 0, unless
 * it has them anyway, and leave; seat 0 goes on. */
static int gather_all(struct gt_parallel *p, struct load *load, const int64_t *counts, bool *leaves,
    struct gt_err *err)
{
	int rc = 0;

	*leaves = false;
	for (int axis = 0; !rc && !*leaves && axis < GT_AXES; axis++) {
		int64_t count = counts[axis + 1];
		bool lacks = count && is_cut(p, axis, load->slot, load->what) &&
		             elements_of(p, axis, load->slot, load->what, 0) < count;

		*leaves = p->axes[axis]->rank > 0;
		if (lacks && *leaves)
			rc = send(p->axes[axis], load, counts[axis], err);
		else if (lacks)
			rc = gather(p, axis, load, count, err);
	}
	return rc;
}

int gt_parallel_gather_slot(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    const void *held, void *whole, struct gt_err *err)
{
	struct load load = { .slot = slot, .what = what, .size = gt_dtype_size(slot->dtype) };
	int64_t counts[GT_AXES + 1];
	bool leaves;
	int rc;

	if (!gt_parallel_is_sharded(p, slot, what))
		return p->world->rank
		           ? 0
		           : gt_device_read(p->store->device, whole, place_of(p, held, slot, what),
		                 gt_slot_bytes(slot), err);
	count_elements(p, slot, what, counts);
	rc = read_own(p, &load, held, counts[0], err);
	if (!rc)
		rc = gather_all(p, &load, counts, &leaves, err);
	if (!rc && !leaves)
		memcpy(whole, load.data, gt_slot_bytes(slot));
	free(load.data);
	return rc;
}

/* ---- scatter ---- */

/* From the outermost axis to the innermost: keep the elements of this rank's seat. */
int gt_parallel_scatter_slot(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    void *held, const void *whole, struct gt_err *err)
{
	struct load load = { .slot = slot, .what = what, .size = gt_dtype_size(slot->dtype) };
	int64_t counts[GT_AXES + 1];
	const void *from = whole;
	int rc = 0;

	if (slot->on_other_ranks)
		return 0;
	count_elements(p, slot, what, counts);
	for (int axis = GT_AXES - 1; !rc && counts[0] && axis >= 0; axis--) {
		struct gt_slice own;
		void *packed;

		if (counts[axis] == counts[axis + 1])
			continue;
		own = gt_axis_rows[axis]->held(p, slot, what, p->axes[axis]->rank);
		packed = gt_calloc((size_t)counts[axis], load.size, err);
		if (packed)
			gt_slice_pack(&own, packed, from, load.size);
		rc = packed ? 0 : GT_ENOMEM;
		free(load.data);
		load.data = packed;
		from = packed;
	}
	if (!rc && counts[0])
		rc = gt_device_write(p->store->device, place_of(p, held, slot, what), from,
		    (size_t)counts[0] * load.size, err);
	free(load.data);
	return rc;
}
