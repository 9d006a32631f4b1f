/* message.c - from one rank to another, without the rest. */
#include <string.h>

#include "lib/comm/shm/segment.h"

/*
 * A channel for each pair and direction: the sender fills pieces, at most gt_shm.slot_count of them
 * before the receiver takes one. Every piece names its message, and a message is at least one
 * piece: so short ones are sent without waiting.
 */

static size_t piece_of(size_t bytes, size_t at)
{
	return bytes - at < GT_SHM_SLOT_BYTES ? bytes - at : GT_SHM_SLOT_BYTES;
}

static struct gt_shm_channel *channel_of(const struct gt_shm *g, int from, int to)
{
	return &g->channels[from * g->group.size + to];
}

/* The slot of a piece. No rank sends to itself, so a sender has size - 1 channels with slots. */
static struct gt_shm_slot *slot_of(const struct gt_shm *g, int from, int to, uint32_t piece)
{
	size_t others = (size_t)g->group.size - 1;
	size_t channel = (size_t)from * others + (size_t)(to < from ? to : to - 1);
	uint32_t slot = (piece + channel_of(g, from, to)->shift) % g->slot_count;

	return &g->slots[channel * g->slot_count + slot];
}

static int send_message(
    struct gt_shm *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_shm_channel *to = channel_of(g, g->group.rank, c->peer);
	uint32_t *pieces = &g->sent[c->peer].pieces;
	size_t at = 0, n;

	if (atomic_load_explicit(&to->taken.value, memory_order_acquire) == *pieces)
		to->shift = -*pieces;
	/*
	 * Example of two slots, and shift 0: piece k goes to slot k % 2 when piece k - 2 was taken.
	 * For the first two pieces the awaited count is -1 and 0, which a counter at 0 has reached:
	 * they do not wait.
	 */
	g->call = gt_group_call_of(c, ++g->sent[c->peer].messages);
	do {
		struct gt_shm_slot *slot = slot_of(g, g->group.rank, c->peer, *pieces);

		n = piece_of(bytes, at);
		if (gt_shm_flag_wait(g, &to->taken, *pieces + 1 - g->slot_count, c->peer, err))
			return err->code;
		slot->call = g->call;
		if (n)
			memcpy(slot->piece, (const unsigned char *)c->in + at, n);
		gt_shm_flag_set(&to->filled, ++*pieces);
		at += n;
	} while (at < bytes);
	return 0;
}

static int expect(
    struct gt_shm *g, const struct gt_group_call *theirs, int peer, struct gt_err *err)
{
	if (!gt_call_unmatched(err, g->names[peer], theirs, g->names[g->group.rank], &g->call))
		return 0;
	return gt_shm_fail(g, err);
}

static int receive_message(
    struct gt_shm *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_shm_channel *from = channel_of(g, c->peer, g->group.rank);
	uint32_t *pieces = &g->received[c->peer].pieces;
	size_t at = 0, n;

	g->call = gt_group_call_of(c, ++g->received[c->peer].messages);
	do {
		const struct gt_shm_slot *slot;
		struct gt_group_call theirs;

		n = piece_of(bytes, at);
		if (gt_shm_flag_wait(g, &from->filled, *pieces + 1, c->peer, err))
			return err->code;
		/*
		 * A copy: the sender is another process, and the piece is checked before its data
		 * are used.
		 */
		slot = slot_of(g, c->peer, g->group.rank, *pieces);
		theirs = slot->call;
		if (expect(g, &theirs, c->peer, err))
			return err->code;
		if (n)
			memcpy((unsigned char *)c->out + at, slot->piece, n);
		gt_shm_flag_set(&from->taken, ++*pieces);
		at += n;
	} while (at < bytes);
	return 0;
}

int gt_shm_message(struct gt_shm *g, const struct gt_collective *c, bool data, struct gt_err *err)
{
	size_t bytes = data ? (size_t)c->count * gt_dtype_size(c->dtype) : 0;

	if (gt_shm_check(g, err))
		return err->code;
	return c->kind == GT_SEND ? send_message(g, c, bytes, err)
	                          : receive_message(g, c, bytes, err);
}
