/* messages.h - private: the messages and sockets with which ranks find each other over TCP. */
#ifndef GT_COMM_RENDEZVOUS_MESSAGES_H
#define GT_COMM_RENDEZVOUS_MESSAGES_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/comm/rendezvous/rendezvous.h"

/*
 * A peer is a rank other than 0, or a process that claims to be one. Messages over TCP, with
 * little-endian integers:
 *
 *   peer                                        rank 0
 *   hello: magic, version, size, rank,
 *          restart, nonce                  -->
 *                                          <--  CHALLENGE: nonce
 *   PROOF: hash, agreement                 -->
 *                                          <--  ADMITTED: hash
 *                                          <--  GO, when all ranks are admitted
 *   DATA: exchange number, bytes           -->
 *                                          <--  DATA: exchange number, bytes of all ranks
 *
 * A nonce is a new random number. A hash is HMAC-SHA256, with the job's secret as the key, over the
 * word "guest" (sent by a peer) or "host" (sent by rank 0), the hello, rank 0's nonce and the
 * agreement. Instead of any message, rank 0 may send ERROR, its last one: an error code, a text, a
 * zero byte and a hint.
 *
 * Every message except the hello begins with a head: its kind and the length of the rest, 4 bytes
 * each. The head, the magic and the position of the version are the same in all versions.
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
	uint32_t version, size, rank, restart; /* `size` is the number of ranks */
	unsigned char nonce[GT_WIRE_NONCE];
};

void gt_hello_write(unsigned char out[GT_WIRE_HELLO], const struct gt_hello *hello);

/* Return false if the bytes do not begin with the magic: the sender is not gtrain. */
bool gt_hello_read(struct gt_hello *out, const unsigned char bytes[GT_WIRE_HELLO]);

/* Fill out[] with random bytes from the system. */
int gt_wire_nonce(unsigned char out[GT_WIRE_NONCE], struct gt_err *err);

/* Compute the hash that `side` ("guest" or "host") sends. `nonce` is rank 0's. `agreement` has
 * `size` bytes, without a terminating zero. */
void gt_wire_proof(unsigned char out[SHA256_DIGEST_SIZE], const char *side, const char *secret,
    const unsigned char hello[GT_WIRE_HELLO], const unsigned char nonce[GT_WIRE_NONCE],
    const void *agreement, size_t size);

/* Send or receive exactly `size` bytes on a non-blocking socket. `deadline` is a time of
 * gt_clock_s(); 0: do not wait. Return 0 or a negative errno: -ETIMEDOUT after the deadline,
 * -ECONNRESET if the other side has closed the connection. */
int gt_wire_send(int fd, const void *bytes, size_t size, double deadline);
int gt_wire_receive(int fd, void *bytes, size_t size, double deadline);

/* Wait until poll() reports one of `events`. Return values as of gt_wire_send(). */
int gt_wire_wait(int fd, short events, double deadline);

/* Return the milliseconds until the deadline for poll(), rounded up, at most 1000 s. */
int gt_wire_left_ms(double deadline);

/* Send a message with a body of at most GT_WIRE_MAX_ERROR bytes, without waiting. Return 0 or a
 * negative errno. */
int gt_wire_send_message(int fd, enum gt_wire_kind kind, const void *body, size_t size);

/* Send ERROR without waiting; failures are ignored. */
void gt_wire_send_error(int fd, const struct gt_err *error);

/* Read the body of ERROR. */
void gt_wire_read_error(struct gt_err *out, const unsigned char *body, size_t size);

enum { GT_RANKS_TEXT = 96 }; /* bytes of a list of ranks */
/* Write "ranks 1, 2, 3, 4 and 27 more": the ranks r with set[r]. Return `out`. */
char *gt_ranks_text(char out[GT_RANKS_TEXT], const bool *set, int size);

/* Compare rank 0's agreement, `ours`, with another rank's. GT_EINVAL names the first key that
 * differs. */
int gt_agreement_compare(const char *ours, const char *theirs, int their_rank, struct gt_err *err);

/* On rank 0: open the listening socket, or take world->listen_fd. *out is -1 on failure. */
int gt_rendezvous_listen(int *out, const struct gt_world *world, struct gt_err *err);

/* On other ranks: connect to rank 0, trying each address of its host once. *out is -1 on
 * failure. */
int gt_rendezvous_connect(
    int *out, const struct gt_world *world, double deadline, struct gt_err *err);

/* Connect to an address, in two seconds at most. Return the socket, prepared, or -1 with errno. */
int gt_socket_connect(const struct sockaddr *address, socklen_t size, double deadline);

/* Listen at all addresses of this host, IPv4 and IPv6; port 0: the system chooses one. Or listen at
 * any port of the loopback interface. Return the socket, or -1 with errno. */
int gt_socket_listen_all(int port);
int gt_socket_listen_loopback(void);

/* Make a socket non-blocking and close-on-exec, and send small messages at once. Return 0, or -1
 * with errno. */
int gt_socket_prepare(int fd);

/* The host name or address at which rank 0 listens. */
const char *gt_rendezvous_host(const struct gt_world *world);

/* Other ranks wait this much longer than rank 0, so that they receive its error, which names late
 * ranks. */
static inline double gt_rendezvous_grace_s(double timeout_s)
{
	return timeout_s < 1 ? timeout_s : 1;
}

struct gt_rendezvous {
	int rank, size;
	double timeout_s;
	uint32_t exchanges; /* number of exchanges so far */
	/* [size] sockets: rank 0 has one for each other rank, the others only fd[0]; else -1 */
	int *fd;
	struct gt_err failed; /* the first error; all later exchanges return it */
};

/* gt_rendezvous_meet() on rank 0: admit all other ranks, and set r->fd. */
int gt_rendezvous_receive_all(struct gt_rendezvous *r, const struct gt_world *world,
    const char *agreement, struct gt_err *err);

/* gt_rendezvous_meet() on other ranks: be admitted by rank 0, and set r->fd[0]. */
int gt_rendezvous_join(struct gt_rendezvous *r, const struct gt_world *world, const char *agreement,
    struct gt_err *err);

#endif
