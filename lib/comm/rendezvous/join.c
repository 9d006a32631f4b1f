/* join.c - how a rank other than 0 joins: connect to rank 0, prove its identity, wait. */
#include <errno.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous/messages.h"

struct call {
	const struct gt_world *world;
	const char *agreement;
	double deadline;
	int fd;
	unsigned char hello[GT_WIRE_HELLO];
};

/* Return whether rank 0 may accept a later attempt: it does not listen yet, or closed the
 * connection. */
static bool may_retry(int rc)
{
	return rc == -ECONNRESET || rc == -ECONNREFUSED || rc == -ECONNABORTED;
}

static int fail_stranger(const struct call *c, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the process at %s:%d is not rank 0 of a gtrain job",
	    gt_rendezvous_host(c->world), c->world->port);
	return gt_err_hint(err, "another program has that port: choose another MASTER_PORT");
}

/*
 * Receive the next message, which must be of `kind` and have `size` bytes. Return 0, a negative
 * errno of the connection, or 1 with *err: the peer sent an error, or is not rank 0.
 */
static int expect_message(struct call *c, enum gt_wire_kind kind, unsigned char *body, size_t size,
    double deadline, struct gt_err *err)
{
	unsigned char head[GT_WIRE_HEAD], error[GT_WIRE_MAX_ERROR];
	int rc = gt_wire_receive(c->fd, head, sizeof(head), deadline);
	uint32_t got = gt_wire_get(head), length = gt_wire_get(head + 4);

	if (rc)
		return rc;
	if (got == kind && length == size)
		return size ? gt_wire_receive(c->fd, body, size, deadline) : 0;
	if (got != GT_WIRE_ERROR || length > sizeof(error)) {
		fail_stranger(c, err);
		return 1;
	}
	rc = gt_wire_receive(c->fd, error, length, deadline);
	if (rc)
		return rc;
	gt_wire_read_error(err, error, length);
	if (kind == GT_WIRE_GO) /* an earlier error is rank 0's refusal of this rank */
		gt_err_follow(err);
	return 1;
}

static int send_proof(struct call *c, const unsigned char nonce[GT_WIRE_NONCE])
{
	unsigned char start[GT_WIRE_HEAD + SHA256_DIGEST_SIZE];
	size_t size = strlen(c->agreement);
	int rc;

	gt_wire_put(start, GT_WIRE_PROOF);
	gt_wire_put(start + 4, (uint32_t)(SHA256_DIGEST_SIZE + size));
	gt_wire_proof(
	    start + GT_WIRE_HEAD, "guest", c->world->secret, c->hello, nonce, c->agreement, size);
	rc = gt_wire_send(c->fd, start, sizeof(start), c->deadline);
	return rc ? rc : gt_wire_send(c->fd, c->agreement, size, c->deadline);
}

/* Exchange the messages from the hello to ADMITTED. The result is that of expect_message(). */
static int introduce(struct call *c, struct gt_err *err)
{
	const struct gt_world *w = c->world;
	unsigned char nonce[GT_WIRE_NONCE], theirs[SHA256_DIGEST_SIZE], right[SHA256_DIGEST_SIZE];
	struct gt_hello hello = { GT_WIRE_VERSION, (uint32_t)w->size, (uint32_t)w->rank,
		(uint32_t)w->restart, { 0 } };
	int rc;

	if (gt_wire_nonce(hello.nonce, err))
		return 1;
	gt_hello_write(c->hello, &hello);
	if ((rc = gt_wire_send(c->fd, c->hello, GT_WIRE_HELLO, c->deadline)) ||
	    (rc = expect_message(c, GT_WIRE_CHALLENGE, nonce, GT_WIRE_NONCE, c->deadline, err)) ||
	    (rc = send_proof(c, nonce)) ||
	    (rc = expect_message(c, GT_WIRE_ADMITTED, theirs, sizeof(theirs), c->deadline, err)))
		return rc;
	gt_wire_proof(
	    right, "host", w->secret, c->hello, nonce, c->agreement, strlen(c->agreement));
	if (memeql_sec(theirs, right, SHA256_DIGEST_SIZE))
		return 0;
	gt_err_set(err, GT_EINVAL, "the process at %s:%d does not know the job's secret",
	    gt_rendezvous_host(w), w->port);
	return 1;
}

/* Rank 0 has admitted this rank: wait until it has admitted all others. */
static int await_go(struct call *c, double timeout_s, struct gt_err *err)
{
	double deadline = c->deadline + gt_rendezvous_grace_s(timeout_s);
	int rc = expect_message(c, GT_WIRE_GO, NULL, 0, deadline, err);

	if (rc > 0)
		return err->code;
	if (rc == -ETIMEDOUT)
		return gt_err_set(
		    err, GT_EIO, "rank 0 is there, but not all ranks within %g s", timeout_s);
	errno = -rc;
	if (!rc)
		return 0;
	gt_err_sys(err, "rank 0 is gone before all ranks were there");
	return gt_err_follow(err);
}

/* Connect and introduce this rank once. Return 0 if rank 0 admits it, 1 if trying again is useless,
 * or a negative errno; the last two set *err. */
static int try_once(struct call *c, struct gt_err *err)
{
	int rc;

	if (gt_rendezvous_connect(&c->fd, c->world, c->deadline, err))
		return -ECONNREFUSED;
	rc = introduce(c, err);
	if (rc >= 0)
		return rc;
	errno = -rc;
	gt_err_sys(err, "rank 0 at %s:%d", gt_rendezvous_host(c->world), c->world->port);
	return rc;
}

static void sleep_s(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

	nanosleep(&ts, NULL);
}

/* Try until rank 0 admits this rank: rank 0 may start later. The pause between two attempts grows
 * from 10 ms to half a second. */
static int join_rank_0(struct call *c, double timeout_s, struct gt_err *err)
{
	double pause_s = 0.01;

	for (;;) {
		int rc = try_once(c, err);
		double left_s = c->deadline - gt_clock_s();

		if (!rc)
			return 0;
		if (c->fd >= 0)
			close(c->fd);
		c->fd = -1;
		if (rc > 0)
			return err->code;
		if (!may_retry(rc) || left_s <= 0) {
			gt_err_prefix(err, "no rank 0 within %g s", timeout_s);
			return gt_err_hint(err,
			    "see whether rank 0 runs, and whether it is at the address in %s",
			    gt_world_address_source(c->world));
		}
		sleep_s(pause_s < left_s ? pause_s : left_s);
		pause_s = pause_s < 0.25 ? 2 * pause_s : 0.5;
	}
}

int gt_rendezvous_join(struct gt_rendezvous *r, const struct gt_world *world, const char *agreement,
    struct gt_err *err)
{
	struct call c = { .world = world, .agreement = agreement, .fd = -1 };
	int rc;

	c.deadline = gt_clock_s() + r->timeout_s;
	rc = join_rank_0(&c, r->timeout_s, err);
	if (!rc)
		rc = await_go(&c, r->timeout_s, err);
	if (rc && c.fd >= 0)
		close(c.fd);
	else
		r->fd[0] = c.fd;
	return rc;
}
