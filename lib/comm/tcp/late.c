/* late.c - hosts that do not answer any more, and the rank that keeps all others waiting. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The kernel's header has all members of struct tcp_info. */
#include <linux/tcp.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/tcp/state.h"

/*
 * A host is lost if its kernel has acknowledged nothing for 20 s: a link is down, packets are
 * dropped, or the machine has stopped. While bytes are on their way, TCP_INFO tells how long ago
 * the last acknowledgement came; otherwise keepalive probes ask for one. Where this host has no
 * route, bytes stay unsent, and the kernel asks for the peer's window instead; it does so, too, if
 * a process reads nothing, but then the peer's kernel answers, so that no two of these probes are
 * open.
 *
 * TCP_USER_TIMEOUT is not used: it also ends the connection with a process that reads nothing, as
 * one that Slurm suspends for a while.
 */
enum { PROBE_S = 5, PROBES = 3, LOST_MS = 1000 * PROBE_S * (1 + PROBES) };

/* The kernel is asked so often. */
static const double look_s = 0.5;

/* A rank that waits answers at once; this is for the others. */
static const double answer_s = 1;

void gt_tcp_keep_alive(int fd)
{
	const struct {
		int level, name, value;
	} set[] = { { SOL_SOCKET, SO_KEEPALIVE, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, PROBE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S }, { IPPROTO_TCP, TCP_KEEPCNT, PROBES } };

	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++)
		(void)setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof(int));
}

void gt_tcp_look_at(struct gt_tcp *t, int peer)
{
	struct gt_tcp_connection *c = &t->connections[peer];
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);
	double now = gt_clock_s();
	bool waits;

	if (c->fd < 0 || now < c->look_at)
		return;
	c->look_at = now + look_s;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		return;
	waits = info.tcpi_unacked || (info.tcpi_notsent_bytes && info.tcpi_probes > 1);
	if (waits && info.tcpi_last_ack_recv >= LOST_MS)
		gt_tcp_lose(t, peer, ETIMEDOUT);
}

/* ---- who waits for whom ---- */

void gt_tcp_begin_wait(struct gt_messenger *m, struct gt_msg_wait *wait)
{
	struct gt_tcp *t = (struct gt_tcp *)m;

	pthread_mutex_lock(&t->lock);
	wait->next = t->waits;
	t->waits = wait;
	pthread_mutex_unlock(&t->lock);
}

void gt_tcp_end_wait(struct gt_messenger *m, struct gt_msg_wait *wait)
{
	struct gt_tcp *t = (struct gt_tcp *)m;
	struct gt_msg_wait **at = &t->waits;

	pthread_mutex_lock(&t->lock);
	while (*at && *at != wait)
		at = &(*at)->next;
	if (*at)
		*at = wait->next;
	pthread_mutex_unlock(&t->lock);
}

/* The rank that this process has waited for longest, or -1. */
static int find_awaited(const struct gt_tcp *t)
{
	const struct gt_msg_wait *first = NULL;
	double now = gt_clock_s();

	for (const struct gt_msg_wait *w = t->waits; w; w = w->next)
		if (w->rank >= 0 && now < w->until && (!first || w->since < first->since))
			first = w;
	return first ? first->rank : -1;
}

/* Send a frame that has only a head. Without memory for it none is sent. */
static void send_head(struct gt_tcp *t, int peer, enum gt_tcp_kind kind, int tag)
{
	struct gt_tcp_request *r = gt_calloc(1, sizeof(*r), GT_ERR_IGNORED);

	if (!r)
		return;
	r->peer = peer;
	r->tag = tag;
	r->forgotten = true;
	gt_tcp_send_frame(t, r, peer, kind);
}

void gt_tcp_answer_late(struct gt_tcp *t, int peer)
{
	send_head(t, peer, GT_TCP_AWAITS, find_awaited(t));
}

int gt_tcp_take_awaits(struct gt_tcp *t, int peer, int awaited)
{
	struct gt_tcp_connection *c = &t->connections[peer];

	if (awaited < -1 || awaited >= t->messenger.size)
		return EPROTO;
	c->answered = true;
	c->awaits = awaited;
	return 0;
}

/* Follow the answers from `rank` on. Return the first rank that has not answered, or waits for
 * none; or `rank`, if they lead back to this rank. */
static int follow(const struct gt_tcp *t, int rank)
{
	int last = rank;

	for (int i = 0; i < t->messenger.size; i++) {
		const struct gt_tcp_connection *c = &t->connections[last];

		if (!c->answered || c->awaits < 0)
			return last;
		if (c->awaits == t->messenger.rank)
			break;
		last = c->awaits;
	}
	return rank;
}

static bool have_all_answered(const struct gt_tcp *t)
{
	for (int r = 0; r < t->messenger.size; r++)
		if (r != t->messenger.rank && !t->connections[r].answered)
			return false;
	return true;
}

/*
 * Four ranks; rank 3 is stopped:
 *
 *   rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3
 *   rank 0 asks all:   1 answers "I wait for 2", 2 answers "for 3", 3 does not answer
 *   rank 0 names rank 3
 *
 * Only a process that waits reads its connections, so a rank that computes does not answer either.
 */
int gt_tcp_find_late(struct gt_messenger *m, int rank)
{
	struct gt_tcp *t = (struct gt_tcp *)m;
	double until = gt_clock_s() + answer_s;
	bool all = false;

	pthread_mutex_lock(&t->lock);
	for (int r = 0; r < m->size; r++)
		if (r != m->rank) {
			t->connections[r].answered = false;
			send_head(t, r, GT_TCP_LATE, -1);
		}
	while (!all && gt_clock_s() < until) {
		pthread_mutex_unlock(&t->lock);
		m->ops->progress(m, 10e-3);
		pthread_mutex_lock(&t->lock);
		all = have_all_answered(t);
	}
	rank = follow(t, rank);
	pthread_mutex_unlock(&t->lock);
	return rank;
}
