/* mpi_message.c - from one rank to another over MPI, without the rest. */
#include <string.h>

#include "lib/comm/mpi_inside.h"

/*
 * A letter: what is sent, and the data as far as they are few; then the rest, piece by piece. The
 * receiver asks for the rest when it has seen that the letter is what it expects. MPI takes short
 * messages at once, so that who sends little does not wait.
 */

static size_t inline_bytes(size_t bytes)
{
	return bytes <= SLIP_BYTES ? bytes : 0;
}

static size_t piece_of(const struct gt_mpi_group *g, size_t bytes, size_t at)
{
	return bytes - at < g->piece_bytes ? bytes - at : g->piece_bytes;
}

static int send_message(
    struct gt_mpi_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_mpi_slip *letter = &g->out[c->peer];
	size_t at = inline_bytes(bytes), n;

	g->call = gt_call_of(c, ++g->sent[c->peer]);
	letter->call = g->call;
	if (at)
		memcpy(letter->data, c->in, at);
	if (gt_mpi_send(
	        g, SET_MEETING, c->peer, letter, sizeof(letter->call) + at, TAG_LETTER, err) ||
	    gt_mpi_await(g, SET_MEETING, err))
		return err->code;
	for (; at < bytes; at += n) {
		n = piece_of(g, bytes, at);
		if (gt_mpi_send(g, SET_MEETING, c->peer, (const unsigned char *)c->in + at, n,
		        TAG_BODY, err) ||
		    gt_mpi_await(g, SET_MEETING, err))
			return err->code;
	}
	return 0;
}

static int receive_message(
    struct gt_mpi_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_mpi_slip *letter = &g->in[c->peer];
	size_t at = inline_bytes(bytes), n;

	g->call = gt_call_of(c, ++g->received[c->peer]);
	if (gt_mpi_receive(g, SET_MEETING, c->peer, letter, sizeof(*letter), TAG_LETTER, err) ||
	    gt_mpi_await(g, SET_MEETING, err))
		return err->code;
	if (gt_call_unmatched(
	        err, g->ranks[c->peer], &letter->call, g->ranks[g->group.rank], &g->call))
		return gt_mpi_fail(g, err);
	if (at)
		memcpy(c->out, letter->data, at);
	for (; at < bytes; at += n) {
		n = piece_of(g, bytes, at);
		if (gt_mpi_receive(
		        g, SET_MEETING, c->peer, (unsigned char *)c->out + at, n, TAG_BODY, err) ||
		    gt_mpi_await(g, SET_MEETING, err))
			return err->code;
	}
	return 0;
}

int gt_mpi_message(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err)
{
	size_t bytes = (size_t)c->count * gt_dtype_size(c->dtype);

	if (gt_mpi_check(g, err))
		return err->code;
	return c->kind == GT_SEND ? send_message(g, c, bytes, err)
	                          : receive_message(g, c, bytes, err);
}
