/* messages.h - inside comm: the messages of a rendezvous, and sockets with deadlines. */
#ifndef GT_COMM_RENDEZVOUS_MESSAGES_H
#define GT_COMM_RENDEZVOUS_MESSAGES_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/comm/rendezvous/rendezvous.h"

/*
 * On the wire, all numbers little-endian:
 *
 *   guest                                       host (rank 0)
 *   hello: magic, version, size, rank,
 *          restart, nonce                  -->
 *                                          <--  CHALLENGE: nonce
 *   PROOF: hash, agreement                 -->
 *                                          <--  ADMITTED: hash
 *                                          <--  GO, once all are there
 *   DATA: number of the exchange, bytes    -->
 *                                          <--  DATA: number, everybody's bytes
 *
 * A hash is HMAC-SHA256 with the job's secret over "guest" or "host", the hello, the host's nonce
 * and the agreement. Instead of any of its messages the host may send ERROR: a code, a sentence, a
 * zero, a hint, and then nothing more. All but the hello begin with their kind and the length of
 * the rest; this, the magic and the place of the version stay the same in all versions.
 */
enum {
	GT_WIRE_VERSION = 1,
	GT_WIRE_NONCE = 32,
	GT_WIRE_HELLO = 24 + GT_WIRE_NONCE,
	GT_WIRE_HEAD = 8,
	GT_WIRE_NUMBER = 4, /* before the bytes of an exchange */
	GT_WIRE_MAX_PROOF = SHA256_DIGEST_SIZE + GT_RENDEZVOUS_MAX_AGREEMENT,
	GT_WIRE_MAX_ERROR = 4 + sizeof(struct gt_err)
};

enum gt_wire_kind {
	GT_WIRE_CHALLENGE = 1,
	GT_WIRE_PROOF = 2,
	GT_WIRE_ADMITTED = 3,
	GT_WIRE_GO = 4,
	GT_WIRE_ERROR = 5,
	GT_WIRE_DATA = 6
};

static inline void gt_wire_put(unsigned char *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(value >> 8 * i);
}

static inline uint32_t gt_wire_get(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct gt_hello {
	uint32_t version, size, rank, restart;
	unsigned char nonce[GT_WIRE_NONCE];
};

void gt_hello_write(unsigned char out[GT_WIRE_HELLO], const struct gt_hello *hello);

/* Returns false if these are not the first bytes that a rank of gtrain sends. */
bool gt_hello_read(struct gt_hello *out, const unsigned char bytes[GT_WIRE_HELLO]);

/* Get random bytes from the system. */
int gt_wire_nonce(unsigned char out[GT_WIRE_NONCE], struct gt_err *err);

/* The answer by which `side` ("guest" or "host") proves that it knows the secret. */
void gt_wire_prove(unsigned char out[SHA256_DIGEST_SIZE], const char *side, const char *secret,
    const unsigned char hello[GT_WIRE_HELLO], const unsigned char nonce[GT_WIRE_NONCE],
    const void *agreement, size_t size);

/*
 * Send or receive all of `size` bytes on a socket that doesn't block, until the deadline
 * (gt_clock_s()). Returns 0 or a negative errno: -ETIMEDOUT at the deadline, -ECONNRESET when the
 * other side has closed. A deadline of 0 waits for nothing.
 */
int gt_wire_send(int fd, const void *bytes, size_t size, double deadline);
int gt_wire_receive(int fd, void *bytes, size_t size, double deadline);

/* Wait until poll() reports one of `events`. Returns as gt_wire_send() does. */
int gt_wire_wait(int fd, short events, double deadline);

/* Milliseconds until the deadline for poll(), rounded up. */
int gt_wire_left_ms(double deadline);

/* Send a message of at most GT_WIRE_MAX_ERROR bytes, or an error. It is sent at once or not at
 * all. */
int gt_wire_send_message(int fd, enum gt_wire_kind kind, const void *body, size_t size);
void gt_wire_send_error(int fd, const struct gt_err *error);

/* The error in the body of GT_WIRE_ERROR. */
void gt_wire_read_error(struct gt_err *out, const unsigned char *body, size_t size);

/* "rank 3", "ranks 1 and 3", "ranks 1, 2, 3, 4 and 27 more": those of `size` that are set. */
enum { GT_RANKS_TEXT = 96 };
char *gt_ranks_text(char out[GT_RANKS_TEXT], const bool *set, int size);

/* Compare agreements. GT_EINVAL with the first key that differs and both values. */
int gt_agreement_compare(const char *ours, const char *theirs, int their_rank, struct gt_err *err);

/* Open a socket, close-on-exec and non-blocking. On rank 0, it listens at the world's address. On
 * other ranks, it is connected to rank 0; all its addresses are tried once. *out is -1 on failure.
 */
int gt_rendezvous_listen(int *out, const struct gt_world *world, struct gt_err *err);
int gt_rendezvous_connect(
    int *out, const struct gt_world *world, double deadline, struct gt_err *err);

/* Set a socket's options: send small messages at once, close on exec, do not block. */
int gt_socket_prepare(int fd);

/* The host name or address at which ranks look for rank 0. */
const char *gt_rendezvous_host(const struct gt_world *world);

/* Other ranks wait for this time longer than rank 0, so that they receive its error with the names
 * of late ranks. */
static inline double gt_rendezvous_grace_s(double timeout_s)
{
	return timeout_s < 1 ? timeout_s : 1;
}

struct gt_rendezvous {
	int rank, size;
	double timeout_s;
	uint32_t exchanges;
	/* [size]: rank 0 has all sockets, other ranks have only [0]; other elements are -1 */
	int *fd;
	struct gt_err failed; /* the error that ended it */
};

/* The two sides of the meeting: each sets r->fd. */
int gt_rendezvous_receive_all(struct gt_rendezvous *r, const struct gt_world *world,
    const char *agreement, struct gt_err *err);
int gt_rendezvous_join(struct gt_rendezvous *r, const struct gt_world *world, const char *agreement,
    struct gt_err *err);

#endif
