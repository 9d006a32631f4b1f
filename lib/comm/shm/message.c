/* message.c - from one rank to another, without the rest. */
#include <string.h>

#include "lib/comm/shm/segment.h"

/*
 * A channel for each pair and direction: the sender fills pieces, at most GT_SHM_CHANNEL_SLOTS of
 * them before the receiver takes one. Every piece names its message, and a message is at least one
 * piece: so short ones are sent without waiting.
 */

static size_t piece_of(size_t bytes, size_t at)
{
	return bytes - at < GT_SHM_CHANNEL_BYTES ? bytes - at : GT_SHM_CHANNEL_BYTES;
}

static int send_message(
    struct gt_shm *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_shm_channel *to = &g->channels[g->group.rank * g->group.size + c->peer];
	uint32_t *pieces = &g->sent[c->peer].pieces;
	size_t at = 0, n;

	/*
	 * Piece k goes to slot k % 2 when piece k - 2 was taken. For the first two pieces the
	 * awaited count is -1 and 0, which a counter at 0 has reached: they do not wait.
	 */
	g->call = gt_group_call_of(c, ++g->sent[c->peer].messages);
	do {
		unsigned slot = *pieces % GT_SHM_CHANNEL_SLOTS;

		n = piece_of(bytes, at);
		if (gt_shm_flag_wait(
		        g, &to->taken, *pieces + 1 - GT_SHM_CHANNEL_SLOTS, c->peer, err))
			return err->code;
		to->call[slot] = g->call;
		if (n)
			memcpy(to->piece[slot], (const unsigned char *)c->in + at, n);
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
	struct gt_shm_channel *from = &g->channels[c->peer * g->group.size + g->group.rank];
	uint32_t *pieces = &g->received[c->peer].pieces;
	size_t at = 0, n;

	g->call = gt_group_call_of(c, ++g->received[c->peer].messages);
	do {
		unsigned slot = *pieces % GT_SHM_CHANNEL_SLOTS;
		struct gt_group_call theirs;

		n = piece_of(bytes, at);
		if (gt_shm_flag_wait(g, &from->filled, *pieces + 1, c->peer, err))
			return err->code;
		/*
		 * A copy: the sender is another process, and the piece is checked before its data
		 * are used.
		 */
		theirs = from->call[slot];
		if (expect(g, &theirs, c->peer, err))
			return err->code;
		if (n)
			memcpy((unsigned char *)c->out + at, from->piece[slot], n);
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
