/* mesh.c - each rank connects with all others, and each proves that it belongs to the job. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nettle/memops.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/rendezvous/messages.h"
#include "lib/comm/tcp/state.h"

/*
 * A rank connects to all ranks before it, and a thread accepts the ranks behind it. On each
 * connection, as in the rendezvous (rendezvous/messages.h):
 *
 *   rank that connects                   rank that accepts
 *                                   <--  a nonce
 *   hello, with a nonce, and a hash -->
 *                                   <--  a hash
 *
 * A hello has the number of the rank that connects in `rank`, and that of the other in `restart`.
 * A process that does not know the secret learns nothing, and its connection is closed.
 */
enum {
	PROOF = GT_WIRE_HELLO + SHA256_DIGEST_SIZE,
	MAX_STRANGERS = 64, /* connections beyond the number of ranks that are open at a time */
	ROUNDS = 3          /* attempts at all addresses of a rank */
};

/* A rank proves itself within milliseconds. */
static const double patience_s = 5;

/* A rank connects with all others within this time, or a half of the user's: the rest is for its
 * error to arrive. */
static const double most_s = 60;

/* What a rank tells all others. */
struct card {
	char host[GT_TCP_HOST_ID], name[GT_MSG_HOST_BYTES];
	struct gt_tcp_address address[GT_TCP_ADDRESSES];
	int32_t count;
	uint32_t port;
};

/* The outcome of a rank's attempts. */
struct verdict {
	int32_t code;
	bool waited; /* the error is that others did not connect */
	char text[300], hint[300];
};
_Static_assert(
    sizeof(struct card) <= GT_TCP_EXCHANGED && sizeof(struct verdict) <= GT_TCP_EXCHANGED,
    "what is exchanged");

struct mesh {
	struct gt_tcp *t;
	const struct gt_tcp_options *options;
	int rank, size, listener;
	double deadline;
	struct card *cards; /* [size] */
	atomic_bool quit;   /* the accepting thread ends */
	struct gt_err accepting;
	bool waited; /* verdict.waited */
};

static void prove(unsigned char out[SHA256_DIGEST_SIZE], const char *side, const struct mesh *m,
    const unsigned char *hello, const unsigned char *nonce)
{
	gt_wire_proof(out, side, m->options->secret, hello, nonce, "", 0);
}

/* ---- the ranks behind this one ---- */

struct stranger {
	int fd;
	double until;
	size_t used;
	unsigned char nonce[GT_WIRE_NONCE], proof[PROOF];
};

struct door {
	struct mesh *m;
	struct stranger *stranger; /* [capacity] */
	struct pollfd *poll;       /* [1 + capacity] */
	size_t count, capacity;
	int admitted;
};

static void drop_stranger(struct stranger *s)
{
	close(s->fd);
	s->fd = -1;
}

/* A connection takes the place of an earlier one of the same rank, which has given that up. */
static void check_proof(struct door *d, struct stranger *s)
{
	struct mesh *m = d->m;
	unsigned char hash[SHA256_DIGEST_SIZE];
	struct gt_hello hello;
	int rank;

	prove(hash, "guest", m, s->proof, s->nonce);
	if (!gt_hello_read(&hello, s->proof) ||
	    !memeql_sec(hash, s->proof + GT_WIRE_HELLO, SHA256_DIGEST_SIZE) ||
	    hello.restart != (uint32_t)m->rank || hello.rank <= (uint32_t)m->rank ||
	    hello.rank >= (uint32_t)m->size) {
		drop_stranger(s);
		return;
	}
	prove(hash, "host", m, s->proof, s->nonce);
	if (gt_wire_send(s->fd, hash, sizeof(hash), 0)) {
		drop_stranger(s);
		return;
	}
	rank = (int)hello.rank;
	if (m->t->connections[rank].fd >= 0)
		close(m->t->connections[rank].fd);
	else
		d->admitted++;
	m->t->connections[rank].fd = s->fd;
	s->fd = -1;
}

static void read_stranger(struct door *d, struct stranger *s)
{
	ssize_t n = recv(s->fd, s->proof + s->used, PROOF - s->used, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop_stranger(s);
		return;
	}
	s->used += (size_t)n;
	if (s->used == PROOF)
		check_proof(d, s);
}

static void remove_strangers(struct door *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->count; i++) {
		struct stranger *s = &d->stranger[i];

		if (s->fd >= 0 && gt_clock_s() >= s->until)
			drop_stranger(s);
		if (s->fd >= 0)
			d->stranger[kept++] = *s;
	}
	d->count = kept;
}

/* If there are too many, the one that waits longest makes room. */
static void accept_stranger(struct door *d)
{
	int fd = accept(d->m->listener, NULL, NULL);
	struct stranger *s;

	if (fd < 0)
		return;
	if (d->count == d->capacity) {
		drop_stranger(&d->stranger[0]);
		remove_strangers(d);
	}
	s = &d->stranger[d->count];
	*s = (struct stranger){ .fd = fd, .until = gt_clock_s() + patience_s };
	if (gt_socket_prepare(fd) || gt_wire_nonce(s->nonce, GT_ERR_IGNORED) ||
	    gt_wire_send(fd, s->nonce, GT_WIRE_NONCE, 0))
		drop_stranger(s);
	else
		d->count++;
}

static void serve_door(struct door *d)
{
	size_t count = d->count;

	d->poll[0] = (struct pollfd){ .fd = d->m->listener, .events = POLLIN };
	for (size_t i = 0; i < count; i++)
		d->poll[i + 1] = (struct pollfd){ .fd = d->stranger[i].fd, .events = POLLIN };
	if (poll(d->poll, count + 1, 100) > 0)
		for (size_t i = 0; i < count; i++)
			if (d->poll[i + 1].revents)
				read_stranger(d, &d->stranger[i]);
	remove_strangers(d);
	if (d->poll[0].revents)
		accept_stranger(d);
}

/* Which ranks have not come is said by those that could not connect. */
static int fail_missing(const struct mesh *m, struct gt_err *err)
{
	bool missing[GT_WORLD_MAX_RANKS] = { false };
	char ranks[GT_RANKS_TEXT];

	for (int r = m->rank + 1; r < m->size; r++)
		missing[r] = m->t->connections[r].fd < 0;
	return gt_err_set(err, GT_EIO, "%s did not connect to rank %d on host %s",
	    gt_ranks_text(ranks, missing, m->size), m->rank, m->cards[m->rank].name);
}

static void *accept_ranks(void *arg)
{
	struct mesh *m = arg;
	const int expected = m->size - 1 - m->rank;
	struct door d = { .m = m, .capacity = (size_t)expected + MAX_STRANGERS };

	d.stranger = gt_calloc(d.capacity, sizeof(*d.stranger), &m->accepting);
	d.poll = d.stranger ? gt_calloc(1 + d.capacity, sizeof(*d.poll), &m->accepting) : NULL;
	while (
	    d.poll && d.admitted < expected && !atomic_load(&m->quit) && gt_clock_s() < m->deadline)
		serve_door(&d);
	if (d.poll && d.admitted < expected)
		fail_missing(m, &m->accepting);
	for (size_t i = 0; i < d.count; i++)
		drop_stranger(&d.stranger[i]);
	free(d.poll);
	free(d.stranger);
	return NULL;
}

/* ---- the ranks before this one ---- */

static socklen_t fill_address(
    struct sockaddr_storage *out, const struct gt_tcp_address *a, uint32_t port)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	*out = (struct sockaddr_storage){ 0 };
	if (a->family == 4) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		memcpy(&four->sin_addr, a->bytes, 4);
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)port);
	memcpy(&six->sin6_addr, a->bytes, 16);
	return sizeof(*six);
}

/* Prove this rank to another one and the other way round. Return 0 or a negative errno. */
static int introduce_rank(const struct mesh *m, int fd, int peer)
{
	struct gt_hello hello = { GT_WIRE_VERSION, (uint32_t)m->size, (uint32_t)m->rank,
		(uint32_t)peer, { 0 } };
	unsigned char nonce[GT_WIRE_NONCE], proof[PROOF];
	unsigned char hash[SHA256_DIGEST_SIZE], right[SHA256_DIGEST_SIZE];
	double soon = gt_clock_s() + patience_s, until = soon < m->deadline ? soon : m->deadline;
	int rc = gt_wire_receive(fd, nonce, sizeof(nonce), until);

	if (rc)
		return rc;
	if (gt_wire_nonce(hello.nonce, GT_ERR_IGNORED))
		return -EIO;
	gt_hello_write(proof, &hello);
	prove(proof + GT_WIRE_HELLO, "guest", m, proof, nonce);
	if ((rc = gt_wire_send(fd, proof, PROOF, until)) ||
	    (rc = gt_wire_receive(fd, hash, sizeof(hash), until)))
		return rc;
	prove(right, "host", m, proof, nonce);
	return memeql_sec(hash, right, sizeof(hash)) ? 0 : -EPROTO;
}

static int try_address(const struct mesh *m, const struct gt_tcp_address *a, int peer)
{
	struct sockaddr_storage address;
	socklen_t size = fill_address(&address, a, m->cards[peer].port);
	int fd = gt_socket_connect((struct sockaddr *)&address, size, m->deadline), rc;

	if (fd < 0)
		return -errno;
	rc = introduce_rank(m, fd, peer);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* `a` is the likeliest address of the peer, and `rc` tells why it did not answer. */
static int fail_peer(
    const struct mesh *m, int peer, const struct gt_tcp_address *a, int rc, struct gt_err *err)
{
	const struct card *c = &m->cards[peer];
	struct sockaddr_storage address;
	socklen_t size = fill_address(&address, a, c->port);
	char at[64] = "an unknown address";

	getnameinfo((struct sockaddr *)&address, size, at, sizeof(at), NULL, 0, NI_NUMERICHOST);
	errno = -rc;
	gt_err_sys(err, "rank %d on host %s cannot connect to rank %d on host %s, at %s port %u",
	    m->rank, m->cards[m->rank].name, peer, c->name, at, c->port);
	return gt_err_hint(err,
	    "TCP connections between the hosts have to be allowed at all ports; "
	    "GTRAIN_IFNAME names the network interface to use");
}

static int connect_to_rank(struct mesh *m, int peer, struct gt_err *err)
{
	static const struct gt_tcp_address loopback = { 4, { 127, 0, 0, 1 } };
	const struct card *c = &m->cards[peer];
	bool here = m->options->one_host || (*c->host && !strcmp(c->host, m->cards[m->rank].host));
	const struct gt_tcp_address *list = here ? &loopback : c->address;
	int count = here ? 1 : c->count, first = -ETIMEDOUT, rc;

	for (int round = 0; round < ROUNDS && gt_clock_s() < m->deadline; round++) {
		if (round)
			nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
		for (int i = 0; i < count; i++) {
			rc = try_address(m, &list[i], peer);
			if (rc >= 0) {
				m->t->connections[peer].fd = rc;
				return 0;
			}
			first = i ? first : rc;
		}
	}
	return fail_peer(m, peer, &list[0], first, err);
}

/* ---- all of them ---- */

static int listen_for_ranks(struct mesh *m, struct card *mine, struct gt_err *err)
{
	struct sockaddr_storage own = { 0 };
	socklen_t size = sizeof(own);

	gt_tcp_host_id(mine->host);
	gethostname(mine->name, sizeof(mine->name) - 1);
	if (!m->options->one_host) {
		mine->count = gt_tcp_addresses(mine->address, m->options, err);
		if (mine->count < 0)
			return err->code;
	}
	m->listener = m->options->one_host ? gt_socket_listen_loopback() : gt_socket_listen_all(0);
	if (m->listener < 0 || getsockname(m->listener, (struct sockaddr *)&own, &size))
		return gt_err_sys(err, "cannot listen for the other ranks");
	/* The port is at the same place in both kinds of addresses. */
	mine->port = ntohs(((struct sockaddr_in *)&own)->sin_port);
	return 0;
}

/*
 * Return the rank with the error to report, or -1. A rank that cannot connect does not accept
 * others any more, so that these have errors, too: the lowest of such ranks has the cause. The
 * error of a rank that waited says less.
 */
static int find_cause(const struct verdict *all, int size)
{
	int cause = -1;

	for (int r = 0; r < size; r++)
		if (all[r].code && (cause < 0 || (all[cause].waited && !all[r].waited)))
			cause = r;
	return cause;
}

/* All ranks get the same error. */
static int exchange_verdicts(struct mesh *m, const struct gt_exchange *exchange,
    const struct gt_err *own, struct gt_err *err)
{
	struct verdict mine = { .code = own->code, .waited = m->waited };
	struct verdict *all = gt_calloc((size_t)m->size, sizeof(*all), err), *cause;
	int rc, r;

	snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1, own->text);
	snprintf(mine.hint, sizeof(mine.hint), "%.*s", (int)sizeof(mine.hint) - 1, own->hint);
	if (!all)
		return err->code;
	rc = exchange->run(exchange->self, &mine, sizeof(mine), all, err);
	r = rc ? -1 : find_cause(all, m->size);
	if (r >= 0) {
		cause = &all[r];
		cause->text[sizeof(mine.text) - 1] = cause->hint[sizeof(mine.hint) - 1] = '\0';
		rc = gt_err_set(err, cause->code < 0 ? cause->code : GT_EIO, "%s", cause->text);
		gt_err_hint(err, "%s", cause->hint);
		if (r != m->rank)
			gt_err_follow(err);
	}
	free(all);
	return rc;
}

static void connect_all(struct mesh *m, struct gt_err *err)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, accept_ranks, m)) {
		gt_err_set(err, GT_ENOMEM, "cannot start a thread that accepts the other ranks");
		return;
	}
	for (int peer = 0; peer < m->rank && !err->code; peer++)
		connect_to_rank(m, peer, err);
	atomic_store(&m->quit, err->code != 0);
	pthread_join(thread, NULL);
	if (!err->code) {
		*err = m->accepting;
		m->waited = err->code;
	}
	for (int peer = 0; peer < m->size; peer++)
		if (m->t->connections[peer].fd >= 0)
			gt_tcp_keep_alive(m->t->connections[peer].fd);
}

static int connect_mesh(struct mesh *m, const struct gt_exchange *exchange, struct gt_err *err)
{
	struct card mine = { .count = 0 };
	struct gt_err own = GT_ERR_INIT;
	bool all_listen = true;
	int rc;

	m->cards = gt_calloc((size_t)m->size, sizeof(*m->cards), err);
	if (!m->cards)
		return err->code;
	/* A rank that fails here takes part in both exchanges: the others wait for it. */
	listen_for_ranks(m, &mine, &own);
	rc = exchange->run(exchange->self, &mine, sizeof(mine), m->cards, err);
	if (rc)
		return rc;
	for (int r = 0; r < m->size; r++) {
		struct card *c = &m->cards[r];

		c->host[sizeof(c->host) - 1] = c->name[sizeof(c->name) - 1] = '\0';
		if (c->count < 0 || c->count > GT_TCP_ADDRESSES)
			c->count = 0;
		all_listen = all_listen && c->port;
	}
	m->deadline = gt_clock_s() +
	              (m->options->timeout_s / 2 < most_s ? m->options->timeout_s / 2 : most_s);
	if (all_listen)
		connect_all(m, &own);
	return exchange_verdicts(m, exchange, &own, err);
}

int gt_tcp_open(struct gt_messenger **out, int rank, int size, const struct gt_exchange *exchange,
    const struct gt_tcp_options *options, struct gt_err *err)
{
	struct mesh m = { .options = options, .rank = rank, .size = size, .listener = -1 };
	int rc;

	*out = NULL;
	rc = gt_tcp_new(&m.t, rank, size, err);
	if (!rc && size > 1)
		rc = connect_mesh(&m, exchange, err);
	if (!rc)
		rc = gt_tcp_watch(m.t, err);
	if (m.listener >= 0)
		close(m.listener);
	free(m.cards);
	if (rc && m.t)
		gt_messenger_free(&m.t->messenger);
	else
		*out = &m.t->messenger;
	return rc;
}
