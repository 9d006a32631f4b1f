/* ring.c - groups that are rings: made, split and freed. */
#include "lib/comm/ring/ring.h"

#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/comm/ring/host_ring.h"

static int run_ring_collective(void *self, const struct gt_collective *c, struct gt_err *err)
{
	const struct gt_ring *r = self;

	if (c->kind == GT_SEND || c->kind == GT_RECV || c->kind == GT_BARRIER || r->group.size == 1)
		return gt_group_run(r->below, c, err);
	return gt_ring_collect(&r->seat, c, err);
}

static int ring_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	return gt_queue_run(&((struct gt_ring *)group)->queue, c, err);
}

static int ring_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	return gt_queue_start(&((struct gt_ring *)group)->queue, c, ticket, err);
}

static int ring_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	return gt_queue_wait(&((struct gt_ring *)group)->queue, ticket, err);
}

static int ring_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_ring *r = (struct gt_ring *)group;

	gt_queue_drain(&r->queue);
	return gt_group_alloc(r->below, bytes, out, err);
}

static void ring_release(struct gt_group *group, void *memory)
{
	struct gt_ring *r = (struct gt_ring *)group;

	gt_queue_drain(&r->queue);
	gt_group_release(r->below, memory);
}

static int ring_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct gt_ring *r = (struct gt_ring *)group;
	int rc;

	gt_queue_drain(&r->queue);
	rc = gt_group_split(out, r->below, color, key, err);
	if (rc || !*out)
		return rc;
	rc = r->kind->make(out, err);
	if (rc) {
		gt_group_free(*out);
		*out = NULL;
	}
	return rc;
}

static int ring_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_ring *r = (struct gt_ring *)group;

	gt_queue_drain(&r->queue);
	return gt_group_check_calls(r->below, c, err);
}

static int ring_check_peers(struct gt_group *group, bool *gone, struct gt_err *err)
{
	return gt_group_check_peers(((struct gt_ring *)group)->below, gone, err);
}

static int ring_fail(struct gt_group *group, struct gt_err *err)
{
	return gt_group_fail(((struct gt_ring *)group)->below, err);
}

static int ring_share(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_ring *r = (struct gt_ring *)group;

	gt_queue_drain(&r->queue);
	return gt_group_share(r->below, bytes, out, err);
}

static void ring_stop(struct gt_group *group)
{
	struct gt_ring *r = (struct gt_ring *)group;

	r->kind->stop(r->seat.self);
}

static void ring_free(struct gt_group *group)
{
	struct gt_ring *r = (struct gt_ring *)group;

	ring_stop(group);
	gt_queue_free(&r->queue);
	gt_group_free(r->below);
	r->kind->free(r->seat.self);
	free(r);
}

static const struct gt_group_ops ops = {
	.name = "ring",
	.ordered = true,
	.run = ring_run,
	.start = ring_start,
	.wait = ring_wait,
	.alloc = ring_alloc,
	.release = ring_release,
	.split = ring_split,
	.stop = ring_stop,
	.free = ring_free,
	.check_calls = ring_check_calls,
	.check_peers = ring_check_peers,
	.fail = ring_fail,
	.share = ring_share,
};

int gt_ring_new(struct gt_group **out, struct gt_group *below, const struct gt_ring_kind *kind,
    void *self, size_t chunk_bytes, struct gt_err *err)
{
	struct gt_ring *r = gt_calloc(1, sizeof(*r), err);

	if (!r)
		return err->code;
	*r = (struct gt_ring){ .group = { &ops, below->rank, below->size, below->timeout_s },
		.below = below,
		.kind = kind,
		.seat = { below->rank, below->size, &kind->peers, self, chunk_bytes,
		    gt_ring_most_partials(below->size) },
		.queue = { .run = run_ring_collective, .self = r } };
	*out = &r->group;
	return 0;
}
