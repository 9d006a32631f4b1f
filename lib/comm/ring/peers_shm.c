/* peers_shm.c - peer copies between the CPU ranks of a host: receive buffers in shared memory. */
#include <assert.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/comm/ring/host_ring.h"
#include "lib/comm/shm/segment.h"

/* A rank's receive buffer, in memory from gt_group_alloc(); then come GT_RING_SLOTS chunks. */
struct inbox {
	struct gt_shm_flag filled, taken; /* chunks, moved on by the rank before and by this one */
};
_Static_assert(
    (GT_RING_SLOTS & (GT_RING_SLOTS - 1)) == 0, "counters wrap around between two rounds");

struct link {
	struct gt_shm *shm;
	struct inbox *mine, *next;
	size_t chunk_bytes;
	int rank_before, rank_next;
	uint32_t sent, received; /* chunks */
};

static unsigned char *slot_of(const struct link *l, struct inbox *in, uint32_t chunk)
{
	return (unsigned char *)(in + 1) + chunk % GT_RING_SLOTS * l->chunk_bytes;
}

static int enter_shm_call(void *self, const struct gt_collective *c, struct gt_err *err)
{
	struct link *l = self;

	return gt_shm_announce(l->shm, c, err) ? err->code : gt_shm_check_calls(l->shm, err);
}

static int free_slot(void *self, void **slot, struct gt_err *err)
{
	struct link *l = self;

	*slot = slot_of(l, l->next, l->sent);
	return gt_shm_flag_wait(
	    l->shm, &l->next->taken, l->sent + 1 - GT_RING_SLOTS, l->rank_next, err);
}

static int signal_next(void *self, struct gt_err *err)
{
	struct link *l = self;

	(void)err;
	gt_shm_flag_set(&l->next->filled, ++l->sent);
	return 0;
}

static int arrived(void *self, const void **slot, struct gt_err *err)
{
	struct link *l = self;

	*slot = slot_of(l, l->mine, l->received);
	return gt_shm_flag_wait(l->shm, &l->mine->filled, l->received + 1, l->rank_before, err);
}

static int consume(void *self, struct gt_err *err)
{
	struct link *l = self;

	(void)err;
	gt_shm_flag_set(&l->mine->taken, ++l->received);
	return 0;
}

static int copy_to_peers(
    void *self, void *const *dst, int dsts, const void *src, size_t bytes, struct gt_err *err)
{
	(void)self;
	(void)err;
	for (int d = 0; d < dsts; d++)
		gt_copy_bytes(dst[d], src, bytes);
	return 0;
}

static int reduce(void *self, const struct gt_reduce_step *step, struct gt_err *err)
{
	(void)self;
	(void)err;
	gt_reduce_step(step);
	return 0;
}

static void stop(void *self)
{
	struct link *l = self;

	gt_shm_give_up(l->shm);
}

static const struct gt_ring_kind kind = {
	.peers = { .enter = enter_shm_call,
	    .free_slot = free_slot,
	    .signal = signal_next,
	    .arrived = arrived,
	    .consume = consume,
	    .copy = copy_to_peers,
	    .reduce = reduce },
	.stop = stop,
	.free = free,
	.make = gt_ring_of_shm,
};

/* Register the flags of all ranks: a rank that fails wakes the ranks that sleep on a flag. */
static void know_flags(struct gt_shm *shm, struct gt_shm_place place, size_t bytes)
{
	for (int r = 0; r < shm->group.size; r++) {
		struct inbox *in = (void *)gt_shm_at(shm, r, place, bytes);

		shm->more[shm->more_count++] = &in->filled;
		shm->more[shm->more_count++] = &in->taken;
	}
}

static int connect_ranks(struct link *l, struct gt_err *err)
{
	struct gt_shm *shm = l->shm;
	const int n = shm->group.size, me = shm->group.rank;
	size_t bytes = sizeof(struct inbox) + GT_RING_SLOTS * l->chunk_bytes;
	uint64_t number = shm->number;
	struct gt_shm_place place;
	void *mine;

	if (gt_group_alloc(&shm->group, bytes, &mine, err))
		return err->code;
	assert((shm->number - number) % 2 == 0); /* areas post by odd and even numbers */
	shm->number = number;                    /* the caller did not call these two */
	l->rank_next = (me + 1) % n;
	l->rank_before = (me + n - 1) % n;
	place = gt_shm_place_of(shm, mine, bytes);
	l->mine = mine;
	l->next = (void *)gt_shm_at(shm, l->rank_next, place, bytes);
	know_flags(shm, place, bytes);
	return 0;
}

/* A rank without memory says so; the others learn of it in the collective that they call here. */
int gt_ring_of_shm(struct gt_group **group, struct gt_err *err)
{
	struct gt_shm *shm = (struct gt_shm *)*group;
	struct link *l = gt_calloc(1, sizeof(*l), err);

	if (!l)
		return gt_shm_fail(shm, err);
	l->shm = shm;
	l->chunk_bytes = shm->piece_bytes;
	if (connect_ranks(l, err)) {
		free(l);
		return err->code;
	}
	if (gt_ring_new(group, &shm->group, &kind, l, l->chunk_bytes, err)) {
		shm->more_count = 0;
		free(l);
		return gt_shm_fail(shm, err);
	}
	return 0;
}
