/* state.h - private: the state that a rank keeps for a group over messages. */
#ifndef GT_COMM_MESSAGES_STATE_H
#define GT_COMM_MESSAGES_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/messages/messages.h"

/*
 * A large buffer is cut into pieces, and each piece into one slice per rank. Kinds of messages:
 *
 *   notice         a rank has failed or left
 *   announcement   starts a collective: the call, and the data if they fit
 *   slice          a slice of a piece, for the rank that reduces or receives it
 *   result         a reduced slice; in an all-gather or a broadcast, a part of the result
 *   header         starts a message of GT_SEND: the call, and the data if they fit
 *   body           a piece of the data of a longer GT_SEND
 */

enum {
	/* Bytes of data in an announcement, which stays below the 4 KiB that Open MPI sends without
	 * waiting for the receiver (btl_vader_eager_limit). */
	GT_MSG_ANNOUNCEMENT_BYTES = 3 * 1024,
	GT_MSG_HEADER_BYTES = 16 * 1024 /* bytes of data in a header */
};

enum gt_msg_tag {
	GT_MSG_TAG_NOTICE,
	GT_MSG_TAG_ANNOUNCEMENT,
	GT_MSG_TAG_SLICE,
	GT_MSG_TAG_RESULT,
	GT_MSG_TAG_HEADER,
	GT_MSG_TAG_BODY,
	GT_MSG_TAGS
};

struct gt_msg_announcement {
	struct gt_group_call call;
	unsigned char data[GT_MSG_ANNOUNCEMENT_BYTES];
};

struct gt_msg_header {
	struct gt_group_call call;
	unsigned char data[GT_MSG_HEADER_BYTES];
};

/* Sent to all once. A notice of leaving has no `text` and `hint`: within a host, Open MPI delivers
 * only about 200 bytes if the receiver does not poll. */
struct gt_msg_notice {
	int32_t rank, code; /* sender; its error, 0: it has left */
	int32_t lost;       /* gt_err.lost */
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

/* A message that is being sent or received. */
struct gt_msg_transfer {
	struct gt_msg_request request;
	int peer;
	bool receives; /* from `peer`; else sends to `peer` */
	bool active;   /* the request has not ended */
};

/* Messages that gt_msg_await() waits for. */
struct gt_msg_set {
	struct gt_msg_transfer *transfers; /* [2 * size] */
	int count;
};

/* The last header to one rank, which may still be on its way. */
struct gt_msg_last_header {
	struct gt_msg_header *header; /* NULL until the first is sent */
	struct gt_msg_set set;        /* holds only `transfer` */
	struct gt_msg_transfer transfer;
};

/* Indices into gt_msg_group.sets. Slices and results have two each, for even and odd pieces. */
enum {
	GT_MSG_SET_MEETING, /* announcements, bodies, received headers */
	GT_MSG_SET_SLICES,
	GT_MSG_SET_RESULTS = GT_MSG_SET_SLICES + 2,
	GT_MSG_SETS = GT_MSG_SET_RESULTS + 2
};

struct gt_msg_group {
	struct gt_group group;
	struct gt_group_ops ops; /* with the messenger's name */
	struct gt_messenger *messenger;
	int context; /* its tags are computed from this */
	int *ranks;  /* [size]: the messenger's number of each rank */
	double timeout_s;
	double spin_s;      /* the time that a wait polls without pauses */
	size_t piece_bytes; /* bytes per piece of a buffer */

	uint64_t number;           /* number of collectives so far */
	struct gt_group_call call; /* the current collective or message */
	/* met: the latest collective, never a message; last: the one before */
	struct gt_group_call met, last;
	bool begun;                /* all ranks have begun the current collective */
	uint64_t *sent, *received; /* [size]: messages to and from each rank */
	bool *left;                /* [size]: the rank has left */

	struct gt_msg_announcement *out, *in; /* [size] */
	/* [2][size][staging_part]: received slices of even and odd pieces; NULL: not needed yet */
	unsigned char *staging;
	size_t staging_part;               /* bytes */
	struct gt_msg_transfer *transfers; /* memory of all sets */
	struct gt_msg_set sets[GT_MSG_SETS];
	struct gt_msg_last_header *last_headers; /* [size] */
	/* receive buffer of headers; NULL: not needed yet */
	struct gt_msg_header *header;

	struct gt_msg_notice inbox; /* receive buffer of notices */
	struct gt_msg_request inbox_request;
	struct gt_err failed; /* the first error of any rank */

	void **regions; /* memory from gt_group_alloc() */
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* true: all waits give up */
	struct gt_queue queue;
};

/* ---- messages/wait.c: messages, deadlines and failing together ---- */

/* Start to send or receive the bytes at `p`, which must stay until gt_msg_await() returns for the
 * set. */
int gt_msg_send(struct gt_msg_group *g, struct gt_msg_set *set, int peer, const void *p,
    size_t bytes, enum gt_msg_tag tag, struct gt_err *err);
int gt_msg_receive(struct gt_msg_group *g, struct gt_msg_set *set, int peer, void *p, size_t bytes,
    enum gt_msg_tag tag, struct gt_err *err);

int gt_msg_await(struct gt_msg_group *g, struct gt_msg_set *set, struct gt_err *err);

/* Write "rank 2", or "rank 2 on host b" where there are several, and return `out`. */
enum { GT_MSG_RANK_NAME = GT_MSG_HOST_BYTES + 32 };
const char *gt_msg_rank_name(char out[GT_MSG_RANK_NAME], const struct gt_messenger *m, int rank);

/* Fail all ranks with *err, or set *err to the error of a rank that failed before. Returns
 * err->code. */
int gt_msg_fail(struct gt_msg_group *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_msg_check(struct gt_msg_group *g, struct gt_err *err);

/* Implements gt_group_check_peers(). */
int gt_msg_check_peers(struct gt_msg_group *g, bool *gone, struct gt_err *err);

/* Begin to receive notices. */
int gt_msg_listen(struct gt_msg_group *g, struct gt_err *err);

/* Cancel all messages that have not ended; with `notify`, tell the other ranks. */
void gt_msg_leave(struct gt_msg_group *g, bool notify);

/* ---- messages/collectives.c, messages/message.c: the calls ---- */

int gt_msg_collect(struct gt_msg_group *g, const struct gt_collective *c, struct gt_err *err);

/* Implements gt_group_check_calls(). */
int gt_msg_check_calls(struct gt_msg_group *g, const struct gt_collective *c, struct gt_err *err);

/* Run GT_SEND or GT_RECV. Without `data`, only the calls are compared. */
int gt_msg_message(
    struct gt_msg_group *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
