/* messages.h - private: the messages and sockets with which ranks find each other over TCP. */
#ifndef GT_COMM_RENDEZVOUS_MESSAGES_H
#define GT_COMM_RENDEZVOUS_MESSAGES_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/comm/rendezvous/rendezvous.h"

/*
 * The host is rank 0. A guest is any other rank, or a process that claims to be one. In a
 * rendezvous (rendezvous.h), they exchange these messages over TCP; all integers are little-endian:
 *
 *   guest                                       host
 *   hello: magic, version, size, rank,
 *          restart, nonce                  -->
 *                                          <--  CHALLENGE: nonce
 *   PROOF: hash, agreement                 -->
 *                                          <--  ADMITTED: hash
 *                                          <--  GO, when all ranks are admitted
 *   DATA: exchange number, bytes           -->
 *                                          <--  DATA: exchange number, bytes of all ranks
 *
 * A nonce is a new random number. An agreement is a text that must be the same on all ranks, with
 * one key and its value in each line. A hash is HMAC-SHA256, with the job's secret as the key, over
 * the word "guest" or "host", the hello, the host's nonce and the agreement.
 *
 * Instead of any of its messages, the host may send ERROR: an error code, a text, a zero byte and a
 * hint. The host sends nothing after this.
 *
 * The hello begins with the magic and the version. Every other message begins with a head: its kind
 * and the length of the rest, 4 bytes each. The head, the magic and the position of the version are
 * the same in all versions of this protocol.
 */
enum {
	GT_WIRE_VERSION = 1,
	/* sizes in bytes */
	GT_WIRE_NONCE = 32,
	GT_WIRE_HELLO = 24 + GT_WIRE_NONCE,
	GT_WIRE_HEAD = 8,
	GT_WIRE_NUMBER = 4, /* the exchange number in DATA */
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

/* Write `value` to p[4], little-endian. */
static inline void gt_wire_put(unsigned char *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(value >> 8 * i);
}

/* Read a little-endian integer from p[4]. */
static inline uint32_t gt_wire_get(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct gt_hello {
	uint32_t version, size, rank, restart; /* `size` is the number of ranks */
	unsigned char nonce[GT_WIRE_NONCE];
};

/* Write a hello as bytes. */
void gt_hello_write(unsigned char out[GT_WIRE_HELLO], const struct gt_hello *hello);

/* Read a hello. Return false if the bytes do not begin with the magic: the sender is not gtrain. */
bool gt_hello_read(struct gt_hello *out, const unsigned char bytes[GT_WIRE_HELLO]);

/* Fill out[] with random bytes from the system. */
int gt_wire_nonce(unsigned char out[GT_WIRE_NONCE], struct gt_err *err);

/* Compute the hash with which `side` ("guest" or "host") proves that it knows the secret. `nonce`
 * is the host's nonce. `agreement` has `size` bytes, without a terminating zero. */
void gt_wire_proof(unsigned char out[SHA256_DIGEST_SIZE], const char *side, const char *secret,
    const unsigned char hello[GT_WIRE_HELLO], const unsigned char nonce[GT_WIRE_NONCE],
    const void *agreement, size_t size);

/*
 * Send or receive exactly `size` bytes on a non-blocking socket. `deadline` is a time of
 * gt_clock_s() (lib/base/clock.h); if it is 0, the functions do not wait at all. They return 0 or a
 * negative errno: -ETIMEDOUT if the deadline has passed, -ECONNRESET if the other side has closed
 * the connection.
 */
int gt_wire_send(int fd, const void *bytes, size_t size, double deadline);
int gt_wire_receive(int fd, void *bytes, size_t size, double deadline);

/* Wait until poll() reports one of `events` for the socket. Return 0 or a negative errno, as
 * gt_wire_send() does. */
int gt_wire_wait(int fd, short events, double deadline);

/* Return the time until the deadline in milliseconds, rounded up, for poll(). It is at most
 * 1000 s. */
int gt_wire_left_ms(double deadline);

/* Send a message with a body of `size` bytes, at most GT_WIRE_MAX_ERROR. Do not wait: if the socket
 * has no space for the message, return a negative errno. */
int gt_wire_send_message(int fd, enum gt_wire_kind kind, const void *body, size_t size);

/* Send an ERROR message as gt_wire_send_message() does, and ignore failures. */
void gt_wire_send_error(int fd, const struct gt_err *error);

/* Read *out from the body of an ERROR message. */
void gt_wire_read_error(struct gt_err *out, const unsigned char *body, size_t size);

enum { GT_RANKS_TEXT = 96 }; /* size of the text of gt_ranks_text(), in bytes */
/* Write a list of ranks to `out`: "rank 3", "ranks 1 and 3" or "ranks 1, 2, 3, 4 and 27 more". Rank
 * r is listed if set[r], 0 <= r < size. Return `out`. */
char *gt_ranks_text(char out[GT_RANKS_TEXT], const bool *set, int size);

/* Compare the agreement of rank 0, `ours`, with the agreement of another rank. If they differ,
 * return GT_EINVAL; the text of the error has the first key whose values differ, and both
 * values. */
int gt_agreement_compare(const char *ours, const char *theirs, int their_rank, struct gt_err *err);

/* On rank 0: open a socket that listens at the address of gt_rendezvous_host() and the world's
 * port. If world->listen_fd is set, use this socket instead. The socket is non-blocking and
 * close-on-exec. *out is -1 on failure. */
int gt_rendezvous_listen(int *out, const struct gt_world *world, struct gt_err *err);

/* On other ranks: open a socket that is connected to rank 0. Try each address of rank 0's host
 * once, until one answers. The socket is non-blocking and close-on-exec. *out is -1 on failure. */
int gt_rendezvous_connect(
    int *out, const struct gt_world *world, double deadline, struct gt_err *err);

/* Set the options of a socket: send small messages at once, close on exec, do not block. Return 0,
 * or -1 with errno. */
int gt_socket_prepare(int fd);

/* Return the host name or address at which rank 0 listens and other ranks connect. */
const char *gt_rendezvous_host(const struct gt_world *world);

/* Return how many seconds longer guests wait than the host. Because they wait longer, they receive
 * the host's error, which names late ranks, before their own time is over. */
static inline double gt_rendezvous_grace_s(double timeout_s)
{
	return timeout_s < 1 ? timeout_s : 1;
}

struct gt_rendezvous {
	int rank, size;
	double timeout_s;
	uint32_t exchanges; /* number of exchanges so far */
	/* [size] sockets: rank 0 has a socket for each guest; guests have only fd[0], to rank 0;
	 * all other elements are -1 */
	int *fd;
	struct gt_err failed; /* the first error; all later exchanges return it */
};

/* The part of gt_rendezvous_meet() for rank 0: accept all guests, and set r->fd. */
int gt_rendezvous_receive_all(struct gt_rendezvous *r, const struct gt_world *world,
    const char *agreement, struct gt_err *err);

/* The part of gt_rendezvous_meet() for other ranks: connect to rank 0, and set r->fd[0]. */
int gt_rendezvous_join(struct gt_rendezvous *r, const struct gt_world *world, const char *agreement,
    struct gt_err *err);

#endif
