/* state.h - private: connections of a rank with all others, and the frames that they carry. */
#ifndef GT_COMM_TCP_STATE_H
#define GT_COMM_TCP_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/tcp/tcp.h"

/*
 * A connection carries frames in both directions. A frame has a head of four little-endian numbers
 * of 4 bytes: its kind, a tag, the number of bytes of a message, and the sender's id for it.
 *
 *   sender                              receiver
 *   WHOLE: tag, bytes, the message  -->                      a short message
 *
 *   ASK: tag, bytes, id             -->                      a longer one
 *                                   <-- GRANT: id            a receive waits for it
 *   DATA: bytes, id, the message    -->                      read into the receiver's buffer
 *
 * So a rank keeps only short messages for which no receive waits yet. Two more frames find the rank
 * that keeps the others waiting (late.c):
 *
 *   LATE                            -->                      a rank is late
 *                                   <-- AWAITS: tag          the rank that I wait for, or -1
 */
enum {
	GT_TCP_HEAD = 16,         /* bytes */
	GT_TCP_SHORT = 32 * 1024, /* bytes of the longest short message */
	GT_TCP_INPUT = 32 * 1024, /* bytes of a connection's input buffer */
	GT_TCP_EARLY = 256 << 20  /* the most bytes of early messages of a connection */
};

enum gt_tcp_kind {
	GT_TCP_WHOLE = 1,
	GT_TCP_ASK,
	GT_TCP_GRANT,
	GT_TCP_DATA,
	GT_TCP_LATE,
	GT_TCP_AWAITS
};

/* A frame to be sent. */
struct gt_tcp_frame {
	struct gt_tcp_frame *next;
	enum gt_tcp_kind kind;
	unsigned char head[GT_TCP_HEAD];
	const unsigned char *body;
	size_t bytes, sent; /* of the body; of head and body so far */
};

/* A message that is being sent or received; its place in memory does not change. */
struct gt_tcp_request {
	struct gt_tcp_request *next; /* in the list that it is in, if any */
	struct gt_tcp_frame frame;   /* the frame that is sent for it now */
	bool receives, done;
	bool forgotten;   /* nobody tests it any more: it is freed when it is done */
	int peer, tag;    /* peer -1: a receive from any rank */
	unsigned char *p; /* NULL: the bytes are dropped */
	size_t bytes;     /* of the buffer; of a receive that is granted: of the message */
	uint32_t id;      /* the sender's */
	void *copy;       /* the rest of a message that was forgotten; owned */
};

struct gt_tcp_requests {
	struct gt_tcp_request *first, **last;
};

/* A message for which no receive waited. */
struct gt_tcp_early {
	struct gt_tcp_early *next;
	int peer, tag;
	bool asks;  /* a longer message, whose bytes were not sent */
	bool whole; /* all bytes have come */
	uint32_t id;
	size_t bytes;
	unsigned char data[];
};

struct gt_tcp_connection {
	int fd;            /* -1: lost, or this rank itself */
	int lost;          /* errno, or -1 for the end of the stream; 0: not lost */
	double look_at;    /* when to ask the kernel next whether the peer still answers */
	bool answered;     /* the peer has answered LATE */
	int awaits;        /* with this rank */
	bool wants_output; /* epoll reports when the socket can be written */
	struct gt_tcp_frame *first, **last; /* frames to be sent */
	/* sends that wait for GRANT, and receives that wait for DATA */
	struct gt_tcp_requests asked, granted;

	/* The body that is being read: of a request, or of an early message. */
	struct gt_tcp_request *reads;
	struct gt_tcp_early *reads_early;
	size_t early_bytes;   /* memory of the early messages of this connection */
	size_t got, left;     /* bytes of the body */
	unsigned char *input; /* [GT_TCP_INPUT] */
	size_t from, to;      /* the bytes that are not parsed yet */
};

struct gt_tcp {
	struct gt_messenger messenger;
	struct gt_tcp_connection *connections; /* [size] */
	int epoll;

	pthread_mutex_t lock; /* of all below, and of the connections */
	pthread_cond_t moved; /* signalled by the thread that polls when it has moved messages */
	bool polling;
	uint32_t ids;
	struct gt_msg_wait *waits;     /* of this process */
	struct gt_tcp_requests posted; /* receives without a message */
	struct gt_tcp_early *early, **early_last;
};

/* ---- messenger.c ---- */

/* Make a messenger without connections. */
int gt_tcp_new(struct gt_tcp **out, int rank, int size, struct gt_err *err);

/* All connections are set: begin to watch them. */
int gt_tcp_watch(struct gt_tcp *t, struct gt_err *err);

/* ---- connection.c: the caller holds the lock ---- */

void gt_tcp_requests_init(struct gt_tcp_requests *list);
void gt_tcp_requests_add(struct gt_tcp_requests *list, struct gt_tcp_request *r);
/* Return false if it was not in the list. */
bool gt_tcp_requests_remove(struct gt_tcp_requests *list, struct gt_tcp_request *r);

/* A request is done: free it if it was forgotten. */
void gt_tcp_done(struct gt_tcp_request *r);

/* Queue r->frame, whose body is r->p for WHOLE and DATA, and send as much as can be sent now. */
void gt_tcp_send_frame(struct gt_tcp *t, struct gt_tcp_request *r, int peer, enum gt_tcp_kind kind);

/* Free an early message, which is in no list any more. */
void gt_tcp_free_early(struct gt_tcp *t, struct gt_tcp_early *early);

/* A receive takes the message of an ASK. */
void gt_tcp_grant(struct gt_tcp *t, struct gt_tcp_request *r, int peer, size_t bytes, uint32_t id);

/* Send or receive what can be sent or received now. */
void gt_tcp_write(struct gt_tcp *t, int peer);
void gt_tcp_read(struct gt_tcp *t, int peer);

/* Close a connection. Sends to this rank end, receives from it do not. */
void gt_tcp_lose(struct gt_tcp *t, int peer, int error);

/* ---- late.c: all but gt_tcp_find_late() are called with the lock ---- */

/* Answer LATE, and take an answer. */
void gt_tcp_answer_late(struct gt_tcp *t, int peer);
int gt_tcp_take_awaits(struct gt_tcp *t, int peer, int awaited);

/* End the connection if the peer's host has not acknowledged anything for too long. */
void gt_tcp_look_at(struct gt_tcp *t, int peer);

/* Acknowledgements are asked for while nothing is sent. */
void gt_tcp_keep_alive(int fd);

/* They implement functions of the messenger. */
void gt_tcp_begin_wait(struct gt_messenger *m, struct gt_msg_wait *wait);
void gt_tcp_end_wait(struct gt_messenger *m, struct gt_msg_wait *wait);
int gt_tcp_find_late(struct gt_messenger *m, int rank);

/* ---- addresses.c ---- */

/* An address at which a rank listens. */
struct gt_tcp_address {
	uint8_t family;    /* 4 or 6 */
	uint8_t bytes[16]; /* of IPv4, the first four */
};

enum { GT_TCP_ADDRESSES = 8 };

/* Find the addresses at which other hosts may reach this one, the most likely first. Return their
 * number, at least 1, or an error. */
int gt_tcp_addresses(struct gt_tcp_address out[GT_TCP_ADDRESSES],
    const struct gt_tcp_options *options, struct gt_err *err);

#endif
