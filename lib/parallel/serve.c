/* serve.c - rank 0 reads tensors piece by piece, and the other ranks answer its requests. */
#include "lib/parallel/state.h"

/* A request of rank 0, which all ranks get by a broadcast. */
enum field { PLANE, SLOT, FIRST, COUNT, FIELDS };

static const int64_t no_plane = -1; /* the end of requests */

static int share_request(struct gt_parallel *p, int64_t request[FIELDS], struct gt_err *err)
{
	return p->world->size > 1 ? gt_broadcast(p->world, request, FIELDS, GT_I64, 0, err) : 0;
}

int gt_parallel_serve(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int64_t request[FIELDS];
	int rc = share_request(p, request, err);

	while (!rc && request[PLANE] != no_plane) {
		rc = gt_parallel_gather_slot(p, s->planes[request[PLANE]], &s->slots[request[SLOT]],
		    request[FIRST], request[COUNT], NULL, err);
		if (!rc)
			rc = share_request(p, request, err);
	}
	return rc;
}

static int64_t plane_index(const struct gt_store *s, const struct gt_plane *plane)
{
	int64_t i = 0;

	while (s->planes[i] != plane)
		i++;
	return i;
}

/* The thread may not have used the device yet. */
int gt_parallel_fetch(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err)
{
	int64_t request[FIELDS] = { [PLANE] = plane_index(p->store, plane),
		[SLOT] = slot - p->store->slots,
		[FIRST] = first,
		[COUNT] = count };
	int rc;

	pthread_mutex_lock(&p->fetching);
	rc = p->device->backend->enter(p->device->index, err);
	if (!rc && gt_parallel_is_sharded(p, plane, slot))
		rc = share_request(p, request, err);
	if (!rc)
		rc = gt_parallel_gather_slot(p, plane, slot, first, count, out, err);
	pthread_mutex_unlock(&p->fetching);
	return rc;
}

int gt_parallel_end_fetches(struct gt_parallel *p, struct gt_err *err)
{
	int64_t request[FIELDS] = { [PLANE] = no_plane };

	return share_request(p, request, err);
}
