/* messenger.c - messages over TCP: requests, and the thread that polls. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/tcp/state.h"

/* Connections that one poll reports. */
enum { EVENTS = 64 };

static struct gt_tcp *tcp_of(struct gt_messenger *m)
{
	return (struct gt_tcp *)m;
}

/* ---- requests ---- */

static struct gt_tcp_request *request_of(const struct gt_msg_request *request)
{
	return (struct gt_tcp_request *)(uintptr_t)request->handle;
}

static struct gt_tcp_request *new_request(
    struct gt_msg_request *out, bool receives, void *p, size_t bytes, int peer, int tag)
{
	struct gt_tcp_request *r = gt_calloc(1, sizeof(*r), GT_ERR_IGNORED);

	out->handle = (uintptr_t)r;
	if (!r)
		return NULL;
	r->receives = receives;
	r->p = p;
	r->bytes = bytes;
	r->peer = peer;
	r->tag = tag;
	return r;
}

static int tcp_send(struct gt_messenger *m, struct gt_msg_request *out, const void *p, size_t bytes,
    int rank, int tag)
{
	struct gt_tcp_request *r = new_request(out, false, (void *)p, bytes, rank, tag);
	struct gt_tcp *t = tcp_of(m);

	if (!r)
		return ENOMEM;
	pthread_mutex_lock(&t->lock);
	if (bytes <= GT_TCP_SHORT) {
		gt_tcp_send_frame(t, r, rank, GT_TCP_WHOLE);
	} else if (t->connections[rank].fd < 0) {
		r->done = true;
	} else {
		r->id = ++t->ids;
		gt_tcp_requests_add(&t->connections[rank].asked, r);
		gt_tcp_send_frame(t, r, rank, GT_TCP_ASK);
	}
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/* The first early message for a receive; *before points to the link to it. */
static struct gt_tcp_early *find_early(
    struct gt_tcp *t, const struct gt_tcp_request *r, struct gt_tcp_early ***before)
{
	struct gt_tcp_early **at = &t->early;

	while (*at &&
	       ((*at)->tag != r->tag || !(*at)->whole || (r->peer >= 0 && (*at)->peer != r->peer)))
		at = &(*at)->next;
	*before = at;
	return *at;
}

/* Return false if the message is longer than the buffer. */
static bool take_early(struct gt_tcp *t, struct gt_tcp_request *r)
{
	struct gt_tcp_early **before, *e = find_early(t, r, &before);

	if (!e) {
		gt_tcp_requests_add(&t->posted, r);
		return true;
	}
	if (e->bytes > r->bytes)
		return false;
	*before = e->next;
	if (t->early_last == &e->next)
		t->early_last = before;
	if (e->asks) {
		gt_tcp_grant(t, r, e->peer, e->bytes, e->id);
	} else {
		if (e->bytes)
			memcpy(r->p, e->data, e->bytes);
		r->done = true;
	}
	gt_tcp_free_early(t, e);
	return true;
}

static int tcp_receive(
    struct gt_messenger *m, struct gt_msg_request *out, void *p, size_t bytes, int rank, int tag)
{
	struct gt_tcp_request *r = new_request(out, true, p, bytes, rank, tag);
	struct gt_tcp *t = tcp_of(m);
	bool fits;

	if (!r)
		return ENOMEM;
	pthread_mutex_lock(&t->lock);
	fits = take_early(t, r);
	pthread_mutex_unlock(&t->lock);
	if (!fits) {
		free(r);
		out->handle = 0;
	}
	return fits ? 0 : EMSGSIZE;
}

static int tcp_test(struct gt_messenger *m, struct gt_msg_request *request, int *done)
{
	struct gt_tcp_request *r = request_of(request);
	struct gt_tcp *t = tcp_of(m);

	*done = 1;
	if (!r)
		return 0;
	pthread_mutex_lock(&t->lock);
	*done = r->done;
	pthread_mutex_unlock(&t->lock);
	if (*done) {
		free(r->copy);
		free(r);
		request->handle = 0;
	}
	return 0;
}

/* The bytes of a message that is on its way are dropped when they come. */
static int tcp_cancel(struct gt_messenger *m, struct gt_msg_request *request)
{
	struct gt_tcp_request *r = request_of(request);
	struct gt_tcp *t = tcp_of(m);

	if (!r)
		return 0;
	pthread_mutex_lock(&t->lock);
	if (r->done || gt_tcp_requests_remove(&t->posted, r)) {
		free(r);
	} else {
		r->p = NULL;
		r->forgotten = true;
	}
	pthread_mutex_unlock(&t->lock);
	request->handle = 0;
	return 0;
}

/* Take back a frame with a body. Its buffer belongs to the caller again, so a frame that was begun
 * goes on from a copy; without memory for it the connection ends. */
static void take_back(struct gt_tcp *t, struct gt_tcp_request *r)
{
	struct gt_tcp_frame *f = &r->frame, **at = &t->connections[r->peer].first;
	size_t left = f->bytes + GT_TCP_HEAD - f->sent;

	while (*at != f)
		at = &(*at)->next;
	if (!f->sent) {
		*at = f->next;
		if (t->connections[r->peer].last == &f->next)
			t->connections[r->peer].last = at;
		gt_tcp_done(r);
		return;
	}
	left = left < f->bytes ? left : f->bytes;
	r->copy = malloc(left);
	if (!r->copy) {
		gt_tcp_lose(t, r->peer, ENOMEM);
		return;
	}
	memcpy(r->copy, f->body + f->bytes - left, left);
	f->body = r->copy;
	f->bytes = left;
	f->sent = f->sent < GT_TCP_HEAD ? f->sent : GT_TCP_HEAD;
}

static int tcp_forget(struct gt_messenger *m, struct gt_msg_request *request)
{
	struct gt_tcp_request *r = request_of(request);
	struct gt_tcp *t = tcp_of(m);

	if (!r)
		return 0;
	if (r->receives)
		return tcp_cancel(m, request);
	pthread_mutex_lock(&t->lock);
	r->forgotten = true;
	if (r->done)
		gt_tcp_done(r);
	else if (r->frame.kind != GT_TCP_ASK)
		take_back(t, r);
	pthread_mutex_unlock(&t->lock);
	request->handle = 0;
	return 0;
}

/* ---- progress ---- */

static void wait_for_poller(struct gt_tcp *t, double seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(1e9 * seconds);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&t->moved, &t->lock, &until);
}

/* One thread polls at a time, for all requests; the others wait for it. */
static void tcp_progress(struct gt_messenger *m, double seconds)
{
	struct gt_tcp *t = tcp_of(m);
	struct epoll_event events[EVENTS];
	int n;

	pthread_mutex_lock(&t->lock);
	if (t->polling) {
		if (seconds > 0)
			wait_for_poller(t, seconds);
		pthread_mutex_unlock(&t->lock);
		return;
	}
	t->polling = true;
	pthread_mutex_unlock(&t->lock);
	n = epoll_wait(t->epoll, events, EVENTS, (int)(1e3 * seconds));
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < n; i++) {
		int peer = (int)events[i].data.u32;

		if (events[i].events & EPOLLOUT)
			gt_tcp_write(t, peer);
		if (events[i].events & ~(uint32_t)EPOLLOUT)
			gt_tcp_read(t, peer);
	}
	t->polling = false;
	if (n > 0)
		pthread_cond_broadcast(&t->moved);
	pthread_mutex_unlock(&t->lock);
}

static const char *tcp_lost(struct gt_messenger *m, int rank)
{
	struct gt_tcp *t = tcp_of(m);
	int lost;

	pthread_mutex_lock(&t->lock);
	gt_tcp_look_at(t, rank);
	lost = t->connections[rank].lost;
	pthread_mutex_unlock(&t->lock);
	switch (lost) {
	case 0:
		return NULL;
	case -1:
	case ECONNRESET:
	case EPIPE:
		return "died";
	case EPROTO:
		return "sent bytes that are no message";
	case ENOMEM:
		return "sent a message for which there was no memory";
	case ENOBUFS:
		return "sent too many messages that were not waited for";
	default:
		return "could not be reached any more";
	}
}

static void tcp_explain(struct gt_messenger *m, int error, char *text, size_t size)
{
	char buffer[128];

	(void)m;
	snprintf(text, size, "%s", strerror_r(error, buffer, sizeof(buffer)));
}

/* ---- made and freed ---- */

static void free_requests(struct gt_tcp_requests *list)
{
	struct gt_tcp_request *r;

	while ((r = list->first)) {
		gt_tcp_requests_remove(list, r);
		free(r->copy);
		free(r);
	}
}

static void tcp_free(struct gt_messenger *m)
{
	struct gt_tcp *t = tcp_of(m);

	for (int r = 0; t->connections && r < m->size; r++) {
		gt_tcp_lose(t, r, -1);
		free_requests(&t->connections[r].granted);
		free(t->connections[r].input);
	}
	free_requests(&t->posted);
	while (t->early) {
		struct gt_tcp_early *e = t->early;

		t->early = e->next;
		gt_tcp_free_early(t, e);
	}
	if (t->epoll >= 0)
		close(t->epoll);
	pthread_cond_destroy(&t->moved);
	pthread_mutex_destroy(&t->lock);
	free(t->connections);
	free(t);
}

static const struct gt_messenger_ops ops = {
	.name = "tcp",
	.wakes = true,
	.send = tcp_send,
	.receive = tcp_receive,
	.test = tcp_test,
	.cancel = tcp_cancel,
	.forget = tcp_forget,
	.progress = tcp_progress,
	.lost = tcp_lost,
	.begin_wait = gt_tcp_begin_wait,
	.end_wait = gt_tcp_end_wait,
	.find_late = gt_tcp_find_late,
	.explain = tcp_explain,
	.free = tcp_free,
};

int gt_tcp_new(struct gt_tcp **out, int rank, int size, struct gt_err *err)
{
	struct gt_tcp *t = gt_calloc(1, sizeof(*t), err);
	pthread_condattr_t monotonic;

	*out = NULL;
	if (!t)
		return err->code;
	t->messenger =
	    (struct gt_messenger){ .ops = &ops, .rank = rank, .size = size, .tag_max = INT_MAX };
	t->epoll = -1;
	t->early_last = &t->early;
	gt_tcp_requests_init(&t->posted);
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->moved, &monotonic);
	pthread_condattr_destroy(&monotonic);
	t->connections = gt_calloc((size_t)size, sizeof(*t->connections), err);
	for (int r = 0; t->connections && r < size; r++) {
		struct gt_tcp_connection *c = &t->connections[r];

		c->fd = -1;
		c->last = &c->first;
		gt_tcp_requests_init(&c->asked);
		gt_tcp_requests_init(&c->granted);
	}
	if (!t->connections) {
		tcp_free(&t->messenger);
		return err->code;
	}
	*out = t;
	return 0;
}

int gt_tcp_watch(struct gt_tcp *t, struct gt_err *err)
{
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0)
		return gt_err_sys(err, "cannot watch the connections of the ranks");
	for (int r = 0; r < t->messenger.size; r++) {
		struct gt_tcp_connection *c = &t->connections[r];
		struct epoll_event e = { .events = EPOLLIN };

		if (r == t->messenger.rank)
			continue;
		e.data.u32 = (uint32_t)r;
		c->input = gt_calloc(1, GT_TCP_INPUT, err);
		if (!c->input)
			return err->code;
		if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &e))
			return gt_err_sys(err, "cannot watch the connection with rank %d", r);
	}
	return 0;
}
