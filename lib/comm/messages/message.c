/* message.c - messages from one rank to another. */
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/messages/state.h"

/*
 * A header holds the call, and the data if they fit; longer data follow piece by piece. The
 * receiver asks for them when the header has the expected call. The header is a copy, which may
 * be sent later: the sender of a short message only waits for its previous header.
 */

static size_t bytes_in_header(size_t bytes)
{
	return bytes <= GT_MSG_HEADER_BYTES ? bytes : 0;
}

/* Receive or send the data that the header does not hold. */
static int move_body(struct gt_msg_group *g, const struct gt_collective *c, size_t at, size_t bytes,
    bool receives, struct gt_err *err)
{
	struct gt_msg_set *set = &g->sets[GT_MSG_SET_MEETING];
	size_t n;

	for (; at < bytes; at += n) {
		n = bytes - at < g->piece_bytes ? bytes - at : g->piece_bytes;
		if (receives ? gt_msg_receive(g, set, c->peer, (unsigned char *)c->out + at, n,
		                   GT_MSG_TAG_BODY, err)
		             : gt_msg_send(g, set, c->peer, (const unsigned char *)c->in + at, n,
		                   GT_MSG_TAG_BODY, err))
			return err->code;
		if (gt_msg_await(g, set, err))
			return err->code;
	}
	return 0;
}

static int take_header(struct gt_msg_group *g, struct gt_msg_header **header, struct gt_err *err)
{
	if (!*header)
		*header = gt_calloc(1, sizeof(**header), err);
	return *header ? 0 : gt_msg_fail(g, err);
}

static int send_message(
    struct gt_msg_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_msg_last_header *last = &g->last_headers[c->peer];
	size_t at = bytes_in_header(bytes);

	g->call = gt_group_call_of(c, ++g->sent[c->peer]);
	last->set.transfers = &last->transfer;
	if (take_header(g, &last->header, err) || gt_msg_await(g, &last->set, err))
		return err->code;
	last->header->call = g->call;
	if (at)
		memcpy(last->header->data, c->in, at);
	if (gt_msg_send(
	        g, &last->set, c->peer, last->header, sizeof(g->call) + at, GT_MSG_TAG_HEADER, err))
		return err->code;
	return move_body(g, c, at, bytes, false, err);
}

static int receive_message(
    struct gt_msg_group *g, const struct gt_collective *c, size_t bytes, struct gt_err *err)
{
	struct gt_msg_set *set = &g->sets[GT_MSG_SET_MEETING];
	size_t at = bytes_in_header(bytes);

	g->call = gt_group_call_of(c, ++g->received[c->peer]);
	if (take_header(g, &g->header, err) ||
	    gt_msg_receive(
	        g, set, c->peer, g->header, sizeof(*g->header), GT_MSG_TAG_HEADER, err) ||
	    gt_msg_await(g, set, err))
		return err->code;
	if (gt_call_unmatched(
	        err, g->ranks[c->peer], &g->header->call, g->ranks[g->group.rank], &g->call))
		return gt_msg_fail(g, err);
	if (at)
		memcpy(c->out, g->header->data, at);
	return move_body(g, c, at, bytes, true, err);
}

int gt_msg_message(
    struct gt_msg_group *g, const struct gt_collective *c, bool data, struct gt_err *err)
{
	size_t bytes = data ? (size_t)c->count * gt_dtype_size(c->dtype) : 0;

	if (gt_msg_check(g, err))
		return err->code;
	return c->kind == GT_SEND ? send_message(g, c, bytes, err)
	                          : receive_message(g, c, bytes, err);
}
