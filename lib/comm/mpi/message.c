/* message.c - from one rank to another over MPI, without the rest. */
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/mpi/state.h"

/*
 * A letter holds the call and the first bytes of its data; the rest follows piece by piece. The
 * receiver asks for the rest when it has seen that the letter is the expected one. A letter is a
 * copy and may be under way for long: the sender of a short message waits for nothing but its
 * letter before.
 */

static size_t in_letter(size_t bytes)
{
	return bytes <= GT_MPI_LETTER_BYTES ? bytes : 0;
}

/* The rest, `receives` or sent. */
static int move_body(struct gt_mpi_group *g, const struct gt_collective *c, size_t at, size_t bytes,
    bool receives, struct gt_err *err)
{
	struct gt_mpi_set *set = &g->sets[GT_MPI_SET_MEETING];
	size_t n;

	for (; at < bytes; at += n) {
		n = bytes - at < g->piece_bytes ? bytes - at : g->piece_bytes;
		if (receives ? gt_mpi_receive(g, set, c->peer, (unsigned char *)c->out + at, n,
		                   GT_MPI_TAG_BODY, err)
		             : gt_mpi_send(g, set, c->peer, (const unsigned char *)c->in + at, n,
		                   GT_MPI_TAG_BODY, err))
			return err->code;
		if (gt_mpi_await(g, set, err))
			return err->code;
	}
	return 0;
}

static int take_paper(struct gt_mpi_group *g, struct gt_mpi_letter **letter, struct gt_err *err)
{
	if (!*letter)
		*letter = gt_calloc(1, sizeof(**letter), err);
	return *letter ? 0 : gt_mpi_fail(g, err);
}

static int send_message(
    struct gt_mpi_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_mpi_mail *mail = &g->mail[c->peer];
	size_t at = in_letter(bytes);

	g->call = gt_group_call_of(c, ++g->sent[c->peer]);
	mail->set.flights = &mail->flight;
	if (take_paper(g, &mail->letter, err) || gt_mpi_await(g, &mail->set, err))
		return err->code;
	mail->letter->call = g->call;
	if (at)
		memcpy(mail->letter->data, c->in, at);
	if (gt_mpi_send(
	        g, &mail->set, c->peer, mail->letter, sizeof(g->call) + at, GT_MPI_TAG_LETTER, err))
		return err->code;
	return move_body(g, c, at, bytes, false, err);
}

static int receive_message(
    struct gt_mpi_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_mpi_set *set = &g->sets[GT_MPI_SET_MEETING];
	size_t at = in_letter(bytes);

	g->call = gt_group_call_of(c, ++g->received[c->peer]);
	if (take_paper(g, &g->letter, err) ||
	    gt_mpi_receive(
	        g, set, c->peer, g->letter, sizeof(*g->letter), GT_MPI_TAG_LETTER, err) ||
	    gt_mpi_await(g, set, err))
		return err->code;
	if (gt_call_unmatched(
	        err, g->ranks[c->peer], &g->letter->call, g->ranks[g->group.rank], &g->call))
		return gt_mpi_fail(g, err);
	if (at)
		memcpy(c->out, g->letter->data, at);
	return move_body(g, c, at, bytes, true, err);
}

int gt_mpi_message(
    struct gt_mpi_group *g, const struct gt_collective *c, bool data, struct gt_err *err)
{
	size_t bytes = data ? (size_t)c->count * gt_dtype_size(c->dtype) : 0;

	if (gt_mpi_check(g, err))
		return err->code;
	return c->kind == GT_SEND ? send_message(g, c, bytes, err)
	                          : receive_message(g, c, bytes, err);
}
