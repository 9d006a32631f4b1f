/* planes.c - the planes of a store: one flat buffer each. */
#include <stdlib.h>
#include <string.h>

#include "lib/store/planes.h"

struct gt_plane *gt_store_plane(const struct gt_store *s, const char *name)
{
	for (size_t i = 0; i < s->plane_count; i++)
		if (!strcmp(s->planes[i]->name, name))
			return s->planes[i];
	return NULL;
}

static int alloc_plane(const struct gt_store *s, struct gt_plane *plane, struct gt_err *err)
{
	size_t bytes = gt_plane_bytes(s, plane);

	return plane->memory || !bytes ? 0 : gt_device_alloc(s->device, bytes, &plane->memory, err);
}

/* Set which slots a plane has, and their ranges, if it has only some slots. */
static int choose_slots(struct gt_store *s, struct gt_plane *plane,
    bool (*holds)(const void *context, const struct gt_slot *slot), const void *context,
    struct gt_err *err)
{
	bool *list = gt_arena_alloc(&s->arena, s->slot_count * sizeof(*list), err);

	if (!list)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++)
		list[i] = s->slots[i].role == plane->role && holds(context, &s->slots[i]);
	plane->holds = list;
	return gt_plane_find_ranges(s, plane, err);
}

int gt_store_add_plane(struct gt_store *s, const struct gt_plane *like,
    bool (*holds)(const void *context, const struct gt_slot *slot), const void *context,
    struct gt_plane **out, struct gt_err *err)
{
	struct gt_plane *plane = gt_store_plane(s, like->name);

	if (out)
		*out = plane;
	if (plane)
		return 0;
	plane = gt_arena_alloc(&s->arena, sizeof(*plane), err);
	if (!plane ||
	    gt_grow(&s->planes, s->plane_count, &s->plane_capacity, sizeof(*s->planes), err))
		return GT_ENOMEM;
	*plane = *like;
	if ((holds && choose_slots(s, plane, holds, context, err)) ||
	    (s->allocated && alloc_plane(s, plane, err)))
		return err->code;
	s->planes[s->plane_count++] = plane;
	if (out)
		*out = plane;
	return 0;
}

void gt_planes_free(struct gt_store *s)
{
	for (size_t i = 0; i < s->plane_count; i++)
		if (!s->planes[i]->lent)
			gt_device_free(
			    s->device, s->planes[i]->memory, gt_plane_bytes(s, s->planes[i]));
	free(s->planes);
}

bool gt_plane_holds(
    const struct gt_store *s, const struct gt_plane *plane, const struct gt_slot *slot)
{
	return plane->holds ? slot->role == plane->role && plane->holds[slot - s->slots]
	                    : slot->role == plane->role;
}

enum gt_dtype gt_plane_dtype(const struct gt_plane *plane, const struct gt_slot *slot)
{
	return plane->dtype == GT_U8 ? slot->dtype : plane->dtype;
}

int64_t gt_plane_elements(const struct gt_store *s, const struct gt_plane *plane)
{
	if (plane->role != GT_PARAMETER || plane->holds)
		return plane->elements;
	return plane->cut == GT_CUT_PACKED ? gt_store_updated(s) : s->flat_count;
}

size_t gt_plane_bytes(const struct gt_store *s, const struct gt_plane *plane)
{
	return plane ? (size_t)gt_plane_elements(s, plane) * gt_dtype_size(plane->dtype) : 0;
}

size_t gt_store_flat_bytes(const struct gt_store *s)
{
	return (size_t)s->flat_count * gt_dtype_size(s->dtype);
}

int gt_store_keep_copies(struct gt_store *s, enum gt_dtype type, struct gt_err *err)
{
	return gt_store_add_plane(s,
	    &(struct gt_plane){ .name = "copies", .role = GT_PARAMETER, .dtype = type }, NULL, NULL,
	    &s->copies, err);
}

int gt_store_refresh_copies(const struct gt_store *s, struct gt_err *err)
{
	return s->copies
	           ? s->device->backend->ranges()->narrow(s->device->compute, s->copies->memory,
	                 s->parameters->memory, s->flat_count, s->copies->dtype, err)
	           : 0;
}

void gt_store_lend(struct gt_plane *plane, void *memory)
{
	plane->memory = memory;
	plane->lent = true;
}

size_t gt_store_lent_bytes(const struct gt_store *s)
{
	size_t bytes = 0;

	for (size_t i = 0; i < s->plane_count; i++)
		if (s->planes[i]->lent)
			bytes += gt_plane_bytes(s, s->planes[i]);
	return bytes;
}

int gt_store_alloc(struct gt_store *s, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < s->plane_count; i++)
		rc = alloc_plane(s, s->planes[i], err);
	s->allocated = !rc;
	return rc;
}

struct gt_plane *gt_store_plane_of(const struct gt_store *s, enum gt_role role)
{
	switch (role) {
	case GT_PARAMETER:
		return s->parameters;
	case GT_GRADIENT:
		return s->gradients;
	case GT_WORKING_COPY:
		return s->copies;
	case GT_BUFFER:
		return s->buffers;
	case GT_CACHE:
		return s->caches;
	default:
		return NULL;
	}
}

void *gt_slot_address(const struct gt_plane *plane, const struct gt_slot *slot)
{
	return (char *)plane->memory +
	       (size_t)slot->offset * gt_dtype_size(gt_plane_dtype(plane, slot));
}

void *gt_store_data(const struct gt_store *s, const struct gt_slot *slot)
{
	return gt_slot_address(gt_store_plane_of(s, slot->role), slot);
}
