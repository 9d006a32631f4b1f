/* ranges.c - the parts of the layout that ranks hold, and the elements of slots in them. */
#include <stdlib.h>

#include "lib/store/planes.h"

int gt_store_divide(struct gt_store *s, const int64_t *first, const int64_t *sizes, size_t count,
    int ranks, int rank, struct gt_err *err)
{
	s->parts = gt_arena_alloc(&s->arena, count * sizeof(*s->parts), err);
	if (!s->parts)
		return GT_ENOMEM;
	s->part_count = count;
	s->rank = rank;
	for (size_t i = 0; i < count; i++) {
		int64_t each = sizes[i] / ranks;

		s->parts[i] = (struct gt_part){ first[i] + rank * each, each, s->part_elements };
		s->part_elements += each;
	}
	return 0;
}

int64_t gt_store_updated(const struct gt_store *s)
{
	return s->parts ? s->part_elements : s->flat_count;
}

struct gt_ranges gt_plane_ranges(
    const struct gt_store *s, const struct gt_plane *plane, int64_t offset, int64_t count)
{
	return (struct gt_ranges){
		.store = s, .plane = plane, .offset = offset, .end = offset + count, .rank = s->rank
	};
}

struct gt_ranges gt_slot_ranges(
    const struct gt_store *s, const struct gt_plane *plane, const struct gt_slot *slot)
{
	bool here = !slot->on_other_ranks && gt_plane_holds(s, plane, slot);

	return gt_plane_ranges(s, plane, slot->offset, here ? slot->held : 0);
}

/* Return part number walk->next of the plane on this rank, before it is intersected with the
 * elements of the walk. */
static bool next_part(struct gt_ranges *w, struct gt_part *out)
{
	const struct gt_store *s = w->store;
	const struct gt_plane *plane = w->plane;
	bool listed = plane->ranges && w->rank == s->rank;
	bool cut = plane->cut != GT_CUT_NONE && s->parts;
	size_t i = w->next++;

	if (!listed && !cut) {
		*out = (struct gt_part){ .count = INT64_MAX };
		return !i;
	}
	if (i == (listed ? plane->range_count : s->part_count))
		return false;
	*out = listed ? plane->ranges[i] : s->parts[i];
	if (listed)
		return true;
	out->offset += (w->rank - s->rank) * out->count;
	if (plane->cut == GT_CUT_IN_PLACE)
		out->at = out->offset;
	return true;
}

bool gt_ranges_next(struct gt_ranges *w, struct gt_part *out)
{
	struct gt_part part;

	while (next_part(w, &part)) {
		int64_t part_end = part.offset + part.count;
		int64_t from = part.offset > w->offset ? part.offset : w->offset;
		int64_t to = part_end < w->end ? part_end : w->end;

		if (from >= to)
			continue;
		*out = (struct gt_part){ from, to - from, part.at + from - part.offset };
		return true;
	}
	return false;
}

struct gt_part gt_slot_part(
    const struct gt_store *s, const struct gt_plane *plane, const struct gt_slot *slot, int rank)
{
	struct gt_ranges walk = gt_slot_ranges(s, plane, slot);
	struct gt_part part;

	walk.rank = rank;
	return gt_ranges_next(&walk, &part) ? part : (struct gt_part){ .offset = slot->offset };
}

void *gt_slot_first(
    const struct gt_store *s, const struct gt_plane *plane, const struct gt_slot *slot)
{
	size_t size = gt_dtype_size(gt_plane_dtype(plane, slot));
	struct gt_ranges walk = gt_slot_ranges(s, plane, slot);
	struct gt_part part;

	return gt_ranges_next(&walk, &part) ? (char *)plane->memory + (size_t)part.at * size : NULL;
}

void *gt_plane_at(const struct gt_store *s, const struct gt_plane *plane, int64_t offset)
{
	struct gt_ranges walk;
	struct gt_part part;

	if (!plane)
		return NULL;
	walk = gt_plane_ranges(s, plane, offset, 1);
	return gt_ranges_next(&walk, &part)
	           ? (char *)plane->memory + (size_t)part.at * gt_dtype_size(plane->dtype)
	           : NULL;
}

static int compare_part_offsets(const void *x, const void *y)
{
	const struct gt_part *a = x, *b = y;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Add a range after the others in the memory of the plane. If it continues the last range, make
 * that one longer. */
static void add_range(struct gt_plane *plane, struct gt_part *ranges, const struct gt_part *next)
{
	struct gt_part *last = plane->range_count ? &ranges[plane->range_count - 1] : NULL;

	if (last && last->offset + last->count == next->offset)
		last->count += next->count;
	else
		ranges[plane->range_count++] =
		    (struct gt_part){ next->offset, next->count, plane->elements };
	plane->elements += next->count;
}

/* A slot lies in one part of a rank, so there are at most as many ranges as slots. For a plane
 * without ranges, the walk finds the parts that this rank updates. */
int gt_plane_find_ranges(struct gt_store *s, struct gt_plane *plane, struct gt_err *err)
{
	struct gt_part *slots = gt_calloc(s->slot_count, sizeof(*slots), err), part;
	struct gt_part *ranges = gt_arena_alloc(&s->arena, s->slot_count * sizeof(*ranges), err);
	size_t count = 0;

	if (!slots || !ranges) {
		free(slots);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < s->slot_count; i++)
		if (plane->holds[i] && !s->slots[i].on_other_ranks)
			slots[count++] = (struct gt_part){ .offset = s->slots[i].offset,
				.count = gt_slot_padded(&s->slots[i]) };
	qsort(slots, count, sizeof(*slots), compare_part_offsets);
	for (size_t i = 0; i < count; i++) {
		struct gt_ranges walk = gt_plane_ranges(s, plane, slots[i].offset, slots[i].count);

		while (gt_ranges_next(&walk, &part))
			add_range(plane, ranges, &part);
	}
	free(slots);
	plane->ranges = ranges;
	return 0;
}
