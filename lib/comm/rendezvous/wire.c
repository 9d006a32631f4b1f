/* wire.c - the messages of a rendezvous, as bytes. */
#include <errno.h>
#include <nettle/hmac.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous/messages.h"

/* Magic and version keep their places in all versions, so that rank 0 can name a rank of another
 * version. */
static const char magic[8] = { 'g', 't', 'r', 'a', 'i', 'n', 'R', 'V' };

void gt_hello_write(unsigned char out[GT_WIRE_HELLO], const struct gt_hello *hello)
{
	memcpy(out, magic, sizeof(magic));
	gt_wire_put(out + 8, hello->version);
	gt_wire_put(out + 12, hello->size);
	gt_wire_put(out + 16, hello->rank);
	gt_wire_put(out + 20, hello->restart);
	memcpy(out + 24, hello->nonce, GT_WIRE_NONCE);
}

bool gt_hello_read(struct gt_hello *out, const unsigned char bytes[GT_WIRE_HELLO])
{
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return false;
	out->version = gt_wire_get(bytes + 8);
	out->size = gt_wire_get(bytes + 12);
	out->rank = gt_wire_get(bytes + 16);
	out->restart = gt_wire_get(bytes + 20);
	memcpy(out->nonce, bytes + 24, GT_WIRE_NONCE);
	return true;
}

int gt_wire_nonce(unsigned char out[GT_WIRE_NONCE], struct gt_err *err)
{
	ssize_t n;

	do
		n = getrandom(out, GT_WIRE_NONCE, 0);
	while (n < 0 && errno == EINTR);
	return n == GT_WIRE_NONCE ? 0 : gt_err_sys(err, "no random numbers");
}

void gt_wire_proof(unsigned char out[SHA256_DIGEST_SIZE], const char *side, const char *secret,
    const unsigned char hello[GT_WIRE_HELLO], const unsigned char nonce[GT_WIRE_NONCE],
    const void *agreement, size_t size)
{
	/* "guest" and "host" make the two proofs differ: otherwise rank 0 could be deceived by its
	 * own answer, sent back to it. The hello holds the peer's nonce, so both nonces are
	 * covered. */
	struct hmac_sha256_ctx hmac;

	hmac_sha256_set_key(&hmac, strlen(secret), (const uint8_t *)secret);
	hmac_sha256_update(&hmac, strlen(side) + 1, (const uint8_t *)side);
	hmac_sha256_update(&hmac, GT_WIRE_HELLO, hello);
	hmac_sha256_update(&hmac, GT_WIRE_NONCE, nonce);
	hmac_sha256_update(&hmac, size, agreement);
	hmac_sha256_digest(&hmac, SHA256_DIGEST_SIZE, out);
	/* The context holds a key derived from the secret. */
	explicit_bzero(&hmac, sizeof(hmac));
}

int gt_wire_left_ms(double deadline)
{
	double left_ms = 1e3 * (deadline - gt_clock_s());

	/* Rounding down would make poll() return just before the deadline, several times. Long
	 * waits are cut to 1000 s so that they fit an int; callers loop. */
	return left_ms <= 0 ? 0 : left_ms > 1e6 ? 1000000 : (int)left_ms + 1;
}

int gt_wire_wait(int fd, short events, double deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	for (;;) {
		int left_ms = gt_wire_left_ms(deadline);

		n = poll(&p, 1, left_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!left_ms)
			return -ETIMEDOUT;
	}
}

/* Handle a call that moved no byte: errno says why. */
static int go_on(int fd, short events, double deadline)
{
	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return errno == EPIPE ? -ECONNRESET : -errno;
	return gt_wire_wait(fd, events, deadline);
}

int gt_wire_send(int fd, const void *bytes, size_t size, double deadline)
{
	const unsigned char *p = bytes;
	int rc = 0;

	while (size && !rc) {
		/* MSG_NOSIGNAL: a closed connection is an error here, not a SIGPIPE for the whole
		 * program. */
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0) {
			rc = go_on(fd, POLLOUT, deadline);
			continue;
		}
		p += n;
		size -= (size_t)n;
	}
	return rc;
}

int gt_wire_receive(int fd, void *bytes, size_t size, double deadline)
{
	unsigned char *p = bytes;
	int rc = 0;

	while (size && !rc) {
		ssize_t n = recv(fd, p, size, MSG_DONTWAIT);

		if (n == 0)
			return -ECONNRESET;
		if (n < 0) {
			rc = go_on(fd, POLLIN, deadline);
			continue;
		}
		p += n;
		size -= (size_t)n;
	}
	return rc;
}

int gt_wire_send_message(int fd, enum gt_wire_kind kind, const void *body, size_t size)
{
	unsigned char bytes[GT_WIRE_HEAD + GT_WIRE_MAX_ERROR];

	gt_wire_put(bytes, kind);
	gt_wire_put(bytes + 4, (uint32_t)size);
	if (size)
		memcpy(bytes + GT_WIRE_HEAD, body, size);
	/* A deadline of 0: the socket's buffer has space for these few bytes unless the peer does
	 * not read, and rank 0 must not wait for such a peer. */
	return gt_wire_send(fd, bytes, GT_WIRE_HEAD + size, 0);
}

/* A failure is ignored: the peer may have closed its connection. */
void gt_wire_send_error(int fd, const struct gt_err *error)
{
	unsigned char body[GT_WIRE_MAX_ERROR];
	size_t text = strlen(error->text) + 1, hint = strlen(error->hint);

	gt_wire_put(body, (uint32_t)-error->code);
	memcpy(body + 4, error->text, text);
	memcpy(body + 4 + text, error->hint, hint);
	(void)gt_wire_send_message(fd, GT_WIRE_ERROR, body, 4 + text + hint);
}

void gt_wire_read_error(struct gt_err *out, const unsigned char *body, size_t size)
{
	uint32_t code = size > 4 ? gt_wire_get(body) : 0;
	/* The bytes come from another process: an unknown code must not become a success or an
	 * index. */
	bool known = code >= 1 && code <= (uint32_t)-GT_EDIVERGED;
	const char *text = (const char *)body + 4;
	size_t left = size > 4 ? size - 4 : 0, length = strnlen(text, left);

	gt_err_set(out, known ? -(int)code : GT_EIO, "%.*s", (int)length, text);
	if (length + 1 < left)
		gt_err_hint(out, "%.*s", (int)(left - length - 1), text + length + 1);
}

char *gt_ranks_text(char out[GT_RANKS_TEXT], const bool *set, int size)
{
	int count = 0, said = 0, max;
	size_t n;

	for (int rank = 0; rank < size; rank++)
		count += set[rank];
	/* Up to six numbers are listed in full, else four and a count: "and 1 more" would be no
	 * shorter. */
	max = count > 6 ? 4 : count;
	n = (size_t)snprintf(out, GT_RANKS_TEXT, count == 1 ? "rank" : "ranks");
	for (int rank = 0; rank < size && said < max; rank++) {
		if (!set[rank])
			continue;
		n += (size_t)snprintf(out + n, GT_RANKS_TEXT - n, "%s %d",
		    !said                             ? ""
		    : said == max - 1 && max == count ? " and"
		                                      : ",",
		    rank);
		said++;
	}
	if (max < count)
		snprintf(out + n, GT_RANKS_TEXT - n, " and %d more", count - max);
	return out;
}
