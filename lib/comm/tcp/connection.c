/* connection.c - frames of one connection: sent, read, and matched with requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/rendezvous/messages.h"
#include "lib/comm/tcp/state.h"

/* How often a call reads from one socket, so that a fast peer leaves time for the others. */
enum { READS_PER_CALL = 16 };

/* ---- lists ---- */

void gt_tcp_requests_init(struct gt_tcp_requests *list)
{
	list->first = NULL;
	list->last = &list->first;
}

void gt_tcp_requests_add(struct gt_tcp_requests *list, struct gt_tcp_request *r)
{
	r->next = NULL;
	*list->last = r;
	list->last = &r->next;
}

bool gt_tcp_requests_remove(struct gt_tcp_requests *list, struct gt_tcp_request *r)
{
	struct gt_tcp_request **at = &list->first;

	while (*at && *at != r)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = r->next;
	if (list->last == &r->next)
		list->last = at;
	return true;
}

/* A frame that has not been sent yet cannot have an answer: it is still in the list of frames. */
static struct gt_tcp_request *take_by_id(struct gt_tcp_requests *list, uint32_t id)
{
	struct gt_tcp_request *r = list->first;

	while (r && (r->id != id || r->frame.sent < GT_TCP_HEAD))
		r = r->next;
	if (r)
		gt_tcp_requests_remove(list, r);
	return r;
}

/* The first receive that waits for a message of this peer and tag. */
static struct gt_tcp_request *take_posted(struct gt_tcp *t, int peer, int tag)
{
	struct gt_tcp_request *r = t->posted.first;

	while (r && (r->tag != tag || (r->peer >= 0 && r->peer != peer)))
		r = r->next;
	if (r)
		gt_tcp_requests_remove(&t->posted, r);
	return r;
}

void gt_tcp_done(struct gt_tcp_request *r)
{
	r->done = true;
	if (!r->forgotten)
		return;
	free(r->copy);
	free(r);
}

/* ---- the end of a connection ---- */

/* The request whose frame this is. */
static struct gt_tcp_request *owner_of(struct gt_tcp_frame *f)
{
	return (struct gt_tcp_request *)((char *)f - offsetof(struct gt_tcp_request, frame));
}

/* A request that does not wait for an answer is done when its frame is sent. */
static bool ends_request(enum gt_tcp_kind kind)
{
	return kind != GT_TCP_ASK && kind != GT_TCP_GRANT;
}

static void drop_sends(struct gt_tcp_connection *c)
{
	struct gt_tcp_request *r;

	while (c->first) {
		struct gt_tcp_frame *f = c->first;

		c->first = f->next;
		if (ends_request(f->kind))
			gt_tcp_done(owner_of(f));
	}
	c->last = &c->first;
	while ((r = c->asked.first)) {
		gt_tcp_requests_remove(&c->asked, r);
		gt_tcp_done(r);
	}
}

void gt_tcp_lose(struct gt_tcp *t, int peer, int error)
{
	struct gt_tcp_connection *c = &t->connections[peer];

	if (c->fd < 0)
		return;
	close(c->fd); /* epoll forgets it, too */
	c->fd = -1;
	c->lost = error;
	if (c->reads)
		gt_tcp_requests_add(&c->granted, c->reads);
	c->reads = NULL;
	c->left = 0;
	drop_sends(c);
}

/* ---- sending ---- */

static void watch_output(struct gt_tcp *t, int peer, bool wants)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	struct epoll_event e = { .events = EPOLLIN | (wants ? EPOLLOUT : 0) };

	if (c->wants_output == wants)
		return;
	e.data.u32 = (uint32_t)peer;
	c->wants_output = wants;
	if (epoll_ctl(t->epoll, EPOLL_CTL_MOD, c->fd, &e))
		gt_tcp_lose(t, peer, errno);
}

/* Send what a frame still has. Return as sendmsg(). */
static ssize_t send_rest(int fd, const struct gt_tcp_frame *f)
{
	size_t head = f->sent < GT_TCP_HEAD ? GT_TCP_HEAD - f->sent : 0;
	size_t skip = head ? 0 : f->sent - GT_TCP_HEAD;
	struct iovec parts[2] = { { (void *)(f->head + f->sent), head },
		{ (void *)(f->bytes ? f->body + skip : NULL), f->bytes - skip } };
	struct msghdr message = { .msg_iov = head ? parts : parts + 1,
		.msg_iovlen = (head ? 1 : 0) + (f->bytes ? 1 : 0) };

	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void gt_tcp_write(struct gt_tcp *t, int peer)
{
	struct gt_tcp_connection *c = &t->connections[peer];

	while (c->fd >= 0 && c->first) {
		struct gt_tcp_frame *f = c->first;
		ssize_t n = send_rest(c->fd, f);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			watch_output(t, peer, true);
			return;
		}
		if (n < 0) {
			gt_tcp_lose(t, peer, errno);
			return;
		}
		f->sent += (size_t)n;
		if (f->sent < GT_TCP_HEAD + f->bytes)
			continue;
		c->first = f->next;
		if (!c->first)
			c->last = &c->first;
		if (ends_request(f->kind))
			gt_tcp_done(owner_of(f));
	}
	if (c->fd >= 0)
		watch_output(t, peer, false);
}

void gt_tcp_send_frame(struct gt_tcp *t, struct gt_tcp_request *r, int peer, enum gt_tcp_kind kind)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	struct gt_tcp_frame *f = &r->frame;
	bool first = !c->first, has_body = kind == GT_TCP_WHOLE || kind == GT_TCP_DATA;

	if (c->fd < 0) {
		if (ends_request(kind))
			gt_tcp_done(r);
		return;
	}
	*f = (struct gt_tcp_frame){ .kind = kind, .body = r->p, .bytes = has_body ? r->bytes : 0 };
	gt_wire_put(f->head, kind);
	gt_wire_put(f->head + 4, (uint32_t)r->tag);
	gt_wire_put(f->head + 8, (uint32_t)r->bytes);
	gt_wire_put(f->head + 12, r->id);
	*c->last = f;
	c->last = &f->next;
	if (first)
		gt_tcp_write(t, peer);
}

void gt_tcp_grant(struct gt_tcp *t, struct gt_tcp_request *r, int peer, size_t bytes, uint32_t id)
{
	r->id = id;
	r->bytes = bytes;
	gt_tcp_requests_add(&t->connections[peer].granted, r);
	gt_tcp_send_frame(t, r, peer, GT_TCP_GRANT);
}

/* ---- reading ---- */

static size_t size_of_early(const struct gt_tcp_early *e)
{
	return sizeof(*e) + (e->asks ? 0 : e->bytes);
}

void gt_tcp_free_early(struct gt_tcp *t, struct gt_tcp_early *e)
{
	t->connections[e->peer].early_bytes -= size_of_early(e);
	free(e);
}

/* The body that was read is complete. */
static void end_body(struct gt_tcp *t, struct gt_tcp_connection *c)
{
	struct gt_tcp_early *early = c->reads_early;
	struct gt_tcp_request *r = c->reads;

	c->reads_early = NULL;
	c->reads = NULL;
	c->got = 0;
	if (early) {
		early->whole = true;
		/* A receive may have come meanwhile. */
		r = take_posted(t, early->peer, early->tag);
		if (!r)
			return;
		if (early->bytes > r->bytes) {
			gt_tcp_requests_add(&c->granted, r);
			gt_tcp_lose(t, early->peer, EPROTO);
			return;
		}
		if (early->bytes)
			memcpy(r->p, early->data, early->bytes);
		for (t->early_last = &t->early; *t->early_last;)
			if (*t->early_last == early)
				*t->early_last = early->next;
			else
				t->early_last = &(*t->early_last)->next;
		gt_tcp_free_early(t, early);
	}
	gt_tcp_done(r);
}

static int begin_body(struct gt_tcp *t, struct gt_tcp_connection *c, size_t bytes)
{
	c->got = 0;
	c->left = bytes;
	if (!bytes)
		end_body(t, c);
	return 0;
}

/* Keep a message for which no receive waits: of a longer one, only that it asks. A rank is never
 * far ahead of another one, so there is a limit. */
static int keep_early(
    struct gt_tcp *t, struct gt_tcp_connection *c, bool asks, int tag, size_t bytes, uint32_t id)
{
	struct gt_tcp_early *e;

	if (c->early_bytes > GT_TCP_EARLY)
		return ENOBUFS;
	e = gt_calloc(1, sizeof(*e) + (asks ? 0 : bytes), GT_ERR_IGNORED);
	if (!e)
		return ENOMEM;
	e->peer = (int)(c - t->connections);
	e->tag = tag;
	e->asks = e->whole = asks;
	e->id = id;
	e->bytes = bytes;
	c->early_bytes += size_of_early(e);
	*t->early_last = e;
	t->early_last = &e->next;
	if (asks)
		return 0;
	c->reads_early = e;
	return begin_body(t, c, bytes);
}

/* Handle the head of a frame. Return 0 or the errno with which the connection is lost. */
static int take_head(struct gt_tcp *t, int peer, const unsigned char *head)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	uint32_t kind = gt_wire_get(head), id = gt_wire_get(head + 12);
	int tag = (int)gt_wire_get(head + 4);
	size_t bytes = gt_wire_get(head + 8);
	struct gt_tcp_request *r;

	switch (kind) {
	case GT_TCP_WHOLE:
	case GT_TCP_ASK:
		if (kind == GT_TCP_WHOLE && bytes > GT_TCP_SHORT)
			return EPROTO;
		r = take_posted(t, peer, tag);
		if (!r)
			return keep_early(t, c, kind == GT_TCP_ASK, tag, bytes, id);
		if (bytes > r->bytes) {
			gt_tcp_requests_add(&c->granted, r);
			return EPROTO;
		}
		if (kind == GT_TCP_ASK) {
			gt_tcp_grant(t, r, peer, bytes, id);
			return 0;
		}
		c->reads = r;
		return begin_body(t, c, bytes);
	case GT_TCP_GRANT:
		r = take_by_id(&c->asked, id);
		if (r && r->forgotten)
			gt_tcp_done(r);
		else if (r)
			gt_tcp_send_frame(t, r, peer, GT_TCP_DATA);
		return r ? 0 : EPROTO;
	case GT_TCP_DATA:
		r = take_by_id(&c->granted, id);
		if (!r || bytes != r->bytes) {
			if (r)
				gt_tcp_requests_add(&c->granted, r);
			return EPROTO;
		}
		c->reads = r;
		return begin_body(t, c, bytes);
	case GT_TCP_LATE:
		gt_tcp_answer_late(t, peer);
		return 0;
	case GT_TCP_AWAITS:
		return gt_tcp_take_awaits(t, peer, tag);
	default:
		return EPROTO;
	}
}

/* Where the next byte of the body goes; NULL: it is dropped. */
static unsigned char *body_at(const struct gt_tcp_connection *c)
{
	if (c->reads_early)
		return c->reads_early->data + c->got;
	return c->reads->p ? c->reads->p + c->got : NULL;
}

static void count_body(struct gt_tcp *t, struct gt_tcp_connection *c, size_t n)
{
	c->got += n;
	c->left -= n;
	if (!c->left)
		end_body(t, c);
}

/* Take all frames, and the parts of them, that lie in the input buffer. */
static int parse_input(struct gt_tcp *t, int peer)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	int rc = 0;

	while (!rc && c->fd >= 0 && c->from < c->to) {
		size_t n = c->to - c->from;

		if (c->left) {
			n = n < c->left ? n : c->left;
			if (body_at(c))
				memcpy(body_at(c), c->input + c->from, n);
			c->from += n;
			count_body(t, c, n);
		} else if (n >= GT_TCP_HEAD) {
			c->from += GT_TCP_HEAD;
			rc = take_head(t, peer, c->input + c->from - GT_TCP_HEAD);
		} else {
			memmove(c->input, c->input + c->from, n);
			c->from = 0;
			c->to = n;
			return 0;
		}
	}
	c->from = c->to = 0;
	return rc;
}

void gt_tcp_read(struct gt_tcp *t, int peer)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	bool full = true;

	for (int i = 0; i < READS_PER_CALL && full && c->fd >= 0; i++) {
		/* A long body is read to its place, without a copy. */
		bool direct = c->left >= GT_TCP_INPUT && body_at(c);
		unsigned char *to = direct ? body_at(c) : c->input + c->to;
		size_t want = direct ? c->left : GT_TCP_INPUT - c->to;
		ssize_t n = recv(c->fd, to, want, MSG_DONTWAIT);
		int rc = 0;

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return;
		if (n <= 0) {
			gt_tcp_lose(t, peer, n ? errno : -1);
			return;
		}
		full = (size_t)n == want || direct;
		if (direct) {
			count_body(t, c, (size_t)n);
		} else {
			c->to += (size_t)n;
			rc = parse_input(t, peer);
		}
		if (rc)
			gt_tcp_lose(t, peer, rc);
	}
}
