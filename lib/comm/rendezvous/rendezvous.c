/* rendezvous.c - the ranks of a job meet, exchange small messages and leave. */
#include "lib/comm/rendezvous/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/rendezvous/messages.h"

/*
 * An exchange of 4 bytes by three ranks. Rank 0 receives in any order, and answers when it has all:
 *
 *   rank 1 -> 0   head, number 7, "bbbb"
 *   rank 2 -> 0   head, number 7, "cccc"
 *   rank 0 -> 1   head, number 7, "aaaabbbbcccc"
 *   rank 0 -> 2   the same
 *
 * Another number or size is an error for all: the ranks have then called different things.
 */
enum { DATA_HEAD = GT_WIRE_HEAD + GT_WIRE_NUMBER };

static int check_world(const struct gt_world *world, const char *agreement, struct gt_err *err)
{
	if (world->size < 1 || world->size > GT_WORLD_MAX_RANKS || world->rank < 0 ||
	    world->rank >= world->size)
		return gt_err_set(
		    err, GT_EINVAL, "rank %d in a world of %d ranks", world->rank, world->size);
	if (strlen(agreement) >= GT_RENDEZVOUS_MAX_AGREEMENT)
		return gt_err_set(err, GT_EINVAL, "an agreement of %zu bytes", strlen(agreement));
	if (!gt_world_on_one_host(world) && !*world->secret) {
		gt_err_set(err, GT_EINVAL, "ranks on several hosts, but GTRAIN_SECRET is not set");
		return gt_err_hint(err, "set it to the same on all, to what `openssl rand -hex 32` "
		                        "prints, say");
	}
	return 0;
}

/*
 * Rank 0 and each other rank prove to each other that they know the job's secret. Each side sends a
 * random number, then a keyed hash of the messages so far, which include the random number of the
 * other side. The secret itself is never sent, so processes without it cannot join. But messages
 * are not encrypted, and an attacker who can change packets is not stopped.
 *
 * Other processes may connect, too. Rank 0 limits the number of connections that it has not
 * admitted yet, their time, and the bytes that they may send. It rejects a process without the
 * secret, and the ranks continue to wait: a process that is left over from another job does no
 * harm. If a process has the secret, but its rank, world size or agreement does not match, the
 * rendezvous fails on all ranks at once.
 */
int gt_rendezvous_meet(struct gt_rendezvous **out, const struct gt_world *world,
    const char *agreement, double timeout_s, struct gt_err *err)
{
	struct gt_rendezvous *r;
	int rc;

	*out = NULL;
	if (check_world(world, agreement, err))
		return err->code;
	r = gt_calloc(1, sizeof(*r), err);
	if (!r)
		return err->code;
	r->rank = world->rank;
	r->size = world->size;
	r->timeout_s = timeout_s;
	r->fd = gt_calloc((size_t)r->size, sizeof(*r->fd), err);
	for (int i = 0; r->fd && i < r->size; i++)
		r->fd[i] = -1;
	rc = !r->fd         ? err->code
	     : r->size == 1 ? 0
	     : world->rank  ? gt_rendezvous_join(r, world, agreement, err)
	                    : gt_rendezvous_receive_all(r, world, agreement, err);
	if (rc) {
		gt_rendezvous_leave(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* The progress of an exchange on one connection of rank 0. */
struct peer {
	unsigned char head[DATA_HEAD];
	size_t used; /* bytes received or sent so far, including the head */
};

struct exchange {
	struct gt_rendezvous *r;
	size_t bytes;                  /* bytes that each rank contributes */
	unsigned char *all;            /* [size * bytes] */
	unsigned char head[DATA_HEAD]; /* head of the message to send */
	struct peer *peer;             /* [size] */
	struct pollfd *poll;           /* [size] */
	double deadline;
};

/* Keep the first failure: all later exchanges return it. */
static int fail_rendezvous(struct gt_rendezvous *r, const struct gt_err *err)
{
	if (!r->failed.code)
		r->failed = *err;
	return err->code;
}

static void write_head(unsigned char head[DATA_HEAD], uint32_t number, size_t bytes)
{
	gt_wire_put(head, GT_WIRE_DATA);
	gt_wire_put(head + 4, (uint32_t)(GT_WIRE_NUMBER + bytes));
	gt_wire_put(head + GT_WIRE_HEAD, number);
}

/* Check that a rank's message belongs to this exchange and has as many bytes. */
static int check_head(const struct exchange *x, int rank, struct gt_err *err)
{
	const unsigned char *head = x->peer[rank].head;
	uint32_t length = gt_wire_get(head + 4);

	/* Kind, size and number are compared at once; the rest of the function only finds out which
	 * one differs. */
	if (!memcmp(head, x->head, DATA_HEAD))
		return 0;
	if (gt_wire_get(head) != GT_WIRE_DATA || length < GT_WIRE_NUMBER)
		return gt_err_set(
		    err, GT_EFORMAT, "rank %d sent bytes that are no part of an exchange", rank);
	if (length != GT_WIRE_NUMBER + x->bytes)
		return gt_err_set(err, GT_EINVAL,
		    "rank %d came to an exchange with %u bytes, rank 0 with %zu", rank,
		    length - GT_WIRE_NUMBER, x->bytes);
	return gt_err_set(err, GT_EINVAL, "rank %d is at exchange %u, rank 0 at %u", rank,
	    gt_wire_get(head + GT_WIRE_HEAD), x->r->exchanges);
}

static int name_gone_peer(int rank, struct gt_err *err)
{
	gt_err_set(err, GT_EIO, "rank %d is gone", rank);
	return gt_err_follow(err);
}

/* Read the part of a rank's message that has arrived. */
static int take_part(struct exchange *x, int rank, struct gt_err *err)
{
	struct peer *p = &x->peer[rank];

	while (p->used < DATA_HEAD + x->bytes) {
		bool in_head = p->used < DATA_HEAD;
		unsigned char *to = in_head
		                        ? p->head + p->used
		                        : x->all + (size_t)rank * x->bytes + p->used - DATA_HEAD;
		size_t want = in_head ? DATA_HEAD - p->used : DATA_HEAD + x->bytes - p->used;
		ssize_t n = recv(x->r->fd[rank], to, want, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return 0;
		if (n <= 0)
			return name_gone_peer(rank, err);
		p->used += (size_t)n;
		if (p->used == DATA_HEAD && check_head(x, rank, err))
			return err->code;
	}
	return 0;
}

static int give_all(struct exchange *x, int rank, struct gt_err *err)
{
	struct peer *p = &x->peer[rank];
	size_t total = DATA_HEAD + (size_t)x->r->size * x->bytes;

	while (p->used < total) {
		bool in_head = p->used < DATA_HEAD;
		const unsigned char *from =
		    in_head ? x->head + p->used : x->all + p->used - DATA_HEAD;
		size_t left = in_head ? DATA_HEAD - p->used : total - p->used;
		/* Without MSG_MORE the head would leave as a packet of its own. */
		int more = in_head && x->bytes ? MSG_MORE : 0;
		ssize_t n = send(x->r->fd[rank], from, left, MSG_DONTWAIT | MSG_NOSIGNAL | more);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return 0;
		if (n < 0)
			return name_gone_peer(rank, err);
		p->used += (size_t)n;
	}
	return 0;
}

static int name_late(const struct exchange *x, size_t total, struct gt_err *err)
{
	bool late[GT_WORLD_MAX_RANKS] = { false };
	char ranks[GT_RANKS_TEXT];

	for (int rank = 1; rank < x->r->size; rank++)
		late[rank] = x->peer[rank].used < total;
	return gt_err_set(err, GT_EIO, "%s did not come to an exchange within %g s",
	    gt_ranks_text(ranks, late, x->r->size), x->r->timeout_s);
}

/* Call step for every rank until each has moved `total` bytes. */
static int with_all(struct exchange *x, short events, size_t total,
    int (*step)(struct exchange *x, int rank, struct gt_err *err), struct gt_err *err)
{
	for (;;) {
		int left = 0, left_ms = gt_wire_left_ms(x->deadline);

		for (int rank = 1; rank < x->r->size; rank++) {
			/* The step comes before poll(): usually the bytes have arrived by then, or
			 * fit into the socket's buffer. */
			if (x->peer[rank].used < total && step(x, rank, err))
				return err->code;
			if (x->peer[rank].used < total)
				x->poll[left++] = (struct pollfd){ x->r->fd[rank], events, 0 };
		}
		if (!left)
			return 0;
		if (!left_ms)
			return name_late(x, total, err);
		if (poll(x->poll, (nfds_t)left, left_ms) < 0 && errno != EINTR)
			return gt_err_sys(err, "rank 0 cannot wait for the others");
	}
}

/* Send the error to all ranks, except one in the middle of a message. Bytes that have arrived are
 * read first, as closing a socket with bytes unread would destroy the error on its way. */
static void send_error_to_all(struct exchange *x, bool sending, const struct gt_err *err)
{
	size_t total = DATA_HEAD + (size_t)x->r->size * x->bytes;
	unsigned char scrap[4096];

	for (int rank = 1; rank < x->r->size; rank++) {
		int fd = x->r->fd[rank];

		if (sending && x->peer[rank].used && x->peer[rank].used < total)
			continue;
		gt_wire_send_error(fd, err);
		shutdown(fd, SHUT_WR);
		for (int i = 0; i < 32; i++)
			if (recv(fd, scrap, sizeof(scrap), MSG_DONTWAIT) <= 0)
				break;
	}
}

static int exchange_as_rank_0(struct exchange *x, const void *mine, struct gt_err *err)
{
	size_t count = (size_t)x->r->size, total = DATA_HEAD + count * x->bytes;
	bool sending = false;
	int rc;

	x->peer = gt_calloc(count, sizeof(*x->peer), err);
	x->poll = x->peer ? gt_calloc(count, sizeof(*x->poll), err) : NULL;
	rc = x->poll ? 0 : err->code;
	if (x->bytes)
		memcpy(x->all, mine, x->bytes);
	if (!rc)
		rc = with_all(x, POLLIN, DATA_HEAD + x->bytes, take_part, err);
	if (!rc) {
		sending = true;
		memset(x->peer, 0, count * sizeof(*x->peer));
		gt_wire_put(x->head + 4, (uint32_t)(GT_WIRE_NUMBER + count * x->bytes));
		rc = with_all(x, POLLOUT, total, give_all, err);
	}
	if (rc && x->poll)
		send_error_to_all(x, sending, err);
	free(x->poll);
	free(x->peer);
	return rc;
}

static int lost_host(const struct gt_rendezvous *r, int rc, struct gt_err *err)
{
	if (rc == -ETIMEDOUT)
		return gt_err_set(err, GT_EIO, "rank 0 did not answer in an exchange within %g s",
		    r->timeout_s + gt_rendezvous_grace_s(r->timeout_s));
	return name_gone_peer(0, err);
}

/* Read rank 0's answer, whose head must equal x->head. */
static int read_answer(struct exchange *x, struct gt_err *err)
{
	unsigned char error[GT_WIRE_MAX_ERROR], head[DATA_HEAD];
	int fd = x->r->fd[0], rc = gt_wire_receive(fd, head, GT_WIRE_HEAD, x->deadline);
	uint32_t length = gt_wire_get(head + 4);

	if (rc)
		return lost_host(x->r, rc, err);
	if (gt_wire_get(head) == GT_WIRE_ERROR && length <= sizeof(error)) {
		if ((rc = gt_wire_receive(fd, error, length, x->deadline)))
			return lost_host(x->r, rc, err);
		gt_wire_read_error(err, error, length);
		return gt_err_follow(err);
	}
	gt_wire_put(x->head + 4, (uint32_t)(GT_WIRE_NUMBER + (size_t)x->r->size * x->bytes));
	if (memcmp(head, x->head, GT_WIRE_HEAD) != 0)
		return gt_err_set(
		    err, GT_EFORMAT, "rank 0 sent bytes that are no part of an exchange");
	if ((rc = gt_wire_receive(fd, head + GT_WIRE_HEAD, GT_WIRE_NUMBER, x->deadline)) ||
	    (rc = gt_wire_receive(fd, x->all, (size_t)x->r->size * x->bytes, x->deadline)))
		return lost_host(x->r, rc, err);
	if (memcmp(head, x->head, DATA_HEAD) != 0)
		return gt_err_set(err, GT_EFORMAT, "rank 0 answered another exchange");
	return 0;
}

/* Exchange on a rank other than 0. If sending fails, rank 0 may have sent an error before: read
 * it. */
static int exchange_with_rank_0(struct exchange *x, const void *mine, struct gt_err *err)
{
	int fd = x->r->fd[0], rc;

	/* Rank 0 names late ranks when its own time is over. The other ranks wait a little longer,
	 * so that they get this error instead of their own. */
	x->deadline += gt_rendezvous_grace_s(x->r->timeout_s);
	rc = gt_wire_send(fd, x->head, DATA_HEAD, x->deadline);
	if (!rc)
		rc = gt_wire_send(fd, mine, x->bytes, x->deadline);
	if (rc && rc != -ECONNRESET)
		return lost_host(x->r, rc, err);
	return read_answer(x, err);
}

int gt_rendezvous_exchange(
    struct gt_rendezvous *r, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct exchange x = { .r = r, .bytes = bytes, .all = all };
	int rc;

	if (bytes > GT_RENDEZVOUS_MAX_BYTES)
		return gt_err_set(err, GT_EINVAL, "an exchange of %zu bytes, %d at most", bytes,
		    GT_RENDEZVOUS_MAX_BYTES);
	/* After a failure the ranks may be at different exchanges, so nothing more can be
	 * exchanged. */
	if (r->failed.code) {
		*err = r->failed;
		return err->code;
	}
	if (r->size == 1) {
		if (bytes)
			memcpy(all, mine, bytes);
		return 0;
	}
	r->exchanges++;
	write_head(x.head, r->exchanges, bytes);
	x.deadline = gt_clock_s() + r->timeout_s;
	rc = r->rank ? exchange_with_rank_0(&x, mine, err) : exchange_as_rank_0(&x, mine, err);
	return rc ? fail_rendezvous(r, err) : 0;
}

int gt_rendezvous_sockets(const struct gt_rendezvous *r, const int **out)
{
	*out = r->rank ? r->fd : r->fd + 1;
	return r->rank ? 1 : r->size - 1;
}

void gt_rendezvous_leave(struct gt_rendezvous *r)
{
	if (!r)
		return;
	for (int i = 0; r->fd && i < r->size; i++)
		if (r->fd[i] >= 0)
			close(r->fd[i]);
	free(r->fd);
	free(r);
}
