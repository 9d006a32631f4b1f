/* host.c - how rank 0 collects the ranks: accept, check and admit each, until all are there. */
#include <errno.h>
#include <netdb.h>
#include <nettle/memops.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/rendezvous/messages.h"
#include "lib/comm/world/environment.h"

/* A rank identifies itself within milliseconds. A slower peer is no rank, or it connects again. */
static const double patience_s = 5;

/* Connections that rank 0 accepts beyond the number of ranks. If all are in use, a new one replaces
 * the one that waits longest. */
enum { MAX_STRANGERS = 64 };

enum stage { AT_HELLO, AT_PROOF_HEAD, AT_PROOF, AT_END, AT_ADMITTED };

/*
 * The states of a connection, from its acceptance on. Each state reads a known number of bytes, so
 * no peer can make rank 0 allocate or wait for more:
 *
 *   AT_HELLO       56 bytes                  then CHALLENGE is sent
 *   AT_PROOF_HEAD  8 bytes: kind and size    the size is checked against its limit
 *   AT_PROOF       hash and agreement        then ADMITTED, or an error, is sent
 *   AT_ADMITTED    nothing more is expected  a byte, or the end, means that the rank has died
 *   AT_END         an error was sent         bytes are discarded until the peer closes
 */
struct connection {
	int fd; /* -1: to be removed */
	enum stage stage;
	double until; /* close the connection at this time, unless the rank is admitted */
	unsigned char hello_bytes[GT_WIRE_HELLO], nonce[GT_WIRE_NONCE], head[GT_WIRE_HEAD];
	unsigned char *proof; /* [wanted + 1] at AT_PROOF */
	size_t used, wanted;  /* bytes received and expected of the part being read */
	struct gt_hello hello;
	char name[80]; /* "10.0.0.3:4242" */
};

struct host {
	struct gt_rendezvous *r;
	const struct gt_world *world;
	const char *agreement;
	double deadline;
	int listener;
	/* all connections, in the order in which they were accepted */
	struct connection *connection;
	struct pollfd *poll; /* [1 + capacity]: the listener, connections */
	size_t count, capacity;
	int admitted;
	struct gt_err refusal; /* why the last peer that failed to prove itself was refused */
	uint32_t refused;      /* the rank that it claimed to be */
};

static void drop_connection(struct connection *g)
{
	if (g->fd >= 0)
		close(g->fd);
	free(g->proof);
	g->proof = NULL;
	g->fd = -1;
}

/* Return the memory into which this stage reads. */
static unsigned char *place(struct connection *g)
{
	return g->stage == AT_HELLO        ? g->hello_bytes
	       : g->stage == AT_PROOF_HEAD ? g->head
	                                   : g->proof;
}

static void enter_stage(struct connection *g, enum stage stage, size_t wanted)
{
	g->stage = stage;
	g->used = 0;
	g->wanted = wanted;
}

/* Refuse one peer. The ranks go on waiting, as this peer may belong to no rank. The socket stays
 * open until the other side closes it or its time is over: closing it with bytes unread would
 * destroy the message just sent. */
static int fail_connection(struct host *h, struct connection *g, const struct gt_err *why)
{
	gt_wire_send_error(g->fd, why);
	shutdown(g->fd, SHUT_WR);
	h->refusal = *why;
	gt_err_prefix(&h->refusal, "refused %s", g->name);
	h->refused = g->hello.rank;
	g->stage = AT_END;
	return 0;
}

static int take_hello(struct host *h, struct connection *g, struct gt_err *err)
{
	struct gt_err why = GT_ERR_INIT;

	if (!gt_hello_read(&g->hello, g->hello_bytes)) {
		drop_connection(g); /* the peer is not gtrain, and would not understand an answer */
		return 0;
	}
	if (g->hello.version != GT_WIRE_VERSION) {
		gt_err_set(&why, GT_EINVAL,
		    "rank %u speaks version %u of the protocol, rank 0 version %d", g->hello.rank,
		    g->hello.version, GT_WIRE_VERSION);
		return fail_connection(h, g, &why);
	}
	/* The nonce is new for each connection, so a proof that was recorded earlier is of no use.
	 */
	if (gt_wire_nonce(g->nonce, err))
		return err->code;
	enter_stage(g, AT_PROOF_HEAD, GT_WIRE_HEAD);
	if (gt_wire_send_message(g->fd, GT_WIRE_CHALLENGE, g->nonce, GT_WIRE_NONCE))
		drop_connection(g);
	return 0;
}

static int take_proof_head(struct connection *g, struct gt_err *err)
{
	uint32_t size = gt_wire_get(g->head + 4);

	if (gt_wire_get(g->head) != GT_WIRE_PROOF || size < SHA256_DIGEST_SIZE ||
	    size >= GT_WIRE_MAX_PROOF) {
		drop_connection(g);
		return 0;
	}
	/* One byte more, so that the agreement always ends with a zero. */
	g->proof = gt_calloc(size + 1, 1, err);
	enter_stage(g, AT_PROOF, size);
	return g->proof ? 0 : err->code;
}

static const struct connection *find_rank(const struct host *h, uint32_t rank)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->connection[i].stage == AT_ADMITTED && h->connection[i].hello.rank == rank)
			return &h->connection[i];
	return NULL;
}

/* Check that a peer that knows the secret fits into the job. If not, the job was started
 * wrongly. */
static int check_connection(const struct host *h, const struct connection *g, struct gt_err *err)
{
	uint32_t rank = g->hello.rank;
	const struct connection *other = find_rank(h, rank);

	if (g->hello.size != (uint32_t)h->r->size)
		return gt_err_set(err, GT_EINVAL, "world size differs: %d on rank 0, %u on rank %u",
		    h->r->size, g->hello.size, rank);
	if (rank >= (uint32_t)h->r->size)
		return gt_err_set(
		    err, GT_EINVAL, "rank %u in a world of %d ranks", rank, h->r->size);
	if (!rank || other) {
		gt_err_set(err, GT_EINVAL, "rank %u is there twice: %s and %s", rank,
		    other ? other->name : "the one that listens", g->name);
		return gt_err_hint(err, "each process needs a rank of its own; see that none of an "
		                        "earlier start is left");
	}
	return gt_agreement_compare(
	    h->agreement, (const char *)g->proof + SHA256_DIGEST_SIZE, (int)rank, err);
}

/* Check a proof. An agreement with a zero byte is cut there, so its hash does not match. */
static int take_proof(struct host *h, struct connection *g, struct gt_err *err)
{
	const char *secret = h->world->secret;
	unsigned char hash[SHA256_DIGEST_SIZE];
	size_t size = strlen((char *)g->proof + SHA256_DIGEST_SIZE);
	struct gt_err why = GT_ERR_INIT;

	gt_wire_proof(
	    hash, "guest", secret, g->hello_bytes, g->nonce, g->proof + SHA256_DIGEST_SIZE, size);
	/* The comparison takes the same time for all hashes, so its duration tells nothing about
	 * the right one. */
	if (!memeql_sec(hash, g->proof, SHA256_DIGEST_SIZE)) {
		gt_err_set(&why, GT_EINVAL, "rank %u has a wrong secret", g->hello.rank);
		gt_err_hint(&why, "GTRAIN_SECRET has to be the same for all ranks");
		return fail_connection(h, g, &why);
	}
	if (g->hello.restart != (uint32_t)h->world->restart) {
		gt_err_set(&why, GT_EINVAL, "rank %u is of restart %u, rank 0 of restart %d",
		    g->hello.rank, g->hello.restart, h->world->restart);
		gt_err_hint(&why, "a process of an earlier start is left over");
		return fail_connection(h, g, &why);
	}
	/* The peer has the secret. If it does not fit, the job was started wrongly, and waiting
	 * longer cannot help: the rendezvous ends with this error on all ranks. */
	if (check_connection(h, g, err)) {
		gt_wire_send_error(g->fd, err);
		return err->code;
	}
	gt_wire_proof(
	    hash, "host", secret, g->hello_bytes, g->nonce, g->proof + SHA256_DIGEST_SIZE, size);
	free(g->proof);
	g->proof = NULL;
	if (gt_wire_send_message(g->fd, GT_WIRE_ADMITTED, hash, sizeof(hash))) {
		drop_connection(g);
		return 0;
	}
	g->stage = AT_ADMITTED;
	h->admitted++;
	return 0;
}

static int name_gone_connection(const struct connection *g, const char *when, struct gt_err *err)
{
	gt_err_set(err, GT_EIO, "rank %u is gone %s all ranks were there", g->hello.rank, when);
	return gt_err_follow(err);
}

/* Handle bytes that a peer has sent, or the end of its connection. */
static int read_connection(struct host *h, struct connection *g, struct gt_err *err)
{
	unsigned char scrap[512];
	bool reads = g->stage < AT_END;
	ssize_t n = recv(g->fd, reads ? place(g) + g->used : scrap,
	    reads ? g->wanted - g->used : sizeof(scrap), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (g->stage == AT_ADMITTED)
		return name_gone_connection(g, "before", err);
	if (n <= 0) {
		drop_connection(g);
		return 0;
	}
	g->used += (size_t)n;
	if (!reads || g->used < g->wanted)
		return 0;
	switch (g->stage) {
	case AT_HELLO:
		return take_hello(h, g, err);
	case AT_PROOF_HEAD:
		return take_proof_head(g, err);
	default:
		return take_proof(h, g, err);
	}
}

/* Remove the connections that are closed, and close those whose time is over. */
static void remove_closed(struct host *h)
{
	double now = gt_clock_s();
	size_t kept = 0;

	for (size_t i = 0; i < h->count; i++) {
		struct connection *g = &h->connection[i];

		if (g->stage != AT_ADMITTED && now >= g->until)
			drop_connection(g);
		if (g->fd >= 0)
			h->connection[kept++] = *g;
	}
	h->count = kept;
}

static void drop_if_full(struct host *h)
{
	size_t i = 0;

	/*
	 * Connections are in the order in which they were accepted, so the first one that is not
	 * admitted has waited longest. A flood of strangers thus displaces other strangers, and a
	 * real rank needs only milliseconds between two of them to send its proof.
	 */
	if (h->count < h->capacity)
		return;
	while (
	    h->connection[i].stage == AT_ADMITTED) /* not all of them are: the capacity is higher */
		i++;
	drop_connection(&h->connection[i]);
	remove_closed(h);
}

static void name_peer(
    char *out, size_t size, const struct sockaddr *address, socklen_t address_size)
{
	static const char mapped[] = "::ffff:"; /* IPv4, at a socket that listens at IPv6, too */
	char host[64], port[8];

	if (getnameinfo(address, address_size, host, sizeof(host), port, sizeof(port),
	        NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(out, size, "an unknown address");
	else if (!strncmp(host, mapped, sizeof(mapped) - 1))
		snprintf(out, size, "%s:%s", host + sizeof(mapped) - 1, port);
	else
		snprintf(out, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static void add_connection(
    struct host *h, int fd, const struct sockaddr *address, socklen_t address_size)
{
	struct connection *g;

	if (gt_socket_prepare(fd)) {
		close(fd);
		return;
	}
	drop_if_full(h);
	g = &h->connection[h->count++];
	*g = (struct connection){ .fd = fd, .until = gt_clock_s() + patience_s };
	enter_stage(g, AT_HELLO, GT_WIRE_HELLO);
	name_peer(g->name, sizeof(g->name), address, address_size);
}

/* Accept the pending connections, at most MAX_STRANGERS in one call, so that those accepted before
 * are served in between. */
static int accept_connections(struct host *h, struct gt_err *err)
{
	for (int i = 0; i < MAX_STRANGERS; i++) {
		struct sockaddr_storage address;
		socklen_t size = sizeof(address);
		int fd = accept(h->listener, (struct sockaddr *)&address, &size);

		if (fd >= 0)
			add_connection(h, fd, (struct sockaddr *)&address, size);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			return gt_err_sys(err, "rank 0 cannot accept a connection");
		else
			break;
	}
	return 0;
}

/* Return the time at which poll() must end even if no bytes arrive. */
static double next_deadline(const struct host *h)
{
	double first = h->deadline;

	for (size_t i = 0; i < h->count; i++)
		if (h->connection[i].stage != AT_ADMITTED && h->connection[i].until < first)
			first = h->connection[i].until;
	return first;
}

static int wait_and_serve(struct host *h, struct gt_err *err)
{
	size_t count = h->count;
	int rc = 0;

	h->poll[0] = (struct pollfd){ .fd = h->listener, .events = POLLIN };
	for (size_t i = 0; i < count; i++)
		h->poll[i + 1] = (struct pollfd){ .fd = h->connection[i].fd, .events = POLLIN };
	if (poll(h->poll, count + 1, gt_wire_left_ms(next_deadline(h))) < 0)
		return errno == EINTR ? 0 : gt_err_sys(err, "rank 0 cannot wait for the others");
	for (size_t i = 0; i < count && !rc; i++)
		if (h->poll[i + 1].revents)
			rc = read_connection(h, &h->connection[i], err);
	remove_closed(h);
	/* New connections come last: they may move or replace entries of h->connection, which
	 * h->poll refers to by position. */
	if (!rc && h->poll[0].revents)
		rc = accept_connections(h, err);
	return rc;
}

static int late(const struct host *h, struct gt_err *err)
{
	bool missing[GT_WORLD_MAX_RANKS];
	bool refused = false;
	char ranks[GT_RANKS_TEXT];

	for (int rank = 0; rank < h->r->size; rank++) {
		missing[rank] = rank && !find_rank(h, (uint32_t)rank);
		refused |= missing[rank] && h->refusal.code && h->refused == (uint32_t)rank;
	}
	gt_ranks_text(ranks, missing, h->r->size);
	if (refused) {
		*err = h->refusal;
		return gt_err_prefix(err, "%s did not come within %g s", ranks, h->r->timeout_s);
	}
	gt_err_set(err, GT_EIO, "%s did not come within %g s", ranks, h->r->timeout_s);
	if (!gt_world_is_loopback(h->world->address) && gt_world_on_one_host(h->world))
		return gt_err_hint(err,
		    "the variables of %s say that all %d ranks are on this host%s",
		    gt_world_source_name(h->world->source), h->world->size,
		    h->world->source == GT_WORLD_TORCHRUN
		        ? "; LOCAL_WORLD_SIZE is the number of ranks on one host"
		        : "");
	return gt_err_hint(err, "see whether they run and can reach %s:%d; {timeout} waits longer",
	    gt_rendezvous_host(h->world), h->world->port);
}

/* All ranks are admitted: send GO to each, and hand over the connections. */
static int go(struct host *h, struct gt_err *err)
{
	for (size_t i = 0; i < h->count; i++) {
		struct connection *g = &h->connection[i];

		if (g->stage != AT_ADMITTED)
			continue;
		if (gt_wire_send_message(g->fd, GT_WIRE_GO, NULL, 0))
			return name_gone_connection(g, "as", err);
		/* The connection belongs to the rendezvous now: drop_connection() must not close
		 * it. */
		h->r->fd[g->hello.rank] = g->fd;
		g->fd = -1;
	}
	return 0;
}

static int admit_all(struct host *h, struct gt_err *err)
{
	int rc = 0;

	while (!rc && h->admitted < h->r->size - 1) {
		if (gt_clock_s() >= h->deadline)
			rc = late(h, err);
		else
			rc = wait_and_serve(h, err);
	}
	return rc ? rc : go(h, err);
}

int gt_rendezvous_receive_all(struct gt_rendezvous *r, const struct gt_world *world,
    const char *agreement, struct gt_err *err)
{
	struct host h = { .r = r, .world = world, .agreement = agreement, .listener = -1 };
	int rc;

	h.deadline = gt_clock_s() + r->timeout_s;
	/* All ranks can be admitted even while MAX_STRANGERS connections are open. */
	h.capacity = (size_t)r->size + MAX_STRANGERS;
	h.connection = gt_calloc(h.capacity, sizeof(*h.connection), err);
	h.poll = h.connection ? gt_calloc(h.capacity + 1, sizeof(*h.poll), err) : NULL;
	rc = h.poll ? gt_rendezvous_listen(&h.listener, world, err) : err->code;
	if (!rc)
		rc = admit_all(&h, err);
	for (size_t i = 0; i < h.count; i++) {
		/* Strangers learn nothing about the error, except that the connection is closed. */
		if (rc && h.connection[i].stage == AT_ADMITTED && h.connection[i].fd >= 0)
			gt_wire_send_error(h.connection[i].fd, err);
		drop_connection(&h.connection[i]);
	}
	if (h.listener >= 0)
		close(h.listener);
	free(h.poll);
	free(h.connection);
	return rc;
}
