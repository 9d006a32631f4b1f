/* state.h - private: the state that a rank keeps for a group on MPI, and its messages. */
#ifndef GT_COMM_MPI_STATE_H
#define GT_COMM_MPI_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/mpi/calls.h"
#include "lib/comm/mpi/mpi.h"

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
	GT_MPI_HOST_BYTES = 64, /* bytes of a host name */
	/* Bytes of data in an announcement, which stays below the 4 KiB that Open MPI sends without
	 * waiting for the receiver (btl_vader_eager_limit). */
	GT_MPI_ANNOUNCEMENT_BYTES = 3 * 1024,
	GT_MPI_HEADER_BYTES = 16 * 1024 /* bytes of data in a header */
};

struct gt_mpi {
	const struct gt_mpi_calls *calls;
	int rank, size, tag_max; /* from calls->init() */
	/* A group's MPI tags are computed from its context; this is the lowest unused context. */
	int next_context;
	bool finished;    /* MPI has been finalized */
	bool knows_hosts; /* the ranks have exchanged host names */
	/* [size]; NULL: one host, or knows_hosts is false */
	char (*hosts)[GT_MPI_HOST_BYTES];
};

/* Messages with the same tag arrive in the order in which they were sent. */
enum gt_mpi_tag {
	GT_MPI_TAG_NOTICE,
	GT_MPI_TAG_ANNOUNCEMENT,
	GT_MPI_TAG_SLICE,
	GT_MPI_TAG_RESULT,
	GT_MPI_TAG_HEADER,
	GT_MPI_TAG_BODY,
	GT_MPI_TAGS
};

struct gt_mpi_announcement {
	struct gt_group_call call;
	unsigned char data[GT_MPI_ANNOUNCEMENT_BYTES];
};

struct gt_mpi_header {
	struct gt_group_call call;
	unsigned char data[GT_MPI_HEADER_BYTES];
};

/* Sent to all once. A notice of leaving has no `text` and `hint`: within a host, Open MPI delivers
 * only about 200 bytes if the receiver does not poll. */
struct gt_mpi_notice {
	int32_t rank, code; /* sender; its error, 0: it has left */
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

/* A message that is being sent or received. */
struct gt_mpi_transfer {
	struct gt_mpi_request request;
	int peer;
	bool receives; /* from `peer`; else sends to `peer` */
	bool active;   /* the request has not ended */
};

/* Messages that gt_mpi_await() waits for. */
struct gt_mpi_set {
	struct gt_mpi_transfer *transfers; /* [2 * size] */
	int count;
};

/* The last header to one rank, which MPI may still be sending. */
struct gt_mpi_last_header {
	struct gt_mpi_header *header; /* NULL until the first is sent */
	struct gt_mpi_set set;        /* holds only `transfer` */
	struct gt_mpi_transfer transfer;
};

/* Indices into gt_mpi_group.sets. Slices and results have two each, for even and odd pieces. */
enum {
	GT_MPI_SET_MEETING, /* announcements, bodies, received headers */
	GT_MPI_SET_SLICES,
	GT_MPI_SET_RESULTS = GT_MPI_SET_SLICES + 2,
	GT_MPI_SETS = GT_MPI_SET_RESULTS + 2
};

struct gt_mpi_group {
	struct gt_group group;
	struct gt_mpi *mpi;
	int context; /* its MPI tags are computed from this */
	int *ranks;  /* [size]: MPI's number of each rank */
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

	struct gt_mpi_announcement *out, *in; /* [size] */
	/* [2][size][staging_part]: received slices of even and odd pieces; NULL: not needed yet */
	unsigned char *staging;
	size_t staging_part;               /* bytes */
	struct gt_mpi_transfer *transfers; /* memory of all sets */
	struct gt_mpi_set sets[GT_MPI_SETS];
	struct gt_mpi_last_header *last_headers; /* [size] */
	/* receive buffer of headers; NULL: not needed yet */
	struct gt_mpi_header *header;

	struct gt_mpi_notice inbox; /* receive buffer of notices */
	struct gt_mpi_request inbox_request;
	struct gt_err failed; /* the first error of any rank */

	void **regions; /* memory from gt_group_alloc() */
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* true: all waits give up */
	struct gt_queue queue;
};

/* ---- mpi/open.c ---- */

/* Set *err to "MPI cannot DOING: " and MPI's text for `error`. */
int gt_mpi_error(struct gt_mpi *mpi, int error, const char *doing, struct gt_err *err);

/* ---- mpi/wait.c: messages, deadlines and failing together ---- */

/* Start to send or receive the bytes at `p`, which must stay until gt_mpi_await() returns for the
 * set. */
int gt_mpi_send(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, const void *p,
    size_t bytes, enum gt_mpi_tag tag, struct gt_err *err);
int gt_mpi_receive(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, void *p, size_t bytes,
    enum gt_mpi_tag tag, struct gt_err *err);

int gt_mpi_await(struct gt_mpi_group *g, struct gt_mpi_set *set, struct gt_err *err);

/* Fail all ranks with *err, or set *err to the error of a rank that failed before. Returns
 * err->code. */
int gt_mpi_fail(struct gt_mpi_group *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_mpi_check(struct gt_mpi_group *g, struct gt_err *err);

/* Implements gt_group_check_peers(). */
int gt_mpi_check_peers(struct gt_mpi_group *g, bool *gone, struct gt_err *err);

/* Begin to receive notices. */
int gt_mpi_listen(struct gt_mpi_group *g, struct gt_err *err);

/* Cancel all messages that have not ended; with `notify`, tell the other ranks. */
void gt_mpi_leave(struct gt_mpi_group *g, bool notify);

/* ---- mpi/collectives.c, mpi/message.c: the calls ---- */

int gt_mpi_collect(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);

/* Implements gt_group_check_calls(). */
int gt_mpi_check_calls(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);

/* Run GT_SEND or GT_RECV. Without `data`, only the calls are compared. */
int gt_mpi_message(
    struct gt_mpi_group *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
